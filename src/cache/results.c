/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Of which results a copy is made: of those whose like was the next call's operand, unchanged. A program in which none
 * is pays for a look at some notes; one that writes to them in between, for two glances at each.
 */
#include "base/integers.h"
#include "cache/cache_internal.h"

/* A copy that was of no use has the next one wait for twice as many results that were operands, up to this. */
#define RESULT_FAILURES_MOST 12

/* One of which it was found out when a call had begun with it, as which it counts: that was computed twice. */
#define REFUTED_FAILURES 3

/* Where results of a kind lie in turn, of which some are operands: those elsewhere are left alone after so many. */
#define IDLE_ENOUGH 2

static int find_kind(struct tb_results *r, const struct tb_stored *c, int64_t k) {
  for (int i = 0; i < RESULT_KINDS; i++)
    if (r->kind[i].column_bytes == c->column_bytes && r->kind[i].columns == c->columns &&
        r->kind[i].pitch_bytes == c->pitch_bytes && r->kind[i].k == k)
      return i;
  const int place = r->next_kind;
  r->next_kind = (place + 1) % RESULT_KINDS;
  r->kind[place] = (struct tb_result_kind){c->column_bytes, c->columns, c->pitch_bytes, k, false, 0, 0};
  return place;
}

static struct tb_result_note *find_note(struct tb_results *r, const struct tb_stored *c) {
  for (int i = 0; i < RESULT_NOTES; i++)
    if (r->note[i].stored.data == c->data && tb_stored_is(&r->note[i].stored, c)) return &r->note[i];
  return NULL;
}

static struct tb_result_note *take_note(struct tb_results *r, const struct tb_stored *c) {
  struct tb_result_note *const note = &r->note[r->next_note];
  r->next_note = (r->next_note + 1) % RESULT_NOTES;
  *note = (struct tb_result_note){.stored = *c};
  return note;
}

static bool is_ready(const struct tb_result_kind *kind) { return kind->proven >= 1 << kind->failures; }

int tb_results_begin(struct tb_cache *cache, const struct tb_stored *c, int64_t k) {
  struct tb_results *const r = &cache->results;
  struct tb_result_note *note = find_note(r, c);
  if (note == NULL)
    note = take_note(r, c);
  else
    note->idle = note->fresh ? (int)tb_min(note->idle + 1, IDLE_ENOUGH) : 0;
  note->kind = find_kind(r, c, k);
  note->fresh = true;
  note->glanced = false;
  return is_ready(&r->kind[note->kind]) && note->idle < IDLE_ENOUGH ? note->kind + 1 : 0;
}

void tb_cache_end_result(struct tb_cache *cache, const struct tb_stored *c) {
  struct tb_results *const r = &cache->results;
  struct tb_result_note *const note = find_note(r, c);
  if (note == NULL || !r->kind[note->kind].chains || is_ready(&r->kind[note->kind])) return;
  note->glance = tb_hash_sample(c, TB_GLANCE_LINES);
  note->glanced = true;
}

static bool looks_the_same(const struct tb_result_note *note) {
  const struct tb_digest glance = tb_hash_sample(&note->stored, TB_GLANCE_LINES);
  return tb_digests_are_equal(&note->glance, &glance);
}

/* Of a part nothing more is found out: what else the program still has of the result is not known. */
void tb_results_look(struct tb_cache *cache, const struct tb_stored *operand) {
  struct tb_results *const r = &cache->results;
  for (int i = 0; i < RESULT_NOTES; i++) {
    struct tb_result_note *const note = &r->note[i];
    if (!(note->fresh || note->glanced) || !tb_cache_has_part(&note->stored, operand)) continue;
    struct tb_result_kind *const kind = &r->kind[note->kind];
    note->fresh = false;
    kind->chains = true;
    if (!note->glanced || !tb_stored_is(&note->stored, operand)) continue;
    note->glanced = false;
    kind->proven = looks_the_same(note) ? kind->proven + 1 : 0;
  }
}

/* Of one that was used no more than that is said. */
void tb_results_end(struct tb_cache *cache, const struct tb_sighting *s) {
  struct tb_result_kind *const kind = &cache->results.kind[s->result_kind - 1];
  if (s->uses > 0 && !s->refuted) {
    kind->failures = (int)tb_max(kind->failures - 1, 0);
    return;
  }
  kind->failures = (int)tb_min(kind->failures + (s->refuted ? REFUTED_FAILURES : 1), RESULT_FAILURES_MOST);
  kind->proven = 0;
}
