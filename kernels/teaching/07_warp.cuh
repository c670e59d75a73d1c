/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Step 07, warp: the 32 threads of a warp compute one compact tile of C.
 *
 * Idea. Shared memory serves a warp, not a thread: a number that several threads of a warp ask for at once is fetched
 * once and broadcast. So what counts is how many different numbers the warp needs. In step 06 a warp is two rows of 16
 * threads and reads 2 * 8 numbers of A and 16 * 8 of B for each p. Arranged as 8 x 4 threads over a tile of 64 x 32, it
 * reads 64 + 32 for the same 2048 multiply-adds. And with a thread's elements in pieces of four, each piece of a row or
 * a column comes in one 16-byte access instead of four.
 *
 *     a block's tile, 128 x 128      a warp's tile, 64 x 32        a quarter, 32 x 16, by lanes
 *     +----+----+----+----+          +---------+---------+          0  1 16 17      each lane has a piece of
 *     | w0 | w1 | w2 | w3 |          |         |         |          2  3 18 19      4 x 4 elements at the same
 *     |    |    |    |    |          | quarter | quarter |          4  5 20 21      place in all four quarters
 *     +----+----+----+----+          +---------+---------+          .  .  .  .
 *     | w4 | w5 | w6 | w7 |          |         |         |         14 15 30 31
 *     |    |    |    |    |          | quarter | quarter |
 *     +----+----+----+----+          +---------+---------+
 *
 * Index formula, within the block's tile, for quarter (v, h), v and h of 0 and 1:
 *   row = (warp / (TN / 32)) * 64 + v * 32 + (lane / 2 % 8) * 4               and the three rows below
 *   col = (warp % (TN / 32)) * 32 + h * 16 + (lane / 16 * 2 + lane % 2) * 4   and the three columns to the right
 * Lanes t and t ^ 1 share their piece of A, lanes t and t ^ 2 that of B. Neighbours that share let the hardware answer
 * a 16-byte access in fewer passes: on an H200, for each p of a warp, Nsight Compute counts 9.5 passes of shared memory
 * (in step 08, writes included), 13.5 with lanes numbered row by row, and 17.0 in step 06.
 *
 * Rows of A_tile are four words longer than needed: pieces stay 16-byte aligned, and of the threads that write the tile
 * transposed no more than two meet in a bank.
 *
 * Arithmetic intensity. 32 flop/byte of global memory, as in step 06. Of shared memory, 2 * 2048 / (4 * 96) = 10.7
 * flop/byte for a warp, where step 06 had 7.1.
 */
#ifndef TB_TEACHING_07_WARP_CUH
#define TB_TEACHING_07_WARP_CUH

#include "fours.cuh"

namespace teaching {

constexpr int warp_size = 32;
constexpr int piece = 4;                           // a thread's pieces are 4 x 4: one 16-byte access a side
constexpr int lanes_down = 8, lanes_across = 4;    // how a warp's threads are arranged
constexpr int quarter_rows = lanes_down * piece;   // 32
constexpr int quarter_cols = lanes_across * piece; // 16
constexpr int warp_rows = 2 * quarter_rows;        // 64
constexpr int warp_cols = 2 * quarter_cols;        // 32
constexpr int warp_pad = 4;

/* A thread's place: the first row and column of its piece in the upper left quarter, within the block's tile. */
struct place {
  int row, col;
};

template <int TN> __device__ place place_in_tile(int id) {
  const int warp = id / warp_size, lane = id % warp_size;
  const int warps_across = TN / warp_cols;
  const int lane_row = lane / 2 % lanes_down, lane_col = lane / 16 * 2 + lane % 2;
  return {warp / warps_across * warp_rows + lane_row * piece, warp % warps_across * warp_cols + lane_col * piece};
}

/* What the thread keeps of C: its four pieces as rows and columns of one array. */
typedef float pieces[2 * piece][2 * piece];

/* Two pieces of a row of a tile in shared memory, `apart` words from each other, into registers. */
__device__ inline void take_two_pieces(float (&to)[2 * piece], const float *from, int apart) {
  const float4 first = *reinterpret_cast<const float4 *>(from);
  const float4 second = *reinterpret_cast<const float4 *>(from + apart);
  to[0] = first.x, to[1] = first.y, to[2] = first.z, to[3] = first.w;
  to[4] = second.x, to[5] = second.y, to[6] = second.z, to[7] = second.w;
}

/* sum += what a pair of tiles gives for this thread. */
template <int TK, int PITCH_A, int PITCH_B>
__device__ void multiply_tiles(const float (&A_tile)[TK][PITCH_A], const float (&B_tile)[TK][PITCH_B], place at,
                               pieces &sum) {
#pragma unroll
  for (int p = 0; p < TK; ++p) {
    float a[2 * piece], b[2 * piece];
    take_two_pieces(a, &A_tile[p][at.row], quarter_rows);
    take_two_pieces(b, &B_tile[p][at.col], quarter_cols);
    for (int i = 0; i < 2 * piece; ++i)
      for (int j = 0; j < 2 * piece; ++j) sum[i][j] = multiply_add(a[i], b[j], sum[i][j]);
  }
}

__device__ inline void store_pieces(float *C, int64_t row0, int64_t col0, int m, int n, place at, const pieces &sum) {
  const bool whole = has_whole_fours(C, n);
  for (int i = 0; i < 2 * piece; ++i) {
    const int64_t row = row0 + at.row + i / piece * quarter_rows + i % piece;
    const int64_t col = col0 + at.col;
    store_four(C, row, col, m, n, whole, {sum[i][0], sum[i][1], sum[i][2], sum[i][3]});
    store_four(C, row, col + quarter_cols, m, n, whole, {sum[i][4], sum[i][5], sum[i][6], sum[i][7]});
  }
}

template <int TM, int TN, int TK>
__device__ void warp_tiled(const float *A, const float *B, float *C, int m, int n, int k) {
  static_assert(TM % warp_rows == 0 && TN % warp_cols == 0, "a block's tile is whole tiles of warps");
  constexpr int threads = TM / warp_rows * (TN / warp_cols) * warp_size;
  alignas(16) __shared__ float A_tile[TK][TM + warp_pad];
  alignas(16) __shared__ float B_tile[TK][TN];
  const int id = threadIdx.x;
  const place at = place_in_tile<TN>(id);
  const int64_t row0 = blockIdx.y * TM;
  const int64_t col0 = blockIdx.x * TN;

  pieces sum = {};
  for (int64_t p0 = 0; p0 < k; p0 += TK) {
    fill_A_tile<TM, threads>(A_tile, A, row0, p0, m, k, id);
    fill_B_tile<TN, threads>(B_tile, B, p0, col0, k, n, id);
    __syncthreads();

    multiply_tiles(A_tile, B_tile, at, sum);
    __syncthreads();
  }
  store_pieces(C, row0, col0, m, n, at, sum);
}

} // namespace teaching

#endif
