/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A diagonal block of A' and the rows of B beside it, see solve_args.h. A block of threads has 32 columns of B, one for
 * each lane, and each of its warps eight rows of them in registers. It goes along the columns of A' in groups of eight,
 * a step each:
 *
 *        A'                  B
 *      | 0            |  | warp 0 |      solve, lower: warp 0 solves with its block of the diagonal and shows what it
 *      | 1  1         |  | warp 1 |      has; behind a barrier all others take their block of that group of columns
 *      | 2  2  2      |  | warp 2 |      times it away, first of all warp 1, which then has all it needs: it solves and
 *      | 3  3  3  3   |  | warp 3 |      shows while the others take away. Upper: from the last warp to the first.
 *
 * So a step takes as long as what one warp needs to take away and to solve eight rows, or the others to take away
 * theirs. Blocks of A' come to shared memory by asynchronous copies one step before they are wanted, each by its warp.
 * A product goes the other way: a warp shows its rows of B while they are what they were, overwrites them with its
 * block of the diagonal times them, and adds what the warps after it show.
 *
 * An element of A' is one load for a whole warp. B comes and goes by way of shared memory, in pieces of 32 bytes of a
 * column, for which global memory has a width of its own. Where a block is cut off, A' goes on with a diagonal of 1 and
 * zeros beside it, of which nothing reaches a row that is B's.
 */
#ifndef TB_TRIANGLE_LEAF_CUH
#define TB_TRIANGLE_LEAF_CUH

#include "triangle/elements.cuh"
#include "triangle/solve_args.h"
#include "common/ptx.cuh"

