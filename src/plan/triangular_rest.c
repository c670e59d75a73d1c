/* SPDX-License-Identifier: BSD-3-Clause */
/* What a GPU that failed has left of trmm or trsm, as calls. */
#include "plan/triangular.h"

/* A step of the plan's as a call, of a B that is alpha B already. */
static struct tb_call call_of_step(const struct tb_call *call, const struct tb_triangular_step *step) {
  const union tb_scalar one = tb_scalar_of(call->type, 1);
  const bool solves = call->recipe == TB_TRIANGULAR_SOLVE;
  struct tb_call part = *call;
  part.alpha = one;
  if (step->is_leaf) return tb_triangular_diagonal(&part, step->first, step->size);
  return tb_triangular_update(&part, step->first, step->size, step->source, step->source_size,
                              tb_scalar_of(call->type, solves ? -1 : 1), one);
}

/* Of blocks where they lie. */
static bool take_steps(const struct tb_triangular_plan *plan, const struct tb_call *call,
                       struct tb_triangular_progress *p, struct tb_call *rest) {
  const int64_t steps = tb_triangular_steps(&plan->shape);
  for (; p->portion < plan->blocks; p->portion++) {
    int64_t *const done = &p->steps[p->portion % TB_TRIANGULAR_STREAMS];
    const struct tb_call part =
        tb_triangular_part(call, tb_triangular_first(plan, p->portion), tb_triangular_size(plan, p->portion));
    if (*done > steps) {
      *done = 0; /* which is the block's behind the others now */
      continue;
    }
    if (*done == 0) {
      *rest = part;
      *done = steps + 1;
    } else {
      const struct tb_triangular_step step = tb_triangular_step(&plan->shape, (*done)++ - 1);
      *rest = call_of_step(&part, &step);
    }
    return true;
  }
  return false;
}

/* Sides that have as many of their rows committed, of those that are done first. */
struct committed {
  int64_t first, size, rows;
};
#define GROUPS 3

/* Rows of the bands before this one. */
static int64_t rows_before(const struct tb_triangular_plan *plan, const struct tb_call *call, int64_t band) {
  if (band == tb_triangular_bands(plan)) return call->k;
  const struct tb_triangular_rows x = tb_triangular_rows_of(plan, band);
  return tb_triangular_is_downward(call) ? x.first : call->k - (x.first + x.size);
}

/* Those that this portion's band is committed of, those that it is being committed of, and the others. A line is of one
 * of the sides, or of all that the portion has. */
static struct committed sides_of_group(const struct tb_triangular_plan *plan, const struct tb_call *call,
                                       const struct tb_triangular_progress *p, int group) {
  const int64_t block = tb_triangular_block_of(plan, p->portion), band = tb_triangular_band_of(plan, p->portion);
  const int64_t begins = tb_triangular_first(plan, block), before = rows_before(plan, call, band);
  const int64_t whole = begins + (plan->turns ? 0 : p->lines);
  const int64_t ends = plan->turns && p->lines > 0 ? begins + tb_triangular_size(plan, block) : whole;
  if (group == 0) return (struct committed){0, whole, rows_before(plan, call, band + 1)};
  if (group == 1) return (struct committed){whole, ends - whole, before + p->lines};
  return (struct committed){ends, plan->sides - ends, before};
}

/* What is missing of the sides of a group. First what the rows that are left still need of those that are committed: of
 * a solve; of a product nothing is, for they were the last to need anything. */
static bool take_of_group(const struct tb_call *call, const struct committed *x, bool first, struct tb_call *rest) {
  const int64_t left = call->k - x->rows, begins = tb_triangular_is_downward(call) ? x->rows : 0;
  if (x->size == 0 || left == 0) return false;
  struct tb_call part = tb_triangular_part(call, x->first, x->size);
  const bool updates = call->recipe == TB_TRIANGULAR_SOLVE && x->rows > 0;
  if (first && !updates) return false;
  if (first) {
    *rest = tb_triangular_update(&part, begins, left, begins > 0 ? 0 : left, x->rows, tb_scalar_of(call->type, -1),
                                 call->alpha);
    return true;
  }
  if (updates) part.alpha = tb_scalar_of(call->type, 1);
  *rest = tb_triangular_diagonal(&part, begins, left);
  return true;
}

bool tb_triangular_take_rest(const struct tb_triangular_plan *plan, const struct tb_call *call,
                             struct tb_triangular_progress *p, struct tb_call *rest) {
  if (!p->begun) { /* there may be no plan */
    *rest = tb_triangular_part(call, 0, tb_triangular_sides(call));
    return p->handed++ == 0;
  }
  if (plan->places == 0) return take_steps(plan, call, p, rest);
  while (p->portion < tb_triangular_portions(plan) && p->handed < 2 * GROUPS) {
    const struct committed x = sides_of_group(plan, call, p, p->handed / 2);
    if (take_of_group(call, &x, p->handed++ % 2 == 0, rest)) return true;
  }
  return false;
}
