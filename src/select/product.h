/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a kernel is chosen for: the tiles that there are, the device that runs them, the product, and the table of
 * rates. What chooses (select.h), and each family's own arithmetic, rest on it. Pure data; thread-safe.
 */
#ifndef TB_PRODUCT_H
#define TB_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/integers.h"
#include "blas/type.h"
#include "common/sgemm_args.h"
#include "select/fp64_plan.h"
#include "select/limits.h"

/* The tiles in the registry's order: TB_TILE_128x128 and so on. */
enum {
#define TB_SGEMM_TILE(name, ...) TB_TILE_##name,
#include "fma/registry.def"
#undef TB_SGEMM_TILE
  TB_TILE_COUNT
};

/* One row of kernels/fma/registry.def. */
struct tb_tile {
  const char *name; /* the kernels are called tb_sgemm_<name>... */
  int block_m, block_n, block_k, threads, shared_bytes;
  bool packed; /* its operands are packed first (kernels/fma/packed.cu) */
};
extern const struct tb_tile tb_tiles[TB_TILE_COUNT];

/* Tiles of an m x n result. */
static inline int64_t tb_tile_count(const struct tb_tile *tile, int64_t m, int64_t n) {
  return tb_ceil_div(m, tile->block_m) * tb_ceil_div(n, tile->block_n);
}

/*
 * Clusters of blocks, which run at the same time on neighbouring SMs: at_once[size][held] so many of so many blocks
 * when an SM holds at most `held`. Fewer blocks than the SMs would hold without: what is left of a group of neighbours
 * stays idle. All 0: the device has no clusters.
 */
#define TB_CLUSTERS_HELD_MAX 8
struct tb_clusters {
  int at_once[TB_SGEMM_TOGETHER_MAX + 1][TB_CLUSTERS_HELD_MAX + 1];
};

struct tb_select_device {
  int sm_count;
  int blocks_per_sm[TB_TILE_COUNT]; /* that an SM holds at once; 0: the device cannot run this tile */
  struct tb_clusters clusters;      /* that it runs at once, of parts of a split k */
  bool skinny, emulated;            /* the skinny kernels are there; those for the tensor cores */
  struct tb_fp64_device fp64;       /* what double precision has of it */
  double fma_per_us;                /* one SM's peak */
  double bytes_per_us;              /* the memory's nominal bandwidth */
};

/*
 * What the kernels see of a call's elements: a complex product of floats as a real one, of twice the rows and twice the
 * k (kernels/complex/complex_args.h); all others as they are.
 */
static inline bool tb_is_made_real(enum tb_type type) { return type == TB_C; }
static inline enum tb_type tb_kernel_type(enum tb_type type) { return tb_is_made_real(type) ? TB_S : type; }
static inline int tb_kernel_parts(enum tb_type type) { return tb_is_made_real(type) ? 2 : 1; }

struct tb_product {
  enum tb_type type;
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
  return x->type == y->type && x->m == y->m && x->n == y->n && x->k == y->k && x->group_k == y->group_k &&
         x->transpose_a == y->transpose_a && x->transpose_b == y->transpose_b && x->vectors == y->vectors &&
         x->as_stored == y->as_stored && x->emulated == y->emulated && x->fast == y->fast &&
         x->workspace_bytes == y->workspace_bytes;
}

/* The table, as numbers that bench/tune can change. */
struct tb_tile_rate {
  double full, alone, knee, along_k, by_words, block_us;
};
struct tb_select_table {
  struct tb_tile_rate tile[TB_TILE_COUNT];
#define TB_SELECT_COST(name, value) double name;
#include "select/rates.def"
};
extern const struct tb_select_table tb_select_table;

#endif
