/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lanes of a GPU: what calls that are on it at once have of their own, and what they have in common. Lane 0 is the
 * GPU's struct tb_device, which alone has the context's reference and the modules; a further lane is opened when a call
 * is the first to find those below it taken, and closed when the GPU has not been used for a while. The gate says who
 * has a lane, and who is alone. Thread-safe, but for what wants to be alone.
 *
 * Turns. The link takes one way up at full speed, or two at half of it. So of larger calls one goes up at a time, from
 * its first piece to its last, while the one before it is computed and comes down. A turn is a courtesy: nothing breaks
 * without it, and from one that does nothing with it, as while a handler runs, it is taken after a while.
 */
#ifndef TB_LANES_H
#define TB_LANES_H

#include <pthread.h>
#include <stdatomic.h>

#include "pipeline/device.h"
#include "process/entry.h"

struct tb_upward {
  atomic_int lane;   /* whose turn it is, plus 1; 0: nobody's */
  atomic_uint alive; /* counts what is done with it */
};

struct tb_lanes {
  pthread_mutex_t loading;           /* kernels that are not wanted from the beginning, into lane 0 */
  pthread_mutex_t memory;            /* who needs more for an arena, or opens a lane, holds this */
  struct tb_device *of[TB_LANES];    /* NULL, or a lane that is open: guarded by `memory`, but for a lane's own call */
  struct tb_device *spare[TB_LANES]; /* room for one, once it was had: a call that lost its lane at a window may look */
  atomic_int further;                /* that are open, lane 0 not counted */
  bool refused;                      /* there was no memory for a lane */
  struct tb_upward turn;
};

/* Of a GPU that was opened. */
void tb_lanes_begin(struct tb_lanes *lanes, struct tb_device *gpu);

/* The device of a lane that is the caller's, for a call beside others, opened if need be. NULL: it cannot be had. */
struct tb_device *tb_lanes_device(struct tb_lanes *lanes, int lane);

/* Has lane 0 for a call that is alone. */
void tb_lanes_be_alone(struct tb_lanes *lanes);

/* Gives back all but lane 0; the caller is alone. False: one hangs, and stays. */
bool tb_lanes_close(struct tb_lanes *lanes);

/* The same, if there is any, and lane 0's arena. */
void tb_lanes_give_back(struct tb_lanes *lanes);

/* Waits for what an abandoned call left in a lane's streams; the copies that it had are anybody's then. */
void tb_lanes_settle(struct tb_lanes *lanes, int lane);

/* With the library about to leave: and the room for them. */
void tb_lanes_end(struct tb_lanes *lanes);

/* No result of the driver's: beside others a call does not find the memory that it has alone. */
#define TB_CROWDED ((CUresult)-2)

/* For who may need a larger arena: nobody else gets any memory meanwhile. False: that was not to be had before long.
 * And whether there are others that have some. */
bool tb_lanes_hold_memory(struct tb_lanes *lanes);
void tb_lanes_release_memory(struct tb_lanes *lanes);
bool tb_lanes_are_open(const struct tb_lanes *lanes);

/* Loads what a product of this type wants besides; triangle: for a triangle's commit or an operand that is formed.
 * TB_CROWDED: somebody else loads, and does not come to an end. With the device entered. */
CUresult tb_lanes_load(struct tb_device *device, enum tb_type type, bool triangle);

/* ---- turns ---- */

/* A call's wait for its turn. */
struct tb_upward_wait {
  bool wanted, had;
  unsigned alive; /* as it was seen last, and when that changed */
  double since;
};

/* Whether it is the call's turn, from now on if it can be. */
bool tb_upward_is_ours(struct tb_device *device, struct tb_upward_wait *wait);

/* Something was done with it; and nothing will be any more. */
void tb_upward_used(struct tb_device *device, const struct tb_upward_wait *wait);
void tb_upward_end(struct tb_device *device, struct tb_upward_wait *wait);

#endif
