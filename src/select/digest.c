/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/digest.h"

#include "base/integers.h"
#include "cuda/launch.h"

/* As many as there is room for at once. */
#define DIGEST_BLOCKS_PER_SM 16

CUresult tb_digest_load(CUfunction *digest, CUmodule module) {
  TB_TRY(tb_cuda.cuModuleGetFunction(digest, module, "tb_digest"));
  return CUDA_SUCCESS;
}

CUresult tb_digest_launch(CUfunction digest, int sm_count, struct tb_digest_args *args, CUstream stream) {
  void *parameters[] = {args};
  const int64_t blocks = tb_min(args->count, (int64_t)sm_count * DIGEST_BLOCKS_PER_SM);
  TB_TRY(tb_cuda.cuLaunchKernel(digest, (unsigned)blocks, 1, 1, TB_DIGEST_THREADS, 1, 1, 0, stream, parameters, NULL));
  return CUDA_SUCCESS;
}
