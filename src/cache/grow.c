/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An operand of which a copy has the beginning, as of a matrix that grows by columns: the copy gets what it lacks.
 *
 *      +------------------+--------+     the beginning is proven -> the copy has memory for all of it
 *      |   in the copy    |  rest  |     -> the rest's pages are protected, too -> who writes there without a fault is
 *      +------------------+--------+     looked for -> the rest goes up, and is digested
 *
 * In this order, as when a copy begins to be watched. What begins behind the copy's own beginning, as a window that
 * moves on does, is a part of the copy then.
 */
#include <stdlib.h>

#include "base/integers.h"
#include "cache/cache_internal.h"
#include "cache/writers.h"

/* ---- which ---- */

/* Of the operand a copy must have such a part, or all goes up: a copy of all is made when that comes back. */
#define BEGINNING_OF 2

/* Whole columns of the same kind: how many there are from one's first to the other's; -1: they are not, or it begins
 * before that. */
static int64_t columns_between(const struct tb_stored *stored, const struct tb_stored *operand) {
  const int64_t offset = operand->data - stored->data;
  if (stored->part != TB_STORED_ALL || operand->part != TB_STORED_ALL || offset < 0) return -1;
  if (operand->pitch_bytes != stored->pitch_bytes || operand->column_bytes != stored->column_bytes) return -1;
  return offset % stored->pitch_bytes == 0 ? offset / stored->pitch_bytes : -1;
}

/* The operand's first columns that are the last ones of what is stored, if it has more, and not many; else 0. */
static int64_t columns_of_beginning(const struct tb_stored *stored, const struct tb_stored *operand) {
  const int64_t before = columns_between(stored, operand), columns = stored->columns - before;
  const bool enough = columns >= tb_ceil_div(operand->columns, BEGINNING_OF);
  return before >= 0 && enough && columns < operand->columns ? columns : 0;
}

/* Of copies that nobody reads, writes or awaits the one that has most of it. */
struct tb_sighting *tb_grow_find(struct tb_cache *cache, const struct tb_stored *operand, struct tb_stored *beginning) {
  struct tb_sighting *best = NULL;
  *beginning = *operand;
  beginning->columns = 0;
  for (int i = 0; cache->may_mend && cache->bytes > 0 && i < OPERANDS_MOST; i++) {
    struct tb_sighting *const s = &cache->sighting[i];
    if (operand->data >= cache->end[i] || operand->data < cache->at[i]) continue;
    if (s->result_kind != 0 || s->has_no_room || tb_is_in_use(s)) continue;
    if (tb_kept_is_awaited(&s->kept) || s->kept.stale != NULL) continue;
    const int64_t columns = columns_of_beginning(&s->kept.stored, operand);
    if (columns > beginning->columns) beginning->columns = columns, best = s;
  }
  return best;
}

/* ---- in vain ---- */

/* Who writes to what has come takes a fault for each page of it, as much as some 30 uses save. So where copies that
 * had grown were written before, an operand waits as it does for a copy of its own. */
#define USES_THAT_PAY 32
#define VAIN_MANY 8
#define VAIN_FOR_A_PAID_ONE 4

bool tb_grow_may_at_once(const struct tb_cache *cache, const struct tb_sighting *s) {
  return cache->grown_in_vain < VAIN_MANY && tb_kept_mending_pays(&s->kept);
}

void tb_grow_used(struct tb_cache *cache, struct tb_sighting *s) {
  if (s->grown_uses > 0 && s->grown_uses++ == USES_THAT_PAY)
    cache->grown_in_vain = (int)tb_max(0, cache->grown_in_vain - VAIN_FOR_A_PAID_ONE);
}

/* Of memory that was given back nobody has taken a fault. */
void tb_grow_refuted(struct tb_cache *cache, struct tb_sighting *s) {
  const int enough = s->kept.replaced ? TB_REPLACED_USES_ENOUGH : USES_THAT_PAY;
  if (s->grown_uses > 0 && s->grown_uses <= enough)
    cache->grown_in_vain = (int)tb_min(cache->grown_in_vain + 1, 2 * VAIN_MANY);
}

/* ---- sights ---- */

/* It waits as long as any that began there. */
struct tb_sighting *tb_grow_sighting(struct tb_cache *cache, const struct tb_stored *operand) {
  struct tb_sighting *smaller = NULL;
  int failures = 0;
  for (int i = 0; cache->may_mend && i < OPERANDS_MOST; i++) {
    struct tb_sighting *const s = &cache->sighting[i];
    if (cache->at[i] != operand->data || columns_between(&s->kept.stored, operand) != 0) continue;
    failures = (int)tb_max(failures, s->failures);
    if (smaller != NULL || cache->end[i] != NULL || columns_of_beginning(&s->kept.stored, operand) == 0) continue;
    const struct tb_digest glance = tb_hash_sample(&s->kept.stored, TB_GLANCE_LINES);
    if (tb_digests_are_equal(&s->glance, &glance)) smaller = s;
  }
  if (smaller == NULL) return NULL;
  smaller->kept.stored = *operand;
  smaller->failures = failures;
  smaller->glance = tb_hash_sample(operand, TB_GLANCE_LINES);
  smaller->sample = tb_hash_sample(operand, TB_SAMPLE_LINES);
  return smaller;
}

