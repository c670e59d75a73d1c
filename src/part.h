/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A product, or a part of one, on one GPU: cut for the memory there is, computed, and what a failure left undone.
 * Thread-safe for different devices; nothing is printed, and no device is given up here.
 */
#ifndef TB_PART_H
#define TB_PART_H

#include "pipeline.h"
#include "status.h"

struct tb_part {
  struct tb_gemm call;
  struct tb_plan plan;
  struct tb_progress progress;
  enum tb_status why;                /* TB_STATUS_gpu_sooner: it is complete; else why it is not */
  char failure[160];                 /* in words, when it is not */
  const char *kernel;                /* name of the tile in registry.def, or "thin" or "scale" */
  double up_ms, compute_ms, down_ms; /* 0 unless `timed` was asked */
};

/* Computes `call` on the device as far as that goes. `places` as for tb_offload_gemm. Nothing is under way on return.
 */
void tb_part_run(struct tb_part *part, struct tb_device *device, const struct tb_gemm *call,
                 const struct tb_places *places, bool timed);

/* Has the CPU compute what C does not have yet. `call` is the part's own, or the same with operands that the CPU
 * reaches. */
void tb_part_finish(struct tb_part *part, const struct tb_gemm *call);

/* Gives device memory back that is not to stay from call to call. */
void tb_part_tidy(struct tb_device *device);

#endif
