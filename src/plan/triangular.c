/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan/triangular.h"

#include "select/emulated_plan.h"

/* Columns of a block: a quarter of B, that the first comes early and little is left behind the last; but enough for the
 * kernels, and few blocks, for each has all steps, of some 8 us of the caller's time. (H200, order 8192 from ordinary
 * memory, strsm by quarters, eighths and thirds: 16.1, 19.9 and 15.6 ms.) Doubles, with leaves twice as large, have
 * half of the steps. (H100, dtrsm by quarters, sixths, eighths and twelfths: 4096 8.1, 7.5, 7.7 and 7.7 ms,
 * 8192 26.5, 24.9, 25.6 and 26.7; ztrsm 15.2, 14.8, 15.8 and 15.9, 69.4, 69.9, 70.5 and 72.1; products of 8192 by
 * eighths and twelfths: strmm 11.4 and 11.0, dtrmm 21.9 and 21.3, ctrmm 23.9 and 23.7.) Where nothing is copied
 * two streams have a half each if that fills the GPU twice. (H200, with leaves of 192 and of 96 rows, whole and by
 * halves: dtrsm 4096 2.27 and 2.37 ms, 8192 12.76 and 12.56.) */
#define BLOCKS_WISH 4
#define BLOCKS_OF_DOUBLES_WISH 6
#define BLOCKS_OF_PRODUCTS_WISH 12 /* of which each is four launches, or nine */
#define BLOCK_LEAST 512
#define BLOCK_LEAST_IN_PLACE 4096
#define BLOCK_NARROWEST TB_TRIANGULAR_BLOCK_STEP /* but where there is no memory for that */
#define BLOCK_NARROWEST_OF_ALL 32
/* A panel of A: enough to keep the link busy. It is read in tiles of so many columns. */
#define PANEL_BYTES ((int64_t)8 << 20)
#define PANELS_LEAST 4
#define PANEL_STEP 32
#define PANELS_IN_PLACE 4
/* What workspaces take of the memory that A' leaves, at most. */
#define WORKSPACE_SHARE 4

/* ---- steps ---- */

static bool goes_down(const struct tb_triangular_shape *s) { return s->lower == s->solves; }

int64_t tb_triangular_steps(const struct tb_triangular_shape *s) { return 2 * tb_ceil_div(s->order, s->leaf) - 1; }

struct tb_triangular_step tb_triangular_step(const struct tb_triangular_shape *s, int64_t number) {
  int64_t first = 0, size = s->order;
  const bool downward = goes_down(s);
  while (size > s->leaf) {
    const int64_t top = tb_ceil_div(tb_ceil_div(size, s->leaf), 2) * s->leaf, bottom = size - top;
    const int64_t begins = downward ? top : bottom, before = 2 * tb_ceil_div(begins, s->leaf) - 1;
    if (number == before) {
      const bool into_bottom = s->lower;
      return (struct tb_triangular_step){.first = into_bottom ? first + top : first,
                                         .size = into_bottom ? bottom : top,
                                         .source = into_bottom ? first : first + top,
                                         .source_size = into_bottom ? top : bottom};
    }
    const bool in_top = (number < before) == downward;
    if (number > before) number -= before + 1;
    if (!in_top) first += top;
    size = in_top ? top : bottom;
  }
  return (struct tb_triangular_step){.is_leaf = true, .first = first, .size = size};
}

struct tb_triangular_shape tb_triangular_shape_of(const struct tb_call *call, int64_t leaf) {
  const bool lower = (call->a.uplo == TB_LOWER) != call->a.transposed;
  return (struct tb_triangular_shape){
      .solves = call->recipe == TB_TRIANGULAR_SOLVE, .lower = lower != call->on_right, .order = call->k, .leaf = leaf};
}

/* ---- ways and sizes ---- */

static enum tb_way way_from(enum tb_place place) {
  return place == TB_DEVICE || place == TB_MANAGED ? TB_IN_PLACE : TB_STAGED;
}

