/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "process/pool.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "process/background.h"
#include "base/clock.h"
#include "base/options.h"
#include "process/busy.h"
#include "process/cores.h"

/* Looks for work between two looks at the clock. */
#define LOOKS 16
/* Looks for the end of another thread's task before the core is offered to others: that thread may want it. */
#define LOOKS_BEFORE_YIELD 2000
/* Sleepers that the caller wakes with a job, and that each of them wakes in turn: one comes after 15 to 40
 * microseconds, and takes the waker 2 (16 cores of a virtual machine). */
#define WAKES 2

/*
 * The ticket is the whole state of a job in one word: which job, how many tasks, and the next one. A task is taken by
 * compare-and-swap, so a thread that slept through a job cannot take a task of it, nor one of a later job in its place
 * by mistake.
 */
#define TASK_BITS 16
#define TASK_MASK ((uint64_t)0xffff)
#define TICKET(job, count, next) \
  ((uint64_t)(uint32_t)(job) << (2 * TASK_BITS) | (uint64_t)(count) << TASK_BITS | (uint64_t)(next))

struct pool_job {
  atomic_uint_fast64_t ticket;
  atomic_int done; /* tasks that have returned */
  atomic_int count;
  /* What follows is written before the ticket, and read with a task taken. */
  void (*task)(void *context, int index);
  void *context;
};

/* A thread, and where it sleeps. */
struct member {
  struct tb_pool *pool;
  pthread_t thread, self; /* the same: what its starter knows, and what itself does */
  struct tb_core core;    /* while the thread sleeps, its waker's to change */
  double take_again;      /* when, if there was no core */
  double woken;           /* by its waker, when */
  sem_t told;             /* that there is work */
  struct member *below;   /* on the stack of those that sleep */
};

struct tb_pool {
  struct pool_job jobs[TB_POOL_JOBS_MAX]; /* job number n is jobs[n % TB_POOL_JOBS_MAX] */
  atomic_uint_fast64_t begun;             /* number of the latest job; they count from 1 */
  atomic_uint_fast64_t oldest;            /* no job before this one has a task left */
  struct pool_job behind;                 /* the job behind all others; over: it has no tasks */

  pthread_mutex_t lock;     /* guards the stack */
  pthread_mutex_t starting; /* jobs: held while one gets its number and its place */
  struct member *asleep;    /* the latest to lie down, whose caches are the warmest, gets up first */
  atomic_int sleepers;      /* on the stack */
  atomic_int caller_core;   /* where the latest job was started */
  atomic_bool closing;

  bool keep_cores;
  int threads; /* started; the caller not counted */
  struct member member[];
};

/* Who finds no work sleeps at once: from tb_pool_rest to the next job. */
static atomic_bool resting;

/* Where cores are busy a thread that looks for work takes the time of one that may have some. */
static double looking_seconds(double now) {
  return tb_busy_lately(now) ? TB_POOL_SPIN_BUSY_SECONDS : TB_POOL_SPIN_SECONDS;
}

