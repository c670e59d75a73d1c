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

/* Columns that an operand has in common with what is stored and that are the latter's last ones; 0: there are none, or
 * it has others, too, which are not behind these. */
static int64_t columns_in_common(const struct tb_stored *stored, const struct tb_stored *operand) {
  const int64_t offset = operand->data - stored->data;
  if (stored->part != TB_STORED_ALL || operand->part != TB_STORED_ALL || offset < 0) return 0;
  if (operand->pitch_bytes != stored->pitch_bytes || operand->column_bytes != stored->column_bytes) return 0;
  if (offset % stored->pitch_bytes != 0) return 0;
  const int64_t in_common = stored->columns - offset / stored->pitch_bytes;
  return in_common >= tb_ceil_div(operand->columns, BEGINNING_OF) && in_common < operand->columns ? in_common : 0;
}

/* What of the operand a copy has. */
static struct tb_stored beginning_in(const struct tb_kept *kept, const struct tb_stored *operand) {
  struct tb_stored beginning = *operand;
  beginning.columns = columns_in_common(&kept->stored, operand);
  return beginning;
}

/* The copy that has most of it, of those that nobody reads, writes or awaits; NULL: there is none. */
static struct tb_sighting *find_beginning(struct tb_cache *cache, const struct tb_stored *operand) {
  struct tb_sighting *best = NULL;
  int64_t most = 0;
  for (int i = 0; cache->bytes > 0 && i < OPERANDS_MOST; i++) {
    struct tb_sighting *const s = &cache->sighting[i];
    if (operand->data >= cache->end[i] || operand->data < cache->at[i] || s->result_kind != 0) continue;
    if (tb_is_in_use(s) || tb_kept_is_awaited(&s->kept) || s->kept.stale != NULL) continue;
    const int64_t columns = columns_in_common(&s->kept.stored, operand);
    if (columns > most) most = columns, best = s;
  }
  return best;
}

/* To grow in vain takes its writer a fault for each page that the copy has got. So where most copies that have grown
 * were not used behind that, an operand waits as it does for a copy of its own. */
#define VAIN_MANY 8
#define VAIN_FOR_A_USED_ONE 2

bool tb_grow_may_at_once(const struct tb_cache *cache) { return cache->grown_in_vain < VAIN_MANY; }

struct tb_sighting *tb_grow_find(struct tb_cache *cache, const struct tb_stored *operand, struct tb_stored *beginning) {
  struct tb_sighting *const s = cache->may_mend ? find_beginning(cache, operand) : NULL;
  if (s != NULL) *beginning = beginning_in(&s->kept, operand);
  return s;
}

/* Its columns up to the operand's last one. */
static int64_t columns_up_to(const struct tb_stored *stored, const struct tb_stored *operand) {
  return (operand->data - stored->data) / stored->pitch_bytes + operand->columns;
}

void tb_grow_used(struct tb_cache *cache, struct tb_sighting *s, const struct tb_stored *operand) {
  if (s->grown_from == 0 || columns_up_to(&s->kept.stored, operand) <= s->grown_from) return;
  cache->grown_in_vain = (int)tb_max(0, cache->grown_in_vain - VAIN_FOR_A_USED_ONE);
  s->grown_from = 0;
}

/* ---- sights ---- */

/* What a matrix looked like that had fewer columns goes for one that has them still. */
struct tb_sighting *tb_grow_sighting(struct tb_cache *cache, const struct tb_stored *operand) {
  for (int i = 0; cache->may_mend && i < OPERANDS_MOST; i++) {
    struct tb_sighting *const s = &cache->sighting[i];
    if (cache->at[i] != operand->data || cache->end[i] != NULL || s->kept.stored.data != operand->data) continue;
    if (columns_in_common(&s->kept.stored, operand) == 0) continue;
    const struct tb_digest glance = tb_hash_sample(&s->kept.stored, TB_GLANCE_LINES);
    if (!tb_digests_are_equal(&s->glance, &glance)) continue;
    s->kept.stored = *operand;
    s->glance = tb_hash_sample(operand, TB_GLANCE_LINES);
    s->sample = tb_hash_sample(operand, TB_SAMPLE_LINES);
    return s;
  }
  return NULL;
}

/* ---- memory ---- */

/* What has grown will grow again, for which this part of it is left behind it, where there is room. */
#define MORE_OF 4

static bool have_memory(struct tb_cache *cache, struct tb_kept *kept, int64_t bytes, int64_t free_bytes,
                        int64_t limit_bytes) {
  CUdeviceptr copy = 0;
  if (!tb_room_make(cache, tb_sighting_of(kept), bytes, &free_bytes, limit_bytes)) return false;
  if (tb_cuda.cuMemAlloc(&copy, (size_t)bytes) != CUDA_SUCCESS) return false;
  kept->copy = copy;
  kept->copy_bytes = bytes;
  cache->bytes += bytes;
  return true;
}

static bool have_digests(struct tb_kept *kept, const struct tb_stored *all) {
  const struct tb_cells cells = tb_cells_of(all);
  struct tb_digest *const digests = realloc(kept->digests, (size_t)cells.count * sizeof *digests);
  if (digests == NULL) return false;
  kept->digests = digests;
  kept->cells = cells;
  return true;
}

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
  all.columns = columns_up_to(&all, operand);
  const int64_t bytes = kept->copy_pitch_bytes * all.columns, more = bytes + bytes / MORE_OF;
  *old = (struct tb_outgrown){.columns = kept->stored.columns};
  if (bytes > kept->copy_bytes) {
    *old = (struct tb_outgrown){kept->copy, kept->copy_bytes, kept->stored.columns};
    if (!have_memory(cache, kept, more, free_bytes, limit_bytes) &&
        !have_memory(cache, kept, bytes, free_bytes, limit_bytes)) {
      old->copy = 0;
      return false;
    }
  }
  if (!have_digests(kept, &all) || !tb_kept_grow(kept, &all)) return false;
  cache->end[s - cache->sighting] = all.data + tb_stored_span_bytes(&all);
  s->sample = tb_hash_sample(&all, TB_SAMPLE_LINES);
  s->sampled = true;
  s->grown_from = old->columns;
  cache->grown_in_vain = (int)tb_min(cache->grown_in_vain + 1, 2 * VAIN_MANY);
  take_place_of(cache, s);
  return true;
}

void tb_cache_end_outgrown(struct tb_cache *cache, struct tb_outgrown *old) {
  if (old->copy == 0) return;
  tb_cuda.cuMemFree(old->copy);
  cache->bytes -= old->bytes;
  old->copy = 0;
}
