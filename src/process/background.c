/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "process/background.h"

#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "process/guest.h"
#include "process/sandbox.h"

/* Most cores of one place of OpenMP's that are looked at: those of the largest socket. */
#define PLACE_CORES_MAX 512

/* ---- cores ---- */

/* OpenMP's, where there is one when the library is loaded. */
extern int omp_get_num_places(void) __attribute__((weak));
extern int omp_get_place_num_procs(int place) __attribute__((weak));
extern void omp_get_place_proc_ids(int place, int *ids) __attribute__((weak));

/* Those that the runtime spreads its threads over, if it binds them: as soon as it is loaded it leaves the main thread
 * one of them. */
static void add_places(cpu_set_t *cores) {
  if (omp_get_num_places == NULL || omp_get_place_num_procs == NULL || omp_get_place_proc_ids == NULL) return;
  const int places = omp_get_num_places();
  for (int place = 0; place < places; place++) {
    int numbers[PLACE_CORES_MAX];
    const int cores_of_place = omp_get_place_num_procs(place);
    if (cores_of_place <= 0 || cores_of_place > PLACE_CORES_MAX) continue;
    omp_get_place_proc_ids(place, numbers);
    for (int i = 0; i < cores_of_place; i++)
      if (numbers[i] >= 0 && numbers[i] < CPU_SETSIZE) CPU_SET(numbers[i], cores);
  }
}

/* When the library was loaded: OpenMP's, and the calling thread's. */
static cpu_set_t places, cores_at_load;

void tb_background_at_load(void) {
  CPU_ZERO(&places);
  CPU_ZERO(&cores_at_load);
  add_places(&places);
  sched_getaffinity(0, sizeof cores_at_load, &cores_at_load);
}

/* What all threads of the process may use, together: each may be bound to a core of its own. */
static void add_threads(cpu_set_t *cores) {
  DIR *threads = tb_sandboxed() ? NULL : opendir("/proc/self/task");
  for (struct dirent *e; threads != NULL && (e = readdir(threads)) != NULL;) {
    cpu_set_t set;
    const int number = atoi(e->d_name);
    if (number > 0 && sched_getaffinity(number, sizeof set, &set) == 0) CPU_OR(cores, cores, &set);
  }
  if (threads != NULL) closedir(threads);
}

/* Where the thread may run where the process might at first, others cannot add to it. */
void tb_background_process_cores(cpu_set_t *cores) {
  cpu_set_t common;
  CPU_ZERO(cores);
  sched_getaffinity(0, sizeof *cores, cores);
  CPU_OR(cores, cores, &places);
  CPU_AND(&common, cores, &cores_at_load);
  if (!CPU_EQUAL(&common, &cores_at_load) || CPU_COUNT(&cores_at_load) == 0) add_threads(cores);
}

int tb_background_quota(const char *path) {
  long long quota, period;
  FILE *file = tb_sandboxed() ? NULL : fopen(path, "re");
  if (file == NULL) return INT_MAX;
  const bool limited = fscanf(file, "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0;
  fclose(file);
  const long long cores = limited ? (quota + period - 1) / period : INT_MAX;
  return cores < INT_MAX ? (int)cores : INT_MAX;
}

int tb_background_cores(void) {
  cpu_set_t set;
  tb_background_process_cores(&set);
  const int cores = CPU_COUNT(&set);
  const int quota = tb_background_quota("/sys/fs/cgroup/cpu.max"); /* a container's own, as it sees it */
  return quota < cores ? quota : cores < 1 ? 1 : cores;
}

/* ---- threads ---- */

/* It has what its starter has: signals, floating point, and cores unless the attributes say others. */
static bool start(pthread_t *thread, pthread_attr_t *attributes, void *(*thread_main)(void *), void *context) {
  sigset_t before;
  struct tb_floats floats;
  tb_floats_begin(&floats);
  tb_guest_block_signals(&before);
  const bool started = pthread_create(thread, attributes, thread_main, context) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  tb_floats_end(&floats);
  return started;
}

/* Threads that copy or sleep are no part of what the program wants in real time. */
static bool make_ordinary(pthread_attr_t *attributes) {
  const struct sched_param parameters = {0};
  if (pthread_attr_init(attributes) != 0) return false;
  pthread_attr_setinheritsched(attributes, PTHREAD_EXPLICIT_SCHED);
  pthread_attr_setschedpolicy(attributes, SCHED_OTHER);
  pthread_attr_setschedparam(attributes, &parameters);
  return true;
}

bool tb_background_start(pthread_t *thread, void *(*thread_main)(void *), void *context) {
  pthread_attr_t bound, free;
  cpu_set_t cores;
  if (!make_ordinary(&bound)) return false;
  tb_background_process_cores(&cores);
  if (CPU_COUNT(&cores) > 0) pthread_attr_setaffinity_np(&bound, sizeof cores, &cores);
  bool started = start(thread, &bound, thread_main, context);
  pthread_attr_destroy(&bound);
  if (started || !make_ordinary(&free)) return started;
  started = start(thread, &free, thread_main, context); /* a core may be gone since */
  pthread_attr_destroy(&free);
  return started;
}

/* What a main thread has, as far as it is used; and what will do where memory is limited. */
static const size_t roomy_bytes[] = {(size_t)8 << 20, (size_t)1 << 20};

bool tb_background_start_roomy(pthread_t *thread, void *(*thread_main)(void *), void *context) {
  bool started = false;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  for (size_t i = 0; i < sizeof roomy_bytes / sizeof *roomy_bytes && !started; i++)
    started =
        pthread_attr_setstacksize(&attributes, roomy_bytes[i]) == 0 && start(thread, &attributes, thread_main, context);
  pthread_attr_destroy(&attributes);
  return started;
}

/* ---- something to be done when nothing has happened for a while ---- */

struct tb_idle {
  _Atomic double seconds;
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
    const double when = atomic_load(&idle->touched) + atomic_load(&idle->seconds);
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
  atomic_store(&idle->seconds, seconds);
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

void tb_idle_was_early(struct tb_idle *idle, double most) {
  if (idle == NULL) return;
  const double pause = tb_clock_seconds() - atomic_load(&idle->touched), longer = pause < most / 2 ? 2 * pause : most;
  if (pause <= most && longer > atomic_load(&idle->seconds)) atomic_store(&idle->seconds, longer);
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
