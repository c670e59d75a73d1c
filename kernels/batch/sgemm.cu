/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many small products of floats by one launch, see batch_args.h: the tiles of fma/block.cuh, one product of the list a
 * row of blocks. Blocks behind a product's last tile have nothing to do. What block.cuh reads of its arguments lies in
 * shared memory here: as registers they would take those of the accumulators.
 *
 * And what goes with them: complex operands made real, and the commits of all types, each by the code that a product
 * alone has.
 */
#include "batch/batch_args.h"
#include "complex/parts.cuh"
#include "fma/block.cuh"

namespace batch {
namespace {

template <class Elem> __device__ __forceinline__ Elem *address(const tb_batch_args &args, int64_t at) {
  return reinterpret_cast<Elem *>(reinterpret_cast<uintptr_t>(args.base) + static_cast<uintptr_t>(at));
}

/* Both of fma/registry.def, by their names there. */
using Large = Geometry<TB_BATCH_LARGE, TB_BATCH_LARGE, 16, 2, 8, 4, 4>;
using Small = Geometry<TB_BATCH_SMALL, TB_BATCH_SMALL, 8, 6, 4, 4, 8>;

template <class G, Run RunA, Run RunB> __device__ __forceinline__ void multiply(const tb_batch_args &args) {
  __shared__ tb_sgemm_args own;
  const tb_batch_product &p = args.products[blockIdx.y];
  const int down = (p.m + G::block_m - 1) / G::block_m, across = (p.n + G::block_n - 1) / G::block_n;
  if (blockIdx.x >= static_cast<unsigned>(down) * static_cast<unsigned>(across)) return;
  if (threadIdx.x == 0) {
    own = {};
    own.a = address<const float>(args, p.a), own.b = address<const float>(args, p.b), own.d = address<float>(args, p.d);
    own.lda = p.lda, own.ldb = p.ldb, own.ldd = p.ldd;
    own.m = p.m, own.n = p.n, own.k = p.k;
    own.group_k = p.group_k;
    own.alpha = static_cast<float>(p.alpha[0]);
    own.first = own.last = 1;
  }
  __syncthreads();
  sgemm<G, RunA, RunB>(own, Job(blockIdx.x, 0));
}

__device__ __forceinline__ const tb_batch_product &product_of_z(const tb_batch_args &args) {
  return args.products[blockIdx.z];
}

__device__ __forceinline__ void expand_one(const tb_batch_args &args) {
  const tb_batch_product &p = product_of_z(args);
  tb_complex_expand_args one = {};
  one.from = address<const void>(args, p.from_a), one.to = address<void>(args, p.a);
  one.from_ld = p.from_lda, one.to_ld = p.lda;
  const int64_t sides = p.m / 2, k = p.k / 2;
  one.rows = p.along_k_a ? k : sides, one.columns = p.along_k_a ? sides : k;
  one.alpha[0] = p.expand_alpha[0], one.alpha[1] = p.expand_alpha[1];
  one.along_k = p.along_k_a, one.conjugate_a = p.conjugate_a, one.conjugate_b = p.conjugate_b;
  one.scaled = p.scaled;
  complex_parts::expand<complex_parts::Floats>(one);
}

__device__ __forceinline__ void part_one(const tb_batch_args &args) {
  const tb_batch_product &p = product_of_z(args);
  if (p.from_b < 0) return;
  tb_complex_part_args one = {};
  one.from = address<const void>(args, p.from_b), one.to = address<void>(args, p.b);
  one.from_ld = p.from_ldb, one.to_ld = p.ldb;
  one.rows = p.n, one.columns = p.k / 2;
  complex_parts::part<complex_parts::Floats>(one);
}

__device__ __forceinline__ float times(float x, float y) { return __fmul_rn(x, y); }
__device__ __forceinline__ float plus(float x, float y) { return __fadd_rn(x, y); }
__device__ __forceinline__ double times(double x, double y) { return __dmul_rn(x, y); }
__device__ __forceinline__ double plus(double x, double y) { return __dadd_rn(x, y); }

/* C = D + beta C; of elements that are real. With beta = 0 nobody launches it: D is C. */
template <typename Real> __device__ __forceinline__ void commit_real(const tb_batch_args &args) {
  const tb_batch_product &p = product_of_z(args);
  const int64_t i = blockIdx.x * static_cast<int64_t>(TB_BATCH_THREADS_M) + threadIdx.x;
  const Real beta = static_cast<Real>(p.beta[0]);
  if (i >= p.m || p.c == 0) return;
  const int64_t step = static_cast<int64_t>(gridDim.y) * TB_BATCH_THREADS_N;
  for (int64_t j = blockIdx.y * static_cast<int64_t>(TB_BATCH_THREADS_N) + threadIdx.y; j < p.n; j += step) {
    Real *const c = address<Real>(args, p.c) + i + j * p.ldc;
    *c = plus(address<const Real>(args, p.d)[i + j * p.ldd], times(beta, *c));
  }
}

/* Of floats the list has the real sizes. */
template <class T> __device__ __forceinline__ void commit_complex(const tb_batch_args &args, int real_parts) {
  const tb_batch_product &p = product_of_z(args);
  if (p.c == 0) return;
  tb_complex_commit_args one = {};
  one.c = address<void>(args, p.c), one.d = address<const void>(args, p.d);
  one.ldc = p.ldc, one.ldd = p.ldd / real_parts;
  one.m = p.m / real_parts, one.n = p.n;
  one.beta[0] = p.beta[0], one.beta[1] = p.beta[1];
  complex_parts::commit<T>(one);
}

} // namespace
} // namespace batch

