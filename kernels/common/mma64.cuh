/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The FP64 tensor cores (PTX ISA, mma.sync .f64; compute capability 8.0 on), behind one function that a whole
 * warp calls together.
 *
 *   multiply64(d, x, y, signs)   D_j += X Y_j for each j: 16 x 8 += 16 x 8 times 8 x 8 real numbers (a d of one part);
 *                                16 x 4 times 4 x 8 complex ones (of two parts)
 *   multiply64_at_once(d, x, y)  the same without signs; of real numbers for fragments whose x, and whose y[j], stand
 * in registers beside each other, as loads of 16 bytes leave them
 *
 * With lane = 4 g + t, a thread has
 *
 *   of real numbers   x[e][h]      X: row g + 8 e, k = t + 4 h
 *                     y[j][h]      Y_j: column g, k = t + 4 h
 *   of complex ones   x[e][part]   X: row g + 8 e, k = t; part 0 is real, 1 imaginary
 *                     y[j][part]   Y_j: column g, k = t
 *   of either         d[part][j][c]   D_j: row g + c / 2 * 8, column 2 t + c % 2
 *
 * Every product and every sum is rounded as an FMA is. An element's eight products are added one after another, k
 * ascending. A complex element's four k bring eight products to each part. To the real one come those of real parts, k
 * ascending, then those of imaginary parts, subtracted; to the imaginary one those of X's imaginary parts, then those
 * of its real ones. `signs` changes the sign of X's, and of Y's, imaginary parts first: conjugation. (NVIDIA does not
 * say so of its tensor cores; the bits of an H200 do, tests/unit/test_fp64.c.)
 *
 * Before 8.0 there are shuffles and FMAs in its place: 7.5 has two FP64 units an SM, for which the FMAs of one
 * instruction take 128 cycles. (No such GPU was at hand.)
 */
#ifndef TB_MMA64_CUH
#define TB_MMA64_CUH

#include "common/ptx.cuh"

/* The sign bit, of a double's upper half, or 0. */
constexpr int kMinus64 = INT32_MIN;
struct Signs64 {
  int x, y;
};

#if defined(TB_ON_CPU)

/* Lanes show each other their fragments: Y's of all j beside each other, and so the sums while they grow. Elements are
 * independent chains, so they stand in the innermost loops, which are vectorised. */
template <int Y> struct Fragments64 {
  double x[2][2], y[2][Y];
  TB_CPU_WITHIN static Fragments64 &of(unsigned lane) { return *static_cast<Fragments64 *>(tb_cpu_lane_slot(lane)); }
};

template <int Y>
__device__ TB_REGISTERS_ONLY void multiply64(double (&d)[1][Y][4], const double (&x)[2][2], const double (&y)[Y][2],
                                             Signs64) {
  using Fragments = Fragments64<Y>;
  static_assert(sizeof(Fragments) <= TB_CPU_LANE_BYTES, "a lane's slot holds them");
  const unsigned lane = tb_cpu_lane(), g = lane / 4, t = lane % 4;
  Fragments &mine = Fragments::of(lane);
  std::memcpy(mine.x, x, sizeof x);
  for (int j = 0; j < Y; j++) mine.y[0][j] = y[j][0], mine.y[1][j] = y[j][1];
  __syncwarp();
  double sum[4][Y];
  for (int c = 0; c < 4; c++)
    for (int j = 0; j < Y; j++) sum[c][j] = d[0][j][c];
  for (int h = 0; h < 2; h++)
    for (unsigned k = 0; k < 4; k++) {
      const Fragments &row = Fragments::of(4 * g + k);
      const Fragments *const column[2] = {&Fragments::of(8 * t + k), &Fragments::of(8 * t + 4 + k)};
      for (int c = 0; c < 4; c++)
        for (int j = 0; j < Y; j++) sum[c][j] = __builtin_fma(row.x[c / 2][h], column[c % 2]->y[h][j], sum[c][j]);
    }
  for (int c = 0; c < 4; c++)
    for (int j = 0; j < Y; j++) d[0][j][c] = sum[c][j];
  __syncwarp();
}

template <int Y>
__device__ TB_REGISTERS_ONLY void multiply64(double (&d)[2][Y][4], const double (&x)[2][2], const double (&y)[Y][2],
                                             Signs64 signs) {
  using Fragments = Fragments64<Y>;
  static_assert(sizeof(Fragments) <= TB_CPU_LANE_BYTES, "a lane's slot holds them");
  const unsigned lane = tb_cpu_lane(), g = lane / 4, t = lane % 4;
  Fragments &mine = Fragments::of(lane);
  std::memcpy(mine.x, x, sizeof x);
  for (int e = 0; e < 2; e++) mine.x[e][1] = signs.x != 0 ? -x[e][1] : x[e][1];
  for (int j = 0; j < Y; j++) mine.y[0][j] = y[j][0], mine.y[1][j] = signs.y != 0 ? -y[j][1] : y[j][1];
  __syncwarp();
  double re[4][Y], im[4][Y];
  for (int c = 0; c < 4; c++)
    for (int j = 0; j < Y; j++) re[c][j] = d[0][j][c], im[c][j] = d[1][j][c];
  for (int by = 0; by < 2; by++) /* Y's part */
    for (unsigned k = 0; k < 4; k++) {
      const Fragments &row = Fragments::of(4 * g + k);
      const Fragments *const column[2] = {&Fragments::of(8 * t + k), &Fragments::of(8 * t + 4 + k)};
      for (int c = 0; c < 4; c++) {
        const double u = row.x[c / 2][by], v = row.x[c / 2][1 - by], signed_u = by != 0 ? -u : u;
        for (int j = 0; j < Y; j++) {
          re[c][j] = __builtin_fma(signed_u, column[c % 2]->y[by][j], re[c][j]);
          im[c][j] = __builtin_fma(v, column[c % 2]->y[by][j], im[c][j]);
        }
      }
    }
  for (int c = 0; c < 4; c++)
    for (int j = 0; j < Y; j++) d[0][j][c] = re[c][j], d[1][j][c] = im[c][j];
  __syncwarp();
}

