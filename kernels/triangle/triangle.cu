/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Triangles that lie on the GPU, see triangle_args.h: C = D + beta * C of one, and general panels of a matrix of which
 * one is stored. Bound by memory: a warp moves 32 neighbouring elements of a column, and a thread's column advances by
 * the grid's columns. Threads outside a triangle of C do nothing, so half of a square's warps move nothing either.
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

/* ---- panels ---- */

template <typename Real, int parts> struct element { Real part[parts]; };

/* From its own place, or its image's. */
template <typename Real, int parts>
__device__ element<Real, parts> read(const tb_triangle_mirror_args &args, int64_t i, int64_t j, bool stored) {
  const int64_t row = stored ? i : j + args.diagonal, column = stored ? j : i - args.diagonal;
  element<Real, parts> e;
  const Real *const from = static_cast<const Real *>(args.from) + parts * (row + column * args.from_ld);
  for (int p = 0; p < parts; p++) e.part[p] = from[p];
  if (args.hermitian && !stored) e.part[parts - 1] = -e.part[parts - 1];
  if (args.hermitian && i == j + args.diagonal) e.part[parts - 1] = 0;
  return e;
}

template <typename Real, int parts>
__device__ void write(const tb_triangle_mirror_args &args, int64_t i, int64_t j, const element<Real, parts> &e) {
  Real *const to = static_cast<Real *>(args.to) + parts * (i + j * args.to_ld);
  for (int p = 0; p < parts; p++) to[p] = e.part[p];
}

__device__ inline bool is_stored(const tb_triangle_mirror_args &args, int64_t i, int64_t j) {
  return args.lower ? i >= j + args.diagonal : i <= j + args.diagonal;
}

/* A part of which nothing is stored: neighbouring threads read neighbours of a stored column, which are a row of the
 * panel, and write neighbours of one of its columns. */
template <typename Real, int parts>
__device__ void turn(const tb_triangle_mirror_args &args, int64_t first_i, int64_t first_j,
                     element<Real, parts> (*tile)[TB_TRIANGLE_MIRROR_TILE + 1]) {
  const int64_t across_j = first_j + threadIdx.x, i = first_i + threadIdx.x;
  for (int y = threadIdx.y; y < TB_TRIANGLE_MIRROR_TILE; y += TB_TRIANGLE_THREADS_N)
    if (first_i + y < args.m && across_j < args.n)
      tile[y][threadIdx.x] = read<Real, parts>(args, first_i + y, across_j, false);
  __syncthreads();
  for (int y = threadIdx.y; y < TB_TRIANGLE_MIRROR_TILE; y += TB_TRIANGLE_THREADS_N)
    if (i < args.m && first_j + y < args.n) write<Real, parts>(args, i, first_j + y, tile[threadIdx.x][y]);
  __syncthreads(); /* before the next part's elements come */
}

/* One that is stored, or on the diagonal, where each thread sees for its element. */
template <typename Real, int parts>
__device__ void copy(const tb_triangle_mirror_args &args, int64_t first_i, int64_t first_j) {
  const int64_t i = first_i + threadIdx.x;
  for (int y = threadIdx.y; y < TB_TRIANGLE_MIRROR_TILE; y += TB_TRIANGLE_THREADS_N) {
    const int64_t j = first_j + y;
    if (i < args.m && j < args.n) write<Real, parts>(args, i, j, read<Real, parts>(args, i, j, is_stored(args, i, j)));
  }
}

template <typename Real, int parts> __device__ void mirror(const tb_triangle_mirror_args &args) {
  constexpr int T = TB_TRIANGLE_MIRROR_TILE;
  __shared__ element<Real, parts> tile[T][T + 1];
  const int64_t i = blockIdx.x * static_cast<int64_t>(T), step = static_cast<int64_t>(gridDim.y) * T;
  for (int64_t j = blockIdx.y * static_cast<int64_t>(T); j < args.n; j += step) {
    /* The corners that are the first to be stored. */
    const bool any_stored = is_stored(args, args.lower ? i + T - 1 : i, args.lower ? j : j + T - 1);
    if (any_stored)
      copy<Real, parts>(args, i, j);
    else
      turn<Real, parts>(args, i, j, tile);
  }
}

} // namespace triangle

#define TB_TRIANGLE_KERNEL(name, does, ...)                                                  \
  extern "C" __global__ void __launch_bounds__(TB_TRIANGLE_THREADS_M *TB_TRIANGLE_THREADS_N) \
      name(const tb_triangle_##does##_args args) {                                           \
    triangle::does<__VA_ARGS__>(args);                                                       \
  }
TB_TRIANGLE_KERNEL(tb_triangle_commit_s, commit, float, 1)
TB_TRIANGLE_KERNEL(tb_triangle_commit_d, commit, double, 1)
TB_TRIANGLE_KERNEL(tb_triangle_commit_c, commit, float, 2)
TB_TRIANGLE_KERNEL(tb_triangle_commit_z, commit, double, 2)
TB_TRIANGLE_KERNEL(tb_triangle_mirror_s, mirror, float, 1)
TB_TRIANGLE_KERNEL(tb_triangle_mirror_d, mirror, double, 1)
TB_TRIANGLE_KERNEL(tb_triangle_mirror_c, mirror, float, 2)
TB_TRIANGLE_KERNEL(tb_triangle_mirror_z, mirror, double, 2)
