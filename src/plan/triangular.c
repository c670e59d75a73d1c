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
#define BLOCKS_OF_PRODUCTS_WISH 12 /* of which each is few launches */
#define BLOCK_LEAST 512
#define BLOCK_LEAST_IN_PLACE 4096
#define BLOCK_NARROWEST TB_TRIANGULAR_BLOCK_STEP /* but where there is no memory for that */
#define BLOCK_NARROWEST_OF_ALL 32
/* Bands: at least four, each of so many rows, where B has at most so many sides for each row. Of what is stored by
 * columns a band has a run of each, and the shorter those are the slower they are copied. On the left, where B is,
 * large orders alone gained by it. (H100s: bench/results/2026-11-27-7-h100.) */
#define BAND_LEAST 512
#define DEPTH_LEAST 2
#define BANDS_SIDES_OF_ROW_MOST 2
#define RUN_OF_B_BYTES 7168
#define RUN_OF_A_BYTES 4096
#define ORDER_WITH_RUNS_OF_B_LEAST 7168
/* A panel of A: enough to keep the link busy. It is read in tiles of so many columns. */
#define PANEL_BYTES ((int64_t)8 << 20)
#define PANELS_LEAST 4
#define PANEL_STEP 32
#define PANELS_IN_PLACE 4
/* Of a solve where B lies, too, whose steps begin when the first panel is formed. */
#define PANELS_OF_SOLVE 16
#define PANEL_OF_SOLVE_LEAST 256
/* What workspaces take of the memory that A' leaves, at most. */
#define WORKSPACE_SHARE 4

/* ---- steps ---- */

static bool goes_down(const struct tb_triangular_shape *s) { return s->lower == s->solves; }

static int64_t steps_of(const struct tb_triangular_shape *s, int64_t rows) {
  return 2 * tb_ceil_div(rows, s->leaf) - 1;
}

int64_t tb_triangular_steps(const struct tb_triangular_shape *s) { return steps_of(s, s->order); }

/* The half that is done first, or the second one. */
static struct tb_triangular_rows half_of(const struct tb_triangular_shape *s, struct tb_triangular_rows x,
                                         bool second) {
  const int64_t top = tb_ceil_div(tb_ceil_div(x.size, s->leaf), 2) * s->leaf;
  if (second == goes_down(s)) return (struct tb_triangular_rows){x.first + top, x.size - top};
  return (struct tb_triangular_rows){x.first, top};
}

/* What the product between the halves of `x` adds to these rows: of a solve those of the second half, which it has of
 * the first; of a product it is the other way round. */
static struct tb_triangular_step product_between(const struct tb_triangular_shape *s, struct tb_triangular_rows x,
                                                 struct tb_triangular_rows rows) {
  const struct tb_triangular_rows target = half_of(s, x, s->solves), source = half_of(s, x, !s->solves);
  return (struct tb_triangular_step){.first = rows.first,
                                     .size = rows.size,
                                     .source = source.first,
                                     .source_size = source.size,
                                     .whole_size = target.size};
}

/* Step `number` of those of these rows alone. */
static struct tb_triangular_step step_of(const struct tb_triangular_shape *s, struct tb_triangular_rows x,
                                         int64_t number) {
  while (x.size > s->leaf) {
    const struct tb_triangular_rows first = half_of(s, x, false), second = half_of(s, x, true);
    const int64_t before = steps_of(s, first.size);
    if (number == before) return product_between(s, x, half_of(s, x, s->solves));
    x = number < before ? first : second;
    if (number > before) number -= before + 1;
  }
  return (struct tb_triangular_step){.is_leaf = true, .first = x.first, .size = x.size};
}

struct tb_triangular_step tb_triangular_step(const struct tb_triangular_shape *s, int64_t number) {
  return step_of(s, (struct tb_triangular_rows){0, s->order}, number);
}

struct tb_triangular_shape tb_triangular_shape_of(const struct tb_call *call, int64_t leaf) {
  const bool lower = (call->a.uplo == TB_LOWER) != call->a.transposed;
  return (struct tb_triangular_shape){
      .solves = call->recipe == TB_TRIANGULAR_SOLVE, .lower = lower != call->on_right, .order = call->k, .leaf = leaf};
}

/* ---- bands ---- */

static bool in_second(int64_t number, int depth) { return number >> depth & 1; }

struct tb_triangular_rows tb_triangular_node_rows(const struct tb_triangular_shape *s, struct tb_triangular_node node) {
  struct tb_triangular_rows x = {0, s->order};
  while (node.depth-- > 0) x = half_of(s, x, in_second(node.number, node.depth));
  return x;
}