#define TB_BATCH_SGEMM(tile, size, variant, run_a, run_b)                                        \
  extern "C" __global__ void __launch_bounds__(batch::tile::threads, batch::tile::blocks_per_sm) \
      tb_batch_sgemm_##size##_##variant(const tb_batch_args args) {                              \
    batch::multiply<batch::tile, run_a, run_b>(args);                                            \
  }
#define TB_BATCH_SGEMMS(tile, size)                                    \
  TB_BATCH_SGEMM(tile, size, nn, kAlongSideVectors, kAlongK)           \
  TB_BATCH_SGEMM(tile, size, nt, kAlongSideVectors, kAlongSideVectors) \
  TB_BATCH_SGEMM(tile, size, tn, kAlongK, kAlongK)                     \
  TB_BATCH_SGEMM(tile, size, tt, kAlongK, kAlongSideVectors)           \
  TB_BATCH_SGEMM(tile, size, nn_any, kAlongSide, kAlongK)              \
  TB_BATCH_SGEMM(tile, size, nt_any, kAlongSide, kAlongSide)           \
  TB_BATCH_SGEMM(tile, size, tt_any, kAlongK, kAlongSide)
TB_BATCH_SGEMMS(Large, 64)
TB_BATCH_SGEMMS(Small, 32)

#define TB_BATCH_BY_ELEMENTS(name, body)                                               \
  extern "C" __global__ void __launch_bounds__(TB_BATCH_THREADS_M *TB_BATCH_THREADS_N) \
      name(const tb_batch_args args) {                                                 \
    body;                                                                              \
  }
TB_BATCH_BY_ELEMENTS(tb_batch_expand, batch::expand_one(args))
TB_BATCH_BY_ELEMENTS(tb_batch_part, batch::part_one(args))
TB_BATCH_BY_ELEMENTS(tb_batch_commit_s, batch::commit_real<float>(args))
TB_BATCH_BY_ELEMENTS(tb_batch_commit_d, batch::commit_real<double>(args))
TB_BATCH_BY_ELEMENTS(tb_batch_commit_c, batch::commit_complex<complex_parts::Floats>(args, 2))
TB_BATCH_BY_ELEMENTS(tb_batch_commit_z, batch::commit_complex<complex_parts::Doubles>(args, 1))
