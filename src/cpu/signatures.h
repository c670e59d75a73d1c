/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C types of BLAS functions, by interface and element type, and calls of a function whose address is all that is
 * known. Integers are passed with 64 bits: a function of 32 bits looks at their lower halves, in registers, on the
 * stack and, on machines that store the lower half first, in memory.
 */
#ifndef TB_SIGNATURES_H
#define TB_SIGNATURES_H

#include <stddef.h>

#include "base/inline.h"
#include "blas/arguments.h"

#define TB_CBLAS_GEMM(name, scalar)                                                                                 \
  typedef void name(int, int, int, int64_t, int64_t, int64_t, scalar, const void *, int64_t, const void *, int64_t, \
                    scalar, void *, int64_t)
TB_CBLAS_GEMM(tb_cblas_sgemm, float);
TB_CBLAS_GEMM(tb_cblas_dgemm, double);
TB_CBLAS_GEMM(tb_cblas_zgemm, const void *); /* cgemm's, too */
#undef TB_CBLAS_GEMM

#define TB_CBLAS_GEMMT(name, scalar)                                                                            \
  typedef void name(int, int, int, int, int64_t, int64_t, scalar, const void *, int64_t, const void *, int64_t, \
                    scalar, void *, int64_t)
TB_CBLAS_GEMMT(tb_cblas_sgemmt, float);
TB_CBLAS_GEMMT(tb_cblas_dgemmt, double);
TB_CBLAS_GEMMT(tb_cblas_zgemmt, const void *);
#undef TB_CBLAS_GEMMT

#define TB_CBLAS_SYRK(name, scalar) \
  typedef void name(int, int, int, int64_t, int64_t, scalar, const void *, int64_t, scalar, void *, int64_t)
TB_CBLAS_SYRK(tb_cblas_ssyrk, float);  /* cherk's, too */
TB_CBLAS_SYRK(tb_cblas_dsyrk, double); /* zherk's, too */
TB_CBLAS_SYRK(tb_cblas_zsyrk, const void *);
#undef TB_CBLAS_SYRK

#define TB_CBLAS_SYR2K(name, scalar, real)                                                                       \
  typedef void name(int, int, int, int64_t, int64_t, scalar, const void *, int64_t, const void *, int64_t, real, \
                    void *, int64_t)
TB_CBLAS_SYR2K(tb_cblas_ssyr2k, float, float);
TB_CBLAS_SYR2K(tb_cblas_dsyr2k, double, double);
TB_CBLAS_SYR2K(tb_cblas_zsyr2k, const void *, const void *);
TB_CBLAS_SYR2K(tb_cblas_cher2k, const void *, float);
TB_CBLAS_SYR2K(tb_cblas_zher2k, const void *, double);
#undef TB_CBLAS_SYR2K

#define TB_CBLAS_SYMM(name, scalar)                                                                                \
  typedef void name(int, int, int, int64_t, int64_t, scalar, const void *, int64_t, const void *, int64_t, scalar, \
                    void *, int64_t)
TB_CBLAS_SYMM(tb_cblas_ssymm, float);
TB_CBLAS_SYMM(tb_cblas_dsymm, double);
TB_CBLAS_SYMM(tb_cblas_zsymm, const void *);
#undef TB_CBLAS_SYMM

#define TB_CBLAS_TRMM(name, scalar) \
  typedef void name(int, int, int, int, int, int64_t, int64_t, scalar, const void *, int64_t, void *, int64_t)
TB_CBLAS_TRMM(tb_cblas_strmm, float);
TB_CBLAS_TRMM(tb_cblas_dtrmm, double);
TB_CBLAS_TRMM(tb_cblas_ztrmm, const void *);
#undef TB_CBLAS_TRMM

/* Lengths of the character arguments come last. */
typedef void tb_fortran_gemm(const char *, const char *, const void *, const void *, const void *, const void *,
                             const void *, const void *, const void *, const void *, const void *, void *, const void *,
                             size_t, size_t);
typedef void tb_fortran_gemmt(const char *, const char *, const char *, const void *, const void *, const void *,
                              const void *, const void *, const void *, const void *, const void *, void *,
                              const void *, size_t, size_t, size_t);
typedef void tb_fortran_syrk(const char *, const char *, const void *, const void *, const void *, const void *,
                             const void *, const void *, void *, const void *, size_t, size_t);

/* symm has the same. */
typedef void tb_fortran_syr2k(const char *, const char *, const void *, const void *, const void *, const void *,
                              const void *, const void *, const void *, const void *, void *, const void *, size_t,
                              size_t);

typedef void tb_fortran_trmm(const char *, const char *, const char *, const char *, const void *, const void *,
                             const void *, const void *, const void *, void *, const void *, size_t, size_t, size_t,
                             size_t);

