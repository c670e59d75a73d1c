/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lock that guards the GPUs, for threads that may not come back. Calls go in to lanes, as entry.h has it: some
 * beside each other, others alone. A call in which a signal waits opens a window when nothing of it is under way in the
 * program's memory: handlers run there, and one that leaves by siglongjmp leaves a lane that others can have.
 * Thread-safe. Signals are blocked while a thread is inside, but for the window.
 */
#ifndef TB_GATE_H
#define TB_GATE_H

#include <stdbool.h>

#include "process/entry.h"

enum tb_gate {
  TB_GATE_CLEAN,
  TB_GATE_ABANDONED, /* a call left by the window for good, or stays there too long: work of its is still in the streams
                        of the lane; of who goes in alone, of any */
  TB_GATE_BROKEN,    /* a thread left, or ended, in the midst of a call: nothing that it used can be relied on. Others
                        may be inside */
  TB_GATE_CLOSED     /* there was no room for the call all the time that was waited */
};

/* How long a handler may keep a window open while others wait for the GPUs. */
#define TB_GATE_PATIENCE_SECONDS 0.1

/* Waits to get in, so many seconds at most; *lane becomes the caller's. Who takes TB_ENTRY_ALONE's room is alone, in
 * lane 0, unless it is broken. While others are inside, the caller's signals are let through. */
enum tb_gate tb_gate_enter(int room, double seconds, int *lane);
void tb_gate_leave(int lane);

/* To be alone, without waiting. final: nobody will come back to a window, for the process ends or the library leaves
 * it. Otherwise those that wait go first. */
enum tb_gate tb_gate_try(bool final, int *lane);

/* By who has found lanes abandoned and is alone: nothing is left in their streams. Until then, or until it leaves,
 * calls that lost them do not come back. */
void tb_gate_settled(void);

/* Lets others in, if a handler takes its time, and handlers run. False: another call has had the lane since, or all of
 * them; this one's state there is gone, and nothing of it is under way. Either way the caller is inside again. */
bool tb_gate_window(int lane);

/* The child of a fork. */
void tb_gate_after_fork(void);

#endif
