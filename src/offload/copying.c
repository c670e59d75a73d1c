/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "offload/copying.h"

#include "process/background.h"

/* Eight threads reach the link's rate one way, ten to twelve both ways at once on a quiet host, and more where others
 * use its memory, too: 16384 cubed 64 ms by twelve, 58 by fourteen. Sixteen that copy, of 16 cores, are slower: none is
 * left to who minds the link (PCIe gen5). */
#define COPYING_THREADS_MAX 14

static int copying_threads(int sharing) {
  const int cores = tb_background_cores();
  int each = cores / sharing > 1 ? cores / sharing : 1;
  return each < COPYING_THREADS_MAX ? each : COPYING_THREADS_MAX;
}

/*
 * Threads that have the pages of results that were just allocated, and copy nothing, on cores that the others leave
 * alone: those have nothing to spare while operands go up. (By none and by two beside fourteen, one H100's host, two
 * turns of medians, ms into new memory: dgemm 4096 10.2, 9.0 and 8.9, 8.6; sgemm 8192 18.3, 17.0 and 15.9, 16.5. Two to
 * four of the fourteen gain nothing.)
 */
#define PAGES_THREADS_MAX 2

static int pages_threads(int sharing, int copying) {
  const int left = tb_background_cores() / sharing - copying;
  return left < PAGES_THREADS_MAX ? left : PAGES_THREADS_MAX;
}

/* Of two threads one is the caller's, and the other has nobody to keep apart from. */
struct tb_pool *tb_copying_open(int sharing) {
  const int threads = copying_threads(sharing);
  struct tb_pool *const pool = tb_pool_open(threads, threads > 2);
  tb_pool_add_behind(pool, pages_threads(sharing, threads));
  return pool;
}
