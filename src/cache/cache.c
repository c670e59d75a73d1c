/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/cache_internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/integers.h"
#include "cache/ranges.h"

/* On all GPUs: what they keep is tracked together. */
static pthread_mutex_t inside = PTHREAD_MUTEX_INITIALIZER;
static int open_caches;

bool tb_cache_enter(void) { return pthread_mutex_trylock(&inside) == 0; }
void tb_cache_leave(void) { pthread_mutex_unlock(&inside); }

void tb_cache_after_fork(void) {
  pthread_mutex_init(&inside, NULL);
  tb_track_after_fork();
}

struct tb_cache *tb_cache_open(bool may_track) {
  struct tb_cache *cache = tb_hash_begin() ? calloc(1, sizeof *cache) : NULL;
  if (cache == NULL) return NULL;
  cache->may_track = may_track;
  cache->hash_pays = true;
  open_caches++;
  return cache;
}

static void take_back(struct tb_cache *cache, int user, int place) {
  struct tb_sighting *const s = cache->handed[user][place];
  if (s != NULL) atomic_fetch_and(&s->users, ~(1u << user));
  cache->handed[user][place] = NULL;
}

void tb_cache_end_call(struct tb_cache *cache, int user) {
  for (int i = 0; cache != NULL && i < HANDED_MOST; i++) take_back(cache, user, i);
}

void tb_cache_leave_result(struct tb_cache *cache, int user) { take_back(cache, user, HANDED_RESULT); }

void tb_cache_leave_operand(struct tb_cache *cache, int user, struct tb_kept *kept) {
  for (int i = 0; i < HANDED_RESULT; i++)
    if (cache->handed[user][i] == tb_sighting_of(kept)) take_back(cache, user, i);
}

void tb_cache_begin_call(struct tb_cache *cache, int user) {
  tb_cache_end_call(cache, user);
  tb_room_end_parked(cache, true); /* of a look behind which no memory could be asked for */
  cache->call++;
  cache->other = NULL;
  cache->may_mend = false;
  cache->asks_later = false;
}

void tb_cache_compare(struct tb_cache *cache, const struct tb_cached *other) { cache->other = other; }

void tb_cache_hand_out(struct tb_cache *cache, int user, int place, struct tb_sighting *s) {
  cache->handed[user][place] = s;
  atomic_fetch_or(&s->users, 1u << user);
  s->seen_before = s->seen;
  s->seen = cache->call;
}

int64_t tb_cache_bytes(const struct tb_cache *cache) { return cache == NULL ? 0 : atomic_load(&cache->bytes); }

/* ---- the end of a copy ---- */

static void note_refutation(struct tb_sighting *s) { s->refuted = s->uses > 0 && !s->kept.proven; }

static void forget_copy(struct tb_cache *cache, struct tb_sighting *s, bool frees) {
  struct tb_kept *const kept = &s->kept;
  tb_kept_forget_pages(kept);
  tb_probe_end(&kept->probe);
  note_refutation(s);
  tb_planes_forget(cache, s, frees);
  if (kept->copy != 0 && frees) tb_cuda.cuMemFree(kept->copy);
  cache->bytes -= kept->copy_bytes;
  free(kept->digests);
  tb_kept_end_mending(kept);
  *kept = (struct tb_kept){.stored = kept->stored,
                           .track_failures = kept->track_failures,
                           .unwatchable = kept->unwatchable,
                           .replaced = kept->replaced};
  s->grown_uses = s->has_no_room = 0;
  cache->end[s - cache->sighting] = NULL;
}

void tb_cache_allow_hash(struct tb_cache *cache, bool hash_pays) { cache->hash_pays = hash_pays; }

void tb_cache_allow_results(struct tb_cache *cache, bool results_pay) { cache->results_pay = results_pay; }

void tb_cache_allow_mending(struct tb_cache *cache) { cache->may_mend = true; }

void tb_cache_allow_asking(struct tb_cache *cache) { cache->asks_later = true; }

void tb_cache_drop(struct tb_cache *cache, struct tb_kept *kept) {
  forget_copy(cache, tb_sighting_of(kept), true);
  atomic_store(&tb_sighting_of(kept)->users, 0);
  tb_worth_end(cache, tb_sighting_of(kept));
}

