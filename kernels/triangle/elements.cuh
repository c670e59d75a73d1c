/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Elements of the types of a triangle, real and complex: how they come from memory, sums of products, and quotients.
 *
 * A division's chain of dependent operations, one for each row, would be most of a solve. So the diagonal's
 * reciprocals are there first, and a quotient is q = b r, then q + r (b - q d), with the remainder exact: three
 * operations, and an error of half a unit in the last place and a little (2^-50 of it). Where a number is so large or
 * so small that this would not hold, it is a true division. Complex quotients are Smith's: numerator and denominator
 * are multiplied by 1 - i im / re of the denominator, or by its like with the parts in each other's places, so that
 * nothing overflows but what does in the result.
 */
#ifndef TB_TRIANGLE_ELEMENTS_CUH
#define TB_TRIANGLE_ELEMENTS_CUH

#include <stdint.h>

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

/* Whether quick() is the quotient of b. */
template <typename Real> __device__ inline bool is_quick(Real b, Real r) {
  const Real size = absolute(b);
  return r != 0 && size <= Range<Real>::number && (size >= 1 / Range<Real>::number || size == 0);
}
template <typename Real> __device__ inline Real quick(Real b, Real d, Real r) {
  const Real q = b * r;
  return fused(fused(-q, d, b), r, q);
}
template <typename Real> __device__ inline Real quotient(Real b, Real d, Real r) {
  return is_quick(b, r) ? quick(b, d, r) : b / d;
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

/* Neighbours that are read or written at once. */
template <typename T, int Count> struct alignas(Count * sizeof(T)) Several {
  static constexpr int N = Count;
  T of[Count];
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

/* What is divided by a divisor's d: the number, or Smith's numerators. */
template <typename R> __device__ inline Plain<R> numerator(Plain<R> b, const Divisor<R> &) { return b; }
template <typename R> __device__ inline Complex<R> numerator(Complex<R> b, const Divisor<R> &x) {
  return {x.exchanged != 0 ? fused(b.re, x.ratio, b.im) : fused(b.im, x.ratio, b.re),
          x.exchanged != 0 ? fused(b.im, x.ratio, -b.re) : fused(-b.re, x.ratio, b.im)};
}
template <typename R> __device__ inline bool are_quick(Plain<R> b, R r) { return is_quick(b.re, r); }
template <typename R> __device__ inline bool are_quick(Complex<R> b, R r) {
  return is_quick(b.re, r) && is_quick(b.im, r);
}
template <typename R> __device__ inline Plain<R> quicks(Plain<R> b, R d, R r) { return {quick(b.re, d, r)}; }
template <typename R> __device__ inline Complex<R> quicks(Complex<R> b, R d, R r) {
  return {quick(b.re, d, r), quick(b.im, d, r)};
}
template <typename R> __device__ inline Plain<R> quotients(Plain<R> b, R d, R r) { return {quotient(b.re, d, r)}; }
template <typename R> __device__ inline Complex<R> quotients(Complex<R> b, R d, R r) {
  return {quotient(b.re, d, r), quotient(b.im, d, r)};
}

} // namespace triangle_leaf

#endif
