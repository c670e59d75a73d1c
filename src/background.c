/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "background.h"

#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "clock.h"

bool tb_background_start(pthread_t *thread, void *(*thread_main)(void *), void *context) {
  static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
  sigset_t others, before;
  sigfillset(&others);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&others, faults[i]);
  pthread_sigmask(SIG_SETMASK, &others, &before);
  const bool started = pthread_create(thread, NULL, thread_main, context) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return started;
}

/* Of "150000 100000", microseconds of a period, the cores that are meant, rounded up; of "max 100000", all. */
static int cores_of_quota(const char *path) {
  long long quota, period;
  FILE *file = fopen(path, "re");
  if (file == NULL) return INT_MAX;
  const bool limited = fscanf(file, "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0;
  fclose(file);
  const long long cores = limited ? (quota + period - 1) / period : INT_MAX;
  return cores < INT_MAX ? (int)cores : INT_MAX;
}

int tb_background_cores(void) {
  cpu_set_t set;
  const int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  const int quota = cores_of_quota("/sys/fs/cgroup/cpu.max"); /* a container's own, as it sees it */
  return quota < cores ? quota : cores < 1 ? 1 : cores;
}

struct tb_idle {
  double seconds;
  void (*action)(void);
  _Atomic double touched; /* when */
  atomic_bool armed;      /* touched since the last action */
  bool closing;           /* guarded by the lock */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_t thread;
};

/* With the lock held. */
static void sleep_until(struct tb_idle *idle, double when) {
  const struct timespec t = {.tv_sec = (time_t)when, .tv_nsec = (long)((when - (double)(time_t)when) * 1e9)};
  pthread_cond_timedwait(&idle->changed, &idle->lock, &t);
}

static void *idle_main(void *opaque) {
  struct tb_idle *idle = opaque;
  pthread_mutex_lock(&idle->lock);
  while (!idle->closing) {
    if (!atomic_load(&idle->armed)) {
      pthread_cond_wait(&idle->changed, &idle->lock);
      continue;
    }
    /* First this, then the look at the time: a touch in between is seen by one or the other. */
    atomic_store(&idle->armed, false);
    const double when = atomic_load(&idle->touched) + idle->seconds;
    if (tb_clock_seconds() < when) {
      atomic_store(&idle->armed, true);
      sleep_until(idle, when);
      continue;
    }
    pthread_mutex_unlock(&idle->lock);
    idle->action();
    pthread_mutex_lock(&idle->lock);
  }
  pthread_mutex_unlock(&idle->lock);
  return NULL;
}

struct tb_idle *tb_idle_open(double seconds, void (*action)(void)) {
  struct tb_idle *idle = calloc(1, sizeof *idle);
  if (idle == NULL) return NULL;
  idle->seconds = seconds;
  idle->action = action;
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_mutex_init(&idle->lock, NULL);
  pthread_cond_init(&idle->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  if (tb_background_start(&idle->thread, idle_main, idle)) return idle;
  free(idle);
  return NULL;
}

void tb_idle_touch(struct tb_idle *idle) {
  if (idle == NULL) return;
  atomic_store(&idle->touched, tb_clock_seconds());
  if (atomic_exchange(&idle->armed, true)) return;
  pthread_mutex_lock(&idle->lock); /* the thread is between its look and its sleep, or asleep */
  pthread_cond_signal(&idle->changed);
  pthread_mutex_unlock(&idle->lock);
}

void tb_idle_close(struct tb_idle *idle) {
  if (idle == NULL) return;
  pthread_mutex_lock(&idle->lock);
  idle->closing = true;
  pthread_cond_signal(&idle->changed);
  pthread_mutex_unlock(&idle->lock);
  pthread_join(idle->thread, NULL);
  pthread_cond_destroy(&idle->changed);
  pthread_mutex_destroy(&idle->lock);
  free(idle);
}
