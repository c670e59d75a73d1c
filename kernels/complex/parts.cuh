/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What makes a complex product of floats a real one, and both types' commits, see complex_args.h. Bound by memory: each
 * thread has an element of a column, and a warp 32 that are neighbours. Floor, of an operand of N elements of b bytes
 * each: to expand it, 3 b N over the memory's bandwidth, to take its parts apart 2 b N. 8192 x 8192: 1.6 GB, a third of
 * a millisecond at an H200's nominal bandwidth, beside 23 ms for a product at 190 TFLOP/s.
 *
 * Nothing is contracted to an FMA: the CPU's answer, of which a failing GPU leaves a part to be computed, is what the
 * commit is compared with bit by bit.
 */
#ifndef TB_COMPLEX_PARTS_CUH
#define TB_COMPLEX_PARTS_CUH

#include "complex/complex_args.h"
#include "common/device.cuh"

namespace complex_parts {

struct Floats {
  using Real = float;
  static __device__ Real times(Real x, Real y) { return __fmul_rn(x, y); }
  static __device__ Real plus(Real x, Real y) { return __fadd_rn(x, y); }
};

struct Doubles {
  using Real = double;
  static __device__ Real times(Real x, Real y) { return __dmul_rn(x, y); }
  static __device__ Real plus(Real x, Real y) { return __dadd_rn(x, y); }
};

template <typename T> struct Complex { typename T::Real re, im; };

/* The textbook's product, whatever comes of infinities. */
template <typename T> __device__ Complex<T> product(Complex<T> x, Complex<T> y) {
  return {T::plus(T::times(x.re, y.re), -T::times(x.im, y.im)), T::plus(T::times(x.re, y.im), T::times(x.im, y.re))};
}

template <typename T> __device__ Complex<T> scalar(const double from[2]) {
  return {static_cast<typename T::Real>(from[0]), static_cast<typename T::Real>(from[1])};
}

/* The thread's row; its first column; and how far its next one is. */
struct Place {
  int64_t row, column, step;
};

__device__ inline Place place_of_thread() {
  return {blockIdx.x * static_cast<int64_t>(TB_COMPLEX_THREADS_M) + threadIdx.x,
          blockIdx.y * static_cast<int64_t>(TB_COMPLEX_THREADS_N) + threadIdx.y,
          static_cast<int64_t>(gridDim.y) * TB_COMPLEX_THREADS_N};
}

template <typename T> __device__ void expand(const tb_complex_expand_args &args) {
  using Real = typename T::Real;
  const Place at = place_of_thread();
  if (at.row >= args.rows) return;
  const Complex<T> alpha = scalar<T>(args.alpha);
  for (int64_t j = at.column; j < args.columns; j += at.step) {
    const Real *const from = static_cast<const Real *>(args.from) + 2 * (at.row + j * args.from_ld);
    Complex<T> z = {from[0], args.conjugate_a ? -from[1] : from[1]};
    if (args.scaled) z = product<T>(alpha, z);
    Real *const even = static_cast<Real *>(args.to) + 2 * at.row + 2 * j * args.to_ld, *const odd = even + args.to_ld;
    const Real signed_re = args.conjugate_b ? -z.re : z.re, other_im = args.conjugate_b ? z.im : -z.im;
    even[0] = z.re;
    even[1] = args.along_k ? other_im : z.im;
    odd[0] = args.along_k ? z.im : other_im;
    odd[1] = signed_re;
  }
}

template <typename T> __device__ void part(const tb_complex_part_args &args) {
  using Real = typename T::Real;
  const Place at = place_of_thread();
  if (at.row >= args.rows) return;
  for (int64_t j = at.column; j < args.columns; j += at.step) {
    const Real *const from = static_cast<const Real *>(args.from) + 2 * (at.row + j * args.from_ld);
    Real *const to = static_cast<Real *>(args.to) + at.row + 2 * j * args.to_ld;
    to[0] = from[0];
    to[args.to_ld] = from[1];
  }
}

template <typename T> __device__ void commit(const tb_complex_commit_args &args) {
  using Real = typename T::Real;
  const Place at = place_of_thread();
  if (at.row >= args.m) return;
  const Complex<T> beta = scalar<T>(args.beta);
  const bool overwrites = beta.re == 0 && beta.im == 0;
  const bool keeps = beta.re == 1 && beta.im == 0;
  for (int64_t j = at.column; j < args.n; j += at.step) {
    Real *const c = static_cast<Real *>(args.c) + 2 * (at.row + j * args.ldc);
    Complex<T> sum = {0, 0};
    if (args.d != nullptr) {
      const Real *const d = static_cast<const Real *>(args.d) + 2 * (at.row + j * args.ldd);
      sum = {d[0], d[1]};
    }
    if (!overwrites) {
      const Complex<T> before = {c[0], c[1]}, kept = keeps ? before : product<T>(beta, before);
      sum = args.d == nullptr ? kept : Complex<T>{T::plus(sum.re, kept.re), T::plus(sum.im, kept.im)};
    }
    c[0] = sum.re;
    c[1] = sum.im;
  }
}

} // namespace complex_parts

#endif