/* One for each half that lies before the node. */
static int64_t products_before(struct tb_triangular_node node) {
  return __builtin_popcountll((unsigned long long)node.number);
}

int64_t tb_triangular_node_steps(const struct tb_triangular_shape *s, struct tb_triangular_node node) {
  return products_before(node) + steps_of(s, tb_triangular_node_rows(s, node).size);
}

struct tb_triangular_step tb_triangular_node_step(const struct tb_triangular_shape *s, struct tb_triangular_node node,
                                                  int64_t number) {
  const struct tb_triangular_rows rows = tb_triangular_node_rows(s, node);
  struct tb_triangular_rows x = {0, s->order};
  if (number >= products_before(node)) return step_of(s, rows, number - products_before(node));
  for (int deeper = node.depth - 1;; deeper--) {
    const bool second = in_second(node.number, deeper);
    if (second && number-- == 0) return product_between(s, x, rows);
    x = half_of(s, x, second);
  }
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

/* On the right a block of rows comes down by columns, each of which must fit into a slot. */
static int64_t block_most(const struct tb_call *call, struct tb_ways ways) {
  if (!call->on_right || ways.c == TB_IN_PLACE) return INT64_MAX;
  return tb_slot_elems(call->type) / TB_TRIANGULAR_BLOCK_STEP * TB_TRIANGULAR_BLOCK_STEP;
}

int64_t tb_triangular_block_wish(const struct tb_call *call, struct tb_ways ways, enum tb_triangular_how how) {
  const int64_t sides = tb_triangular_sides(call), least = ways.c == TB_IN_PLACE ? BLOCK_LEAST_IN_PLACE : BLOCK_LEAST;
  const int64_t by_link = how != TB_BY_HALVES             ? BLOCKS_OF_PRODUCTS_WISH
                          : tb_type_is_double(call->type) ? BLOCKS_OF_DOUBLES_WISH
                                                          : BLOCKS_WISH;
  /* The tiles of a multiplication have all SMs: what copies a block back would wait for those of the next one. */
  if (ways.c == TB_IN_PLACE && how != TB_BY_HALVES) return sides;
  const int64_t wish = tb_max(least, tb_ceil_div(sides, ways.c == TB_IN_PLACE ? TB_TRIANGULAR_STREAMS : by_link));
  return tb_min(sides, tb_min(tb_round_up(wish, TB_TRIANGULAR_BLOCK_STEP), block_most(call, ways)));
}

/* A row of A' is a stored column. */
static bool stored_by_rows(const struct tb_triangular_plan *plan, const struct tb_call *call) {
  return call->a.transposed != plan->turns;
}

static void size_panels_of_bands(struct tb_triangular_plan *plan, const struct tb_call *call, int64_t bytes) {
  int64_t most = 0;
  plan->panels = tb_triangular_bands(plan);
  for (int64_t number = 0; number < plan->panels; number++) {
    const struct tb_triangular_panel p = tb_triangular_panel(plan, call, number);
    most = tb_max(most, tb_leading(call->type, p.rows) * p.columns);
  }
  plan->raw_bytes = tb_padded(call->type, most) * bytes;
}

/* In place it is read in parts, too, that of the other triangle little is looked at, if all of that would be. */
static void size_panels(struct tb_triangular_plan *plan, const struct tb_call *call, int64_t bytes, int64_t most) {
  const int64_t order = call->k, ld = tb_leading(call->type, order);
  const bool in_place = plan->ways.a == TB_IN_PLACE;
  const int64_t most_columns = tb_min(most, PANEL_BYTES) / (ld * bytes);
  const int64_t of_solve = tb_max(order / PANELS_OF_SOLVE, PANEL_OF_SOLVE_LEAST);
  const bool beside_steps = plan->shape.solves && plan->ways.c == TB_IN_PLACE;
  const bool in_squares = plan->how != TB_BY_HALVES; /* what is beyond them takes no time */
  const int64_t in_parts = beside_steps ? of_solve : in_squares ? order + PANEL_STEP - 1 : order / PANELS_IN_PLACE;
  const int64_t wish = in_place ? in_parts : tb_min(most_columns, order / PANELS_LEAST);
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

/* Whether a product's rows may be cut at every leaf: of floats the tensor cores look at the data of tiles. */
static bool may_be_cut(const struct tb_triangular_plan *plan, enum tb_type type) {
  return tb_type_is_double(type) || tb_kernel_parts(type) * plan->shape.leaf % TB_EMULATED_TILE_M == 0;
}

/* Rows of a band, at least; two leaves, that each half of the last one has one. */
static int64_t band_least(const struct tb_triangular_plan *plan, const struct tb_call *call) {
  const int64_t run_bytes = !plan->turns ? RUN_OF_B_BYTES : !stored_by_rows(plan, call) ? RUN_OF_A_BYTES : 0;
  return tb_max(tb_max(BAND_LEAST, 2 * plan->shape.leaf), tb_ceil_div(run_bytes, tb_call_bytes(call)));
}

/* Bands where blocks would wait for A: unless it does not go up, or is so small beside B that it would not be waited
 * for anyway, or blocks have to be narrower than the bits allow. */
static int depth_wish(const struct tb_triangular_plan *plan, const struct tb_call *call, int64_t block) {
  const int64_t least = band_least(plan, call);
  int depth = 0;
  if (!plan->shape.solves || !may_be_cut(plan, call->type)) return 0;
  if (plan->ways.a == TB_IN_PLACE || plan->ways.c == TB_IN_PLACE) return 0;
  if (!plan->turns && call->k < ORDER_WITH_RUNS_OF_B_LEAST) return 0;
  if (plan->sides > BANDS_SIDES_OF_ROW_MOST * call->k) return 0;
  if (block < tb_min(plan->sides, TB_TRIANGULAR_BLOCK_STEP)) return 0;
  while (depth < TB_TRIANGULAR_DEPTH_MAX && call->k >> (depth + 1) >= least) depth++;
  return depth >= DEPTH_LEAST ? depth : 0;
}

/* The halving gives what comes last fewer leaves, and at worst a single row. */
static bool halves_last(const struct tb_triangular_plan *plan, const struct tb_call *call) {
  const struct tb_triangular_node last = {plan->depth + 1, ((int64_t)2 << plan->depth) - 1};
  return tb_triangular_node_rows(&plan->shape, last).size >= band_least(plan, call) / 4;
}

/* Both blocks in places of their own, one for each stream. */
static bool plan_bands(struct tb_triangular_plan *plan, const struct tb_call *call, int64_t bytes, int64_t a_bytes,
                       int depth, int64_t budget_bytes) {
  const int64_t half = tb_round_up(tb_ceil_div(plan->sides, TB_TRIANGULAR_STREAMS), TB_TRIANGULAR_BLOCK_STEP);
  if (half > block_most(call, plan->ways)) return false;
  plan->depth = depth;
  plan->halves_last = halves_last(plan, call);
  size_panels_of_bands(plan, call, bytes);
  size_blocks(plan, call, bytes, tb_min(plan->sides, half), TB_TRIANGULAR_STREAMS);
  place_all(plan, a_bytes);
  if (plan->arena_bytes <= budget_bytes) return true;
  plan->depth = 0;
  plan->halves_last = false;
  return false;
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
  const int depth = depth_wish(plan, call, block);
  if (depth > 0 && plan_bands(plan, call, bytes, a_bytes, depth, budget_bytes)) return true;
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

/* Stored columns, or rows, of a triangle: those of its columns and rows that they are in, too. */
struct tb_triangular_panel tb_triangular_panel(const struct tb_triangular_plan *plan, const struct tb_call *call,
                                               int64_t number) {
  const struct tb_triangular_rows band = tb_triangular_rows_of(plan, plan->depth > 0 ? number : 0);
  const int64_t first = plan->depth > 0 ? band.first : number * plan->panel;
  const int64_t size = plan->depth > 0 ? band.size : tb_min(plan->panel, call->k - first);
  const bool of_rows = plan->depth > 0 && !stored_by_rows(plan, call);
  const bool to_end = (call->a.uplo == TB_LOWER) != of_rows;
  const int64_t across = to_end ? first : 0, length = to_end ? call->k - first : first + size;
  if (of_rows) return (struct tb_triangular_panel){across, length, first, size};
  return (struct tb_triangular_panel){first, size, across, length};
}

/* ---- the order of panels ---- */

int64_t tb_triangular_wanted(const struct tb_triangular_plan *plan, int64_t number) {
  return plan->depth > 0 || goes_down(&plan->shape) ? number : plan->panels - 1 - number;
}

int64_t tb_triangular_panels_for(const struct tb_triangular_plan *plan, const struct tb_call *call, int64_t portion,
                                 int64_t number) {
  if (plan->depth > 0) return tb_triangular_band_of(plan, portion) + 1;
  const struct tb_triangular_step step = tb_triangular_step(&plan->shape, number);
  const bool by_rows = step.is_leaf || stored_by_rows(plan, call);
  const int64_t first = by_rows ? step.first : step.source, end = first + (by_rows ? step.size : step.source_size);
  return goes_down(&plan->shape) ? tb_ceil_div(end, plan->panel) : plan->panels - first / plan->panel;
}
