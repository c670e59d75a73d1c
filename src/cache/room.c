/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of copies: who makes room for whom. Inside the cache, with the GPU's context current. */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/integers.h"
#include "cache/cache_internal.h"

/* ---- operands ---- */

/* Columns start on lines, but for short ones, which kernels read by whole vectors, too. */
#define COPY_LINE_BYTES 128

static int64_t pitch_for(int64_t column_bytes) {
  for (int64_t bytes = COPY_LINE_BYTES / 8; bytes < COPY_LINE_BYTES; bytes *= 2)
    if (column_bytes <= bytes) return bytes;
  return tb_round_up(column_bytes, COPY_LINE_BYTES);
}

/* Of copies that were used before this operand was seen last: what is used in a round that has no room for all of it
 * stays, in place of whatever comes next. What the program has chosen makes way for nothing else, and all else for it.
 */
bool tb_room_make(struct tb_cache *cache, const struct tb_sighting *s, int64_t bytes, int64_t *free_bytes,
                  int64_t limit_bytes) {
  while (cache->bytes + bytes > limit_bytes || bytes > *free_bytes) {
    const int64_t before = cache->bytes;
    const bool given = tb_planes_give_back_one(cache) ||
                       tb_cache_give_back_before(cache, s->chosen ? cache->call : s->seen_before, false) ||
                       (s->chosen && tb_cache_give_back_before(cache, s->seen_before, true));
    if (!given) return false;
    *free_bytes += before - cache->bytes;
  }
  return true;
}

/* ---- what is parked ---- */

bool tb_room_end_parked(struct tb_cache *cache, bool frees) {
  struct tb_kept *const parked = &cache->parked;
  if (parked->copy == 0) return false;
  if (frees && parked->planes.at != 0) tb_cuda.cuMemFree(parked->planes.at);
  if (frees) tb_cuda.cuMemFree(parked->copy);
  cache->bytes -= parked->copy_bytes + parked->planes.bytes;
  free(parked->digests);
  parked->copy = 0;
  return true;
}

void tb_room_park(struct tb_cache *cache, struct tb_sighting *s) {
  const struct tb_kept old = s->kept;
  tb_room_end_parked(cache, true);
  s->kept.copy = 0;
  s->kept.digests = NULL;
  s->kept.planes = (struct tb_kept_planes){.at = 0};
  tb_cache_drop(cache, &s->kept);
  cache->bytes += old.copy_bytes;
  cache->parked = old;
}

/* An array that follows another one in its place has its sizes, too. To free 246 MB and planes of these, and to have
 * the former again, takes 0.65 ms (H200). */
static bool take_parked(struct tb_cache *cache, struct tb_sighting *s, int64_t pitch, int64_t bytes) {
  struct tb_kept *const parked = &cache->parked, *const kept = &s->kept;
  if (parked->copy == 0 || parked->copy_bytes != bytes || parked->copy_pitch_bytes != pitch ||
      parked->cells.count != kept->cells.count)
    return false;
  kept->copy = parked->copy, kept->digests = parked->digests;
  kept->copy_pitch_bytes = pitch, kept->copy_bytes = bytes;
  kept->planes.at = parked->planes.at, kept->planes.bytes = parked->planes.bytes;
  kept->planes.shape = parked->planes.shape;
  cache->end[s - cache->sighting] = kept->stored.data + tb_stored_span_bytes(&kept->stored);
  parked->copy = 0;
  return true;
}

/* What is not taken is free then. Above a limit, which has become less, nothing is taken. */
static bool have_parked(struct tb_cache *cache, struct tb_sighting *s, int64_t pitch, int64_t bytes,
                        int64_t *free_bytes, int64_t limit_bytes) {
  const int64_t had_bytes = cache->bytes;
  const bool taken = had_bytes <= limit_bytes && take_parked(cache, s, pitch, bytes);
  tb_room_end_parked(cache, true);
  *free_bytes += had_bytes - cache->bytes;
  return taken;
}

/* ---- an operand's ---- */

