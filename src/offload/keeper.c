/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "offload/keeper.h"

#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include "process/background.h"
#include "process/gate.h"
#include "process/guest.h"
#include "process/libraries.h"
#include "offload/gpus.h"
#include "base/log.h"
#include "base/options.h"
#include "cache/cache.h"
#include "process/ending.h"
#include "pipeline/widening.h"
#include "cuda/wait.h"

/* After so long without a call, device memory is given back: to allocate it anew takes about a millisecond. */
#define IDLE_SECONDS 2.0
/* Copies of operands go with it, which take as long as they did to come back. Where a program calls again, as one that
 * factorizes between its products, it is given back after twice as long a time as that was without a call, up to this.
 */
#define IDLE_SECONDS_MOST 30.0

static struct tb_idle *idle_for_seconds;
static struct tb_idle *idle_for_long; /* TILEBLAS_IDLE; NULL: it is 0 */
static atomic_int giving_back;        /* threads that may be inside for that */

/* A process may start CUDA for its children alone: then it must not be started before they are forked. So one that has
 * loaded the driver and not started it is left alone, as far as the options say. */
bool tb_keeper_may_open(void) {
  const int64_t mode = tb_option_number(TB_OPTION_open);
  if (mode == TB_OPEN_ALWAYS || tb_cuda_is_started()) return true;
  return mode == TB_OPEN_AUTO && (tb_option_number(TB_OPTION_route) != TB_ROUTE_AUTO || !tb_cuda_is_programs());
}

static void settle_all(void) {
  for (int lane = 0; lane < TB_LANES; lane++) tb_gpus_settle(lane);
  tb_gate_settled();
}

static atomic_bool left_in_its_midst; /* a call, for which threads of ours may go on copying */

/* Of the program's threads: the loader is waited for, which may be waiting for the gate, or for a thread of ours. */
static void leave_gate(int lane) {
  tb_gate_leave(lane);
  if (atomic_exchange(&left_in_its_midst, false)) tb_library_stays();
}

/* What a thread has left behind that will not come back for it: */
static void clear_up(enum tb_gate found, int lane, int room) {
  if (found == TB_GATE_ABANDONED && room == TB_ENTRY_ALONE)
    settle_all();
  else if (found == TB_GATE_ABANDONED)
    tb_gpus_settle(lane);
  if (found != TB_GATE_BROKEN) return;
  tb_cuda_leave_all(); /* if it was this thread */
  if (!tb_gpus_abandon()) return;
  atomic_store(&left_in_its_midst, true);
  tb_warn("a thread left a call in its midst; the CPU computes all later calls");
}

/* Who is alone finds no GPU open that was given up beside others. */
static void begin_alone(enum tb_gate found, int lane) {
  clear_up(found, lane, TB_ENTRY_ALONE);
  if (found != TB_GATE_BROKEN) tb_gpus_close_lost();
}

/* While a GPU is opened the driver loads libraries. A thread that waits here may be in a constructor of such a
 * library's, or of another, and so keep the loader from going on: it does not wait for long. */
#define OPENING_SECONDS 2.0

static double enter_seconds(void) { return tb_gpus_are_open() ? 2 * tb_wait_seconds(0, 0) : OPENING_SECONDS; }

static _Thread_local int lane_of_one_alone; /* 0, but where others are inside that are lost */

bool tb_keeper_enter(void) {
  const enum tb_gate found = tb_gate_enter(TB_ENTRY_ALONE, enter_seconds(), &lane_of_one_alone);
  if (found != TB_GATE_CLOSED) begin_alone(found, lane_of_one_alone);
  return found != TB_GATE_CLOSED;
}

void tb_keeper_leave(void) {
  tb_pool_rest_if_busy();
  leave_gate(lane_of_one_alone);
}

static bool try_to_enter(bool final) {
  const enum tb_gate found = tb_gate_try(final, &lane_of_one_alone);
  if (found != TB_GATE_CLOSED) begin_alone(found, lane_of_one_alone);
  return found != TB_GATE_CLOSED;
}

int tb_keeper_enter_lane(int room) {
  int lane = -1;
  const enum tb_gate found = tb_gate_enter(room, enter_seconds(), &lane);
  if (found == TB_GATE_CLOSED) return -1;
  clear_up(found, lane, room);
  return lane;
}

void tb_keeper_leave_lane(int lane) {
  tb_pool_rest_if_busy();
  leave_gate(lane);
  if (tb_gpus_have_lost() && try_to_enter(false)) leave_gate(lane_of_one_alone);
}

/* A call that is under way touches `idle_for_seconds` when it ends, so then nothing is lost by not waiting for it. */
static void give_memory_back(void) {
  atomic_fetch_add(&giving_back, 1);
  if (try_to_enter(false)) {
    tb_gpus_give_back();
    tb_gate_leave(lane_of_one_alone);
  }
  atomic_fetch_sub(&giving_back, 1);
}

/* The same of everything: a GPU is opened anew when it is wanted. */
static void give_gpus_back(void) {
  atomic_fetch_add(&giving_back, 1);
  if (try_to_enter(false)) {
    tb_gpus_close_for_now();
    tb_gate_leave(lane_of_one_alone);
  }
  atomic_fetch_sub(&giving_back, 1);
}

/*
 * When the library is unloaded everything is given back; a GPU that another thread still uses is left to the end of the
 * process, but not by the thread that gives memory back, which is ours, and soon done.
 *
 * When the process ends nothing is: the driver does that, and sooner. To give memory back waits for all that runs on
 * the GPU, and the program may have left something there that runs for ever. What a thread of ours is having pinned it
 * shall have before the driver ends.
 */
static void close_all(void) {
  if (tb_process_is_ending()) {
    tb_widening_settle();
    return;
  }
  while (!try_to_enter(true)) {
    if (atomic_load(&giving_back) == 0) return;
    sched_yield();
  }
  tb_idle_close(idle_for_seconds);
  tb_idle_close(idle_for_long);
  idle_for_seconds = idle_for_long = NULL;
  tb_widening_end();
  if (tb_gpus_are_open()) tb_gpus_close(TB_STATUS_ending); /* in the child of a fork they are the parent's */
  tb_gpus_end();
  tb_gate_leave(lane_of_one_alone);
}

/* In the program's thread, whose traps are not for our clock's sums. */
static void close_at_exit(void) {
  struct tb_floats floats;
  tb_floats_begin(&floats);
  close_all();
  tb_floats_end(&floats);
}

bool tb_keeper_has_begun(void) {
  return idle_for_seconds != NULL && (idle_for_long != NULL || tb_option_number(TB_OPTION_idle) == 0);
}

void tb_keeper_begin(void) {
  static bool registered;
  if (!registered && (registered = atexit(close_at_exit) == 0))
    tb_process_watch(); /* which is run before, being later */
  if (idle_for_seconds == NULL) idle_for_seconds = tb_idle_open(IDLE_SECONDS, give_memory_back);
  const double seconds = (double)tb_option_number(TB_OPTION_idle);
  if (idle_for_long == NULL && seconds > 0) idle_for_long = tb_idle_open(seconds, give_gpus_back);
}

void tb_keeper_touch(void) {
  if (tb_cache_has_rested()) tb_idle_was_early(idle_for_seconds, IDLE_SECONDS_MOST);
  tb_idle_touch(idle_for_seconds);
  tb_idle_touch(idle_for_long);
}

void tb_keeper_after_fork(void) {
  tb_gate_after_fork();
  tb_widening_after_fork();
  idle_for_seconds = idle_for_long = NULL; /* their threads are the parent's */
  atomic_store(&giving_back, 0);
}
