/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all tiled sgemm kernels do alike: read fragments, multiply, add up chunks and groups. store.cuh has what then
 * becomes of the sums.
 *
 * A tile's geometry G says block_m, block_n (the tile of D), thread_m, thread_n (a thread's part of it), threads (that
 * share the tile), warps_m, warp_m, group_m, groups_m and the same for n; and columns_inside, the order in which a
 * thread takes its accumulators, along rows or along columns first, whichever the compiler makes more of. A thread
 * keeps thread_m x thread_n accumulators in groups of 4 x 4, spread so that the threads of a warp, 8 along m and 4
 * along n, read neighbouring float4s.
 *
 *   rows    of group g: warp row    * warp_m + g * group_m + 4 * (thread's row in the warp)    + 0..3
 *   columns of group g: warp column * warp_n + g * group_n + 4 * (thread's column in the warp) + 0..3
 */
#ifndef TB_SGEMM_INTERNAL_CUH
#define TB_SGEMM_INTERNAL_CUH

#include "common/ptx.cuh"
#include "common/sgemm_args.h"

namespace {

/* Words that one vector access moves. */
constexpr int kVector = 4;
/* Tile columns that are computed together, so that the L2 still holds their panels of B for the next tile row. */
constexpr int kGroupColumns = 8;

__device__ __forceinline__ float4 read4(const float *p) { return *reinterpret_cast<const float4 *>(p); }

__device__ __forceinline__ void write4(float *p, float4 v) { *reinterpret_cast<float4 *>(p) = v; }

__device__ __forceinline__ bool takes_vectors(const float *p, int64_t ld) {
  return reinterpret_cast<uintptr_t>(p) % sizeof(float4) == 0 && ld % kVector == 0;
}

__device__ __forceinline__ int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }

/* How a panel's memory runs, and what one copy moves: four words of a side's run, one word of it, or one word of k's
 * run. */
enum Run { kAlongSideVectors, kAlongSide, kAlongK };

/* ---- fragment and multiply: one k, shared memory -> registers ---- */

/* One thread's words of a stage's row: Groups float4s, Apart words from one to the next. */
template <int Groups, int Apart>
__device__ __forceinline__ void read_row(float (&fragment)[Groups * kVector], const float *row) {
#pragma unroll
  for (int g = 0; g < Groups; g++) {
    float4 v = read4(row + g * Apart);
    fragment[g * kVector + 0] = v.x;
    fragment[g * kVector + 1] = v.y;
    fragment[g * kVector + 2] = v.z;
    fragment[g * kVector + 3] = v.w;
  }
}

/* ApartA, ApartB: words from one group to the next. */
template <class G, int ApartA, int ApartB>
__device__ __forceinline__ void read_fragment(float (&fa)[G::thread_m], float (&fb)[G::thread_n], const float *a,
                                              const float *b) {
  read_row<G::groups_m, ApartA>(fa, a);
  read_row<G::groups_n, ApartB>(fb, b);
}

/*
 * Where a thread's first groups start within the tile, and the place of its float4s among its warp's in the group's
 * sums. A warp is 8 threads along m and 4 along n.
 *
 *   lane                  bit 4  bit 3  bit 2  bit 1  bit 0
 *   row                   bit 2  bit 1                bit 0
 *   column                              bit 1  bit 0
 *   with lanes_along_m
 *     row                               bit 2  bit 1  bit 0
 *     column              bit 1  bit 0
 *
 * Shared memory serves a float4 of every lane in four turns, or in two if the lanes that differ in bit 0 of their
 * number read the same one, or those that differ in bit 1 (measured: bench/results/studies.md). So either fragment is
 * read in two turns; with lanes_along_m those of A take four, which tiles with 8 x 8 accumulators a thread have the
 * time for: the largest and the packed ones are quicker so by 1 to 3 %, which is not understood.
 */
template <class G> struct Lanes {
  static __device__ __forceinline__ int row(int thread) {
    return thread / 32 % G::warps_m * G::warp_m + warp_row(thread % 32) * kVector;
  }
  static __device__ __forceinline__ int column(int thread) {
    return thread / 32 / G::warps_m * G::warp_n + warp_column(thread % 32) * kVector;
  }
  static __device__ __forceinline__ int slot(int thread) {
    return thread / 32 * 32 + slot_in_warp(warp_row(thread % 32), warp_column(thread % 32));
  }
  /* Eight lanes one behind the other, and the eight threads of a column, find all 32 banks. */
  static __device__ __forceinline__ int slot_in_warp(int row, int column) {
    return (G::lanes_along_m ? row : row ^ column * 2) + column * 8;
  }

private:
  static __device__ __forceinline__ int warp_row(int lane) {
    return G::lanes_along_m ? lane % 8 : lane % 2 + lane / 8 * 2;
  }
  static __device__ __forceinline__ int warp_column(int lane) { return G::lanes_along_m ? lane / 8 : lane / 2 % 4; }
};

/*
 * One thread's accumulators, and its part of the group's sums in shared memory: float4s, those of a warp side by
 * side. A float4 holds two pairs of rows, each exchanged: float4s are loaded into four registers from a multiple of
 * four on, so an accumulator's register gets the other parity than that of its word of A, and an FMA does not ask one
 * of the register file's two banks for both. With columns_inside it is pairs of columns, and the words of B.
 */
template <class G> struct Accumulators {
  float sum[G::thread_n][G::thread_m];
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int j = 0; j < G::thread_n; j++)
#pragma unroll
      for (int i = 0; i < G::thread_m; i++) sum[j][i] = 0;
  }

  /* Adds this chunk's sums to those of the group's chunks before it. */
  __device__ __forceinline__ void add(const float *sums, int thread) {
    const int slot = Lanes<G>::slot(thread);
#pragma unroll
    for (int at = 0; at < G::thread_m * G::thread_n; at += kVector) {
      const float4 before = read4(sums + at * G::threads + kVector * slot);
      of<0>(at) = before.x + of<0>(at), of<1>(at) = before.y + of<1>(at);
      of<2>(at) = before.z + of<2>(at), of<3>(at) = before.w + of<3>(at);
    }
  }
  __device__ __forceinline__ void keep(float *sums, int thread) {
    const int slot = Lanes<G>::slot(thread);
#pragma unroll
    for (int at = 0; at < G::thread_m * G::thread_n; at += kVector)
      write4(sums + at * G::threads + kVector * slot, make_float4(of<0>(at), of<1>(at), of<2>(at), of<3>(at)));
  }

  /*
   * The outer product of a k's two fragments, forth and back along the inner side: each FMA then shares a word with the
   * one before, and reads two from the register file, whose two banks give one each, instead of three.
   */
  __device__ TB_REGISTERS_ONLY void multiply(const float (&a)[G::thread_m], const float (&b)[G::thread_n]) {
    constexpr int inner = G::columns_inside ? G::thread_n : G::thread_m;
    constexpr int outer = G::columns_inside ? G::thread_m : G::thread_n;
#pragma unroll
    for (int out = 0; out < outer; out++) {
#pragma unroll
      for (int step = 0; step < inner; step++) {
        const bool back = kRegisterBanks && out % 2 == 1;
        const int in = back ? inner - 1 - step : step;
        const int i = G::columns_inside ? outer - 1 - out : in, j = G::columns_inside ? inner - 1 - in : out;
        sum[j][i] = fmaf(a[i], b[j], sum[j][i]);
      }
    }
  }

private:
  /* The accumulator that is word `Place` of the float4 which starts with number `at`, counted along the inner side. */
  template <int Place> __device__ __forceinline__ float &of(int at) {
    if (!G::columns_inside) return sum[at / G::thread_m][at % G::thread_m + (Place ^ 1)];
    const int i = at / G::thread_n;
    return sum[at % G::thread_n + (Place ^ 1 ^ (i & 2))][i];
  }
};

/* ---- a tile ---- */

/* First row and first column of tile number `tile`: down the rows of kGroupColumns tile columns, then on to the next
 * columns. */
template <class G>
__device__ __forceinline__ void locate(const tb_sgemm_args &args, unsigned tile, int &row, int &column) {
  const unsigned down = static_cast<unsigned>((args.m + G::block_m - 1) / G::block_m);
  const unsigned across = static_cast<unsigned>((args.n + G::block_n - 1) / G::block_n);
  const unsigned first = tile / (kGroupColumns * down) * kGroupColumns, within = tile % (kGroupColumns * down);
  const unsigned width = across - first < kGroupColumns ? across - first : kGroupColumns;
  row = static_cast<int>(within / width * G::block_m);
  column = static_cast<int>((first + within % width) * G::block_n);
}

} // namespace

#endif
