/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that knows only BLAS and LAPACK and is linked with -ltileblas alone: its products come from TileBLAS, all
 * the rest from the OpenBLAS that the development name pulls in. Whole numbers, so every answer is exact. Prints a line
 * "products ROUTINE N" for each type.
 */
#include <cblas.h>
#include <complex.h>
#include <stdio.h>

#define N 37

extern void sgetrf_(const int *m, const int *n, float *a, const int *lda, int *pivots, int *info);

static int a_at(int i) { return i % 7 - 3; }
static int b_at(int i) { return i % 5 - 2; }

/* An element of A B'. */
static int sum(int i, int j) {
  int result = 0;
  for (int l = 0; l < N; l++) result += a_at(i * N + l) * b_at(j * N + l);
  return result;
}

static int check_sgemm(void) {
  static float a[N * N], b[N * N], c[N * N];
  for (int i = 0; i < N * N; i++) a[i] = (float)a_at(i), b[i] = (float)b_at(i), c[i] = 1;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, N, N, N, 2, a, N, b, N, -1, c, N);
  for (int i = 0; i < N * N; i++)
    if (c[i] != (float)(2 * sum(i / N, i % N) - 1)) return 0;
  return 1;
}

/* 2^30 (A B') - 1 has more digits than a float. */
static int check_dgemm(void) {
  static double a[N * N], b[N * N], c[N * N];
  for (int i = 0; i < N * N; i++) a[i] = a_at(i), b[i] = b_at(i), c[i] = 1;
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, N, N, N, 0x1p30, a, N, b, N, -1, c, N);
  for (int i = 0; i < N * N; i++)
    if (c[i] != 0x1p30 * sum(i / N, i % N) - 1) return 0;
  return 1;
}

/* A + i A with the conjugate of B + 2 i B: A B' (1 + i) (1 - 2 i). */
static int check_zgemm(void) {
  static double complex a[N * N], b[N * N], c[N * N];
  const double complex alpha = 2 + I, beta = I;
  for (int i = 0; i < N * N; i++) a[i] = (1 + I) * a_at(i), b[i] = (1 + 2 * I) * b_at(i), c[i] = 1;
  cblas_zgemm(CblasRowMajor, CblasNoTrans, CblasConjTrans, N, N, N, &alpha, a, N, b, N, &beta, c, N);
  for (int i = 0; i < N * N; i++)
    if (c[i] != alpha * (3 - I) * sum(i / N, i % N) + I) return 0;
  return 1;
}

static int check_others(void) {
  float a[N], b[N];
  for (int i = 0; i < N; i++) a[i] = (float)a_at(i), b[i] = (float)b_at(i);
  cblas_saxpy(N, 2, a, 1, b, 1);
  for (int i = 0; i < N; i++)
    if (b[i] != (float)(b_at(i) + 2 * a_at(i))) return 0;
  float lu[4] = {4, 2, 2, 5};
  int two = 2, pivots[2], info;
  sgetrf_(&two, &two, lu, &two, pivots, &info);
  return info == 0 && lu[0] == 4 && lu[1] == 0.5f && lu[3] == 4;
}

int main(void) {
  if (!check_sgemm() || !check_dgemm() || !check_zgemm() || !check_others()) {
    puts("wrong");
    return 1;
  }
  puts("products sgemm 1\nproducts dgemm 1\nproducts zgemm 1");
  return 0;
}