struct tb_ways tb_triangular_ways(const struct tb_places *places) {
  struct tb_ways ways = {.a = TB_STAGED, .b = TB_STAGED, .c = TB_STAGED};
  if (places == NULL) return ways;
  ways.a = way_from(places->a.place);
  ways.b = ways.c = way_from(places->c.place);
  return ways;
}

int64_t tb_triangular_block_wish(const struct tb_call *call, struct tb_ways ways, enum tb_triangular_how how) {
  const int64_t sides = tb_triangular_sides(call), least = ways.c == TB_IN_PLACE ? BLOCK_LEAST_IN_PLACE : BLOCK_LEAST;
  const int64_t by_link = how != TB_BY_HALVES             ? BLOCKS_OF_PRODUCTS_WISH
                          : tb_type_is_double(call->type) ? BLOCKS_OF_DOUBLES_WISH
                                                          : BLOCKS_WISH;
  /* Each block of a multiplication's kernel has an SM, of which there are none left for another stream's. */
  if (ways.c == TB_IN_PLACE && how == TB_BY_PLANES) return sides;
  const int64_t wish = tb_max(least, tb_ceil_div(sides, ways.c == TB_IN_PLACE ? TB_TRIANGULAR_STREAMS : by_link));
  return tb_min(sides, tb_round_up(wish, TB_TRIANGULAR_BLOCK_STEP));
}

/* In place it is read in parts, too, that of the other triangle little is looked at. */
static void size_panels(struct tb_triangular_plan *plan, const struct tb_call *call, int64_t bytes, int64_t most) {
  const int64_t order = call->k, ld = tb_leading(call->type, order);
  const bool in_place = plan->ways.a == TB_IN_PLACE;
  const int64_t most_columns = tb_min(most, PANEL_BYTES) / (ld * bytes);
  const int64_t wish = in_place ? order / PANELS_IN_PLACE : tb_min(most_columns, order / PANELS_LEAST);
  plan->panel = tb_min(order, tb_max(wish / PANEL_STEP, 1) * PANEL_STEP);
  plan->panels = tb_ceil_div(order, plan->panel);
  plan->raw_bytes = in_place ? 0 : tb_padded(call->type, ld * plan->panel) * bytes;
}

/* Of each column whether it is finite; from planes, of each group of its rows. */
static int64_t unfit_bytes(const struct tb_triangular_plan *plan, int64_t order) {
  const int64_t words =
      plan->how == TB_BY_PLANES ? tb_emulated_groups(order) * tb_emulated_padded_sides(true, plan->block) : plan->block;
  return tb_round_up(words * (int64_t)sizeof(int32_t), TB_LINE_BYTES);
}

/* A product made apart; what was seen of its columns; and what its kernels want beside it. */
static void size_apart(struct tb_triangular_plan *plan, const struct tb_call *call, int64_t bytes) {
  const struct tb_emulated_way way = {.splits = 1};
  const int64_t order = tb_kernel_parts(call->type) * call->k;
  plan->apart_ld = tb_leading(call->type, call->k);
  if (plan->how == TB_BY_HALVES) return;
  plan->unfit_at_bytes = tb_padded(call->type, plan->apart_ld * plan->block) * bytes;
  plan->planes_at_bytes = plan->unfit_at_bytes + unfit_bytes(plan, order);
  plan->work_at_bytes = plan->apart_bytes = plan->planes_at_bytes;
  if (plan->how != TB_BY_PLANES) return;
  plan->work_at_bytes += tb_emulated_packed_bytes(true, plan->block, order);
  plan->apart_bytes = plan->work_at_bytes + tb_emulated_workspace_bytes(order, plan->block, order, &way);
}

