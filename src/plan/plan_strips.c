/* SPDX-License-Identifier: BSD-3-Clause */
/* Strips in the place of tiles, for all kernels: see plan.h. */
#include "plan/plan_internal.h"

/* A product that takes more than so many times as long as the larger operand's way up is not computed in strips: by
 * bench/overlap_model.py, from 1.28 on it had better not be, and from 0.6 on where the data want bf16 planes, which
 * take twice as long (8192 cubed 17.3 ms in strips, 15.3 by squares). And one that takes at most so many times as long
 * need not be computed on the tensor cores, of which each launch is preceded by packing and is five: 1536 cubed takes
 * 0.82 ms by them, 0.76 without, 2048 cubed 1.01 in strips by either (H200). */
#define STRIPS_TIMES 1.05
#define HIDDEN_TIMES 1.0
/* The operand that is not quite the larger one may be the one in strips. */
#define STRIPS_SIDES 0.8
/* Nor is one whose C is less than such a share of what goes up. */
#define STRIPS_SHARE 0.2
/* A strip's panel is such a part of its operand, but has so many bytes at least, and no more than a slot; unless
 * that were narrower than the tilings have it. The caller's thread has some 25 microseconds of work with each:
 * 160 x 6387 x 194 in 25 strips took 961 us, in 7 tiles 299 (two hosts). */
#define STRIPS_WISH 8
#define STRIP_BYTES_MIN ((int64_t)1 << 20)
/* Rows of a panel of a mirrored operand that goes up ahead of strips, of which there are at least two: narrower ones
 * bring less that is not stored, and cost more launches. (H100, ssymm, ms in turns: without strips, and with 2, 3, 4
 * and 6 panels: order 3000 2.4, 2.6, 2.8, 3.2, 3.7; 4096 3.9, 3.6, 3.9, 4.5, 6.3; 6144 8.1, 7.4, 6.7, 7.2, 8.4;
 * 8192 13.5, 11.8, 11.6, 11.6, 14.3.) */
#define SQUARE_PANEL 2048
#define SQUARE_ORDER_LEAST 3584

/* Of C, along which of its sides the strips follow each other. */
enum strips { NO_STRIPS, STRIPS_OF_ROWS, STRIPS_OF_COLUMNS };

/* Not where more comes down than goes up: then C's way must begin as soon as may be. Nor where little comes down, and
 * nothing is gained; nor where the panels of a strip are parts of stored columns, short pieces of memory far apart,
 * from which the threads copy at half the speed (H200: 75 x 7743 x 7116 NT 10.4 ms, by tiles 5.0). */
static enum strips strips_for(const struct tb_call *call, const struct tb_plan *plan, double flops_per_byte,
                              double times) {
  const double m = (double)call->m, n = (double)call->n, k = (double)call->k;
  bool of_rows = m > n;
  if (call->region.of != TB_WHOLE) return NO_STRIPS; /* half of every one would be computed for nothing */
  const bool much_longer = (of_rows ? n : m) < STRIPS_SIDES * (of_rows ? m : n);
  if (!tb_runs_along_k(call, !of_rows) && !much_longer) of_rows = !of_rows;
  const double up = (m + n) * k, up_in_strips = (of_rows ? m : n) * k, down = m * n;
  if (tb_plan_in_one_stream(plan) || !tb_runs_along_k(call, !of_rows)) return NO_STRIPS;
  if (tb_call_flops(call) / flops_per_byte > times * up_in_strips * (double)tb_call_bytes(call)) return NO_STRIPS;
  if (down > up || down < STRIPS_SHARE * up) return NO_STRIPS;
  return of_rows ? STRIPS_OF_ROWS : STRIPS_OF_COLUMNS;
}

bool tb_plan_is_hidden(const struct tb_call *call, struct tb_ways ways) {
  ways.link_bytes_per_s = 0; /* the bits must not depend on a measurement */
  const struct tb_plan plan = {.ways = ways};
  return strips_for(call, &plan, tb_plan_other_flops_per_byte(&ways), HIDDEN_TIMES) != NO_STRIPS;
}

static int64_t strip_of(enum tb_type type, int64_t side, int64_t k, struct tb_tiling t) {
  const int64_t least = STRIP_BYTES_MIN / tb_type_bytes(type);
  const int64_t elems = tb_min(tb_max(side * k / STRIPS_WISH, least), tb_slot_elems(type));
  t.least = t.wish = tb_max(t.wish, tb_round_up(tb_ceil_div(elems, k), t.piece));
  return tb_plan_tile(side, &t, 0);
}

/* Beside a mirrored A that goes up first, as it is stored, in a few panels of its triangle: strips of B's columns, if
 * the product takes no longer than these. */
static bool has_strips_beside_square(const struct tb_call *call, const struct tb_plan *plan, double flops_per_byte) {
  const double n = (double)call->n, k = (double)call->k;
  if (!plan->emulated || !tb_view_is_mirrored(&call->a) || !tb_way_is_by_link(plan->ways.b)) return false;
  if (tb_plan_in_one_stream(plan) || !tb_runs_along_k(call, TB_OF_B)) return false;
  if (call->k < SQUARE_ORDER_LEAST || n < STRIPS_SHARE * k) return false;
  return tb_call_flops(call) / flops_per_byte <= STRIPS_TIMES * n * k * (double)tb_call_bytes(call);
}

static void size_strips_beside_square(struct tb_plan *plan, const struct tb_call *call, struct tb_tilings t) {
  const int64_t panels = tb_min((call->m + SQUARE_PANEL / 2) / SQUARE_PANEL, TB_TILES_MAX);
  const int64_t panel = tb_round_up(tb_ceil_div(call->m, panels), t.rows->piece);
  plan->strips = true;
  tb_plan_size_panels(plan, call, panel, strip_of(call->type, call->n, call->k, *t.columns));
}

void tb_plan_size_strips(struct tb_plan *plan, const struct tb_call *call, double flops_per_byte, struct tb_tilings t) {
  const bool one_tile = plan->tile_m == call->m && plan->tile_n == call->n;
  if (plan->ways.passed || tb_plan_is_cut(plan, call) || one_tile) return;
  if (tb_plan_may_unfold(plan, call)) { /* then the larger operand is not larger */
    if (has_strips_beside_square(call, plan, flops_per_byte)) size_strips_beside_square(plan, call, t);
    return;
  }
  const enum strips which = strips_for(call, plan, flops_per_byte, STRIPS_TIMES);
  if (which == NO_STRIPS) return;
  const int64_t tile_m = which == STRIPS_OF_ROWS ? strip_of(call->type, call->m, call->k, *t.rows) : call->m;
  const int64_t tile_n = which == STRIPS_OF_COLUMNS ? strip_of(call->type, call->n, call->k, *t.columns) : call->n;
  if (tile_m == call->m && tile_n == call->n) return;
  plan->strips = true;
  tb_plan_size_panels(plan, call, tile_m, tile_n);
}
