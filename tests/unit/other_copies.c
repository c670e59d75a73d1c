/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "other_copies.h"

#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include "base/clock.h"

#define COPIES 60
#define COPY_SECONDS 0.1

static struct tb_pool *copying;
static uint64_t job;
static atomic_bool ended;
static atomic_int begun;

static void copy_until_ended(void *unused, int index) {
  (void)unused, (void)index;
  atomic_fetch_add(&begun, 1);
  for (const double since = tb_clock_seconds(); !atomic_load(&ended) && tb_clock_seconds() < since + COPY_SECONDS;)
    usleep(100);
}

void tst_other_copies_begin(struct tb_pool *pool) {
  copying = pool;
  atomic_store(&ended, false), atomic_store(&begun, 0);
  job = tb_pool_start(pool, copy_until_ended, NULL, COPIES);
}

void tst_other_copies_await(void) {
  while (atomic_load(&begun) == 0) usleep(100);
}

bool tst_other_copies_end(void) {
  const bool any = atomic_load(&begun) < COPIES;
  atomic_store(&ended, true);
  tb_pool_wait(copying, job);
  return any;
}
