/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/shared.h"

#include "base/integers.h"
#include "cuda/launch.h"
#include "select/embed.h"

TB_EMBED(tb_sgemm_fatbin, TB_SGEMM_FATBIN); /* kernels/fma/sgemm.cu */

/* ---- loading ---- */

CUresult tb_sm_limits_read(struct tb_sm_limits *limits, CUdevice device) {
  int block_bytes, sm_bytes;
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&limits->sm_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&block_bytes, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device));
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&sm_bytes, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, device));
  limits->block_shared_bytes = block_bytes;
  limits->sm_shared_bytes = sm_bytes;
  return CUDA_SUCCESS;
}

/* What starts early waits by an instruction of compute capability 9.0: code for less would not wait at all. */
CUresult tb_shared_load(struct tb_shared *shared, CUdevice device) {
  int compiled_for = 0;
  TB_TRY(tb_sm_limits_read(&shared->limits, device));
  TB_TRY(tb_cuda.cuModuleLoadData(&shared->module, tb_sgemm_fatbin));
  TB_TRY(tb_cuda.cuModuleGetFunction(&shared->gather, shared->module, "tb_sgemm_gather"));
  TB_TRY(tb_cuda.cuFuncGetAttribute(&compiled_for, CU_FUNC_ATTRIBUTE_PTX_VERSION, shared->gather));
  shared->early = tb_cuda.cuLaunchKernelEx != NULL && compiled_for >= 90;
  return CUDA_SUCCESS;
}

void tb_shared_unload(struct tb_shared *shared) {
  if (shared->module != NULL) tb_cuda.cuModuleUnload(shared->module);
  shared->module = NULL;
}

/* ---- launches ---- */

/* The gather's grid: a thread an element, up to as many as a device holds. */
#define GATHER_THREADS 256
#define GATHER_BLOCKS_PER_SM 4

CUresult tb_gather_launch(const struct tb_launch *launch, struct tb_sgemm_args *args) {
  int64_t blocks = (args->m * args->n + GATHER_THREADS - 1) / GATHER_THREADS;
  blocks = tb_min(blocks, (int64_t)launch->device->sm_count * GATHER_BLOCKS_PER_SM);
  return tb_launch_result(launch->shared->early, launch->shared->gather,
                          (struct tb_grid){blocks, 1, GATHER_THREADS, 0, 1}, args, NULL, launch->stream);
}

/* Four elements at a time along m or n: addresses must be multiples of 16 bytes, and the last four readable. */
static bool whole_vectors(const float *operand, int64_t ld, int64_t side, bool padded) {
  return (uintptr_t)operand % 16 == 0 && ld % 4 == 0 && (padded || side % 4 == 0);
}

bool tb_kernels_vectors(bool transpose_a, bool transpose_b, const struct tb_sgemm_args *args) {
  return (transpose_a || whole_vectors(args->a, args->lda, args->m, args->padded)) &&
         (!transpose_b || whole_vectors(args->b, args->ldb, args->n, args->padded));
}

struct tb_sgemm_args tb_kernels_part_of_k(const struct tb_sgemm_args *product, bool transpose_a, bool transpose_b,
                                          int64_t start, int64_t size) {
  struct tb_sgemm_args args = *product;
  args.a += transpose_a ? start : start * args.lda;
  args.b += transpose_b ? start * args.ldb : start;
  args.k = tb_min(size, product->k - start);
  args.first = product->first && start == 0;
  args.last = product->last && start + args.k == product->k;
  return args;
}
