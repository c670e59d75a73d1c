/* SPDX-License-Identifier: BSD-3-Clause */
#include "level3/triangular.h"

#include "base/integers.h"
#include "blas/triangular.h"
#include "level3/pieces.h"

/* A triangle of less than twice as many rows is not halved any more: the CPU has it sooner than the GPU its parts.
 * Halves are multiples of it, that operands stay as well aligned as they are. */
#define ROWS_LEAST 64

struct pieces {
  const struct tb_places *places;
  bool timed;
  struct tb_outcome *outcome;
};

/* Where B has A's place, or C's. */
static void offload_update(const struct pieces *p, const struct tb_call *update, bool on_right) {
  struct tb_places there;
  struct tb_outcome next;
  const struct tb_places *const places = p->places == NULL ? NULL : &there;
  if (places != NULL) there = *p->places;
  if (places != NULL && on_right) there.a = p->places->c, there.b = p->places->a;
  if (tb_offload_call(update, places, p->timed, &next))
    tb_pieces_add(p->outcome, &next);
  else
    tb_pieces_finish(update, places, p->outcome);
}

/* Halves it, and halves those that are too large; the half that is needed by the other first. */
static void offload_halves(const struct pieces *p, const struct tb_call *call);

static void offload_part(const struct pieces *p, const struct tb_call *call) {
  struct tb_outcome next;
  if (p->outcome->lost) return;
  if (tb_offload_call(call, p->places, p->timed, &next))
    tb_pieces_add(p->outcome, &next);
  else if (next.too_large && call->k >= 2 * ROWS_LEAST)
    offload_halves(p, call);
  else
    tb_pieces_finish(call, p->places, p->outcome);
}

static void offload_halves(const struct pieces *p, const struct tb_call *call) {
  const int64_t top = tb_round_up(tb_ceil_div(call->k, 2), ROWS_LEAST), bottom = call->k - top;
  const bool downward = tb_triangular_is_downward(call), solves = call->recipe == TB_TRIANGULAR_SOLVE;
  const bool into_bottom = downward == solves;
  const union tb_scalar one = tb_scalar_of(call->type, 1);
  const struct tb_call update = tb_triangular_update(
      call, into_bottom ? top : 0, into_bottom ? bottom : top, into_bottom ? 0 : top, into_bottom ? top : bottom,
      solves ? tb_scalar_of(call->type, -1) : call->alpha, solves ? call->alpha : one);
  struct tb_call half[2] = {tb_triangular_diagonal(call, 0, top), tb_triangular_diagonal(call, top, bottom)};
  if (solves) half[downward].alpha = one; /* the update has seen to that */
  offload_part(p, &half[!downward]);
  if (p->outcome->lost) return;
  offload_update(p, &update, call->on_right);
  offload_part(p, &half[downward]);
}

bool tb_level3_triangular(const struct tb_call *call, const struct tb_places *places, bool timed,
                          struct tb_outcome *outcome) {
  if (tb_offload_call(call, places, timed, outcome)) return true;
  if (!outcome->too_large || call->k < 2 * ROWS_LEAST) return false;
  const struct pieces pieces = {places, timed, outcome};
  *outcome = (struct tb_outcome){.why = TB_STATUS_ok, .gpu_count = 1};
  offload_halves(&pieces, call);
  return true;
}
