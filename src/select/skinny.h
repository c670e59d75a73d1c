/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels for thin products as the host sees them: loaded from the embedded fat binary, and launched as
 * skinny_plan.h says. Under offload.c's lock. */
#ifndef TB_SKINNY_H
#define TB_SKINNY_H

#include "select/shared.h"
#include "select/skinny_plan.h"

enum tb_skinny_variant { TB_SKINNY_SIDE, TB_SKINNY_SIDE_ANY, TB_SKINNY_K, TB_SKINNY_K_ANY, TB_SKINNY_VARIANT_COUNT };

struct tb_skinny {
  CUfunction function[TB_SKINNY_ROW_COUNT][TB_SKINNY_VARIANT_COUNT];
  struct tb_sm_limits limits;
  CUmodule module;
};

/* Loads the kernels into the current context, which is the device's. Nothing is left behind on failure. */
CUresult tb_skinny_load(struct tb_skinny *skinny, CUdevice device);

/* Nothing may be running. Does nothing after a load that failed. */
void tb_skinny_unload(struct tb_skinny *skinny);

/* tb_skinny_plan_make's `vectors` for this product: of args m, n, the operands, their leading dimensions and `padded`.
 */
bool tb_skinny_vectors(bool ta, bool tb, const struct tb_sgemm_args *args);

/* The kernel of the plan's row that computes a product of so many k. */
enum tb_skinny_variant tb_skinny_variant_of(const struct tb_skinny_plan *plan, int64_t k);

/*
 * Launches the plan of the product that `args` speaks of (a, b, d, lda, ldb, ldd, alpha, first, last; m, n and k are
 * the plan's). With plan->splits > 1 the groups' sums go to args->partials, tb_skinny_partials_bytes of them, and the
 * caller launches tb_sgemm_gather with unit_k = TB_SGEMM_GROUP_K behind it. Allocates nothing.
 */
CUresult tb_skinny_launch_plan(const struct tb_skinny *skinny, const struct tb_skinny_plan *plan, bool ta, bool tb,
                               const struct tb_sgemm_args *args, CUstream stream);

/* The quickest plan, and the gather if it splits k: one launch, or two. */
CUresult tb_skinny_launch(const struct tb_skinny *skinny, const struct tb_launch *launch);

#endif
