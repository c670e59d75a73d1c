/* SPDX-License-Identifier: BSD-3-Clause */
/* What pool.c, the jobs, and pool_members.c, the threads, share. */
#ifndef TB_POOL_INTERNAL_H
#define TB_POOL_INTERNAL_H

#ifndef _GNU_SOURCE
#error "cores.h wants it"
#endif
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "process/cores.h"
#include "process/pool.h"

struct tb_pool_job {
  atomic_uint_fast64_t ticket;
  atomic_int done; /* tasks that have returned */
  atomic_int count;
  /* What follows is written before the ticket, and read with a task taken. */
  void (*task)(void *context, int index);
  void *context;
};

/* Members that sleep, in a stack: the latest to lie down, whose caches are the warmest, gets up first. */
struct tb_pool_bed {
  struct tb_pool_member *top;
  atomic_int sleepers; /* on it */
};

/* A thread, and where it sleeps. */
struct tb_pool_member {
  struct tb_pool *pool;
  struct tb_pool_bed *bed;      /* whose it is: of those for all jobs, or for those behind alone */
  pthread_t thread, self;       /* the same: what its starter knows, and what itself does */
  struct tb_core core;          /* while the thread sleeps, its waker's to change */
  double take_again;            /* when, if there was no core */
  double woken;                 /* by its waker, when */
  double awake_since;           /* it has had its core */
  double shares_core_until;     /* another thread wants it, as far as this one knows */
  sem_t told;                   /* that there is work */
  struct tb_pool_member *below; /* on the stack */
};

struct tb_pool {
  struct tb_pool_job jobs[TB_POOL_JOBS_MAX];      /* job number n is jobs[n % TB_POOL_JOBS_MAX] */
  atomic_uint_fast64_t begun;                     /* number of the latest job; they count from 1 */
  atomic_uint_fast64_t oldest;                    /* no job before this one has a task left */
  struct tb_pool_job behind[TB_POOL_BEHIND_MOST]; /* the jobs behind all others; over: they have no tasks */

  pthread_mutex_t lock;     /* guards the stacks */
  pthread_mutex_t starting; /* jobs: held while one gets its number and its place */
  struct tb_pool_bed all, behind_alone;
  atomic_int caller_core; /* where the latest job was started */
  atomic_bool closing;

  bool keep_cores;
  int threads;                          /* started, for all jobs; the caller not counted */
  int behind_threads;                   /* and for those behind alone */
  struct tb_pool_member *behind_member; /* of these */
  struct tb_pool_member member[];
};

/* Looks for the end of another thread's task before the core is offered to others: that thread may want it. */
#define TB_POOL_LOOKS_BEFORE_YIELD 2000

static inline void tb_pool_pause(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/* ---- pool.c ---- */

/* Runs one task, of the oldest job that has any; *seconds becomes what it took, unless that is NULL. And one of a job
 * behind all others. */
bool tb_pool_work(struct tb_pool *pool, double *seconds);
bool tb_pool_work_behind(struct tb_pool *pool);

/* Whether there is a task of a job behind; and of any other. */
bool tb_pool_has_behind(struct tb_pool *pool);
bool tb_pool_has_tasks(struct tb_pool *pool);

/* ---- pool_members.c ---- */

/* Some of those that sleep, and they wake others; and all threads for jobs behind. */
void tb_pool_wake(struct tb_pool *pool);
void tb_pool_wake_behind(struct tb_pool *pool);

/* Who finds no work looks for some again, before it sleeps. */
void tb_pool_end_rest(void);

/* Whether the calling thread is one for jobs behind. */
bool tb_pool_is_for_behind(void);

#endif
