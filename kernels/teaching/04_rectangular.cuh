/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Step 04, rectangular: tiles of any shape.
 *
 * Idea. In step 03 one number T says how high and how wide the tile of C is, and how deep the tiles of A and B are.
 * Take the three apart: TM x TN threads compute a TM x TN tile of C from tiles of A and B of any depth TK. A wide C
 * gets a wide tile, a tall C a tall one, and deeper tiles need fewer barriers.
 *
 *                                 TN
 *                              B  +--------+
 *                              TK |        |
 *                                 +--------+
 *        A   TK
 *           +---+                 +--------+
 *        TM |   |              TM |   C    |
 *           +---+                 +--------+
 *
 * Index formula. A thread no longer loads one element of each tile, but as many as it takes, in strides of the block:
 *   A_tile[ty][p] = A[row * k + (p0 + p)]       for p = tx, tx + TN, tx + 2 TN, ... below TK
 *   B_tile[p][tx] = B[(p0 + p) * n + col]       for p = ty, ty + TM, ty + 2 TM, ... below TK
 *   sum += A_tile[ty][p] * B_tile[p][tx]        for p < TK
 * Neighbouring threads still read neighbouring elements.
 *
 * Shared memory has 32 banks, and words 32 apart share one. A warp that covers several rows of C reads a column of
 * A_tile: with rows of TK = 32 words all of that lies in one bank, so rows are 4 words longer (4, and not 1, keeps them
 * 16-byte aligned, and the compiler may read four words at once).
 *
 * Arithmetic intensity. Each p costs TM + TN elements and gives TM TN multiply-adds: TM TN / (2 (TM + TN)) flop/byte.
 * With equal numbers of threads the square reads least: 32 x 32 has 8, 16 x 64 has 6.4. The rectangle pays where C is
 * so narrow that half of a square would hang over its edge.
 */
#ifndef TB_TEACHING_04_RECTANGULAR_CUH
#define TB_TEACHING_04_RECTANGULAR_CUH

#include "count.cuh"

namespace teaching {

template <int TM, int TN, int TK>
__device__ void rectangular(const float *A, const float *B, float *C, int m, int n, int k) {
  alignas(16) __shared__ float A_tile[TM][TK + 4];
  __shared__ float B_tile[TK][TN];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int64_t row = blockIdx.y * TM + ty;
  const int64_t col = blockIdx.x * TN + tx;

  float sum = 0.0f;
  for (int64_t p0 = 0; p0 < k; p0 += TK) {
    for (int p = tx; p < TK; p += TN)
      A_tile[ty][p] = row < m && p0 + p < k ? load_global(&A[row * k + (p0 + p)]) : 0.0f;
    for (int p = ty; p < TK; p += TM)
      B_tile[p][tx] = p0 + p < k && col < n ? load_global(&B[(p0 + p) * n + col]) : 0.0f;
    __syncthreads();

    for (int p = 0; p < TK; ++p) sum = multiply_add(A_tile[ty][p], B_tile[p][tx], sum);
    __syncthreads();
  }
  if (row < m && col < n) store_global(&C[row * n + col], sum);
}

} // namespace teaching

#endif
