/* SPDX-License-Identifier: BSD-3-Clause */
#include "blas/symbols.h"

const struct tb_symbol_info tb_symbols[TB_SYMBOL_COUNT] = {
#define TB_CBLAS(routine, integer, symbol) {#symbol, #routine, TB_ABI_CBLAS, sizeof(integer) == 8},
#define TB_FORTRAN(routine, integer, symbol) {#symbol, #routine, TB_ABI_FORTRAN, sizeof(integer) == 8},
#include "blas/symbols.def"
#undef TB_CBLAS
#undef TB_FORTRAN
};
