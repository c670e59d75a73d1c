/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "process/cores.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "process/sandbox.h"

/* ---- which one ---- */

static atomic_bool taken[CPU_SETSIZE]; /* by one of our threads */

static bool is_free(const cpu_set_t *allowed, const cpu_set_t *others, int avoided, int number) {
  return number != avoided && CPU_ISSET(number, allowed) && !CPU_ISSET(number, others);
}

/* Whether one of ours, or the one that is avoided, is another thread of the same core. */
static bool shares_hardware(const cpu_set_t *others, int (*lead)(int number), int avoided, int number) {
  const int core = lead(number);
  if (avoided != TB_NO_CORE && lead(avoided) == core) return true;
  for (int i = 0, left = CPU_COUNT(others); left > 0; i++) {
    if (!CPU_ISSET(i, others)) continue;
    if (lead(i) == core) return true;
    left--;
  }
  return false;
}

int tb_core_choose(const cpu_set_t *allowed, const cpu_set_t *others, int (*lead)(int number), int avoided, int first) {
  int second_best = TB_NO_CORE;
  for (int i = 0; i < CPU_SETSIZE; i++) {
    const int number = (first + i) % CPU_SETSIZE;
    if (!is_free(allowed, others, avoided, number)) continue;
    if (!shares_hardware(others, lead, avoided, number)) return number;
    if (second_best == TB_NO_CORE) second_best = number;
  }
  return second_best;
}

/* The lowest number among a core's hyperthreads, from "2-3" or "1,9". Its own one where nothing is known. */
static int lead_of(int number) {
  static _Atomic short known[CPU_SETSIZE]; /* plus 1 */
  const int before = atomic_load(&known[number]);
  if (before > 0) return before - 1;
  char path[80];
  int lead = number;
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", number);
  FILE *file = tb_sandboxed() ? NULL : fopen(path, "re");
  if (file != NULL && (fscanf(file, "%d", &lead) != 1 || lead < 0 || lead >= CPU_SETSIZE)) lead = number;
  if (file != NULL) fclose(file);
  atomic_store(&known[number], (short)(lead + 1));
  return lead;
}

/* ---- keeping to it ---- */

static int take_from(const cpu_set_t *allowed, int first, int avoided) {
  for (;;) {
    cpu_set_t others;
    CPU_ZERO(&others);
    for (int i = 0; i < CPU_SETSIZE; i++)
      if (atomic_load_explicit(&taken[i], memory_order_relaxed)) CPU_SET(i, &others);
    const int number = tb_core_choose(allowed, &others, lead_of, avoided, first);
    if (number == TB_NO_CORE || !atomic_exchange(&taken[number], true)) return number;
  }
}

void tb_core_leave(struct tb_core *core) {
  if (core->number != TB_NO_CORE) atomic_store(&taken[core->number], false);
  core->number = TB_NO_CORE;
}

static cpu_set_t only(int number) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(number, &mask);
  return mask;
}

/* What the thread may use is what it was left, or else what somebody has told it since. False: not allowed to ask, or
 * more cores than a set has. */
static bool look_for_changes(struct tb_core *core, pthread_t thread) {
  cpu_set_t mask;
  if (pthread_getaffinity_np(thread, sizeof mask, &mask) != 0) return false;
  if (core->number != TB_NO_CORE) {
    const cpu_set_t own = only(core->number);
    if (CPU_EQUAL(&mask, &own)) return true;
    tb_core_leave(core);
  }
  core->allowed = mask;
  return true;
}

/* Where the kernel has put the thread, or behind the core that it has. */
static int first_choice(const struct tb_core *core) {
  const int here = core->number == TB_NO_CORE ? sched_getcpu() : core->number + 1;
  return here < 0 ? 0 : here;
}

void tb_core_take(struct tb_core *core, pthread_t thread, int avoided) {
  if (tb_sandboxed() || !look_for_changes(core, thread)) return;
  const int number = take_from(&core->allowed, first_choice(core), avoided);
  if (number == TB_NO_CORE) return;
  struct tb_core next = {.number = number, .allowed = core->allowed};
  const cpu_set_t mask = only(number);
  if (pthread_setaffinity_np(thread, sizeof mask, &mask) != 0) {
    tb_core_leave(&next);
    return;
  }
  tb_core_leave(core);
  *core = next;
}

void tb_core_give_back(struct tb_core *core) {
  if (core->number == TB_NO_CORE || tb_sandboxed()) return;
  if (look_for_changes(core, pthread_self()) && core->number != TB_NO_CORE)
    pthread_setaffinity_np(pthread_self(), sizeof core->allowed, &core->allowed);
  tb_core_leave(core);
}

/* ---- its time ---- */

/* What the kernel calls sched_attr; the C library may have one of that name. */
struct slice_attributes {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime_ns, deadline_ns, period_ns;
};

