/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages for a C that was just allocated. What a program has of malloc or mmap, as the result of each NumPy expression,
 * has no pages before it is written: to commit there takes three to four times as long as to warm memory, for the
 * kernel gives pages one by one to whoever touches them. So two threads have them while operands go up, where there are
 * cores for them, and those that copy when nothing else is to be done, each 2 MiB by one of them: MADV_POPULATE_WRITE
 * (Linux 5.14 and later), which changes nothing of the contents. Pages in which no element of C is written are not
 * touched. Under offload.c's lock.
 */
#ifndef TB_PAGES_H
#define TB_PAGES_H

#include <stdatomic.h>

#include "blas/call.h"
#include "process/pool.h"

#define TB_PAGES_REGIONS_MAX TB_POOL_TASKS_MAX

/* A call's, from begin to end; the owner only keeps it. */
struct tb_pages {
  struct tb_pool *pool; /* whose threads copy */
  int behind; /* their job's place: threads have them, those that copy behind all copies; 0: who is to write does */
  const struct tb_call *call;
  int regions; /* of C's addresses; 0: nothing is to be had */
  int64_t region_bytes;
  atomic_bool over;                          /* no more pages are wanted, or none can be had this way */
  atomic_uchar region[TB_PAGES_REGIONS_MAX]; /* whose each is */
};

/* Whether a page of it is missing; a microsecond. */
bool tb_pages_lacks(const void *at);

/* Begins, if C is overwritten, in ordinary memory that lacks pages, and large enough. `call` lasts until the end. */
void tb_pages_begin(struct tb_pages *pages, struct tb_pool *pool, const struct tb_call *call);

/* For who is about to write some of C's bytes: returns when no other thread is about to have their pages, which would
 * make two of each. Any thread; NULL is allowed. */
void tb_pages_before_write(struct tb_pages *pages, const void *first, int64_t bytes);

/* Whoever is at it stops; what is not there by now comes as it is written. May be called again. */
void tb_pages_end(struct tb_pages *pages);

#endif