void tb_cache_close(struct tb_cache *cache, bool frees) {
  if (cache == NULL) return;
  pthread_mutex_lock(&inside);
  for (int i = 0; i < OPERANDS_MOST; i++)
    if (cache->end[i] != NULL) forget_copy(cache, &cache->sighting[i], frees);
  tb_room_end_parked(cache, frees);
  free(cache);
  if (--open_caches == 0) tb_track_close();
  pthread_mutex_unlock(&inside);
}

/* Of copies that the program has chosen, or of the others, the one that was used longest ago, before a call, and by
 * none that is under way; NULL: there is none. */
static struct tb_sighting *find_oldest(struct tb_cache *cache, uint64_t before, bool chosen) {
  struct tb_sighting *oldest = NULL;
  for (int i = 0; i < OPERANDS_MOST; i++) {
    if (cache->end[i] == NULL || cache->sighting[i].seen >= before || tb_is_in_use(&cache->sighting[i])) continue;
    if (cache->sighting[i].chosen != chosen) continue;
    if (oldest == NULL || cache->sighting[i].seen < oldest->seen) oldest = &cache->sighting[i];
  }
  return oldest;
}

bool tb_cache_give_back_before(struct tb_cache *cache, uint64_t call, bool chosen) {
  struct tb_sighting *const oldest = find_oldest(cache, call, chosen);
  if (oldest == NULL) return false;
  tb_cache_drop(cache, &oldest->kept);
  return true;
}

bool tb_cache_give_back_one(struct tb_cache *cache) {
  if (cache == NULL) return false;
  pthread_mutex_lock(&inside);
  const bool given = tb_room_end_parked(cache, true) || tb_planes_give_back_one(cache) ||
                     tb_cache_give_back_before(cache, UINT64_MAX, false) ||
                     tb_cache_give_back_before(cache, UINT64_MAX, true);
  pthread_mutex_unlock(&inside);
  return given;
}

void tb_cache_give_back(struct tb_cache *cache) {
  while (tb_cache_give_back_one(cache)) continue;
}

static atomic_bool rested;

void tb_cache_rest(struct tb_cache *cache) {
  if (cache == NULL) return;
  pthread_mutex_lock(&inside);
  tb_room_end_parked(cache, true);
  while (tb_planes_give_back_one(cache)) continue;
  while (tb_cache_give_back_before(cache, UINT64_MAX, false)) atomic_store(&rested, true);
  pthread_mutex_unlock(&inside);
}

bool tb_cache_has_rested(void) {
  return atomic_load_explicit(&rested, memory_order_relaxed) && atomic_exchange(&rested, false);
}

void tb_cache_give_back_range(struct tb_cache *cache, uintptr_t start, uintptr_t end) {
  if (cache == NULL) return;
  pthread_mutex_lock(&inside);
  for (int i = 0; i < OPERANDS_MOST; i++) {
    const bool is_there = cache->end[i] != NULL && (uintptr_t)cache->at[i] < end && (uintptr_t)cache->end[i] > start;
    if (is_there && !tb_is_in_use(&cache->sighting[i])) forget_copy(cache, &cache->sighting[i], true);
    if (is_there) cache->sighting[i].sights = cache->sighting[i].uses = cache->sighting[i].chosen = 0;
    if (is_there) cache->sighting[i].saved_bytes = cache->sighting[i].result_kind = cache->sighting[i].returns = 0;
  }
  pthread_mutex_unlock(&inside);
}

/* ---- sights ---- */

static struct tb_sighting *find_operand(struct tb_cache *cache, const struct tb_stored *operand) {
  for (int i = 0; i < OPERANDS_MOST; i++)
    if (cache->at[i] == operand->data && tb_stored_is(&cache->sighting[i].kept.stored, operand))
      return &cache->sighting[i];
  return NULL;
}

bool tb_cache_has_part(const struct tb_stored *all, const struct tb_stored *part) {
  const int64_t offset = part->data - all->data;
  if (all->part != TB_STORED_ALL || part->part != TB_STORED_ALL) return tb_stored_is(all, part);
  if (offset < 0 || part->pitch_bytes != all->pitch_bytes) return false;
  return offset % all->pitch_bytes + part->column_bytes <= all->column_bytes &&
         offset / all->pitch_bytes + part->columns <= all->columns;
}

/* One with a copy of which the operand is a part. */
static struct tb_sighting *find_whole(struct tb_cache *cache, const struct tb_stored *operand) {
  for (int i = 0; cache->bytes > 0 && i < OPERANDS_MOST; i++)
    if (operand->data < cache->end[i] && operand->data >= cache->at[i] &&
        tb_cache_has_part(&cache->sighting[i].kept.stored, operand) && !tb_kept_is_awaited(&cache->sighting[i].kept))
      return &cache->sighting[i];
  return NULL;
}

