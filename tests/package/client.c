/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program as users write them: one routine that TileBLAS implements, and two that it leaves to the CPU BLAS. Knows
 * nothing of TileBLAS. Exits with 1 when an answer is wrong; every number here is exact in float32.
 */
#include <cblas.h>
#include <stdio.h>

extern void sgetrf_(const int *m, const int *n, float *a, const int *lda, int *pivots, int *info);

static int same(const char *what, const float *x, const float *expected, int n) {
  for (int i = 0; i < n; i++) {
    if (!(x[i] == expected[i])) {
      printf("%s: element %d is %g, expected %g\n", what, i, (double)x[i], (double)expected[i]);
      return 0;
    }
  }
  return 1;
}

int main(void) {
  const float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8};
  float c[4] = {0, 0, 0, 0};
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 2, 2, 2, 1.0f, a, 2, b, 2, 0.0f, c, 2);
  int right = same("cblas_sgemm", c, (const float[4]){19, 22, 43, 50}, 4);

  cblas_saxpy(4, 2.0f, a, 1, c, 1);
  right &= same("cblas_saxpy", c, (const float[4]){21, 26, 49, 58}, 4);

  float lu[4] = {4, 2, 8, 6}; /* column-major; L = [1 0; 1/2 1], U = [4 8; 0 2] */
  int n = 2, pivots[2], info;
  sgetrf_(&n, &n, lu, &n, pivots, &info);
  right &= info == 0 && same("sgetrf_", lu, (const float[4]){4, 0.5f, 8, 2}, 4);
  return right ? 0 : 1;
}
