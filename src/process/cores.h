/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cores that the program's threads keep busy, and how our threads get along on them.
 *
 * A CPU BLAS and an OpenMP runtime leave their threads looking for work behind every call, one on each core, for a
 * tenth of a second and more. To the kernel all cores are busy then: it wakes our threads wherever, several on one
 * core, and sees no reason to spread them. Four things help.
 *
 * - A core for each of our threads, which keeps to it for a while (tb_core_take). For want of it calls on the GPU
 * behind calls of OpenBLAS took 2 to 15 times as long (H200, 16 cores).
 * - A short slice (tb_core_short_slice): who wants a core for a short time gets it soon, and
 * keeps it for as long.
 * - Behind its slice a thread has the core until the clock ticks, and then waits for a tick or more. One that was held
 * up so takes nothing in hand before a tick (tb_core_is_lost_soon).
 * - A core is offered to others only while they give it back soon (busy.h). OpenBLAS's threads do, which offer it
 *   themselves. GNU OpenMP's do not: an offer costs a millisecond, and up to eight.
 *
 * Where cores are free nothing of it is wanted: the kernel knows better which one to take. So threads keep to cores
 * only for TB_BUSY_SECONDS after a core was found busy, and have what they had before when they sleep for longer.
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
#include <stdbool.h>

#define TB_NO_CORE (-1)

/* What a thread has; begins as {TB_NO_CORE}. */
struct tb_core {
  int number;
  cpu_set_t allowed; /* what the thread might use when it came to its first */
};

/*
 * Which core a thread should keep to: one of `allowed` that is not in `taken` and not number `avoided`, the first from
 * `first` on, round and round. Rather one that shares no hardware with those: lead(number) is the same for the threads
 * of one core, the hyperthreads. TB_NO_CORE: there is none. Pure, but for `lead`.
 */
int tb_core_choose(const cpu_set_t *allowed, const cpu_set_t *taken, int (*lead)(int number), int avoided, int first);

/* `thread`, the calling one or one that sleeps and has a core, keeps to a core that none of our threads keeps to,
 * another one than it has, and not number `avoided`. If there is none, all stays as it is: a thread without a core goes
 * where the kernel likes. When others have changed what the thread may use, that holds from now on. */
void tb_core_take(struct tb_core *core, pthread_t thread, int avoided);

/* The calling thread may use what it might before tb_core_take, unless others have changed that since. */
void tb_core_give_back(struct tb_core *core);

/* The thread is about to end. */
void tb_core_leave(struct tb_core *core);

/*
 * Whether the calling thread, on a core that another one wants all the time, will have lost it in so many seconds. From
 * when it woke it has it for a slice, and then until the clock ticks; then the other one has it until a further tick.
 */
bool tb_core_is_lost_soon(double awake_seconds, double seconds);

/* Whether what the calling thread has just done, in so many seconds, took it so long because another one had the core
 * from one tick to a later one. */
bool tb_core_was_lost(double seconds);

/* The calling thread asks for a short slice, where the kernel has such (Linux 6.12). It is no larger share. */
void tb_core_short_slice(void);

#endif
