/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that knows only BLAS and LAPACK and is linked with -ltileblas alone: sgemm comes from TileBLAS, all the
 * rest from the OpenBLAS that the development name pulls in. Whole numbers, so every answer is exact. Prints "products
 * N".
 */
#include <cblas.h>
#include <stdio.h>

#define N 37

extern void sgetrf_(const int *m, const int *n, float *a, const int *lda, int *pivots, int *info);

static float a[N * N], b[N * N], c[N * N];

static int check_product(void) {
  for (int i = 0; i < N * N; i++) a[i] = (float)(i % 7 - 3), b[i] = (float)(i % 5 - 2), c[i] = 1;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, N, N, N, 2, a, N, b, N, -1, c, N);
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      float sum = 0;
      for (int l = 0; l < N; l++) sum += a[i * N + l] * b[j * N + l];
      if (c[i * N + j] != 2 * sum - 1) return 0;
    }
  return 1;
}

static int check_others(void) {
  cblas_saxpy(N, 2, a, 1, b, 1);
  for (int i = 0; i < N; i++)
    if (b[i] != (float)(i % 5 - 2) + 2 * (float)(i % 7 - 3)) return 0;
  float lu[4] = {4, 2, 2, 5};
  int two = 2, pivots[2], info;
  sgetrf_(&two, &two, lu, &two, pivots, &info);
  return info == 0 && lu[0] == 4 && lu[1] == 0.5f && lu[3] == 4;
}

int main(void) {
  if (!check_product() || !check_others()) {
    puts("wrong");
    return 1;
  }
  puts("products 1");
  return 0;
}
