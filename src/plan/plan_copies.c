/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan/plan_internal.h"

/*
 * Of operands that the GPU has kept. Nothing of them is awaited, so that launches may fill it, one after another in one
 * stream: pieces of C come down in their order, and none is held up by others that run beside it. Where both are there,
 * tiles of about so many rows and as many columns as are full launches. Where one goes up, strips of C, for each of
 * which a panel of it is enough; at least so many launches, if halves of full ones are enough for that: the next one's
 * blocks begin where this one's end. No more launches than are enough, for each takes the host some 25 us. (H100, ms,
 * 4096 cubed, 8192, 16384, and 11008 x 512 x 4096; both kept: by tiles of several streams 1.78, 6.39, 52.8, 1.13, so
 * 1.57, 5.99, 46.1, 0.93; A kept 2.09, 6.92, 53.8, 1.62, and 1.95, 6.96, 42.9, 0.87. By launches of one and a half
 * times what fills the GPU 16384 cubed took 56.) Where the other operand's panels are passed on between GPUs these are
 * as all cut them.
 */
#define COPIES_ROWS 4096
#define COPIES_LAUNCHES_MIN 8
#define COPIES_ENOUGH 24
#define COPIES_OF_SPANS_ENOUGH 16

bool tb_plan_has_copies(const struct tb_plan *plan, const struct tb_call *call) {
  return plan->ways.kept == TB_ARE_COPIES && !plan->ways.passed && call->region.of == TB_WHOLE &&
         !tb_plan_is_cut(plan, call);
}

/* A tile along a side, with `across` of the kernels' tiles along the other: as many of them as fill the GPU, or, where
 * that makes few launches, half of it; or some times as many. */
static int64_t tile_for_launch(const struct tb_plan *plan, int64_t side, int64_t piece, int64_t across,
                               bool may_halve) {
  const int64_t enough = tb_plan_spans(plan) == 1 ? COPIES_ENOUGH : COPIES_OF_SPANS_ENOUGH;
  const int64_t pieces = tb_ceil_div(side, piece), full = tb_max(1, TB_EMULATED_TILES_AT_ONCE / across);
  const int64_t wish = may_halve && pieces < COPIES_LAUNCHES_MIN * full ? tb_max(1, full / 2) : full;
  return tb_min(side, tb_ceil_div(pieces, wish * enough) * wish * piece);
}

static int64_t kernel_rows(const struct tb_plan *plan, int64_t rows) {
  return tb_ceil_div(tb_plan_parts_of_element(plan) * rows, TB_EMULATED_TILE_M);
}

static int64_t kernel_columns(int64_t columns) { return tb_ceil_div(columns, TB_EMULATED_TILE_N); }

/* A column of a tile must fit into a slot of the way down. */
static int64_t rows_most(const struct tb_call *call) { return tb_min(call->m, tb_slot_elems(call->type)); }

/* Rows of a tile where both are there, even ones, of at least half a launch if C is narrow. */
static int64_t rows_of_copies(const struct tb_plan *plan, const struct tb_call *call) {
  const int64_t most = rows_most(call), parts = tb_plan_parts_of_element(plan);
  const int64_t half = tb_ceil_div(TB_EMULATED_TILES_AT_ONCE / 2, kernel_columns(call->n)) * TB_EMULATED_TILE_M;
  const int64_t rows = tb_min(tb_max(COPIES_ROWS, half) / parts, most);
  return tb_plan_tile(call->m, &(struct tb_tiling){TB_EMULATED_TILE_M, rows, rows, rows, TB_TILES_MAX}, 0);
}

static int64_t rows_for_launch(const struct tb_plan *plan, const struct tb_call *call, int64_t n, bool may_halve) {
  const int64_t across = tb_plan_parts_of_element(plan) * kernel_columns(n);
  return tb_min(tile_for_launch(plan, call->m, TB_EMULATED_TILE_M, across, may_halve), rows_most(call));
}

static int64_t columns_for_launch(const struct tb_plan *plan, const struct tb_call *call, int64_t m, bool may_halve) {
  return tile_for_launch(plan, call->n, TB_EMULATED_TILE_N, kernel_rows(plan, m), may_halve);
}

/* A single panel that goes up is there soon, and C may come down in several parts. */
void tb_plan_size_copies(struct tb_plan *plan, const struct tb_call *call) {
  int64_t m = call->m, n = call->n;
  if (tb_way_is_by_link(plan->ways.a)) {
    m = rows_for_launch(plan, call, n, true);
    if (m == call->m) n = columns_for_launch(plan, call, m, false);
  } else if (tb_way_is_by_link(plan->ways.b)) {
    m = rows_most(call);
    n = columns_for_launch(plan, call, m, true);
    if (n == call->n) m = rows_for_launch(plan, call, n, false);
  } else {
    m = rows_of_copies(plan, call);
    n = columns_for_launch(plan, call, m, false);
  }
  tb_plan_size_panels(plan, call, m, n);
}
