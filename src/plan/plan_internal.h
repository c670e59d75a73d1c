/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the plans for all kernels (plan.c, plan_strips.c) and those for the tensor cores (plan_emulated.c,
 * plan_copies.c) share: sizes of tiles, strips, and where panels lie.
 */
#ifndef TB_PLAN_INTERNAL_H
#define TB_PLAN_INTERNAL_H

#include "plan/plan.h"
#include "select/rates.h"

/* What is computed while the link brings up a byte: by the tensor cores, and by the other kernels. */
static inline double tb_plan_emulated_flops_per_byte(const struct tb_ways *ways) {
  return tb_rate.plan_emulated_flops_per_s / tb_link_bytes_per_s(ways->link_bytes_per_s);
}
static inline double tb_plan_other_flops_per_byte(const struct tb_ways *ways) {
  return tb_rate.plan_other_flops_per_s / tb_link_bytes_per_s(ways->link_bytes_per_s);
}

/* Sizes of tiles along a side. */
struct tb_tiling {
  int64_t piece; /* tiles are multiples of it: the largest kernel's block of C */
  int64_t least, wish, most, enough;
};
struct tb_tilings {
  const struct tb_tiling *rows, *columns;
};

/* The tile for a side of a block; `more`: of so many tiles more than are best. */
int64_t tb_plan_tile(int64_t block, const struct tb_tiling *tiling, int more);

/* A plan of the whole product, whose tiles are still to be chosen. */
struct tb_plan tb_plan_uncut(const struct tb_call *call, struct tb_ways ways);
bool tb_plan_is_cut(const struct tb_plan *plan, const struct tb_call *call);

/* Whether it may have twins, if its tiles are squares. */
bool tb_plan_may_have_twins(const struct tb_plan *plan, const struct tb_call *call);

/* Whether its panels may serve both products of a call that is two, if its tiles are squares. */
bool tb_plan_may_have_both(const struct tb_plan *plan, const struct tb_call *call);

/* Tiles of the tensor cores' kernels that an H200's multiprocessors have room for. */
#define TB_EMULATED_TILES_AT_ONCE 132

/* Of a complex product the kernels see the real one, of twice the rows and twice the k. */
static inline int tb_plan_parts_of_element(const struct tb_plan *plan) { return tb_plan_expands(plan) ? 2 : 1; }

/* Of a product that is not cut: whether the GPU has kept an operand, or both (plan_copies.c); then these are the tensor
 * cores' tiles. */
bool tb_plan_has_copies(const struct tb_plan *plan, const struct tb_call *call);
void tb_plan_size_copies(struct tb_plan *plan, const struct tb_call *call);

/* Whether a mirrored operand may go up as it is stored. */
bool tb_plan_may_unfold(const struct tb_plan *plan, const struct tb_call *call);

/* Whether launches are of one stream; and whether one launch does it all. */
bool tb_plan_in_one_stream(const struct tb_plan *plan);
bool tb_plan_is_at_once(const struct tb_plan *plan);

/* Sets the tiles, and the room that panels and tiles take. */
void tb_plan_size_panels(struct tb_plan *plan, const struct tb_call *call, int64_t tile_m, int64_t tile_n);

/* Of a product that is not cut, strips in the place of tiles, if there are several of either. */
void tb_plan_size_strips(struct tb_plan *plan, const struct tb_call *call, double flops_per_byte,
                         struct tb_tilings tilings);

/* Where B's panels and the tiles of C start in the arena, and where they end. The last panel of a side may be shorter.
 * `keeps_a`: A's panels twice. */
void tb_plan_place_panels(struct tb_plan *plan, const struct tb_call *call, int64_t rows, int64_t columns,
                          bool keeps_a);

/* Where the real panels of a complex product lie: behind all else so far. Of another, nothing is done. */
void tb_plan_place_real(struct tb_plan *plan, const struct tb_call *call, int64_t rows, int64_t columns);

#endif
