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

/* What a GPU has moved by a ring's slots when it gets the rest of them, beside calls (widening.h). To pin those takes 6
 * to 8 ms; with both rings whole 16384 cubed, of 3.2 GB, takes 3 to 5 ms less (H200). */
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

/* The GPU is asked again and again instead of waited for: no single event is the next to come, and the driver's own
 * wait asks as often, unless the program has told it to sleep, of which it would wake too late for a slot; nor could
 * that wait be left. */
CUresult tb_rounds_rest(struct tb_rounds *r, struct tb_device *d) {
  const bool minds_the_link = r->is_large && tb_pool_threads(d->pool) >= TB_THREADS_ENOUGH;
  if (!minds_the_link && tb_pool_help(d->pool)) {
    r->patience.since = 0;
    return CUDA_SUCCESS;
  }
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

void tb_rounds_prepare_ring(struct tb_ring *ring, double bytes, bool is_large) {
  ring->piece_slots = is_large ? TB_PIECE_SLOTS : 1;
  ring->staged_bytes += bytes;
  tb_widening_take(ring);
  if (bytes > SMALL_RING_BYTES) tb_widening_earn(ring, TB_SLOTS_FIRST);
  if (ring->staged_bytes >= WIDE_BYTES) tb_widening_earn(ring, TB_SLOTS);
}
