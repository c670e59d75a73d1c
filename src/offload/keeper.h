/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who has the GPUs, and how long they are kept: one call at a time is inside (gate.h), and what is open is given back
 * after a while without calls, and when the library is unloaded. Thread-safe, but for what wants to be inside.
 */
#ifndef TB_KEEPER_H
#define TB_KEEPER_H

#include <stdbool.h>

/* Whether a GPU may be opened in this process as it is now. Lock-free. */
bool tb_keeper_may_open(void);

/* Guards the GPUs and everything below. False: they could not be had in a time in which a call should end, whatever
 * others wait for. */
bool tb_keeper_enter(void);
void tb_keeper_leave(void);

/* Inside, when a GPU is open: sees to it that it is given back. */
void tb_keeper_begin(void);

/* Inside: a call has used them. */
void tb_keeper_touch(void);

/* The child of a fork. */
void tb_keeper_after_fork(void);

#endif
