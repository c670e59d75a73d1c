/* SPDX-License-Identifier: BSD-3-Clause */
/* What need not go up of a product that is not cut: one of twins, what serves two products, and half of a mirrored
 * operand. See plan.h. */
#include "plan/plan_internal.h"

bool tb_plan_may_have_twins(const struct tb_plan *plan, const struct tb_call *call) {
  const struct tb_ways *const ways = &plan->ways;
  return tb_call_has_twins(call) && ways->a == ways->b && tb_way_is_by_link(ways->a) && ways->c != TB_IN_PLACE &&
         !ways->passed && !tb_plan_is_cut(plan, call);
}

bool tb_plan_may_have_both(const struct tb_plan *plan, const struct tb_call *call) {
  const struct tb_ways *const ways = &plan->ways;
  return tb_call_exchanges_all(call) && tb_way_is_by_link(ways->a) && ways->a == ways->b && ways->c != TB_IN_PLACE &&
         !ways->passed && !tb_plan_is_cut(plan, call);
}

/* Of smaller ones, with two panels a side, little less would go up. */
#define UNFOLDED_LEAST 1536

bool tb_plan_may_unfold(const struct tb_plan *plan, const struct tb_call *call) {
  if (!tb_call_is_mirrored(call) || plan->no_square) return false;
  const bool of_b = tb_view_is_mirrored(&call->b);
  const struct tb_view x = tb_operand_of(call, of_b);
  const bool square = x.diagonal == 0 && !x.transposed && (of_b ? call->n : call->m) == call->k;
  return square && call->k >= UNFOLDED_LEAST && tb_way_of(&plan->ways, of_b) == TB_STAGED && !plan->ways.passed &&
         !tb_plan_is_cut(plan, call);
}
