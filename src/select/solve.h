/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels that trmm and trsm have beside those of products (kernels/triangle/solve_args.h): loaded from the
 * embedded fat binary, launched. Under offload.c's lock. */
#ifndef TB_SOLVE_H
#define TB_SOLVE_H

#include "blas/type.h"
#include "cuda/driver.h"
#include "triangle/solve_args.h"

struct tb_solve_kernels {
  CUmodule module;
  CUfunction form[TB_TYPE_COUNT], turn[TB_TYPE_COUNT];
  CUfunction leaf[TB_TYPE_COUNT][2][2]; /* of solves; of a lower triangle */
};

/* Rows of a block on the diagonal. */
static inline int64_t tb_solve_leaf(enum tb_type type) {
  return type == TB_Z ? TB_TRIANGLE_LEAF(8, 2) : TB_TRIANGLE_LEAF(4, 1);
}

/* Loads the kernels into the current context, unless they are there. Nothing is left behind on failure. */
CUresult tb_solve_load(struct tb_solve_kernels *solve);

/* Nothing may be running. Does nothing after a load that failed. */
void tb_solve_unload(struct tb_solve_kernels *solve);

/* Each enqueues one launch. */
CUresult tb_solve_form(const struct tb_solve_kernels *solve, enum tb_type type, struct tb_triangle_form_args *args,
                       CUstream stream);
CUresult tb_solve_turn(const struct tb_solve_kernels *solve, enum tb_type type, struct tb_triangle_turn_args *args,
                       CUstream stream);
CUresult tb_solve_leaf_launch(const struct tb_solve_kernels *solve, enum tb_type type, bool solves, bool lower,
                              struct tb_triangle_leaf_args *args, CUstream stream);

#endif
