/* SPDX-License-Identifier: BSD-3-Clause */
/* When a copy is made, and how long what was of no use waits: never a loss for the program. */
#include "cache/cache_internal.h"

#include "base/integers.h"
#include "cache/ranges.h"

/* ---- copies that were of no use ---- */

/* To make a copy takes about as long again as to bring the operand up, which each use saves; to write to what is
 * watched takes as long as some 20 times that, but nothing if the memory was given back instead. After a copy that was
 * not worth it, the next one is made after twice as many sights; of what cannot be watched as late as that comes to. Of
 * what the program has chosen a copy is tried sooner: it is wrong about some, but not about most. */
#define USES_ENOUGH 2
#define WATCHED_USES_ENOUGH 32
#define FAILURES_MOST 12
#define CHOSEN_FAILURES_MOST 6

static void count_failure(struct tb_sighting *s) {
  s->returns = false;
  s->failures = s->kept.unwatchable ? FAILURES_MOST : (int)tb_min(s->failures + 1, FAILURES_MOST);
}

static int uses_enough(const struct tb_cache *cache, const struct tb_sighting *s) {
  if (tb_worth_hash(cache, s)) return USES_ENOUGH;
  return s->kept.replaced ? TB_REPLACED_USES_ENOUGH : WATCHED_USES_ENOUGH;
}

/* Uses of parts count as what they saved. */
void tb_worth_end(struct tb_cache *cache, struct tb_sighting *s) {
  const int enough = uses_enough(cache, s);
  if (tb_worth_hash(cache, s)) s->kept.unwatchable = false; /* nobody need watch it */
  if (s->result_kind != 0)
    tb_results_end(cache, s);
  else if (s->saved_bytes >= enough * (double)tb_stored_bytes(&s->kept.stored))
    s->failures = 0, s->returns = s->kept.replaced;
  else
    count_failure(s);
  if (!tb_worth_hash(cache, s)) s->kept.track_failures = 0; /* each is the end of a copy, and counted above */
  s->sights = s->uses = s->result_kind = 0;
  s->refuted = s->kept.replaced = false;
  s->saved_bytes = 0;
}

/* ---- sights ---- */

/* A program that gets memory elsewhere for each of its matrices, and uses it twice, as the training of a network does,
 * would have a copy made of each. Where so few copies are used, they are made a little later. */
#define UNUSED_MANY 8
#define UNUSED_FOR_A_USED_ONE 4

static int sights_enough(const struct tb_cache *cache, const struct tb_sighting *s) {
  if (s->chosen) return 1 << tb_min(s->failures, CHOSEN_FAILURES_MOST);
  if (s->returns) return 1;
  const int of_its_own = 2 << s->failures;
  return cache->unused < UNUSED_MANY ? of_its_own : (int)tb_max(of_its_own, 4);
}

/* Whether it pays to prove a copy of it. */
static bool may_be_proven(const struct tb_cache *cache, const struct tb_sighting *s) {
  return tb_worth_hash(cache, s) || (cache->may_track && tb_kept_may_be_watched());
}

/* A line that another thread has just written takes a quarter of a microsecond to read. So of what is rewritten before
 * each call TB_GLANCE_LINES are enough.
 *
 * Notes what an operand without a copy looks like, and whether that is what it did. */
static void look_at(struct tb_sighting *s, const struct tb_stored *operand) {
  const struct tb_digest glance = tb_hash_sample(operand, TB_GLANCE_LINES);
  const bool same = tb_digests_are_equal(&s->glance, &glance), was_sampled = s->sampled;
  s->glance = glance;
  s->sampled = same || s->sights == 0 || s->chosen;
  if (s->sampled) {
    const struct tb_digest sample = tb_hash_sample(operand, TB_SAMPLE_LINES);
    if (!was_sampled || !tb_digests_are_equal(&s->sample, &sample)) s->sights = 0;
    s->sample = sample;
  } else {
    s->sights = 0;
  }
  s->sights++;
}

/* A program may write the same bytes before each call, as a step that is repeated does: only the kernel can tell that
 * from what stays. To begin with a page the process's mappings are read, so it is asked about what is halfway to a
 * copy, and about what has one that is not watched yet; and what is found to be written waits as if a copy had been of
 * no use. */
#define SIGHTS_PROBED 4

static void probe(struct tb_cache *cache, struct tb_sighting *s) {
  if (tb_kept_probe_is_written(&s->kept)) {
    tb_probe_end(&s->kept.probe);
    count_failure(s);
    s->sights = 1;
  }
  const int enough = sights_enough(cache, s);
  if (enough >= SIGHTS_PROBED && s->sights == enough / 2) tb_kept_begin_probe(&s->kept);
}

bool tb_worth_see(struct tb_cache *cache, struct tb_sighting *s, const struct tb_stored *operand) {
  s->chosen = tb_ranges_have(operand);
  look_at(s, operand);
  s->seen_before = s->seen;
  s->seen = cache->call;
  if (!may_be_proven(cache, s)) return false;
  if (!tb_worth_hash(cache, s)) probe(cache, s);
  return s->sights >= sights_enough(cache, s);
}

/* ---- copies ---- */

void tb_worth_made(struct tb_cache *cache, struct tb_sighting *s) {
  if (!s->chosen) cache->unused = (int)tb_min(cache->unused + 1, 2 * UNUSED_MANY);
  s->kept.digested = true;
  if (s->returns && cache->may_track && tb_kept_watch(&s->kept)) return;
  if (!tb_worth_hash(cache, s)) tb_kept_begin_probe(&s->kept);
}

void tb_worth_used(struct tb_cache *cache, struct tb_sighting *s, const struct tb_stored *operand) {
  s->saved_bytes += (double)tb_stored_bytes(operand);
  if (s->uses++ == 0 && s->result_kind == 0) cache->unused = (int)tb_max(0, cache->unused - UNUSED_FOR_A_USED_ONE);
}

/* Whether so little as a sample tells that it has changed, or a page that it will: of a part nothing is known. */
static bool looks_changed(const struct tb_cache *cache, const struct tb_sighting *s, const struct tb_stored *operand) {
  if (s->kept.tracked.number != 0 || !tb_stored_is(&s->kept.stored, operand)) return false;
  if (!tb_worth_hash(cache, s) && tb_kept_probe_is_written(&s->kept)) return true;
  if (!s->sampled) return false;
  const struct tb_digest sample = tb_hash_sample(operand, TB_SAMPLE_LINES);
  return !tb_digests_are_equal(&s->sample, &sample);
}

/* Where nothing but the kernel's word counts: whether it was written too soon since it is watched. To digest it and to
 * watch it again each time would take longer than its way up. */
static bool is_written_too_often(const struct tb_cache *cache, const struct tb_sighting *s) {
  return !tb_worth_hash(cache, s) && s->kept.tracked.number == 0 && s->kept.track_failures > 0;
}

bool tb_worth_no_proof(const struct tb_cache *cache, const struct tb_sighting *s, const struct tb_stored *operand) {
  return is_written_too_often(cache, s) || looks_changed(cache, s, operand);
}
