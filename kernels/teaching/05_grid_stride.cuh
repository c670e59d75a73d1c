/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Step 05, grid-stride: C may be larger than the grid.
 *
 * Idea. So far the grid had to have a block for every tile of C. Now the host starts as many blocks as it likes, for
 * instance as many as the GPU can hold at once, and every block walks over the tiles of C with the stride of the grid
 * until none is left. No output is too large, and a block's start is paid for once, not once a tile.
 *
 *        C, tiles numbered row by row         a grid of 4 blocks
 *        +---+---+---+---+---+
 *        | 0 | 1 | 2 | 3 | 4 |                block 0 does tiles 0, 4, 8, 12
 *        +---+---+---+---+---+                block 1 does tiles 1, 5, 9, 13
 *        | 5 | 6 | 7 | 8 | 9 |                block 2 does tiles 2, 6, 10, 14
 *        +---+---+---+---+---+                block 3 does tiles 3, 7, 11
 *        | 10| 11| 12| 13| 14|
 *        +---+---+---+---+---+
 *
 * Index formula.
 *   tile = blockIdx.x, blockIdx.x + gridDim.x, blockIdx.x + 2 gridDim.x, ...
 *   row  = (tile / tiles in a row) * T + ty,   col = (tile % tiles in a row) * T + tx
 * Within a tile all is as in step 03. `tile` is the same for all threads of a block, so they meet at every barrier.
 *
 * Arithmetic intensity. T / 4 flop/byte, as before.
 */
#ifndef TB_TEACHING_05_GRID_STRIDE_CUH
#define TB_TEACHING_05_GRID_STRIDE_CUH

#include "count.cuh"

namespace teaching {

template <int T> __device__ void grid_stride(const float *A, const float *B, float *C, int m, int n, int k) {
  __shared__ float A_tile[T][T];
  __shared__ float B_tile[T][T];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int64_t tiles_in_row = (int64_t(n) + T - 1) / T;
  const int64_t tiles = (int64_t(m) + T - 1) / T * tiles_in_row;

  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t row = tile / tiles_in_row * T + ty;
    const int64_t col = tile % tiles_in_row * T + tx;
    float sum = 0.0f;
    for (int64_t p0 = 0; p0 < k; p0 += T) {
      A_tile[ty][tx] = row < m && p0 + tx < k ? load_global(&A[row * k + (p0 + tx)]) : 0.0f;
      B_tile[ty][tx] = p0 + ty < k && col < n ? load_global(&B[(p0 + ty) * n + col]) : 0.0f;
      __syncthreads();

      for (int p = 0; p < T; ++p) sum = multiply_add(A_tile[ty][p], B_tile[p][tx], sum);
      __syncthreads();
    }
    if (row < m && col < n) store_global(&C[row * n + col], sum);
  }
}

} // namespace teaching

#endif
