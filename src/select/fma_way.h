/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What follows from a way of the family fma: parts of C and of k, memory and a name. Pure arithmetic; thread-safe.
 * Inline is what the selector asks of each candidate: calls of it made a selection a fourth longer.
 */
#ifndef TB_FMA_WAY_H
#define TB_FMA_WAY_H

#include <stddef.h>

#include "base/integers.h"
#include "common/sgemm_args.h"
#include "select/choice.h"
#include "select/product.h"

/* The part of an m x n result whose tiles are computed with k split: all that lies behind the whole ones. */
struct tb_rest {
  int64_t first_row, first_column, m, n;
};
static inline struct tb_rest tb_rest_of(int64_t m, int64_t n, const struct tb_fma_way *way) {
  const struct tb_tile *t = &tb_tiles[way->tile];
  const int64_t row = tb_min(m, (int64_t)way->whole_rows * t->block_m);
  const int64_t column = tb_min(n, (int64_t)way->whole_columns * t->block_n);
  return (struct tb_rest){row, column, m - row, n - column};
}

/* How k is split: `units` sums of unit_k products each, `per_split` of them to a block, `splits` blocks. */
struct tb_split_k {
  int64_t units, per_split, splits;
};
struct tb_split_k tb_split_k_of(int64_t k, const struct tb_fma_way *way);
static const struct tb_split_k tb_whole_k = {1, 1, 1}; /* it is not */

/* Into at most `splits` parts of whole units. */
static inline struct tb_split_k tb_split_k_units(int64_t units, int64_t splits) {
  struct tb_split_k s = {.units = units, .per_split = tb_ceil_div(units, splits)};
  s.splits = tb_ceil_div(units, s.per_split);
  return s;
}

/*
 * Whether the parts of a tile are a cluster, which adds its sums by itself; else tb_sgemm_gather does. They are of one
 * group each, few, and do not wait for room longer than without: all clusters run at once when an SM holds no more
 * blocks than it has to, which is the answer. Pairs fit anyway. 0: they are not. `held`: blocks that an SM can hold.
 */
static inline int tb_split_k_together(const struct tb_split_k *split, const struct tb_clusters *clusters,
                                      bool whole_groups, int64_t tiles, int sm_count, int held) {
  if (!whole_groups || split->per_split > 1 || split->splits == 1 || split->splits > TB_SGEMM_TOGETHER_MAX) return 0;
  const int *at_once = clusters->at_once[split->splits];
  const int64_t blocks = tb_ceil_div(tiles * split->splits, sm_count);
  if (split->splits == 2 && at_once[1] > 0) return (int)tb_min(blocks, held);
  return blocks <= tb_min(held, TB_CLUSTERS_HELD_MAX) && tiles <= at_once[blocks] ? (int)blocks : 0;
}

/* Device memory for the packed operands of an m x n x k product, and behind them for the partial sums of a split k. */
static inline int64_t tb_packed_bytes(int64_t m, int64_t n, int64_t k) {
  const int64_t pairs = tb_ceil_div(m, 2 * TB_SGEMM_PANEL) + tb_ceil_div(n, 2 * TB_SGEMM_PANEL);
  const int64_t rows = tb_ceil_div(k, TB_SGEMM_PACKED_K) * TB_SGEMM_PACKED_K;
  return pairs * 2 * TB_SGEMM_PANEL * rows * (int64_t)sizeof(float);
}
int64_t tb_fma_workspace_bytes(int64_t m, int64_t n, int64_t k, const struct tb_choice *choice);

/* "128x128"; and with k split in four "128x128/4", "packed128x128/4+" when that is for a part of the tiles only. */
const char *tb_fma_name(const struct tb_choice *choice);
void tb_fma_describe(const struct tb_choice *choice, char *text, size_t size);

#endif
