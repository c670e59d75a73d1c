/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all tiled sgemm kernels do alike: read fragments, multiply, add up the three levels of sums, store.
 *
 * A tile's geometry G says block_m, block_n (the tile of D), thread_m, thread_n (a thread's part of it), threads_m,
 * threads_n, threads (that multiply) and groups_m, groups_n: a thread keeps thread_m x thread_n accumulators, in groups
 * of 4 x 4 spread over the tile, so that the threads of a warp read neighbouring float4s.
 *
 *   rows    of group g: g * block_m / groups_m + 4 * thread row    + 0..3
 *   columns of group g: g * block_n / groups_n + 4 * thread column + 0..3
 */
#ifndef TB_SGEMM_PARTS_CUH
#define TB_SGEMM_PARTS_CUH

#include "ptx.cuh"
#include "sgemm_args.h"

namespace {

/* Words that one vector access moves. */
constexpr int kVector = 4;
/* Chunks of a group. */
constexpr int kGroupChunks = TB_SGEMM_GROUP_K / TB_SGEMM_CHUNK_K;
/* Tile columns that are computed together, so that the L2 still holds their panels of B for the next tile row. */
constexpr int kGroupColumns = 8;

__device__ __forceinline__ float4 read4(const float *p) { return *reinterpret_cast<const float4 *>(p); }

__device__ __forceinline__ void write4(float *p, float4 v) { *reinterpret_cast<float4 *>(p) = v; }

__device__ __forceinline__ bool takes_vectors(const float *p, int64_t ld) {
  return reinterpret_cast<uintptr_t>(p) % sizeof(float4) == 0 && ld % kVector == 0;
}

__device__ __forceinline__ int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }

/* How a panel's memory runs, and what one copy moves: four words of a side's run, one word of it, or one word of k's
 * run. */
enum Run { kAlongSideVectors, kAlongSide, kAlongK };

/* ---- fragment and multiply: one k, shared memory -> registers ---- */

/* One thread's words of a stage's row: Groups float4s, `Side / Groups` words apart. */
template <int Groups, int Side>
__device__ __forceinline__ void read_fragment(float (&fragment)[Groups * kVector], const float *row) {
#pragma unroll
  for (int g = 0; g < Groups; g++) {
    float4 v = read4(row + g * (Side / Groups));
    fragment[g * kVector + 0] = v.x;
    fragment[g * kVector + 1] = v.y;
    fragment[g * kVector + 2] = v.z;
    fragment[g * kVector + 3] = v.w;
  }
}

/*
 * Where a thread's groups start within the tile. A warp is 8 threads along m and 4 along n; neighbouring lanes stand
 * along m, so that the lanes which shared memory serves at once read 8 neighbouring float4s of A, or one of B.
 */
template <class G> struct Lanes {
  static constexpr int warps_m = G::threads_m / 8;
  static __device__ __forceinline__ int row(int thread) { return (thread / 32 % warps_m * 8 + thread % 8) * kVector; }
  static __device__ __forceinline__ int column(int thread) {
    return (thread / 32 / warps_m * 4 + thread / 8 % 4) * kVector;
  }
};

/*
 * One thread's accumulators, and its part of the group's sums in shared memory: float4s, neighbouring threads' side by
 * side. A float4 holds two pairs of rows, each exchanged: float4s are loaded into four registers from a multiple of
 * four on, so an accumulator's register gets the other parity than that of its word of A, and an FMA does not ask one
 * of the register file's two banks for both.
 */
template <class G> struct Accumulators {
  float sum[G::thread_n][G::thread_m];
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int j = 0; j < G::thread_n; j++)
#pragma unroll
      for (int i = 0; i < G::thread_m; i++) sum[j][i] = 0;
  }

  /* Adds this chunk's sums to those of the group's chunks before it. */
  __device__ __forceinline__ void add(const float *group_sums) {
    float *const flat = &sum[0][0];
#pragma unroll
    for (int at = 0; at < G::thread_m * G::thread_n; at += kVector) {
      float4 before = read4(group_sums + at * G::threads + kVector * threadIdx.x);
      flat[at + 1] = before.x + flat[at + 1], flat[at + 0] = before.y + flat[at + 0];
      flat[at + 3] = before.z + flat[at + 3], flat[at + 2] = before.w + flat[at + 2];
    }
  }
  __device__ __forceinline__ void keep(float *group_sums) const {
    const float *const flat = &sum[0][0];
#pragma unroll
    for (int at = 0; at < G::thread_m * G::thread_n; at += kVector)
      write4(group_sums + at * G::threads + kVector * threadIdx.x,
             make_float4(flat[at + 1], flat[at + 0], flat[at + 3], flat[at + 2]));
  }

  /*
   * The outer product of a k's two fragments, forth and back along the rows: each FMA then shares a word with the one
   * before, and reads two from the register file, whose two banks give one each, instead of three.
   */
  __device__ __forceinline__ void multiply(const float (&a)[G::thread_m], const float (&b)[G::thread_n]) {
#pragma unroll
    for (int j = 0; j < G::thread_n; j++) {
#pragma unroll
      for (int step = 0; step < G::thread_m; step++) {
        const int i = kRegisterBanks && j % 2 == 1 ? G::thread_m - 1 - step : step;
        sum[j][i] = fmaf(a[i], b[j], sum[j][i]);
      }
    }
  }
};

/* ---- store: a chunk's sums, registers -> D or the partial sums ---- */

