/* SPDX-License-Identifier: BSD-3-Clause */
/* The commit of a triangle of a C that lies where the GPU computes, and panels of a matrix of which a triangle is
 * stored (kernels/triangle/triangle_args.h): loaded from the embedded fat binary, launched. Under offload.c's lock. */
#ifndef TB_TRIANGLE_H
#define TB_TRIANGLE_H

#include "blas/type.h"
#include "cuda/driver.h"
#include "triangle/triangle_args.h"

struct tb_triangle_kernels {
  CUmodule module;
  CUfunction commit[TB_TYPE_COUNT], mirror[TB_TYPE_COUNT];
};

/* Loads the kernels into the current context, unless they are there. Nothing is left behind on failure. */
CUresult tb_triangle_load(struct tb_triangle_kernels *triangle);

/* Nothing may be running. Does nothing after a load that failed. */
void tb_triangle_unload(struct tb_triangle_kernels *triangle);

/* Enqueues one launch. */
CUresult tb_triangle_commit(const struct tb_triangle_kernels *triangle, enum tb_type type,
                            struct tb_triangle_commit_args *args, CUstream stream);
CUresult tb_triangle_mirror(const struct tb_triangle_kernels *triangle, enum tb_type type,
                            struct tb_triangle_mirror_args *args, CUstream stream);

#endif
