/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The FP64 tensor cores (PTX ISA, mma.sync .f64; compute capability 8.0 on), behind one function that a whole warp
 * calls together.
 *
 *   multiply64(d, x, y)     D_j += X Y_j for each j: 16 x 8 += 16 x 8 times 8 x 8
 *
 * With lane = 4 g + t, a thread has
 *
 *   x[e][h]   X: row g + 8 e, k = t + 4 h
 *   y[j][h]   Y_j: column g, k = t + 4 h
 *   d[j][c]   D_j: row g + c / 2 * 8, column 2 t + c % 2
 *
 * Every product and every sum is rounded as an FMA is. An element's eight products are added one after another, k
 * ascending. (NVIDIA does not say so of its tensor cores; the bits of an H200 do, tests/gpu/fp64_bench.c.)
 *
 * Before 8.0 there are shuffles and FMAs in its place: 7.5 has two FP64 units an SM, for which the FMAs of one
 * instruction take 128 cycles. (No such GPU was at hand.)
 */
#ifndef TB_MMA64_CUH
#define TB_MMA64_CUH

#include "common/ptx.cuh"

#if defined(TB_ON_CPU)

/* Lanes show each other their fragments. Elements are independent chains, so they stand in the innermost loops. */
template <int Y>
__device__ inline void multiply64(double (&d)[Y][4], const double (&x)[2][2], const double (&y)[Y][2]) {
  struct Fragments {
    double x[2][2], y[Y][2];
  };
  static_assert(sizeof(Fragments) <= TB_CPU_LANE_BYTES, "a lane's slot holds them");
  const unsigned lane = tb_cpu_lane(), g = lane / 4, t = lane % 4;
  const auto of = [](unsigned other) { return static_cast<Fragments *>(tb_cpu_lane_slot(other)); };
  std::memcpy(of(lane)->x, x, sizeof x);
  std::memcpy(of(lane)->y, y, sizeof y);
  __syncwarp();
  for (int h = 0; h < 2; h++)
    for (unsigned k = 0; k < 4; k++) {
      const Fragments &row = *of(4 * g + k), *const column[2] = {of(8 * t + k), of(8 * t + 4 + k)};
      for (int j = 0; j < Y; j++)
        for (int c = 0; c < 4; c++) d[j][c] = __fma_rn(row.x[c / 2][h], column[c % 2]->y[j][h], d[j][c]);
    }
  __syncwarp();
}

#else

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

/* Four k of a tile. (Shapes with more k want several k of Y in neighbouring registers, and are no faster.) */
__device__ __forceinline__ void multiply64_four(double (&d)[4], double x0, double x1, double y) {
  asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
               : "d"(x0), "d"(x1), "d"(y));
}

#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

/* 8 x 8 is all there is. */
__device__ __forceinline__ void multiply64_four(double (&d)[4], double x0, double x1, double y) {
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+d"(d[0]), "+d"(d[1])
               : "d"(x0), "d"(y));
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+d"(d[2]), "+d"(d[3])
               : "d"(x1), "d"(y));
}

#else

__device__ __forceinline__ void multiply64_four(double (&d)[4], double x0, double x1, double y) {
  const unsigned lane = threadIdx.x % 32, row = lane / 4 * 4, column = lane % 4 * 8;
#pragma unroll
  for (unsigned k = 0; k < 4; k++) {
    const double y0 = __shfl_sync(~0u, y, column + k), y1 = __shfl_sync(~0u, y, column + 4 + k);
    const double u = __shfl_sync(~0u, x0, row + k), v = __shfl_sync(~0u, x1, row + k);
    d[0] = __fma_rn(u, y0, d[0]), d[1] = __fma_rn(u, y1, d[1]);
    d[2] = __fma_rn(v, y0, d[2]), d[3] = __fma_rn(v, y1, d[3]);
  }
}

#endif

/* A tile's next four k stand behind other tiles' first four: they wait for these. */
template <int Y>
__device__ __forceinline__ void multiply64(double (&d)[Y][4], const double (&x)[2][2], const double (&y)[Y][2]) {
#pragma unroll
  for (int h = 0; h < 2; h++)
#pragma unroll
    for (int j = 0; j < Y; j++) multiply64_four(d[j], x[0][h], x[1][h], y[j][h]);
}

#endif

#endif