/* ---- memory ---- */

/* What has grown will grow again, for which this part of it is left behind it, where nothing has to make way. */
#define MORE_OF 4

/* Free memory may be in pieces of which each is too small for that. */
static bool have_more_memory(struct tb_cache *cache, struct tb_sighting *s, int64_t bytes, int64_t free_bytes,
                             int64_t limit_bytes) {
  const int64_t more = bytes + bytes / MORE_OF;
  const bool is_much = more <= free_bytes && cache->bytes + more <= limit_bytes;
  CUdeviceptr copy = 0;
  int64_t copy_bytes = more;
  if (!is_much || tb_cuda.cuMemAlloc(&copy, (size_t)more) != CUDA_SUCCESS) {
    copy_bytes = bytes;
    if (!tb_room_make(cache, s, bytes, &free_bytes, limit_bytes)) return false;
    if (tb_cuda.cuMemAlloc(&copy, (size_t)bytes) != CUDA_SUCCESS) return false;
  }
  s->kept.copy = copy;
  s->kept.copy_bytes = copy_bytes;
  cache->bytes += copy_bytes;
  return true;
}

static bool have_digests(struct tb_kept *kept, const struct tb_cells *cells) {
  struct tb_digest *const digests = realloc(kept->digests, (size_t)cells->count * sizeof *digests);
  if (digests != NULL) kept->digests = digests;
  return digests != NULL;
}

/* All that may be lacking; what there was is as it was if it is. */
static bool have_room_for_rest(struct tb_cache *cache, struct tb_sighting *s, const struct tb_stored *all,
                               int64_t free_bytes, int64_t limit_bytes, struct tb_outgrown *old) {
  struct tb_kept *const kept = &s->kept;
  const struct tb_cells cells = tb_cells_of(all);
  const int64_t bytes = kept->copy_pitch_bytes * all->columns;
  const struct tb_outgrown now = {kept->copy, kept->copy_bytes, kept->stored.columns};
  struct tb_stale *const stale = kept->stale != NULL ? kept->stale : calloc(1, sizeof *stale);
  const bool fits = bytes <= kept->copy_bytes;
  if (stale == NULL || !have_digests(kept, &cells) ||
      (!fits && !have_more_memory(cache, s, bytes, free_bytes, limit_bytes))) {
    if (stale != kept->stale) free(stale);
    return false;
  }
  if (!fits) *old = now;
  kept->cells = cells;
  kept->stale = stale;
  return true;
}

void tb_cache_end_outgrown(struct tb_cache *cache, struct tb_outgrown *old) {
  if (old->copy == 0) return;
  tb_cuda.cuMemFree(old->copy);
  cache->bytes -= old->bytes;
  old->copy = 0;
}

/* ---- a copy that grows ---- */

/* Another sighting of what the copy is of now: what is known of it goes for the copy. */
static void take_place_of(struct tb_cache *cache, struct tb_sighting *s) {
  for (int i = 0; i < OPERANDS_MOST; i++) {
    struct tb_sighting *const other = &cache->sighting[i];
    if (other == s || cache->at[i] == NULL || cache->end[i] != NULL) continue;
    if (!tb_stored_is(&other->kept.stored, &s->kept.stored)) continue;
    s->failures = (int)tb_max(s->failures, other->failures);
    tb_probe_end(&other->kept.probe);
    cache->at[i] = NULL;
  }
}

bool tb_cache_grow(struct tb_cache *cache, struct tb_kept *kept, const struct tb_stored *operand, int64_t free_bytes,
                   int64_t limit_bytes, struct tb_outgrown *old) {
  struct tb_sighting *const s = tb_sighting_of(kept);
  struct tb_stored all = kept->stored;
  all.columns = columns_between(&all, operand) + operand->columns;
  *old = (struct tb_outgrown){.copy = 0};
  s->has_no_room = !have_room_for_rest(cache, s, &all, free_bytes, limit_bytes, old);
  if (s->has_no_room || !tb_kept_grow(kept, &all)) return false;
  cache->end[s - cache->sighting] = all.data + tb_stored_span_bytes(&all);
  s->sampled = operand->data == all.data; /* what lies before a window may be gone */
  if (s->sampled) s->sample = tb_hash_sample(&all, TB_SAMPLE_LINES);
  if (s->grown_uses == 0) s->grown_uses = 1;
  take_place_of(cache, s);
  return true;
}
