/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels of the family fma, for every GPU from compute capability 7.5 on: block.cuh by the tiles of registry.def,
 * what goes with them, and the tiles of a product on the tensor cores that are computed again.
 */
#include "fma/block.cuh"
#include "fma/commit.cu"
#include "fma/gather.cu"
#include "fma/packed.cu"
#include "kept/digest.cu"
#include "emulated/emulated_args.h"

namespace {

/* Of a product on the tensor cores a tile that is marked, in parts. */
template <class G, Run RunA, Run RunB>
__device__ __forceinline__ void again(const tb_sgemm_args &args, const tb_emulated_again &which) {
  constexpr int rows = TB_EMULATED_TILE_M, columns = TB_EMULATED_TILE_N;
  static_assert(rows % G::block_m == 0 && columns % G::block_n == 0, "whole parts");
  static_assert(G::threads == TB_EMULATED_AGAIN_THREADS && G::blocks_per_sm > 0, "as it is launched");
  wait_for_earlier_kernels();
  bool left = false;
  for (int i = static_cast<int>(threadIdx.x); i < which.left_words; i += G::threads) left = left || which.left[i] != 0;
  if (!__syncthreads_or(left)) return;
  const tb_tile_bands bands = tb_emulated_bands(args.m, args.n, which.wanted);
  const tb_tile_place place = tb_tile_place_walked(&bands, static_cast<int>(blockIdx.x));
  if (which.marks[place.along + static_cast<int64_t>(place.line) * bands.along] == 0) return;
  const int64_t row = static_cast<int64_t>(place.along) * rows, column = static_cast<int64_t>(place.line) * columns;
  tb_sgemm_args part = args;
  part.group_k = TB_SGEMM_GROUP_K;
  part.a += RunA == kAlongK ? row * args.lda : row;
  part.b += RunB == kAlongK ? column * args.ldb : column;
  part.d += row + column * args.ldd;
  part.m = smaller(args.m - row, rows), part.n = smaller(args.n - column, columns);
  if (which.triangle.parts != 0) { /* with zeros up to the tile's edge */
    const int64_t first = which.triangle.lower != 0 ? 0 : row;
    part.k = which.triangle.lower != 0 ? row + part.m : args.k - first;
    part.a += RunA == kAlongK ? first : first * args.lda;
    part.b += RunB == kAlongK ? first : first * args.ldb;
  }
  const int tiles = static_cast<int>((part.m + G::block_m - 1) / G::block_m * ((part.n + G::block_n - 1) / G::block_n));
  for (int tile = 0; tile < tiles; tile++) {
    sgemm<G, RunA, RunB>(part, Job(static_cast<unsigned>(tile), 0));
    __syncthreads(); /* before the next one's words come to the stages */
  }
}

} // namespace

/* Stored column-major, A runs along its rows unless it is transposed, and B along k unless it is. */
#define TB_SGEMM_KERNEL(name, variant, run_a, run_b, ...)                                                            \
  extern "C" __global__ void __launch_bounds__(Geometry<__VA_ARGS__>::threads, Geometry<__VA_ARGS__>::blocks_per_sm) \
      tb_sgemm_##name##_##variant(const tb_sgemm_args args) {                                                        \
    sgemm<Geometry<__VA_ARGS__>, run_a, run_b>(args, Job(args));                                                     \
  }
#define TB_SGEMM_TILE(name, bm, bn, bk, stages, rows, columns, blocks)                                       \
  TB_SGEMM_KERNEL(name, nn, kAlongSideVectors, kAlongK, bm, bn, bk, stages, rows, columns, blocks)           \
  TB_SGEMM_KERNEL(name, nt, kAlongSideVectors, kAlongSideVectors, bm, bn, bk, stages, rows, columns, blocks) \
  TB_SGEMM_KERNEL(name, tn, kAlongK, kAlongK, bm, bn, bk, stages, rows, columns, blocks)                     \
  TB_SGEMM_KERNEL(name, tt, kAlongK, kAlongSideVectors, bm, bn, bk, stages, rows, columns, blocks)           \
  TB_SGEMM_KERNEL(name, nn_any, kAlongSide, kAlongK, bm, bn, bk, stages, rows, columns, blocks)              \
  TB_SGEMM_KERNEL(name, nt_any, kAlongSide, kAlongSide, bm, bn, bk, stages, rows, columns, blocks)           \
  TB_SGEMM_KERNEL(name, tt_any, kAlongK, kAlongSide, bm, bn, bk, stages, rows, columns, blocks)
#define TB_SGEMM_PACKED_TILE(name, ...) /* packed.cu */
#include "fma/registry.def"

/* Behind a product on the tensor cores: its tiles that are marked, from the operands themselves. */
#define TB_SGEMM_AGAIN_BLOCKS 3
#define TB_SGEMM_AGAIN_GEOMETRY                                                                                     \
  Geometry<TB_EMULATED_AGAIN_TILE, TB_EMULATED_AGAIN_TILE, TB_EMULATED_AGAIN_DEPTH, TB_EMULATED_AGAIN_STAGES, 8, 4, \
           TB_SGEMM_AGAIN_BLOCKS>
#if defined(TB_BULK_COPIES)
#define TB_SGEMM_AGAIN_BODY(run_a, run_b) again<TB_SGEMM_AGAIN_GEOMETRY, run_a, run_b>(args, which)
#else /* the host does not launch them */
#define TB_SGEMM_AGAIN_BODY(run_a, run_b)
#endif
#define TB_SGEMM_AGAIN(variant, run_a, run_b)                                                    \
  extern "C" __global__ void __launch_bounds__(TB_EMULATED_AGAIN_THREADS, TB_SGEMM_AGAIN_BLOCKS) \
      tb_sgemm_again_##variant(const tb_sgemm_args args, const tb_emulated_again which) {        \
    TB_SGEMM_AGAIN_BODY(run_a, run_b);                                                           \
  }
TB_SGEMM_AGAIN(nn, kAlongSide, kAlongK)
TB_SGEMM_AGAIN(nt, kAlongSide, kAlongSide)
TB_SGEMM_AGAIN(tn, kAlongK, kAlongK)
TB_SGEMM_AGAIN(tt, kAlongK, kAlongSide)
