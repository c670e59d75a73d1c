/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "process/gate.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <time.h>

#include "base/clock.h"
#include "process/guest.h"

static pthread_once_t gate_once = PTHREAD_ONCE_INIT;

/* Guards what follows, for some hundred nanoseconds. No thread is lost with it in hand. */
static pthread_mutex_t state_lock;
static struct tb_entry entry;
static pthread_cond_t room_came[TB_ENTRY_WAITING]; /* for who waits in this place */
static uint64_t moves;                             /* changes when somebody has a lane, and when one leaves */
static uint64_t no_room_at; /* 1 more than it was while somebody waited in vain, for so long; 0: nobody has */
static double no_room_seconds;

/* Its lock tells what has become of the thread inside. Robust: the end of its owner does not close it. Checked: an
 * owner who comes again is told. */
struct gate_lane {
  pthread_mutex_t lock;
  const void *at_window; /* the call there, by its thread's variables; NULL: there is none */
  double since;
  int room;                /* that it has, if nobody takes it */
  uint64_t turn;           /* changes when somebody has the lane, and when the call at the window has lost it */
  bool abandoned;          /* and nobody has had it since */
  bool settled_by_another; /* who is alone sees to what that call left, from another lane */
};
static struct gate_lane lanes[TB_LANES];

static void initialise_lanes(void) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  for (int lane = 0; lane < TB_LANES; lane++) {
    lanes[lane] = (struct gate_lane){.turn = lanes[lane].turn + 2}; /* no call's that a fork found at the window */
    pthread_mutex_init(&lanes[lane].lock, &attributes);
  }
  pthread_mutexattr_destroy(&attributes);
}

static void initialise_gate(void) {
  pthread_condattr_t monotonic;
  entry = (struct tb_entry){0};
  no_room_at = 0;
  pthread_mutex_init(&state_lock, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  for (int place = 0; place < TB_ENTRY_WAITING; place++) pthread_cond_init(&room_came[place], &monotonic);
  pthread_condattr_destroy(&monotonic);
  initialise_lanes();
}

/* ---- with the state's lock held ---- */

/* Whether the call at the window need not be waited for. */
static bool takes_over(const struct gate_lane *l, bool final) {
  return final || l->at_window == &tb_thread || tb_clock_seconds() - l->since > TB_GATE_PATIENCE_SECONDS;
}

/* Which the thread has lost at a window: its room is nobody's, or another call's that is at a window itself. 1 more
 * than its number. */
static _Thread_local int lost_lane;

/* Has a lane whose lock gave this when it was asked for. */
static enum tb_gate have_lane(int lane, int result, int room) {
  if (result == EOWNERDEAD) pthread_mutex_consistent(&lanes[lane].lock);
  entry.room[lane] = room;
  moves++;
  lanes[lane].at_window = NULL;
  lanes[lane].turn++;
  lost_lane = 0;
  for (int i = 0; result != 0 && i < TB_LANES; i++) lanes[i].abandoned = false; /* all is lost, with what they left */
  return result == 0 ? TB_GATE_CLEAN : TB_GATE_BROKEN;
}

/* Looks for those inside that are lost. One that left in the midst: its lane is the caller's. One that is at a window
 * for too long: its lane is free. */
static enum tb_gate look_inside(int room, bool final, int *lane) {
  for (int i = 0; i < TB_LANES; i++) {
    if (entry.room[i] == 0) continue;
    const int result = pthread_mutex_trylock(&lanes[i].lock);
    if (result == EBUSY) continue;
    *lane = i;
    if (result != 0) return have_lane(i, result, room);
    if (takes_over(&lanes[i], final)) {
      entry.room[i] = 0;
      lanes[i].at_window = NULL;
      lanes[i].turn++;
      lanes[i].abandoned = true;
    }
    pthread_mutex_unlock(&lanes[i].lock);
  }
  return TB_GATE_CLOSED;
}

/* Whether anything that is left in streams may be in the caller's way; it is the caller's to see to. */
static bool was_abandoned(int lane, int room) {
  bool found = false;
  for (int i = 0; i < TB_LANES; i++) {
    if (i != lane && room != TB_ENTRY_ALONE) continue;
    found = found || lanes[i].abandoned;
    lanes[i].settled_by_another = lanes[i].abandoned && i != lane;
    lanes[i].abandoned = false;
  }
  return found;
}

static void all_are_settled(void) {
  for (int lane = 0; lane < TB_LANES; lane++) lanes[lane].settled_by_another = false;
}

/* A lane that is free, but for one whose call has lost it at the window and is not out yet. */
static enum tb_gate take_lane(int room, int *lane) {
  for (int i = 0; i < (room == TB_ENTRY_ALONE ? 1 : TB_LANES); i++) {
    if (entry.room[i] > 0) continue;
    const int result = pthread_mutex_trylock(&lanes[i].lock);
    if (result == EBUSY) continue;
    *lane = i;
    const enum tb_gate found = have_lane(i, result, room);
    return found == TB_GATE_CLEAN && was_abandoned(i, room) ? TB_GATE_ABANDONED : found;
  }
  return TB_GATE_CLOSED;
}

static double now_if_wanted(void) { return entry.waiting_count > 0 ? tb_clock_seconds() : 0; }

static void wake_next(void) {
  const int place = tb_entry_next(&entry, now_if_wanted());
  if (place >= 0) pthread_cond_signal(&room_came[place]);
}

static enum tb_gate go_in(int room, uint64_t ticket, int *lane) {
  const enum tb_gate found = look_inside(room, false, lane);
  if (found != TB_GATE_CLOSED || !tb_entry_may(&entry, room, ticket, now_if_wanted())) return found;
  return take_lane(room, lane);
}

/* ---- entering ---- */

/* A wait after which signals are looked for, and those inside again. */
#define WAIT_NS 2000000

static void pause_for_a_while(void) { nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL); }

