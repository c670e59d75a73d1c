/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which kernel computes a product, and into how many parts it splits k: a pure function of the product, the device and
 * the table select.def. Knows no CUDA, allocates nothing, takes 0.75 microseconds in the mean of 200 random shapes
 * and at most 1.6 (two cores of a virtual machine); thread-safe.
 *
 * Every candidate's time is predicted, and the shortest wins; of equals the one that stands first in the registry,
 * which is the larger tile. The bits of the result do not depend on the choice, but for whether it is
 * TB_FAMILY_EMULATED.
 */
#ifndef TB_SELECT_H
#define TB_SELECT_H

#include <stdbool.h>
#include <stdint.h>

#include "select/choice.h"

struct tb_select_device {
  int sm_count;
  int blocks_per_sm[TB_TILE_COUNT]; /* that an SM holds at once; 0: the device cannot run this tile */
  struct tb_clusters clusters;      /* that it runs at once, of parts of a split k */
  bool skinny, emulated;            /* the skinny kernels are there; those for the tensor cores */
  double fma_per_us;                /* one SM's peak */
  double bytes_per_us;              /* the memory's nominal bandwidth */
};

struct tb_product {
  int64_t m, n, k;
  int64_t group_k; /* of the whole that it may be a part of (order.h) */
  bool transpose_a, transpose_b;
  bool vectors;   /* alignment and shape allow 16-byte copies of the operands that run along m or n */
  bool as_stored; /* the operands are not to be packed: other products with the same ones would pack them again */
  bool emulated;  /* the tensor cores may be used: fp32 need not be computed by fp32 FMA (TILEBLAS_PRECISION) */
  bool fast;      /* and may be looser than fp32 */
  int64_t workspace_bytes; /* device memory for packed operands and partial sums */
};

/* Whether they are the same in all of that. */
static inline bool tb_product_is(const struct tb_product *x, const struct tb_product *y) {
  return x->m == y->m && x->n == y->n && x->k == y->k && x->group_k == y->group_k && x->transpose_a == y->transpose_a &&
         x->transpose_b == y->transpose_b && x->vectors == y->vectors && x->as_stored == y->as_stored &&
         x->emulated == y->emulated && x->fast == y->fast && x->workspace_bytes == y->workspace_bytes;
}

/* The table, as numbers that bench/tune can change. */
struct tb_tile_rate {
  double full, alone, knee, along_k, by_words, block_us;
};
struct tb_select_table {
  struct tb_tile_rate tile[TB_TILE_COUNT];
#define TB_SELECT_TILE(...)
#define TB_SELECT_COST(name, value) double name;
#include "select/rates.def"
#undef TB_SELECT_TILE
#undef TB_SELECT_COST
};
extern const struct tb_select_table tb_select_table;

struct tb_choice tb_select(const struct tb_select_device *device, const struct tb_product *product);

/* ---- what the selector is made of, for tests and for bench/tune ---- */

/* No product has more: for each tile k whole, and nine times two splits of it, and those for a part of its tiles; and
 * the skinny kernels, and those on the tensor cores. */
#define TB_CANDIDATES_MAX (TB_TILE_COUNT * (1 + 2 * 2 * 9) + 1 + TB_EMULATED_WAYS_MAX)

/* Writes every candidate, in the order of preference among equals; returns how many. */
int tb_select_candidates(const struct tb_select_device *device, const struct tb_product *product,
                         struct tb_choice candidate[TB_CANDIDATES_MAX]);

/* How much of k a tile packs at once: all, or whole groups. 0: nothing, or there is no room for enough of it. */
int64_t tb_select_pack_k(const struct tb_product *product, int tile);

/* Microseconds from launch to result, by a choice that could be made. */
double tb_select_predict_us(const struct tb_select_table *table, const struct tb_select_device *device,
                            const struct tb_product *product, const struct tb_choice *choice);

#endif
