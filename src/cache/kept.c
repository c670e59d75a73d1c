/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/kept.h"

#include "base/integers.h"
#include "cache/writers.h"

/* ---- by all bytes ---- */

static void add_differing(struct tb_differing *differing, int64_t cell) {
  const int place = atomic_fetch_add(&differing->count, 1);
  if (place < TB_TRACK_RUNS_MOST) differing->cell[place] = cell;
}

/* Of cells that are to be found there may be too many. */
static bool has_answer(const struct tb_question *q) {
  if (q->differing != NULL)
    return atomic_load_explicit(&q->differing->count, memory_order_relaxed) > TB_TRACK_RUNS_MOST;
  return atomic_load_explicit(&q->written, memory_order_relaxed);
}

static void compare_cells(void *context, int task) {
  struct tb_question *const q = context;
  const int64_t each = (int64_t)q->each;
  const int64_t begin = q->first + task * each, end = tb_min(begin + each, q->first + q->count);
  for (int64_t i = begin; i < end && !has_answer(q); i++) {
    const struct tb_stored cell = tb_cell(&q->kept->stored, &q->kept->cells, i);
    const struct tb_digest digest = tb_hash_cell(&cell);
    if (tb_digests_are_equal(&digest, &q->kept->digests[i])) continue;
    if (q->differing != NULL) add_differing(q->differing, i);
    atomic_store(&q->written, true);
  }
}

static void begin_comparison(struct tb_question *q, struct tb_kept *kept, int64_t first, int64_t count) {
  *q = (struct tb_question){.kept = kept, .by_hash = true, .first = first, .count = count};
  q->each = (uintptr_t)tb_max(TB_PROOF_TASK_BYTES / TB_CELL_BYTES, tb_ceil_div(count, TB_POOL_TASKS_MAX));
  atomic_init(&q->written, false);
}

static void start_comparison(struct tb_question *q, struct tb_pool *pool) {
  q->job = tb_pool_start(pool, compare_cells, q, (int)tb_ceil_div(q->count, (int64_t)q->each));
}

/* Whether CUDA is asked beside a comparison, where it is not asked about all of what the kernel watches: while that
 * lasts, or to the end. */
enum asks { ASKS_NOTHING, ASKS_MEANWHILE, ASKS_ALL };

/* By the caller, as far as it counts, for what has changed is not used. */
static void ask_cuda(struct tb_kept *kept, const struct tb_question *q, enum asks asks, const struct tb_pool *pool) {
  struct tb_asking asking;
  if (asks == ASKS_NOTHING || !tb_asking_begin(&asking, kept)) return;
  while (asking.kept != NULL && !has_answer(q) && (asks == ASKS_ALL || !tb_pool_done(pool, q->job))) {
    tb_asking_go_on(&asking);
    tb_asking_note(&asking);
  }
}

static bool has_same_cells(struct tb_kept *kept, int64_t first, int64_t count, struct tb_differing *differing,
                           enum asks asks, struct tb_pool *pool) {
  struct tb_question q;
  begin_comparison(&q, kept, first, count);
  q.differing = differing;
  start_comparison(&q, pool);
  ask_cuda(kept, &q, asks, pool);
  tb_pool_wait(pool, q.job);
  return !atomic_load(&q.written);
}

/* The cells of a part; false: it is not made of whole ones, so that there is no digest of it. */
static bool find_cells(const struct tb_kept *kept, const struct tb_stored *part, int64_t *first, int64_t *count) {
  const struct tb_cells *const cells = &kept->cells;
  const int64_t offset = part->data - kept->stored.data, column = offset / kept->stored.pitch_bytes;
  const int64_t end = column + part->columns;
  if (part->column_bytes != kept->stored.column_bytes || offset % kept->stored.pitch_bytes != 0) return false;
  if (column % cells->columns_each != 0) return false;
  if (end % cells->columns_each != 0 && end != kept->stored.columns) return false;
  *first = column / cells->columns_each * cells->in_column;
  *count = tb_ceil_div(part->columns, cells->columns_each) * cells->in_column;
  return true;
}

bool tb_kept_can_prove(const struct tb_kept *kept, const struct tb_stored *part) {
  int64_t first, count;
  return find_cells(kept, part, &first, &count);
}

/* ---- by the kernel's word ---- */

/* The page that has this byte. */
static struct tb_tracked page_at(uintptr_t address) { return tb_track_pages_around(address, address + 1); }

/* Pages that a task asks about: of 4 KiB in some 15 microseconds, or more, so that tasks do for all. */
#define PAGES_OF_TASK_BYTES ((uintptr_t)4 << 20)

