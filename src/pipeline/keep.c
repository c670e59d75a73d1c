/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/keep_internal.h"

#include "base/options.h"
#include "cache/cache.h"
#include "process/sandbox.h"

/* ---- a copy ---- */

/* Of what is free and what copies have already: the rest is for the program, and for us when a product wants it. */
#define SHARE_OF_FREE 2

int64_t tb_keep_limit(const struct tb_device *d, int64_t free_bytes) {
  const int64_t chosen = tb_option_number(TB_OPTION_cache), limit = tb_option_number(TB_OPTION_memory_limit);
  const int64_t kept_bytes = tb_cache_bytes(tb_device_cache(d));
  const int64_t most = chosen == TB_CACHE_AUTO ? (free_bytes + kept_bytes) / SHARE_OF_FREE : chosen;
  return limit > 0 ? tb_min(most, limit - d->arena_bytes) : most;
}

/* Results, which the product's own memory comes behind, leave twice as much. */
bool tb_keep_make(struct tb_device *d, struct tb_kept *kept, enum tb_keep_what what) {
  size_t free_bytes = 0, total_bytes = 0;
  bool made = tb_cuda.cuMemGetInfo(&free_bytes, &total_bytes) == CUDA_SUCCESS;
  const int64_t limit = tb_keep_limit(d, (int64_t)free_bytes);
  if (what == TB_KEEP_OPERAND)
    made = made && tb_cache_make(tb_device_cache(d), d->lane, kept, (int64_t)free_bytes, limit);
  else
    made = made && tb_cache_make_result(tb_device_cache(d), d->lane, kept, (int64_t)free_bytes / SHARE_OF_FREE, limit);
  tb_cuda_failed_call = NULL; /* no failure of the call's */
  return made;
}

CUresult tb_keep_drop(struct tb_device *d, struct tb_kept *kept) {
  if (d->hangs) return CUDA_ERROR_TIMEOUT;
  tb_cache_drop(tb_device_cache(d), kept);
  return CUDA_SUCCESS;
}

/* ---- an operand ---- */

/* What went wrong has left a copy as it was, or it is to go. */
static CUresult do_without(struct tb_device *d, struct tb_cached *found) {
  struct tb_kept *const kept = found->kept;
  *found = (struct tb_cached){.proof = TB_NOT_KEPT};
  if (kept->stale != NULL) return tb_keep_drop(d, kept);
  tb_cache_leave_operand(tb_device_cache(d), d->lane, kept);
  return CUDA_SUCCESS;
}

/* Brings up what was written of a copy, which is whole then, or is none any more. */
static CUresult mend(struct tb_device *d, struct tb_cached *found) {
  const int64_t bytes = tb_keep_stale_bytes(found->kept);
  const bool mended = tb_keep_send_stale(d, found->kept) == CUDA_SUCCESS;
  tb_cuda_failed_call = NULL; /* no failure of the call's */
  if (!mended) {
    tb_device_settle(d);
    return do_without(d, found);
  }
  tb_kept_end_mending(found->kept);
  found->mended_bytes = bytes;
  return CUDA_SUCCESS;
}

/* Brings up what a copy has not of the operand. Where there is no room for that it stays as it is. */
static CUresult grow(struct tb_device *d, const struct tb_stored *operand, struct tb_cached *found) {
  int64_t bytes;
  if (!tb_keep_grow(d, found->kept, operand, &bytes)) return do_without(d, found);
  *found = tb_cache_found_grown(found->kept, operand);
  found->mended_bytes = bytes;
  return CUDA_SUCCESS;
}

/* `coming`: for a copy that the product may bring up as it is computed; NULL: it may not. */
static CUresult look_up(struct tb_device *d, const struct tb_stored *operand, struct tb_cached *found,
                        struct tb_question *later, struct tb_kept **coming) {
  CUresult result = CUDA_SUCCESS;
  struct tb_kept *const worth = tb_cache_look(tb_device_cache(d), d->lane, operand, d->pool, found, later);
  if (found->grows) return grow(d, operand, found);
  if (found->proof == TB_MENDED) return mend(d, found);
  if (worth == NULL || !tb_keep_make(d, worth, TB_KEEP_OPERAND)) return CUDA_SUCCESS;
  tb_kept_await(worth); /* also where the GPU hangs before it is up, and the copy stays */
  if (coming != NULL) {
    *coming = worth;
  } else if (tb_keep_fill(d, worth)) {
    tb_kept_is_whole(worth);
    *found = tb_keep_found_anew(worth);
  } else {
    result = tb_keep_drop(d, worth);
  }
  return result;
}

