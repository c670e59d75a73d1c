/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A copy whose program's memory was written in a few places stays, and what has these goes up again.
 *
 *   the kernel says which pages were written -> they are protected again -> who writes without a fault is looked for
 *   -> their cells go up and are digested
 *
 * in this order, as when a copy begins to be watched: what is written before the pages are protected goes up, and what
 * is written behind that shows the next time. Where the watch has just begun all bytes are looked at, which tells the
 * cells. And what an operand has got since, behind what was copied, goes up with these (grow.c).
 */
#include <stdlib.h>

#include "base/integers.h"
#include "cache/kept.h"
#include "cache/writers.h"

/* Of the pages such a part, at most: each takes its writer a fault, 1.3 to 5 microseconds, where all go up in some 0.08
 * a page. */
#ifndef TB_MENDED_FEW_OF /* a build for fuzz_kept has more */
#define TB_MENDED_FEW_OF 64
#endif

/* Proofs behind one that mended for which the kernel is asked before the call begins, which takes 0.3 ms a GiB: a call
 * that has begun with what was written is computed twice. */
#define ASKED_FIRST 16

/* To mend takes a while, however little was written: 4096 cubed 2.2 to 2.4 ms, where it takes 1.5 with nothing written
 * (H100s), in which time the link brings some 40 MB up. So what is smaller and is written before nearly every use is
 * not mended for long. */
#ifndef TB_ALWAYS_MENDED_BYTES /* a build for fuzz_kept has less */
#define TB_ALWAYS_MENDED_BYTES ((int64_t)32 << 20)
#endif
#define MENDS_MOST 4

bool tb_kept_mending_pays(const struct tb_kept *kept) {
  return kept->mends < MENDS_MOST || tb_stored_bytes(&kept->stored) >= TB_ALWAYS_MENDED_BYTES;
}

static int64_t cell_at(const struct tb_kept *kept, uintptr_t address) {
  const struct tb_stored *const s = &kept->stored;
  const struct tb_cells *const cells = &kept->cells;
  const int64_t behind = (int64_t)(address - (uintptr_t)s->data), last = tb_stored_span_bytes(s) - 1;
  const int64_t offset = tb_min(tb_max(behind, 0), last), row = offset % s->pitch_bytes;
  return offset / s->pitch_bytes / cells->columns_each * cells->in_column +
         (cells->in_column == 1 ? 0 : tb_min(row / TB_CELL_BYTES, cells->in_column - 1));
}

/* -1: it cannot be mended. What lies at its ends, in pages of others, is digested each time, and must be the same. */
static int find_runs(const struct tb_kept *kept, struct tb_tracked run[]) {
  if (!tb_kept_mending_pays(kept) || !tb_track_holds(&kept->tracked)) return -1;
  if (kept->stored.part != TB_STORED_ALL || !tb_kept_has_same_edges(kept)) return -1;
  const int runs = tb_track_find_written(kept->tracked, run, TB_TRACK_RUNS_MOST);
  uintptr_t bytes = 0;
  for (int i = 0; i < runs; i++) bytes += run[i].end - run[i].start;
  return bytes <= (kept->tracked.end - kept->tracked.start) / TB_MENDED_FEW_OF ? runs : -1;
}

bool tb_kept_may_be_mended(const struct tb_kept *kept) {
  struct tb_tracked run[TB_TRACK_RUNS_MOST];
  return find_runs(kept, run) >= 0;
}

/* Cells of a run of pages; those that the run before has, too, go up once. */
static void add_cells(struct tb_stale *stale, const struct tb_kept *kept, const struct tb_tracked *run) {
  int64_t first = cell_at(kept, run->start);
  const int64_t end = cell_at(kept, run->end - 1) + 1;
  if (stale->runs > 0) first = tb_max(first, stale->run[stale->runs - 1].first + stale->run[stale->runs - 1].count);
  if (first >= end) return;
  stale->run[stale->runs].first = first;
  stale->run[stale->runs].count = end - first;
  stale->runs++;
}