/* With blocks of so many columns. */
static void size_blocks(struct tb_triangular_plan *plan, const struct tb_call *call, int64_t bytes, int64_t block,
                        int places_most) {
  const bool in_place = plan->ways.c == TB_IN_PLACE;
  plan->block = block;
  plan->blocks = tb_ceil_div(plan->sides, block);
  const bool where_it_lies = in_place && !plan->turns;
  const int64_t places = tb_min(tb_min(plan->blocks, places_most), in_place ? TB_TRIANGULAR_STREAMS : places_most);
  plan->places = where_it_lies ? 0 : (int)places;
  /* A place's blocks are computed one behind another, in one stream. */
  plan->streams = (int)tb_min(where_it_lies ? plan->blocks : places, TB_TRIANGULAR_STREAMS);
  plan->b_ld = plan->places == 0 ? call->ldc : tb_leading(call->type, call->k);
  plan->b_bytes = plan->places == 0 ? 0 : tb_padded(call->type, plan->b_ld * block) * bytes;
  plan->stored_ld = in_place ? call->ldc : tb_leading(call->type, block);
  size_apart(plan, call, bytes);
  plan->stored_bytes = in_place || !plan->turns ? 0 : tb_padded(call->type, plan->stored_ld * call->k) * bytes;
}

static void place_all(struct tb_triangular_plan *plan, int64_t a_bytes) {
  plan->packed_offset_bytes = a_bytes;
  plan->raw_offset_bytes = plan->packed_offset_bytes + plan->packed_bytes;
  plan->b_offset_bytes = plan->raw_offset_bytes + 2 * plan->raw_bytes;
  plan->stored_offset_bytes = plan->b_offset_bytes + plan->places * plan->b_bytes;
  plan->workspace_offset_bytes = plan->stored_offset_bytes + plan->places * plan->stored_bytes;
  plan->apart_offset_bytes = plan->workspace_offset_bytes + plan->streams * plan->workspace_bytes;
  plan->arena_bytes = plan->apart_offset_bytes + plan->streams * plan->apart_bytes;
}

/* The next narrower blocks; 0: there are none. From planes they begin where tiles do. */
static int64_t narrower(const struct tb_triangular_plan *plan, int64_t block) {
  if (block > BLOCK_NARROWEST) return tb_round_up(tb_ceil_div(block, 2), TB_TRIANGULAR_BLOCK_STEP);
  return plan->how != TB_BY_PLANES && block > BLOCK_NARROWEST_OF_ALL ? BLOCK_NARROWEST_OF_ALL : 0;
}

bool tb_triangular_plan_make(struct tb_triangular_plan *plan, const struct tb_call *call, struct tb_ways ways,
                             enum tb_triangular_how how, int64_t leaf, int64_t block, int64_t workspace_bytes,
                             int64_t budget_bytes) {
  const int64_t bytes = tb_call_bytes(call), parts = tb_kernel_parts(call->type);
  *plan = (struct tb_triangular_plan){.shape = tb_triangular_shape_of(call, how == TB_BY_HALVES ? leaf : call->k),
                                      .ways = ways,
                                      .turns = call->on_right,
                                      .how = how,
                                      .sides = tb_triangular_sides(call)};
  const enum tb_type kernel_type = tb_kernel_type(call->type);
  plan->a_ld = tb_padded(kernel_type, parts * call->k);
  const int64_t a_bytes = plan->a_ld * parts * call->k * tb_type_bytes(kernel_type);
  if (how == TB_BY_PLANES) plan->packed_bytes = tb_emulated_packed_bytes(false, parts * call->k, parts * call->k);
  if (a_bytes + plan->packed_bytes >= budget_bytes) return false;
  const int64_t rest = (budget_bytes - a_bytes - plan->packed_bytes) / WORKSPACE_SHARE;
  plan->workspace_bytes = tb_min(workspace_bytes, rest / TB_TRIANGULAR_STREAMS) / TB_LINE_BYTES * TB_LINE_BYTES;
  size_panels(plan, call, bytes, rest / 2);
  int64_t narrowest = block;
  for (; block > 0; block = narrower(plan, block)) {
    narrowest = block;
    size_blocks(plan, call, bytes, block, TB_TRIANGULAR_PLACES_MAX);
    place_all(plan, a_bytes);
    if (plan->arena_bytes <= budget_bytes) return true;
  }
  for (int places = TB_TRIANGULAR_PLACES_MAX / 2; places >= 1; places /= 2) {
    size_blocks(plan, call, bytes, narrowest, places);
    place_all(plan, a_bytes);
    if (plan->arena_bytes <= budget_bytes) return true;
  }
  return false;
}

