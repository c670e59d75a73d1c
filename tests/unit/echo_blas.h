/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A CPU BLAS that computes nothing and remembers what it was asked: TILEBLAS_FALLBACK names it, and the test finds
 * echo_heard in it. Each thread has its own memory. Its CBLAS has 32-bit integers only, its Fortran both;
 * compiled with -DECHO_NARROW, as the module echo_narrow, it
 * has none of 64 bits either; and with -DECHO_NO_CBLAS, as echo_fortran, no CBLAS.
 */
#ifndef ECHO_BLAS_H
#define ECHO_BLAS_H

#include <stdint.h>

struct echo {
  uint64_t calls;
  int layout, trans_a, trans_b; /* as cblas.h numbers them; through Fortran, layout 0 and the letters */
  int64_t m, n, k, lda, ldb, ldc;
  float alpha, beta;
  const float *a, *b, *c;
};

/* The calling thread's. */
struct echo *echo_heard(void);

/* What cblas_sgemm, and in echo_narrow sgemm_ too, does before it returns; NULL: nothing. */
extern void (*echo_hook)(void);

#endif
