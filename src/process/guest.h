/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of the program's thread while our code runs in it: kept, replaced by the one that a process begins with,
 * and given back. Between tb_guest_enter and tb_guest_leave
 *   - floating point rounds to nearest, traps nothing and flushes nothing to zero; flags that are raised are forgotten;
 *   - the thread is not cancelled, of whatever type its cancellation was;
 *   - signals wait, but for faults, so that no handler leaves by siglongjmp while we hold a lock, the driver is at work
 *     or threads of ours touch the program's memory.
 * Each thread for itself; takes no lock. errno is the caller's again behind it. Calls do not nest: within one,
 * tb_guest_pause and tb_guest_resume enclose what must run in the caller's own state, as the CPU BLAS must.
 */
#ifndef TB_GUEST_H
#define TB_GUEST_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/thread.h"
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

struct tb_floats {
  uint32_t x87[7]; /* fnstenv's, unless */
  bool x87_is_default;
  uint32_t control;
};

struct tb_guest {
  struct tb_floats floats; /* the caller's, and so are the others */
  sigset_t signals;
  struct tb_cancel cancel;
  int error_number;
  bool elsewhere; /* it serves a thread of our own, which has no state of the program's but its floating point */
};

void tb_guest_enter(struct tb_guest *guest);
void tb_guest_leave(struct tb_guest *guest);

/* A thread of our own goes on for the caller that entered, and waits for it. */
void tb_guest_stand_in(struct tb_guest *guest);

/* The caller's state, within a call; nothing outside of one. A handler may run at once in tb_guest_pause, and may leave
 * by siglongjmp: nothing may be held there that others need. tb_guest_pause_floats leaves signals and cancellation
 * alone. */
void tb_guest_pause(struct tb_guest **paused);
void tb_guest_pause_floats(struct tb_guest **paused);
void tb_guest_resume(struct tb_guest *paused);
void tb_guest_resume_floats(struct tb_guest *paused);

/* Whether a signal waits that the caller would take. Asks the kernel. Never for who stands in. */
bool tb_guest_is_wanted(void);

/* Blocks what threads of ours and calls under way do not take: all signals but those of faults, which are the program's
 * wherever they happen. */
void tb_guest_block_signals(sigset_t *before);

/* Floating point as a process begins with, for a thread that is about to create others. */
void tb_floats_begin(struct tb_floats *before);
void tb_floats_end(const struct tb_floats *before);

/* ---- the little that a small call needs ---- */

/* The same for ordinary arithmetic alone, in some cycles. What is computed in between must be in a function of its own,
 * that is not inlined: to a compiler arithmetic has nothing to do with the register. */
#define TB_DEFAULT_CONTROL 0x1f80u /* of MXCSR: all exceptions masked, no flag, to nearest */

static inline uint32_t tb_arithmetic_begin(void) {
#if defined(__SSE__)
  const uint32_t before = _mm_getcsr();
  _mm_setcsr(TB_DEFAULT_CONTROL);
  return before;
#else
  return 0;
#endif
}

static inline void tb_arithmetic_end(uint32_t before) {
#if defined(__SSE__)
  _mm_setcsr(before);
#else
  (void)before;
#endif
}

#endif