void tb_keep_take(struct tb_keep *keep, bool of_b, const struct tb_stored *operand, const struct tb_cached *found) {
  struct tb_view *const x = of_b ? &keep->call.b : &keep->call.a;
  const bool again = of_b && keep->call.a.data == (const void *)found->address; /* syrk's is A once more */
  keep->proof[of_b] = found->proof;
  if (found->proof == TB_NOT_KEPT) return;
  if (found->kept != NULL && tb_stored_is(&found->kept->stored, operand)) keep->whole[of_b] = found->kept;
  x->data = (const void *)found->address;
  x->ld = found->pitch_bytes / tb_type_bytes(x->type);
  *(of_b ? &keep->ways.b : &keep->ways.a) = tb_view_is_mirrored(x) ? TB_FORMED : TB_IN_PLACE;
  if (again) return;
  const double bytes = (double)tb_stored_bytes(operand), up = (double)found->mended_bytes;
  keep->saved_bytes += tb_proof_is_kept(found->proof) ? bytes - up : 0;
  keep->made_bytes += tb_proof_is_kept(found->proof) ? up : bytes;
}

/* Of a triangle whole columns go up, from the slots. */
static bool has_whole_triangle(const struct tb_view *x, const struct tb_stored *operand) {
  return x->structure == TB_GENERAL ||
         (x->diagonal == 0 && operand->column_bytes == operand->columns * tb_type_bytes(x->type) &&
          operand->column_bytes <= TB_SLOT_BYTES / 2);
}

static bool may_be_kept(const struct tb_view *x, enum tb_way way, const struct tb_stored *operand) {
  return way == TB_STAGED && has_whole_triangle(x, operand) && tb_stored_bytes(operand) >= TB_CACHE_LEAST_BYTES;
}

/* ---- a call ---- */

void tb_keep_nothing(struct tb_keep *keep, const struct tb_call *call, struct tb_ways ways) {
  *keep = (struct tb_keep){.call = *call, .ways = ways, .proof = {TB_NOT_KEPT, TB_NOT_KEPT}};
}

static bool is_small(const struct tb_call *call, const struct tb_ways *ways) {
  return call->recipe == TB_MULTIPLY && tb_plan_fits_one_slot(call, *ways);
}

bool tb_keep_may_stay(struct tb_device *d, const struct tb_call *call, const struct tb_ways *ways) {
  if (tb_option_number(TB_OPTION_cache) == 0) {
    if (tb_cache_bytes(tb_device_cache(d)) > 0) tb_cache_give_back(tb_device_cache(d));
    return false;
  }
  if (!tb_way_is_by_link(ways->c) || tb_call_is_trivial(call) || is_small(call, ways)) return false;
  if (call->twice && !tb_call_exchanges_all(call)) return false; /* a part has four operands */
  return !tb_sandboxed();
}

bool tb_keep_enter_cache(struct tb_device *d) {
  if (tb_device_cache(d) == NULL) {
    const bool reaches_all = tb_device_attribute(d, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) != 0;
    *tb_device_cache_place(d) = tb_cache_open(!reaches_all);
  }
  if (tb_device_cache(d) == NULL) return false;
  tb_cache_begin_call(tb_device_cache(d), d->lane);
  tb_cache_allow_hash(tb_device_cache(d), tb_option_number(TB_OPTION_cache) != TB_CACHE_AUTO);
  return true;
}

/* The pipeline has the panels of a product by themselves, as they are stored. */
static bool may_come(const struct tb_keep *keep, bool of_b) {
  const struct tb_call *const call = &keep->call;
  const struct tb_view *const x = of_b ? &call->b : &call->a;
  return call->recipe == TB_MULTIPLY && !call->twice && x->structure == TB_GENERAL && keep->ways.c == TB_STAGED;
}

