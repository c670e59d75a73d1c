/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operands of a product that stay on the GPU: those of which it has a copy are read there, and those that have come
 * back are copied to stay. What goes wrong here costs the copies and nothing else. Under offload.c's lock, with the
 * device entered.
 */
#ifndef TB_KEEP_H
#define TB_KEEP_H

#include "cache/proof.h"
#include "pipeline/device.h"

/* A call as the GPU computes it. */
struct tb_keep {
  struct tb_call call; /* operands that are kept stand where their copies are */
  struct tb_ways ways;
  enum tb_proof proof[2]; /* of A, of B */
  double saved_bytes;     /* that need not go up */
  double made_bytes;      /* that have gone up, to stay */
};

/* Finds what there is of a call's operands, and proves it. CUDA_ERROR_TIMEOUT: the device hangs. */
CUresult tb_keep_begin(struct tb_keep *keep, struct tb_device *device, const struct tb_call *call, struct tb_ways ways);

/* Nothing of the call's is under way, nor will be, by what was found. */
void tb_keep_end(struct tb_device *device);

/* As if nothing was kept, nor could be; and that with the memory of what was. */
void tb_keep_nothing(struct tb_keep *keep, const struct tb_call *call, struct tb_ways ways);
void tb_keep_give_up(struct tb_keep *keep, struct tb_device *device, const struct tb_call *call, struct tb_ways ways);

static inline bool tb_keep_any(const struct tb_keep *keep) {
  return keep->proof[0] != TB_NOT_KEPT || keep->proof[1] != TB_NOT_KEPT;
}

#endif