/* Of so many cells; of those on the GPU `bytes` are taken. */
static bool have_memory(struct tb_cache *cache, struct tb_sighting *s, int64_t pitch, int64_t bytes) {
  struct tb_kept *const kept = &s->kept;
  CUdeviceptr copy = 0;
  kept->digests = malloc((size_t)kept->cells.count * sizeof *kept->digests);
  if (kept->digests == NULL || tb_cuda.cuMemAlloc(&copy, (size_t)bytes) != CUDA_SUCCESS) {
    free(kept->digests);
    kept->digests = NULL;
    return false;
  }
  kept->copy = copy;
  kept->copy_pitch_bytes = pitch;
  kept->copy_bytes = bytes;
  cache->bytes += bytes;
  cache->end[s - cache->sighting] = kept->stored.data + tb_stored_span_bytes(&kept->stored);
  return true;
}

bool tb_cache_make(struct tb_cache *cache, int user, struct tb_kept *kept, int64_t free_bytes, int64_t limit_bytes) {
  struct tb_sighting *const s = tb_sighting_of(kept);
  const int64_t pitch = pitch_for(kept->stored.column_bytes), bytes = pitch * kept->stored.columns;
  kept->cells = tb_cells_of(&kept->stored);
  s->result_kind = 0;
  const bool is_parked = have_parked(cache, s, pitch, bytes, &free_bytes, limit_bytes);
  if (!is_parked && !tb_room_make(cache, s, bytes, &free_bytes, limit_bytes)) {
    if (!s->chosen) tb_worth_end(cache, s); /* another chosen one makes way next time, if it is used less often */
    return false;
  }
  if (!is_parked && !have_memory(cache, s, pitch, bytes)) {
    tb_worth_end(cache, s);
    return false;
  }
  tb_cache_hand_out(cache, user, tb_cache_next_place(cache, user), s);
  tb_worth_made(cache, s);
  return true;
}

/* ---- results ---- */

/* Copies of results at once: most have served when the next one's come. */
#define RESULTS_MOST 8

/* The one that was made or used longest ago, if they are many or `any` will do; NULL: there is none, or they are few.
 */
static struct tb_sighting *find_oldest_result(struct tb_cache *cache, bool any) {
  struct tb_sighting *oldest = NULL;
  int count = 0;
  for (int i = 0; i < OPERANDS_MOST; i++) {
    struct tb_sighting *const s = &cache->sighting[i];
    if (cache->end[i] == NULL || s->result_kind == 0) continue;
    count++;
    if (!tb_is_in_use(s) && (oldest == NULL || s->seen < oldest->seen)) oldest = s;
  }
  return any || count >= RESULTS_MOST ? oldest : NULL;
}

/* The memory of older results first, for to allocate takes as long as to bring up some MiB; then what is free. */
static bool have_memory_of_result(struct tb_cache *cache, struct tb_sighting *s, int64_t free_bytes,
                                  int64_t limit_bytes) {
  const int64_t pitch = pitch_for(s->kept.stored.column_bytes), bytes = pitch * s->kept.stored.columns;
  if (s->kept.copy != 0) return true; /* the latest result's in the same place */
  s->kept.cells = tb_cells_of(&s->kept.stored);
  struct tb_sighting *oldest = find_oldest_result(cache, cache->bytes + bytes > limit_bytes || bytes > free_bytes);
  if (oldest != NULL) tb_room_park(cache, oldest);
  if (have_parked(cache, s, pitch, bytes, &free_bytes, limit_bytes)) return true;
  return tb_room_make(cache, s, bytes, &free_bytes, limit_bytes) && have_memory(cache, s, pitch, bytes);
}

bool tb_cache_make_result(struct tb_cache *cache, int user, struct tb_kept *kept, int64_t free_bytes,
                          int64_t limit_bytes) {
  struct tb_sighting *const s = tb_sighting_of(kept);
  s->sights = s->uses = s->grown_uses = 0;
  s->chosen = false;
  s->saved_bytes = 0;
  if (!have_memory_of_result(cache, s, free_bytes, limit_bytes)) {
    tb_worth_end(cache, s);
    return false;
  }
  tb_probe_end(&kept->probe);
  tb_planes_forget(cache, s, true); /* of the latest result's in the same place */
  tb_kept_begin_result(kept);
  tb_cache_hand_out(cache, user, HANDED_RESULT, s);
  return true;
}