static void ask_of_pages(void *context, int task) {
  struct tb_question *const q = context;
  struct tb_tracked pages = {q->pages.start + (uintptr_t)task * q->each, q->pages.end, 0};
  if (pages.end - pages.start > q->each) pages.end = pages.start + q->each;
  if (!tb_track_is_clean(pages)) atomic_store(&q->written, true);
}

/* What is rewritten is rewritten there, too, nearly always: then nothing is begun that would have to be done anew. */
static bool is_written_in_the_midst(const struct tb_tracked *pages) {
  const struct tb_tracked page = page_at(pages->start + (pages->end - pages->start) / 2);
  return pages->start < pages->end && !tb_track_is_clean(page);
}

/* Whether it is asked what was written, and the answer is a proof. */
static bool is_watched(const struct tb_kept *kept) { return kept->tracked.number != 0 && !kept->unasked; }

/* Its first and last page may lie at the ends of what is kept, where others' data begin, and are not tracked then. */
bool tb_kept_question(struct tb_question *q, struct tb_kept *kept, const struct tb_stored *part) {
  const struct tb_tracked *const all = &kept->tracked;
  *q = (struct tb_question){.kept = NULL};
  if (kept->unasked || !tb_track_holds(all)) return false;
  q->kept = kept;
  q->whole = tb_stored_is(&kept->stored, part);
  q->number = all->number;
  q->pages = tb_track_pages_around(tb_stored_start(part), tb_stored_end(part));
  q->edges[0] = q->pages.start < all->start;
  q->edges[1] = q->pages.end > all->end;
  if (q->edges[0]) q->pages.start = all->start;
  if (q->edges[1]) q->pages.end = all->end;
  for (q->each = PAGES_OF_TASK_BYTES; (q->pages.end - q->pages.start) / q->each >= TB_POOL_TASKS_MAX;) q->each *= 2;
  if (is_written_in_the_midst(&q->pages)) q->kept = NULL;
  return q->kept != NULL;
}

void tb_question_ask(struct tb_question *q, struct tb_pool *pool) {
  if (q->by_hash) {
    start_comparison(q, pool);
    return;
  }
  const uintptr_t bytes = q->pages.end > q->pages.start ? q->pages.end - q->pages.start : 0;
  q->job = tb_pool_start(pool, ask_of_pages, q, (int)((bytes + q->each - 1) / q->each));
}

bool tb_question_is_asked(const struct tb_question *q, const struct tb_pool *pool) {
  return tb_pool_done(pool, q->job);
}

void tb_kept_forget_pages(struct tb_kept *kept) {
  tb_track_end(&kept->tracked);
  kept->unasked = kept->has_cudas = false;
}

void tb_kept_begin_probe(struct tb_kept *kept) {
  const struct tb_stored *const s = &kept->stored;
  const struct tb_stored_run rows = tb_stored_column(s, s->columns / 2);
  const int64_t at = s->columns / 2 * s->pitch_bytes + (rows.first + rows.end) / 2;
  struct tb_tracked mapping;
  tb_probe_end(&kept->probe);
  kept->probe = page_at(tb_stored_start(s) + (uintptr_t)at);
  if (tb_writers_may_ask() && tb_writers_find_mapping(kept->probe, &mapping)) tb_probe_begin(&kept->probe, mapping);
}

bool tb_kept_probe_is_written(const struct tb_kept *kept) { return tb_probe_is_written(&kept->probe); }

/* ---- either ---- */

/* A write to what is tracked costs its writer a fault a page, as much as some 30 proofs by the hash. So it is tracked
 * when the hash has found it unchanged once (a result, most of which are used once and then written anew, when it has
 * twice), and, when it was written after fewer proofs than that, twice as often as
 * before. */
#define TRACK_USES_ENOUGH 32
#define PATIENCE_MOST 16

static bool is_to_be_tracked(const struct tb_kept *kept) {
  return kept->proofs + 1 >= (kept->is_result ? 2 : 1) << kept->track_failures;
}

static void count_write(struct tb_kept *kept) {
  const bool paid = kept->track_uses >= (kept->replaced ? TB_REPLACED_USES_ENOUGH : TRACK_USES_ENOUGH);
  kept->track_failures = paid ? 0 : kept->track_failures < PATIENCE_MOST ? kept->track_failures + 1 : PATIENCE_MOST;
  kept->track_uses = kept->proofs = 0;
}

