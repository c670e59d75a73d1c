/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One product on several GPUs: shared out (share.h), each part driven by a thread of its own in the way of a single GPU
 * (part.h), panels of the operand that all want passed between them (exchange.h). The result has the bits of one GPU's.
 * Under offload.c's lock; gives nothing up.
 */
#ifndef TB_TEAM_H
#define TB_TEAM_H

#include "offload/gpus.h"
#include "offload/part.h"

/*
 * Computes the call, of which nothing lies in device or managed memory and C is large enough to be cut, in
 * parts[0 .. count - 1], of which there must be room for team->count. Returns how many parts there are. Each may have
 * failed for itself; nothing is under way on any GPU.
 */
int tb_team_run(struct tb_part *parts, const struct tb_gpus_team *team, const struct tb_call *call,
                const struct tb_places *places, bool timed);

#endif
