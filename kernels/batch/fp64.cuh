/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many small products in double precision by one launch, see batch_args.h: fp64/gemm.cuh, where a row of blocks has one
 * product of the list, and a block of it one tile. What gemm.cuh reads of its arguments lies in shared memory here.
 */
#ifndef TB_BATCH_FP64_CUH
#define TB_BATCH_FP64_CUH

#include "batch/batch_args.h"
#include "fp64/gemm.cuh"

namespace fp64 {
namespace {

/* Fills in `own` and returns true; false: the block has no tile. */
template <class G> __device__ __forceinline__ bool takes_tile(const tb_batch_args &args, tb_fp64_args &own) {
  const tb_batch_product &p = args.products[blockIdx.y];
  const int down = (p.m + G::block_m - 1) / G::block_m, across = (p.n + G::block_n - 1) / G::block_n;
  if (blockIdx.x >= static_cast<unsigned>(down * across)) return false;
  if (threadIdx.x == 0) {
    const uintptr_t base = reinterpret_cast<uintptr_t>(args.base);
    own = {};
    own.a = reinterpret_cast<const double *>(base + static_cast<uintptr_t>(p.a));
    own.b = reinterpret_cast<const double *>(base + static_cast<uintptr_t>(p.b));
    own.d = reinterpret_cast<double *>(base + static_cast<uintptr_t>(p.d));
    own.lda = p.lda, own.ldb = p.ldb, own.ldd = p.ldd;
    own.m = p.m, own.n = p.n, own.k = p.k;
    own.alpha = p.alpha[0], own.alpha_im = p.alpha[1];
    own.conjugate_a = p.conjugate_a, own.conjugate_b = p.conjugate_b;
    own.group_k = p.group_k;
    own.whole = down * across, own.jobs = static_cast<uint32_t>(down * across);
    own.groups_per_split = (p.k + p.group_k - 1) / p.group_k;
    own.first = own.last = 1;
  }
  __syncthreads();
  return true;
}

template <class G, bool AlongKA, bool AlongKB, bool Whole>
__device__ __forceinline__ void multiply_of_batch(const tb_batch_args &args) {
  __shared__ tb_fp64_args own;
  if (takes_tile<G>(args, own)) gemm<G, AlongKA, AlongKB, Whole>(own);
}

} // namespace
} // namespace fp64

#define TB_BATCH_FP64(function, along_k_a, along_k_b, whole, ...)                            \
  extern "C" __global__ void __launch_bounds__(fp64::Geometry<__VA_ARGS__>::threads,         \
                                               fp64::Geometry<__VA_ARGS__>::blocks_per_sm)   \
      function(const tb_batch_args args) {                                                   \
    fp64::multiply_of_batch<fp64::Geometry<__VA_ARGS__>, along_k_a, along_k_b, whole>(args); \
  }
#define TB_BATCH_FP64S(prefix, size, ...)                                   \
  TB_BATCH_FP64(prefix##_##size##_nn, false, true, true, __VA_ARGS__)       \
  TB_BATCH_FP64(prefix##_##size##_nt, false, false, true, __VA_ARGS__)      \
  TB_BATCH_FP64(prefix##_##size##_tn, true, true, true, __VA_ARGS__)        \
  TB_BATCH_FP64(prefix##_##size##_tt, true, false, true, __VA_ARGS__)       \
  TB_BATCH_FP64(prefix##_##size##_nn_any, false, true, false, __VA_ARGS__)  \
  TB_BATCH_FP64(prefix##_##size##_nt_any, false, false, false, __VA_ARGS__) \
  TB_BATCH_FP64(prefix##_##size##_tn_any, true, true, false, __VA_ARGS__)   \
  TB_BATCH_FP64(prefix##_##size##_tt_any, true, false, false, __VA_ARGS__)

#endif
