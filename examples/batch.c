/* SPDX-License-Identifier: BSD-3-Clause */
/* Many small products by one call. Where the CPU BLAS has no batches, TileBLAS answers them from its gemm. */
#include <cblas.h>
#include <stdio.h>

/* As newer headers of OpenBLAS and MKL's have it: matrix i lies i strides behind the first. */
void cblas_sgemm_batch_strided(enum CBLAS_ORDER layout, enum CBLAS_TRANSPOSE transa, enum CBLAS_TRANSPOSE transb, int m,
                               int n, int k, float alpha, const float *a, int lda, int stridea, const float *b, int ldb,
                               int strideb, float beta, float *c, int ldc, int stridec, int count);

int main(void) {
  static float a[100][16], b[16], c[100][16];
  for (int i = 0; i < 100; i++)
    for (int j = 0; j < 16; j++) a[i][j] = (float)(i + j);
  for (int j = 0; j < 16; j++) b[j] = j % 5 == 0 ? 2 : 0; /* twice the identity, for all: a stride of 0 */
  cblas_sgemm_batch_strided(CblasColMajor, CblasNoTrans, CblasNoTrans, 4, 4, 4, 1, a[0], 4, 16, b, 4, 0, 0, c[0], 4, 16,
                            100);
  printf("%g %g\n", (double)c[0][1], (double)c[99][15]);
  return c[0][1] == 2 && c[99][15] == 228 ? 0 : 1;
}
