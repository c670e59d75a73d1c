/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all tiled sgemm kernels do alike: read fragments, multiply, add up the three levels of sums, store.
 *
 * A tile's geometry G says block_m, block_n (the tile of D), thread_m, thread_n (a thread's part of it), threads_m,
 * threads_n, threads (that multiply), store_batch and store_batch_any (runs of four words of D that a thread asks for
 * before it adds to the first: the wait for the L2 is then paid once for so many) and groups_m, groups_n: a thread
 * keeps thread_m x thread_n accumulators, in groups of 4 x 4 spread over the tile, so that the threads of a warp read
 * neighbouring float4s.
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

/* ---- store: sums, registers -> D or the partial sums ---- */

/* One thread's runs in the tile at (row, column) of a matrix with m x n elements. */
template <class G> struct Runs {
  static constexpr int count = G::thread_n * G::groups_m;
  static_assert(count % G::store_batch == 0 && count % G::store_batch_any == 0, "batches are whole");
  float *first;
  int64_t ld;
  int rows, columns; /* that exist, from the thread's first on */
  __device__ __forceinline__ Runs(float *d, int64_t ld_, int64_t m, int64_t n, int row, int column) : ld(ld_) {
    const int thread = opaque(static_cast<int>(threadIdx.x));
    const int i = Lanes<G>::row(thread), j = Lanes<G>::column(thread);
    first = d + row + i + (column + j) * ld;
    rows = static_cast<int>(smaller(m - row, G::block_m)) - i;
    columns = static_cast<int>(smaller(n - column, G::block_n)) - j;
  }
  static __device__ __forceinline__ int row_of(int run) { return run % G::groups_m * (G::block_m / G::groups_m); }
  static __device__ __forceinline__ int column_of(int run) {
    const int j = run / G::groups_m;
    return j / kVector * (G::block_n / G::groups_n) + j % kVector;
  }
  __device__ __forceinline__ float *at(int run) const { return first + row_of(run) + column_of(run) * ld; }
  __device__ __forceinline__ bool there(int run, int word) const {
    return column_of(run) < columns && row_of(run) + word < rows;
  }
};

/* d = scale * (d + sums), or without d when `add` is not set. Whole: all runs exist, and may be moved as float4s. */
template <class G, bool Whole, int Batch>
__device__ __forceinline__ void store_runs(const Accumulators<G> &accumulators, const Runs<G> &runs, bool add,
                                           float scale) {
#pragma unroll
  for (int first = 0; first < Runs<G>::count; first += Batch) {
    float before[Batch][kVector];
    if (add) {
#pragma unroll
      for (int b = 0; b < Batch; b++) {
        const float *d = runs.at(first + b);
        if (Whole) {
          const float4 v = read4(d);
          before[b][0] = v.x, before[b][1] = v.y, before[b][2] = v.z, before[b][3] = v.w;
        } else {
#pragma unroll
          for (int w = 0; w < kVector; w++) before[b][w] = runs.there(first + b, w) ? d[w] : 0;
        }
      }
    }
#pragma unroll
    for (int b = 0; b < Batch; b++) {
      float *d = runs.at(first + b);
      float v[kVector];
#pragma unroll
      for (int w = 0; w < kVector; w++) {
        const float sum = accumulators.sum[(first + b) / G::groups_m][(first + b) % G::groups_m * kVector + w];
        v[w] = (add ? before[b][w] + sum : sum) * scale;
      }
      if (Whole) {
        write4(d, make_float4(v[0], v[1], v[2], v[3]));
      } else {
#pragma unroll
        for (int w = 0; w < kVector; w++)
          if (runs.there(first + b, w)) d[w] = v[w];
      }
    }
  }
}

/* The accumulators of the tile at (row, column) to a matrix with m x n elements. Inside: it may lie inside. */
template <class G, bool Inside>
__device__ __forceinline__ void store(const Accumulators<G> &accumulators, float *d, int64_t ld, int64_t m, int64_t n,
                                      int row, int column, bool add, float scale) {
  const Runs<G> runs(d, ld, m, n, row, column);
  if (Inside && takes_vectors(d, ld) && row + G::block_m <= m && column + G::block_n <= n)
    store_runs<G, true, G::store_batch>(accumulators, runs, add, scale);
  else
    store_runs<G, false, G::store_batch_any>(accumulators, runs, add, scale);
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
 * partial sum. `chunk` is counted from the start of k; with `at_end`, none follows. Inside: the tile may lie
 * inside the matrix. */
template <class G, bool Inside>
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
  store<G, Inside>(accumulators, d, split ? args.m : args.ldd, args.m, args.n, row, column, add, scale);
}

} // namespace

#endif
