/* SPDX-License-Identifier: BSD-3-Clause */
/* Which GPU a call is for, and what becomes of one that fails: what all kinds of calls have in common. Under
 * offload.c's lock, but for what says that it is lock-free. */
#ifndef TB_REACH_H
#define TB_REACH_H

#include "base/status.h"
#include "cuda/allowed.h"
#include "cuda/place.h"
#include "pipeline/device.h"

/* Whether the driver would refuse whatever this thread wants. It may wait for the end of a callback with our lock in
 * hand, so that is to be known before the lock is taken. Lock-free. */
bool tb_reach_is_in_callback(void);

/* Whether an operand lies in memory of a GPU's, or in managed memory. Lock-free. */
bool tb_reach_uses_gpu(const struct tb_places *places);

/* The GPU that computes alone: the one in whose memory operands lie, if they do in any. is_for_large: should it be
 * opened, a call follows of which much goes by slots. NULL: for the reason given. */
struct tb_device *tb_reach_find(const struct tb_places *places, bool is_for_large, enum tb_status *why);

/* Says what happened, in one line, and decides whether this GPU is to be used again: memory may be free again later,
 * any other failure may have left the context broken. */
void tb_reach_give_up(struct tb_device *device, const char *failure, enum tb_status why);

/* The GPUs that failed in a call. */
struct tb_reach_failed {
  int count;
  const struct tb_device *device[TB_GPUS_MAX];
};
void tb_reach_note(struct tb_reach_failed *failed, const struct tb_device *device);

/* A GPU that is open and did not; NULL: there is none. */
struct tb_device *tb_reach_survivor(const struct tb_reach_failed *failed);

/* Why a driver's result kept a call from being completed. */
enum tb_status tb_reach_why(CUresult result);

#endif
