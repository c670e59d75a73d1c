/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "pipeline/pages.h"

#include <sys/mman.h>

#include "base/integers.h"
#include "process/busy.h"

#ifndef MADV_POPULATE_WRITE /* of Linux 5.14, and of glibc 2.35 */
#define MADV_POPULATE_WRITE 23
#endif

/* Smaller ones are committed in less time than it takes to ask. */
#define BYTES_MIN ((int64_t)1 << 20)
/* What a thread does before it looks for something else to do: some 80 us of pages of 4 KiB (H200's host). */
#define STEP_BYTES ((uintptr_t)256 << 10)
/* One thread's: a huge page, which is had as a whole. The kernel clears one for each thread that meets its absence, and
 * keeps the first: of results of 64 MiB, written by sixteen threads, 2.7 times what was needed (Linux 6.18). */
#define REGION_BYTES ((int64_t)2 << 20)
/* Of who waits for another one's, before the core is offered. */
#define LOOKS_BEFORE_OFFER 100
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

bool tb_pages_lacks(const void *at) {
  unsigned char there;
  return mincore((void *)((uintptr_t)at / PAGE_BYTES * PAGE_BYTES), 1, &there) == 0 && (there & 1) == 0;
}

/* Element `probe` of so many along C's diagonal: its first page may be there, for malloc has written to it. */
static bool is_absent_at(const struct tb_call *call, int64_t probe, int64_t probes) {
  const int64_t j = (2 * probe + 1) * call->n / (2 * probes);
  const struct tb_region_rows rows = tb_region_rows(call->region, call->m, j);
  const int64_t i = rows.first + (2 * probe + 1) * (rows.end - rows.first) / (2 * probes);
  return rows.first < rows.end && tb_pages_lacks(tb_call_c(call, i, j));
}

static bool lacks_pages(const struct tb_call *call, int64_t bytes) {
  const int64_t probes = tb_min(tb_max(bytes / PROBE_BYTES, PROBES_MIN), PROBES_MAX);
  for (int64_t probe = 0; probe < probes; probe++)
    if (is_absent_at(call, probe, probes)) return true;
  return false;
}

/* ---- having them ---- */

/* All pages that have any of the bytes. False: there are none. */
static bool have(struct tb_pages *pages, struct bytes_range range) {
  if (range.first >= range.end) return false;
  const uintptr_t first = range.first / PAGE_BYTES * PAGE_BYTES;
  if (madvise((void *)first, range.end - first, MADV_POPULATE_WRITE) != 0) atomic_store(&pages->over, true);
  return true;
}

static struct bytes_range common_bytes(struct bytes_range x, struct bytes_range y) {
  return (struct bytes_range){x.first > y.first ? x.first : y.first, x.end < y.end ? x.end : y.end};
}

/* Whether every page from C's first element to its last one has some that is written. */
static bool has_no_gaps(const struct tb_call *call) {
  return call->region.of == TB_WHOLE && (call->ldc - call->m) * tb_call_bytes(call) < (int64_t)PAGE_BYTES;
}

/* What of C lies there. False: nothing does. */
static bool have_step(struct tb_pages *pages, uintptr_t first) {
  const struct tb_call *const call = pages->call;
  const uintptr_t column_bytes = (uintptr_t)(call->ldc * tb_call_bytes(call)), c = (uintptr_t)call->c;
  const struct bytes_range step = common_bytes((struct bytes_range){first, first + STEP_BYTES}, all_of(call));
  if (step.first >= step.end) return false;
  if (has_no_gaps(call)) return have(pages, step);
  bool any = false;
  const int64_t last = tb_min(call->n - 1, (int64_t)((step.end - 1 - c) / column_bytes));
  for (int64_t j = (int64_t)((step.first - c) / column_bytes); j <= last && !atomic_load(&pages->over); j++)
    any |= have(pages, common_bytes(step, column_of(call, j)));
  return any;
}

/* ---- one thread for a region ---- */

/* Whose a region is. */
enum { NOBODYS, A_THREADS, EVERYBODYS };

static struct bytes_range bytes_of_region(const struct tb_pages *pages, int index) {
  const uintptr_t base = all_of(pages->call).first / REGION_BYTES * REGION_BYTES;
  const uintptr_t first = base + (uintptr_t)(index * pages->region_bytes);
  return (struct bytes_range){first, first + (uintptr_t)pages->region_bytes};
}

static bool take(struct tb_pages *pages, int index) {
  unsigned char expected = NOBODYS;
  return atomic_compare_exchange_strong(&pages->region[index], &expected, A_THREADS);
}

/* Up to the first step that has some of C's. */
static void have_first(struct tb_pages *pages, struct bytes_range huge) {
  for (uintptr_t at = huge.first; at < huge.end && !atomic_load(&pages->over); at += STEP_BYTES)
    if (have_step(pages, at)) return;
}

