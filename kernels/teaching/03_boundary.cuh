/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Step 03, boundary: step 02 for any m, n and k.
 *
 * Idea. Tiles may reach over the edges of the matrices. What lies outside is not read but taken as zero: a zero adds
 * nothing to a sum, so the multiplying loop need not know about edges.
 *
 *                              B  +-----+.
 *                                 |     |.     . = outside of the matrix, zero in the tile
 *                                 +-----+.
 *                                 |.....|.
 *        A  +-----+--...          +-----+.
 *           |     |  ...          |  C  |.     A thread can own no element of C and still be
 *           +-----+--...          +-----+.     needed to load one of A or B, so no thread may
 *           .........             ........     leave early: there are barriers to come, too.
 *
 * Index formula: as in step 02. Every access has a condition of its own, and the three are different, because a thread
 * loads elements that have nothing to do with the one that it owns:
 *   load A[row * k + (p0 + tx)]     if row < m      and p0 + tx < k
 *   load B[(p0 + ty) * n + col]     if p0 + ty < k  and col < n
 *   store C[row * n + col]          if row < m      and col < n
 *
 * Two ways to multiply:
 *   everyone   all threads, over the whole depth of the tile: 2 M N K operations with m, n, k rounded up to tiles
 *   owners     only the threads with an element of C, and not beyond k: 2 m n k operations
 * `owners` counts fewer operations, yet a warp takes its steps together: it saves time only where all 32 threads idle.
 *
 * Arithmetic intensity. T / 4 flop/byte, as in step 02: the zeros cost no byte.
 */
#ifndef TB_TEACHING_03_BOUNDARY_CUH
#define TB_TEACHING_03_BOUNDARY_CUH

#include "count.cuh"

namespace teaching {

enum class multiplying { everyone, owners };

template <int T, multiplying who>
__device__ void boundary(const float *A, const float *B, float *C, int m, int n, int k) {
  __shared__ float A_tile[T][T];
  __shared__ float B_tile[T][T];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int64_t row = blockIdx.y * T + ty;
  const int64_t col = blockIdx.x * T + tx;
  const bool owner = row < m && col < n;

  float sum = 0.0f;
  for (int64_t p0 = 0; p0 < k; p0 += T) {
    A_tile[ty][tx] = row < m && p0 + tx < k ? load_global(&A[row * k + (p0 + tx)]) : 0.0f;
    B_tile[ty][tx] = p0 + ty < k && col < n ? load_global(&B[(p0 + ty) * n + col]) : 0.0f;
    __syncthreads();

    if (who == multiplying::everyone) {
      for (int p = 0; p < T; ++p) sum = multiply_add(A_tile[ty][p], B_tile[p][tx], sum);
    } else if (owner) {
      for (int p = 0; p < T && p0 + p < k; ++p) sum = multiply_add(A_tile[ty][p], B_tile[p][tx], sum);
    }
    __syncthreads();
  }
  if (owner) store_global(&C[row * n + col], sum);
}

} // namespace teaching

#endif