static CUresult look_all_up(struct tb_keep *keep, struct tb_device *d, const struct tb_kept_operands *x) {
  struct tb_cached found[2] = {{.proof = TB_NOT_KEPT}, {.proof = TB_NOT_KEPT}};
  const bool same = tb_keep_are_same(x);
  if (!tb_keep_enter_cache(d)) return CUDA_SUCCESS;
  tb_cache_allow_mending(tb_device_cache(d));
  if (keep->call.recipe == TB_MULTIPLY) tb_cache_allow_asking(tb_device_cache(d));
  for (int of_b = 0; of_b < 2; of_b++) {
    struct tb_question *const later = x->may_wait ? &keep->question[of_b] : NULL;
    struct tb_kept **const coming = may_come(keep, of_b) ? &keep->coming[of_b] : NULL;
    if (x->may[of_b] && !(of_b && same)) TB_TRY(look_up(d, &x->stored[of_b], &found[of_b], later, coming));
    if (keep->question[of_b].kept != NULL) keep->doubt = TB_NOT_ASKED;
    keep->later.is[of_b] = found[of_b].unasked != NULL;
    if (keep->later.is[of_b]) tb_asking_begin(&keep->later.asking[of_b], found[of_b].unasked);
  }
  if (same) found[TB_OF_B] = found[TB_OF_A], keep->later.is[TB_OF_B] = keep->later.is[TB_OF_A];
  for (int of_b = 0; of_b < 2; of_b++) tb_keep_take(keep, of_b, &x->stored[of_b], &found[of_b]);
  keep->call.again_a = keep->call.b.data, keep->call.again_b = keep->call.a.data;
  return CUDA_SUCCESS;
}

/* Sides of an operand whose stored columns do not run along k: with more of them it goes up in several panels, as short
 * pieces of columns, which threads copy at half the speed. */
#define SIDES_OF_ONE_PANEL 1152

/* Whether one operand that must go up alone takes longer so than both would take together, as whole columns. */
bool tb_keep_is_sooner_without(const struct tb_keep *keep, const struct tb_call *call) {
  if (call->recipe != TB_MULTIPLY) return false; /* its B goes up as it comes down */
  for (int of_b = 0; of_b < 2; of_b++) {
    const bool alone = keep->proof[of_b] == TB_NOT_KEPT && keep->proof[!of_b] != TB_NOT_KEPT;
    if (alone && call->twice) return true; /* both products' A must come by one way */
    if (alone && !tb_runs_along_k(call, of_b) && (of_b ? call->n : call->m) > SIDES_OF_ONE_PANEL) return true;
  }
  return false;
}

struct tb_kept_operands tb_keep_operands(const struct tb_call *call, const struct tb_ways *ways) {
  struct tb_kept_operands x = {
      .stored = {tb_stored_of(&call->a, tb_call_a_rows(call), call->k), tb_stored_of(&call->b, call->k, call->n)}};
  x.may[TB_OF_A] = may_be_kept(&call->a, ways->a, &x.stored[TB_OF_A]);
  x.may[TB_OF_B] = call->recipe == TB_MULTIPLY && may_be_kept(&call->b, ways->b, &x.stored[TB_OF_B]);
  return x;
}

bool tb_keep_may_begin(struct tb_device *d, const struct tb_call *call, const struct tb_ways *ways,
                       const struct tb_kept_operands *x) {
  const bool any = (x->may[TB_OF_A] || x->may[TB_OF_B]) && ways->kept != TB_NOT_TO_BE_KEPT;
  if (!any || !tb_keep_may_stay(d, call, ways)) return false;
  if (tb_option_number(TB_OPTION_cache) > 0) tb_device_keep_within(d, tb_option_number(TB_OPTION_cache));
  return true;
}

/* Inside, which it leaves. */
static CUresult look_at_operands(struct tb_keep *keep, struct tb_device *d, const struct tb_call *call,
                                 struct tb_ways ways, const struct tb_kept_operands *x) {
  const CUresult result = look_all_up(keep, d, x);
  tb_cache_leave();
  tb_keep_settle(keep, d, call, ways);
  return result;
}

void tb_keep_settle(struct tb_keep *keep, struct tb_device *d, const struct tb_call *call, struct tb_ways ways) {
  if (!tb_keep_is_coming(keep) && tb_keep_is_sooner_without(keep, call)) {
    const struct tb_keep_later later = keep->later;
    const double made_bytes = keep->made_bytes; /* they went up all the same */
    tb_keep_end(keep, d);                       /* and make way for the product, if it wants their memory */
    tb_keep_nothing(keep, call, ways);
    keep->made_bytes = made_bytes;
    keep->later = later;
  }
  tb_keep_say_copies(keep, &ways);
}

