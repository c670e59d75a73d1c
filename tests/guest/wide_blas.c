/* SPDX-License-Identifier: BSD-3-Clause */
#include "wide_blas.h"

#include <stddef.h>

struct wide_heard wide_heard;

void cblas_sgemm(int layout, int ta, int tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                 const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
  (void)layout, (void)ta, (void)tb, (void)alpha, (void)a, (void)b, (void)beta, (void)c;
  wide_heard = (struct wide_heard){wide_heard.calls + 1, {m, n, k, lda, ldb, ldc}};
}

void sgemm_(const char *ta, const char *tb, const int64_t *m, const int64_t *n, const int64_t *k, const float *alpha,
            const float *a, const int64_t *lda, const float *b, const int64_t *ldb, const float *beta, float *c,
            const int64_t *ldc, size_t length_a, size_t length_b) {
  (void)length_a, (void)length_b;
  cblas_sgemm(102, *ta, *tb, *m, *n, *k, *alpha, a, *lda, b, *ldb, *beta, c, *ldc);
}

int64_t isamax_(const int64_t *n, const float *x, const int64_t *incx) {
  if (*n < 1 || *incx < 1) return 0;
  int64_t best = 0;
  for (int64_t i = 1; i < *n; i++)
    if (x[i * *incx] > x[best * *incx]) best = i;
  return best + 1;
}