/*
 * A thread that wakes is let in where another one has a longer slice. When it has used up its own and the clock ticks,
 * every 4 ms on most systems, the other one has the core until the next tick, and what was being copied waits. So ours
 * are shorter than the usual ones, but by little: the copies of most calls take less.
 *
 * (One H200, 16 cores, slices of 2.8 ms by default; 80 calls among 15 threads that spin, mean in ms, in two turns, with
 * slices of 0.1, 0.7, 1.4 and 2 ms: 1024 x 4096 x 768 1.41 1.00 0.98 0.96, 1.40 1.12 0.96 0.86; 512 x 1024 x 4096 1.40
 * 1.11 1.03 1.03, 1.53 1.07 0.98 0.91; 2048 cubed 1.42 1.07 1.19 1.12, 1.60 1.18 1.08 1.07; 4096 cubed, which takes
 * longer than a slice, 6.5 6.6 6.2 5.9, 6.9 6.9 5.6 6.1. With none spinning 0.9, 0.9, 1.1 and 3.3.)
 */
#define SLICE_TENTHS 7 /* of the usual one */

static _Atomic double slice_seconds; /* 0: not known */

void tb_core_short_slice(void) {
#if defined(SYS_sched_getattr) && defined(SYS_sched_setattr)
  struct slice_attributes attributes = {0};
  const int saved_errno = errno;
  /* An older kernel says 0, and would take what it is told for nothing. */
  if (!tb_sandboxed() && syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) == 0 &&
      attributes.policy == SCHED_OTHER && attributes.runtime_ns > 0) {
    attributes.runtime_ns = attributes.runtime_ns * SLICE_TENTHS / 10;
    if (syscall(SYS_sched_setattr, 0, &attributes, 0) == 0)
      atomic_store(&slice_seconds, 1e-9 * (double)attributes.runtime_ns);
  }
  errno = saved_errno;
#endif
}

struct ticks {
  double period_seconds, since_seconds; /* the latest one */
};

/*
 * The coarse clock is read from the latest tick, but shows a time that is a whole number of periods: it is behind by
 * something that stays the same for seconds. That is its least age that was seen in this second or the one before.
 */
static double behind_seconds(double age, int64_t second) {
  static _Atomic double least, least_before;
  static _Atomic int64_t of_second;
  int64_t known = atomic_load(&of_second);
  if (second != known && atomic_compare_exchange_strong(&of_second, &known, second)) {
    atomic_store(&least_before, second == known + 1 ? atomic_load(&least) : age);
    atomic_store(&least, age);
  }
  if (age < atomic_load(&least)) atomic_store(&least, age);
  const double now = atomic_load(&least), before = atomic_load(&least_before);
  return now < before ? now : before;
}

/* Those of most systems are 1, 3.3, 4 or 10 ms. A clock of another kind has none. */
#define PERIOD_SECONDS_LEAST 0.5e-3
#define PERIOD_SECONDS_MOST 20e-3

/* False: the clock does not show them. */
static bool look_at_ticks(struct ticks *ticks) {
  struct timespec period, tick, now;
  if (clock_getres(CLOCK_MONOTONIC_COARSE, &period) != 0 || clock_gettime(CLOCK_MONOTONIC_COARSE, &tick) != 0 ||
      clock_gettime(CLOCK_MONOTONIC, &now) != 0)
    return false;
  const double age = (double)(now.tv_sec - tick.tv_sec) + 1e-9 * (double)(now.tv_nsec - tick.tv_nsec);
  *ticks = (struct ticks){1e-9 * (double)period.tv_nsec, age - behind_seconds(age, now.tv_sec)};
  return ticks->period_seconds >= PERIOD_SECONDS_LEAST && ticks->period_seconds <= PERIOD_SECONDS_MOST;
}

bool tb_core_is_lost_soon(double awake_seconds, double seconds) {
  struct ticks ticks;
  if (awake_seconds + seconds <= atomic_load(&slice_seconds) || !look_at_ticks(&ticks)) return false;
  return ticks.period_seconds - ticks.since_seconds < seconds;
}

/* Of a tick's period. */
#define NEXT_TO_TICK 0.125

/* It began shortly before the tick at which the core was lost, and was over shortly behind the one at which it was had
 * again. What takes the core from all, as another machine on the same hardware does, begins and ends any time. */
bool tb_core_was_lost(double seconds) {
  struct ticks ticks;
  if (!look_at_ticks(&ticks)) return false;
  const double next = NEXT_TO_TICK * ticks.period_seconds,
               periods = (seconds - ticks.since_seconds) / ticks.period_seconds;
  return ticks.since_seconds < next && periods > 0 && periods - (double)(int64_t)periods < NEXT_TO_TICK;
}
