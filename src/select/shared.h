/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the families' kernels have in common: the module of kernels/fma/sgemm.cu, in which the kernels are that several
 * of them launch; a product that is to be launched; and parts of one. Under offload.c's lock.
 */
#ifndef TB_SHARED_H
#define TB_SHARED_H

#include "common/sgemm_args.h"
#include "cuda/driver.h"
#include "fp64/fp64_args.h"
#include "select/choice.h"
#include "select/product.h"

struct tb_shared {
  CUmodule module;
  CUfunction gather; /* adds the sums of a split k */
  bool early;        /* kernels may be launched before the one ahead of them has ended */
  struct tb_sm_limits limits;
};

/* Loads them into the current context, which is one of `device`. On failure the module may be loaded. */
CUresult tb_shared_load(struct tb_shared *shared, CUdevice device);

/* Nothing may be running. Does nothing where nothing is loaded. */
void tb_shared_unload(struct tb_shared *shared);

/* A GPU's limits, as the driver has them. */
CUresult tb_sm_limits_read(struct tb_sm_limits *limits, CUdevice device);

/* ---- a launch ---- */

/* What to enqueue: op(A) op(B) in the way that was chosen. */
struct tb_launch {
  const struct tb_shared *shared;
  const struct tb_select_device *device;
  const struct tb_choice *choice;
  bool transpose_a, transpose_b;
  const struct tb_sgemm_args *args;     /* of single precision */
  struct tb_tiles_wanted wanted;        /* and what its result is wanted of; double precision's arguments say that */
  const struct tb_fp64_args *args_fp64; /* of double precision */
  bool complex;                         /* the elements, of these */
  CUdeviceptr workspace;
  CUstream stream;
};

/* The sums of a split k, behind the launch that stored them. */
CUresult tb_gather_launch(const struct tb_launch *launch, struct tb_sgemm_args *args);

/* Whether these operands may be copied 16 bytes at a time wherever they run along m or n. */
bool tb_kernels_vectors(bool transpose_a, bool transpose_b, const struct tb_sgemm_args *args);

/* Of a product, that of at most `size` along k from `start` on; it starts or continues the sum in D. */
struct tb_sgemm_args tb_kernels_part_of_k(const struct tb_sgemm_args *product, bool transpose_a, bool transpose_b,
                                          int64_t start, int64_t size);

#endif
