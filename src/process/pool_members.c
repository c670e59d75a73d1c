/* SPDX-License-Identifier: BSD-3-Clause */
/* The threads of a pool: started and ended, asleep and awake. */
#define _GNU_SOURCE
#include "process/pool_internal.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/options.h"
#include "process/background.h"
#include "process/busy.h"
#include "process/sandbox.h"

/* Looks for work between two looks at the clock. */
#define LOOKS 16
/* Sleepers that the caller wakes with a job, and that each of them wakes in turn: one comes after 15 to 40
 * microseconds, and takes the waker 2 (16 cores of a virtual machine). */
#define WAKES 2

/* Who finds no work sleeps at once: from tb_pool_rest to the next job. */
static atomic_bool resting;

static _Thread_local bool is_for_behind;

bool tb_pool_is_for_behind(void) { return is_for_behind; }

/* Where cores are busy a thread that looks for work takes the time of one that may have some. */
static double looking_seconds(double now) {
  return tb_busy_lately(now) ? TB_POOL_SPIN_BUSY_SECONDS : TB_POOL_SPIN_SECONDS;
}

static bool is_for_all_jobs(const struct tb_pool_member *m) { return m->bed == &m->pool->all; }

static bool any_task_for(const struct tb_pool_member *m) {
  return tb_pool_has_behind(m->pool) || (is_for_all_jobs(m) && tb_pool_has_tasks(m->pool));
}

/* ---- asleep ---- */

static struct tb_pool_member *off_the_stack(struct tb_pool *pool, struct tb_pool_bed *bed) {
  pthread_mutex_lock(&pool->lock);
  struct tb_pool_member *m = bed->top;
  if (m != NULL) {
    bed->top = m->below;
    atomic_fetch_sub(&bed->sleepers, 1);
  }
  pthread_mutex_unlock(&pool->lock);
  return m;
}

/* On the caller's core a thread would push the caller off it, or wait there until the caller is done. */
static void leave_caller_alone(struct tb_pool_member *m) {
  const int caller_core = atomic_load(&m->pool->caller_core);
  if (m->core.number != TB_NO_CORE && m->core.number == caller_core) tb_core_take(&m->core, m->self, caller_core);
}

/* Wakes so many, or all that there are. Who lies down is counted before the last look for work, and work is there
 * before sleepers are counted: one of the two sees the other. */
static void wake(struct tb_pool *pool, struct tb_pool_bed *bed, int most) {
  for (struct tb_pool_member *m; most > 0 && atomic_load(&bed->sleepers) > 0 && (m = off_the_stack(pool, bed)) != NULL;
       most--) {
    leave_caller_alone(m);
    m->woken = tb_clock_seconds();
    sem_post(&m->told);
  }
}

static void lie_down(struct tb_pool_member *m) {
  struct tb_pool *pool = m->pool;
  pthread_mutex_lock(&pool->lock);
  m->below = m->bed->top;
  m->bed->top = m;
  atomic_fetch_add(&m->bed->sleepers, 1);
  pthread_mutex_unlock(&pool->lock);
  /* If there is some by now somebody must get up, this one or another. */
  if (any_task_for(m) || atomic_load(&pool->closing)) wake(pool, m->bed, 1);
}

/* Of itself. False: somebody is about to wake it. */
static bool get_up(struct tb_pool_member *m) {
  struct tb_pool *pool = m->pool;
  pthread_mutex_lock(&pool->lock);
  struct tb_pool_member **place = &m->bed->top;
  while (*place != NULL && *place != m) place = &(*place)->below;
  const bool found = *place != NULL;
  if (found) {
    *place = m->below;
    atomic_fetch_sub(&m->bed->sleepers, 1);
  }
  pthread_mutex_unlock(&pool->lock);
  return found;
}

static void wait_for_word(struct tb_pool_member *m) {
  while (sem_wait(&m->told) != 0 && errno == EINTR) continue;
}

