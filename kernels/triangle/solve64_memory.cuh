/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the warps of a block have in common that solves a leaf in doubles (solve64.cuh): elements as they are stored and
 * as they are computed, positions, and what stands in shared memory.
 *
 *   two steps' D, divided by the diagonal, by columns
 *   two steps' sums, by rows, for the solver: B's rows at first, then with what multipliers add
 *   X, by columns, for the multipliers
 *   chunks of A' in a ring: 16 rows by 64 columns (32 complex ones), of E 16
 *   of each row what quotients by its diagonal want
 *
 * Positions. An upper triangle is a lower one whose rows and columns are counted from the end. All here counts
 * positions; only who copies from or to global memory knows of rows and columns. Behind the last row of A' it goes on
 * with a diagonal of 1 and zeros beside it, up to a multiple of 16, and B with zeros.
 */
#ifndef TB_TRIANGLE_SOLVE64_MEMORY_CUH
#define TB_TRIANGLE_SOLVE64_MEMORY_CUH

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
  static constexpr bool WIDENS = sizeof(Stored) != sizeof(Element);
  static constexpr int PARTS = Element::parts;
  static constexpr int ROWS = TB_TRIANGLE_SOLVE64_STEP, N = TB_TRIANGLE_SOLVE64_COLUMNS;
  static constexpr int CHUNK = TB_TRIANGLE_SOLVE64_CHUNK(PARTS), STAGES = TB_TRIANGLE_SOLVE64_STAGES(PARTS);
  /* No 16 lanes that read together meet a bank twice (of complex elements eight, of floats 32). */
  static constexpr int LDA = TB_TRIANGLE_SOLVE64_LDA(sizeof(Stored)), LDX = TB_TRIANGLE_SOLVE64_LDX(PARTS);
  static constexpr int LDZ = TB_TRIANGLE_SOLVE64_LDZ;

  const tb_triangle_leaf_args &args;
  const int warps, warp, lane, g, t, rows; /* warps: that multiply; rows: with those that are filled up */
  const int mover, thread;                 /* of the warps that move, and of their threads */
  double *divisors;
  int *rough;         /* of two steps: the row behind that of one whose D is not to be divided */
  Element *d, *z, *x; /* D, sums, X, as above */
  Stored *stages;

  __device__ Memory64(const tb_triangle_leaf_args &arguments, unsigned char *shared)
      : args(arguments), warps(static_cast<int>(blockDim.x) / 64), warp(static_cast<int>(threadIdx.x) / 32),
        lane(static_cast<int>(threadIdx.x) % 32), g(lane / 4), t(lane % 4),
        rows((arguments.m + ROWS - 1) / ROWS * ROWS), mover(warp - warps - 1), thread(32 * mover + lane) {
    rough = reinterpret_cast<int *>(shared);
    divisors = reinterpret_cast<double *>(shared + TB_TRIANGLE_SOLVE64_ROUGH_BYTES);
    d = reinterpret_cast<Element *>(shared + TB_TRIANGLE_SOLVE64_ROUGH_BYTES +
                                    TB_TRIANGLE_SOLVE64_DIVISORS_BYTES(PARTS));
    z = d + 2 * ROWS * ROWS;
    x = z + 2 * ROWS * LDZ;
    stages = reinterpret_cast<Stored *>(x + warps * N * LDX);
  }

  /* The row or column at a position, and the reverse. */
  __device__ int at(int position) const { return lower ? position : rows - 1 - position; }

  __device__ bool is_of_a(int row, int column) const { return at(row) < args.m && at(column) < args.m; }
  __device__ Stored element_of_a(int row, int column) const {
    return is_of_a(row, column) ? static_cast<const Stored *>(args.a)[at(row) + at(column) * args.lda]
                                : Stored::from(0);
  }

  /* Where a step's sums are, by rows. */
  __device__ Element *sums_of(int row) const { return z + row / ROWS % 2 * ROWS * LDZ; }

  __device__ bool has_column() const { return lane < warps * N; } /* the solver's lane */

  /* ---- quotients ---- */

  /* By parts: each of them of all rows. */
  __device__ Divisor<double> divisor(int p) const {
    const double *const of_p = divisors + p;
    constexpr int ALL = TB_TRIANGLE_SOLVE64_ROWS(PARTS);
    if (PARTS == 1) return {of_p[0], of_p[ALL], 0, 0};
    return {of_p[0], of_p[ALL], of_p[(PARTS - 1) * 2 * ALL], of_p[(PARTS - 1) * 3 * ALL]};
  }
  __device__ void set_divisor(int p, const Divisor<double> &divisor) const {
    double *const of_p = divisors + p;
    constexpr int ALL = TB_TRIANGLE_SOLVE64_ROWS(PARTS);
    of_p[0] = divisor.d, of_p[ALL] = divisor.r;
    if (PARTS == 2) of_p[2 * ALL] = divisor.ratio, of_p[3 * ALL] = divisor.exchanged;
  }

  /* Whether one has no reciprocal. */
  __device__ bool make_divisors() const {
    bool some = false;
#pragma unroll 1
    for (int p = static_cast<int>(threadIdx.x); p < rows; p += static_cast<int>(blockDim.x)) {
      const bool there = at(p) < args.m && args.unit == 0;
      const Divisor<double> made = divisor_of(there ? widened(element_of_a(p, p)) : Element::from(1));
      set_divisor(p, made);
      some |= made.r == 0;
    }
    return some;
  }
};

} // namespace triangle_leaf

#endif
