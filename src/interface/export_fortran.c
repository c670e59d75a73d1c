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
  const char *uplo, *side, *diag;
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
                               .uplo = *p->uplo,
                               .side = *p->side,
                               .diag = *p->diag};
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

/* Whether a letter is a side, a triangle, a transpose, a diagonal: looked up, for there are up to four in a call. */
enum { SIDE, UPLO, TRANS, DIAG };
static const unsigned char is_legal[][UCHAR_MAX + 1] = {
    [SIDE] = {['L'] = 1, ['l'] = 1, ['R'] = 1, ['r'] = 1},
    [UPLO] = {['U'] = 1, ['u'] = 1, ['L'] = 1, ['l'] = 1},
    [TRANS] = {['N'] = 1, ['n'] = 1, ['T'] = 1, ['t'] = 1, ['C'] = 1, ['c'] = 1},
    [DIAG] = {['U'] = 1, ['u'] = 1, ['N'] = 1, ['n'] = 1},
};

/* Those that have a side. */
TB_ALWAYS_INLINE bool fortran_symm_is_valid(enum tb_signature signature, const struct tb_arguments *x) {
  unsigned char legal = is_legal[SIDE][(unsigned char)x->side] & is_legal[UPLO][(unsigned char)x->uplo];
  if (tb_is_triangular(signature))
    legal &= is_legal[TRANS][(unsigned char)x->transa] & is_legal[DIAG][(unsigned char)x->diag];
  return !TB_RARELY(legal == 0) && x->lda >= x->k && x->ldb >= x->m && x->ldc >= x->m;
}

