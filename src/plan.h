/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a product is cut so that it fits the device: pure arithmetic, tested without a GPU.
 *
 *            n                C is cut into blocks of block_m x block_n. While a block is computed, its rows of op(A),
 *      +-----+-----+          its columns of op(B) and its result are on the device; when they do not fit for all of k,
 *      |block|     |          k is cut into chunks, and the partial sums stay in the result's buffer between them.
 *    m |1 3 5|     |          A block is cut into tiles of tile_m x tile_n: one launch, one download each. op(A) goes
 *      |2 3 5|     |          up in panels of tile_m rows, op(B) in panels of tile_n columns, in an order that lets the
 *      |4 4 5|     |          first tile start when one panel of each is there (the numbers).
 *      +-----+-----+
 */
#ifndef TB_PLAN_H
#define TB_PLAN_H

#include "place.h"

/* Device buffers: leading dimensions are multiples of this, so that every column starts on a 128-byte line. */
#define TB_LD_ELEMS 32
/* Most tiles along one side of a block. */
#define TB_TILES_MAX 32
/* Floats of one pinned staging slot: 4 MiB reach nine tenths of the link's rate. */
#define TB_SLOT_ELEMS ((int64_t)1 << 20)

/* How an operand comes to the kernels, or C from them. */
enum tb_way {
  TB_STAGED,  /* copied by the CPU to or from pinned slots, and by the GPU from or to there */
  TB_DIRECT,  /* copied by the GPU from or to where it lies, pinned memory */
  TB_IN_PLACE /* the kernels read or write it where it lies */
};

struct tb_ways {
  enum tb_way a, b, c;
};

/* The ways for operands that lie in these places (NULL: all pageable); device memory must be the computing GPU's. */
struct tb_ways tb_plan_ways(const struct tb_gemm *call, const struct tb_places *places);

struct tb_plan {
  int64_t block_m, block_n, chunk_k; /* chunk_k is k, or a multiple of the kernels' chunk */
  int64_t tile_m, tile_n;
  int64_t a_panel_elems, b_panel_elems, tile_elems; /* room for one panel or tile, padding included */
  int64_t b_offset_bytes, d_offset_bytes;           /* in the arena: A's panels, then B's, then the result's tiles */
  int64_t workspace_offset_bytes;                   /* and last, where there is room, partial sums of a split k */
  int64_t workspace_bytes;                          /* for each tile of the block; may be 0 */
  int64_t arena_bytes;
  struct tb_ways
      ways; /* what is in place has no room in the arena; a C with beta does: the product, before its commit */
};

/* Cuts `call` (m, n, k >= 1) for at most budget_bytes of device memory. False: not even the smallest pieces fit. */
bool tb_plan_make(struct tb_plan *plan, const struct tb_gemm *call, struct tb_ways ways, int64_t budget_bytes);

/* n rounded up to a multiple of TB_LD_ELEMS. */
static inline int64_t tb_padded(int64_t n) { return (n + TB_LD_ELEMS - 1) / TB_LD_ELEMS * TB_LD_ELEMS; }

static inline int64_t tb_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static inline int64_t tb_min(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t tb_max(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
