/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A diagonal block of A' and the rows of B beside it, see solve_args.h. Four warps have a quarter of the rows each, in
 * registers, and a lane has a column of B:
 *
 *        A' in shared memory          B
 *      | 0               |        | warp 0 |      solve, lower: warp 0 solves with its block of the diagonal and shows
 *      | 1  1            |        | warp 1 |      what it has; the others take their block of that column of blocks
 *      | 2  2  2         |        | warp 2 |      times it away, and warp 1 goes on. Upper: from the last warp to the
 *      | 3  3  3  3      |        | warp 3 |      first.
 *
 * An element of A' is one load for a whole warp. B comes and goes by way of shared memory, so that neighbouring lanes
 * move neighbouring rows. A block that is cut off is filled up with a diagonal of 1 and with zeros, of which nothing
 * reaches a row that is B's.
 *
 * Quotients. A division's chain of dependent operations, one for each row, would be most of a solve. So the diagonal's
 * reciprocals are there first, and a quotient is q = b r, then q + r (b - q d), with the remainder exact: three
 * operations, and an error of half a unit in the last place and a little (2^-50 of it). Where a number is so large or
 * so small that this would not hold, it is a true division. Complex quotients are Smith's: numerator and denominator
 * are multiplied by 1 - i im / re of the denominator, or by its like with the parts in each other's places, so that
 * nothing overflows but what does in the result.
 */
#ifndef TB_TRIANGLE_LEAF_CUH
#define TB_TRIANGLE_LEAF_CUH

#include "triangle/solve_args.h"
#include "common/device.cuh"