static inline void pause_briefly(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/* ---- tasks ---- */

static bool has_task(uint64_t ticket) { return (ticket & TASK_MASK) < (ticket >> TASK_BITS & TASK_MASK); }

static struct pool_job *job_of(struct tb_pool *pool, uint64_t number) { return &pool->jobs[number % TB_POOL_JOBS_MAX]; }

/* The next task of a job, or -1. */
static int take_task(struct pool_job *job) {
  uint64_t ticket = atomic_load(&job->ticket);
  while (has_task(ticket))
    if (atomic_compare_exchange_weak(&job->ticket, &ticket, ticket + 1)) return (int)(ticket & TASK_MASK);
  return -1;
}

/* Runs one task, of the oldest job that has any; *seconds becomes what it took, unless that is NULL. */
static bool work(struct tb_pool *pool, double *seconds) {
  const uint64_t begun = atomic_load(&pool->begun);
  for (uint64_t number = atomic_load(&pool->oldest); number <= begun; number++) {
    struct pool_job *job = job_of(pool, number);
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

/* Runs one task of the job behind all others. */
static bool work_behind(struct tb_pool *pool) {
  struct pool_job *const job = &pool->behind;
  const int index = take_task(job);
  if (index < 0) return false;
  job->task(job->context, index);
  atomic_fetch_add(&job->done, 1);
  return true;
}

static bool any_task(struct tb_pool *pool) {
  const uint64_t begun = atomic_load(&pool->begun);
  if (has_task(atomic_load(&pool->behind.ticket))) return true;
  for (uint64_t number = atomic_load(&pool->oldest); number <= begun; number++)
    if (has_task(atomic_load(&job_of(pool, number)->ticket))) return true;
  return false;
}

/* ---- threads ---- */

static struct member *off_the_stack(struct tb_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  struct member *m = pool->asleep;
  if (m != NULL) {
    pool->asleep = m->below;
    atomic_fetch_sub(&pool->sleepers, 1);
  }
  pthread_mutex_unlock(&pool->lock);
  return m;
}

/* On the caller's core a thread would push the caller off it, or wait there until the caller is done. */
static void leave_caller_alone(struct member *m) {
  const int caller_core = atomic_load(&m->pool->caller_core);
  if (m->core.number != TB_NO_CORE && m->core.number == caller_core) tb_core_take(&m->core, m->self, caller_core);
}

/* Wakes so many, or all that there are. Who lies down is counted before the last look for work, and work is there
 * before sleepers are counted: one of the two sees the other. */
static void wake(struct tb_pool *pool, int most) {
  for (struct member *m; most > 0 && atomic_load(&pool->sleepers) > 0 && (m = off_the_stack(pool)) != NULL; most--) {
    leave_caller_alone(m);
    m->woken = tb_clock_seconds();
    sem_post(&m->told);
  }
}

static void lie_down(struct member *m) {
  struct tb_pool *pool = m->pool;
  pthread_mutex_lock(&pool->lock);
  m->below = pool->asleep;
  pool->asleep = m;
  atomic_fetch_add(&pool->sleepers, 1);
  pthread_mutex_unlock(&pool->lock);
  /* If there is some by now somebody must get up, this one or another. */
  if (any_task(pool) || atomic_load(&pool->closing)) wake(pool, 1);
}

/* Of itself. False: somebody is about to wake it. */
static bool get_up(struct member *m) {
  struct tb_pool *pool = m->pool;
  pthread_mutex_lock(&pool->lock);
  struct member **place = &pool->asleep;
  while (*place != NULL && *place != m) place = &(*place)->below;
  const bool found = *place != NULL;
  if (found) {
    *place = m->below;
    atomic_fetch_sub(&pool->sleepers, 1);
  }
  pthread_mutex_unlock(&pool->lock);
  return found;
}

static void wait_for_word(struct member *m) {
  while (sem_wait(&m->told) != 0 && errno == EINTR) continue;
}

/* False: it has not come within the time that cores are taken for busy. A clock that is set makes it another time. */
static bool word_comes(struct member *m) {
  struct timespec until;
  int result;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += (time_t)TB_BUSY_SECONDS;
  while ((result = sem_timedwait(&m->told, &until)) != 0 && errno == EINTR) continue;
  return result == 0;
}

static bool should_keep_core(const struct tb_pool *pool, double now) {
  const int64_t when = tb_option_number(TB_OPTION_bind);
  return pool->keep_cores && (when == TB_BIND_ALWAYS || (when == TB_BIND_AUTO && tb_busy_lately(now)));
}

/* After a task that took so long, or 0. */
static void keep_core(struct member *m, double now, double seconds) {
  if (seconds > TB_BUSY_HELD_UP_SECONDS) tb_busy_found(now);
  if (!should_keep_core(m->pool, now)) {
    tb_core_give_back(&m->core);
    m->take_again = 0;
    return;
  }
  leave_caller_alone(m);
  const bool wants_one = m->core.number == TB_NO_CORE && now >= m->take_again;
  if (!wants_one && seconds <= TB_BUSY_HELD_UP_SECONDS) return;
  tb_core_take(&m->core, m->self, atomic_load(&m->pool->caller_core));
  m->take_again = now + TB_BUSY_SECONDS;
}

static void sleep_until_work(struct member *m) {
  for (bool told = false; !told;) {
    const bool is_bound = m->core.number != TB_NO_CORE && tb_option_number(TB_OPTION_bind) != TB_BIND_ALWAYS;
    lie_down(m);
    told = is_bound && word_comes(m);
    if (told || (is_bound && get_up(m))) {
      if (!told) keep_core(m, tb_clock_seconds(), 0);
      continue;
    }
    wait_for_word(m);
    told = true;
  }
  const double now = tb_clock_seconds();
  if (now - m->woken > TB_BUSY_LATE_SECONDS) tb_busy_found(now);
  if (any_task(m->pool)) wake(m->pool, WAKES);
}

static void *pool_thread_main(void *opaque) {
  struct member *me = opaque;
  struct tb_pool *pool = me->pool;
  me->self = pthread_self();
  if (tb_option_number(TB_OPTION_bind) != TB_BIND_NEVER) tb_core_short_slice();
  double idle_since = tb_clock_seconds();
  keep_core(me, idle_since, 0);
  while (!atomic_load(&pool->closing)) {
    bool worked = false;
    double seconds = 0;
    for (int look = 0; look < LOOKS && !worked; look++) {
      worked = work(pool, &seconds) || work_behind(pool);
      if (!worked) pause_briefly();
    }
    /* Who only looks for work leaves the core to who has some: calls of the CPU BLAS behind one on the GPU took 0.2 ms
     * longer without this (OpenBLAS 0.3.21, 16 cores). */
    if (!worked) tb_busy_offer_core();
    const double now = tb_clock_seconds();
    keep_core(me, now, seconds);
    if (!worked && now - idle_since < looking_seconds(now) && !atomic_load(&resting)) continue;
    if (!worked) sleep_until_work(me);
    idle_since = now;
  }
  tb_core_leave(&me->core);
  return NULL;
}

struct tb_pool *tb_pool_open(int threads, bool keep_cores) {
  if (threads <= 1) return NULL;
  struct tb_pool *pool = calloc(1, sizeof *pool + (size_t)(threads - 1) * sizeof pool->member[0]);
  if (pool == NULL) return NULL;
  pool->keep_cores = keep_cores;
  pthread_mutex_init(&pool->lock, NULL);
  pthread_mutex_init(&pool->starting, NULL);
  atomic_store(&pool->oldest, 1);
  atomic_store(&pool->caller_core, sched_getcpu());
  for (; pool->threads < threads - 1; pool->threads++) {
    struct member *m = &pool->member[pool->threads];
    m->pool = pool;
    m->core.number = TB_NO_CORE;
    sem_init(&m->told, 0, 0);
    if (!tb_background_start(&m->thread, pool_thread_main, m)) {
      sem_destroy(&m->told);
      break;
    }
  }
  if (pool->threads == 0) {
    tb_pool_close(pool);
    return NULL;
  }
  return pool;
}

void tb_pool_close(struct tb_pool *pool) {
  if (pool == NULL) return;
  atomic_store(&pool->closing, true);
  wake(pool, INT_MAX);
  for (int i = 0; i < pool->threads; i++) pthread_join(pool->member[i].thread, NULL);
  for (int i = 0; i < pool->threads; i++) sem_destroy(&pool->member[i].told); /* no other posts to it any more */
  pthread_mutex_destroy(&pool->lock);
  pthread_mutex_destroy(&pool->starting);
  free(pool);
}

void tb_pool_rest(void) { atomic_store(&resting, true); }

void tb_pool_rest_if_busy(void) {
  if (tb_busy_lately(tb_clock_seconds())) tb_pool_rest();
}

int tb_pool_threads(const struct tb_pool *pool) { return pool == NULL ? 1 : pool->threads + 1; }

/* ---- jobs ---- */

/* Until the ticket is there threads read that of the place's job before, which has no task left. */
static void publish_job(struct pool_job *job, uint64_t number, void (*task)(void *context, int index), void *context,
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
  struct pool_job *job = job_of(pool, number);
  if (number > TB_POOL_JOBS_MAX) tb_pool_wait(pool, number - TB_POOL_JOBS_MAX);
  publish_job(job, number, task, context, count);
  atomic_store(&pool->caller_core, sched_getcpu());
  atomic_store(&pool->begun, number);
  pthread_mutex_unlock(&pool->starting);
  if (atomic_load(&resting)) atomic_store(&resting, false);
  wake(pool, WAKES);
  return number;
}

bool tb_pool_start_behind(struct tb_pool *pool, void (*task)(void *context, int index), void *context, int count) {
  if (pool == NULL) return false;
  struct pool_job *const job = &pool->behind;
  pthread_mutex_lock(&pool->starting);
  const bool is_free = atomic_load(&job->count) == 0;
  const uint64_t number = (atomic_load(&job->ticket) >> 2 * TASK_BITS) + 1;
  if (is_free) publish_job(job, number, task, context, count);
  pthread_mutex_unlock(&pool->starting);
  if (is_free) wake(pool, WAKES);
  return is_free;
}

void tb_pool_end_behind(struct tb_pool *pool) {
  if (pool == NULL || atomic_load(&pool->behind.count) == 0) return;
  struct pool_job *const job = &pool->behind;
  const uint64_t ticket = atomic_load(&job->ticket), number = ticket >> 2 * TASK_BITS;
  const uint64_t left = atomic_exchange(&job->ticket, TICKET(number, 0, 0));
  const int taken = (int)(left & TASK_MASK);
  for (int looks = 0; atomic_load(&job->done) < taken; looks++)
    if (looks < LOOKS_BEFORE_YIELD)
      pause_briefly();
    else
      tb_busy_offer_core();
  atomic_store(&job->count, 0);
}

bool tb_pool_done(const struct tb_pool *pool, uint64_t number) {
  if (number == 0 || number + TB_POOL_JOBS_MAX <= atomic_load(&pool->begun)) return true; /* its place serves another */
  const struct pool_job *job = &pool->jobs[number % TB_POOL_JOBS_MAX];
  return atomic_load(&job->done) == atomic_load_explicit(&job->count, memory_order_relaxed);
}

bool tb_pool_help(struct tb_pool *pool) { return pool != NULL && work(pool, NULL); }

void tb_pool_settle(struct tb_pool *pool) {
  if (pool == NULL) return;
  const uint64_t begun = atomic_load(&pool->begun);
  for (uint64_t number = begun < TB_POOL_JOBS_MAX ? 1 : begun - TB_POOL_JOBS_MAX + 1; number <= begun; number++)
    tb_pool_wait(pool, number);
}

void tb_pool_wait(struct tb_pool *pool, uint64_t number) {
  for (int looks = 0; !tb_pool_done(pool, number);) {
    if (work(pool, NULL))
      looks = 0;
    else if (looks++ < LOOKS_BEFORE_YIELD)
      pause_briefly();
    else
      tb_busy_offer_core();
  }
}
