/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The corners of a triangle that is one product on the tensor cores: what the planes leave out of it
 * (emulated/emulated_args.h), as chains of FMAs that are added to the product. A block has one group's corner and 32
 * columns of B, a lane each; a warp has eight rows in registers:
 *
 *       A', a corner        B
 *     | 0             |   | . . . |     a step: so many columns of A' and rows of B come to shared memory; each warp
 *     | 1  1          |   | . . . |     goes along them as far as its rows have the triangle, and on the diagonal a row
 *     | 2  2  2       |   | . . . |     begins or ends where it does: no zero is multiplied
 *     | 3  3  3  3    |   | . . . |
 *
 * Upper ones lie at the end of their group, and go on behind it where A' ends soon after.
 */
#ifndef TB_TRIANGLE_CORNER_CUH
#define TB_TRIANGLE_CORNER_CUH

#include "common/ptx.cuh"
#include "emulated/emulated_args.h"
#include "triangle/elements.cuh"
#include "triangle/solve_args.h"

namespace triangle_corner {

using triangle_leaf::is_whole;

/* Rows [first, end) of A' and B, and [k, k_end) of its columns. */
struct Corner {
  int first, end, k, k_end;
};

template <typename Element> struct Stage {
  static constexpr int K = TB_TRIANGLE_CORNER_STEP / Element::parts;
  alignas(16) Element a[K][TB_TRIANGLE_CORNER_ROWS(Element::parts)];
  Element b[K][TB_TRIANGLE_CORNER_COLUMNS + 1]; /* padded */
};

template <typename Element> struct Block {
  static constexpr int ROWS = TB_TRIANGLE_LEAF_ROWS, N = TB_TRIANGLE_CORNER_COLUMNS, K = Stage<Element>::K;
  static constexpr int PARTS = Element::parts, M = TB_TRIANGLE_CORNER_ROWS(PARTS), THREADS = M / ROWS * 32;
  static constexpr int SIZE = sizeof(Element), PER_UNIT = 16 / SIZE;
  static_assert(TB_TRIANGLE_CORNER_ROWS(1) == TB_EMULATED_CORNER_K, "rows that have so much and less of a group");

  struct alignas(16) Rows {
    Element of[ROWS];
  };

  const tb_triangle_corner_args &args;
  Stage<Element> *const stages; /* 2 */

  __device__ Corner corner_of(int group) const {
    constexpr int GROUP = TB_EMULATED_GROUP_K / PARTS;
    const int order = static_cast<int>(args.rows), begin = group * GROUP,
              end = begin + GROUP < order ? begin + GROUP : order;
    const int first = args.lower || end - begin < M ? begin : end - M, rows_end = end < first + M ? end : first + M;
    const tb_emulated_triangle triangle = {PARTS, args.lower};
    const tb_emulated_extent planes = tb_emulated_extent_of(triangle, order * PARTS, first * PARTS);
    return {first, rows_end, first, args.lower ? rows_end : planes.first / PARTS};
  }

  /* So many rows of A' at a time, from a multiple of them on behind the corner's first; of rows and columns that it has
   * not, zeros. */
  template <int Count> __device__ void load_a(Stage<Element> &stage, const Corner &x, int k) const {
#pragma unroll
    for (int at = 0; at < K * M / Count; at += THREADS) {
      const int i = (at + static_cast<int>(threadIdx.x)) % (M / Count) * Count,
                j = (at + static_cast<int>(threadIdx.x)) / (M / Count);
      const int row = x.first + i, column = k + j, left = column < x.k_end ? x.end - row : 0;
      async_copy<Count * SIZE>(&stage.a[j][i],
                               static_cast<const Element *>(args.a) + (left > 0 ? row + column * args.lda : 0),
                               (left < 0       ? 0
                                : left < Count ? left
                                               : Count) *
                                   static_cast<unsigned>(SIZE));
    }
  }
  __device__ void load_b(Stage<Element> &stage, const Corner &x, int k, bool whole) const {
#pragma unroll
    for (int at = 0; at < K * N; at += THREADS) {
      const int i = (at + static_cast<int>(threadIdx.x)) % K, j = (at + static_cast<int>(threadIdx.x)) / K;
      const int64_t column = blockIdx.x * static_cast<int64_t>(N) + j;
      const bool there = k + i < x.k_end && column < args.columns;
      const Element *const from = static_cast<const Element *>(args.b) + (there ? k + i + column * args.ldb : 0);
      if (whole)
        async_copy<SIZE>(&stage.b[i][j], from, there ? SIZE : 0);
      else
        for (int part = 0; part < PARTS; part++)
          async_copy<SIZE / PARTS>(reinterpret_cast<char *>(&stage.b[i][j]) + part * (SIZE / PARTS),
                                   reinterpret_cast<const char *>(from) + part * (SIZE / PARTS),
                                   there ? SIZE / PARTS : 0);
    }
  }
  __device__ void load(int step, const Corner &x) const {
    Stage<Element> &stage = stages[step % 2];
    const int k = x.k + step * K;
    if (k < x.k_end) {
      if (x.first % PER_UNIT == 0)
        load_a<PER_UNIT>(stage, x, k);
      else
        load_a<1>(stage, x, k);
      load_b(stage, x, k, is_whole<Element>(args.b));
    }
    async_commit();
  }

  /* A row of A's column `k` times B's, of the warp's row i. */
  __device__ void add_term(Element &sum, int row, int k, Element of_a, Element of_b) const {
    if (args.lower ? k > row : k < row) return;
    if (k == row && args.unit)
      plus(sum, of_b);
    else
      add(sum, of_a, of_b);
  }

  /* Of the step's columns those that the rows from `row` on have. */
  __device__ void add_step(Element (&sum)[ROWS], const Corner &x, int row, int step) const {
    const Stage<Element> &stage = stages[step % 2];
    const int k = x.k + step * K, lane = static_cast<int>(threadIdx.x) % 32;
    const int end = min(x.k_end, args.lower ? row + ROWS : x.k_end) - k;
    for (int i = args.lower ? 0 : max(row - k, 0); i < end && i < K; i++) {
      const Element of_b = stage.b[i][lane];
      const bool on_diagonal = k + i >= row && k + i < row + ROWS;
      const Rows of_a = *reinterpret_cast<const Rows *>(&stage.a[i][row - x.first]);
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        if (on_diagonal)
          add_term(sum[r], row + r, k + i, of_a.of[r], of_b);
        else
          add(sum[r], of_a.of[r], of_b);
      }
    }
  }