TB_ALWAYS_INLINE bool fortran_is_valid(enum tb_signature signature, const struct tb_arguments *x) {
  if (signature == TB_SIGNATURE_gemm) return fortran_gemm_is_valid(x);
  if (tb_has_side(signature)) return fortran_symm_is_valid(signature, x);
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
  else if (tb_is_mirrored(signature))
    ((tb_fortran_syr2k *)function)(p->side, p->uplo, p->m, p->n, p->alpha, p->a, p->lda, p->b, p->ldb, p->beta, p->c,
                                   p->ldc, 1, 1);
  else if (tb_is_triangular(signature))
    ((tb_fortran_trmm *)function)(p->side, p->uplo, p->transa, p->diag, p->m, p->n, p->alpha, p->a, p->lda, p->c,
                                  p->ldc, 1, 1, 1, 1);
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

/* A letter of a routine that has none such, and a beta. */
static const char no_letter;
static const union tb_scalar no_beta;

#define EXPORT_FORTRAN_gemm(type, integer, symbol)                                                                  \
  TILEBLAS_API void symbol(const char *transa, const char *transb, const integer *m, const integer *n,              \
                           const integer *k, const void *alpha, const void *a, const integer *lda, const void *b,   \
                           const integer *ldb, const void *beta, void *c, const integer *ldc) {                     \
    ANSWER_FORTRAN(TB_SYMBOL_##symbol, TB_SIGNATURE_gemm, TB_##type, sizeof(integer) == 8, transa, transb, m, n, k, \
                   alpha, a, lda, b, ldb, beta, c, ldc, &no_letter, &no_letter, &no_letter);                        \
  }

#define EXPORT_FORTRAN_gemmt(type, integer, symbol)                                                                  \
  TILEBLAS_API void symbol(const char *uplo, const char *transa, const char *transb, const integer *n,               \
                           const integer *k, const void *alpha, const void *a, const integer *lda, const void *b,    \
                           const integer *ldb, const void *beta, void *c, const integer *ldc) {                      \
    ANSWER_FORTRAN(TB_SYMBOL_##symbol, TB_SIGNATURE_gemmt, TB_##type, sizeof(integer) == 8, transa, transb, n, n, k, \
                   alpha, a, lda, b, ldb, beta, c, ldc, uplo, &no_letter, &no_letter);                               \
  }

#define EXPORT_FORTRAN_RANK_K(signature, type, integer, symbol)                                                        \
  TILEBLAS_API void symbol(const char *uplo, const char *trans, const integer *n, const integer *k, const void *alpha, \
                           const void *a, const integer *lda, const void *beta, void *c, const integer *ldc) {         \
    ANSWER_FORTRAN(TB_SYMBOL_##symbol, signature, TB_##type, sizeof(integer) == 8, trans, trans, n, n, k, alpha, a,    \
                   lda, a, lda, beta, c, ldc, uplo, &no_letter, &no_letter);                                           \
  }
#define EXPORT_FORTRAN_syrk(type, integer, symbol) EXPORT_FORTRAN_RANK_K(TB_SIGNATURE_syrk, type, integer, symbol)
#define EXPORT_FORTRAN_herk(type, integer, symbol) EXPORT_FORTRAN_RANK_K(TB_SIGNATURE_herk, type, integer, symbol)

#define EXPORT_FORTRAN_RANK_2K(signature, type, integer, symbol)                                                       \
  TILEBLAS_API void symbol(const char *uplo, const char *trans, const integer *n, const integer *k, const void *alpha, \
                           const void *a, const integer *lda, const void *b, const integer *ldb, const void *beta,     \
                           void *c, const integer *ldc) {                                                              \
    ANSWER_FORTRAN(TB_SYMBOL_##symbol, signature, TB_##type, sizeof(integer) == 8, trans, trans, n, n, k, alpha, a,    \
                   lda, b, ldb, beta, c, ldc, uplo, &no_letter, &no_letter);                                           \
  }
#define EXPORT_FORTRAN_syr2k(type, integer, symbol) EXPORT_FORTRAN_RANK_2K(TB_SIGNATURE_syr2k, type, integer, symbol)
#define EXPORT_FORTRAN_her2k(type, integer, symbol) EXPORT_FORTRAN_RANK_2K(TB_SIGNATURE_her2k, type, integer, symbol)

/* A's order is that of its side. */
TB_ALWAYS_INLINE const void *order_of(const char *side, const void *m, const void *n) {
  return (*side & ~('a' - 'A')) == 'L' ? m : n;
}

#define EXPORT_FORTRAN_symm(type, integer, symbol) EXPORT_FORTRAN_MIRRORED(TB_SIGNATURE_symm, type, integer, symbol)
#define EXPORT_FORTRAN_hemm(type, integer, symbol) EXPORT_FORTRAN_MIRRORED(TB_SIGNATURE_hemm, type, integer, symbol)
#define EXPORT_FORTRAN_MIRRORED(signature, type, integer, symbol)                                                     \
  TILEBLAS_API void symbol(const char *side, const char *uplo, const integer *m, const integer *n, const void *alpha, \
                           const void *a, const integer *lda, const void *b, const integer *ldb, const void *beta,    \
                           void *c, const integer *ldc) {                                                             \
    ANSWER_FORTRAN(TB_SYMBOL_##symbol, signature, TB_##type, sizeof(integer) == 8, &no_letter, &no_letter, m, n,      \
                   order_of(side, m, n), alpha, a, lda, b, ldb, beta, c, ldc, uplo, side, &no_letter);                \
  }

#define EXPORT_FORTRAN_trmm(type, integer, symbol) EXPORT_FORTRAN_TRIANGULAR(TB_SIGNATURE_trmm, type, integer, symbol)
#define EXPORT_FORTRAN_trsm(type, integer, symbol) EXPORT_FORTRAN_TRIANGULAR(TB_SIGNATURE_trsm, type, integer, symbol)
#define EXPORT_FORTRAN_TRIANGULAR(signature, type, integer, symbol)                                                    \
  TILEBLAS_API void symbol(const char *side, const char *uplo, const char *transa, const char *diag, const integer *m, \
                           const integer *n, const void *alpha, const void *a, const integer *lda, void *b,            \
                           const integer *ldb) {                                                                       \
    ANSWER_FORTRAN(TB_SYMBOL_##symbol, signature, TB_##type, sizeof(integer) == 8, transa, &no_letter, m, n,           \
                   order_of(side, m, n), alpha, a, lda, b, ldb, &no_beta, b, ldb, uplo, side, diag);                   \
  }

#define TB_CBLAS(type, signature, routine, integer, symbol)
#define TB_FORTRAN(type, signature, routine, integer, symbol) EXPORT_FORTRAN_##signature(type, integer, symbol)
#include "blas/symbols.def"