template <int Parts, int Y>
__device__ TB_REGISTERS_ONLY void multiply64_at_once(double (&d)[Parts][Y][4], const double (&x)[2][2],
                                                     const double (&y)[Y][2]) {
  multiply64(d, x, y, Signs64{0, 0});
}

#else

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

/* Four k of a tile. (Shapes with more k want several k of Y in neighbouring registers, where real numbers of one column
 * stand only if they run along k.) */
__device__ __forceinline__ void multiply64_four(double (&d)[4], double x0, double x1, double y) {
  asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
               : "d"(x0), "d"(x1), "d"(y));
}

#define TB_MMA64_EIGHT
__device__ __forceinline__ void multiply64_eight(double (&d)[4], const double (&x)[2][2], const double (&y)[2]) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
               : "d"(x[0][0]), "d"(x[1][0]), "d"(x[0][1]), "d"(x[1][1]), "d"(y[0]), "d"(y[1]));
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
  /* Those few units for doubles have the time; unrolled, the compiler takes twice as long for all of a kernel. */
#pragma unroll 1
  for (unsigned k = 0; k < 4; k++) {
    const double y0 = __shfl_sync(~0u, y, column + k), y1 = __shfl_sync(~0u, y, column + 4 + k);
    const double u = __shfl_sync(~0u, x0, row + k), v = __shfl_sync(~0u, x1, row + k);
    d[0] = __fma_rn(u, y0, d[0]), d[1] = __fma_rn(u, y1, d[1]);
    d[2] = __fma_rn(v, y0, d[2]), d[3] = __fma_rn(v, y1, d[3]);
  }
}

#endif

/* Eight k of all tiles, for one X or, of complex numbers, for each part's, by instructions of four. A tile's next four
 * stand behind other tiles' first four: they wait for these. */
template <int Parts, int Y>
__device__ __forceinline__ void multiply64_fours(double (&d)[Parts][Y][4], const double (&x)[Parts][2][2],
                                                 const double (&y)[Y][2]) {
#pragma unroll
  for (int h = 0; h < 2; h++)
#pragma unroll
    for (int part = 0; part < Parts; part++)
#pragma unroll
      for (int j = 0; j < Y; j++) multiply64_four(d[part][j], x[part][0][h], x[part][1][h], y[j][h]);
}

/* The same by those of eight, where there are any. */
template <int Parts, int Y>
__device__ __forceinline__ void multiply64_eights(double (&d)[Parts][Y][4], const double (&x)[Parts][2][2],
                                                  const double (&y)[Y][2]) {
#if defined(TB_MMA64_EIGHT)
#pragma unroll
  for (int part = 0; part < Parts; part++)
#pragma unroll
    for (int j = 0; j < Y; j++) multiply64_eight(d[part][j], x[part], y[j]);
#else
  multiply64_fours(d, x, y);
#endif
}

/* Real numbers have one X. */
struct One64 {
  double of[1][2][2];
  __device__ __forceinline__ explicit One64(const double (&x)[2][2]) : of{{{x[0][0], x[0][1]}, {x[1][0], x[1][1]}}} {}
};

template <int Y>
__device__ __forceinline__ void multiply64(double (&d)[1][Y][4], const double (&x)[2][2], const double (&y)[Y][2],
                                           Signs64) {
  multiply64_fours(d, One64(x).of, y);
}

__device__ __forceinline__ double with_sign(double x, int changed) {
  return __hiloint2double(__double2hiint(x) ^ changed, __double2loint(x));
}

/* A complex element of Y stands as it is loaded, its parts two of eight k: beside X's parts (re, -im) the products are
 * the real one's, beside (im, re) the imaginary one's. So X alone is written anew, once for all columns. */
template <int Y>
__device__ __forceinline__ void multiply64(double (&d)[2][Y][4], const double (&x)[2][2], const double (&y)[Y][2],
                                           Signs64 signs) {
  double of_x[2][2][2], conjugated[Y][2];
#pragma unroll
  for (int e = 0; e < 2; e++) {
    of_x[0][e][0] = of_x[1][e][1] = x[e][0];
    of_x[0][e][1] = with_sign(x[e][1], signs.x ^ kMinus64);
    of_x[1][e][0] = with_sign(x[e][1], signs.x);
  }
#pragma unroll
  for (int j = 0; j < Y; j++) conjugated[j][0] = y[j][0], conjugated[j][1] = with_sign(y[j][1], signs.y);
  /* Two tiles, as a warp of a small block has, are sooner by fours: 24 shapes of 10 to 120 us by 1 % in the mean, 512
   * cubed takes 26.9 us for 27.9 (H200, three turns). */
  if constexpr (Y == 2)
    multiply64_fours(d, of_x, conjugated);
  else
    multiply64_eights(d, of_x, conjugated);
}

template <int Y>
__device__ __forceinline__ void multiply64_at_once(double (&d)[1][Y][4], const double (&x)[2][2],
                                                   const double (&y)[Y][2]) {
  multiply64_eights(d, One64(x).of, y);
}
template <int Y>
__device__ __forceinline__ void multiply64_at_once(double (&d)[2][Y][4], const double (&x)[2][2],
                                                   const double (&y)[Y][2]) {
  multiply64(d, x, y, Signs64{0, 0});
}

#endif

#endif
