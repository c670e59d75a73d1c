/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Step 02, tiled: a block reads each element once and shares it.
 *
 * Idea. In step 01 the threads of one row of a block all read the same row of A, and those of one column the same
 * column of B. Let the T x T threads of a block fetch a T x T tile of A and one of B together, one element each, into
 * shared memory, and let all of them multiply from there; then go on to the next pair of tiles.
 *
 *                           B  +---+
 *                              | 0 |         Phase 0 multiplies the tiles marked 0,
 *                              +---+         phase 1 those marked 1, and so on.
 *                              | 1 |
 *                              +---+         Each tile is read from global memory once
 *        A                                   per phase and used T times.
 *        +---+---+             +---+
 *        | 0 | 1 |             | C |
 *        +---+---+             +---+
 *
 * Index formula, in the phase that starts at p0 = 0, T, 2T, ...
 *   A_tile[ty][tx] = A[row * k + (p0 + tx)]        row = blockIdx.y * T + ty
 *   B_tile[ty][tx] = B[(p0 + ty) * n + col]        col = blockIdx.x * T + tx
 *   sum += A_tile[ty][p] * B_tile[p][tx]           for p < T
 *
 * Two barriers a phase: nobody multiplies before the tiles are complete, and nobody overwrites them before all have
 * multiplied.
 *
 * Contract: m, n and k are multiples of T, and the grid covers C exactly. Step 03 removes the condition.
 *
 * Arithmetic intensity. An element that has been read serves T multiply-adds instead of one: T * 0.25 = T / 4
 * flop/byte, 4 with T = 16 and 8 with T = 32.
 */
#ifndef TB_TEACHING_02_TILED_CUH
#define TB_TEACHING_02_TILED_CUH

#include "count.cuh"

namespace teaching {

template <int T>
__device__ void tiled(const float *A, const float *B, float *C, int /* m, given by the grid */, int n, int k) {
  __shared__ float A_tile[T][T];
  __shared__ float B_tile[T][T];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int64_t row = blockIdx.y * T + ty;
  const int64_t col = blockIdx.x * T + tx;

  float sum = 0.0f;
  for (int64_t p0 = 0; p0 < k; p0 += T) {
    A_tile[ty][tx] = load_global(&A[row * k + (p0 + tx)]);
    B_tile[ty][tx] = load_global(&B[(p0 + ty) * n + col]);
    __syncthreads(); // the tiles are complete

    for (int p = 0; p < T; ++p) sum = multiply_add(A_tile[ty][p], B_tile[p][tx], sum);
    __syncthreads(); // nobody needs them any more
  }
  store_global(&C[row * n + col], sum);
}

} // namespace teaching

#endif
