/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/skinny.h"

#include <stdio.h>

#include "select/embed.h"

TB_EMBED(tb_skinny_fatbin, TB_SKINNY_FATBIN); /* kernels/skinny/skinny.cu */

static CUresult read_limits(struct tb_skinny_limits *limits, CUdevice device) {
  int block_bytes, sm_bytes;
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&limits->sm_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&block_bytes, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device));
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&sm_bytes, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, device));
  limits->block_shared_bytes = block_bytes;
  limits->sm_shared_bytes = sm_bytes;
  return CUDA_SUCCESS;
}

static CUresult load_functions(struct tb_skinny *skinny, CUmodule module) {
  static const char *const names[TB_SKINNY_VARIANT_COUNT] = {"tb_skinny_side_%d", "tb_skinny_side_%d_any",
                                                             "tb_skinny_k_%d", "tb_skinny_k_%d_any"};
  for (int row = 0; row < TB_SKINNY_ROW_COUNT; row++)
    for (int variant = 0; variant < TB_SKINNY_VARIANT_COUNT; variant++) {
      char name[32];
      snprintf(name, sizeof name, names[variant], tb_skinny_rows[row].columns);
      CUfunction *function = &skinny->function[row][variant];
      TB_TRY(tb_cuda.cuModuleGetFunction(function, module, name));
      TB_TRY(tb_cuda.cuFuncSetAttribute(*function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                        (int)skinny->limits.block_shared_bytes));
    }
  return CUDA_SUCCESS;
}

CUresult tb_skinny_load(struct tb_skinny *skinny, CUdevice device, CUmodule *module) {
  TB_TRY(read_limits(&skinny->limits, device));
  TB_TRY(tb_cuda.cuModuleLoadData(module, tb_skinny_fatbin));
  CUresult result = load_functions(skinny, *module);
  if (result != CUDA_SUCCESS) {
    tb_cuda.cuModuleUnload(*module);
    *module = NULL;
  }
  return result;
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

CUresult tb_skinny_launch(const struct tb_skinny *skinny, const struct tb_skinny_plan *plan, bool ta, bool tb,
                          const struct tb_sgemm_args *args, CUstream stream) {
  struct tb_skinny_args arguments;
  tb_skinny_arguments(&arguments, plan, ta, tb, args);
  void *parameters[] = {&arguments};
  TB_TRY(tb_cuda.cuLaunchKernel(skinny->function[plan->row][tb_skinny_variant_of(plan, args->k)],
                                (unsigned)plan->blocks, (unsigned)plan->splits, 1, (unsigned)plan->threads, 1, 1,
                                (unsigned)plan->shared_bytes, stream, parameters, NULL));
  return CUDA_SUCCESS;
}
