/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A core for each of our threads, which keeps to it.
 *
 * A CPU BLAS leaves its threads looking for work behind every call, OpenBLAS for a tenth of a second, one on each core.
 * They yield, so a thread of ours that comes to such a core has most of it at once. But to the kernel all cores are
 * busy: it wakes our threads wherever, several on one core, and sees no reason to spread them. For that, calls on the
 * GPU behind calls of OpenBLAS took 2 to 15 times as long (H200, 16 cores). So our threads take cores apart from each
 * other, where the kernel puts them at first, if that may be. A thread that is kept from its core for long takes
 * another one: there is work on that one. And so does one that meets the program's calling thread on its core, which
 * has the GPU to feed and cannot wait for the end of a copy.
 *
 * Thread-safe. Where a system does not let threads choose, nothing is done.
 */
#ifndef TB_CORES_H
#define TB_CORES_H

#ifndef _GNU_SOURCE
#error "cpu_set_t is GNU's"
#endif
#include <pthread.h>
#include <sched.h>

#define TB_NO_CORE (-1)

/* What a thread has; begins as {TB_NO_CORE}. */
struct tb_core {
  int number;
  cpu_set_t allowed; /* what the thread might use when it came to its first */
};

/* `thread`, the calling one or one that sleeps and has a core, keeps to a core that none of our threads keeps to,
 * another one than it has, and not number `avoided`. If there is none, all stays as it is: a thread without a core goes
 * where the kernel likes. */
void tb_core_take(struct tb_core *core, pthread_t thread, int avoided);

/* The thread is about to end. */
void tb_core_leave(struct tb_core *core);

#endif
