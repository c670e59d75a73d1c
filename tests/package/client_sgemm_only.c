/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that calls nothing but what TileBLAS implements: linked with -ltileblas, it must not depend on OpenBLAS. */
#include <cblas.h>

int main(void) {
  const float a[1] = {2}, b[1] = {3};
  float c[1] = {1};
  cblas_sgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, 1, 1, 1, 1.0f, a, 1, b, 1, 1.0f, c, 1);
  return c[0] == 7 ? 0 : 1;
}