/* Returns, with the state's lock held as before, when there may be room. False: that did not come before long. */
static bool wait_for_room(uint64_t ticket) {
  const int place = tb_entry_place(&entry, ticket);
  struct timespec until;
  if (place < 0) {
    pthread_mutex_unlock(&state_lock);
    pause_for_a_while();
    pthread_mutex_lock(&state_lock);
    return false;
  }
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += WAIT_NS;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  return pthread_cond_timedwait(&room_came[place], &state_lock, &until) == 0;
}

static void let_waiting_signals_in(void) {
  struct tb_guest *paused;
  if (!tb_guest_is_wanted()) return;
  tb_guest_pause(&paused);
  tb_guest_resume(paused);
}

/* Whether somebody has waited so long for who is inside, a thread that does not come back from the driver, say. */
static bool is_stuck(double seconds) { return no_room_at == moves + 1 && seconds <= no_room_seconds; }

/* The state's lock is not held while handlers run, which may leave for good: the ticket is then nobody's. */
static enum tb_gate wait_to_go_in(int room, double seconds, int *lane) {
  const double begun = tb_clock_seconds();
  const uint64_t moves_before = moves;
  uint64_t ticket = 0;
  enum tb_gate found = TB_GATE_CLOSED;
  for (double now = begun; now - begun <= seconds; now = tb_clock_seconds()) {
    ticket = tb_entry_wait(&entry, ticket, room, &tb_thread, now);
    if (!wait_for_room(ticket)) {
      pthread_mutex_unlock(&state_lock);
      let_waiting_signals_in();
      pthread_mutex_lock(&state_lock);
    }
    if ((found = go_in(room, ticket, lane)) != TB_GATE_CLOSED) break;
  }
  tb_entry_end_wait(&entry, ticket);
  if (found == TB_GATE_CLOSED && moves == moves_before && !is_stuck(seconds))
    no_room_at = moves + 1, no_room_seconds = seconds;
  wake_next();
  return found;
}

