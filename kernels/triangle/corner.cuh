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

#include "emulated/emulated_args.h"
#include "triangle/elements.cuh"
#include "triangle/solve_args.h"

namespace triangle_corner {

using triangle_leaf::fetch;
using triangle_leaf::is_whole;

/* Rows [first, end) of A' and B, and [k, k_end) of its columns. */
struct Corner {
  int first, end, k, k_end;
};

template <typename Element> struct Block {
  static constexpr int ROWS = TB_TRIANGLE_LEAF_ROWS, N = TB_TRIANGLE_CORNER_COLUMNS, K = TB_TRIANGLE_CORNER_STEP;
  static constexpr int PARTS = Element::parts, M = TB_TRIANGLE_CORNER_ROWS(PARTS), WARPS = M / ROWS;
  static_assert(TB_TRIANGLE_CORNER_ROWS(1) == TB_EMULATED_CORNER_K, "rows that have so much and less of a group");

  struct alignas(16) Rows {
    Element of[ROWS];
  };

  const tb_triangle_corner_args &args;
  Element (&a)[K][M];     /* of a step */
  Element (&b)[K][N + 1]; /* padded */

  __device__ Corner corner_of(int group) const {
    constexpr int GROUP = TB_EMULATED_GROUP_K / PARTS;
    const int order = static_cast<int>(args.rows), begin = group * GROUP,
              end = begin + GROUP < order ? begin + GROUP : order;
    const int first = args.lower || end - begin < M ? begin : end - M, rows_end = end < first + M ? end : first + M;
    const tb_emulated_triangle triangle = {PARTS, args.lower};
    const tb_emulated_extent planes = tb_emulated_extent_of(triangle, order * PARTS, first * PARTS);
    return {first, rows_end, first, args.lower ? rows_end : planes.first / PARTS};
  }

  __device__ void load_a(const Corner &x, int k) const {
    for (int at = static_cast<int>(threadIdx.x); at < K * M; at += WARPS * 32) {
      const int row = x.first + at % M, column = k + at / M;
      const bool there = row < x.end && column < x.k_end && (args.lower ? column <= row : column >= row);
      a[at / M][at % M] = there ? static_cast<const Element *>(args.a)[row + column * args.lda] : Element::from(0);
    }
  }
  __device__ void load_b(const Corner &x, int k) const {
    const int64_t first = blockIdx.x * static_cast<int64_t>(N);
    const bool whole = is_whole<Element>(args.b);
    for (int at = static_cast<int>(threadIdx.x); at < K * N; at += WARPS * 32) {
      const int row = k + at % K;
      const int64_t column = first + at / K;
      b[at % K][at / K] = row < x.k_end && column < args.columns
                              ? fetch(static_cast<const Element *>(args.b) + row + column * args.ldb, whole)
                              : Element::from(0);
    }
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
  __device__ void add_step(Element (&sum)[ROWS], const Corner &x, int row, int k) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, end = min(x.k_end, args.lower ? row + ROWS : x.k_end) - k;
    for (int i = args.lower ? 0 : max(row - k, 0); i < end && i < K; i++) {
      const Element of_b = b[i][lane];
      const bool on_diagonal = k + i >= row && k + i < row + ROWS;
      const Rows of_a = *reinterpret_cast<const Rows *>(&a[i][row - x.first]);
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        if (on_diagonal)
          add_term(sum[r], row + r, k + i, of_a.of[r], of_b);
        else
          add(sum[r], of_a.of[r], of_b);
      }
    }
  }

  __device__ void store(const Element (&sum)[ROWS], const Corner &x, int row) const {
    const int64_t column = blockIdx.x * static_cast<int64_t>(N) + threadIdx.x % 32;
    const int64_t down = (args.rows * PARTS + TB_EMULATED_TILE_M - 1) / TB_EMULATED_TILE_M;
    const uint32_t *const again = args.again + column / TB_EMULATED_TILE_N * down;
    if (column >= args.columns) return;
    Element *const to = static_cast<Element *>(args.product) + row + column * args.product_ld;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      if (row + r >= x.end || again[(row + r) * PARTS / TB_EMULATED_TILE_M] != 0) continue;
      Element before = to[r];
      plus(before, sum[r]);
      to[r] = before;
    }
  }

  __device__ void run() const {
    const Corner x = corner_of(static_cast<int>(blockIdx.y));
    const int row = x.first + static_cast<int>(threadIdx.x) / 32 * ROWS;
    Element sum[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) sum[r] = Element::from(0);
    for (int k = x.k; k < x.k_end; k += K) {
      load_a(x, k);
      load_b(x, k);
      __syncthreads();
      add_step(sum, x, row, k);
      __syncthreads();
    }
    store(sum, x, row);
  }
};

template <typename Element> __device__ void corner(const tb_triangle_corner_args &args, unsigned char *) {
  using B = Block<Element>;
  __shared__ __align__(16) Element a[B::K][B::M];
  __shared__ Element b[B::K][B::N + 1];
  B{args, a, b}.run();
}

} // namespace triangle_corner

#endif
