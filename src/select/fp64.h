/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels for double precision as the host sees them (kernels/fp64/): loaded from the embedded fat binaries, one
 * for real elements and one for complex ones, and launched as fp64_plan.h says. Under offload.c's lock. */
#ifndef TB_FP64_H
#define TB_FP64_H

#include "cuda/driver.h"
#include "select/fp64_way.h"
#include "select/shared.h"

struct tb_fp64_kernels {
  CUmodule module[2];                           /* for real and for complex elements */
  CUfunction tile[TB_FP64_TILE_COUNT][2][2][2]; /* [A transposed][B transposed][in units] */
  CUfunction gather[TB_FP64_TILE_COUNT], commit;
  struct tb_fp64_device device;
  bool early[2]; /* likewise: a gather may start before the kernel ahead has ended */
};

/* What plans ask of a device. Loads nothing. */
CUresult tb_fp64_look(struct tb_fp64_kernels *fp64, CUdevice device);

/* Loads the kernels for these elements into the current context, which is that device's, unless they are there. Nothing
 * is left behind on failure. */
CUresult tb_fp64_load(struct tb_fp64_kernels *fp64, bool complex);

/* Nothing may be running. Does nothing after a load that failed. */
void tb_fp64_unload(struct tb_fp64_kernels *fp64);

/* Both operands of a product can be copied 16 bytes at a time: they and their columns are aligned, and of reals what
 * runs along their memory, sides or k, is even. */
bool tb_fp64_in_units(bool complex, bool transpose_a, bool transpose_b, const struct tb_fp64_args *args);

/*
 * Launches the plan of the product that `args` speaks of (a, b, d, lda, ldb, ldd, alpha, first, last, and of complex
 * elements alpha_im and conjugate_a and _b; the rest is the plan's). The workspace has room for plan->partials_bytes,
 * aligned to 16 bytes. Allocates nothing.
 */
CUresult tb_fp64_launch(const struct tb_fp64_kernels *fp64, const struct tb_fp64_plan *plan, bool transpose_a,
                        bool transpose_b, const struct tb_fp64_args *args, CUdeviceptr workspace, CUstream stream);

/* The same of a product in pieces, each with all of the workspace; of one that is wanted as a whole, or in one piece.
 */
CUresult tb_fp64_launch_cut(const struct tb_fp64_kernels *fp64, const struct tb_fp64_cut *cut, bool transpose_a,
                            bool transpose_b, const struct tb_fp64_args *args, CUdeviceptr workspace, CUstream stream);

/* In the way that was chosen: of each piece one launch, or two. */
CUresult tb_fp64_launch_chosen(const struct tb_fp64_kernels *fp64, const struct tb_launch *launch);

/* C = D + beta C; with args->d NULL, C = beta C. */
CUresult tb_fp64_commit(const struct tb_fp64_kernels *fp64, struct tb_fp64_commit_args *args, CUstream stream);

#endif
