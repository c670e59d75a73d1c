/* SPDX-License-Identifier: BSD-3-Clause */
/* The clock by which calls are timed. Thread-safe. */
#ifndef TB_CLOCK_H
#define TB_CLOCK_H

#include <time.h>

/* Seconds since some moment before the process; never goes back. */
static inline double tb_clock_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