/* False: it has not come within the time that cores are taken for busy. A clock that is set makes it another time. */
static bool word_comes(struct tb_pool_member *m) {
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
static void keep_core(struct tb_pool_member *m, double now, double seconds) {
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

static void sleep_until_work(struct tb_pool_member *m) {
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
  const double now = m->awake_since = tb_clock_seconds();
  if (now - m->woken > TB_BUSY_LATE_SECONDS) tb_busy_found(now);
  if (any_task_for(m)) wake(m->pool, m->bed, WAKES);
}

/* ---- on a core that another one wants ---- */

/* A task takes 30 to 50 microseconds. */
#define TASK_SECONDS 100e-6

/* Most ticks are so far from each other. */
#define REST_SECONDS_MOST 4e-3

/* After a task that took so long. */
static void note_held_up(struct tb_pool_member *m, double now, double seconds) {
  if (seconds <= TB_BUSY_HELD_UP_SECONDS || !tb_core_was_lost(seconds)) return;
  m->shares_core_until = now + TB_BUSY_SECONDS;
  m->awake_since = now;
}

/*
 * Takes no task in hand when the core is about to be another one's (cores.h), but sleeps for as long as it was awake:
 * behind that it is let in at once again. (One H200 after another, 16 cores, cache off: among 15 threads that spin 1 in
 * 200 to 500 tasks waited for 4.05 ms, 98 in 100 of those that began within 0.5 ms before a tick, and with them their
 * call. Median of calls as it was and so, two turns each, ms: 4096 cubed among 15 that spin 8.1, 7.7 and 4.5, 4.5,
 * among 8 4.9, 3.9 and 3.5, 3.4; 8192 cubed 30, 26 and 21, 20, and 25, 24 and 15, 15. More: bench/results/studies.md.)
 */
static void rest_in_time(struct tb_pool_member *m, double now) {
  const double awake = now - m->awake_since;
  if (now >= m->shares_core_until || !tb_core_is_lost_soon(awake, TASK_SECONDS) || tb_sandboxed()) return;
  const double rest = awake < REST_SECONDS_MOST ? awake : REST_SECONDS_MOST;
  nanosleep(&(struct timespec){.tv_nsec = (long)(rest * 1e9)}, NULL);
  m->awake_since = tb_clock_seconds();
  if (m->awake_since - now - rest > TB_BUSY_LATE_SECONDS) m->shares_core_until = m->awake_since + TB_BUSY_SECONDS;
}

/* ---- awake ---- */

static void *pool_thread_main(void *opaque) {
  struct tb_pool_member *me = opaque;
  struct tb_pool *pool = me->pool;
  me->self = pthread_self();
  is_for_behind = !is_for_all_jobs(me);
  if (tb_option_number(TB_OPTION_bind) != TB_BIND_NEVER) tb_core_short_slice();
  double idle_since = me->awake_since = tb_clock_seconds();
  keep_core(me, idle_since, 0);
  while (!atomic_load(&pool->closing)) {
    bool worked = false;
    double seconds = 0;
    for (int look = 0; look < LOOKS && !worked; look++) {
      worked = (!is_for_behind && tb_pool_work(pool, &seconds)) || tb_pool_work_behind(pool);
      if (!worked) tb_pool_pause();
    }
    /* Who only looks for work leaves the core to who has some: calls of the CPU BLAS behind one on the GPU took 0.2 ms
     * longer without this (OpenBLAS 0.3.21, 16 cores). */
    if (!worked) tb_busy_offer_core();
    const double now = tb_clock_seconds();
    note_held_up(me, now, seconds);
    keep_core(me, now, seconds);
    if (worked) rest_in_time(me, now);
    if (!worked && now - idle_since < looking_seconds(now) && !atomic_load(&resting)) continue;
    if (!worked) sleep_until_work(me);
    idle_since = now;
  }
  tb_core_leave(&me->core);
  return NULL;
}

/* ---- all of them ---- */

void tb_pool_wake(struct tb_pool *pool) { wake(pool, &pool->all, WAKES); }

void tb_pool_wake_behind(struct tb_pool *pool) { wake(pool, &pool->behind_alone, pool->behind_threads); }

/* Starts a member. False: there is no thread to be had. */
static bool start_member(struct tb_pool *pool, struct tb_pool_member *m, struct tb_pool_bed *bed) {
  m->pool = pool;
  m->bed = bed;
  m->core.number = TB_NO_CORE;
  sem_init(&m->told, 0, 0);
  if (tb_background_start(&m->thread, pool_thread_main, m)) return true;
  sem_destroy(&m->told);
  return false;
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
  while (pool->threads < threads - 1 && start_member(pool, &pool->member[pool->threads], &pool->all)) pool->threads++;
  if (pool->threads == 0) {
    tb_pool_close(pool);
    return NULL;
  }
  return pool;
}

void tb_pool_add_behind(struct tb_pool *pool, int threads) {
  if (pool == NULL || threads <= 0) return;
  pool->behind_member = calloc((size_t)threads, sizeof *pool->behind_member);
  if (pool->behind_member == NULL) return;
  while (pool->behind_threads < threads &&
         start_member(pool, &pool->behind_member[pool->behind_threads], &pool->behind_alone))
    pool->behind_threads++;
}

/* No other posts to a member any more when all have ended. */
static void end_members(struct tb_pool_member *member, int count) {
  for (int i = 0; i < count; i++) sem_destroy(&member[i].told);
}

void tb_pool_close(struct tb_pool *pool) {
  if (pool == NULL) return;
  atomic_store(&pool->closing, true);
  wake(pool, &pool->all, INT_MAX);
  wake(pool, &pool->behind_alone, INT_MAX);
  for (int i = 0; i < pool->threads; i++) pthread_join(pool->member[i].thread, NULL);
  for (int i = 0; i < pool->behind_threads; i++) pthread_join(pool->behind_member[i].thread, NULL);
  end_members(pool->member, pool->threads);
  end_members(pool->behind_member, pool->behind_threads);
  free(pool->behind_member);
  pthread_mutex_destroy(&pool->lock);
  pthread_mutex_destroy(&pool->starting);
  free(pool);
}

void tb_pool_rest(void) { atomic_store(&resting, true); }

void tb_pool_rest_if_busy(void) {
  if (tb_busy_lately(tb_clock_seconds())) tb_pool_rest();
}

void tb_pool_end_rest(void) {
  if (atomic_load(&resting)) atomic_store(&resting, false);
}

int tb_pool_threads(const struct tb_pool *pool) { return pool == NULL ? 1 : pool->threads + 1; }
