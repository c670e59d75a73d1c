/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * C = D + beta * C where C lies on the GPU, see commit_args.h. Bound by memory: a warp moves 32 neighbouring words of a
 * column, and a thread's column advances by the grid's columns. Part of sgemm.cu's fat binary.
 */
#include "fma/commit_args.h"
#include "common/device.cuh"

extern "C" __global__ void __launch_bounds__(TB_COMMIT_THREADS_M *TB_COMMIT_THREADS_N)
    tb_sgemm_commit(const tb_commit_args args) {
  const int64_t i = blockIdx.x * static_cast<int64_t>(TB_COMMIT_THREADS_M) + threadIdx.x;
  if (i >= args.m) return;
  const int64_t step = static_cast<int64_t>(gridDim.y) * TB_COMMIT_THREADS_N;
  for (int64_t j = blockIdx.y * static_cast<int64_t>(TB_COMMIT_THREADS_N) + threadIdx.y; j < args.n; j += step) {
    float *const c = args.c + i + j * args.ldc;
    /* Contracted to an FMA, it would have other bits than the host's commit. */
    const float kept = args.beta == 0 ? 0 : __fmul_rn(args.beta, *c);
    if (args.d == nullptr) {
      *c = kept;
    } else {
      const float sum = args.d[i + j * args.ldd];
      *c = args.beta == 0 ? sum : __fadd_rn(sum, kept);
    }
  }
}
