/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the kernels for thin products do alike, however X lies: a block's share of the product, the copies of Y, a
 * thread's chains, and the fold of the chunks' sums. skinny.cu says how they make up a round; layouts in shared memory
 * are skinny_args.h's.
 */
#ifndef TB_SKINNY_INTERNAL_CUH
#define TB_SKINNY_INTERNAL_CUH

#include "common/ptx.cuh"
#include "skinny/skinny_args.h"

namespace skinny {
namespace {

constexpr int kVector = 4; /* words of a float4 */
constexpr int kChunk = TB_SGEMM_CHUNK_K;
constexpr int kGroupChunks = TB_SKINNY_GROUP_CHUNKS;
static_assert(TB_SGEMM_GROUP_K % kChunk == 0, "a group is whole chunks");

__device__ __forceinline__ float4 read4(const float *p) { return *reinterpret_cast<const float4 *>(p); }

__device__ __forceinline__ int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }

/* What this block computes: rows from `row` on, of which `rows` exist, and the products from `k` to `k_end`. */
struct Share {
  int64_t row, k, k_end;
  int rows;
  __device__ __forceinline__ explicit Share(const tb_skinny_args &args) {
    row = static_cast<int64_t>(blockIdx.x) * args.block_rows;
    rows = static_cast<int>(smaller(args.rows - row, args.block_rows));
    const int64_t k_split = static_cast<int64_t>(args.groups_per_split) * TB_SGEMM_GROUP_K;
    k = blockIdx.y * k_split;
    k_end = smaller(args.k, k + k_split);
  }
};

/* ---- load: Y ---- */

/* Starts the copies of the chunks from k on into a panel, panel[chunk][column][k], W words along k at once. */
template <int N, int W>
__device__ __forceinline__ void copy_y(float *panel, const tb_skinny_args &args, int64_t k, int there) {
  const int first = static_cast<int>(threadIdx.x) * W, step = static_cast<int>(blockDim.x) * W;
#pragma unroll 1
  for (int j = 0; j < N; j++) {
    const float *from = args.y + (k + first) * args.y_k + j * args.y_column;
    const int exist = j < args.columns ? there : 0; /* the others become zeros, which no stored sum gets to see */
#pragma unroll 4
    for (int at = first; at < args.block_chunks * kChunk; at += step, from += step * args.y_k)
      async_copy<4 * W>(panel + at + static_cast<unsigned>(at) / kChunk * (TB_SKINNY_CHUNK_WORDS(N) - kChunk) +
                            j * kChunk,
                        from, 4 * static_cast<unsigned>(min(max(exist - at, 0), W)));
  }
}

template <int N>
__device__ __forceinline__ void load_y(float *panel, const tb_skinny_args &args, int64_t k, int64_t k_end) {
  const int there = static_cast<int>(smaller(k_end - k, args.block_chunks * kChunk));
  /* Whole float4s only: the memory checker takes the shorter copy at the end of k for a read beyond it. */
  const bool vectors = args.y_k == 1 && reinterpret_cast<uintptr_t>(args.y) % sizeof(float4) == 0 &&
                       args.y_column % kVector == 0 && there % kVector == 0;
  if (vectors)
    copy_y<N, kVector>(panel, args, k, there);
  else
    copy_y<N, 1>(panel, args, k, there);
}

/* The same for the whole block to use behind it; nobody may be using the panel. */
template <int N>
__device__ __forceinline__ void load_y_now(float *panel, const tb_skinny_args &args, int64_t k, int64_t k_end) {
  load_y<N>(panel, args, k, k_end);
  async_commit();
  async_wait<0>();
  __syncthreads();
}

/* ---- chain ---- */

/* One thread's chains: R rows, N columns. */
template <int N, int R> struct Chains {
  float sum[N][R];
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
      for (int r = 0; r < R; r++) sum[j][r] = 0;
  }

  /* Four products a chain: x[r] are four words of row r along k, y the panel's word of the first of them, column 0. */
  __device__ __forceinline__ void multiply4(const float4 (&x)[R], const float *y) {
#pragma unroll
    for (int j = 0; j < N; j++) {
      const float4 w = read4(y + j * kChunk);
#pragma unroll
      for (int r = 0; r < R; r++) {
        sum[j][r] = fmaf(x[r].x, w.x, sum[j][r]);
        sum[j][r] = fmaf(x[r].y, w.y, sum[j][r]);
        sum[j][r] = fmaf(x[r].z, w.z, sum[j][r]);
        sum[j][r] = fmaf(x[r].w, w.w, sum[j][r]);
      }
    }
  }

  __device__ __forceinline__ void multiply(int r, float x, const float *y) {
#pragma unroll
    for (int j = 0; j < N; j++) sum[j][r] = fmaf(x, y[j * kChunk], sum[j][r]);
  }

  /* Sums of row `row` + r * apart to sums[chunk][column][row]. With Vectors the rows are neighbours. */
  template <bool Vectors>
  __device__ __forceinline__ void store(float *sums, int chunk, int row, int apart, int block_rows) const {
    float *to = sums + chunk * N * block_rows + row;
#pragma unroll
    for (int j = 0; j < N; j++, to += block_rows) {
      if (Vectors) {
        *reinterpret_cast<float4 *>(to) = make_float4(sum[j][0], sum[j][1 % R], sum[j][2 % R], sum[j][3 % R]);
      } else {
#pragma unroll
        for (int r = 0; r < R; r++) to[r * apart] = sum[j][r];
      }
    }
  }
};

/* ---- fold ---- */

/* A group's sum to where it belongs. `total` is the element's sum of the groups before. */
__device__ __forceinline__ void add_group(const tb_skinny_args &args, int64_t k, int64_t k_end, float *d, float *total,
                                          float group) {
  if (args.d_group != 0) {
    d[k / TB_SGEMM_GROUP_K * args.d_group] = group;
    return;
  }
  const float sum = (k > 0 ? *total : args.first ? 0.0f : *d) + group; /* a zero sum is 0, never -0 */
  *total = sum;
  if (k + TB_SGEMM_GROUP_K >= k_end) *d = args.last ? args.alpha * sum : sum;
}

/* The sums of the chunks from k on, sums[chunk][column][row], an element a thread; always the same thread's. */
template <int N>
__device__ __forceinline__ void fold(const tb_skinny_args &args, const Share &share, const float *sums, float *totals,
                                     int64_t k) {
  const int elements = args.columns * args.block_rows;
  for (int e = static_cast<int>(threadIdx.x); e < elements; e += static_cast<int>(blockDim.x)) {
    const int j = e / args.block_rows, row = e % args.block_rows;
    if (row >= share.rows) continue;
    float *const d = args.d + (share.row + row) * args.d_row + j * args.d_column;
    for (int c = 0; c < args.block_chunks && k + c * kChunk < share.k_end; c += kGroupChunks) {
      const int64_t k_group = k + c * kChunk;
      const int there = static_cast<int>(smaller((share.k_end - k_group + kChunk - 1) / kChunk, kGroupChunks));
      float chunk[kGroupChunks];
#pragma unroll
      for (int i = 0; i < kGroupChunks; i++)
        chunk[i] = i < there ? sums[((c + i) * N + j) * args.block_rows + row] : 0.0f;
      float group = chunk[0];
#pragma unroll
      for (int i = 1; i < kGroupChunks; i++)
        if (i < there) group += chunk[i];
      add_group(args, k_group, share.k_end, d, totals + e, group);
    }
  }
}

} // namespace
} // namespace skinny

#endif
