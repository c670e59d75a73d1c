/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the warps of a block have in common that solves a leaf in doubles (solve64.cuh): elements as they are stored and
 * as they are computed, positions, and what stands in shared memory.
 *
 *   three steps' D, divided by the diagonal, by columns
 *   three steps' sums, by rows, for the solver: B's rows at first, then with what multipliers add
 *   sums that the multipliers have for each other, each of them in a place of its own
 *   X, by columns, for the multipliers
 *   two steps' 16 rows of A', as they are stored, by columns
 *   of four steps' rows what quotients by the diagonal want
 *
 * Positions. An upper triangle is a lower one whose rows and columns are counted from the end. All here counts
 * positions; only who copies from or to global memory knows of rows and columns. Behind the last row of A' it goes on
 * with a diagonal of 1 and zeros beside it, up to a multiple of 16, and B with zeros.
 */
#ifndef TB_TRIANGLE_SOLVE64_MEMORY_CUH
#define TB_TRIANGLE_SOLVE64_MEMORY_CUH

#include "common/ptx.cuh"
#include "triangle/elements.cuh"
#include "triangle/solve_args.h"

namespace triangle_leaf {

/* Elements as they are stored, as they are computed, and back. */
template <typename Stored> struct Computed { using Element = Stored; };
template <> struct Computed<Plain<float>> { using Element = Plain<double>; };
template <> struct Computed<Complex<float>> { using Element = Complex<double>; };
template <typename R> __device__ inline Plain<double> widened(Plain<R> x) { return {static_cast<double>(x.re)}; }
template <typename R> __device__ inline Complex<double> widened(Complex<R> x) {
  return {static_cast<double>(x.re), static_cast<double>(x.im)};
}
template <typename R> __device__ inline Plain<R> narrowed(Plain<double> x, Plain<R>) { return {static_cast<R>(x.re)}; }
template <typename R> __device__ inline Complex<R> narrowed(Complex<double> x, Complex<R>) {
  return {static_cast<R>(x.re), static_cast<R>(x.im)};
}

__device__ inline Plain<double> times(Plain<double> z, double r) { return {z.re * r}; }
__device__ inline Complex<double> times(Complex<double> z, double r) { return {z.re * r, z.im * r}; }

template <typename Stored, bool lower> struct Memory64 {
  using Element = typename Computed<Stored>::Element;
  using Two = Several<double, 2>;
  static constexpr bool WIDENS = sizeof(Stored) != sizeof(Element);
  static constexpr int PARTS = Element::parts;
  static constexpr int ROWS = TB_TRIANGLE_SOLVE64_STEP, COLUMNS = TB_TRIANGLE_SOLVE64_COLUMNS;
  static constexpr int MULTIPLIERS = TB_TRIANGLE_SOLVE64_MULTIPLIERS, MOVERS = TB_TRIANGLE_SOLVE64_MOVERS;
  /* No eight lanes that read or write 16 bytes together meet a bank twice, of eight bytes no 16 lanes. */
  static constexpr int LDA = TB_TRIANGLE_SOLVE64_LDA(sizeof(typename Stored::Real)),
                       LDZ = TB_TRIANGLE_SOLVE64_LDZ(PARTS);

  const tb_triangle_leaf_args &args;
  const int warp, lane, rows, ldx; /* rows: with those that are filled up */
  const int64_t first_column;      /* of B's, that the block has */
  int *rough;                      /* of three steps: the row behind that of one whose D is not to be divided */
  Two *divisors;                   /* of four steps' rows; of complex ones two each */
  Element *d, *z, *x;              /* D, sums, X, as above */
  Stored *panels;

  __device__ Memory64(const tb_triangle_leaf_args &arguments, unsigned char *shared)
      : args(arguments), warp(static_cast<int>(threadIdx.x) / 32), lane(static_cast<int>(threadIdx.x) % 32),
        rows((arguments.m + ROWS - 1) / ROWS * ROWS), ldx(TB_TRIANGLE_SOLVE64_LDX(PARTS, rows)),
        first_column(static_cast<int64_t>(blockIdx.x) * COLUMNS) {
    rough = reinterpret_cast<int *>(shared);
    divisors = reinterpret_cast<Two *>(shared + TB_TRIANGLE_SOLVE64_ROUGH_BYTES);
    d = reinterpret_cast<Element *>(divisors + TB_TRIANGLE_SOLVE64_DIVISORS * PARTS);
    z = d + 3 * ROWS * ROWS;
    x = z + TB_TRIANGLE_SOLVE64_SUMS(rows) * ROWS * LDZ;
    panels = reinterpret_cast<Stored *>(x + COLUMNS * ldx);
  }

  /* The row or column at a position, and the reverse. */
  __device__ int at(int position) const { return lower ? position : rows - 1 - position; }

  __device__ bool is_of_a(int row, int column) const { return at(row) < args.m && at(column) < args.m; }
  __device__ Stored element_of_a(int row, int column) const {
    return is_of_a(row, column) ? static_cast<const Stored *>(args.a)[at(row) + at(column) * args.lda]
                                : Stored::from(0);
  }

  /* Zero on the diagonal and in the other triangle, which are not read. */
  __device__ Stored beside_diagonal(int row, int column) const {
    return row > column ? element_of_a(row, column) : Stored::from(0);
  }

  /* Of a step: where D is, by columns; sums, by rows, those for the solver and those of a multiplier; the panel of A'.
   */
  __device__ Element *d_of(int row) const { return d + row / ROWS % 3 * ROWS * ROWS; }
  __device__ Element *sums_of(int row) const { return z + row / ROWS % 3 * ROWS * LDZ; }
  __device__ Element *sums_by(int multiplier) const { return z + (3 + multiplier) * ROWS * LDZ; }
  __device__ Stored *panel_of(int row) const {
    return panels + (row / ROWS % 2 != 0 ? 0 : TB_TRIANGLE_SOLVE64_ODD(rows) * LDA);
  }

  __device__ int &rough_of(int row) const { return rough[row / ROWS % 3]; }

  /* Those that multiply and solve meet alone when a step is solved. */
  __device__ static void meet_when_solved() { part_meet(1, 32 * (MULTIPLIERS + 2)); }

  /* All of them: not __syncthreads, which all threads of a block have to come to at the same place of the program. PTX
   * wants that of a warp's alone; compute-sanitizer's synccheck of all, and tells of these meetings. */
  __device__ static void meet_all() { part_meet(2, TB_TRIANGLE_SOLVE64_THREADS); }

  /* What quotients by a row's element on the diagonal want. */
  __device__ Divisor<double> divisor(int row) const {
    const Two *const of_row = divisors + row % TB_TRIANGLE_SOLVE64_DIVISORS * PARTS;
    const Two first = of_row[0], last = of_row[PARTS - 1];
    if (PARTS == 1) return {first.of[0], first.of[1], 0, 0};
    return {first.of[0], first.of[1], last.of[0], last.of[1]};
  }
  __device__ void set_divisor(int row, const Divisor<double> &divisor) const {
    Two *const of_row = divisors + row % TB_TRIANGLE_SOLVE64_DIVISORS * PARTS;
    of_row[0] = {divisor.d, divisor.r};
    if (PARTS == 2) of_row[PARTS - 1] = {divisor.ratio, divisor.exchanged};
  }
};

} // namespace triangle_leaf

#endif
