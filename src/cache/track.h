/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's word that nobody has written to some pages: they are write-protected by a userfaultfd in asynchronous
 * mode, which costs who writes a fault and nothing else, and PAGEMAP_SCAN tells which still are (Linux 6.7). Whether
 * that word is enough for what lies there is writers.h's question. Under offload.c's lock.
 */
#ifndef TB_TRACK_H
#define TB_TRACK_H

#include <stdbool.h>
#include <stdint.h>

/* Whole pages, and the number under which they are tracked; 0: they are not. */
struct tb_tracked {
  uintptr_t start, end;
  uint64_t number;
};

/* The whole pages between two addresses (start >= end: there are none), and the pages that have any of what lies
 * between them. */
struct tb_tracked tb_track_pages(uintptr_t from, uintptr_t to);
struct tb_tracked tb_track_pages_around(uintptr_t from, uintptr_t to);

/* Whether the kernel does it for us at all. */
bool tb_track_may_begin(void);

/* From its return on, every write to these pages shows. Others that have all of them, and were not written there, are
 * tracked beside them. Others that have some in common with them are not any more: what was written there would no
 * longer show. `mapping`: all of the one that they are in; it is enrolled as a whole, for in two parts the program
 * could not move it. False: it cannot be had. */
bool tb_track_begin(struct tb_tracked *pages, struct tb_tracked mapping);
void tb_track_end(struct tb_tracked *pages);

/* Whether they are still tracked. */
bool tb_track_holds(const struct tb_tracked *pages);

/* Whether pages, some of those that are tracked, are what they were: not written, nor unmapped, moved, replaced or
 * given back since. False also when the kernel does not say. May be called by several threads at once. */
bool tb_track_is_clean(struct tb_tracked pages);

enum { TB_TRACK_RUNS_MOST = 128 };

/* Of pages that are tracked the runs that are not what they were, as above, at most so many, in order; returns how many
 * there are, or -1: more, or all pages are one, or nobody can tell. */
int tb_track_find_written(struct tb_tracked pages, struct tb_tracked run[], int most);

/* Pages that were written, some of those that are tracked, are protected again: from its return on every write shows.
 * Others that have any of them are not tracked any more. False: they cannot be; so nothing is known of any. */
bool tb_track_renew(const struct tb_tracked *pages, struct tb_tracked run);

/* Pages that are tracked, and those behind them up to `end`, which are from its return on as those that begin, for
 * others, too. False: the former alone still are. */
bool tb_track_extend(struct tb_tracked *pages, uintptr_t end, struct tb_tracked mapping);

/* Whether pages that are tracked are another mapping's now, as far as the kernel tells: the program gave the memory
 * back, and has got other memory in its place. */
bool tb_track_is_replaced(const struct tb_tracked *pages);

/* A hint, and no proof: a page by which it is told that somebody writes to what it is in, be it the same bytes. Few are
 * asked about at once: older ones are forgotten, and those of which the pages around come to be tracked. The end of one
 * that was not begun does nothing. */
void tb_probe_begin(struct tb_tracked *page, struct tb_tracked mapping);
void tb_probe_end(struct tb_tracked *page);

/* False also when nobody can tell. */
bool tb_probe_is_written(const struct tb_tracked *page);

/* Closes what the above had opened: nothing is tracked any more. */
void tb_track_close(void);

/* In the child of a fork nothing is. */
void tb_track_after_fork(void);

#endif
