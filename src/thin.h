/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels for thin products as the host sees them: loaded from the embedded fat binary, and launched as thin_plan.h
 * says. Under offload.c's lock. */
#ifndef TB_THIN_H
#define TB_THIN_H

#include "cuda_driver.h"
#include "thin_plan.h"

enum tb_thin_variant { TB_THIN_SIDE, TB_THIN_SIDE_ANY, TB_THIN_K, TB_THIN_K_ANY, TB_THIN_VARIANT_COUNT };

struct tb_thin {
  CUfunction function[TB_THIN_ROW_COUNT][TB_THIN_VARIANT_COUNT];
  struct tb_thin_limits limits;
};

/* Loads the kernels into the current context, which is the device's. Nothing is left behind on failure. */
CUresult tb_thin_load(struct tb_thin *thin, CUdevice device, CUmodule *module);

/* tb_thin_plan_make's `vectors` for this product: of args m, n, the operands, their leading dimensions and `padded`. */
bool tb_thin_vectors(bool ta, bool tb, const struct tb_sgemm_args *args);

/* The kernel of the plan's row that computes a product of so many k. */
enum tb_thin_variant tb_thin_variant_of(const struct tb_thin_plan *plan, int64_t k);

/*
 * Launches the plan of the product that `args` speaks of (a, b, d, lda, ldb, ldd, alpha, first, last; m, n and k are
 * the plan's). With plan->splits > 1 the groups' sums go to args->partials, tb_thin_partials_bytes of them, and the
 * caller launches tb_sgemm_gather with unit_k = TB_SGEMM_GROUP_K behind it. Allocates nothing.
 */
CUresult tb_thin_launch(const struct tb_thin *thin, const struct tb_thin_plan *plan, bool ta, bool tb,
                        const struct tb_sgemm_args *args, CUstream stream);

#endif