CUresult tb_keep_begin(struct tb_keep *keep, struct tb_device *d, const struct tb_call *call, struct tb_ways ways,
                       bool may_wait) {
  struct tb_kept_operands x = tb_keep_operands(call, &ways);
  x.may_wait = may_wait && ways.c == TB_STAGED && call->recipe == TB_MULTIPLY;
  tb_keep_nothing(keep, call, ways);
  const bool looks = tb_keep_may_begin(d, call, &ways, &x);
  if (looks && !tb_cache_enter()) return CUDA_SUCCESS;
  const CUresult result = looks ? look_at_operands(keep, d, call, ways, &x) : CUDA_SUCCESS;
  if (result == CUDA_SUCCESS) tb_keep_begin_result(keep, d, &ways, looks);
  return result;
}

void tb_keep_say_copies(struct tb_keep *keep, const struct tb_ways *ways) {
  if (!tb_keep_any(keep) || tb_way_is_programs(ways->a) || tb_way_is_programs(ways->b)) return;
  keep->ways.kept = TB_ARE_COPIES;
}

/* ---- what waits ---- */

/* Where another call is inside, the next time. */
static void note_asked(struct tb_keep *keep) {
  if (!tb_cache_enter()) return;
  for (int of_b = 0; of_b < 2; of_b++) tb_asking_note(&keep->later.asking[of_b]);
  tb_cache_leave();
}

bool tb_keep_ask(struct tb_keep *keep) {
  if (keep == NULL) return false;
  struct tb_asking *const asking = keep->later.asking;
  const bool asked = tb_asking_go_on(&asking[TB_OF_A]) || tb_asking_go_on(&asking[TB_OF_B]);
  if (tb_asking_wants_note(&asking[TB_OF_A]) || tb_asking_wants_note(&asking[TB_OF_B])) note_asked(keep);
  return asked;
}

static bool is_asked(const struct tb_keep *keep, const struct tb_device *d) {
  for (int of_b = 0; of_b < 2; of_b++)
    if (keep->question[of_b].kept != NULL && !tb_question_is_asked(&keep->question[of_b], d->pool)) return false;
  return true;
}

/* Inside. */
static bool has_good_answers(struct tb_keep *keep) {
  bool all = true;
  for (int of_b = 0; of_b < 2; of_b++)
    if (keep->question[of_b].kept != NULL && !tb_kept_answer(&keep->question[of_b])) all = false;
  return all;
}

CUresult tb_keep_confirm(struct tb_keep *keep, struct tb_device *d) {
  for (int of_b = 0; of_b < 2 && keep->doubt == TB_NOT_ASKED; of_b++)
    if (keep->question[of_b].kept != NULL) tb_question_ask(&keep->question[of_b], d->pool);
  if (keep->doubt == TB_NOT_ASKED) keep->doubt = TB_ASKED;
  if (keep->doubt == TB_ALL_PROVEN) return CUDA_SUCCESS;
  if (!is_asked(keep, d) || !tb_cache_enter()) return CUDA_ERROR_NOT_READY;
  const bool proven = has_good_answers(keep);
  tb_cache_leave();
  keep->doubt = TB_ALL_PROVEN; /* nothing is asked any more */
  return proven ? CUDA_SUCCESS : TB_REFUTED;
}

void tb_keep_end(struct tb_keep *keep, struct tb_device *d) {
  tb_keep_pause_asker(keep);
  for (int of_b = 0; of_b < 2 && keep->doubt == TB_ASKED; of_b++)
    if (keep->question[of_b].kept != NULL) tb_pool_wait(d->pool, keep->question[of_b].job);
  keep->doubt = TB_ALL_PROVEN;
  if (keep->later.asking[TB_OF_A].kept != NULL || keep->later.asking[TB_OF_B].kept != NULL) note_asked(keep);
  if (d->hangs && tb_keep_is_written(keep)) return; /* it may yet be, so that it is nobody else's */
  tb_cache_end_call(tb_device_cache(d), d->lane);
}

void tb_keep_give_up(struct tb_keep *keep, struct tb_device *d, const struct tb_call *call, struct tb_ways ways) {
  tb_cuda_failed_call = NULL; /* no failure of the call's */
  tb_keep_end(keep, d);
  tb_cache_give_back(tb_device_cache(d));
  tb_keep_nothing(keep, call, ways);
}
