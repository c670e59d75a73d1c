/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of the library's own in somebody else's process. Thread-safe. */
#ifndef TB_BACKGROUND_H
#define TB_BACKGROUND_H

#ifndef _GNU_SOURCE
#error "cpu_set_t is GNU's"
#endif
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

/* Starts a thread that takes no signals but faults: the program's signals are for the program's threads, but a fault in
 * its memory, which a collector or a page manager may have provoked on purpose, is for its handler in whatever thread
 * it happens. Its floating point is that which a process begins with, and it may use all cores of the process, whatever
 * its starter is bound to. False: there is no thread to be had. */
bool tb_background_start(pthread_t *thread, void *(*thread_main)(void *), void *context);

/* The same with a stack of the usual size for work in its starter's stead, on whose cores it stays. */
bool tb_background_start_roomy(pthread_t *thread, void *(*thread_main)(void *), void *context);

/* The cores that this process may use. Not the calling thread's: where OpenMP binds threads (OMP_PROC_BIND), that has
 * one. They are those of all its threads together, and the places of the OpenMP runtime, if there is one. */
void tb_background_process_cores(cpu_set_t *cores);

/* When the library is loaded: asks the OpenMP runtime. */
void tb_background_at_load(void);

/* Threads of this process that can run at once: its cores, or the cgroup's share of their time if that is less. At
 * least 1. */
int tb_background_cores(void);

/* What a cgroup's cpu.max says: of "150000 100000", microseconds of a period, the cores that are meant, rounded up; of
 * "max 100000", and where there is no such file, INT_MAX. */
int tb_background_quota(const char *path);

/* ---- something to be done when nothing has happened for a while ---- */

struct tb_idle;

/* action() is called, in a thread of its own, once `seconds` have passed since the latest tb_idle_touch; and again when
 * they have passed after a later one. That thread sleeps all the time. NULL: there is no thread to be had. */
struct tb_idle *tb_idle_open(double seconds, void (*action)(void));

/* Something has happened and is not touched yet, and what was done would better have waited: from now on it waits for
 * twice the time since the latest touch, but no longer than `most` seconds. After a longer time than that nothing is
 * changed. NULL is allowed. */
void tb_idle_was_early(struct tb_idle *idle, double most);

/* Something happened. NULL is allowed. */
void tb_idle_touch(struct tb_idle *idle);

/* Waits for the thread to end. An action that is under way finishes, so it must not wait for the caller. */
void tb_idle_close(struct tb_idle *idle);

#endif
