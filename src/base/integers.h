/* SPDX-License-Identifier: BSD-3-Clause */
/* Arithmetic on sizes. */
#ifndef TB_INTEGERS_H
#define TB_INTEGERS_H

#include <stdint.h>

/* a / b; a >= 0, b > 0. Both are small numbers almost always, and processors divide those several times as fast. */
static inline int64_t tb_quotient(int64_t a, int64_t b) {
  if (((uint64_t)a | (uint64_t)b) >> 32 == 0) return (uint32_t)a / (uint32_t)b;
  return a / b;
}

/* a / b and a, rounded up: to a whole number, to a multiple of b. a >= 0, b > 0. */
static inline int64_t tb_ceil_div(int64_t a, int64_t b) { return tb_quotient(a + b - 1, b); }
static inline int64_t tb_round_up(int64_t a, int64_t b) { return tb_ceil_div(a, b) * b; }

static inline int64_t tb_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t tb_max(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
