/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/rounds.h"

#include "base/clock.h"
#include "pipeline/widening.h"
#include "process/busy.h"
#include "process/gate.h"
#include "process/guest.h"

/* Turns without anything to do before the core is offered to others: a thread that copies may want it. */
#define TURNS_BEFORE_YIELD 4
/* And between two looks at the clock. */
#define TURNS_BEFORE_LOOK 64

/* Between two looks for signals that wait. */
#define LOOK_SECONDS 1e-3

/* What has gone by a ring that shall have all slots though no call was large. */
#define WIDE_BYTES ((double)((int64_t)1 << 30))

/* What goes by the few slots that a further lane has at first. */
#define SMALL_RING_BYTES ((double)(TB_SLOTS_SMALL * TB_SLOT_BYTES))

struct tb_rounds tb_rounds_begin(const struct tb_device *d, bool is_large) {
  return (struct tb_rounds){.is_large = is_large, .patience = {.seconds = d->patience_seconds}};
}

void tb_rounds_went_on(struct tb_rounds *r) {
  r->turns = 0;
  r->patience.since = 0;
}

void tb_rounds_wait_for_others(struct tb_rounds *r) { r->patience.since = 0; }

bool tb_rounds_help(struct tb_rounds *r, struct tb_device *d) {
  const bool minds_the_link = r->is_large && tb_pool_threads(d->pool) >= TB_THREADS_ENOUGH;
  const bool helped = !minds_the_link && tb_pool_help(d->pool);
  if (helped) r->patience.since = 0;
  return helped;
}

/* The GPU is asked again and again instead of waited for: no single event is the next to come, and the driver's own
 * wait asks as often, unless the program has told it to sleep, of which it would wake too late for a slot; nor could
 * that wait be left. */
CUresult tb_rounds_rest(struct tb_rounds *r, struct tb_device *d) {
  if (++r->turns < TURNS_BEFORE_YIELD) return CUDA_SUCCESS;
  tb_busy_offer_core();
  if (r->turns % TURNS_BEFORE_LOOK != 0) return CUDA_SUCCESS;
  const CUresult result = tb_patience_try(&r->patience);
  if (result == CUDA_ERROR_TIMEOUT) d->hangs = true;
  return result;
}

bool tb_rounds_wanted(struct tb_rounds *r) {
  const double now = tb_clock_seconds();
  if (now < r->next_look) return false;
  const bool is_first = r->next_look == 0; /* what waits has not waited for long, and a short call is over before */
  r->next_look = now + LOOK_SECONDS;
  return !is_first && tb_guest_is_wanted();
}

CUresult tb_rounds_open_window(struct tb_device *d) {
  tb_device_leave();
  if (!tb_gate_window(d->lane)) return TB_INTERRUPTED; /* and what the device remembers is another call's */
  TB_TRY(tb_device_enter(d));
  return CUDA_SUCCESS;
}

/* Large calls want the rest of a ring's slots, and so do others that come again and again. (H100, order 4096, ms with
 * half of the slots and all, two turns: sgemm 5.0 and 3.4, dgemm 7.0 and 6.4, dsyrk 5.4 and 4.2, strsm 4.6 and 3.6;
 * 11008 x 512 x 4096, A kept, 0.89 and 0.83; 1024 cubed 0.39 and 0.40; 2048, in the quieter turn, 1.11 and 1.13.) */
static void prepare_ring(struct tb_ring *ring, double bytes, bool is_large) {
  ring->credit_bytes += bytes;
  tb_widening_take(ring);
  ring->piece_slots = is_large ? TB_PIECE_SLOTS : 1;
  if (ring->credit_bytes < 0) return;
  if (bytes > SMALL_RING_BYTES) tb_widening_earn(ring, TB_SLOTS_FIRST);
  const bool is_large_way = is_large && bytes > SMALL_RING_BYTES;
  if (is_large_way || ring->credit_bytes >= WIDE_BYTES) tb_widening_earn(ring, TB_SLOTS);
}

void tb_rounds_prepare_rings(struct tb_device *d, double up_bytes, double down_bytes, bool is_large) {
  const bool is_first = d->up_ring.credit_bytes == 0 && d->down_ring.credit_bytes == 0;
  prepare_ring(&d->up_ring, up_bytes, is_large);
  prepare_ring(&d->down_ring, down_bytes, is_large);
  if (is_first) tb_device_order_slots(d); /* it may take longer than others; the next one shall have all slots */
}
