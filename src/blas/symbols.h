/* SPDX-License-Identifier: BSD-3-Clause */
/* The lists of routines and of exported symbols as tables. Pure data. */
#ifndef TB_SYMBOLS_H
#define TB_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "blas/type.h"

#define TB_ROUTINE(type, signature, routine, stand_in) TB_ROUTINE_##routine,
enum tb_routine {
#include "blas/routines.def"
  TB_ROUTINE_COUNT
};
#undef TB_ROUTINE

/* The arguments that routines have; as many as TB_ARGUMENTS_MAX each. */
enum tb_argument {
  TB_ARGUMENT_NONE,
  TB_ARGUMENT_SIDE,
  TB_ARGUMENT_UPLO,
  TB_ARGUMENT_TRANSA,
  TB_ARGUMENT_TRANSB,
  TB_ARGUMENT_DIAG,
  TB_ARGUMENT_M,
  TB_ARGUMENT_N,
  TB_ARGUMENT_K,
  TB_ARGUMENT_ALPHA,
  TB_ARGUMENT_A,
  TB_ARGUMENT_LDA,
  TB_ARGUMENT_B,
  TB_ARGUMENT_LDB,
  TB_ARGUMENT_BETA,
  TB_ARGUMENT_C,
  TB_ARGUMENT_LDC,
  TB_ARGUMENTS_MAX = TB_ARGUMENT_LDC
};

#define TB_SIGNATURE(signature, ...) TB_SIGNATURE_##signature,
enum tb_signature {
#include "blas/signatures.def"
  TB_SIGNATURE_COUNT
};
#undef TB_SIGNATURE

/* What a signature says of its routine: that op(B) is op(A) or op(B) transposed, by one transpose for both; that C is
 * Hermitian; that the product is added once more with its operands in each other's places; that A is symmetric or
 * Hermitian, or triangular, and then B is overwritten; that A may stand on either side of B. */
static inline bool tb_is_of_one_transpose(enum tb_signature s) {
  return s >= TB_SIGNATURE_syrk && s <= TB_SIGNATURE_her2k;
}
static inline bool tb_is_hermitian(enum tb_signature s) { return s == TB_SIGNATURE_herk || s == TB_SIGNATURE_her2k; }
static inline bool tb_is_of_rank_2k(enum tb_signature s) { return s == TB_SIGNATURE_syr2k || s == TB_SIGNATURE_her2k; }
static inline bool tb_is_mirrored(enum tb_signature s) { return s == TB_SIGNATURE_symm || s == TB_SIGNATURE_hemm; }
static inline bool tb_is_triangular(enum tb_signature s) { return s == TB_SIGNATURE_trmm || s == TB_SIGNATURE_trsm; }
static inline bool tb_has_side(enum tb_signature s) { return tb_is_mirrored(s) || tb_is_triangular(s); }

struct tb_routine_info {
  char name[20]; /* "sgemm"; not a pointer, which the loader would have to set in every process */
  enum tb_type type;
  enum tb_signature signature;
  enum tb_routine stand_in; /* routines.def: its own number where there is none */
};

extern const struct tb_routine_info tb_routines[TB_ROUTINE_COUNT];

/* The arguments of each signature in their order, TB_ARGUMENT_NONE behind the last. */
extern const unsigned char tb_signatures[TB_SIGNATURE_COUNT][TB_ARGUMENTS_MAX + 1];

#define TB_CBLAS(type, signature, routine, integer, symbol) TB_SYMBOL_##symbol,
#define TB_FORTRAN(type, signature, routine, integer, symbol) TB_SYMBOL_##symbol,
enum tb_symbol {
#include "blas/symbols.def"
  TB_SYMBOL_COUNT
};
#undef TB_CBLAS
#undef TB_FORTRAN

enum tb_abi { TB_ABI_CBLAS, TB_ABI_FORTRAN };

struct tb_symbol_info {
  char name[40];           /* no pointer either */
  enum tb_routine routine; /* symbols of one routine compute the same */
  enum tb_abi abi;
  bool wide; /* 64-bit integers */
};

extern const struct tb_symbol_info tb_symbols[TB_SYMBOL_COUNT];

static inline const struct tb_routine_info *tb_routine_of(enum tb_symbol symbol) {
  return &tb_routines[tb_symbols[symbol].routine];
}

/* Another routine's symbol in the same spelling. */
static inline enum tb_symbol tb_symbol_of(enum tb_symbol symbol, enum tb_routine routine) {
  enum { SPELLINGS = (int)TB_SYMBOL_COUNT / (int)TB_ROUTINE_COUNT };
  _Static_assert((int)TB_SYMBOL_COUNT == SPELLINGS * (int)TB_ROUTINE_COUNT, "all routines have the same spellings");
  return (enum tb_symbol)((int)routine * SPELLINGS + (int)symbol % SPELLINGS);
}

/* That of the routine that may stand in: of cgemm3m_ cgemm_. Most stand for themselves. */
static inline enum tb_symbol tb_stand_in(enum tb_symbol symbol) {
  return tb_symbol_of(symbol, tb_routine_of(symbol)->stand_in);
}

/* That of the product of the same type: of dsyrk_ dgemm_. A product's own is itself. */
static inline enum tb_symbol tb_gemm_of(enum tb_symbol symbol) {
  _Static_assert((int)TB_ROUTINE_sgemm == TB_S && (int)TB_ROUTINE_dgemm == TB_D && (int)TB_ROUTINE_cgemm == TB_C &&
                     (int)TB_ROUTINE_zgemm == TB_Z,
                 "the products are in the types' order");
  const struct tb_routine_info *const routine = tb_routine_of(symbol);
  return routine->signature == TB_SIGNATURE_gemm ? symbol : tb_symbol_of(symbol, (enum tb_routine)routine->type);
}

static inline bool tb_is_batch(enum tb_signature s) {
  return s == TB_SIGNATURE_gemm_batch || s == TB_SIGNATURE_gemm_batch_strided;
}

/* Of a batch's symbol that of the routine with groups: of cblas_dgemm_batch_strided cblas_dgemm_batch. */
static inline enum tb_symbol tb_batch_groups(enum tb_symbol symbol) {
  _Static_assert((int)TB_ROUTINE_zgemm_batch == (int)TB_ROUTINE_sgemm_batch + TB_Z, "in the types' order");
  return tb_symbol_of(symbol, (enum tb_routine)((int)TB_ROUTINE_sgemm_batch + (int)tb_routine_of(symbol)->type));
}

#endif
