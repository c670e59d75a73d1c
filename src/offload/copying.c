/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "offload/copying.h"

#include "process/background.h"

/* Eight threads reach the link's rate one way, ten to twelve both ways at once on a quiet host, and more where others
 * use its memory, too: 16384 cubed 64 ms by twelve, 58 by fourteen. Sixteen of 16 cores are slower: none is left to the
 * program (PCIe gen5). */
#define COPYING_THREADS_MAX 14

static int copying_threads(int sharing) {
  const int cores = tb_background_cores();
  int each = cores / sharing > 1 ? cores / sharing : 1;
  return each < COPYING_THREADS_MAX ? each : COPYING_THREADS_MAX;
}

/* Of two threads one is the caller's, and the other has nobody to keep apart from. */
struct tb_pool *tb_copying_open(int sharing) {
  const int threads = copying_threads(sharing);
  return tb_pool_open(threads, threads > 2);
}