namespace triangle_leaf {

template <typename Element, bool solves, bool lower> struct Leaf {
  using Real = typename Element::Real;
  static constexpr int ROWS = TB_TRIANGLE_LEAF_ROWS, N = TB_TRIANGLE_LEAF_COLUMNS, PAD = N + 1;
  static constexpr int M = TB_TRIANGLE_LEAF, BLOCK = ROWS * ROWS;
  static constexpr int PER_LOAD = 16 / sizeof(Element), PIECE = 32 / sizeof(Element);
  struct alignas(16) Vector {
    Element element[PER_LOAD];
  };

  /* Shared memory. */
  Element *a;        /* of two steps the warp's blocks, by columns */
  Element *x;        /* the rows that two warps show, a row after another, padded */
  Element *diagonal; /* the warp's block of it, by columns */
  Divisor<Real> *by; /* of each of its rows */

  Element own[ROWS]; /* the warp's rows of the lane's column */
  int warp, lane, warps;

  /* Whose turn it is in a step, and who adds what that one shows. */
  static constexpr bool FORWARD = lower == solves;
  __device__ int turn(int step) const { return FORWARD ? step : warps - 1 - step; }
  __device__ bool is_turn(int step) const { return step < warps && warp == turn(step); }
  __device__ bool adds(int step) const { return step < warps && (lower ? warp > turn(step) : warp < turn(step)); }

  /* ---- A' ---- */

  /* Element (i, j), where there is none as if A' went on with a diagonal of 1. */
  __device__ static Element element_of(const tb_triangle_leaf_args &args, int i, int j) {
    const bool there = i < args.m && j < args.m && (lower ? i >= j : i <= j) && !(i == j && args.unit);
    return there ? static_cast<const Element *>(args.a)[i + j * args.lda] : Element::from(static_cast<Real>(i == j));
  }

  __device__ void load_diagonal(const tb_triangle_leaf_args &args) const {
#pragma unroll
    for (int at = 0; at < BLOCK; at += 32) {
      const int i = (at + lane) % ROWS, j = (at + lane) / ROWS;
      const Element value = element_of(args, warp * ROWS + i, warp * ROWS + j);
      diagonal[at + lane] = value;
      if (solves && i == j) by[i] = divisor_of(value);
    }
  }

  /* The warp's block of a step's group of columns, none of which is beyond the diagonal. */
  __device__ void fetch_block(const tb_triangle_leaf_args &args, int step) const {
    constexpr int LOADS = BLOCK / PER_LOAD, OF_COLUMN = ROWS / PER_LOAD;
    if (adds(step))
#pragma unroll
      for (int at = 0; at < LOADS; at += 32) {
        const int i = (at + lane) % OF_COLUMN * PER_LOAD, j = (at + lane) / OF_COLUMN;
        const int row = warp * ROWS + i, column = turn(step) * ROWS + j, rows = args.m - row;
        const bool there = column < args.m && rows > 0;
        if (LOADS >= 32 || lane < LOADS)
          async_copy<16>(a + step % 2 * BLOCK + j * ROWS + i,
                         static_cast<const Element *>(args.a) + (there ? row + column * args.lda : 0),
                         there ? (rows < PER_LOAD ? rows : PER_LOAD) * static_cast<unsigned>(sizeof(Element)) : 0);
      }
    async_commit();
  }

  /* ---- B ---- */

  /* Where the lane's part of a piece of B is: lanes along PIECE rows, and then along columns. */
  __device__ int row_in_piece() const { return lane % PIECE; }
  __device__ int column_of_load(int load) const { return load * (32 / PIECE) + lane / PIECE; }
  __device__ Element *pieces(unsigned char *shared) const {
    return reinterpret_cast<Element *>(shared) + warp * PIECE * PAD;
  }
  __device__ bool is_of_b(const tb_triangle_leaf_args &args, int first, int load) const {
    return warp * ROWS + first + row_in_piece() < args.m &&
           blockIdx.x * static_cast<int64_t>(N) + column_of_load(load) < args.n;
  }
  __device__ Element *of_b(const tb_triangle_leaf_args &args, int first, int load) const {
    const int64_t column = blockIdx.x * static_cast<int64_t>(N) + column_of_load(load);
    return static_cast<Element *>(args.b) + warp * ROWS + first + row_in_piece() + column * args.ldb;
  }

  /* All is on its way before any of it is wanted. */
  __device__ void load_b(const tb_triangle_leaf_args &args, unsigned char *shared) {
    Element *const here = pieces(shared);
    const bool whole = is_whole<Element>(args.b);
#pragma unroll
    for (int p = 0; p < ROWS; p += PIECE)
#pragma unroll
      for (int l = 0; l < PIECE; l++)
        own[p + l] = is_of_b(args, p, l) ? fetch(of_b(args, p, l), whole) : Element::from(0);
#pragma unroll
    for (int p = 0; p < ROWS; p += PIECE) {
      __syncwarp();
#pragma unroll
      for (int l = 0; l < PIECE; l++) here[row_in_piece() * PAD + column_of_load(l)] = own[p + l];
      __syncwarp();
#pragma unroll
      for (int i = 0; i < PIECE; i++) own[p + i] = here[i * PAD + lane];
    }
  }

  __device__ void store_b(const tb_triangle_leaf_args &args, unsigned char *shared) const {
    Element *const here = pieces(shared);
    const bool whole = is_whole<Element>(args.b);
#pragma unroll
    for (int p = 0; p < ROWS; p += PIECE) {
      __syncwarp();
#pragma unroll
      for (int i = 0; i < PIECE; i++) here[i * PAD + lane] = own[p + i];
      __syncwarp();
#pragma unroll
      for (int l = 0; l < PIECE; l++)
        if (is_of_b(args, p, l)) store(of_b(args, p, l), here[row_in_piece() * PAD + column_of_load(l)], whole);
    }
  }

  /* ---- steps ---- */

  __device__ Element *shown(int step, int row) const { return x + (step % 2 * ROWS + row) * PAD + lane; }

  __device__ static void load_column(const Element *from, Element part[ROWS]) {
    const Vector *const v = reinterpret_cast<const Vector *>(from);
#pragma unroll
    for (int i = 0; i < ROWS; i += PER_LOAD) {
      const Vector loaded = v[i / PER_LOAD];
#pragma unroll
      for (int l = 0; l < PER_LOAD; l++) part[i + l] = loaded.element[l];
    }
  }

  /* What the rows that are shown give. */
  __device__ void add_block(int step) {
#pragma unroll 2
    for (int j = 0; j < ROWS; j++) {
      Element part[ROWS];
      load_column(a + step % 2 * BLOCK + j * ROWS, part);
      const Element xj = *shown(step, j);
#pragma unroll
      for (int i = 0; i < ROWS; i++) add(own[i], part[i], xj);
    }
  }

  /* As if all quotients were quick. False: one is not, and then no number is what it should be. A column is loaded
   * while the one before is at work; to load all of them first would want too many registers. */
  __device__ bool solve_quickly(bool unit) {
    bool all = true;
    Element part[2][ROWS];
    constexpr int FIRST = lower ? 0 : ROWS - 1, NEXT = lower ? 1 : -1;
    load_column(diagonal + FIRST * ROWS, part[0]);
#pragma unroll
    for (int number = 0; number < ROWS; number++) {
      const int j = FIRST + NEXT * number, now = number % 2;
      const Divisor<Real> divisor = by[j];
      if (number < ROWS - 1) load_column(diagonal + (j + NEXT) * ROWS, part[1 - now]);
      __syncwarp();
      if (!unit) {
        const Element above = numerator(own[j], divisor);
        all = all && are_quick(above, divisor.r);
        own[j] = quicks(above, divisor.d, divisor.r);
      }
#pragma unroll
      for (int i = 0; i < ROWS; i++)
        if (lower ? i > j : i < j) add(own[i], part[now][i], own[j]);
    }
    return all;
  }

  /* With the same operations, of what is shown. */
  __device__ void solve_what_is_shown(int step) {
#pragma unroll 1
    for (int number = 0; number < ROWS; number++) {
      const int j = lower ? number : ROWS - 1 - number;
      const Divisor<Real> divisor = by[j];
      const Element xj = quotients(numerator(*shown(step, j), divisor), divisor.d, divisor.r);
      *shown(step, j) = xj;
#pragma unroll 1
      for (int i = lower ? j + 1 : 0; i < (lower ? ROWS : j); i++) {
        Element sum = *shown(step, i);
        add(sum, diagonal[i + j * ROWS], xj);
        *shown(step, i) = sum;
      }
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++) own[i] = *shown(step, i);
  }

  /* Quick quotients one after another take half the time of quotients each of which is looked at first. */
  __device__ void solve_and_show(int step, bool unit) {
    show(step);
    if (solve_quickly(unit))
      show(step);
    else
      solve_what_is_shown(step);
  }

  __device__ void show(int step) const {
#pragma unroll
    for (int i = 0; i < ROWS; i++) *shown(step, i) = own[i];
  }

  /* The warp's rows are those that are shown. */
  __device__ void multiply_diagonal(int step, bool unit) {
#pragma unroll
    for (int i = 0; i < ROWS; i++) own[i] = Element::from(0);
#pragma unroll
    for (int j = 0; j < ROWS; j++) {
      Element part[ROWS];
      load_column(diagonal + j * ROWS, part);
      const Element xj = *shown(step, j);
      if (unit)
        plus(own[j], xj);
      else
        add(own[j], part[j], xj);
#pragma unroll
      for (int i = 0; i < ROWS; i++)
        if (lower ? i > j : i < j) add(own[i], part[i], xj);
    }
  }

  /* Beside the first barrier of a step stands what the last one shows, and the blocks fetched meanwhile. The second one
   * lets the warp whose turn comes have shared memory for itself, for that is what all others wait for. */
  __device__ void solve(const tb_triangle_leaf_args &args) {
    const bool unit = args.unit != 0;
    if (is_turn(0)) solve_and_show(0, unit);
#pragma unroll 1
    for (int step = 0; step < warps; step++) {
      const bool is_next = is_turn(step + 1);
      async_wait<0>();
      __syncthreads();
      fetch_block(args, step + 1);
      if (is_next) add_block(step);
      __syncthreads();
      if (is_next) solve_and_show(step + 1, unit);
      if (!is_next && adds(step)) add_block(step);
    }
  }

  __device__ void multiply(const tb_triangle_leaf_args &args) {
    const bool unit = args.unit != 0;
    if (is_turn(0)) show(0);
#pragma unroll 1
    for (int step = 0; step < warps; step++) {
      async_wait<0>();
      __syncthreads();
      fetch_block(args, step + 1);
      if (is_turn(step + 1)) show(step + 1);
      if (is_turn(step)) multiply_diagonal(step, unit);
      if (adds(step)) add_block(step);
    }
  }

  __device__ void run(const tb_triangle_leaf_args &args, unsigned char *shared) {
    warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    warps = static_cast<int>(blockDim.x) / 32;
    a = reinterpret_cast<Element *>(shared);
    x = a + 2 * M * ROWS;
    diagonal = reinterpret_cast<Element *>(shared + TB_TRIANGLE_LEAF_DIAGONAL_AT(sizeof(Real), Element::parts));
    by = reinterpret_cast<Divisor<Real> *>(diagonal + M * ROWS) + warp * ROWS;
    a += 2 * warp * BLOCK, diagonal += warp * BLOCK;
    load_diagonal(args);
    load_b(args, shared);
    __syncthreads(); /* of the pieces there is no more need */
    fetch_block(args, 0);
    if (solves)
      solve(args);
    else
      multiply(args);
    __syncthreads();
    store_b(args, shared);
  }
};

} // namespace triangle_leaf

#endif
