/* SPDX-License-Identifier: BSD-3-Clause */
/* Double-precision products of real elements: gemm.cuh by the tiles of tiles.def; and their commit. */
#include "fp64/gemm.cuh"

#define TB_DGEMM_TILE_d(name, ...) TB_FP64_KERNELS(tb_dgemm, name, fp64::Real, __VA_ARGS__)
#define TB_DGEMM_TILE_z(...)
#define TB_FP64_TILE(letter, ...) TB_DGEMM_TILE_##letter(__VA_ARGS__)
#include "fp64/tiles.def"
#undef TB_FP64_TILE

/* C = D + beta * C where C lies on the GPU: a warp moves 32 neighbouring elements of a column. */
extern "C" __global__ void __launch_bounds__(TB_FP64_COMMIT_THREADS_M *TB_FP64_COMMIT_THREADS_N)
    tb_dgemm_commit(const tb_fp64_commit_args args) {
  const int64_t i = blockIdx.x * static_cast<int64_t>(TB_FP64_COMMIT_THREADS_M) + threadIdx.x;
  if (i >= args.m) return;
  const int64_t step = static_cast<int64_t>(gridDim.y) * TB_FP64_COMMIT_THREADS_N;
  for (int64_t j = blockIdx.y * static_cast<int64_t>(TB_FP64_COMMIT_THREADS_N) + threadIdx.y; j < args.n; j += step) {
    double *const c = args.c + i + j * args.ldc;
    /* Contracted to an FMA, it would have other bits than the host's commit. */
    const double kept = args.beta == 0 ? 0 : __dmul_rn(args.beta, *c);
    if (args.d == nullptr) {
      *c = kept;
    } else {
      const double sum = args.d[i + j * args.ldd];
      *c = args.beta == 0 ? sum : __dadd_rn(sum, kept);
    }
  }
}