enum tb_gate tb_gate_enter(int room, double seconds, int *lane) {
  pthread_once(&gate_once, initialise_gate);
  pthread_mutex_lock(&state_lock);
  tb_entry_forget(&entry, &tb_thread); /* a wait that it left by a jump */
  enum tb_gate found = go_in(room, 0, lane);
  if (found == TB_GATE_CLOSED && !is_stuck(seconds)) found = wait_to_go_in(room, seconds, lane);
  pthread_mutex_unlock(&state_lock);
  return found;
}

void tb_gate_leave(int lane) {
  pthread_mutex_lock(&state_lock);
  if (lost_lane != lane + 1) {
    if (entry.room[lane] == TB_ENTRY_ALONE) all_are_settled();
    entry.room[lane] = 0;
  }
  lost_lane = 0;
  moves++;
  pthread_mutex_unlock(&lanes[lane].lock);
  wake_next();
  pthread_mutex_unlock(&state_lock);
}

enum tb_gate tb_gate_try(bool final, int *lane) {
  pthread_once(&gate_once, initialise_gate);
  pthread_mutex_lock(&state_lock);
  enum tb_gate found = look_inside(TB_ENTRY_ALONE, final, lane);
  const uint64_t ticket = final ? 1 : 0; /* before everybody */
  if (found == TB_GATE_CLOSED && tb_entry_may(&entry, TB_ENTRY_ALONE, ticket, now_if_wanted()))
    found = take_lane(TB_ENTRY_ALONE, lane);
  pthread_mutex_unlock(&state_lock);
  return found;
}

void tb_gate_settled(void) {
  pthread_mutex_lock(&state_lock);
  all_are_settled();
  pthread_mutex_unlock(&state_lock);
}

/* ---- the window ---- */

/* Returns the lane's turn. */
static uint64_t open_window(struct gate_lane *l, int lane) {
  pthread_mutex_lock(&state_lock);
  const uint64_t turn = l->turn;
  l->at_window = &tb_thread;
  l->since = tb_clock_seconds();
  l->room = entry.room[lane];
  pthread_mutex_unlock(&l->lock);
  pthread_mutex_unlock(&state_lock);
  return turn;
}

/* With the state's lock held, and the lane's. A lane that was freed and which nobody has had is as it was: nor was
 * anybody alone since. It is the call's again, though others may have its room by now. */
static bool is_still_ours(struct gate_lane *l, int lane, uint64_t turn) {
  const bool freed = l->turn == turn + 1 && l->abandoned;
  if (l->turn != turn && !freed) return false;
  if (freed) entry.room[lane] = l->room;
  l->abandoned = false;
  l->at_window = NULL;
  return true;
}

/* Who sees to what the call left may end in the midst of that. */
#define SETTLING_SECONDS_MOST 60.0

/* Returns with the state's lock held, and the lane's, when nothing of the call's is under way any more if the lane is
 * no longer its own. */
static int come_back(struct gate_lane *l) {
  const double begun = tb_clock_seconds();
  for (;; pause_for_a_while()) {
    pthread_mutex_lock(&state_lock);
    const int result = pthread_mutex_trylock(&l->lock);
    const bool waits = l->settled_by_another && tb_clock_seconds() - begun < SETTLING_SECONDS_MOST;
    if (result != EBUSY && (result != 0 || !waits)) return result;
    if (result == 0) pthread_mutex_unlock(&l->lock);
    pthread_mutex_unlock(&state_lock);
  }
}

bool tb_gate_window(int lane) {
  struct gate_lane *const l = &lanes[lane];
  struct tb_guest *paused;
  const uint64_t turn = open_window(l, lane);
  tb_guest_pause(&paused);
  tb_guest_resume(paused);
  const int result = come_back(l);
  const bool ours = result == 0 && is_still_ours(l, lane, turn);
  if (result == EOWNERDEAD) pthread_mutex_consistent(&l->lock);
  if (result == 0 && !ours) lost_lane = lane + 1;
  pthread_mutex_unlock(&state_lock);
  return ours;
}

void tb_gate_after_fork(void) { initialise_gate(); }
