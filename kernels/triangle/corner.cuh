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

  /* Whether there is this element of A'. A diagonal that is 1 is none that is read. */
  __device__ bool has(const Corner &x, int row, int column) const {
    const int from_diagonal = args.lower ? row - column : column - row;
    return row < x.end && column < x.k_end && from_diagonal >= args.unit;
  }
  /* Of so many neighbouring rows of a column those that there are. In the others' places stands anything, of which no
   * sum is made that is stored. */
  template <int Count> __device__ void copy_rows(Element *to, const Corner &x, int row, int column) const {
    const Element *const from =
        static_cast<const Element *>(args.a) + (args.transposed ? column + row * args.lda : row + column * args.lda);
    if (has(x, row, column) && has(x, row + Count - 1, column))
      async_copy<Count * SIZE>(to, from, Count * SIZE);
    else if (Count > 1)
      for (int i = 0; i < Count; i++)
        if (has(x, row + i, column)) async_copy<SIZE>(to + i, from + i, SIZE);
  }
  /* A thread's copies go down the columns. Where memory runs along rows a warp has four columns of eight rows: of
   * memory runs of 16 bytes, and of shared memory eight banks. Not unrolled: sums need the registers. */
  template <int Count> __device__ void load_a(Stage<Element> &stage, const Corner &x, int k) const {
    constexpr int UNITS = M / Count, ALONG = 4;
#pragma unroll 1
    for (int at = 0; at < K * UNITS; at += THREADS) {
      const int number = at + static_cast<int>(threadIdx.x);
      const int i = (args.transposed ? number / ALONG % UNITS : number % UNITS) * Count;
      const int j = args.transposed ? number % ALONG + number / (ALONG * UNITS) * ALONG : number / UNITS;
      copy_rows<Count>(&stage.a[j][i], x, x.first + i, k + j);
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
  /* Whether a column's rows, from the corner's first one on, are copied by 16 bytes. */
  __device__ bool has_units(const Corner &x) const {
    const auto at = reinterpret_cast<uintptr_t>(static_cast<const Element *>(args.a) + x.first);
    return !args.transposed && at % 16 == 0 && args.lda % PER_UNIT == 0;
  }
  __device__ void load(int step, const Corner &x) const {
    Stage<Element> &stage = stages[step % 2];
    const int k = x.k + step * K;
    if (k < x.k_end) {
      if (has_units(x))
        load_a<PER_UNIT>(stage, x, k);
      else
        load_a<1>(stage, x, k);
      load_b(stage, x, k, is_whole<Element>(args.b));
    }
    async_commit();
  }

  __device__ static Rows rows_of(const Stage<Element> &stage, const Corner &x, int row, int i) {
    return *reinterpret_cast<const Rows *>(&stage.a[i][row - x.first]);
  }

  /* Of columns on the diagonal, which not all of the warp's rows have. */
  __device__ void add_diagonal(Element (&sum)[ROWS], const Stage<Element> &stage, const Corner &x, int row, int k,
                               int i) const {
    const Element of_b = stage.b[i][threadIdx.x % 32];
    const Rows of_a = rows_of(stage, x, row, i);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      if (args.lower ? k + i > row + r : k + i < row + r) continue;
      if (k + i == row + r && args.unit)
        plus(sum[r], of_b);
      else
        add(sum[r], of_a.of[r], of_b);
    }
  }

  /* Of the step's columns those that the rows from `row` on have; on and beside the diagonal apart, for to ask for each
   * element takes many times as long as to multiply it. */
  __device__ void add_step(Element (&sum)[ROWS], const Corner &x, int row, int step) const {
    const Stage<Element> &stage = stages[step % 2];
    const int k = x.k + step * K, all = min(K, x.k_end - k);
    const int diagonal = min(max(row - k, 0), all), behind = min(max(row + ROWS - k, 0), all);
    if (!args.lower)
      for (int i = diagonal; i < behind; i++) add_diagonal(sum, stage, x, row, k, i);
    const int begin = args.lower ? 0 : behind, end = args.lower ? diagonal : all;
#pragma unroll 4
    for (int i = begin; i < end; i++) {
      const Element of_b = stage.b[i][threadIdx.x % 32];
      const Rows of_a = rows_of(stage, x, row, i);
#pragma unroll
      for (int r = 0; r < ROWS; r++) add(sum[r], of_a.of[r], of_b);
    }
    if (args.lower)
      for (int i = diagonal; i < behind; i++) add_diagonal(sum, stage, x, row, k, i);
  }

  /* All of the lane's rows of it are asked for before the first one is waited for. */
  __device__ void add_to_product(const Element (&sum)[ROWS], const Corner &x, int row) const {
    const int64_t column = blockIdx.x * static_cast<int64_t>(N) + threadIdx.x % 32;
    const int64_t down = (args.rows * PARTS + TB_EMULATED_TILE_M - 1) / TB_EMULATED_TILE_M;
    const uint32_t *const again = args.again + column / TB_EMULATED_TILE_N * down;
    Element *const to = static_cast<Element *>(args.product) + row + column * args.product_ld;
    Element before[ROWS];
    unsigned wanted = 0;
    if (column >= args.columns) return;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const bool there = row + r < x.end;
      before[r] = there ? to[r] : Element::from(0);
      wanted |= there && again[(row + r) * PARTS / TB_EMULATED_TILE_M] == 0 ? 1u << r : 0;
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      plus(before[r], sum[r]);
      if (wanted >> r & 1) to[r] = before[r];
    }
  }

  /* A step is copied while the one before it is added. */
  __device__ void run() const {
    const Corner x = corner_of(static_cast<int>(blockIdx.y));
    const int row = x.first + static_cast<int>(threadIdx.x) / 32 * ROWS;
    Element sum[ROWS];
    load(0, x);
#pragma unroll
    for (int r = 0; r < ROWS; r++) sum[r] = Element::from(0);
    for (int step = 0; x.k + step * K < x.k_end; step++) {
      load(step + 1, x);
      async_wait<1>();
      __syncthreads();
      add_step(sum, x, row, step);
      __syncthreads();
    }
    add_to_product(sum, x, row);
  }
};

template <typename Element> __device__ void corner(const tb_triangle_corner_args &args, unsigned char *) {
  __shared__ Stage<Element> stages[2];
  Block<Element>{args, stages}.run();
}

} // namespace triangle_corner

#endif
