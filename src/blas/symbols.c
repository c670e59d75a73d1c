/* SPDX-License-Identifier: BSD-3-Clause */
#include "blas/symbols.h"

const struct tb_routine_info tb_routines[TB_ROUTINE_COUNT] = {
#define TB_ROUTINE(type, signature, routine, stand_in) \
  {#routine, TB_##type, TB_SIGNATURE_##signature, TB_ROUTINE_##stand_in},
#include "blas/routines.def"
#undef TB_ROUTINE
};

const struct tb_symbol_info tb_symbols[TB_SYMBOL_COUNT] = {
#define TB_CBLAS(type, signature, routine, integer, symbol) \
  {#symbol, TB_ROUTINE_##routine, TB_ABI_CBLAS, sizeof(integer) == 8},
#define TB_FORTRAN(type, signature, routine, integer, symbol) \
  {#symbol, TB_ROUTINE_##routine, TB_ABI_FORTRAN, sizeof(integer) == 8},
#include "blas/symbols.def"
#undef TB_CBLAS
#undef TB_FORTRAN
};

/* The names of signatures.def, by which its rows are written. */
enum {
  SIDE = TB_ARGUMENT_SIDE,
  UPLO = TB_ARGUMENT_UPLO,
  TRANSA = TB_ARGUMENT_TRANSA,
  TRANSB = TB_ARGUMENT_TRANSB,
  DIAG = TB_ARGUMENT_DIAG,
  M = TB_ARGUMENT_M,
  N = TB_ARGUMENT_N,
  K = TB_ARGUMENT_K,
  ALPHA = TB_ARGUMENT_ALPHA,
  A = TB_ARGUMENT_A,
  LDA = TB_ARGUMENT_LDA,
  B = TB_ARGUMENT_B,
  LDB = TB_ARGUMENT_LDB,
  BETA = TB_ARGUMENT_BETA,
  C = TB_ARGUMENT_C,
  LDC = TB_ARGUMENT_LDC
};

const unsigned char tb_signatures[TB_SIGNATURE_COUNT][TB_ARGUMENTS_MAX + 1] = {
#define TB_SIGNATURE(signature, ...) {__VA_ARGS__},
#include "blas/signatures.def"
#undef TB_SIGNATURE
};