/* Four words of a column: d = scale * (d + s), or without d when `add` is not set. `there` of them exist. */
__device__ __forceinline__ void store_run(float *d, const float *s, int64_t there, bool vectors, bool add,
                                          float scale) {
  float v[kVector];
  const bool whole = vectors && there >= kVector;
  if (add && whole) {
    float4 before = read4(d);
    v[0] = before.x + s[0], v[1] = before.y + s[1], v[2] = before.z + s[2], v[3] = before.w + s[3];
  } else {
#pragma unroll
    for (int w = 0; w < kVector; w++) v[w] = add && w < there ? d[w] + s[w] : s[w];
  }
#pragma unroll
  for (int w = 0; w < kVector; w++) v[w] *= scale;
  if (whole) {
    write4(d, make_float4(v[0], v[1], v[2], v[3]));
  } else {
#pragma unroll
    for (int w = 0; w < kVector; w++)
      if (w < there) d[w] = v[w];
  }
}

/* Float4s of D that a thread asks for before it adds to the first of them: the wait for the L2 is then paid once for
 * each so many. */
constexpr int kStoreBatch = 4;

/* Of a tile that lies inside the matrix, float4 by float4. `d` is the thread's first element. */
template <class G>
__device__ __forceinline__ void store_whole(const Accumulators<G> &accumulators, float *d, int64_t ld, bool add,
                                            float scale) {
  constexpr int quads = G::thread_n * G::groups_m;
  static_assert(quads % kStoreBatch == 0, "batches are whole");
  auto at = [&](int q) {
    const int j = q / G::groups_m;
    return d + q % G::groups_m * (G::block_m / G::groups_m) +
           (j / kVector * (G::block_n / G::groups_n) + j % kVector) * ld;
  };
#pragma unroll
  for (int first = 0; first < quads; first += kStoreBatch) {
    float4 before[kStoreBatch];
    if (add) {
#pragma unroll
      for (int b = 0; b < kStoreBatch; b++) before[b] = read4(at(first + b));
    }
#pragma unroll
    for (int b = 0; b < kStoreBatch; b++) {
      const float *s = &accumulators.sum[(first + b) / G::groups_m][(first + b) % G::groups_m * kVector];
      float4 v = make_float4(s[0], s[1], s[2], s[3]);
      if (add) v = make_float4(before[b].x + v.x, before[b].y + v.y, before[b].z + v.z, before[b].w + v.w);
      write4(at(first + b), make_float4(v.x * scale, v.y * scale, v.z * scale, v.w * scale));
    }
  }
}

/* The accumulators of the tile at (row, column) to a matrix with m x n elements. */
template <class G>
__device__ __forceinline__ void store(const Accumulators<G> &accumulators, float *d, int64_t ld, int64_t m, int64_t n,
                                      int row, int column, bool add, float scale) {
  const bool vectors = takes_vectors(d, ld);
  const int thread = opaque(static_cast<int>(threadIdx.x));
  const int64_t first = row + Lanes<G>::row(thread), first_column = column + Lanes<G>::column(thread);
  if (vectors && row + G::block_m <= m && column + G::block_n <= n) {
    store_whole(accumulators, d + first + first_column * ld, ld, add, scale);
    return;
  }
#pragma unroll
  for (int j = 0; j < G::thread_n; j++) {
    const int64_t at = first_column + j / kVector * (G::block_n / G::groups_n) + j % kVector;
    if (at >= n) continue;
#pragma unroll
    for (int g = 0; g < G::groups_m; g++) {
      const int64_t run = first + g * (G::block_m / G::groups_m);
      store_run(d + run + at * ld, &accumulators.sum[j][g * kVector], m - run, vectors, add, scale);
    }
  }
}

/* ---- a tile ---- */

/* First row and first column of tile number `tile`: down the rows of kGroupColumns tile columns, then on to the next
 * columns. */
template <class G>
__device__ __forceinline__ void locate(const tb_sgemm_args &args, unsigned tile, int &row, int &column) {
  const unsigned down = static_cast<unsigned>((args.m + G::block_m - 1) / G::block_m);
  const unsigned across = static_cast<unsigned>((args.n + G::block_n - 1) / G::block_n);
  const unsigned first = tile / (kGroupColumns * down) * kGroupColumns, within = tile % (kGroupColumns * down);
  const unsigned width = across - first < kGroupColumns ? across - first : kGroupColumns;
  row = static_cast<int>(within / width * G::block_m);
  column = static_cast<int>((first + within % width) * G::block_n);
}

/* A chunk of tile number `tile` is summed: the next of the group's sums, and at the group's end the next of D's, or a
 * partial sum. `chunk` is counted from the start of k; with `at_end`, none follows. */
template <class G>
__device__ __forceinline__ void finish_chunk(Accumulators<G> &accumulators, float *group_sums,
                                             const tb_sgemm_args &args, unsigned tile, int chunk, bool at_end) {
  const bool split = args.partials != nullptr, by_chunk = split && args.unit_k == TB_SGEMM_CHUNK_K;
  if (!by_chunk) {
    if (chunk % kGroupChunks > 0) accumulators.add(group_sums);
    if (chunk % kGroupChunks < kGroupChunks - 1 && !at_end) {
      accumulators.keep(group_sums);
      return;
    }
  }
  const int unit = by_chunk ? chunk : chunk / kGroupChunks;
  int row, column;
  locate<G>(args, static_cast<unsigned>(opaque(static_cast<int>(tile))), row,
            column); /* anew: registers are dearer than this */
  float *d = split ? args.partials + unit * (args.m * args.n) : args.d;
  const bool add = !split && (unit > 0 || !args.first);
  const float scale = !split && at_end && args.last ? args.alpha : 1.0f;
  store(accumulators, d, split ? args.m : args.ldd, args.m, args.n, row, column, add, scale);
}

} // namespace

#endif