/* Of a batch: arrays, and of CBLAS the layout and the number of groups by value. */
typedef void tb_cblas_batch(int, const void *, const void *, const void *, const void *, const void *, const void *,
                            const void *, const void *, const void *, const void *, const void *, const void *,
                            const void *, int64_t, const void *);
typedef void tb_fortran_batch(const void *, const void *, const void *, const void *, const void *, const void *,
                              const void *, const void *, const void *, const void *, const void *, const void *,
                              const void *, const void *, const void *, size_t, size_t);

/* The types as which a routine's alpha and beta are passed. */
TB_ALWAYS_INLINE enum tb_type tb_alpha_type(enum tb_signature signature, enum tb_type type) {
  return signature == TB_SIGNATURE_herk ? tb_type_real(type) : type;
}
TB_ALWAYS_INLINE enum tb_type tb_beta_type(enum tb_signature signature, enum tb_type type) {
  return tb_is_hermitian(signature) ? tb_type_real(type) : type;
}

/* alpha, beta: where the scalars of a complex routine lie, *x or the program's own memory. */
TB_ALWAYS_INLINE void tb_call_cblas_gemm(void *function, enum tb_type type, const struct tb_arguments *x,
                                         const void *alpha, const void *beta) {
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

TB_ALWAYS_INLINE void tb_call_cblas_gemmt(void *function, enum tb_type type, const struct tb_arguments *x,
                                          const void *alpha, const void *beta) {
  if (type == TB_S)
    ((tb_cblas_sgemmt *)function)(x->layout, x->uplo, x->transa, x->transb, x->n, x->k, x->alpha.s, x->a, x->lda, x->b,
                                  x->ldb, x->beta.s, x->c, x->ldc);
  else if (type == TB_D)
    ((tb_cblas_dgemmt *)function)(x->layout, x->uplo, x->transa, x->transb, x->n, x->k, x->alpha.d, x->a, x->lda, x->b,
                                  x->ldb, x->beta.d, x->c, x->ldc);
  else
    ((tb_cblas_zgemmt *)function)(x->layout, x->uplo, x->transa, x->transb, x->n, x->k, alpha, x->a, x->lda, x->b,
                                  x->ldb, beta, x->c, x->ldc);
}

/* `type`: of alpha and beta. */
TB_ALWAYS_INLINE void tb_call_cblas_syrk(void *function, enum tb_type type, const struct tb_arguments *x,
                                         const void *alpha, const void *beta) {
  if (type == TB_S)
    ((tb_cblas_ssyrk *)function)(x->layout, x->uplo, x->transa, x->n, x->k, x->alpha.s, x->a, x->lda, x->beta.s, x->c,
                                 x->ldc);
  else if (type == TB_D)
    ((tb_cblas_dsyrk *)function)(x->layout, x->uplo, x->transa, x->n, x->k, x->alpha.d, x->a, x->lda, x->beta.d, x->c,
                                 x->ldc);
  else
    ((tb_cblas_zsyrk *)function)(x->layout, x->uplo, x->transa, x->n, x->k, alpha, x->a, x->lda, beta, x->c, x->ldc);
}

TB_ALWAYS_INLINE void tb_call_cblas_her2k(void *function, enum tb_type type, const struct tb_arguments *x,
                                          const void *alpha) {
  if (type == TB_C)
    ((tb_cblas_cher2k *)function)(x->layout, x->uplo, x->transa, x->n, x->k, alpha, x->a, x->lda, x->b, x->ldb,
                                  x->beta.s, x->c, x->ldc);
  else
    ((tb_cblas_zher2k *)function)(x->layout, x->uplo, x->transa, x->n, x->k, alpha, x->a, x->lda, x->b, x->ldb,
                                  x->beta.d, x->c, x->ldc);
}

TB_ALWAYS_INLINE void tb_call_cblas_syr2k(void *function, enum tb_type type, const struct tb_arguments *x,
                                          const void *alpha, const void *beta) {
  if (type == TB_S)
    ((tb_cblas_ssyr2k *)function)(x->layout, x->uplo, x->transa, x->n, x->k, x->alpha.s, x->a, x->lda, x->b, x->ldb,
                                  x->beta.s, x->c, x->ldc);
  else if (type == TB_D)
    ((tb_cblas_dsyr2k *)function)(x->layout, x->uplo, x->transa, x->n, x->k, x->alpha.d, x->a, x->lda, x->b, x->ldb,
                                  x->beta.d, x->c, x->ldc);
  else
    ((tb_cblas_zsyr2k *)function)(x->layout, x->uplo, x->transa, x->n, x->k, alpha, x->a, x->lda, x->b, x->ldb, beta,
                                  x->c, x->ldc);
}

TB_ALWAYS_INLINE void tb_call_cblas_symm(void *function, enum tb_type type, const struct tb_arguments *x,
                                         const void *alpha, const void *beta) {
  if (type == TB_S)
    ((tb_cblas_ssymm *)function)(x->layout, x->side, x->uplo, x->m, x->n, x->alpha.s, x->a, x->lda, x->b, x->ldb,
                                 x->beta.s, x->c, x->ldc);
  else if (type == TB_D)
    ((tb_cblas_dsymm *)function)(x->layout, x->side, x->uplo, x->m, x->n, x->alpha.d, x->a, x->lda, x->b, x->ldb,
                                 x->beta.d, x->c, x->ldc);
  else
    ((tb_cblas_zsymm *)function)(x->layout, x->side, x->uplo, x->m, x->n, alpha, x->a, x->lda, x->b, x->ldb, beta, x->c,
                                 x->ldc);
}

TB_ALWAYS_INLINE void tb_call_cblas_trmm(void *function, enum tb_type type, const struct tb_arguments *x,
                                         const void *alpha) {
  if (type == TB_S)
    ((tb_cblas_strmm *)function)(x->layout, x->side, x->uplo, x->transa, x->diag, x->m, x->n, x->alpha.s, x->a, x->lda,
                                 x->c, x->ldc);
  else if (type == TB_D)
    ((tb_cblas_dtrmm *)function)(x->layout, x->side, x->uplo, x->transa, x->diag, x->m, x->n, x->alpha.d, x->a, x->lda,
                                 x->c, x->ldc);
  else
    ((tb_cblas_ztrmm *)function)(x->layout, x->side, x->uplo, x->transa, x->diag, x->m, x->n, alpha, x->a, x->lda, x->c,
                                 x->ldc);
}

TB_ALWAYS_INLINE void tb_call_cblas(void *function, enum tb_signature signature, enum tb_type type,
                                    const struct tb_arguments *x, const void *alpha, const void *beta) {
  if (signature == TB_SIGNATURE_gemm)
    tb_call_cblas_gemm(function, type, x, alpha, beta);
  else if (signature == TB_SIGNATURE_gemmt)
    tb_call_cblas_gemmt(function, type, x, alpha, beta);
  else if (signature == TB_SIGNATURE_syr2k)
    tb_call_cblas_syr2k(function, type, x, alpha, beta);
  else if (signature == TB_SIGNATURE_her2k)
    tb_call_cblas_her2k(function, type, x, alpha);
  else if (tb_is_mirrored(signature))
    tb_call_cblas_symm(function, type, x, alpha, beta);
  else if (tb_is_triangular(signature))
    tb_call_cblas_trmm(function, type, x, alpha);
  else
    tb_call_cblas_syrk(function, tb_alpha_type(signature, type), x, alpha, beta);
}

static inline void tb_call_fortran(void *function, enum tb_signature signature, const struct tb_arguments *x) {
  const char transa = (char)x->transa, transb = (char)x->transb, uplo = (char)x->uplo;
  const char side = (char)x->side, diag = (char)x->diag;
  if (signature == TB_SIGNATURE_gemm)
    ((tb_fortran_gemm *)function)(&transa, &transb, &x->m, &x->n, &x->k, &x->alpha, x->a, &x->lda, x->b, &x->ldb,
                                  &x->beta, x->c, &x->ldc, 1, 1);
  else if (signature == TB_SIGNATURE_gemmt)
    ((tb_fortran_gemmt *)function)(&uplo, &transa, &transb, &x->n, &x->k, &x->alpha, x->a, &x->lda, x->b, &x->ldb,
                                   &x->beta, x->c, &x->ldc, 1, 1, 1);
  else if (tb_is_of_rank_2k(signature))
    ((tb_fortran_syr2k *)function)(&uplo, &transa, &x->n, &x->k, &x->alpha, x->a, &x->lda, x->b, &x->ldb, &x->beta,
                                   x->c, &x->ldc, 1, 1);
  else if (tb_is_mirrored(signature)) /* the same types in the same places */
    ((tb_fortran_syr2k *)function)(&side, &uplo, &x->m, &x->n, &x->alpha, x->a, &x->lda, x->b, &x->ldb, &x->beta, x->c,
                                   &x->ldc, 1, 1);
  else if (tb_is_triangular(signature))
    ((tb_fortran_trmm *)function)(&side, &uplo, &transa, &diag, &x->m, &x->n, &x->alpha, x->a, &x->lda, x->c, &x->ldc,
                                  1, 1, 1, 1);
  else
    ((tb_fortran_syrk *)function)(&uplo, &transa, &x->n, &x->k, &x->alpha, x->a, &x->lda, &x->beta, x->c, &x->ldc, 1,
                                  1);
}

#endif