  /* What the lane's rows of the product are now, and which of them are to be added to: a bit each. */
  __device__ unsigned load_product(Element (&before)[ROWS], const Corner &x, int row) const {
    const int64_t column = blockIdx.x * static_cast<int64_t>(N) + threadIdx.x % 32;
    const int64_t down = (args.rows * PARTS + TB_EMULATED_TILE_M - 1) / TB_EMULATED_TILE_M;
    const Element *const from = static_cast<const Element *>(args.product) + row + column * args.product_ld;
    const uint32_t *const again = args.again + column / TB_EMULATED_TILE_N * down;
    unsigned wanted = 0;
    if (column >= args.columns) return 0;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const bool there = row + r < x.end;
      if (there) before[r] = from[r];
      wanted |= there && again[(row + r) * PARTS / TB_EMULATED_TILE_M] == 0 ? 1u << r : 0;
    }
    return wanted;
  }

  __device__ void store(Element (&before)[ROWS], const Element (&sum)[ROWS], unsigned wanted, int row) const {
    const int64_t column = blockIdx.x * static_cast<int64_t>(N) + threadIdx.x % 32;
    Element *const to = static_cast<Element *>(args.product) + row + column * args.product_ld;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      plus(before[r], sum[r]);
      if (wanted >> r & 1) to[r] = before[r];
    }
  }

  /* Nothing is waited for alone: the product is asked for before the first step, and a step is copied while the one
   * before it is added. (One after another it took 206 us of strmm's 800 at order 4096 on an H100.) */
  __device__ void run() const {
    const Corner x = corner_of(static_cast<int>(blockIdx.y));
    const int row = x.first + static_cast<int>(threadIdx.x) / 32 * ROWS;
    Element sum[ROWS], before[ROWS];
    load(0, x);
#pragma unroll
    for (int r = 0; r < ROWS; r++) sum[r] = before[r] = Element::from(0);
    const unsigned wanted = load_product(before, x, row);
    for (int step = 0; x.k + step * K < x.k_end; step++) {
      load(step + 1, x);
      async_wait<1>();
      __syncthreads();
      add_step(sum, x, row, step);
      __syncthreads();
    }
    store(before, sum, wanted, row);
  }
};

template <typename Element> __device__ void corner(const tb_triangle_corner_args &args, unsigned char *) {
  __shared__ Stage<Element> stages[2];
  Block<Element>{args, stages}.run();
}

} // namespace triangle_corner

#endif
