/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "pipeline/pages.h"

#include <sys/mman.h>

#include "base/integers.h"

#ifndef MADV_POPULATE_WRITE /* of Linux 5.14, and of glibc 2.35 */
#define MADV_POPULATE_WRITE 23
#endif

/* Smaller ones are committed in less time than it takes to ask. */
#define BYTES_MIN ((int64_t)1 << 20)
/* What a thread does before it looks for something else to do: some 80 us of pages of 4 KiB (H200's host). */
#define STEP_BYTES ((int64_t)256 << 10)
/* One thread's: a huge page, which is had as a whole. */
#define REGION_BYTES ((int64_t)2 << 20)
/* From so many bytes on huge pages are asked for where a C fills them: sixteen threads have small ones at 38 GB/s, huge
 * ones at 60 (H200's host), and to commit there is faster, too. So much malloc gives back to the system at free, and
 * the wish with it. */
#define HUGE_BYTES_MIN ((int64_t)32 << 20)
/* The smallest that there are; larger ones are whole numbers of them. */
#define PAGE_BYTES ((uintptr_t)4096)
/* Elements whose pages are asked for, one for so many bytes; to ask takes a third of a microsecond. */
#define PROBE_BYTES ((int64_t)4 << 20)
#define PROBES_MIN 2
#define PROBES_MAX 16

/* Bytes. */
struct bytes_range {
  uintptr_t first, end;
};

static uintptr_t address_in_c(const struct tb_call *call, int64_t i, int64_t j) {
  return (uintptr_t)tb_call_c(call, i, j);
}

/* From C's first element to behind its last one. */
static struct bytes_range all_of(const struct tb_call *call) {
  return (struct bytes_range){address_in_c(call, 0, 0), address_in_c(call, call->m, call->n - 1)};
}

/* What is written of a column. */
static struct bytes_range column_of(const struct tb_call *call, int64_t j) {
  const struct tb_region_rows rows = tb_region_rows(call->region, call->m, j);
  return (struct bytes_range){address_in_c(call, rows.first, j), address_in_c(call, rows.end, j)};
}

/* ---- is it new? ---- */

static bool is_absent(uintptr_t address) {
  unsigned char there;
  return mincore((void *)(address / PAGE_BYTES * PAGE_BYTES), 1, &there) == 0 && (there & 1) == 0;
}

/* Element `probe` of so many along C's diagonal: its first page may be there, for malloc has written to it. */
static bool is_absent_at(const struct tb_call *call, int64_t probe, int64_t probes) {
  const int64_t j = (2 * probe + 1) * call->n / (2 * probes);
  const struct tb_region_rows rows = tb_region_rows(call->region, call->m, j);
  const int64_t i = rows.first + (2 * probe + 1) * (rows.end - rows.first) / (2 * probes);
  return rows.first < rows.end && is_absent(address_in_c(call, i, j));
}

static bool lacks_pages(const struct tb_call *call, int64_t bytes) {
  const int64_t probes = tb_min(tb_max(bytes / PROBE_BYTES, PROBES_MIN), PROBES_MAX);
  for (int64_t probe = 0; probe < probes; probe++)
    if (is_absent_at(call, probe, probes)) return true;
  return false;
}

/* ---- having them ---- */

/* All pages that have any of the bytes. */
static void have(struct tb_pages *pages, struct bytes_range range) {
  if (range.first >= range.end) return;
  const uintptr_t first = range.first / PAGE_BYTES * PAGE_BYTES;
  if (madvise((void *)first, range.end - first, MADV_POPULATE_WRITE) != 0) atomic_store(&pages->over, true);
}

static struct bytes_range common_bytes(struct bytes_range x, struct bytes_range y) {
  return (struct bytes_range){x.first > y.first ? x.first : y.first, x.end < y.end ? x.end : y.end};
}

/* Whether every page from C's first element to its last one has some that is written. */
static bool has_no_gaps(const struct tb_call *call) {
  return call->region.of == TB_WHOLE && (call->ldc - call->m) * tb_call_bytes(call) < (int64_t)PAGE_BYTES;
}

static void have_step(struct tb_pages *pages, struct bytes_range step) {
  const struct tb_call *const call = pages->call;
  const uintptr_t column_bytes = (uintptr_t)(call->ldc * tb_call_bytes(call)), c = (uintptr_t)call->c;
  if (has_no_gaps(call)) {
    have(pages, step);
    return;
  }
  const int64_t last = tb_min(call->n - 1, (int64_t)((step.end - 1 - c) / column_bytes));
  for (int64_t j = (int64_t)((step.first - c) / column_bytes); j <= last && !atomic_load(&pages->over); j++)
    have(pages, common_bytes(step, column_of(call, j)));
}

/* A task. What is to be copied meanwhile comes first. */
static void have_region(void *context, int index) {
  struct tb_pages *const pages = context;
  const struct bytes_range all = all_of(pages->call);
  const uintptr_t base = all.first / REGION_BYTES * REGION_BYTES + (uintptr_t)(index * pages->region_bytes);
  for (int64_t at = 0; at < pages->region_bytes; at += STEP_BYTES) {
    const struct bytes_range step = {base + (uintptr_t)at, base + (uintptr_t)(at + STEP_BYTES)};
    while (tb_pool_help(pages->pool)) continue;
    if (atomic_load(&pages->over)) return;
    const struct bytes_range mine = common_bytes(step, all);
    if (mine.first < mine.end) have_step(pages, mine);
  }
}

/* Only of pages that are all C's: no more memory is taken. Where the system gives none there are small ones. */
static void want_huge_pages(const struct tb_call *call, struct bytes_range all, int64_t bytes) {
  const uintptr_t huge = (uintptr_t)REGION_BYTES, first = (all.first + huge - 1) / huge * huge;
  const uintptr_t end = all.end / huge * huge;
  if (bytes >= HUGE_BYTES_MIN && has_no_gaps(call) && first < end)
    (void)madvise((void *)first, end - first, MADV_HUGEPAGE);
}

void tb_pages_begin(struct tb_pages *pages, struct tb_pool *pool, const struct tb_call *call) {
  const struct bytes_range all = all_of(call);
  const int64_t bytes = (int64_t)(tb_call_elems(call) * (double)tb_call_bytes(call));
  pages->pool = NULL;
  if (pool == NULL || bytes < BYTES_MIN || !tb_call_overwrites(call) || !lacks_pages(call, bytes)) return;
  want_huge_pages(call, all, bytes);
  const int64_t span = (int64_t)(all.end - all.first / REGION_BYTES * REGION_BYTES);
  pages->call = call;
  pages->region_bytes = tb_round_up(tb_max(REGION_BYTES, tb_ceil_div(span, TB_POOL_TASKS_MAX)), REGION_BYTES);
  atomic_store(&pages->over, false);
  pages->pool = pool;
  if (!tb_pool_start_behind(pool, have_region, pages, (int)tb_ceil_div(span, pages->region_bytes))) pages->pool = NULL;
}

void tb_pages_end(struct tb_pages *pages) {
  if (pages->pool == NULL) return;
  atomic_store(&pages->over, true);
  tb_pool_end_behind(pages->pool);
  pages->pool = NULL;
}
