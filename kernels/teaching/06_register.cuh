/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Step 06, register: each thread computes a small tile of C and keeps it in registers.
 *
 * Idea. Up to here each multiply-add fetches two numbers from shared memory, and shared memory cannot keep up: it
 * serves one access of a warp a cycle, while an SM could do the multiply-adds of four warps (two on some GPUs). So let
 * a thread compute RM x RN elements: with RM numbers of a column of A and RN of a row of B, held in registers, it does
 * RM x RN multiply-adds. The same number of threads then covers a tile that is RM times as high and RN times as wide,
 * so global memory is read less as well.
 *
 *                          b  . 1 . . 1 . .    The elements of one thread, RM = RN = 2, marked x. They lie apart by
 *          a                                   the size of the block (BY rows, BX columns), so that neighbouring
 *          .                  . . . . . . .    threads always touch neighbouring words: no two threads of a warp meet
 *          1                  . x . . x . .    in a bank of shared memory, and stores to C are coalesced.
 *          .                  . . . . . . .
 *          1                  . x . . x . .
 *
 * Index formula, for i < RM and j < RN, with BY = TM / RM and BX = TN / RN threads:
 *   sum[i][j] += A_tile[p][ty + i BY] * B_tile[p][tx + j BX]
 *   C[(row0 + ty + i BY) * n + (col0 + tx + j BX)] = sum[i][j]
 *
 * The tiles are filled in fours (fours.cuh). A_tile lies transposed; its rows are two words longer than needed, which
 * keeps the threads of a warp that write to it, eight rows of four fours each, in different banks.
 *
 * Arithmetic intensity. With the tile of C now 64 x 64 or 128 x 128: T / 4 = 16 or 32 flop/byte of global memory.
 * Of shared memory, as a thread sees it: RM RN / (2 (RM + RN)) flop/byte, 2 with 8 x 8 elements, where step 02 had
 * 0.25.
 */
#ifndef TB_TEACHING_06_REGISTER_CUH
#define TB_TEACHING_06_REGISTER_CUH

#include "fours.cuh"

namespace teaching {

template <int TM, int TN, int TK, int RM, int RN>
__device__ void register_tiled(const float *A, const float *B, float *C, int m, int n, int k) {
  constexpr int BX = TN / RN, BY = TM / RM;
  alignas(16) __shared__ float A_tile[TK][TM + 2];
  alignas(16) __shared__ float B_tile[TK][TN];
  const int tx = threadIdx.x, ty = threadIdx.y, id = ty * BX + tx;
  const int64_t row0 = blockIdx.y * TM;
  const int64_t col0 = blockIdx.x * TN;

  float sum[RM][RN] = {};
  for (int64_t p0 = 0; p0 < k; p0 += TK) {
    fill_A_tile<TM, BX * BY>(A_tile, A, row0, p0, m, k, id);
    fill_B_tile<TN, BX * BY>(B_tile, B, p0, col0, k, n, id);
    __syncthreads();

#pragma unroll
    for (int p = 0; p < TK; ++p) {
      float a[RM], b[RN];
      for (int i = 0; i < RM; ++i) a[i] = A_tile[p][ty + i * BY];
      for (int j = 0; j < RN; ++j) b[j] = B_tile[p][tx + j * BX];
      for (int i = 0; i < RM; ++i)
        for (int j = 0; j < RN; ++j) sum[i][j] = multiply_add(a[i], b[j], sum[i][j]);
    }
    __syncthreads();
  }

  for (int i = 0; i < RM; ++i)
    for (int j = 0; j < RN; ++j) {
      const int64_t row = row0 + ty + i * BY, col = col0 + tx + j * BX;
      if (row < m && col < n) store_global(&C[row * n + col], sum[i][j]);
    }
}

} // namespace teaching

#endif