/* For who has taken it. What is to be copied meanwhile comes first, between two steps of a thread that copies. Huge
 * pages are there behind the first that is had of each, and the rest is asked for in vain; of small ones who writes
 * meanwhile gets those that are missing one by one. */
static void have_region(struct tb_pages *pages, int index, bool lets_copies_before) {
  const struct bytes_range region = bytes_of_region(pages, index);
  for (uintptr_t at = region.first; at < region.end; at += REGION_BYTES)
    have_first(pages, (struct bytes_range){at, at + REGION_BYTES});
  atomic_store(&pages->region[index], EVERYBODYS);
  for (uintptr_t at = region.first; at < region.end && !atomic_load(&pages->over); at += STEP_BYTES) {
    while (lets_copies_before && !atomic_load(&pages->over) && tb_pool_help(pages->pool)) continue;
    have_step(pages, at);
  }
}

/* A task. */
static void have_behind(void *context, int index) {
  struct tb_pages *const pages = context;
  if (!atomic_load(&pages->over) && take(pages, index)) have_region(pages, index, true);
}

/* One behind `index` that is nobody's yet: who has to wait and finds nothing to copy has its pages meanwhile. */
static bool have_another(struct tb_pages *pages, int index) {
  while (++index < pages->regions)
    if (take(pages, index)) {
      have_region(pages, index, false);
      return true;
    }
  return false;
}

/* Not within a copy that somebody does who waits: there is no end to that. */
static bool help_once(struct tb_pages *pages) {
  static _Thread_local bool helps;
  if (helps) return false;
  helps = true;
  const bool helped = tb_pool_help(pages->pool);
  helps = false;
  return helped;
}

static void have_or_await(struct tb_pages *pages, int index) {
  for (int looks = 0; atomic_load(&pages->region[index]) != EVERYBODYS && !atomic_load(&pages->over); looks++) {
    if (take(pages, index))
      have_region(pages, index, false);
    else if (!help_once(pages) && !have_another(pages, index) && looks > LOOKS_BEFORE_OFFER)
      tb_busy_offer_core();
  }
}

void tb_pages_before_write(struct tb_pages *pages, const void *first, int64_t bytes) {
  if (pages == NULL || pages->regions == 0 || bytes <= 0) return;
  const uintptr_t base = bytes_of_region(pages, 0).first, at = (uintptr_t)first;
  const int last = (int)((at + (uintptr_t)bytes - 1 - base) / (uintptr_t)pages->region_bytes);
  for (int index = (int)((at - base) / (uintptr_t)pages->region_bytes); index <= last; index++)
    have_or_await(pages, index);
}

/* ---- a call's ---- */

/* For the small pages that have some of C, among which there are huge ones where all of one is C's: no more memory is
 * taken, and a mapping of C's own stays one, which mremap wants of what is to grow. Where the system gives none there
 * are small ones. */
static void want_huge_pages(const struct tb_call *call, struct bytes_range all, int64_t bytes) {
  const uintptr_t first = all.first / PAGE_BYTES * PAGE_BYTES;
  const uintptr_t end = (all.end + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
  if (bytes >= HUGE_BYTES_MIN && has_no_gaps(call)) (void)madvise((void *)first, end - first, MADV_HUGEPAGE);
}

void tb_pages_begin(struct tb_pages *pages, struct tb_pool *pool, const struct tb_call *call) {
  const struct bytes_range all = all_of(call);
  const int64_t bytes = (int64_t)(tb_call_elems(call) * (double)tb_call_bytes(call));
  pages->regions = 0;
  if (pool == NULL || bytes < BYTES_MIN || !tb_call_overwrites(call) || !lacks_pages(call, bytes)) return;
  want_huge_pages(call, all, bytes);
  const int64_t span = (int64_t)(all.end - all.first / REGION_BYTES * REGION_BYTES);
  pages->call = call;
  pages->region_bytes = tb_round_up(tb_max(REGION_BYTES, tb_ceil_div(span, TB_PAGES_REGIONS_MAX)), REGION_BYTES);
  pages->regions = (int)tb_ceil_div(span, pages->region_bytes);
  for (int index = 0; index < pages->regions; index++) atomic_init(&pages->region[index], NOBODYS);
  atomic_store(&pages->over, false);
  pages->pool = pool;
  pages->behind = tb_pool_start_behind(pool, have_behind, pages, pages->regions);
}

void tb_pages_end(struct tb_pages *pages) {
  if (pages->regions == 0) return;
  atomic_store(&pages->over, true);
  tb_pool_end_behind(pages->pool, pages->behind);
  pages->behind = 0;
}
