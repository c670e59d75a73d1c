/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Step 08, double buffer: fetch the next tiles while multiplying the present ones.
 *
 * Idea. Step 07 loads, waits, multiplies, waits. Global memory answers after hundreds of cycles, and meanwhile the
 * block has nothing to multiply. So ask for the next pair of tiles first, multiply the present pair while the answers
 * travel, and only then put them away, into a second pair of buffers. As nobody reads that pair any more, one barrier a
 * phase is enough.
 *
 *        step 07    | load 0 | multiply 0 | load 1 | multiply 1 | load 2 | multiply 2 |
 *
 *        step 08    | load 0 |   load 1   |   load 2   |
 *                            | multiply 0 | multiply 1 | multiply 2 |
 *        buffers         0         0, 1         1, 0         0
 *
 * Index formula: as in step 07. In phase f the tiles of p0 = f TK lie in buffer f % 2, and those of p0 + TK are on
 * their way through the threads' registers into buffer (f + 1) % 2.
 *
 * Why one barrier is enough. Buffer (f + 1) % 2 is written at the end of phase f; it was last read in phase f - 1, and
 * the barrier at the end of that phase lies between. It is next read in phase f + 1, after the barrier of phase f.
 *
 * What it costs: twice the shared memory, and registers for what is on its way. An SM of the H200 then holds one such
 * block instead of two of step 07; a block that waits no more needs no second one to fill its pauses.
 *
 * Arithmetic intensity. 32 flop/byte, as in steps 06 and 07: nothing is read less, but nobody waits for it.
 */
#ifndef TB_TEACHING_08_DOUBLE_BUFFER_CUH
#define TB_TEACHING_08_DOUBLE_BUFFER_CUH

#include "07_warp.cuh"

namespace teaching {

/* A thread's share of the next pair of tiles, in registers on the way from global to shared memory. */
template <int TM, int TN, int TK, int THREADS> struct in_flight {
  static_assert(TM * TK / 4 % THREADS == 0 && TK * TN / 4 % THREADS == 0, "every thread carries as many fours");
  static constexpr int A_fours = TM * TK / 4 / THREADS, B_fours = TK * TN / 4 / THREADS;
  float4 a[A_fours], b[B_fours];

  __device__ void fetch(const float *A, const float *B, int64_t row0, int64_t col0, int64_t p0, int m, int n, int k,
                        int id) {
    const bool A_whole = has_whole_fours(A, k), B_whole = has_whole_fours(B, n);
#pragma unroll
    for (int f = 0; f < A_fours; ++f) {
      const int i = id + f * THREADS;
      a[f] = load_four(A, row0 + i / (TK / 4), p0 + i % (TK / 4) * 4, m, k, A_whole);
    }
#pragma unroll
    for (int f = 0; f < B_fours; ++f) {
      const int i = id + f * THREADS;
      b[f] = load_four(B, p0 + i / (TN / 4), col0 + i % (TN / 4) * 4, k, n, B_whole);
    }
  }

  template <int PITCH_A, int PITCH_B>
  __device__ void put(float (&A_tile)[TK][PITCH_A], float (&B_tile)[TK][PITCH_B], int id) const {
#pragma unroll
    for (int f = 0; f < A_fours; ++f) {
      const int i = id + f * THREADS;
      put_four_transposed(A_tile, i / (TK / 4), i % (TK / 4) * 4, a[f]);
    }
#pragma unroll
    for (int f = 0; f < B_fours; ++f) {
      const int i = id + f * THREADS;
      put_four(B_tile, i / (TN / 4), i % (TN / 4) * 4, b[f]);
    }
  }
};

template <int TM, int TN, int TK>
__device__ void double_buffered(const float *A, const float *B, float *C, int m, int n, int k) {
  static_assert(TM % warp_rows == 0 && TN % warp_cols == 0, "a block's tile is whole tiles of warps");
  constexpr int threads = TM / warp_rows * (TN / warp_cols) * warp_size;
  alignas(16) __shared__ float A_tile[2][TK][TM + warp_pad];
  alignas(16) __shared__ float B_tile[2][TK][TN];
  const int id = threadIdx.x;
  const place at = place_in_tile<TN>(id);
  const int64_t row0 = blockIdx.y * TM;
  const int64_t col0 = blockIdx.x * TN;

  pieces sum = {};
  in_flight<TM, TN, TK, threads> next;
  next.fetch(A, B, row0, col0, 0, m, n, k, id);
  next.put(A_tile[0], B_tile[0], id);
  __syncthreads();

  int now = 0;
  for (int64_t p0 = TK; p0 < k; p0 += TK) { // p0: where the next tiles start
    next.fetch(A, B, row0, col0, p0, m, n, k, id);
    multiply_tiles(A_tile[now], B_tile[now], at, sum);
    now = 1 - now;
    next.put(A_tile[now], B_tile[now], id);
    __syncthreads();
  }
  multiply_tiles(A_tile[now], B_tile[now], at, sum);
  store_pieces(C, row0, col0, m, n, at, sum);
}

} // namespace teaching

#endif
