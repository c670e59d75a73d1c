/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The small products of a batch on one GPU. From ordinary memory: products are packed into slots, as many as fit, and a
 * slot goes up by one copy, is computed by one launch for each kernel that its products want, and comes down by one
 * copy; the ring of slots overlaps all of it with the threads' packing and committing:
 *
 *      [committed]  threads commit  [arrived]  GPU: up, launches, down  [sent]  threads pack  [begun]
 *
 * On the GPU: a list goes up, and is computed where the operands lie. Under offload.c's lock, with the device entered.
 */
#ifndef TB_PIPELINE_BATCH_H
#define TB_PIPELINE_BATCH_H

#include "blas/batch.h"
#include "pipeline/pipeline.h"

/* The products [first, end) of a batch on one GPU. */
struct tb_batch_progress {
  unsigned char *state; /* of each product of the batch: enum tb_batch_state; of others nothing is read or written */
  int64_t first, end;
  bool committed; /* any was, here */
  double up_bytes, down_bytes;
};

/* Whether a product can be packed. */
bool tb_batch_fits(const struct tb_call *call);

/* Both compute those products that have their state. On failure what is not done keeps its state; copies may still be
 * under way.
 */
CUresult tb_batch_run_staged(struct tb_device *device, const struct tb_batch *batch, bool timed,
                             struct tb_batch_progress *progress);
CUresult tb_batch_run_in_place(struct tb_device *device, const struct tb_batch *batch, bool timed,
                               struct tb_batch_progress *progress);

#endif
