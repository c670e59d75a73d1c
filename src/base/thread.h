/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the library keeps for each thread and reads in every call: one variable, because the way to a thread's variables
 * counts in a small call. Each member belongs to one room, which says more. Nothing here needs an end: a thread that
 * ends leaves nothing behind, and the library can leave the process while threads go on.
 */
#ifndef TB_THREAD_H
#define TB_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cancel.h"

/* A shape, and how many calls of it may follow the latest one that was weighed, and how many have. */
struct tb_followed {
  int64_t m, n, k;
  int type;
  bool transpose_a, transpose_b;
  int form; /* call.h */
  int may_follow, followers;
};

struct tb_thread {
  uint64_t looked_at_cycles;        /* place.h: when this thread last found no driver */
  struct tb_small_sums *small_sums; /* stats.h: one for TB_STATUS_small, one for TB_STATUS_forced_cpu; or NULL */
  int cpu_depth;                    /* fallback.h: more than 0 while inside the CPU BLAS on our behalf */
  struct tb_followed followed;      /* router.c */
  struct tb_guest *guest;           /* guest.h: that the call under way entered with; NULL: our code is not at work */
  struct tb_cancel cancel;          /* the two that it found */
  uint32_t float_control;
  uintptr_t stack_start, stack_end; /* stack.h: of the thread's stack; both 0: not looked at yet */
  bool sandboxed;                   /* sandbox.h: seen before */
  bool visits_libraries;            /* libraries.h: it is in a visit, or has left one by a jump */
  double no_offer_before;           /* busy.h: of its core; by tb_clock_seconds */
};

extern _Thread_local struct tb_thread tb_thread __attribute__((tls_model("initial-exec")));

#endif
