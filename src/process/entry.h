/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who may go in to the GPUs beside whom, and in which order: the gate's rule (gate.c). Pure but for the state that it
 * is given, which wants the gate's lock.
 *
 * There is room for TB_LANES small calls at once. A larger call takes the room of several, one that must be alone all
 * of it. Each call that is inside has a lane of its own, the lowest that is free.
 *
 * First come, first served: nobody passes a call that waits, so that neither a large call nor small ones wait for ever.
 * But a call that has just come may pass those that have waited for less than TB_ENTRY_PASS_SECONDS, if there is room.
 * To wake a thread takes as long as a small call, and who calls again at once need not wait for that.
 *
 * A call that waits says so again and again. Who has not said so for TB_ENTRY_PATIENCE_SECONDS (a handler runs, or the
 * thread has left the call by a jump) is passed.
 */
#ifndef TB_ENTRY_H
#define TB_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#define TB_LANES 4
#define TB_ENTRY_ALONE TB_LANES

/* So many calls wait in their order; further ones in any. */
#define TB_ENTRY_WAITING 64

#define TB_ENTRY_PASS_SECONDS 1e-3
#define TB_ENTRY_PATIENCE_SECONDS 0.1

struct tb_entry_waiting {
  uint64_t ticket; /* 0: nobody's place. A lower one came earlier */
  const void *who; /* its thread */
  int room;        /* that it wants */
  double since, seen;
};

struct tb_entry {
  int room[TB_LANES]; /* that the call in the lane has; 0: there is none */
  int waiting_count;
  uint64_t tickets; /* given out so far */
  struct tb_entry_waiting waiting[TB_ENTRY_WAITING];
};

/* Whether a call may go in: with its ticket, or with 0 if it has just come. */
bool tb_entry_may(const struct tb_entry *entry, int room, uint64_t ticket, double now);

/* It waits, still or from now on. Returns its ticket, which is another one where somebody has its place by now; 0:
 * there is no place. */
uint64_t tb_entry_wait(struct tb_entry *entry, uint64_t ticket, int room, const void *who, double now);

/* It waits no longer: it goes in, or away. Of ticket 0 nothing is done. */
void tb_entry_end_wait(struct tb_entry *entry, uint64_t ticket);

/* The same for all calls of a thread. */
void tb_entry_forget(struct tb_entry *entry, const void *who);

/* The place of a ticket, and that of the call which is to be woken, because it may go in now. -1: there is none. */
int tb_entry_place(const struct tb_entry *entry, uint64_t ticket);
int tb_entry_next(const struct tb_entry *entry, double now);

#endif