/* It is not what it was. A mapping that is gone has taken no faults. */
static void end_tracking(struct tb_kept *kept) {
  kept->replaced = tb_track_is_replaced(&kept->tracked);
  tb_kept_forget_pages(kept);
  count_write(kept);
}

/* What cannot be tracked now is tried again, ever more seldom: who could write to it unseen may be gone. */
static void give_up_tracking(struct tb_kept *kept) {
  tb_kept_forget_pages(kept);
  count_write(kept);
}

/* Whether it has begun. */
static bool try_to_track(struct tb_kept *kept) {
  tb_kept_begin_watch(kept);
  if (kept->tracked.number == 0) give_up_tracking(kept);
  return kept->tracked.number != 0;
}

bool tb_kept_watch(struct tb_kept *kept) {
  kept->digested = kept->track_failures > 0 || !try_to_track(kept);
  kept->unasked = false; /* tb_kept_has_cudas tells, of what is no copy before */
  return !kept->digested;
}

bool tb_kept_has_cudas(const struct tb_kept *kept, uintptr_t from) {
  return tb_writers_have_cudas((struct tb_tracked){from, kept->tracked.end, 0});
}

bool tb_kept_question_by_hash(struct tb_question *q, struct tb_kept *kept, const struct tb_stored *part,
                              bool may_track) {
  int64_t first, count;
  *q = (struct tb_question){.kept = NULL};
  if (!kept->is_result || is_watched(kept) || !find_cells(kept, part, &first, &count)) return false;
  const bool may_begin = kept->unasked ? tb_kept_is_asked_about(kept) : is_to_be_tracked(kept);
  if (may_track && count == kept->cells.count && may_begin) return false;
  begin_comparison(q, kept, first, count);
  return true;
}

static void count_proof(struct tb_kept *kept) {
  kept->proofs++;
  kept->proven = true;
}

static bool answer_by_hash(struct tb_question *q) {
  const bool same = !atomic_load(&q->written);
  if (same) count_proof(q->kept);
  return same;
}

/* What was tracked anew meanwhile, by another call's look, says nothing of the time between. */
bool tb_kept_answer(struct tb_question *q) {
  struct tb_kept *const kept = q->kept;
  if (q->by_hash) return answer_by_hash(q);
  const bool is_the_same = kept->tracked.number == q->number && tb_track_holds(&kept->tracked);
  const bool clean = is_the_same && !atomic_load(&q->written) && (!q->edges[0] || tb_kept_has_same_edge(kept, false)) &&
                     (!q->edges[1] || tb_kept_has_same_edge(kept, true));
  if (clean)
    kept->track_uses++;
  else if (kept->tracked.number == q->number && !(q->whole && tb_kept_may_be_mended(kept)))
    end_tracking(kept); /* else its next proof does that, or mends it */
  return clean;
}

static bool is_clean(struct tb_kept *kept, const struct tb_stored *part, struct tb_pool *pool) {
  struct tb_question q;
  if (!tb_kept_question(&q, kept, part)) return false;
  tb_question_ask(&q, pool);
  tb_pool_wait(pool, q.job);
  return tb_kept_answer(&q);
}

/* TB_NOT_KEPT: it is not tracked any more. */
static enum tb_proof prove_by_tracking(struct tb_kept *kept, const struct tb_stored *part, bool may_mend,
                                       struct tb_pool *pool) {
  const bool clean = is_clean(kept, part, pool);
  if (clean && kept->asked_first > 0) kept->asked_first--;
  if (clean && kept->mends > 0) kept->mends--;
  if (clean) return TB_BY_TRACKING;
  if (may_mend && tb_stored_is(&kept->stored, part) && tb_kept_begin_mending(kept)) return TB_MENDED;
  if (kept->tracked.number != 0) end_tracking(kept);
  return TB_NOT_KEPT;
}

static bool has_edges_of(const struct tb_kept *kept, const struct tb_kept *other) {
  return kept->tracked.start == other->tracked.start && kept->tracked.end == other->tracked.end &&
         tb_digests_are_equal(&kept->edges[0], &other->edges[0]) &&
         tb_digests_are_equal(&kept->edges[1], &other->edges[1]);
}

static bool has_digests_of(const struct tb_kept *kept, const struct tb_kept *other) {
  if (!kept->digested || !other->digested) return false;
  for (int64_t i = 0; i < kept->cells.count; i++)
    if (!tb_digests_are_equal(&kept->digests[i], &other->digests[i])) return false;
  return true;
}

/* Pages that are clean now were so all the time that each of those has watched them that still does: to protect pages
 * that were written ends the watch of all others. */
