/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

/* How often a thread looks for work before it sleeps: some 20 microseconds, the time between two slots of a transfer.
 */
#define SPINS 2000

/*
 * The ticket is the whole state of a loop in one word: which loop, how many tasks, and the next one. A task is taken by
 * compare-and-swap, so a thread that slept through a loop cannot take a task of it, nor one of the next by mistake.
 */
#define TASK_BITS 16
#define TASK_MASK ((uint64_t)0xffff)
#define TICKET(loop, count, next) \
  ((uint64_t)(loop) << (2 * TASK_BITS) | (uint64_t)(count) << TASK_BITS | (uint64_t)(next))

struct tb_pool {
  atomic_uint_fast64_t ticket;
  atomic_int done;                        /* tasks of this loop that have returned */
  void (*task)(void *context, int index); /* valid while a task of the loop is taken and not done */
  void *context;
  unsigned float_mode; /* of the caller */
  uint32_t loop;

  pthread_mutex_t lock; /* guards sleeping and waking */
  pthread_cond_t wake;
  int sleepers;
  atomic_bool closing;

  int threads; /* started; the caller not counted */
  pthread_t thread[];
};

static inline void pause_briefly(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/* Rounding and the treatment of subnormals belong to a thread; tasks compute in the caller's. */
static unsigned float_mode(void) {
#if defined(__SSE__)
  return _mm_getcsr();
#else
  return 0;
#endif
}

static void set_float_mode(unsigned mode) {
#if defined(__SSE__)
  _mm_setcsr(mode);
#else
  (void)mode;
#endif
}

static bool has_task(uint64_t ticket) { return (ticket & TASK_MASK) < (ticket >> TASK_BITS & TASK_MASK); }

/* Takes and runs tasks until there are none. */
static void work(struct tb_pool *pool) {
  uint64_t ticket = atomic_load(&pool->ticket);
  while (has_task(ticket)) {
    if (!atomic_compare_exchange_weak(&pool->ticket, &ticket, ticket + 1)) continue;
    set_float_mode(pool->float_mode);
    pool->task(pool->context, (int)(ticket & TASK_MASK));
    atomic_fetch_add(&pool->done, 1);
    ticket = atomic_load(&pool->ticket);
  }
}

static bool wait_for_work(struct tb_pool *pool) {
  for (int i = 0; i < SPINS; i++) {
    if (has_task(atomic_load(&pool->ticket)) || atomic_load(&pool->closing)) return !atomic_load(&pool->closing);
    pause_briefly();
  }
  pthread_mutex_lock(&pool->lock);
  pool->sleepers++;
  while (!has_task(atomic_load(&pool->ticket)) && !atomic_load(&pool->closing))
    pthread_cond_wait(&pool->wake, &pool->lock);
  pool->sleepers--;
  pthread_mutex_unlock(&pool->lock);
  return !atomic_load(&pool->closing);
}

static void *thread_main(void *opaque) {
  struct tb_pool *pool = opaque;
  while (wait_for_work(pool)) work(pool);
  return NULL;
}

struct tb_pool *tb_pool_open(int threads) {
  if (threads <= 1) return NULL;
  struct tb_pool *pool = calloc(1, sizeof *pool + (size_t)(threads - 1) * sizeof pool->thread[0]);
  if (pool == NULL) return NULL;
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->wake, NULL);
  /* The program's signals are for the program's threads; but a fault in its memory, which a collector or a page manager
   * may have provoked on purpose, is for its handler in whatever thread it happens. */
  static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
  sigset_t others, before;
  sigfillset(&others);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&others, faults[i]);
  pthread_sigmask(SIG_SETMASK, &others, &before);
  while (pool->threads < threads - 1 && pthread_create(&pool->thread[pool->threads], NULL, thread_main, pool) == 0)
    pool->threads++;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (pool->threads == 0) {
    tb_pool_close(pool);
    return NULL;
  }
  return pool;
}

static void wake_all(struct tb_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  if (pool->sleepers > 0) pthread_cond_broadcast(&pool->wake);
  pthread_mutex_unlock(&pool->lock);
}

void tb_pool_close(struct tb_pool *pool) {
  if (pool == NULL) return;
  atomic_store(&pool->closing, true);
  wake_all(pool);
  for (int i = 0; i < pool->threads; i++) pthread_join(pool->thread[i], NULL);
  pthread_cond_destroy(&pool->wake);
  pthread_mutex_destroy(&pool->lock);
  free(pool);
}

int tb_pool_threads(const struct tb_pool *pool) { return pool == NULL ? 1 : pool->threads + 1; }

void tb_pool_run(struct tb_pool *pool, void (*task)(void *context, int index), void *context, int count) {
  if (pool == NULL || count <= 1) {
    for (int i = 0; i < count; i++) task(context, i);
    return;
  }
  pool->task = task;
  pool->context = context;
  pool->float_mode = float_mode();
  atomic_store(&pool->done, 0);
  atomic_store(&pool->ticket, TICKET(++pool->loop, count, 0));
  wake_all(pool);
  work(pool);
  for (int spins = 0; atomic_load(&pool->done) < count; spins++) {
    if (spins < SPINS)
      pause_briefly();
    else
      sched_yield(); /* a thread lost its core in the middle of a task; it may want ours */
  }
}