/* A place for an operand: one after another, but for those that have copies. */
static struct tb_sighting *take_place(struct tb_cache *cache, const struct tb_stored *operand) {
  for (int tries = 0; tries < OPERANDS_MOST; tries++) {
    const int i = cache->next;
    cache->next = (i + 1) % OPERANDS_MOST;
    if (cache->end[i] != NULL) continue;
    tb_probe_end(&cache->sighting[i].kept.probe);
    cache->at[i] = operand->data;
    cache->sighting[i] = (struct tb_sighting){.kept = {.stored = *operand}};
    return &cache->sighting[i];
  }
  return NULL;
}

/* An operand that has no copy. Returns it if it is worth one. */
static struct tb_kept *count_sight(struct tb_cache *cache, struct tb_sighting *s, const struct tb_stored *operand) {
  if (s == NULL && (s = take_place(cache, operand)) == NULL) return NULL;
  return tb_worth_see(cache, s, operand) ? &s->kept : NULL;
}

/* ---- proofs ---- */

static struct tb_cached place_in_copy(struct tb_kept *kept, const struct tb_stored *part, enum tb_proof proof) {
  const int64_t offset = part->data - kept->stored.data, column = offset / kept->stored.pitch_bytes;
  const int64_t at = column * kept->copy_pitch_bytes + offset % kept->stored.pitch_bytes;
  return (struct tb_cached){
      .proof = proof, .address = kept->copy + (CUdeviceptr)at, .pitch_bytes = kept->copy_pitch_bytes, .kept = kept};
}

/* By another GPU's copy. Of what the kernel is about to be asked to watch no digest is spared: each copy's own comes
 * behind the beginning. */
static enum tb_proof proof_by_other(const struct tb_cache *cache, struct tb_sighting *s) {
  const struct tb_cached *const other = cache->other;
  if (other == NULL || !(other->proof == TB_BY_TRACKING || (other->proof == TB_BY_HASH && tb_worth_hash(cache, s))))
    return TB_NOT_KEPT;
  return tb_kept_is_proven_by(&s->kept, other->kept, other->proof) ? other->proof : TB_NOT_KEPT;
}

/* A copy that no call has, nor this one as another operand, which may be a part of it: when a piece of what is mended
 * does not arrive the copy goes. */
static bool may_be_mended(const struct tb_cache *cache, const struct tb_sighting *s) {
  return cache->may_mend && !tb_is_in_use(s);
}

static bool try_copy(struct tb_cache *cache, int user, struct tb_sighting *s, const struct tb_stored *operand,
                     struct tb_pool *pool, struct tb_cached *found, struct tb_question *later) {
  s->chosen = tb_ranges_have(&s->kept.stored);
  enum tb_proof proof = proof_by_other(cache, s);
  const struct tb_prove how = {cache->may_track, tb_worth_hash(cache, s), may_be_mended(cache, s), cache->asks_later};
  if (proof == TB_NOT_KEPT && later != NULL && s->kept.asked_first == 0 && tb_kept_question(later, &s->kept, operand))
    proof = TB_BY_TRACKING;
  else if (proof == TB_NOT_KEPT && !tb_worth_no_proof(cache, s, operand))
    proof = later != NULL && tb_kept_question_by_hash(later, &s->kept, operand, cache->may_track)
                ? TB_BY_HASH
                : tb_kept_prove(&s->kept, operand, how, pool);
  if (proof == TB_NOT_KEPT && s->kept.unasked) {
    found->unasked = &s->kept;
    s->seen = cache->call; /* it will be used */
    return false;
  }
  if (proof == TB_NOT_KEPT) {
    if (!tb_kept_can_prove(&s->kept, operand) || tb_is_in_use(s)) return false;
    tb_grow_refuted(cache, s);
    tb_room_park(cache, s);
    return false;
  }
  if (proof == TB_MENDED) s->sample = tb_hash_sample(operand, TB_SAMPLE_LINES);
  *found = place_in_copy(&s->kept, operand, proof);
  if (s->kept.unasked) found->unasked = &s->kept;
  tb_worth_used(cache, s, operand);
  tb_grow_used(cache, s);
  tb_cache_hand_out(cache, user, tb_cache_next_place(cache, user), s);
  return true;
}

