/* SPDX-License-Identifier: BSD-3-Clause */
#include "echo_blas.h"

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
    heard = (struct echo){heard.calls + 1, layout, ta, tb, m, n, k, lda, ldb, ldc, alpha, beta, a, b, c};          \
    if (echo_nested) call_nested();                                                                                \
    if (echo_hook) echo_hook();                                                                                    \
  }
#define FORTRAN(name, integer)                                                                                        \
  void name(const char *ta, const char *tb, const integer *m, const integer *n, const integer *k, const float *alpha, \
            const float *a, const integer *lda, const float *b, const integer *ldb, const float *beta, float *c,      \
            const integer *ldc, size_t length_a, size_t length_b) {                                                   \
    heard = (struct echo){heard.calls + 1, 0, *ta, *tb, *m, *n, *k, *lda, *ldb, *ldc, *alpha, *beta, a, b, c};        \
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
