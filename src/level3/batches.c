/* SPDX-License-Identifier: BSD-3-Clause */
#include "level3/batches.h"

#include <stdlib.h>

#include "level3/pieces.h"
#include "level3/products.h"
#include "offload/batch.h"

static bool is_for_gpu(unsigned char state) {
  return state == TB_BATCH_STAGED || state == TB_BATCH_IN_PLACE || state == TB_BATCH_ALONE;
}

/* Whether a product lies on the GPU, and in the context, of the first one that lies on any: those are computed by one
 * launch. Where it is the first itself it is noted. */
static bool is_beside_first(struct tb_batch_places *x, const struct tb_batch_cursor *cursor, struct tb_location *first,
                            const struct tb_places *places) {
  if (x->first_there < 0) x->first_there = cursor->number, *first = places->c;
  return places->c.device == first->device && places->c.context == first->context;
}

/* Matrices a stride apart are one object, of which the first tells for all. And in ordinary memory all of a group go
 * the same way. */
void tb_batch_look(struct tb_batch_places *x, const struct tb_batch *batch) {
  struct tb_batch_cursor cursor;
  struct tb_places found;
  const struct tb_places *places = NULL;
  enum tb_batch_state way = TB_BATCH_DONE;
  int64_t group = -1; /* that `way` is of; -1: of none */
  struct tb_location first = {.device = -1};
  *x = (struct tb_batch_places){.state = malloc((size_t)batch->products + 1), .none = true, .first_there = -1};
  tb_batch_begin(&cursor, batch);
  while (x->state != NULL && tb_batch_next(&cursor)) {
    if (cursor.number == 0 || !batch->made->strided) places = tb_places_find(&cursor.call, &found) ? &found : NULL;
    if (places != NULL || group != cursor.group) way = tb_offload_batch_way(&cursor.call, places);
    group = places == NULL ? cursor.group : -1;
    x->state[cursor.number] = (unsigned char)way;
    if (way == TB_BATCH_IN_PLACE && !is_beside_first(x, &cursor, &first, places))
      x->state[cursor.number] = TB_BATCH_ALONE;
    if (is_for_gpu((unsigned char)way)) x->none = false;
    if (places != NULL && tb_places_need_gpu(places)) x->need_gpu = true;
  }
}

/* As products alone: those that are large, or that lie partly on a GPU; and what a failure left. */
static void run_rest(const struct tb_batch *batch, unsigned char *state, struct tb_outcome *outcome) {
  struct tb_batch_cursor cursor;
  tb_batch_begin(&cursor, batch);
  while (tb_batch_next(&cursor)) {
    struct tb_places found;
    struct tb_outcome one;
    const unsigned char way = state[cursor.number];
    if (way == TB_BATCH_DONE) continue;
    const struct tb_places *const places = tb_places_find(&cursor.call, &found) ? &found : NULL;
    const bool on_gpu = way == TB_BATCH_ALONE || way == TB_BATCH_IN_PLACE;
    if (on_gpu && tb_offload_call(&cursor.call, places, false, &one))
      tb_pieces_add(outcome, &one);
    else
      tb_pieces_finish(&cursor.call, places, outcome);
    state[cursor.number] = TB_BATCH_DONE;
  }
}

static bool has_any(const struct tb_batch *batch, const unsigned char *state, enum tb_batch_state wanted) {
  for (int64_t i = 0; i < batch->products; i++)
    if (state[i] == (unsigned char)wanted) return true;
  return false;
}

/* Of the first product with everything on a GPU. */
static const struct tb_places *places_there(const struct tb_batch *batch, int64_t number, struct tb_places *found) {
  struct tb_batch_cursor cursor;
  tb_batch_begin(&cursor, batch);
  while (number >= 0 && tb_batch_next(&cursor))
    if (cursor.number == number) return tb_places_find(&cursor.call, found) ? found : NULL;
  return NULL;
}

bool tb_level3_batch(const struct tb_batch *batch, struct tb_batch_places *x, bool timed, struct tb_outcome *outcome) {
  struct tb_places found;
  const bool small = has_any(batch, x->state, TB_BATCH_STAGED) || has_any(batch, x->state, TB_BATCH_IN_PLACE);
  *outcome = (struct tb_outcome){.why = TB_STATUS_ok, .gpu_count = 1};
  if (small && !tb_offload_batch(batch, x->state, places_there(batch, x->first_there, &found), timed, outcome) &&
      !x->need_gpu)
    return false;
  run_rest(batch, x->state, outcome);
  return true;
}
