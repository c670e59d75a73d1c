/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of exported symbols as a table. Pure data. */
#ifndef TB_SYMBOLS_H
#define TB_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

#define TB_CBLAS(routine, integer, symbol) TB_SYMBOL_##symbol,
#define TB_FORTRAN(routine, integer, symbol) TB_SYMBOL_##symbol,
enum tb_symbol {
#include "blas/symbols.def"
  TB_SYMBOL_COUNT
};
#undef TB_CBLAS
#undef TB_FORTRAN

enum tb_abi { TB_ABI_CBLAS, TB_ABI_FORTRAN };

struct tb_symbol_info {
  const char *name;
  const char *routine; /* "sgemm": symbols of one routine compute the same */
  enum tb_abi abi;
  bool wide; /* 64-bit integers */
};

extern const struct tb_symbol_info tb_symbols[TB_SYMBOL_COUNT];

#endif
