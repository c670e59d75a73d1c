/* SPDX-License-Identifier: BSD-3-Clause */
#include "echo_blas.h"

#include <stdbool.h>
#include <stddef.h>

static _Thread_local struct echo heard;
void (*echo_hook)(void);
echo_sgemm *echo_nested;

#ifndef ECHO_NO_CBLAS
static void call_nested(void) {
  static const float ones[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, one = 1, zero = 0;
  static const int32_t three = 3;
  float c[9];
  echo_nested("N", "N", &three, &three, &three, &one, ones, &three, ones, &three, &zero, c, &three, 1, 1);
}
#endif

#ifndef ECHO_NO_CBLAS
void echo_factorise(void) { call_nested(); }
#endif

struct echo *echo_heard(void) {
  return &heard;
}

#ifdef ECHO_NARROW
#define NARROW 1
#else
#define NARROW 0
#endif

#define CBLAS(name, integer)                                                                                       \
  void name(int layout, int ta, int tb, integer m, integer n, integer k, float alpha, const float *a, integer lda, \
            const float *b, integer ldb, float beta, float *c, integer ldc) {                                      \
    heard = (struct echo){heard.calls + 1, layout, ta, tb, m, n, k, lda, ldb, ldc, alpha, beta, a, b, c, 0, 0, 0}; \
    if (echo_nested) call_nested();                                                                                \
    if (echo_hook) echo_hook();                                                                                    \
  }
#define FORTRAN(name, integer)                                                                                        \
  void name(const char *ta, const char *tb, const integer *m, const integer *n, const integer *k, const float *alpha, \
            const float *a, const integer *lda, const float *b, const integer *ldb, const float *beta, float *c,      \
            const integer *ldc, size_t length_a, size_t length_b) {                                                   \
    heard =                                                                                                           \
        (struct echo){heard.calls + 1, 0, *ta, *tb, *m, *n, *k, *lda, *ldb, *ldc, *alpha, *beta, a, b, c, 0, 0, 0};   \
    if (length_a != 1 || length_b != 1) heard.layout = -1;                                                            \
    if (NARROW && echo_hook) echo_hook();                                                                             \
  }
#ifndef ECHO_NO_CBLAS
CBLAS(cblas_sgemm, int32_t)
#endif
FORTRAN(sgemm_, int32_t)
#if !NARROW
FORTRAN(sgemm_64_, int64_t)
#endif

/* ---- other routines, with 32-bit integers ---- */

static void hear(struct echo e, bool fortran) {
  e.calls = heard.calls + 1;
  heard = e;
  if ((NARROW || !fortran) && echo_hook) echo_hook();
}

#ifndef ECHO_NO_CBLAS
void cblas_sgemmt(int layout, int uplo, int ta, int tb, int32_t n, int32_t k, float alpha, const float *a, int32_t lda,
                  const float *b, int32_t ldb, float beta, float *c, int32_t ldc) {
  hear((struct echo){0, layout, ta, tb, n, n, k, lda, ldb, ldc, alpha, beta, a, b, c, 0, uplo, 0}, false);
}
void cblas_dgemmt(int layout, int uplo, int ta, int tb, int32_t n, int32_t k, double alpha, const void *a, int32_t lda,
                  const void *b, int32_t ldb, double beta, void *c, int32_t ldc) {
  hear((struct echo){0, layout, ta, tb, n, n, k, lda, ldb, ldc, (float)alpha, (float)beta, a, b, c, 0, uplo, 0}, false);
}
void cblas_zgemmt(int layout, int uplo, int ta, int tb, int32_t n, int32_t k, const double *alpha, const void *a,
                  int32_t lda, const void *b, int32_t ldb, const double *beta, void *c, int32_t ldc) {
  cblas_dgemmt(layout, uplo, ta, tb, n, k, alpha[1], a, lda, b, ldb, beta[1], c, ldc);
}
void cblas_ssymm(int layout, int side, int uplo, int32_t m, int32_t n, float alpha, const float *a, int32_t lda,
                 const float *b, int32_t ldb, float beta, float *c, int32_t ldc) {
  hear((struct echo){0, layout, 0, 0, m, n, 0, lda, ldb, ldc, alpha, beta, a, b, c, side, uplo, 0}, false);
}
void cblas_strsm(int layout, int side, int uplo, int ta, int diag, int32_t m, int32_t n, float alpha, const float *a,
                 int32_t lda, float *b, int32_t ldb) {
  hear((struct echo){0, layout, ta, 0, m, n, 0, lda, ldb, ldb, alpha, 0, a, b, b, side, uplo, diag}, false);
}
#endif
void sgemmt_(const char *uplo, const char *ta, const char *tb, const int32_t *n, const int32_t *k, const float *alpha,
             const float *a, const int32_t *lda, const float *b, const int32_t *ldb, const float *beta, float *c,
             const int32_t *ldc, size_t l1, size_t l2, size_t l3) {
  const int layout = l1 == 1 && l2 == 1 && l3 == 1 ? 0 : -1;
  hear((struct echo){0, layout, *ta, *tb, *n, *n, *k, *lda, *ldb, *ldc, *alpha, *beta, a, b, c, 0, *uplo, 0}, true);
}
void ssymm_(const char *side, const char *uplo, const int32_t *m, const int32_t *n, const float *alpha, const float *a,
            const int32_t *lda, const float *b, const int32_t *ldb, const float *beta, float *c, const int32_t *ldc,
            size_t l1, size_t l2) {
  const int layout = l1 == 1 && l2 == 1 ? 0 : -1;
  hear((struct echo){0, layout, 0, 0, *m, *n, 0, *lda, *ldb, *ldc, *alpha, *beta, a, b, c, *side, *uplo, 0}, true);
}
void strsm_(const char *side, const char *uplo, const char *ta, const char *diag, const int32_t *m, const int32_t *n,
            const float *alpha, const float *a, const int32_t *lda, float *b, const int32_t *ldb, size_t l1, size_t l2,
            size_t l3, size_t l4) {
  const int layout = l1 == 1 && l2 == 1 && l3 == 1 && l4 == 1 ? 0 : -1;
  hear((struct echo){0, layout, *ta, 0, *m, *n, 0, *lda, *ldb, *ldb, *alpha, 0, a, b, b, *side, *uplo, *diag}, true);
}
