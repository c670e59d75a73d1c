/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who has the GPUs, and how long they are kept: some calls go in beside each other, in lanes, others alone (gate.h).
 * What is open is given back after a while without calls, and when the library is unloaded. Thread-safe, but for what
 * wants to be inside.
 */
#ifndef TB_KEEPER_H
#define TB_KEEPER_H

#include <stdbool.h>

/* Whether a GPU may be opened in this process as it is now. Lock-free. */
bool tb_keeper_may_open(void);

/* Guards the GPUs and everything below: the caller is alone. False: they could not be had in a time in which a call
 * should end, whatever others wait for. */
bool tb_keeper_enter(void);
void tb_keeper_leave(void);

/* Inside beside others, with as much room as this (process/entry.h), less than TB_ENTRY_ALONE. Returns the lane; -1: as
 * above. No GPU is opened or closed meanwhile. Who leaves last closes one that was given up. */
int tb_keeper_enter_lane(int room);
void tb_keeper_leave_lane(int lane);

/* Alone, when a GPU is open: sees to it that it is given back. And whether that is done, in a lane. */
void tb_keeper_begin(void);
bool tb_keeper_has_begun(void);

/* Inside: a call has used them. */
void tb_keeper_touch(void);

/* The child of a fork. */
void tb_keeper_after_fork(void);

#endif
