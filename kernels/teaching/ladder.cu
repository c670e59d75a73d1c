/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes kernels of the ladder's steps: one extern "C" __global__ function for each row of ladder.def.
 *
 * The steps themselves are device functions, most of them templates, so that one idea can be built with several tile
 * sizes; a host finds these kernels by their plain names.
 */
#include "01_naive.cuh"
#include "02_tiled.cuh"
#include "03_boundary.cuh"
#include "04_rectangular.cuh"
#include "05_grid_stride.cuh"
#include "06_register.cuh"
#include "07_warp.cuh"
#include "08_double_buffer.cuh"

#define TB_LADDER_STEP(name, function, title, block_x, block_y, resident, tile_m, tile_n, tile_k, thread_m, thread_n, \
                       grid, sizes, work)                                                                             \
  static_assert((tile_m) * (tile_n) == 1 || (tile_m) * (tile_n) == (block_x) * (block_y) * (thread_m) * (thread_n),   \
                "the threads of " #name " cover its tile exactly");                                                   \
  extern "C" __global__ void __launch_bounds__((block_x) * (block_y), resident)                                       \
      name(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int m, int n, int k) {    \
    using namespace teaching;                                                                                         \
    function(A, B, C, m, n, k);                                                                                       \
  }
#include "ladder.def"
#undef TB_LADDER_STEP
