/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which kernel computes a product, and into how many parts it splits k: a pure function of the product, the device and
 * the table select.def. Knows no CUDA, allocates nothing, takes a fifth of a microsecond, at most half of one, on a CPU
 * of 2023; thread-safe.
 *
 * Every candidate's time is predicted, and the shortest wins; of equals the one that stands first in the registry,
 * which is the larger tile. The bits of the result do not depend on the choice, but for whether it is TB_FAMILY_SPLIT.
 */
#ifndef TB_SELECT_H
#define TB_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "split_plan.h"
#include "thin_plan.h"

/* The tiles in the registry's order: TB_TILE_128x128 and so on. */
enum {
#define TB_SGEMM_TILE(name, ...) TB_TILE_##name,
#include "registry.def"
#undef TB_SGEMM_TILE
  TB_TILE_COUNT
};

enum tb_family {
  TB_FAMILY_NONE, /* the device runs none of our kernels */
  TB_FAMILY_TILE, /* every device; a grid of one block a tile */
  TB_FAMILY_THIN, /* one short side, limited by memory (thin_plan.h); has no tile */
  TB_FAMILY_SPLIT /* the tensor cores (split_plan.h); has one tile, its own */
};

/* One row of kernels/registry.def. */
struct tb_tile {
  const char *name; /* the kernels are called tb_sgemm_<name>... */
  int block_m, block_n, block_k, threads, shared_bytes;
  bool packed; /* its operands are packed first (kernels/packed.cu) */
};
extern const struct tb_tile tb_tiles[TB_TILE_COUNT];

struct tb_choice {
  enum tb_family family;
  int tile;       /* index in tb_tiles */
  bool fast;      /* TB_FAMILY_SPLIT: fp16 planes even where bf16 ones would be more accurate */
  int splits;     /* parts of k that different blocks compute; 1: k is not split. TB_FAMILY_THIN: at most so many */
  int unit_k;     /* of a split k: TB_SGEMM_CHUNK_K or TB_SGEMM_GROUP_K; TB_FAMILY_SPLIT: TB_SPLIT_GROUP_K */
  int64_t pack_k; /* of packed operands: products along k that are packed, and multiplied, at once; a k that is split is
                     all packed at once. 0: the operands are taken as they are. TB_FAMILY_SPLIT: a span */
  int32_t whole_rows, whole_columns; /* of a packed tile with k split: so many rows or columns of tiles, the first ones,
                                        are computed with k whole, as many as fill the GPU a few times over; the split
                                        is for the others. One of both is 0. TB_FAMILY_SPLIT: whole_rows counts tiles */
};

/* TB_FAMILY_SPLIT: the way that was chosen. */
static inline struct tb_split_way tb_choice_way(const struct tb_choice *choice) {
  return (struct tb_split_way){choice->splits, choice->whole_rows, choice->fast, choice->pack_k};
}

struct tb_select_device {
  int sm_count;
  int blocks_per_sm[TB_TILE_COUNT]; /* that an SM holds at once; 0: the device cannot run this tile */
  bool thin, split;                 /* the thin kernels are there; those for the tensor cores */
  double fma_per_us;                /* one SM's peak */
  double bytes_per_us;              /* the memory's nominal bandwidth */
};

struct tb_product {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  bool vectors;   /* alignment and shape allow 16-byte copies of the operands that run along m or n */
  bool as_stored; /* the operands are not to be packed: other products with the same ones would pack them again */
  bool split;     /* the tensor cores may be used: fp32 need not be computed by fp32 FMA (TILEBLAS_PRECISION) */
  bool fast;      /* and may be looser than fp32 */
  int64_t workspace_bytes; /* device memory for packed operands and partial sums */
};

/* Whether they are the same in all of that. */
static inline bool tb_product_is(const struct tb_product *x, const struct tb_product *y) {
  return x->m == y->m && x->n == y->n && x->k == y->k && x->transpose_a == y->transpose_a &&
         x->transpose_b == y->transpose_b && x->vectors == y->vectors && x->as_stored == y->as_stored &&
         x->split == y->split && x->fast == y->fast && x->workspace_bytes == y->workspace_bytes;
}

/* The table, as numbers that bench/tune can change. */
struct tb_tile_rate {
  double full, alone, by_words, block_us;
};
struct tb_select_table {
  struct tb_tile_rate tile[TB_TILE_COUNT];
#define TB_SELECT_TILE(...)
#define TB_SELECT_COST(name, value) double name;
#include "select.def"
#undef TB_SELECT_TILE
#undef TB_SELECT_COST
};
extern const struct tb_select_table tb_select_table;

struct tb_choice tb_select(const struct tb_select_device *device, const struct tb_product *product);

/* ---- what the selector is made of, for tests and for bench/tune ---- */

/* No product has more: for each tile k whole, and six times two splits of it, and those for a part of its tiles; and
 * the thin kernels, and those on the tensor cores. */
#define TB_CANDIDATES_MAX (TB_TILE_COUNT * (1 + 2 * 2 * 6) + 1 + TB_SPLIT_WAYS_MAX)

/* Writes every candidate, in the order of preference among equals; returns how many. */
int tb_select_candidates(const struct tb_select_device *device, const struct tb_product *product,
                         struct tb_choice candidate[TB_CANDIDATES_MAX]);

/* How much of k a tile packs at once: all, or whole groups. 0: nothing, or there is no room for enough of it. */
int64_t tb_select_pack_k(const struct tb_product *product, int tile);

/* Microseconds from launch to result, by a choice that could be made. */
double tb_select_predict_us(const struct tb_select_table *table, const struct tb_select_device *device,
                            const struct tb_product *product, const struct tb_choice *choice);

/* The part of an m x n result whose tiles are computed with k split: all that lies behind the whole ones. */
struct tb_rest {
  int64_t first_row, first_column, m, n;
};
struct tb_rest tb_rest_of(int64_t m, int64_t n, const struct tb_choice *choice);

/* How k is split: `units` sums of unit_k products each, `per_split` of them to a block, `splits` blocks. */
struct tb_split {
  int64_t units, per_split, splits;
};
struct tb_split tb_split_of(int64_t k, const struct tb_choice *choice);

/* Device memory for the packed operands of an m x n x k product, and behind them for the partial sums of a split k. */
int64_t tb_packed_bytes(int64_t m, int64_t n, int64_t k);
int64_t tb_workspace_bytes(int64_t m, int64_t n, int64_t k, const struct tb_choice *choice);

/* Tiles of an m x n result. */
int64_t tb_tile_count(const struct tb_tile *tile, int64_t m, int64_t n);

/* "128x128", "thin", "split"; "none" for TB_FAMILY_NONE. */
const char *tb_choice_name(const struct tb_choice *choice);

/* The name, and with k split in four "128x128/4"; "packed/4+" when that is for a part of the tiles only. */
void tb_choice_describe(const struct tb_choice *choice, char *text, size_t size);

#endif
