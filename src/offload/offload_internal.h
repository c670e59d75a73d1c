/* SPDX-License-Identifier: BSD-3-Clause */
/* What a product and a batch of them share on their way to a GPU. The latter two with the gate ours (keeper.h). */
#ifndef TB_OFFLOAD_INTERNAL_H
#define TB_OFFLOAD_INTERNAL_H

#include "base/status.h"
#include "cuda/place.h"
#include "pipeline/device.h"

/* Whether the driver would refuse whatever this thread wants: to be asked before the gate is waited for. */
bool tb_offload_is_in_callback(void);

/* The GPU that computes alone: the one in whose memory operands lie, if they do in any; places NULL: they do not.
 * NULL: for the reason given. */
struct tb_device *tb_offload_find_device(const struct tb_places *places, enum tb_status *why);

/* Says what happened, in one line, and decides whether this GPU is to be used again. */
void tb_offload_give_up(struct tb_device *device, const char *failure, enum tb_status why);

#endif
