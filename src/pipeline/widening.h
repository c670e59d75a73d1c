/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slots that a ring has earned, had beside calls: for 16 MiB of pinned memory the driver takes 6 to 11 ms, as long
 * as a call of 8192 cubed, and lets nobody else in meanwhile. So it is memory of the process, that a thread of ours has
 * touched, and which the driver only registers: 0.3 ms for two slots, of 2.6 (H100; bench/results/studies.md). They are
 * ordered when the call that earned them is over, or, of a GPU's first call, when it begins; pinned by a thread of ours
 * that has neither gate nor lane, and taken by a later call when it begins. Nobody waits for that, but for who ends the
 * process or unloads the library. An order has a reference to the GPU's context, so that the GPU may be closed
 * meanwhile. Thread-safe; each ring is one call's at a time.
 */
#ifndef TB_WIDENING_H
#define TB_WIDENING_H

#include <stdbool.h>

#include "pipeline/ring.h"

/* What goes by a ring before it asks again for slots that were refused. */
#define TB_WIDENING_PATIENCE_BYTES ((double)((int64_t)1 << 30))

/* A ring is to have so many slots. */
void tb_widening_earn(struct tb_ring *ring, int slots);

/* Behind a call: orders what a ring of this GPU has earned and lacks. */
void tb_widening_order(struct tb_ring *ring, CUdevice gpu, CUcontext context);

/* Before a call: the ring has what has come. Where it could not be had, the ring keeps the slots that it has, and earns
 * the others anew. */
void tb_widening_take(struct tb_ring *ring);

/* The ring is about to close; with the device entered, if that can be. */
void tb_widening_cancel(struct tb_ring *ring);

/* Gives back a part of the slots that came, with the device entered; `memory`: its first slot. */
void tb_widening_give_back(void *memory);

/* For the end of the process, before the driver's: waits until all that is ordered is pinned, two seconds at most.
 * False: something still is not. */
bool tb_widening_settle(void);

/* Whether there is a thread that pins. */
bool tb_widening_has_begun(void);

/* The library leaves the process, alone: the same, and the thread ends. */
void tb_widening_end(void);

/* The child of a fork. */
void tb_widening_after_fork(void);

#endif
