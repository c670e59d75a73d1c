/* SPDX-License-Identifier: BSD-3-Clause */
/* The production kernels as the host sees them: loaded from the embedded fat binary, chosen (select.h), launched. Under
 * offload.c's lock. */
#ifndef TB_KERNELS_H
#define TB_KERNELS_H

#include "cuda/driver.h"
#include "base/options.h"
#include "select/select.h"
#include "select/emulated.h"
#include "select/skinny.h"

struct tb_kernels {
  CUfunction function[TB_TILE_COUNT][2][2][2]; /* [tile][A transposed][B transposed][any alignment] */
  CUfunction gather;                           /* adds the sums of a split k */
  CUfunction pack;                             /* packs operands for the tiles that want them packed */
  bool early;                                  /* kernels may be launched before the one ahead of them has ended */
  struct tb_skinny skinny;
  struct tb_emulated_kernels emulated;
  struct tb_select_device device;
  CUmodule module, skinny_module;
};

/* Loads the kernels into the current context, which is one of `device`. Nothing is left behind on failure. */
CUresult tb_kernels_load(struct tb_kernels *kernels, CUdevice device);

/* Nothing may be running. Does nothing after a load that failed. */
void tb_kernels_unload(struct tb_kernels *kernels);

/* Whether these operands may be copied 16 bytes at a time wherever they run along m or n. */
bool tb_kernels_vectors(bool transpose_a, bool transpose_b, const struct tb_sgemm_args *args);

/* tb_select for a product as it will be launched. Of args the sizes, operands and leading dimensions are looked at. */
struct tb_choice tb_kernels_choose(const struct tb_kernels *kernels, bool transpose_a, bool transpose_b,
                                   const struct tb_sgemm_args *args, int64_t workspace_bytes,
                                   enum tb_precision precision);

/* Of a product, that of at most `size` along k from `start` on; it starts or continues the sum in D. */
struct tb_sgemm_args tb_kernels_part_of_k(const struct tb_sgemm_args *product, bool transpose_a, bool transpose_b,
                                          int64_t start, int64_t size);

/*
 * Enqueues a product in the way that was chosen, for the same sizes or smaller ones: one launch, one more for each time
 * that operands are packed, and one with a split k whose parts are no clusters (choice.h); on the tensor cores five for
 * each span, and one with a split k. `workspace`, aligned to 128 bytes, has room for tb_workspace_bytes; it is in use
 * until the stream has come past. Allocates nothing.
 */
CUresult tb_kernels_launch(const struct tb_kernels *kernels, const struct tb_choice *choice, bool transpose_a,
                           bool transpose_b, const struct tb_sgemm_args *args, CUdeviceptr workspace, CUstream stream);

#endif
