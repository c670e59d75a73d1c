/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "hurry.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_bool hurries;

void tst_hurry(bool on) { atomic_store(&hurries, on); }

int clock_gettime(clockid_t clock, struct timespec *t) {
  const int result = (int)syscall(SYS_clock_gettime, clock, t);
  if (clock != CLOCK_MONOTONIC || !atomic_load(&hurries)) return result;
  const long long ns = ((long long)(t->tv_sec % 1000000) * 1000000000 + t->tv_nsec) * 200;
  *t = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
  return result;
}