namespace triangle_leaf {

__device__ inline float fused(float x, float y, float z) { return __fmaf_rn(x, y, z); }
__device__ inline double fused(double x, double y, double z) { return __fma_rn(x, y, z); }
template <typename Real> __device__ inline Real absolute(Real x) { return x < 0 ? -x : x; }

/* Between these a remainder is no subnormal number, and no quotient out of range. */
template <typename Real> struct Range;
template <> struct Range<float> { static constexpr float diagonal = 0x1p40f, number = 0x1p60f; };
template <> struct Range<double> { static constexpr double diagonal = 0x1p300, number = 0x1p600; };

/* 1 / d; 0: quotients by d are divisions. */
template <typename Real> __device__ inline Real reciprocal(Real d) {
  const Real size = absolute(d);
  return size <= Range<Real>::diagonal && size >= 1 / Range<Real>::diagonal ? 1 / d : 0;
}

template <typename Real> __device__ inline Real quotient(Real b, Real d, Real r) {
  const Real size = absolute(b), q = b * r;
  if (r != 0 && size <= Range<Real>::number && (size >= 1 / Range<Real>::number || size == 0))
    return fused(fused(-q, d, b), r, q);
  return b / d;
}

/* ---- elements ---- */

template <typename R> struct Plain {
  using Real = R;
  static constexpr int parts = 1;
  R re;
  __device__ static Plain from(R x) { return {x}; }
};

template <typename R> struct alignas(2 * sizeof(R)) Complex {
  using Real = R;
  static constexpr int parts = 2;
  R re, im;
  __device__ static Complex from(R x) { return {x, 0}; }
};

/* The program's memory is aligned to a real alone. `whole`: this operand's is to an element. */
template <typename Element> __device__ inline bool is_whole(const void *operand) {
  return reinterpret_cast<uintptr_t>(operand) % sizeof(Element) == 0;
}
template <typename R> __device__ inline Plain<R> fetch(const Plain<R> *from, bool) { return *from; }
template <typename R> __device__ inline Complex<R> fetch(const Complex<R> *from, bool whole) {
  if (whole) return *from;
  const R *const part = reinterpret_cast<const R *>(from);
  return {part[0], part[1]};
}
template <typename R> __device__ inline void store(Plain<R> *to, Plain<R> x, bool) { *to = x; }
template <typename R> __device__ inline void store(Complex<R> *to, Complex<R> x, bool whole) {
  R *const part = reinterpret_cast<R *>(to);
  if (whole)
    *to = x;
  else
    part[0] = x.re, part[1] = x.im;
}

/* sum + a x. */
template <typename R> __device__ inline void add(Plain<R> &sum, Plain<R> a, Plain<R> x) {
  sum.re = fused(a.re, x.re, sum.re);
}
template <typename R> __device__ inline void add(Complex<R> &sum, Complex<R> a, Complex<R> x) {
  sum.re = fused(-a.im, x.im, fused(a.re, x.re, sum.re));
  sum.im = fused(a.im, x.re, fused(a.re, x.im, sum.im));
}
template <typename R> __device__ inline void plus(Plain<R> &sum, Plain<R> x) { sum.re += x.re; }
template <typename R> __device__ inline void plus(Complex<R> &sum, Complex<R> x) { sum.re += x.re, sum.im += x.im; }

/* What quotients by a number want of it: four reals. */
template <typename R> struct Divisor {
  R d, r, ratio;
  R exchanged; /* 1: the imaginary part is the larger one */
};

template <typename R> __device__ inline Divisor<R> divisor_of(Plain<R> d) { return {d.re, reciprocal(d.re), 0, 0}; }
template <typename R> __device__ inline Divisor<R> divisor_of(Complex<R> d) {
  const bool exchanged = absolute(d.re) < absolute(d.im);
  const R large = exchanged ? d.im : d.re, small = exchanged ? d.re : d.im;
  const R ratio = small / large, whole = fused(small, ratio, large);
  return {whole, reciprocal(whole), ratio, static_cast<R>(exchanged)};
}

template <typename R> __device__ inline Plain<R> divided(Plain<R> b, const Divisor<R> &x) {
  return {quotient(b.re, x.d, x.r)};
}
template <typename R> __device__ inline Complex<R> divided(Complex<R> b, const Divisor<R> &x) {
  const R re = x.exchanged != 0 ? fused(b.re, x.ratio, b.im) : fused(b.im, x.ratio, b.re);
  const R im = x.exchanged != 0 ? fused(b.im, x.ratio, -b.re) : fused(-b.re, x.ratio, b.im);
  return {quotient(re, x.d, x.r), quotient(im, x.d, x.r)};
}

/* ---- a block ---- */

/* ROWS: of a warp. */
template <typename Element, bool solves, bool lower> struct Leaf {
  using Real = typename Element::Real;
  static constexpr int ROWS = TB_TRIANGLE_ROWS_OF_WARP(sizeof(Real), Element::parts);
  static constexpr int WARPS = TB_TRIANGLE_LEAF_WARPS, M = WARPS * ROWS, N = TB_TRIANGLE_LEAF_COLUMNS, PAD = N + 1;
  static constexpr int PER_LOAD = 16 / sizeof(Element), LINES = N / WARPS, RUNS = M / 32;
  struct alignas(16) Vector {
    Element element[PER_LOAD];
  };

  Element *a, *x;    /* shared: the triangle's columns of blocks; B, a row after another */
  Divisor<Real> *by; /* of each row */
  Element own[ROWS]; /* the warp's rows of the lane's column */
  int warp, lane;

  /* Column j of A' from the first row on that its column of blocks has. */
  __device__ Element *column(int j) const {
    const int s = j / ROWS, before = lower ? s * WARPS - s * (s - 1) / 2 : s * (s + 1) / 2;
    return a + ROWS * ROWS * before + j % ROWS * ROWS * (lower ? WARPS - s : s + 1);
  }
  __device__ int first_row(int j) const { return lower ? j / ROWS * ROWS : 0; }

  /* All that is loaded at once is on its way before any of it is stored. */
  __device__ void load_a(const tb_triangle_leaf_args &args) {
    const Element *const from = static_cast<const Element *>(args.a);
    constexpr int THREADS = 32 * WARPS, AT_ONCE = 8;
#pragma unroll 1
    for (int first = static_cast<int>(threadIdx.x); first < M * M; first += AT_ONCE * THREADS) {
      Element value[AT_ONCE];
#pragma unroll
      for (int u = 0; u < AT_ONCE; u++) {
        const int i = (first + u * THREADS) % M, j = (first + u * THREADS) / M;
        const bool there = i < args.m && j < args.m && (lower ? i >= j : i <= j) && !(i == j && args.unit);
        value[u] = there ? from[i + j * args.lda] : Element::from(static_cast<Real>(i == j));
      }
#pragma unroll
      for (int u = 0; u < AT_ONCE; u++) {
        const int i = (first + u * THREADS) % M, j = (first + u * THREADS) / M;
        if (lower ? i >= first_row(j) : i / ROWS <= j / ROWS) column(j)[i - first_row(j)] = value[u];
      }
    }
  }

  __device__ void prepare_quotients() {
    const int i = static_cast<int>(threadIdx.x);
    if (i < M) by[i] = divisor_of(column(i)[i - first_row(i)]);
  }

  /* Of every fourth column runs of 32 neighbours; elements that there are none of are zeros. */
  __device__ void load_b(const tb_triangle_leaf_args &args, Element value[LINES][RUNS]) const {
    const int64_t first = blockIdx.x * static_cast<int64_t>(N) + warp;
    const Element *const b = static_cast<const Element *>(args.b) + first * args.ldb + lane;
    const bool whole = is_whole<Element>(args.b);
#pragma unroll
    for (int l = 0; l < LINES; l++)
#pragma unroll
      for (int r = 0; r < RUNS; r++) {
        const bool there = first + l * WARPS < args.n && lane + 32 * r < args.m;
        value[l][r] = there ? fetch(b + l * WARPS * args.ldb + 32 * r, whole) : Element::from(0);
      }
  }

  __device__ void show_b(const Element value[LINES][RUNS]) const {
#pragma unroll
    for (int l = 0; l < LINES; l++)
#pragma unroll
      for (int r = 0; r < RUNS; r++) x[(lane + 32 * r) * PAD + warp + l * WARPS] = value[l][r];
  }

  __device__ void store_b(const tb_triangle_leaf_args &args) const {
    const int64_t first = blockIdx.x * static_cast<int64_t>(N) + warp;
    Element *const b = static_cast<Element *>(args.b) + first * args.ldb + lane;
    const bool whole = is_whole<Element>(args.b);
#pragma unroll
    for (int l = 0; l < LINES; l++)
#pragma unroll
      for (int r = 0; r < RUNS; r++)
        if (first + l * WARPS < args.n && lane + 32 * r < args.m)
          store(b + l * WARPS * args.ldb + 32 * r, x[(lane + 32 * r) * PAD + warp + l * WARPS], whole);
  }

  __device__ Element *shown(int row) const { return x + row * PAD + lane; }

  /* The warp's part of column j of A'. */
  __device__ void load_column(int j, Element part[ROWS]) const {
    const Vector *const from = reinterpret_cast<const Vector *>(column(j) + warp * ROWS - first_row(j));
#pragma unroll
    for (int i = 0; i < ROWS; i += PER_LOAD) {
      const Vector v = from[i / PER_LOAD];
#pragma unroll
      for (int l = 0; l < PER_LOAD; l++) part[i + l] = v.element[l];
    }
  }

  /* Beside the diagonal: what another warp's rows give. */
  __device__ void add_block(int s) {
#pragma unroll 2
    for (int jj = 0; jj < ROWS; jj++) {
      Element part[ROWS];
      load_column(s * ROWS + jj, part);
      const Element xj = *shown(s * ROWS + jj);
#pragma unroll
      for (int i = 0; i < ROWS; i++) add(own[i], part[i], xj);
    }
  }

  __device__ void solve_diagonal(bool unit) {
#pragma unroll
    for (int step = 0; step < ROWS; step++) {
      const int jj = lower ? step : ROWS - 1 - step, j = warp * ROWS + jj;
      Element part[ROWS];
      load_column(j, part);
      if (!unit) own[jj] = divided(own[jj], by[j]);
      *shown(j) = own[jj];
#pragma unroll
      for (int i = 0; i < ROWS; i++)
        if (lower ? i > jj : i < jj) add(own[i], part[i], own[jj]);
    }
  }

  __device__ void multiply_diagonal(bool unit) {
#pragma unroll
    for (int jj = 0; jj < ROWS; jj++) {
      Element part[ROWS];
      load_column(warp * ROWS + jj, part);
      const Element xj = *shown(warp * ROWS + jj);
      if (unit)
        plus(own[jj], xj);
      else
        add(own[jj], part[jj], xj);
#pragma unroll
      for (int i = 0; i < ROWS; i++)
        if (lower ? i > jj : i < jj) add(own[i], part[i], xj);
    }
  }

  __device__ void solve(bool unit) {
#pragma unroll
    for (int i = 0; i < ROWS; i++) own[i] = *shown(warp * ROWS + i);
#pragma unroll 1
    for (int step = 0; step < WARPS; step++) {
      const int s = lower ? step : WARPS - 1 - step;
      if (warp == s) solve_diagonal(unit);
      __syncthreads();
      if (lower ? warp > s : warp < s) add_block(s);
    }
  }

  __device__ void multiply(bool unit) {
#pragma unroll
    for (int i = 0; i < ROWS; i++) own[i] = Element::from(0);
#pragma unroll 1
    for (int s = 0; s < WARPS; s++) {
      if (s == warp) multiply_diagonal(unit);
      if (lower ? s < warp : s > warp) add_block(s);
    }
    __syncthreads(); /* what is overwritten now was everybody's to read */
#pragma unroll
    for (int i = 0; i < ROWS; i++) *shown(warp * ROWS + i) = own[i];
    __syncthreads();
  }

  __device__ void run(const tb_triangle_leaf_args &args, unsigned char *shared) {
    a = reinterpret_cast<Element *>(shared);
    x = a + TB_TRIANGLE_LEAF_BLOCKS * ROWS * ROWS;
    by = reinterpret_cast<Divisor<Real> *>(x + M * PAD);
    warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    Element value[LINES][RUNS];
    load_b(args, value);
    load_a(args);
    show_b(value);
    __syncthreads();
    if (solves) {
      prepare_quotients();
      __syncthreads();
      solve(args.unit != 0);
    } else {
      multiply(args.unit != 0);
    }
    store_b(args);
  }
};

} // namespace triangle_leaf

#endif
