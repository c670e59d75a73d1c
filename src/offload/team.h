/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A call on several GPUs: shared out (share.h), each part driven by a thread of its own in the way of a single GPU
 * (part.h, batch.c), and of a product panels of the operand that all want passed between them (exchange.h). The result
 * has the bits of one GPU's. Under offload.c's lock; gives nothing up.
 */
#ifndef TB_TEAM_H
#define TB_TEAM_H

#include "offload/gpus.h"
#include "offload/part.h"

/* The GPUs of a team that have a part, the members, and a run of what is shared for each. */
struct tb_team_cut {
  int members;
  struct tb_device *device[TB_GPUS_MAX];
  struct tb_pace *pace[TB_GPUS_MAX];
  int64_t first[TB_GPUS_MAX], size[TB_GPUS_MAX];
  struct tb_gpus_team team;
};

/* Cuts `side` in whole pieces of so many elements, as fast as the GPUs were. */
void tb_team_cut(struct tb_team_cut *cut, const struct tb_gpus_team *team, int64_t side, int64_t piece);

/* Has each member's part driven by a thread of its own, all at once: `drive` does all of it, and returns how much that
 * was, in any unit; 0: it was not completed. What each took counts for the next call's shares. */
typedef double tb_team_drive(void *context, int member, struct tb_device *device);
void tb_team_run(const struct tb_team_cut *cut, tb_team_drive *drive, void *context);

/* Adds a GPU to the text of an outcome's: "0", then "0+1". */
void tb_team_name(char *text, size_t size, size_t *length, const struct tb_device *device);

/*
 * Computes the call, of which nothing lies in device or managed memory and C is large enough to be cut, in
 * parts[0 .. count - 1], of which there must be room for team->count. Returns how many parts there are. Each may have
 * failed for itself; nothing is under way on any GPU. may_keep: operands may stay on the GPUs.
 */
int tb_team_compute(struct tb_part *parts, const struct tb_gpus_team *team, const struct tb_call *call,
                    const struct tb_places *places, bool timed, bool may_keep);

#endif
