/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the parts of a product lie while it is computed: the blocks of a plan in their order, a block's panels and
 * tiles, and their addresses, in the device's arena or in the program's memory. Pure arithmetic; thread safe.
 */
#ifndef TB_LAYOUT_H
#define TB_LAYOUT_H

#include "plan/plan.h"

/* A part of C. The sides come and go from block to block, so that an operand can stay. */
struct tb_block {
  int64_t i, m, j, n;
};

int64_t tb_layout_blocks(const struct tb_call *call, const struct tb_plan *plan);
struct tb_block tb_layout_block(const struct tb_call *call, const struct tb_plan *plan, int64_t number);

/* From this number on, the first block of which anything is computed; tb_layout_blocks: there is none. */
int64_t tb_layout_next_block(const struct tb_call *call, const struct tb_plan *plan, int64_t number);

/* Of rows or columns, counted from the start of their block; or of k. */
struct tb_extent {
  int64_t start, size;
};

/* A matrix as the kernels see it. */
struct tb_matrix {
  uint64_t address; /* on the device, or for it to reach */
  int64_t ld;
};

struct tb_layout {
  const struct tb_call *call;
  const struct tb_plan *plan;
  const struct tb_call *other; /* of a call that is two products: that which *call is not */
  bool exchanged;              /* *call is the second, whose chunks follow the first's */
  uint64_t arena;              /* plan->arena_bytes of device memory */
  uint64_t packed[2];          /* where packed panels of A and of B are, if not there; else 0 */
  struct tb_block block;
  bool is_last;           /* of all blocks of which anything is computed */
  int64_t rows, columns;  /* tiles along the block's sides; they are counted along its rows */
  struct tb_extent chunk; /* of k, whose panels are in the arena */
};

/* Goes to block `number`, and its first chunk. */
void tb_layout_enter(struct tb_layout *layout, int64_t number);

/* Goes to the next chunk of k. False: there is none. */
bool tb_layout_next_chunk(struct tb_layout *layout);
bool tb_layout_is_last_chunk(const struct tb_layout *layout);

/* Has *layout speak of the other product; where a block's panels serve both (tb_plan.both), from one launch to the
 * next. */
void tb_layout_exchange(struct tb_layout *layout);

/* Whether a launch for this extent of k begins a tile's sum, and whether it completes it. */
static inline bool tb_layout_begins_sum(const struct tb_layout *l, struct tb_extent k) {
  return k.start == 0 && !l->exchanged;
}
static inline bool tb_layout_ends_sum(const struct tb_layout *l, struct tb_extent k) {
  return k.start + k.size == l->call->k && (l->exchanged || !l->call->twice);
}

/* Slices of the chunk, and one of them, as an extent of k. */
int64_t tb_layout_slices(const struct tb_layout *layout);
struct tb_extent tb_layout_slice(const struct tb_layout *layout, int64_t slice);

/* Of a row, and of a column, of tiles. */
struct tb_extent tb_layout_rows(const struct tb_layout *layout, int64_t row);
struct tb_extent tb_layout_columns(const struct tb_layout *layout, int64_t column);

/* The rows of op(A), or the columns of op(B), of a panel. */
struct tb_extent tb_layout_sides(const struct tb_layout *layout, bool of_b, int64_t panel);

/* The rows and columns of a tile. */
struct tb_block tb_layout_tile(const struct tb_layout *layout, int64_t tile);

/* The part of op(A), or of op(B), that a row or column of tiles and a slice of the chunk want. */
struct tb_view tb_layout_view(const struct tb_layout *layout, bool of_b, int64_t panel, struct tb_extent k);

/* Where the kernels read it: in its panel, or in place. Each slice of a panel is a matrix of its own, behind the slices
 * before it. */
struct tb_matrix tb_layout_panel(const struct tb_layout *layout, bool of_b, int64_t panel, struct tb_extent k);

/* Element (i, j) of a mirrored operand that goes up as it is stored. */
struct tb_matrix tb_layout_stored(const struct tb_layout *layout, int64_t i, int64_t j);

/* The same of a complex product as the kernels read it, in reals: the panel made real, or as it is where that is a real
 * matrix already. */
struct tb_matrix tb_layout_real(const struct tb_layout *layout, bool of_b, int64_t panel, struct tb_extent k);

/* Where they leave a tile's product: in the arena, or in C. */
struct tb_matrix tb_layout_d(const struct tb_layout *layout, int64_t tile);

/* The part of a tile that is computed; and whether nothing of it is, so that it is no work for anybody. */
struct tb_region tb_layout_region(const struct tb_layout *layout, int64_t tile);
bool tb_layout_misses(const struct tb_layout *layout, int64_t tile);

/* A tile of the program's own C. */
void *tb_layout_c(const struct tb_layout *layout, int64_t tile);

/* For a tile's partial sums. Each tile has its own, because launches of several run at the same time. In a plan for the
 * tensor cores, for what the launches of a stream need one after another. */
uint64_t tb_layout_workspace(const struct tb_layout *layout, int64_t tile_or_stream);

/* Where a panel lies packed for the tensor cores, the span of it that starts at this k. */
uint64_t tb_layout_packed(const struct tb_layout *layout, bool of_b, int64_t panel, int64_t k_start);

/* The address so many of a call's elements behind another. */
static inline uint64_t tb_address_behind(const struct tb_call *call, uint64_t base, int64_t elems) {
  return base + (uint64_t)(elems * tb_call_bytes(call));
}

#endif
