/* SPDX-License-Identifier: BSD-3-Clause */
/* Arithmetic on sizes. */
#ifndef TB_INTEGERS_H
#define TB_INTEGERS_H

#include <stdint.h>

/* a / b and a, rounded up: to a whole number, to a multiple of b. a >= 0, b > 0. */
static inline int64_t tb_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t tb_round_up(int64_t a, int64_t b) { return tb_ceil_div(a, b) * b; }

static inline int64_t tb_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t tb_max(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
