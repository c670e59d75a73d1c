/* SPDX-License-Identifier: BSD-3-Clause */
/* Operands that stay packed for the tensor cores: what a plan would pack in the arena it packs beside the copy, and a
 * later call by the same plan finds it there. */
#include "pipeline/keep_internal.h"

static struct tb_planes_shape planes_shape(const struct tb_call *call, const struct tb_plan *plan, bool of_b) {
  return (struct tb_planes_shape){.of_b = of_b,
                                  .along_k = tb_runs_along_k(call, of_b),
                                  .sides = of_b ? call->n : call->m,
                                  .k = call->k,
                                  .panel_sides = of_b ? plan->tile_n : plan->tile_m,
                                  .span_k = plan->span_k};
}

static int64_t planes_bytes(const struct tb_planes_shape *x, const struct tb_plan *plan) {
  return tb_ceil_div(x->sides, x->panel_sides) * tb_plan_spans(plan) * plan->operand[x->of_b].packed_bytes;
}

/* Panels of a copy, packed one by one, once. Complex ones are made real first, by alpha. */
static bool may_have_planes(const struct tb_keep *keep, const struct tb_plan *plan, bool of_b) {
  const struct tb_call *const call = &keep->call;
  const bool again = of_b && keep->whole[TB_OF_A] == keep->whole[TB_OF_B]; /* both are one matrix: it has A's */
  const bool is_cut = tb_layout_blocks(call, plan) > 1 || plan->chunk_k < call->k;
  return keep->whole[of_b] != NULL && !again && !is_cut && tb_plan_packs(plan) && call->type == TB_S && !call->twice &&
         tb_way_of(&keep->ways, of_b) == TB_IN_PLACE;
}

/* Inside. */
static struct tb_planes to_pack(struct tb_keep *keep, struct tb_device *d, const struct tb_plan *plan, bool of_b) {
  const struct tb_planes_shape shape = planes_shape(&keep->call, plan, of_b);
  size_t free_bytes = 0, total_bytes = 0;
  if (tb_cuda.cuMemGetInfo(&free_bytes, &total_bytes) != CUDA_SUCCESS) free_bytes = 0;
  return tb_cache_planes(tb_device_cache(d), d->lane, keep->whole[of_b], &shape, planes_bytes(&shape, plan),
                         (int64_t)free_bytes, tb_keep_limit(d, (int64_t)free_bytes));
}

void tb_keep_begin_planes(struct tb_keep *keep, struct tb_device *d, const struct tb_plan *plan) {
  bool wants[2];
  for (int of_b = 0; of_b < 2; of_b++) {
    const struct tb_planes_shape shape = planes_shape(&keep->call, plan, of_b);
    wants[of_b] = may_have_planes(keep, plan, of_b);
    if (wants[of_b]) keep->planes[of_b] = tb_cache_packed_planes(keep->whole[of_b], &shape, planes_bytes(&shape, plan));
    wants[of_b] = wants[of_b] && keep->planes[of_b].at == 0;
  }
  if ((!wants[TB_OF_A] && !wants[TB_OF_B]) || !tb_cache_enter()) return;
  for (int of_b = 0; of_b < 2; of_b++)
    if (wants[of_b]) keep->planes[of_b] = to_pack(keep, d, plan, of_b);
  tb_cache_leave();
}

bool tb_keep_drop_planes(struct tb_keep *keep, struct tb_device *d) {
  bool dropped = false;
  if (!tb_cache_enter()) return false;
  for (int of_b = 0; of_b < 2; of_b++)
    if (keep->whole[of_b] != NULL) dropped |= tb_cache_drop_planes(tb_device_cache(d), d->lane, keep->whole[of_b]);
  tb_cache_leave();
  return dropped;
}

void tb_keep_end_planes(struct tb_keep *keep) {
  for (int of_b = 0; of_b < 2; of_b++)
    if (keep->planes[of_b].at != 0 && !keep->planes[of_b].packed) tb_cache_finish_planes(keep->whole[of_b]);
}
