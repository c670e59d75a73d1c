/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels that trmm and trsm have beside those of products (kernels/triangle/solve_args.h): loaded from the
 * embedded fat binary, launched. Under offload.c's lock. */
#ifndef TB_SOLVE_H
#define TB_SOLVE_H

#include "blas/triangular.h"
#include "cuda/driver.h"
#include "select/fp64_plan.h"
#include "triangle/solve_args.h"

/* Kernels of fp64/triangles.def. */
enum {
#define TB_FP64_TRIANGLE(letter, name, ...) TB_FP64_TRIANGLE_##letter##name,
#include "fp64/triangles.def"
#undef TB_FP64_TRIANGLE
  TB_FP64_TRIANGLE_COUNT
};
extern const int tb_fp64_triangle_tiles[TB_FP64_TRIANGLE_COUNT]; /* of each, among tb_fp64_tiles */

struct tb_solve_kernels {
  CUmodule module;
  CUfunction form[TB_TYPE_COUNT], turn[TB_TYPE_COUNT];
  CUfunction copy[TB_TYPE_COUNT], repair[TB_TYPE_COUNT];
  CUfunction corner[TB_TYPE_COUNT];               /* of floats */
  CUfunction leaf[TB_TYPE_COUNT][2][2];           /* of solves; of a lower triangle; no products in doubles */
  bool fast;                                      /* doubles are, of the device that they were loaded for */
  CUfunction triangle[TB_FP64_TRIANGLE_COUNT][2]; /* in units of 16 bytes */
};

/* Whether a type's solves are by the tensor cores of doubles. `fast`: the device's doubles are. */
static inline bool tb_solves_in_doubles(bool fast, enum tb_type type) { return fast || tb_type_is_double(type); }

/* Rows of a leaf that this device solves in doubles. */
int64_t tb_solve64_rows(const struct tb_fp64_device *device, enum tb_type type);

/* Rows of a block on the diagonal where a call is computed by halves. (A multiplication of doubles never is.) */
static inline int64_t tb_solve_leaf(const struct tb_fp64_device *device, const struct tb_call *call) {
  if (call->recipe != TB_TRIANGULAR_SOLVE || !tb_solves_in_doubles(device->fast, call->type)) return TB_TRIANGLE_LEAF;
  return tb_solve64_rows(device, call->type);
}

/* Loads the kernels into the current context, which is this device's, unless they are there. Nothing is left behind on
 * failure. */
CUresult tb_solve_load(struct tb_solve_kernels *solve, const struct tb_fp64_device *device);

/* Nothing may be running. Does nothing after a load that failed. */
void tb_solve_unload(struct tb_solve_kernels *solve);

/* Each enqueues one launch. */
CUresult tb_solve_form(const struct tb_solve_kernels *solve, enum tb_type type, struct tb_triangle_form_args *args,
                       CUstream stream);
CUresult tb_solve_turn(const struct tb_solve_kernels *solve, enum tb_type type, struct tb_triangle_turn_args *args,
                       CUstream stream);
CUresult tb_solve_leaf_launch(const struct tb_solve_kernels *solve, enum tb_type type, bool solves, bool lower,
                              struct tb_triangle_leaf_args *args, CUstream stream);
CUresult tb_solve_copy(const struct tb_solve_kernels *solve, enum tb_type type, struct tb_triangle_copy_args *args,
                       CUstream stream);
CUresult tb_solve_repair(const struct tb_solve_kernels *solve, enum tb_type type, struct tb_triangle_repair_args *args,
                         CUstream stream);
CUresult tb_solve_corner(const struct tb_solve_kernels *solve, enum tb_type type, struct tb_triangle_corner_args *args,
                         CUstream stream);

/* D = op(A) op(B) of a triangle, of doubles: `args` as tb_fp64_launch wants them, with `lower` and `unfit`; the plan's
 * tile is one of triangles.def. */
bool tb_solve_plan_triangle(struct tb_fp64_plan *plan, const struct tb_fp64_device *device,
                            const struct tb_fp64_product *product);

/* Tile columns of its bands (struct tb_fp64_args). */
int tb_solve_band(int64_t tile_columns);
CUresult tb_solve_multiply(const struct tb_solve_kernels *solve, const struct tb_fp64_plan *plan,
                           const struct tb_fp64_args *args, CUstream stream);

#endif
