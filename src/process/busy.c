/* SPDX-License-Identifier: BSD-3-Clause */
#include "process/busy.h"

#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/thread.h"

/* From an offer that took long until the next one, which may take 8 ms. */
#define WITHHELD_SECONDS 0.25

static _Atomic double busy_until;

void tb_busy_found(double now) { atomic_store_explicit(&busy_until, now + TB_BUSY_SECONDS, memory_order_relaxed); }

bool tb_busy_lately(double now) { return now < atomic_load_explicit(&busy_until, memory_order_relaxed); }

void tb_busy_offer_core(void) {
  const double begun = tb_clock_seconds();
  if (begun < tb_thread.no_offer_before) return;
  sched_yield();
  const double now = tb_clock_seconds();
  if (now - begun < TB_BUSY_LATE_SECONDS) return;
  tb_thread.no_offer_before = now + WITHHELD_SECONDS;
  tb_busy_found(now);
}
