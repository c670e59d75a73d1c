/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that share out jobs, each a loop of independent tasks: the copying between the program's memory and the
 * pinned staging. One core moves about 12 GB/s, eight to sixteen reach what the link takes both ways. Several jobs may
 * be under way, so that no thread waits for the last task of one while there is another to begin; older jobs come
 * first, whoever began them: callers that come at once share the threads, and help with each other's jobs.
 * Threads without work look for some for TB_POOL_SPIN_SECONDS, then sleep. Thread-safe.
 */
#ifndef TB_POOL_H
#define TB_POOL_H

#include <stdbool.h>
#include <stdint.h>

struct tb_pool;

/* Most tasks of one job, and most jobs that are not done; a further one waits for the oldest. */
#define TB_POOL_TASKS_MAX 1024
#define TB_POOL_JOBS_MAX 64

/* Longer than a small call takes from its copies in to those out: to be woken in between takes a third of such a call
 * (512 cubed: 0.23 ms with 50 us, 0.16 with 300, on an H200's host). */
#define TB_POOL_SPIN_SECONDS 300e-6

/* Where cores are busy: between two copies of one call, but not between calls. */
#define TB_POOL_SPIN_BUSY_SECONDS 50e-6

/* Starts `threads` - 1 threads; the caller is the last one. NULL when there are none to start. keep_cores: where cores
 * are busy the threads keep to some apart from each other (cores.h), for tasks of well below a millisecond;
 * TILEBLAS_BIND says otherwise. */
struct tb_pool *tb_pool_open(int threads, bool keep_cores);

/* Starts so many threads more, or as many as there are to be had, for the tasks of jobs behind and no others: then such
 * a job need not wait until threads have nothing else to do. Before any job, once; of NULL nothing is done. */
void tb_pool_add_behind(struct tb_pool *pool, int threads);

/* Threads of all pools that look for work sleep now, and so does who would, until the next job. Lock-free. */
void tb_pool_rest(void);

/* So they do where cores are busy: the program's threads want theirs back. */
void tb_pool_rest_if_busy(void);

/* Ends the threads and waits for them. No job may be under way. */
void tb_pool_close(struct tb_pool *pool);

/* Threads that a job runs on, the caller included, but not those for jobs behind; 1 for NULL. */
int tb_pool_threads(const struct tb_pool *pool);

/* Has task(context, i) called for each i < count <= TB_POOL_TASKS_MAX, in any order, on any thread; `context` must last
 * until all have returned. Returns the job's number; 0: it is done already, because there is nobody to share it with.
 */
uint64_t tb_pool_start(struct tb_pool *pool, void (*task)(void *context, int index), void *context, int count);

/* Whether all tasks of a job have returned. What they wrote is then visible. */
bool tb_pool_done(const struct tb_pool *pool, uint64_t job);

/* Runs one task, of the oldest job that has one left. False: there is none, or the caller is a thread for jobs behind.
 */
bool tb_pool_help(struct tb_pool *pool);

/* Runs tasks until a job is done. */
void tb_pool_wait(struct tb_pool *pool, uint64_t job);

/*
 * A job behind all others: threads begin its tasks that find no other, and those for such jobs, the caller never. A
 * task of it that is long calls tb_pool_help now and then, so that other jobs need not wait for its end. Returns its
 * place; 0: there are TB_POOL_BEHIND_MOST, or nobody to run it, and nothing is begun.
 */
#define TB_POOL_BEHIND_MOST 2
int tb_pool_start_behind(struct tb_pool *pool, void (*task)(void *context, int index), void *context, int count);

/* For who began it: no further task of it begins, and those that have are over. Of place 0 nothing is done. */
void tb_pool_end_behind(struct tb_pool *pool, int place);

/* Until no task is under way that had begun before, but those behind. NULL is allowed. */
void tb_pool_settle(struct tb_pool *pool);

/* Both: returns when all tasks have returned. */
static inline void tb_pool_run(struct tb_pool *pool, void (*task)(void *context, int index), void *context, int count) {
  tb_pool_wait(pool, tb_pool_start(pool, task, context, count));
}

#endif
