/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "process/pool.h"

#include <sched.h>

#include "base/clock.h"
#include "process/busy.h"
#include "process/pool_internal.h"

/*
 * The ticket is the whole state of a job in one word: which job, how many tasks, and the next one. A task is taken by
 * compare-and-swap, so a thread that slept through a job cannot take a task of it, nor one of a later job in its place
 * by mistake.
 */
#define TASK_BITS 16
#define TASK_MASK ((uint64_t)0xffff)
#define TICKET(job, count, next) \
  ((uint64_t)(uint32_t)(job) << (2 * TASK_BITS) | (uint64_t)(count) << TASK_BITS | (uint64_t)(next))

/* ---- tasks ---- */

static bool has_task(uint64_t ticket) { return (ticket & TASK_MASK) < (ticket >> TASK_BITS & TASK_MASK); }

static struct tb_pool_job *job_of(struct tb_pool *pool, uint64_t number) {
  return &pool->jobs[number % TB_POOL_JOBS_MAX];
}

/* The next task of a job, or -1. */
static int take_task(struct tb_pool_job *job) {
  uint64_t ticket = atomic_load(&job->ticket);
  while (has_task(ticket))
    if (atomic_compare_exchange_weak(&job->ticket, &ticket, ticket + 1)) return (int)(ticket & TASK_MASK);
  return -1;
}

bool tb_pool_work(struct tb_pool *pool, double *seconds) {
  const uint64_t begun = atomic_load(&pool->begun);
  for (uint64_t number = atomic_load(&pool->oldest); number <= begun; number++) {
    struct tb_pool_job *job = job_of(pool, number);
    const int index = take_task(job);
    if (index >= 0) {
      const double since = seconds != NULL ? tb_clock_seconds() : 0;
      job->task(job->context, index);
      if (seconds != NULL) *seconds = tb_clock_seconds() - since;
      atomic_fetch_add(&job->done, 1);
      return true;
    }
    uint64_t expected = number; /* when its place serves a later job, `oldest` has moved past it before */
    atomic_compare_exchange_strong(&pool->oldest, &expected, number + 1);
  }
  return false;
}

bool tb_pool_work_behind(struct tb_pool *pool) {
  for (int i = 0; i < TB_POOL_BEHIND_MOST; i++) {
    struct tb_pool_job *const job = &pool->behind[i];
    const int index = take_task(job);
    if (index < 0) continue;
    job->task(job->context, index);
    atomic_fetch_add(&job->done, 1);
    return true;
  }
  return false;
}

bool tb_pool_has_behind(struct tb_pool *pool) {
  bool has = false;
  for (int i = 0; i < TB_POOL_BEHIND_MOST; i++) has = has || has_task(atomic_load(&pool->behind[i].ticket));
  return has;
}

bool tb_pool_has_tasks(struct tb_pool *pool) {
  const uint64_t begun = atomic_load(&pool->begun);
  for (uint64_t number = atomic_load(&pool->oldest); number <= begun; number++)
    if (has_task(atomic_load(&job_of(pool, number)->ticket))) return true;
  return false;
}

/* ---- jobs ---- */

/* Until the ticket is there threads read that of the place's job before, which has no task left. */
static void publish_job(struct tb_pool_job *job, uint64_t number, void (*task)(void *context, int index), void *context,
                        int count) {
  job->task = task;
  job->context = context;
  atomic_store_explicit(&job->count, count, memory_order_relaxed);
  atomic_store(&job->done, 0);
  atomic_store(&job->ticket, TICKET(number, count, 0));
}

uint64_t tb_pool_start(struct tb_pool *pool, void (*task)(void *context, int index), void *context, int count) {
  if (pool == NULL || count <= 1) {
    for (int i = 0; i < count; i++) task(context, i);
    return 0;
  }
  pthread_mutex_lock(&pool->starting);
  const uint64_t number = atomic_load(&pool->begun) + 1;
  struct tb_pool_job *job = job_of(pool, number);
  if (number > TB_POOL_JOBS_MAX) tb_pool_wait(pool, number - TB_POOL_JOBS_MAX);
  publish_job(job, number, task, context, count);
  atomic_store(&pool->caller_core, sched_getcpu());
  atomic_store(&pool->begun, number);
  pthread_mutex_unlock(&pool->starting);
  tb_pool_end_rest();
  tb_pool_wake(pool);
  return number;
}

int tb_pool_start_behind(struct tb_pool *pool, void (*task)(void *context, int index), void *context, int count) {
  int place = 0;
  if (pool == NULL) return 0;
  pthread_mutex_lock(&pool->starting);
  for (int i = 0; i < TB_POOL_BEHIND_MOST && place == 0; i++)
    if (atomic_load(&pool->behind[i].count) == 0) place = i + 1;
  if (place > 0) {
    struct tb_pool_job *const job = &pool->behind[place - 1];
    publish_job(job, (atomic_load(&job->ticket) >> 2 * TASK_BITS) + 1, task, context, count);
  }
  pthread_mutex_unlock(&pool->starting);
  if (place > 0) tb_pool_wake_behind(pool);
  if (place > 0) tb_pool_wake(pool);
  return place;
}

void tb_pool_end_behind(struct tb_pool *pool, int place) {
  if (place == 0) return;
  struct tb_pool_job *const job = &pool->behind[place - 1];
  const uint64_t ticket = atomic_load(&job->ticket), number = ticket >> 2 * TASK_BITS;
  const uint64_t left = atomic_exchange(&job->ticket, TICKET(number, 0, 0));
  const int taken = (int)(left & TASK_MASK);
  for (int looks = 0; atomic_load(&job->done) < taken; looks++)
    if (looks < TB_POOL_LOOKS_BEFORE_YIELD)
      tb_pool_pause();
    else
      tb_busy_offer_core();
  atomic_store(&job->count, 0);
}

bool tb_pool_done(const struct tb_pool *pool, uint64_t number) {
  if (number == 0 || number + TB_POOL_JOBS_MAX <= atomic_load(&pool->begun)) return true; /* its place serves another */
  const struct tb_pool_job *job = &pool->jobs[number % TB_POOL_JOBS_MAX];
  return atomic_load(&job->done) == atomic_load_explicit(&job->count, memory_order_relaxed);
}

bool tb_pool_help(struct tb_pool *pool) { return pool != NULL && !tb_pool_is_for_behind() && tb_pool_work(pool, NULL); }

void tb_pool_settle(struct tb_pool *pool) {
  if (pool == NULL) return;
  const uint64_t begun = atomic_load(&pool->begun);
  for (uint64_t number = begun < TB_POOL_JOBS_MAX ? 1 : begun - TB_POOL_JOBS_MAX + 1; number <= begun; number++)
    tb_pool_wait(pool, number);
}

void tb_pool_wait(struct tb_pool *pool, uint64_t number) {
  for (int looks = 0; !tb_pool_done(pool, number);) {
    if (tb_pool_work(pool, NULL))
      looks = 0;
    else if (looks++ < TB_POOL_LOOKS_BEFORE_YIELD)
      tb_pool_pause();
    else
      tb_busy_offer_core();
  }
}
