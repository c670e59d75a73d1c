/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "process/cores.h"

#include <stdatomic.h>
#include <stdbool.h>

static atomic_bool taken[CPU_SETSIZE]; /* by one of our threads */

/* The first free one from `first` on, round and round. */
static int take_from(const cpu_set_t *allowed, int first, int avoided) {
  for (int i = 0; i < CPU_SETSIZE; i++) {
    const int number = (first + i) % CPU_SETSIZE;
    bool expected = false;
    if (number == avoided || !CPU_ISSET(number, allowed)) continue;
    if (atomic_compare_exchange_strong(&taken[number], &expected, true)) return number;
  }
  return TB_NO_CORE;
}

static void give_core_back(int number) {
  if (number != TB_NO_CORE) atomic_store(&taken[number], false);
}

/* Where the kernel has put the thread, or behind the core that it has. */
static int first_choice(const struct tb_core *core) {
  const int here = core->number == TB_NO_CORE ? sched_getcpu() : core->number + 1;
  return here < 0 ? 0 : here;
}

void tb_core_take(struct tb_core *core, pthread_t thread, int avoided) {
  if (core->number == TB_NO_CORE && pthread_getaffinity_np(thread, sizeof core->allowed, &core->allowed) != 0)
    return; /* more cores than a set has, or not allowed to ask */
  const int number = take_from(&core->allowed, first_choice(core), avoided);
  if (number == TB_NO_CORE) return;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(number, &mask);
  if (pthread_setaffinity_np(thread, sizeof mask, &mask) != 0) {
    give_core_back(number);
    return;
  }
  give_core_back(core->number);
  core->number = number;
}

void tb_core_leave(struct tb_core *core) {
  give_core_back(core->number);
  core->number = TB_NO_CORE;
}
