/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The overlap of one call: panels of A and B go up, tiles of C are computed as soon as their panels are there, and
 * finished tiles come down and are committed meanwhile. Under offload.c's lock, with the device entered.
 */
#ifndef TB_PIPELINE_H
#define TB_PIPELINE_H

#include "pipeline/device.h"
#include "pipeline/exchange.h"
#include "pipeline/keep.h"
#include "pipeline/rounds.h"
#include "plan/layout.h"

/* What a call needs to know to resume where the GPU left off: columns of each tile of the current block that C already
 * has. The commit of a C in device memory counts when it is enqueued: should it fail, so does all memory there. */
struct tb_progress {
  bool committed; /* C has anything of the product: false, and the rest means nothing */
  int64_t block;  /* blocks before this one are complete */
  int64_t
      committed_columns[TB_TILES_MAX * TB_TILES_MAX]; /* of the current block's tiles, by row, then column of tiles */
  double up_bytes, down_bytes;
};

/* Runs the whole product. Panels of an operand that `pass` shares come from other GPUs or go to them; NULL: of none.
 * keep: of what was kept, which may have yet to be proven; NULL: of nothing. On failure *progress tells what is
 * committed; copies may still be under way. */
CUresult tb_pipeline_run(struct tb_device *device, const struct tb_call *call, const struct tb_plan *plan,
                         const struct tb_choice *choice, bool timed, struct tb_pass *pass, struct tb_keep *keep,
                         struct tb_progress *progress);

/* C = beta C, where C is in place and there is nothing to multiply. */
CUresult tb_pipeline_scale(struct tb_device *device, const struct tb_call *call, struct tb_progress *progress);

#endif
