/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exported Fortran functions, one a row of symbols.def: the short way of a small call, or else the run. Compilers
 * pass the lengths of the character arguments behind the last one; BLAS looks at the first character alone, so they are
 * not declared.
 */
#include <limits.h>

#include "cpu/fallback.h"
#include "cpu/signatures.h"
#include "interface/export_batch.h"
#include "interface/run.h"
#include "interface/short_way.h"
#include "tileblas.h"

/* A call's arguments as they are passed; those that its routine has not, as struct tb_arguments has them. */
struct passed {
  const char *transa, *transb;
  const void *m, *n, *k, *alpha, *a, *lda, *b, *ldb, *beta;
  void *c;
  const void *ldc;
  const char *uplo;
};

/* The caller's, of 32 or 64 bits. */
TB_ALWAYS_INLINE int64_t integer_at(const void *address, bool wide) {
  int64_t wide_one;
  int32_t narrow_one;
  if (wide) return memcpy(&wide_one, address, sizeof wide_one), wide_one;
  return memcpy(&narrow_one, address, sizeof narrow_one), narrow_one;
}

/* `alpha`, `beta`: their types. */
TB_ALWAYS_INLINE struct tb_arguments read(const struct passed *p, enum tb_type alpha, enum tb_type beta, bool wide) {
  return (struct tb_arguments){.layout = TB_COL_MAJOR,
                               .transa = *p->transa,
                               .transb = *p->transb,
                               .m = integer_at(p->m, wide),
                               .n = integer_at(p->n, wide),
                               .k = integer_at(p->k, wide),
                               .alpha = tb_scalar_at(alpha, p->alpha),
                               .beta = tb_scalar_at(beta, p->beta),
                               .a = p->a,
                               .b = p->b,
                               .c = p->c,
                               .lda = integer_at(p->lda, wide),
                               .ldb = integer_at(p->ldb, wide),
                               .ldc = integer_at(p->ldc, wide),
                               .uplo = *p->uplo};
}

/* What the letters of a transpose say, for the short way; the others are TB_TRANS_UNKNOWN. */
static const unsigned char said_by[UCHAR_MAX + 1] = {
    ['N'] = TB_TRANS_N, ['n'] = TB_TRANS_N, ['T'] = TB_TRANS_T,
    ['t'] = TB_TRANS_T, ['C'] = TB_TRANS_C, ['c'] = TB_TRANS_C,
};

/* For sizes that are not zero. */
TB_ALWAYS_INLINE bool fortran_gemm_is_valid(const struct tb_arguments *x) {
  const unsigned a = said_by[(unsigned char)x->transa], b = said_by[(unsigned char)x->transb];
  if (TB_RARELY(a == TB_TRANS_UNKNOWN) || TB_RARELY(b == TB_TRANS_UNKNOWN)) return false;
  return tb_gemm_lds_fit(a != TB_TRANS_N, b != TB_TRANS_N, x->m, x->n, x->k, x->lda, x->ldb, x->ldc);
}

TB_ALWAYS_INLINE bool is_upper_or_lower(int letter) {
  const int upper = letter & ~('a' - 'A');
  return upper == 'U' || upper == 'L';
}

/* With one transpose for both operands; what is rare goes the long way. */
TB_ALWAYS_INLINE bool fortran_syrk_is_valid(enum tb_signature signature, const struct tb_arguments *x) {
  const unsigned said = said_by[(unsigned char)x->transa];
  if (TB_RARELY(said != TB_TRANS_N && said != (tb_is_hermitian(signature) ? TB_TRANS_C : TB_TRANS_T))) return false;
  const int64_t stored = said == TB_TRANS_N ? x->n : x->k;
  return x->lda >= stored && x->ldb >= stored && x->ldc >= x->n;
}

TB_ALWAYS_INLINE bool fortran_is_valid(enum tb_signature signature, const struct tb_arguments *x) {
  if (signature == TB_SIGNATURE_gemm) return fortran_gemm_is_valid(x);
  if (TB_RARELY(!is_upper_or_lower(x->uplo))) return false;
  return signature == TB_SIGNATURE_gemmt ? fortran_gemm_is_valid(x) : fortran_syrk_is_valid(signature, x);
}

/* The function gets the arguments as they are. */
TB_ALWAYS_INLINE void pass_on(void *function, enum tb_signature signature, const struct passed *p) {
  if (signature == TB_SIGNATURE_gemm)
    ((tb_fortran_gemm *)function)(p->transa, p->transb, p->m, p->n, p->k, p->alpha, p->a, p->lda, p->b, p->ldb, p->beta,
                                  p->c, p->ldc, 1, 1);
  else if (signature == TB_SIGNATURE_gemmt)
    ((tb_fortran_gemmt *)function)(p->uplo, p->transa, p->transb, p->n, p->k, p->alpha, p->a, p->lda, p->b, p->ldb,
                                   p->beta, p->c, p->ldc, 1, 1, 1);
  else if (tb_is_of_rank_2k(signature))
    ((tb_fortran_syr2k *)function)(p->uplo, p->transa, p->n, p->k, p->alpha, p->a, p->lda, p->b, p->ldb, p->beta, p->c,
                                   p->ldc, 1, 1);
  else
    ((tb_fortran_syrk *)function)(p->uplo, p->transa, p->n, p->k, p->alpha, p->a, p->lda, p->beta, p->c, p->ldc, 1, 1);
}

/* Answers a call that is small. The function gets the arguments as they are: its integers are as wide as the caller's,
 * or it looks at their lower halves. */
