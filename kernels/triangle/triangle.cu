/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * C = D + beta * C for a triangle of a C that lies on the GPU, see triangle_args.h. Bound by memory: a warp moves 32
 * neighbouring elements of a column, and a thread's column advances by the grid's columns. Threads outside the triangle
 * do nothing, so half of a square's warps move nothing either.
 */
#include "triangle/triangle_args.h"
#include "common/device.cuh"

namespace triangle {

/* Contracted to an FMA, it would have other bits than the host's commit. */
__device__ inline float times(float x, float y) { return __fmul_rn(x, y); }
__device__ inline float plus(float x, float y) { return __fadd_rn(x, y); }
__device__ inline double times(double x, double y) { return __dmul_rn(x, y); }
__device__ inline double plus(double x, double y) { return __dadd_rn(x, y); }

/* What is kept of an element's numbers, of which there are `parts`. */
template <typename Real, int parts>
__device__ void keep(const tb_triangle_commit_args &args, const Real *c, Real kept[parts]) {
  const Real re = static_cast<Real>(args.beta[0]), im = static_cast<Real>(args.beta[1]);
  if (parts == 2 && !args.hermitian && !(re == 1 && im == 0)) {
    kept[0] = plus(times(re, c[0]), -times(im, c[parts - 1]));
    kept[parts - 1] = plus(times(re, c[parts - 1]), times(im, c[0]));
  } else {
    for (int i = 0; i < parts; i++) kept[i] = times(re, c[i]);
  }
}

template <typename Real, int parts>
__device__ void commit_element(const tb_triangle_commit_args &args, int64_t i, int64_t j) {
  Real *const c = static_cast<Real *>(args.c) + parts * (i + j * args.ldc);
  const bool overwrites = args.beta[0] == 0 && args.beta[1] == 0;
  Real sum[parts] = {};
  if (!overwrites) keep<Real, parts>(args, c, sum);
  if (args.d != nullptr) {
    const Real *const d = static_cast<const Real *>(args.d) + parts * (i + j * args.ldd);
    for (int p = 0; p < parts; p++) sum[p] = overwrites ? d[p] : plus(d[p], sum[p]);
  }
  if (args.hermitian && i == j + args.diagonal) sum[parts - 1] = 0;
  for (int p = 0; p < parts; p++) c[p] = sum[p];
}

template <typename Real, int parts> __device__ void commit(const tb_triangle_commit_args &args) {
  const int64_t i = blockIdx.x * static_cast<int64_t>(TB_TRIANGLE_THREADS_M) + threadIdx.x;
  if (i >= args.m) return;
  const int64_t step = static_cast<int64_t>(gridDim.y) * TB_TRIANGLE_THREADS_N;
  for (int64_t j = blockIdx.y * static_cast<int64_t>(TB_TRIANGLE_THREADS_N) + threadIdx.y; j < args.n; j += step) {
    const int64_t diagonal = j + args.diagonal;
    if (args.lower ? i >= diagonal : i <= diagonal) commit_element<Real, parts>(args, i, j);
  }
}

} // namespace triangle

#define TB_TRIANGLE_KERNEL(name, ...)                                                        \
  extern "C" __global__ void __launch_bounds__(TB_TRIANGLE_THREADS_M *TB_TRIANGLE_THREADS_N) \
      name(const tb_triangle_commit_args args) {                                             \
    triangle::commit<__VA_ARGS__>(args);                                                     \
  }
TB_TRIANGLE_KERNEL(tb_triangle_commit_s, float, 1)
TB_TRIANGLE_KERNEL(tb_triangle_commit_d, double, 1)
TB_TRIANGLE_KERNEL(tb_triangle_commit_c, float, 2)
TB_TRIANGLE_KERNEL(tb_triangle_commit_z, double, 2)