/* Who pins what has stayed protected takes a fault, so that it is among the runs. */
static bool renew(const struct tb_kept *kept, const struct tb_tracked run[], int runs) {
  for (int i = 0; i < runs; i++)
    if (!tb_track_renew(&kept->tracked, run[i])) return false;
  return tb_writers_of_runs_all_fault(run, runs);
}

static bool have_stale(struct tb_kept *kept, struct tb_stale *stale) {
  kept->stale = stale;
  kept->asked_first = ASKED_FIRST;
  kept->mends++;
  return true;
}

bool tb_kept_begin_mending(struct tb_kept *kept) {
  struct tb_tracked run[TB_TRACK_RUNS_MOST];
  const int runs = find_runs(kept, run);
  struct tb_stale *const stale = runs >= 0 && tb_writers_may_ask() ? calloc(1, sizeof *stale) : NULL;
  if (stale == NULL) return false;
  if (!renew(kept, run, runs)) {
    tb_kept_forget_pages(kept); /* some that were written are protected by now, as if they were not */
    free(stale);
    return false;
  }
  for (int i = 0; i < runs; i++) add_cells(stale, kept, &run[i]);
  return have_stale(kept, stale);
}

/* At most as many as there are runs. (To import qsort would cost each process that preloads us some hundred
 * instructions.) */
static void sort(int64_t cell[], int count) {
  for (int i = 1; i < count; i++) {
    const int64_t x = cell[i];
    int at = i;
    for (; at > 0 && cell[at - 1] > x; at--) cell[at] = cell[at - 1];
    cell[at] = x;
  }
}

bool tb_kept_begin_mending_cells(struct tb_kept *kept, struct tb_differing *differing) {
  const int count = atomic_load(&differing->count);
  if (kept->stored.part != TB_STORED_ALL || count > TB_TRACK_RUNS_MOST || count > kept->cells.count / TB_MENDED_FEW_OF)
    return false;
  struct tb_stale *const stale = calloc(1, sizeof *stale);
  if (stale == NULL) return false;
  sort(differing->cell, count);
  for (int i = 0; i < count; i++) {
    const int last = stale->runs - 1;
    const bool goes_on = last >= 0 && stale->run[last].first + stale->run[last].count == differing->cell[i];
    if (!goes_on) stale->run[stale->runs++].first = differing->cell[i];
    stale->run[stale->runs - 1].count++;
  }
  return have_stale(kept, stale);
}

/* From a cell on, behind what is to go up already; where there are runs enough the last one goes on. */
static void add_rest(struct tb_stale *stale, int64_t first, int64_t end) {
  for (; stale->runs > 0; stale->runs--) {
    const int64_t last = stale->run[stale->runs - 1].first, count = stale->run[stale->runs - 1].count;
    if (last + count < first && stale->runs < TB_TRACK_RUNS_MOST) break;
    first = tb_min(first, last);
  }
  stale->run[stale->runs].first = first;
  stale->run[stale->runs].count = end - first;
  stale->runs++;
}

/* What was at its end in a page of others is in a page that is watched now: its cell goes up once more, as does one
 * that has got more columns. Where CUDA was not asked about all of it yet it is asked about the rest, too. */
bool tb_kept_grow(struct tb_kept *kept, const struct tb_stored *all) {
  const struct tb_cells *const cells = &kept->cells;
  const uintptr_t watched_end = kept->tracked.end;
  const bool watched = kept->tracked.number != 0;
  int64_t first = kept->stored.columns / cells->columns_each * cells->in_column;
  kept->stored = *all;
  kept->mends += 2; /* one for the beginning's proof, which has taken one off where the kernel found nothing written */
  if (watched) first = tb_min(first, cell_at(kept, watched_end));
  if (watched && !tb_kept_extend_watch(kept)) {
    tb_kept_forget_pages(kept);
    if (!kept->digested) return false;
  }
  add_rest(kept->stale, first, cells->count);
  return true;
}

void tb_kept_end_mending(struct tb_kept *kept) {
  free(kept->stale);
  kept->stale = NULL;
  atomic_store(&kept->planes.packed, false); /* they are what was there before */
}