TB_ALWAYS_INLINE bool answer_small_fortran(_Atomic(void *) *direct, enum tb_symbol symbol, enum tb_signature signature,
                                           enum tb_type type, bool wide, struct passed p) {
  const struct tb_arguments x = read(&p, tb_alpha_type(signature, type), tb_beta_type(signature, type), wide);
  uint64_t terms;
  if (!tb_small_sizes(signature, type, x.m, x.n, x.k, x.alpha, &terms) || !fortran_is_valid(signature, &x) ||
      (wide && !(tb_fits_int32(x.lda) && tb_fits_int32(x.ldb) && tb_fits_int32(x.ldc))))
    return false;
  void *function = tb_small_begin(direct, symbol, type, x.a, x.b, x.c, terms);
  if (function == NULL) return false;
  tb_thread.cpu_depth = 1;
  pass_on(function, signature, &p);
  tb_thread.cpu_depth = 0;
  return true;
}

/* The integers lie at their addresses as wide as the callers of this symbol have them, whatever its name says. */
static __attribute__((noinline, cold)) void answer_long_fortran(enum tb_symbol symbol, const void *caller,
                                                                const struct passed *p) {
  tb_run_initialise();
  const bool wide = tb_fallback_callers_are_wide(symbol);
  const struct tb_routine_info *const routine = tb_routine_of(symbol);
  if (wide && answer_small_fortran(tb_fallback_direct_wide, symbol, routine->signature, routine->type, wide, *p))
    return;
  const struct tb_arguments x =
      read(p, tb_alpha_type(routine->signature, routine->type), tb_beta_type(routine->signature, routine->type), wide);
  tb_run(symbol, caller, &x);
}

/* Both ways get arguments of their own: one struct for both would be written to memory ahead of the short one. */
#define ANSWER_FORTRAN(symbol, signature, type, wide, ...)                                                    \
  if (!answer_small_fortran(tb_fallback_direct, symbol, signature, type, wide, (struct passed){__VA_ARGS__})) \
  answer_long_fortran(symbol, __builtin_return_address(0), &(struct passed){__VA_ARGS__})

/* A triangle that no argument names, of gemm. */
static const char no_triangle;

#define EXPORT_FORTRAN_gemm(type, integer, symbol)                                                                  \
  TILEBLAS_API void symbol(const char *transa, const char *transb, const integer *m, const integer *n,              \
                           const integer *k, const void *alpha, const void *a, const integer *lda, const void *b,   \
                           const integer *ldb, const void *beta, void *c, const integer *ldc) {                     \
    ANSWER_FORTRAN(TB_SYMBOL_##symbol, TB_SIGNATURE_gemm, TB_##type, sizeof(integer) == 8, transa, transb, m, n, k, \
                   alpha, a, lda, b, ldb, beta, c, ldc, &no_triangle);                                              \
  }

#define EXPORT_FORTRAN_gemmt(type, integer, symbol)                                                                  \
  TILEBLAS_API void symbol(const char *uplo, const char *transa, const char *transb, const integer *n,               \
                           const integer *k, const void *alpha, const void *a, const integer *lda, const void *b,    \
                           const integer *ldb, const void *beta, void *c, const integer *ldc) {                      \
    ANSWER_FORTRAN(TB_SYMBOL_##symbol, TB_SIGNATURE_gemmt, TB_##type, sizeof(integer) == 8, transa, transb, n, n, k, \
                   alpha, a, lda, b, ldb, beta, c, ldc, uplo);                                                       \
  }

#define EXPORT_FORTRAN_RANK_K(signature, type, integer, symbol)                                                        \
  TILEBLAS_API void symbol(const char *uplo, const char *trans, const integer *n, const integer *k, const void *alpha, \
                           const void *a, const integer *lda, const void *beta, void *c, const integer *ldc) {         \
    ANSWER_FORTRAN(TB_SYMBOL_##symbol, signature, TB_##type, sizeof(integer) == 8, trans, trans, n, n, k, alpha, a,    \
                   lda, a, lda, beta, c, ldc, uplo);                                                                   \
  }
#define EXPORT_FORTRAN_syrk(type, integer, symbol) EXPORT_FORTRAN_RANK_K(TB_SIGNATURE_syrk, type, integer, symbol)
#define EXPORT_FORTRAN_herk(type, integer, symbol) EXPORT_FORTRAN_RANK_K(TB_SIGNATURE_herk, type, integer, symbol)

#define EXPORT_FORTRAN_RANK_2K(signature, type, integer, symbol)                                                       \
  TILEBLAS_API void symbol(const char *uplo, const char *trans, const integer *n, const integer *k, const void *alpha, \
                           const void *a, const integer *lda, const void *b, const integer *ldb, const void *beta,     \
                           void *c, const integer *ldc) {                                                              \
    ANSWER_FORTRAN(TB_SYMBOL_##symbol, signature, TB_##type, sizeof(integer) == 8, trans, trans, n, n, k, alpha, a,    \
                   lda, b, ldb, beta, c, ldc, uplo);                                                                   \
  }
#define EXPORT_FORTRAN_syr2k(type, integer, symbol) EXPORT_FORTRAN_RANK_2K(TB_SIGNATURE_syr2k, type, integer, symbol)
#define EXPORT_FORTRAN_her2k(type, integer, symbol) EXPORT_FORTRAN_RANK_2K(TB_SIGNATURE_her2k, type, integer, symbol)

#define TB_CBLAS(type, signature, routine, integer, symbol)
#define TB_FORTRAN(type, signature, routine, integer, symbol) EXPORT_FORTRAN_##signature(type, integer, symbol)
#include "blas/symbols.def"
