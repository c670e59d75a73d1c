/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "process/gate.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <time.h>

#include "base/clock.h"
#include "process/guest.h"

/* Robust: the end of its owner does not close it. Checked: an owner who comes again is told. */
static pthread_mutex_t gate_lock;
static pthread_once_t gate_once = PTHREAD_ONCE_INIT;

/* Guarded by the lock. */
static struct {
  const void *owner; /* of the call at the window, by its thread's variables; NULL: there is none */
  double since;
} window;

static void initialise_gate(void) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&gate_lock, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

/* A wait after which signals are looked for, and a window again. */
#define WAIT_NS 2000000

/* Locks if that can be had before long. */
static int try_for_a_while(void) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += WAIT_NS;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  return pthread_mutex_timedlock(&gate_lock, &until);
}

/* What was found by who has just locked, or owns the lock from before. */
static enum tb_gate gate_found(int result) {
  if (result == 0) return TB_GATE_CLEAN;
  if (result == EOWNERDEAD) pthread_mutex_consistent(&gate_lock);
  window.owner = NULL;
  return TB_GATE_BROKEN;
}

static bool is_inside(int result) { return result == 0 || result == EOWNERDEAD || result == EDEADLK; }

/* With the lock held. Whether the call at the window need not be waited for. */
static bool takes_over(bool final) {
  return final || window.owner == &tb_thread || tb_clock_seconds() - window.since > TB_GATE_PATIENCE_SECONDS;
}

static void let_waiting_signals_in(void) {
  struct tb_guest *paused;
  if (!tb_guest_is_wanted()) return;
  tb_guest_pause(&paused);
  tb_guest_resume(paused);
}

enum tb_gate tb_gate_enter(double seconds) {
  double begun = 0;
  pthread_once(&gate_once, initialise_gate);
  for (int result = pthread_mutex_trylock(&gate_lock);; result = try_for_a_while()) {
    if (is_inside(result)) {
      const enum tb_gate found = gate_found(result);
      if (found != TB_GATE_CLEAN || window.owner == NULL) return found;
      if (takes_over(false)) {
        window.owner = NULL;
        return TB_GATE_ABANDONED;
      }
      pthread_mutex_unlock(&gate_lock);
      nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
    }
    let_waiting_signals_in();
    if (begun == 0) begun = tb_clock_seconds();
    if (tb_clock_seconds() - begun > seconds) return TB_GATE_CLOSED;
  }
}

void tb_gate_leave(void) { pthread_mutex_unlock(&gate_lock); }

enum tb_gate tb_gate_try(bool final) {
  pthread_once(&gate_once, initialise_gate);
  const int result = pthread_mutex_trylock(&gate_lock);
  if (!is_inside(result)) return TB_GATE_CLOSED;
  const enum tb_gate found = gate_found(result);
  if (found != TB_GATE_CLEAN || window.owner == NULL) return found;
  if (takes_over(final)) {
    window.owner = NULL;
    return TB_GATE_ABANDONED;
  }
  pthread_mutex_unlock(&gate_lock);
  return TB_GATE_CLOSED;
}

bool tb_gate_window(void) {
  struct tb_guest *paused;
  window.owner = &tb_thread;
  window.since = tb_clock_seconds();
  pthread_mutex_unlock(&gate_lock);
  tb_guest_pause(&paused);
  tb_guest_resume(paused);
  int result;
  do result = try_for_a_while();
  while (!is_inside(result));
  const bool ours = gate_found(result) == TB_GATE_CLEAN && window.owner == &tb_thread;
  if (window.owner == &tb_thread) window.owner = NULL;
  return ours;
}

void tb_gate_after_fork(void) {
  window.owner = NULL;
  initialise_gate();
}
