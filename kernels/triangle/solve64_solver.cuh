/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The warp that solves 16 rows of all columns of a block, a lane a column (solve64.cuh).
 *
 * To solve is a chain of a row's sum after another. As D's columns are divided by the diagonal, a row's sum is all that
 * the next ones want of it, one FMA a row. True quotients, which are X, are made of all sums at the end. Both differ by
 * a unit or two in the last place (bounds: PRECISION.md).
 *
 * Where a row of the step has a reciprocal that would not do (elements.cuh), D an element that could not be divided, or
 * a sum or a quotient of the lane is out of range, its column of the step is solved as the reference solves it.
 */
#ifndef TB_TRIANGLE_SOLVE64_SOLVER_CUH
#define TB_TRIANGLE_SOLVE64_SOLVER_CUH

#include "triangle/solve64_memory.cuh"

namespace triangle_leaf {

template <typename Stored, bool lower> struct Solver64 : Memory64<Stored, lower> {
  using Memory = Memory64<Stored, lower>;
  using Memory::args, Memory::d_of, Memory::divisor, Memory::beside_diagonal, Memory::lane, Memory::ldx, Memory::LDZ,
      Memory::Memory64, Memory::meet_all, Memory::meet_when_solved, Memory::ROWS, Memory::rough_of, Memory::rows,
      Memory::sums_of, Memory::WIDENS, Memory::x;
  using typename Memory::Element;

  static constexpr int OF_VECTOR = 16 / sizeof(Element);
  using Vector = Several<Element, OF_VECTOR>;

  /* The lane's sums of a step, each without what the rows before it give. */
  __device__ void substitute(Element (&sum)[ROWS], const Element *of_d) const {
#pragma unroll
    for (int j = 0; j < ROWS; j++)
#pragma unroll
      for (int i = (j + 1) / OF_VECTOR * OF_VECTOR; i < ROWS; i += OF_VECTOR) {
        const Vector v = *reinterpret_cast<const Vector *>(of_d + j * ROWS + i);
#pragma unroll
        for (int l = 0; l < OF_VECTOR; l++)
          if (i + l > j) add(sum[i + l], v.of[l], sum[j]);
      }
  }

  /* Whether quick() has the quotient of a number by what has a reciprocal (is_quick(), a little narrower), of what
   * comes of floats always; and whether a number is finite where it is stored. By the exponent: comparisons of doubles
   * are in the way of products. */
  __device__ static bool is_quick_by_exponent(double b) {
    constexpr unsigned least = (1023 - 599) << 20, most = (1023 + 599) << 20;
    const unsigned high = static_cast<unsigned>(__double2hiint(b)) & 0x7fffffffu;
    return WIDENS || (high - least <= most - least) | ((high | static_cast<unsigned>(__double2loint(b))) == 0);
  }
  __device__ static bool fits(double x) {
    constexpr unsigned most = ((1023 + 127) << 20) + 0xfffff; /* and all ones behind: a float's largest is below it */
    return !WIDENS || (static_cast<unsigned>(__double2hiint(x)) & 0x7fffffffu) < most;
  }
  __device__ static bool is_quick_by_exponent(Plain<double> z) { return is_quick_by_exponent(z.re); }
  __device__ static bool is_quick_by_exponent(Complex<double> z) {
    return is_quick_by_exponent(z.re) & is_quick_by_exponent(z.im);
  }
  __device__ static bool fits(Plain<double> z) { return fits(z.re); }
  __device__ static bool fits(Complex<double> z) { return fits(z.re) & fits(z.im); }

  /* False: of a quotient an operand, or where it is stored itself, is out of range. */
  template <bool unit> __device__ bool divide(Element (&sum)[ROWS], int row) const {
    bool good = true;
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
      if (!unit) {
        const Divisor<double> by = divisor(row + i);
        sum[i] = numerator(sum[i], by);
        good &= is_quick_by_exponent(sum[i]);
        sum[i] = WIDENS ? times(sum[i], by.r) : quicks(sum[i], by.d, by.r);
      }
      good &= fits(sum[i]);
    }
    return good;
  }

  /* False: the lane's column is not solved. */
  template <bool unit> __device__ bool solve_quickly(int row) const {
    Element sum[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; i++) sum[i] = sums_of(row)[i * LDZ + lane];
    substitute(sum, d_of(row));
    const bool good = divide<unit>(sum, row);
    if (!good) return false;
#pragma unroll
    for (int i = 0; i < ROWS; i += OF_VECTOR) {
      Vector v;
#pragma unroll
      for (int l = 0; l < OF_VECTOR; l++) v.of[l] = sum[i + l];
      *reinterpret_cast<Vector *>(x + lane * ldx + row + i) = v;
    }
    return true;
  }

  __device__ static Plain<double> shown(Plain<double> z, int from) { return {__shfl_sync(~0u, z.re, from)}; }
  __device__ static Complex<double> shown(Complex<double> z, int from) {
    return {__shfl_sync(~0u, z.re, from), __shfl_sync(~0u, z.im, from)};
  }

  /* The columns of lanes that want it: with true quotients all along, from A' itself, of which a lane has a row, and
   * with numbers as they are stored. */
  __device__ void solve_carefully(int row, bool wanted) const {
    Element *const mine = sums_of(row) + lane;
    Stored next = beside_diagonal(row + lane % ROWS, row);
#pragma unroll 1
    for (int j = 0; j < ROWS; j++) {
      const Element of_a = widened(next);
      const Divisor<double> by = divisor(row + j);
      Element xj = Element::from(0);
      if (j + 1 < ROWS) next = beside_diagonal(row + lane % ROWS, row + j + 1);
      if (wanted) {
        const Element quotient = args.unit ? mine[j * LDZ] : quotients(numerator(mine[j * LDZ], by), by.d, by.r);
        xj = widened(narrowed(quotient, Stored{}));
        x[lane * ldx + row + j] = xj;
      }
#pragma unroll 1
      for (int i = j + 1; i < ROWS; i++) {
        const Element a = shown(of_a, i);
        if (wanted) add(mine[i * LDZ], a, xj);
      }
    }
  }

  __device__ void run() const {
    meet_all(); /* there are reciprocals */
#pragma unroll 1
    for (int row = 0; row < rows; row += ROWS) {
      meet_all(); /* the sums are there */
      const bool quick = rough_of(row) != row + ROWS;
      const bool done = quick && (args.unit ? solve_quickly<true>(row) : solve_quickly<false>(row));
      if (!__all_sync(~0u, done)) solve_carefully(row, !done);
      meet_when_solved();
    }
    meet_all(); /* all is solved */
  }
};

} // namespace triangle_leaf

#endif
