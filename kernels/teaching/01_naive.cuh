/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Step 01, naive: one thread for each element of C.
 *
 * Idea. The elements of C do not depend on each other, so give each to a thread of its own.
 *
 *                           B  k x n
 *                           . . | . .
 *                           . . | . .        Thread (row, col) walks along a row of A
 *                           . . v . .        and down a column of B, and adds up the
 *        A  m x k                            products of what it meets.
 *        . . . . .          . . . . .
 *        --------->         . . x . .  row
 *        . . . . .          . . . . .
 *                               col
 *                           C  m x n
 *
 * Index formula. All matrices are row-major: element (i, j) of a matrix with c columns lies at i * c + j.
 *   row = blockIdx.y * blockDim.y + threadIdx.y,   col = blockIdx.x * blockDim.x + threadIdx.x
 *   C[row * n + col] = sum over p < k of A[row * k + p] * B[p * n + col]
 * threadIdx.x is the column, because neighbouring threads then read neighbouring elements of B and write neighbouring
 * elements of C: the hardware serves a whole warp with a few wide accesses ("coalesced").
 *
 * Arithmetic intensity. Each multiply-add, 2 operations, reads 4 bytes of A and 4 of B: 2 / 8 = 0.25 flop/byte.
 */
#ifndef TB_TEACHING_01_NAIVE_CUH
#define TB_TEACHING_01_NAIVE_CUH

#include "count.cuh"

namespace teaching {

__device__ inline void naive(const float *A, const float *B, float *C, int m, int n, int k) {
  const int64_t row = blockIdx.y * blockDim.y + threadIdx.y;
  const int64_t col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= m || col >= n) return; // the grid is whole blocks, and C rarely is

  float sum = 0.0f;
  for (int64_t p = 0; p < k; ++p) sum = multiply_add(load_global(&A[row * k + p]), load_global(&B[p * n + col]), sum);
  store_global(&C[row * n + col], sum);
}

} // namespace teaching

#endif
