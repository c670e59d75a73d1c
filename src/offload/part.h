/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A product, or a part of one, on one GPU: cut for the memory there is, computed, and what a failure left undone.
 * Thread-safe for different devices; nothing is printed, and no device is given up here.
 */
#ifndef TB_PART_H
#define TB_PART_H

#include "pipeline/pipeline.h"
#include "base/status.h"

struct tb_part {
  struct tb_call call;
  struct tb_device *device;
  struct tb_choice whole; /* as it was given */
  struct tb_plan plan;
  struct tb_progress progress;
  enum tb_status why;                /* TB_STATUS_ok: it is complete; else why it is not */
  char failure[160];                 /* in words, when it is not */
  const char *kernel;                /* name of the tile in registry.def, or "skinny" or "scale" */
  double up_ms, compute_ms, down_ms; /* 0 unless `timed` was asked */
  bool handed_out;                   /* all of the rest was */
};

/* Whether a product is for the tensor cores, and how: TB_FAMILY_EMULATED if so, when this device has the whole of it,
 * and as much memory as it likes; anything else if not. That goes for all its parts: the bits of the result shall not
 * depend on how it is shared. */
struct tb_choice tb_part_choose(struct tb_device *device, const struct tb_call *call, struct tb_ways ways);

/* What a link to a GPU was measured at, upwards: plans are made for it from the next call on. 0: not measured.
 * Lock-free. */
void tb_part_set_link(double up_bytes_per_s);
double tb_part_link(void);

/* What the kernels of such a choice reach on large products, roughly. */
double tb_part_flops_per_s(const struct tb_device *device, const struct tb_choice *whole);

/* Computes `call` on the device as far as that goes, with panels from and for other GPUs if `pass` is not NULL.
 * `whole`: of the product that it is, or is a part of, what tb_part_choose said. Nothing is under way on return, but
 * for what other GPUs fetch. */
void tb_part_run(struct tb_part *part, struct tb_device *device, const struct tb_call *call, struct tb_ways ways,
                 const struct tb_choice *whole, bool timed, struct tb_pass *pass);

/* Hands out what C does not have yet, a rectangle at a time, to be computed by others: false when there is no more. */
bool tb_part_take_rest(struct tb_part *part, struct tb_block *rest);

/* Gives device memory back that is not to stay from call to call. */
void tb_part_tidy(struct tb_device *device);

#endif
