/* SPDX-License-Identifier: BSD-3-Clause */
/* The exported CBLAS functions, one a row of symbols.def: the short way of a small call, or else the run. */
#include "cpu/fallback.h"
#include "cpu/signatures.h"
#include "interface/export_batch.h"
#include "interface/run.h"
#include "interface/short_way.h"
#include "tileblas.h"

/* An integer of the caller's, who need not have set the upper half of its register or stack slot. */
TB_ALWAYS_INLINE int64_t integer_of(int64_t argument, bool wide) { return wide ? argument : (int32_t)argument; }

/* The arguments as integers of the caller's width. */
TB_ALWAYS_INLINE void set_width(struct tb_arguments *x, bool wide) {
  x->m = integer_of(x->m, wide), x->n = integer_of(x->n, wide), x->k = integer_of(x->k, wide);
  x->lda = integer_of(x->lda, wide), x->ldb = integer_of(x->ldb, wide), x->ldc = integer_of(x->ldc, wide);
}

/* For sizes that are not zero; a T and a C together go the long way. */
TB_ALWAYS_INLINE bool cblas_gemm_is_valid(const struct tb_arguments *x) {
  const unsigned a = (unsigned)x->transa - TB_NO_TRANS, b = (unsigned)x->transb - TB_NO_TRANS;
  if ((a | b) > TB_CONJ_TRANS - TB_NO_TRANS || (unsigned)x->layout - TB_ROW_MAJOR > TB_COL_MAJOR - TB_ROW_MAJOR)
    return false;
  return x->layout == TB_ROW_MAJOR ? tb_gemm_lds_fit(b != 0, a != 0, x->n, x->m, x->k, x->ldb, x->lda, x->ldc)
                                   : tb_gemm_lds_fit(a != 0, b != 0, x->m, x->n, x->k, x->lda, x->ldb, x->ldc);
}

TB_ALWAYS_INLINE bool is_said_triangle(int uplo) {
  return (unsigned)uplo - TB_SAID_UPPER <= TB_SAID_LOWER - TB_SAID_UPPER;
}

/* With one transpose for both operands; what is rare goes the long way. */
TB_ALWAYS_INLINE bool cblas_syrk_is_valid(enum tb_signature signature, const struct tb_arguments *x) {
  const int transposed = tb_is_hermitian(signature) ? TB_CONJ_TRANS : TB_TRANS;
  if ((x->transa != TB_NO_TRANS && x->transa != transposed) || !is_said_triangle(x->uplo) ||
      (unsigned)x->layout - TB_ROW_MAJOR > TB_COL_MAJOR - TB_ROW_MAJOR)
    return false;
  const bool along_k = (x->layout == TB_ROW_MAJOR) == (x->transa == TB_NO_TRANS);
  const int64_t stored = along_k ? x->k : x->n;
  return x->lda >= stored && x->ldb >= stored && x->ldc >= x->n;
}

/* Those that have a side. */
TB_ALWAYS_INLINE bool cblas_symm_is_valid(enum tb_signature signature, const struct tb_arguments *x) {
  if ((unsigned)x->side - TB_SAID_LEFT > TB_SAID_RIGHT - TB_SAID_LEFT || !is_said_triangle(x->uplo) ||
      (unsigned)x->layout - TB_ROW_MAJOR > TB_COL_MAJOR - TB_ROW_MAJOR)
    return false;
  if (tb_is_triangular(signature) && ((unsigned)x->transa - TB_NO_TRANS > TB_CONJ_TRANS - TB_NO_TRANS ||
                                      (unsigned)x->diag - TB_SAID_NON_UNIT > TB_SAID_UNIT - TB_SAID_NON_UNIT))
    return false;
  const int64_t stored = x->layout == TB_ROW_MAJOR ? x->n : x->m;
  return x->lda >= x->k && x->ldb >= stored && x->ldc >= stored;
}

TB_ALWAYS_INLINE bool cblas_is_valid(enum tb_signature signature, const struct tb_arguments *x) {
  if (signature == TB_SIGNATURE_gemm) return cblas_gemm_is_valid(x);
  if (signature == TB_SIGNATURE_gemmt) return is_said_triangle(x->uplo) && cblas_gemm_is_valid(x);
  return tb_has_side(signature) ? cblas_symm_is_valid(signature, x) : cblas_syrk_is_valid(signature, x);
}

/* Answers a call that is small. The function gets the arguments as they are, and of complex scalars the addresses alpha
 * and beta: copies would have to be written to memory first. */