bool tb_kept_is_proven_by(struct tb_kept *kept, const struct tb_kept *other, enum tb_proof proof) {
  const bool watched = proof == TB_BY_TRACKING;
  if (!tb_stored_is(&kept->stored, &other->stored)) return false;
  if (watched != is_watched(kept)) return false;
  if (watched && !(tb_track_holds(&kept->tracked) && has_edges_of(kept, other))) return false;
  if (!watched && !has_digests_of(kept, other)) return false;
  (*(watched ? &kept->track_uses : &kept->proofs))++;
  return true;
}

/* To end the watch costs less than the faults of a commit. */
void tb_kept_begin_result(struct tb_kept *kept) {
  if (kept->tracked.number != 0) count_write(kept);
  tb_kept_forget_pages(kept);
  kept->proofs = 0;
  kept->proven = false;
  kept->is_result = kept->digested = true;
  atomic_store(&kept->awaited, true);
  tb_kept_end_mending(kept);
}

bool tb_kept_may_be_watched(void) { return tb_writers_may_ask() && tb_track_may_begin(); }

/* The kernel watches from now on, or does since an earlier call. */
static bool begins_or_goes_on(struct tb_kept *kept) {
  if (!kept->unasked) return try_to_track(kept);
  if (kept->has_cudas) give_up_tracking(kept);
  return kept->unasked;
}

/* All bytes, where the kernel does not watch yet; from now on it may. CUDA is asked about what it watches before that,
 * or beside it. Of a part its own bytes alone: what is not the call's may be gone, and of the rest nothing is proven.
 */
static enum tb_proof prove_by_hash(struct tb_kept *kept, const struct tb_stored *part, struct tb_prove how,
                                   bool was_watched, struct tb_pool *pool) {
  int64_t first = 0, count = 0;
  const bool has_cells = find_cells(kept, part, &first, &count);
  if (!kept->digested || (was_watched && !how.hash_pays)) return TB_NOT_KEPT;
  const bool whole = count == kept->cells.count, tries = whole && how.may_track && !was_watched;
  const bool begins = tries && (!how.hash_pays || kept->unasked || is_to_be_tracked(kept)) && begins_or_goes_on(kept);
  const bool waits = begins && how.asks_later && !tb_kept_is_asked_about(kept), settles = begins && !waits;
  if (!has_cells || (waits && !how.hash_pays)) return TB_NOT_KEPT;
  struct tb_differing found = {0};
  const bool may_mend = begins && how.may_mend && tb_stored_is(&kept->stored, part);
  struct tb_differing *const differing = may_mend ? &found : NULL;
  bool same = false;
  if (settles) tb_kept_digest_edges(kept);
  const enum asks asks = settles ? ASKS_ALL : waits ? ASKS_MEANWHILE : ASKS_NOTHING;
  if (begins || how.hash_pays || !whole) same = has_same_cells(kept, first, count, differing, asks, pool);
  if (kept->has_cudas) give_up_tracking(kept);
  if (whole && !how.hash_pays && kept->tracked.number == 0) {
    kept->unwatchable = true;
    return TB_NOT_KEPT;
  }
  if (settles) kept->unasked = false;
  if (same) {
    count_proof(kept);
    return TB_BY_HASH;
  }
  if (differing != NULL && kept->tracked.number != 0 && tb_kept_begin_mending_cells(kept, differing)) return TB_MENDED;
  tb_kept_forget_pages(kept);
  return TB_NOT_KEPT;
}

/* Of what is watched since an earlier call and was not used since: others have some of its pages watched, or it was
 * rewritten, as far as a page tells. Whether it can be mended its ends tell, which are a part's no more. */
static bool has_lost_watch(const struct tb_kept *kept, const struct tb_stored *part) {
  if (!kept->unasked) return false;
  if (!tb_track_holds(&kept->tracked)) return true;
  const bool whole = tb_stored_is(&kept->stored, part);
  return is_written_in_the_midst(&kept->tracked) && !(whole && tb_kept_may_be_mended(kept));
}

enum tb_proof tb_kept_prove(struct tb_kept *kept, const struct tb_stored *part, struct tb_prove how,
                            struct tb_pool *pool) {
  const bool has_lost = has_lost_watch(kept, part), was_watched = is_watched(kept);
  if (has_lost) end_tracking(kept);
  const enum tb_proof proof = was_watched ? prove_by_tracking(kept, part, how.may_mend, pool) : TB_NOT_KEPT;
  return proof != TB_NOT_KEPT ? proof : prove_by_hash(kept, part, how, was_watched || has_lost, pool);
}
