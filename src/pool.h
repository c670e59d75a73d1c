/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that share out one loop at a time: the copying between the program's memory and the pinned staging. One core
 * moves about 12 GB/s, eight reach the link's 50. Between loops the threads look for work for some microseconds, then
 * sleep. One caller at a time (offload.c's lock sees to that).
 */
#ifndef TB_POOL_H
#define TB_POOL_H

struct tb_pool;

/* Most tasks of one loop. */
#define TB_POOL_TASKS_MAX 1024

/* Starts `threads` - 1 threads; the caller of tb_pool_run is the last one. NULL when there are none to start. */
struct tb_pool *tb_pool_open(int threads);

/* Ends the threads and waits for them. */
void tb_pool_close(struct tb_pool *pool);

/* Threads that a loop runs on, the caller included; 1 for NULL. */
int tb_pool_threads(const struct tb_pool *pool);

/* Calls task(context, i) for each i < count <= TB_POOL_TASKS_MAX, in any order, on any thread; returns when all have
 * returned. */
void tb_pool_run(struct tb_pool *pool, void (*task)(void *context, int index), void *context, int count);

#endif