TB_ALWAYS_INLINE bool answer_small_cblas(_Atomic(void *) *direct, enum tb_symbol symbol, enum tb_signature signature,
                                         enum tb_type type, bool wide, struct tb_arguments made, const void *alpha,
                                         const void *beta) {
  struct tb_arguments x = made;
  set_width(&x, wide);
  uint64_t terms;
  if (!tb_small_sizes(signature, type, x.m, x.n, x.k, made.alpha, &terms) || !cblas_is_valid(signature, &x) ||
      (wide && !(tb_fits_int32(x.lda) && tb_fits_int32(x.ldb) && tb_fits_int32(x.ldc))))
    return false;
  void *function = tb_small_begin(direct, symbol, type, x.a, x.b, x.c, terms);
  if (function == NULL) return false;
  tb_thread.cpu_depth = 1;
  tb_call_cblas(function, signature, type, &made, alpha, beta);
  tb_thread.cpu_depth = 0;
  return true;
}

/* Of its own, so that what it needs of the stack is not below the long way. */
static __attribute__((noinline, cold)) bool answer_small_and_wide(enum tb_symbol symbol, const struct tb_arguments *x) {
  const struct tb_routine_info *const routine = tb_routine_of(symbol);
  return answer_small_cblas(tb_fallback_direct_wide, symbol, routine->signature, routine->type, true, *x, &x->alpha,
                            &x->beta);
}

/* The integers are as wide as the callers of this symbol have them, whatever its name says. */
static __attribute__((noinline, cold)) void answer_long_cblas(enum tb_symbol symbol, const void *caller,
                                                              struct tb_arguments *x) {
  tb_run_initialise();
  set_width(x, tb_fallback_callers_are_wide(symbol));
  if (!answer_small_and_wide(symbol, x)) tb_run(symbol, caller, x);
}

/* How alpha and beta are passed: real ones by value, complex ones by an address. */
#define SCALAR_S float
#define SCALAR_D double
#define SCALAR_C const void *
#define SCALAR_Z const void *
#define SAID_S(x) \
  { .s = x }
#define SAID_D(x) \
  { .d = x }
#define SAID_C(x) tb_scalar_at(TB_C, x)
#define SAID_Z(x) tb_scalar_at(TB_Z, x)
#define ADDRESS_S(x) NULL
#define ADDRESS_D(x) NULL
#define ADDRESS_C(x) x
#define ADDRESS_Z(x) x

/* Those of herk are real, and her2k's beta: with an imaginary part of zero, for not all compilers clear the rest of a
 * union. */
#define REAL_C float
#define REAL_Z double
#define SAID_REAL_C(x) \
  {                    \
    .c = { x, 0 }      \
  }
#define SAID_REAL_Z(x) \
  {                    \
    .z = { x, 0 }      \
  }

/* Both ways get arguments of their own: one struct for both would be written to memory ahead of the short one. */
#define ANSWER_CBLAS(symbol, signature, type, wide, alpha, beta, ...)                                            \
  if (!answer_small_cblas(tb_fallback_direct, symbol, signature, type, wide, (struct tb_arguments){__VA_ARGS__}, \
                          alpha, beta))                                                                          \
  answer_long_cblas(symbol, __builtin_return_address(0), &(struct tb_arguments){__VA_ARGS__})

