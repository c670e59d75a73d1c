/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A CPU BLAS that computes nothing and remembers what it was asked: TILEBLAS_FALLBACK names it, and the test finds
 * echo_heard in it. Each thread has its own memory. Its CBLAS has 32-bit integers only, its Fortran both;
 * compiled with -DECHO_NARROW, as the module echo_narrow, it has none of 64 bits either; and with -DECHO_NO_CBLAS, as
 * echo_fortran, no CBLAS. It knows sgemm, sgemmt, ssymm and strsm, and by CBLAS dgemmt and zgemmt, of whose complex
 * alpha and beta it keeps the imaginary parts.
 */
#ifndef ECHO_BLAS_H
#define ECHO_BLAS_H

#include <stddef.h>
#include <stdint.h>

struct echo {
  uint64_t calls;
  int layout, trans_a, trans_b; /* as cblas.h numbers them; through Fortran, layout 0 and the letters */
  int64_t m, n, k, lda, ldb, ldc;
  float alpha, beta;
  const float *a, *b, *c;
  int side, uplo, diag; /* the same way; of those that have them */
};

/* The calling thread's. */
struct echo *echo_heard(void);

/* What its functions of CBLAS, and in echo_narrow all of them, do before they return; NULL: nothing. */
extern void (*echo_hook)(void);

/* The sgemm_ that cblas_sgemm calls before it returns, as netlib's does, for a product of 3 x 3 x 3; NULL: none. */
typedef void echo_sgemm(const char *, const char *, const int32_t *, const int32_t *, const int32_t *, const float *,
                        const float *, const int32_t *, const float *, const int32_t *, const float *, float *,
                        const int32_t *, size_t, size_t);
extern echo_sgemm *echo_nested;

/* A function of its own that calls echo_nested, as LAPACK's do in a library that has BLAS and LAPACK. */
void echo_factorise(void);

#endif
