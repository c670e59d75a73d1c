/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lock that guards the GPUs, for threads that may not come back. A call in which a signal waits opens a window when
 * nothing of it is under way in the program's memory: handlers run there, and one that leaves by siglongjmp leaves a
 * gate that others can pass. Thread-safe. Signals are blocked while a thread is inside, but for the window.
 */
#ifndef TB_GATE_H
#define TB_GATE_H

#include <stdbool.h>

enum tb_gate {
  TB_GATE_CLEAN,
  TB_GATE_ABANDONED, /* a call left by the window for good, or stays there too long: work of its is still in streams */
  TB_GATE_BROKEN,    /* a thread left, or ended, in the midst of a call: nothing that it used can be relied on */
  TB_GATE_CLOSED     /* somebody is inside, or at the window, and was so all the time that was waited */
};

/* How long a handler may keep a window open while others wait for the GPUs. */
#define TB_GATE_PATIENCE_SECONDS 0.1

/* Waits to get in, so many seconds at most. While others are inside, the caller's signals are let through. */
enum tb_gate tb_gate_enter(double seconds);
void tb_gate_leave(void);

/* Does not wait. final: nobody will come back to the window, for the process ends or the library leaves it. */
enum tb_gate tb_gate_try(bool final);

/* Lets others in, if a handler takes its time, and handlers run. False: another call has had the GPUs since; this one's
 * state on them is gone. Either way the caller is inside again. */
bool tb_gate_window(void);

/* The child of a fork. */
void tb_gate_after_fork(void);

#endif
