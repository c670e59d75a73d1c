/* SPDX-License-Identifier: BSD-3-Clause */
/* A CPU BLAS that has batches with groups, in both interfaces, and writes down how it was called. 32-bit integers. */
#include "batch_blas.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct batch_blas batch_blas;

int isamax_(const int *n, const float *x, const int *incx);
int isamax_(const int *n, const float *x, const int *incx) {
  (void)x, (void)incx;
  return *n > 0;
}

typedef void cblas_batch(int, const int *, const int *, const int *, const int *, const int *, const float *,
                         const float **, const int *, const float **, const int *, const float *, float **, const int *,
                         int, const int *);

void cblas_sgemm_batch(int layout, const int *ta, const int *tb, const int *m, const int *n, const int *k,
                       const float *alpha, const float **a, const int *lda, const float **b, const int *ldb,
                       const float *beta, float **c, const int *ldc, int groups, const int *size);
void cblas_sgemm_batch(int layout, const int *ta, const int *tb, const int *m, const int *n, const int *k,
                       const float *alpha, const float **a, const int *lda, const float **b, const int *ldb,
                       const float *beta, float **c, const int *ldc, int groups, const int *size) {
  cblas_batch *nested;
  memcpy(&nested, &batch_blas.nested, sizeof nested);
  batch_blas.nested = NULL;
  if (nested != NULL) nested(layout, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, groups, size);
  batch_blas.batches++;
  batch_blas.layout = layout, batch_blas.groups = groups, batch_blas.products = size[0], batch_blas.m = m;
  batch_blas.last[0] = a[size[0] - 1], batch_blas.last[1] = b[size[0] - 1], batch_blas.last[2] = c[size[0] - 1];
}

void sgemm_batch_(const char *ta, const char *tb, const int *m, const int *n, const int *k, const float *alpha,
                  const float **a, const int *lda, const float **b, const int *ldb, const float *beta, float **c,
                  const int *ldc, const int *groups, const int *size);
void sgemm_batch_(const char *ta, const char *tb, const int *m, const int *n, const int *k, const float *alpha,
                  const float **a, const int *lda, const float **b, const int *ldb, const float *beta, float **c,
                  const int *ldc, const int *groups, const int *size) {
  int trans[2] = {*ta, *tb};
  cblas_sgemm_batch(0, trans, trans, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, *groups, size);
}

void cblas_sgemm(int layout, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                 int ldb, float beta, float *c, int ldc);
void cblas_sgemm(int layout, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                 int ldb, float beta, float *c, int ldc) {
  (void)layout, (void)ta, (void)tb, (void)m, (void)n, (void)k, (void)alpha, (void)a, (void)lda, (void)b, (void)ldb;
  (void)beta, (void)ldc;
  batch_blas.products_alone++;
  batch_blas.last[2] = c;
}