/* The same of a copy that has an operand's beginning. */
static bool try_beginning(struct tb_cache *cache, int user, struct tb_sighting *s, const struct tb_stored *beginning,
                          struct tb_pool *pool, struct tb_cached *found) {
  found->grows = try_copy(cache, user, s, beginning, pool, found, NULL);
  return found->grows || found->unasked != NULL;
}

struct tb_cached tb_cache_found_grown(struct tb_kept *kept, const struct tb_stored *operand) {
  struct tb_cached found = place_in_copy(kept, operand, TB_GROWN);
  if (kept->unasked) found.unasked = kept;
  return found;
}

/* One of which there is no copy, but of its beginning, perhaps. */
static struct tb_kept *look_for_beginning(struct tb_cache *cache, int user, struct tb_sighting *s,
                                          const struct tb_stored *operand, struct tb_pool *pool,
                                          struct tb_cached *found) {
  struct tb_stored beginning;
  struct tb_sighting *const copied = tb_grow_find(cache, operand, &beginning);
  const bool at_once = copied != NULL && s == NULL && tb_grow_may_at_once(cache, copied);
  if (at_once && try_beginning(cache, user, copied, &beginning, pool, found)) return NULL;
  if (s == NULL && (copied == NULL || tb_kept_mending_pays(&copied->kept))) s = tb_grow_sighting(cache, operand);
  struct tb_kept *const worth = count_sight(cache, s, operand);
  const bool later = worth != NULL && copied != NULL && !at_once;
  return later && try_beginning(cache, user, copied, &beginning, pool, found) ? NULL : worth;
}

/* A result of a call that failed, or was left; an operand's copy that came in vain; or one that was being mended then.
 */
static bool was_never_finished(const struct tb_sighting *s) {
  const bool is_half_done = tb_kept_is_awaited(&s->kept) || s->kept.stale != NULL;
  return s->kept.copy != 0 && is_half_done && !tb_is_in_use(s);
}

/* A call that was begun again has refuted nothing: what was expected is still. */
static void drop_unfinished(struct tb_cache *cache, struct tb_sighting *s) {
  const bool expected = s->returns && !s->kept.unwatchable;
  const int failures = s->failures;
  tb_cache_drop(cache, &s->kept);
  if (expected) s->returns = true, s->failures = failures;
}

struct tb_kept *tb_cache_look(struct tb_cache *cache, int user, const struct tb_stored *operand, struct tb_pool *pool,
                              struct tb_cached *found, struct tb_question *later) {
  struct tb_sighting *const s = find_operand(cache, operand);
  tb_results_look(cache, operand);
  if (s != NULL && was_never_finished(s)) drop_unfinished(cache, s);
  struct tb_sighting *const copied = s != NULL && s->kept.copy != 0 ? s : find_whole(cache, operand);
  *found = (struct tb_cached){.proof = TB_NOT_KEPT};
  if (copied != NULL && !tb_kept_is_awaited(&copied->kept) && copied->kept.stale == NULL &&
      try_copy(cache, user, copied, operand, pool, found, later))
    return NULL;
  if (s != NULL && s->kept.copy != 0) return NULL; /* a copy that others still have */
  struct tb_kept *const worth =
      copied != NULL ? count_sight(cache, s, operand) : look_for_beginning(cache, user, s, operand, pool, found);
  if (worth == NULL) tb_room_end_parked(cache, true);
  return worth;
}

/* ---- results ---- */

struct tb_kept *tb_cache_begin_result(struct tb_cache *cache, const struct tb_stored *c, int64_t k) {
  const int kind = cache->results_pay ? tb_results_begin(cache, c, k) : 0;
  if (kind == 0) return NULL;
  struct tb_sighting *s = find_operand(cache, c);
  if (s == NULL) s = take_place(cache, c);
  if (s == NULL || tb_is_in_use(s)) return NULL;
  note_refutation(s);
  if (s->kept.copy != 0) tb_worth_end(cache, s);
  s->result_kind = kind;
  return &s->kept;
}

void tb_cache_finish_result(struct tb_kept *kept) {
  tb_sighting_of(kept)->sample = tb_hash_sample(&kept->stored, TB_SAMPLE_LINES);
  tb_sighting_of(kept)->sampled = true;
  atomic_store_explicit(&kept->awaited, false, memory_order_release);
}
