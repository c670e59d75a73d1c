/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/commit.h"

#include "base/integers.h"
#include "cuda/launch.h"

CUresult tb_commit_load(CUfunction *commit, CUmodule module) {
  TB_TRY(tb_cuda.cuModuleGetFunction(commit, module, "tb_sgemm_commit"));
  return CUDA_SUCCESS;
}

CUresult tb_commit_launch(CUfunction commit, struct tb_commit_args *args, CUstream stream) {
  int64_t rows = tb_ceil_div(args->m, TB_COMMIT_THREADS_M), columns = tb_ceil_div(args->n, TB_COMMIT_THREADS_N);
  void *parameters[] = {args};
  TB_TRY(tb_cuda.cuLaunchKernel(commit, (unsigned)rows, (unsigned)(columns < TB_GRID_Y_MAX ? columns : TB_GRID_Y_MAX),
                                1, TB_COMMIT_THREADS_M, TB_COMMIT_THREADS_N, 1, 0, stream, parameters, NULL));
  return CUDA_SUCCESS;
}
