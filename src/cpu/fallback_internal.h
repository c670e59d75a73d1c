/* SPDX-License-Identifier: BSD-3-Clause */
/* What the search for the CPU BLAS (fallback.c) and the calls of what it found (answer.c, triangle.c, mirrored.c)
 * share. Thread-safe. */
#ifndef TB_FALLBACK_INTERNAL_H
#define TB_FALLBACK_INTERNAL_H

#include "cpu/behind.h"
#include "cpu/fallback.h"

/* What answers a symbol: a function of some ABI, or the loops of reference.c. */
struct tb_target {
  struct tb_behind behind; /* no function: reference.c */
  enum tb_symbol as;       /* the symbol whose ABI the function has */
  const char *how;         /* it was found, for the report */
  bool wide;               /* the function's integers have 64 bits; known once the search is over */
};

/* Searched for at a symbol's first use. */
const struct tb_target *tb_fallback_target(enum tb_symbol symbol);

/* Whether functions of two symbols have the same arguments, but for the integers' width. */
static inline bool tb_takes_the_same(enum tb_symbol one, enum tb_symbol other) {
  return tb_symbols[one].abi == tb_symbols[other].abi &&
         tb_routine_of(one)->signature == tb_routine_of(other)->signature;
}

/* tb_fallback_compute of a call that computes a triangle: by products that are none. */
void tb_fallback_triangle(const struct tb_call *call);

/* Whether a symmetric or Hermitian operand is all of its matrix, as a BLAS wants it; and tb_fallback_compute of a call
 * in which it is a part: by products, and one that has all of a smaller one. */
bool tb_has_all_of_mirrored(const struct tb_call *call);
void tb_fallback_mirrored(const struct tb_call *call);

#endif