struct tb_triangular_panel tb_triangular_panel(const struct tb_triangular_plan *plan, const struct tb_call *call,
                                               int64_t number) {
  const int64_t first = number * plan->panel, columns = tb_min(plan->panel, call->k - first);
  if (call->a.uplo == TB_LOWER) return (struct tb_triangular_panel){first, columns, first, call->k - first};
  return (struct tb_triangular_panel){first, columns, 0, first + columns};
}

/* ---- the order of panels ---- */

int64_t tb_triangular_wanted(const struct tb_triangular_plan *plan, int64_t number) {
  return goes_down(&plan->shape) ? number : plan->panels - 1 - number;
}

/* Rows of A' are stored columns where it is transposed. */
int64_t tb_triangular_panels_for(const struct tb_triangular_plan *plan, const struct tb_call *call, int64_t number) {
  const struct tb_triangular_step step = tb_triangular_step(&plan->shape, number);
  const bool by_rows = step.is_leaf || call->a.transposed != plan->turns;
  const int64_t first = by_rows ? step.first : step.source, end = first + (by_rows ? step.size : step.source_size);
  return goes_down(&plan->shape) ? tb_ceil_div(end, plan->panel) : plan->panels - first / plan->panel;
}

/* ---- what is left ---- */

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
  for (; p->block < plan->blocks; p->block++) {
    int64_t *const done = &p->steps[p->block % TB_TRIANGULAR_STREAMS];
    const struct tb_call part =
        tb_triangular_part(call, tb_triangular_first(plan, p->block), tb_triangular_size(plan, p->block));
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

/* Of a block of rows of which some columns are committed. What those that are left still need of them is added first:
 * of a solve; of a product nothing is, for they were the last to need anything. */
static bool take_from_rows(const struct tb_call *block, struct tb_triangular_progress *p, struct tb_call *rest) {
  const bool downward = tb_triangular_is_downward(block), solves = block->recipe == TB_TRIANGULAR_SOLVE;
  const int64_t done = p->lines, left = block->k - done, first = downward ? done : 0;
  struct tb_call scaled = *block;
  if (solves && p->handed == 0) {
    p->handed = 1;
    *rest = tb_triangular_update(block, first, left, downward ? 0 : left, done, tb_scalar_of(block->type, -1),
                                 block->alpha);
    return true;
  }
  if (solves) scaled.alpha = tb_scalar_of(block->type, 1);
  *rest = tb_triangular_diagonal(&scaled, first, left);
  p->handed = 0;
  p->lines = 0;
  p->block++;
  return true;
}

bool tb_triangular_take_rest(const struct tb_triangular_plan *plan, const struct tb_call *call,
                             struct tb_triangular_progress *p, struct tb_call *rest) {
  if (p->begun && plan->places == 0) return take_steps(plan, call, p, rest);
  if (p->begun && p->block >= plan->blocks) return false;
  if (p->begun && plan->turns && p->lines > 0) {
    const struct tb_call block =
        tb_triangular_part(call, tb_triangular_first(plan, p->block), tb_triangular_size(plan, p->block));
    return take_from_rows(&block, p, rest);
  }
  const int64_t first = p->begun ? tb_triangular_first(plan, p->block) + p->lines : 0;
  const int64_t sides = tb_triangular_sides(call);
  if (first >= sides || p->handed > 1) return false;
  *rest = tb_triangular_part(call, first, sides - first);
  p->handed = 2;
  return true;
}
