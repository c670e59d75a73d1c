/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/skinny.h"

#include <stdio.h>

#include "cuda/launch.h"
#include "select/embed.h"

TB_EMBED(tb_skinny_fatbin, TB_SKINNY_FATBIN); /* kernels/skinny/skinny.cu */

static CUresult load_skinny_functions(struct tb_skinny *skinny) {
  static const char *const names[TB_SKINNY_VARIANT_COUNT] = {"tb_skinny_side_%d", "tb_skinny_side_%d_any",
                                                             "tb_skinny_k_%d", "tb_skinny_k_%d_any"};
  for (int row = 0; row < TB_SKINNY_ROW_COUNT; row++)
    for (int variant = 0; variant < TB_SKINNY_VARIANT_COUNT; variant++) {
      char name[32];
      snprintf(name, sizeof name, names[variant], tb_skinny_rows[row].columns);
      CUfunction *function = &skinny->function[row][variant];
      TB_TRY(tb_cuda.cuModuleGetFunction(function, skinny->module, name));
      TB_TRY(tb_cuda.cuFuncSetAttribute(*function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                        (int)skinny->limits.block_shared_bytes));
    }
  return CUDA_SUCCESS;
}

CUresult tb_skinny_load(struct tb_skinny *skinny, CUdevice device) {
  TB_TRY(tb_sm_limits_read(&skinny->limits, device));
  TB_TRY(tb_cuda.cuModuleLoadData(&skinny->module, tb_skinny_fatbin));
  CUresult result = load_skinny_functions(skinny);
  if (result != CUDA_SUCCESS) tb_skinny_unload(skinny);
  return result;
}

void tb_skinny_unload(struct tb_skinny *skinny) {
  if (skinny->module != NULL) tb_cuda.cuModuleUnload(skinny->module);
  skinny->module = NULL;
}

bool tb_skinny_vectors(bool ta, bool tb, const struct tb_sgemm_args *args) {
  const bool exchanged = args->m < args->n, along_k = exchanged ? !tb : ta;
  const float *x = exchanged ? args->b : args->a;
  const int64_t ld = exchanged ? args->ldb : args->lda, side = exchanged ? args->n : args->m;
  return (uintptr_t)x % 16 == 0 && ld % 4 == 0 && (along_k || args->padded || side % 4 == 0);
}

enum tb_skinny_variant tb_skinny_variant_of(const struct tb_skinny_plan *plan, int64_t k) {
  if (plan->along_k) return plan->vectors && k % 4 == 0 ? TB_SKINNY_K : TB_SKINNY_K_ANY;
  return plan->vectors ? TB_SKINNY_SIDE : TB_SKINNY_SIDE_ANY;
}

CUresult tb_skinny_launch_plan(const struct tb_skinny *skinny, const struct tb_skinny_plan *plan, bool ta, bool tb,
                               const struct tb_sgemm_args *args, CUstream stream) {
  struct tb_skinny_args arguments;
  tb_skinny_arguments(&arguments, plan, ta, tb, args);
  const CUfunction function = skinny->function[plan->row][tb_skinny_variant_of(plan, args->k)];
  const struct tb_grid grid = {plan->blocks, plan->splits, plan->threads, plan->shared_bytes, 1};
  return plan->splits == 1 ? tb_launch_result(false, function, grid, &arguments, NULL, stream)
                           : tb_launch_behind(false, function, grid, &arguments, NULL, stream);
}

CUresult tb_skinny_launch(const struct tb_skinny *skinny, const struct tb_launch *l) {
  struct tb_sgemm_args args = *l->args;
  struct tb_skinny_plan plan;
  const bool ta = l->transpose_a, tb = l->transpose_b;
  const int64_t room = l->choice->skinny.splits > 1 ? INT64_MAX : 0; /* when it was chosen, there was enough */
  if (!tb_skinny_plan_make(&plan, &skinny->limits, ta, tb, args.m, args.n, args.k, tb_skinny_vectors(ta, tb, &args),
                           room))
    return CUDA_ERROR_INVALID_VALUE;
  args.partials = plan.splits > 1 ? (float *)l->workspace : NULL;
  args.unit_k = args.group_k = TB_SGEMM_GROUP_K;
  TB_TRY(tb_skinny_launch_plan(skinny, &plan, ta, tb, &args, l->stream));
  return plan.splits > 1 ? tb_gather_launch(l, &args) : CUDA_SUCCESS;
}