/* Of plain names, too, an integer is declared with 64 bits: callers pass 32 or 64 in the same place. */
#define EXPORT_CBLAS_gemm(type, integer, symbol)                                                                     \
  TILEBLAS_API void symbol(int layout, int transa, int transb, int64_t m, int64_t n, int64_t k, SCALAR_##type alpha, \
                           const void *a, int64_t lda, const void *b, int64_t ldb, SCALAR_##type beta, void *c,      \
                           int64_t ldc) {                                                                            \
    ANSWER_CBLAS(TB_SYMBOL_##symbol, TB_SIGNATURE_gemm, TB_##type, sizeof(integer) == 8, ADDRESS_##type(alpha),      \
                 ADDRESS_##type(beta), layout, transa, transb, 0, 0, 0, m, n, k, SAID_##type(alpha),                 \
                 SAID_##type(beta), a, b, c, lda, ldb, ldc);                                                         \
  }

#define EXPORT_CBLAS_gemmt(type, integer, symbol)                                                                   \
  TILEBLAS_API void symbol(int layout, int uplo, int transa, int transb, int64_t n, int64_t k, SCALAR_##type alpha, \
                           const void *a, int64_t lda, const void *b, int64_t ldb, SCALAR_##type beta, void *c,     \
                           int64_t ldc) {                                                                           \
    ANSWER_CBLAS(TB_SYMBOL_##symbol, TB_SIGNATURE_gemmt, TB_##type, sizeof(integer) == 8, ADDRESS_##type(alpha),    \
                 ADDRESS_##type(beta), layout, transa, transb, uplo, 0, 0, n, n, k, SAID_##type(alpha),             \
                 SAID_##type(beta), a, b, c, lda, ldb, ldc);                                                        \
  }

#define EXPORT_CBLAS_RANK_K(signature, type, integer, symbol, scalar, said, address)                            \
  TILEBLAS_API void symbol(int layout, int uplo, int trans, int64_t n, int64_t k, scalar alpha, const void *a,  \
                           int64_t lda, scalar beta, void *c, int64_t ldc) {                                    \
    ANSWER_CBLAS(TB_SYMBOL_##symbol, signature, TB_##type, sizeof(integer) == 8, address(alpha), address(beta), \
                 layout, trans, 0, uplo, 0, 0, n, n, k, said(alpha), said(beta), a, a, c, lda, lda, ldc);       \
  }
#define EXPORT_CBLAS_syrk(type, integer, symbol) \
  EXPORT_CBLAS_RANK_K(TB_SIGNATURE_syrk, type, integer, symbol, SCALAR_##type, SAID_##type, ADDRESS_##type)
#define EXPORT_CBLAS_herk(type, integer, symbol) \
  EXPORT_CBLAS_RANK_K(TB_SIGNATURE_herk, type, integer, symbol, REAL_##type, SAID_REAL_##type, ADDRESS_S)

#define EXPORT_CBLAS_RANK_2K(signature, type, integer, symbol, scalar_of_beta, said_beta, address_of_beta)             \
  TILEBLAS_API void symbol(int layout, int uplo, int trans, int64_t n, int64_t k, SCALAR_##type alpha, const void *a,  \
                           int64_t lda, const void *b, int64_t ldb, scalar_of_beta beta, void *c, int64_t ldc) {       \
    ANSWER_CBLAS(TB_SYMBOL_##symbol, signature, TB_##type, sizeof(integer) == 8, ADDRESS_##type(alpha),                \
                 address_of_beta(beta), layout, trans, 0, uplo, 0, 0, n, n, k, SAID_##type(alpha), said_beta(beta), a, \
                 b, c, lda, ldb, ldc);                                                                                 \
  }
#define EXPORT_CBLAS_syr2k(type, integer, symbol) \
  EXPORT_CBLAS_RANK_2K(TB_SIGNATURE_syr2k, type, integer, symbol, SCALAR_##type, SAID_##type, ADDRESS_##type)
#define EXPORT_CBLAS_her2k(type, integer, symbol) \
  EXPORT_CBLAS_RANK_2K(TB_SIGNATURE_her2k, type, integer, symbol, REAL_##type, SAID_REAL_##type, ADDRESS_S)

/* A's order is that of its side. */
#define EXPORT_CBLAS_symm(type, integer, symbol) EXPORT_CBLAS_MIRRORED(TB_SIGNATURE_symm, type, integer, symbol)
#define EXPORT_CBLAS_hemm(type, integer, symbol) EXPORT_CBLAS_MIRRORED(TB_SIGNATURE_hemm, type, integer, symbol)
#define EXPORT_CBLAS_MIRRORED(signature, type, integer, symbol)                                                      \
  TILEBLAS_API void symbol(int layout, int side, int uplo, int64_t m, int64_t n, SCALAR_##type alpha, const void *a, \
                           int64_t lda, const void *b, int64_t ldb, SCALAR_##type beta, void *c, int64_t ldc) {      \
    ANSWER_CBLAS(TB_SYMBOL_##symbol, signature, TB_##type, sizeof(integer) == 8, ADDRESS_##type(alpha),              \
                 ADDRESS_##type(beta), layout, 0, 0, uplo, side, 0, m, n, side == TB_SAID_LEFT ? m : n,              \
                 SAID_##type(alpha), SAID_##type(beta), a, b, c, lda, ldb, ldc);                                     \
  }

#define EXPORT_CBLAS_trmm(type, integer, symbol) EXPORT_CBLAS_TRIANGULAR(TB_SIGNATURE_trmm, type, integer, symbol)
#define EXPORT_CBLAS_trsm(type, integer, symbol) EXPORT_CBLAS_TRIANGULAR(TB_SIGNATURE_trsm, type, integer, symbol)
#define EXPORT_CBLAS_TRIANGULAR(signature, type, integer, symbol)                                                     \
  TILEBLAS_API void symbol(int layout, int side, int uplo, int transa, int diag, int64_t m, int64_t n,                \
                           SCALAR_##type alpha, const void *a, int64_t lda, void *b, int64_t ldb) {                   \
    ANSWER_CBLAS(TB_SYMBOL_##symbol, signature, TB_##type, sizeof(integer) == 8, ADDRESS_##type(alpha), NULL, layout, \
                 transa, 0, uplo, side, diag, m, n, side == TB_SAID_LEFT ? m : n, SAID_##type(alpha), {.z = {0}}, a,  \
                 b, b, lda, ldb, ldb);                                                                                \
  }

#define TB_CBLAS(type, signature, routine, integer, symbol) EXPORT_CBLAS_##signature(type, integer, symbol)
#define TB_FORTRAN(type, signature, routine, integer, symbol)
#include "blas/symbols.def"
