/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When to try again what failed and may fare better another time: after pauses that double, so that a program which
 * lives for hours has its GPU and one that cannot have it is not held up. Pure functions.
 */
#ifndef TB_RETRY_H
#define TB_RETRY_H

#include <stdbool.h>

/* Pauses of 1, 2, 4, 8, 16 and 32 s. A try takes what opening a GPU takes, 0.1 to 0.3 s. */
#define TB_RETRY_TRIES 7
#define TB_RETRY_FIRST_PAUSE_SECONDS 1.0

/* All zero before the first try. */
struct tb_retry {
  int failures;
  double again_at; /* seconds; no try before */
};

static inline bool tb_retry_is_due(const struct tb_retry *retry, double now) { return now >= retry->again_at; }

/* After a try that failed. False: it was the last. */
static inline bool tb_retry_later(struct tb_retry *retry, double now) {
  double pause = TB_RETRY_FIRST_PAUSE_SECONDS;
  for (int i = 0; i < retry->failures; i++) pause *= 2;
  retry->again_at = now + pause;
  return ++retry->failures < TB_RETRY_TRIES;
}

#endif
