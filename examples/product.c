/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that knows only the CPU BLAS. cblas_sgemm is answered by TileBLAS, cblas_saxpy by the CPU BLAS. */
#include <cblas.h>
#include <stdio.h>

int main(void) {
  const float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8};
  float c[4] = {0, 0, 0, 0};
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 2, 2, 2, 1.0f, a, 2, b, 2, 0.0f, c, 2);
  cblas_saxpy(4, 2.0f, a, 1, c, 1); /* c = a b + 2 a */
  printf("%g %g %g %g\n", (double)c[0], (double)c[1], (double)c[2], (double)c[3]);
  return c[0] == 21 && c[1] == 26 && c[2] == 49 && c[3] == 58 ? 0 : 1;
}
