/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C types of BLAS functions, by interface and element type, and calls of a function whose address is all that is
 * known. Integers are passed with 64 bits: a function of 32 bits looks at their lower halves, in registers, on the
 * stack and, on machines that store the lower half first, in memory.
 */
#ifndef TB_SIGNATURES_H
#define TB_SIGNATURES_H

#include <stddef.h>

#include "blas/arguments.h"

#define TB_CBLAS_GEMM(name, scalar)                                                                                 \
  typedef void name(int, int, int, int64_t, int64_t, int64_t, scalar, const void *, int64_t, const void *, int64_t, \
                    scalar, void *, int64_t)
TB_CBLAS_GEMM(tb_cblas_sgemm, float);
TB_CBLAS_GEMM(tb_cblas_dgemm, double);
TB_CBLAS_GEMM(tb_cblas_zgemm, const void *); /* cgemm's, too */
#undef TB_CBLAS_GEMM

/* Lengths of the character arguments come last. */
typedef void tb_fortran_gemm(const char *, const char *, const void *, const void *, const void *, const void *,
                             const void *, const void *, const void *, const void *, const void *, void *, const void *,
                             size_t, size_t);

/* alpha, beta: where the scalars of a complex routine lie, *x or the program's own memory. */
static inline __attribute__((always_inline)) void tb_call_cblas_gemm(void *function, enum tb_type type,
                                                                     const struct tb_arguments *x, const void *alpha,
                                                                     const void *beta) {
  if (type == TB_S)
    ((tb_cblas_sgemm *)function)(x->layout, x->transa, x->transb, x->m, x->n, x->k, x->alpha.s, x->a, x->lda, x->b,
                                 x->ldb, x->beta.s, x->c, x->ldc);
  else if (type == TB_D)
    ((tb_cblas_dgemm *)function)(x->layout, x->transa, x->transb, x->m, x->n, x->k, x->alpha.d, x->a, x->lda, x->b,
                                 x->ldb, x->beta.d, x->c, x->ldc);
  else
    ((tb_cblas_zgemm *)function)(x->layout, x->transa, x->transb, x->m, x->n, x->k, alpha, x->a, x->lda, x->b, x->ldb,
                                 beta, x->c, x->ldc);
}

static inline void tb_call_fortran_gemm(void *function, const struct tb_arguments *x) {
  const char transa = (char)x->transa, transb = (char)x->transb;
  ((tb_fortran_gemm *)function)(&transa, &transb, &x->m, &x->n, &x->k, &x->alpha, x->a, &x->lda, x->b, &x->ldb,
                                &x->beta, x->c, &x->ldc, 1, 1);
}

#endif
