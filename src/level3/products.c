/* SPDX-License-Identifier: BSD-3-Clause */
#include "level3/products.h"

#include "level3/pieces.h"
#include "level3/triangular.h"

/* With A and B in each other's places. */
static void offload_again(const struct tb_call *call, const struct tb_places *places, bool timed,
                          struct tb_outcome *outcome) {
  const struct tb_call again = tb_call_again(call);
  struct tb_places exchanged;
  struct tb_outcome second;
  if (places != NULL) exchanged = (struct tb_places){.a = places->b, .b = places->a, .c = places->c};
  if (places != NULL) places = &exchanged;
  if (tb_offload_call(&again, places, timed, &second))
    tb_pieces_add(outcome, &second);
  else
    tb_pieces_finish(&again, places, outcome);
}

bool tb_level3_offload(const struct tb_call *call, const struct tb_places *places, bool timed,
                       struct tb_outcome *outcome) {
  if (call->recipe != TB_MULTIPLY) return tb_level3_triangular(call, places, timed, outcome);
  if (tb_offload_is_one_sum(call, places)) return tb_offload_call(call, places, timed, outcome);
  const struct tb_call once = tb_call_once(call);
  if (!tb_offload_call(&once, places, timed, outcome)) return false;
  if (call->twice && !tb_call_is_trivial(call) && !outcome->lost) offload_again(call, places, timed, outcome);
  return true;
}
