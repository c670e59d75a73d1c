/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fp32 products on the tensor cores of compute capability 9.0, by operands that are split into 16-bit planes. The
 * contract, the order of summation and the layout of packed operands are split_args.h's; why the answer is that of
 * fp32, PRECISION.md's.
 *
 *   tb_split_pack_half, tb_split_pack_bfloat            (split_pack.cuh) operands, stored in whatever way, into planes
 *   tb_split_multiply_half, tb_split_multiply_bfloat    D from the planes
 *   tb_split_gather                                     D from the sums of a k that is split
 *
 * What a product needs is launched one after another, whatever the data. The packing of fp16 planes notes down what it
 * saw; tb_split_multiply_half computes those tiles of D for which fp16 planes are enough. If any is left, bf16 planes
 * are packed, and tb_split_multiply_bfloat computes what is left; and marks the tiles that need plain fp32 (Inf, NaN,
 * words far apart, sums that leave the range), which tb_sgemm_again_* computes (sgemm.cu). Kernels without work end at
 * once.
 *
 * A block that multiplies has an SM for itself, and takes tile after tile:
 *
 *                                    a step of 16 k, all planes
 *     memory --- two threads --> [stage][stage] ... [stage] ---> warpgroup 0: rows 0 to 63 of the tile
 *                bulk copies        ring in shared memory   \--> warpgroup 1: rows 64 to 127
 *
 * A warpgroup has two sums for each element, of the current chunk and of the current group of chunks. While
 * one warpgroup adds the former to the latter, the other one multiplies.
 */
#include "split_pack.cuh"
#include "split_ring.cuh"

#include <float.h>

namespace split {
namespace {

#if defined(TB_TENSOR_CORES)

/* The products of a chunk, whose two steps stand in these stages, low planes first; `rows` is where the warpgroup's
 * rows of A start. */
template <class Word, int PlaneA, int PlaneB>
__device__ __forceinline__ void multiply_planes(float (&d)[kWgmmaWords], const unsigned char *const (&stage)[2],
                                                int rows, bool add) {
  using R = Ring<Word>;
#pragma unroll
  for (int s = 0; s < 2; s++) {
    multiply<Word>(d, operand<R::rows_bytes>(stage[s] + rows + PlaneA * 2 * kWgmmaCore),
                   operand<R::rows_bytes>(stage[s] + R::a_bytes + PlaneB * 2 * kWgmmaCore), add || s > 0);
  }
}
/* Each of a chunk's sums by tensor cores. Of bf16 planes there are two: where one product is larger than all others,
 * the high planes' sum is exact, and only the low ones', far smaller, are cut off. */
template <int Sum>
__device__ __forceinline__ void multiply_chunk(Half, float (&d)[kWgmmaWords], const unsigned char *const (&stage)[2],
                                               int rows) {
  multiply_planes<Half, 1, 0>(d, stage, rows, false);
  multiply_planes<Half, 0, 1>(d, stage, rows, true);
  multiply_planes<Half, 0, 0>(d, stage, rows, true);
}
template <int Sum>
__device__ __forceinline__ void multiply_chunk(Bfloat, float (&d)[kWgmmaWords], const unsigned char *const (&stage)[2],
                                               int rows) {
  if (Sum == 1) return multiply_planes<Bfloat, 0, 0>(d, stage, rows, false);
  multiply_planes<Bfloat, 2, 0>(d, stage, rows, false);
  multiply_planes<Bfloat, 0, 2>(d, stage, rows, true);
  multiply_planes<Bfloat, 1, 1>(d, stage, rows, true);
  multiply_planes<Bfloat, 1, 0>(d, stage, rows, true);
  multiply_planes<Bfloat, 0, 1>(d, stage, rows, true);
}

/* sum += one of the chunk's. */
__device__ __forceinline__ void add(float (&sum)[kWgmmaWords], const float (&chunk)[kWgmmaWords]) {
#pragma unroll
  for (int i = 0; i < kWgmmaWords; i++) sum[i] += chunk[i];
}

/* Where a thread's elements stand: 8 j + column and one more, of rows `row` and row + 8. */
struct Elements {
  int row, column; /* in the tile */
  __device__ __forceinline__ explicit Elements(int thread)
      : row(thread / 32 * 16 + thread % 32 / 4), column(thread % 4 * 2) {}
};

/* Sums times the scales of their rows and columns, which came with the stage. */
template <class Word>
__device__ __forceinline__ void unscale(float (&sum)[kWgmmaWords], const unsigned char *stage, const Elements &at) {
  const float *const rows = reinterpret_cast<const float *>(stage + Ring<Word>::a_bytes + Ring<Word>::b_bytes);
  const float *const columns = rows + kTileM;
  const float upper = rows[at.row], lower = rows[at.row + 8];
#pragma unroll
  for (int j = 0; j < kTileN / 8; j++) {
    const float left = columns[8 * j + at.column], right = columns[8 * j + at.column + 1];
    sum[4 * j] *= upper * left, sum[4 * j + 1] *= upper * right;
    sum[4 * j + 2] *= lower * left, sum[4 * j + 3] *= lower * right;
  }
}

/* Groups' sums: x = kept + x, if there is any. The place of a block's thread in `kept` is its own. */
template <int Words> __device__ __forceinline__ void add_kept(float (&x)[Words], const float *kept) {
#pragma unroll
  for (int i = 0; i < Words; i += 4) {
    const float4 v = *reinterpret_cast<const float4 *>(kept + i * kWgmmaThreads);
    x[i] += v.x, x[i + 1] += v.y, x[i + 2] += v.z, x[i + 3] += v.w;
  }
}
__device__ __forceinline__ void keep(float *kept, const float (&x)[kWgmmaWords]) {
#pragma unroll
  for (int i = 0; i < kWgmmaWords; i += 4)
    *reinterpret_cast<float4 *>(kept + i * kWgmmaThreads) = make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]);
}

/* D = alpha (0 + x), where it has such elements: to 0, so that a sum of -0 becomes 0. */
template <int Words>
__device__ __forceinline__ void store(const tb_split_args &args, const Item &item, const Elements &in_tile,
                                      const float (&x)[Words]) {
  const int64_t row = static_cast<int64_t>(item.row) * kTileM + in_tile.row;
  int64_t column = static_cast<int64_t>(item.column) * kTileN + in_tile.column;
  float *at = args.d + row + column * args.ldd;
#pragma unroll
  for (int j = 0; j < Words / 4; j++) {
#pragma unroll
    for (int e = 0; e < 4; e++) {
      if (row + e / 2 * 8 < args.m && column + e % 2 < args.n)
        at[e / 2 * 8 + e % 2 * args.ldd] = args.alpha * (0.0f + x[4 * j + e]);
    }
    at += 8 * args.ldd, column += 8;
  }
}

/* Whether a group's sums have left the range, or were NaN: plain fp32 is to say what comes of it. */
__device__ __forceinline__ bool left_the_range(const float (&x)[kWgmmaWords]) {
  bool found = false;
#pragma unroll
  for (int i = 0; i < kWgmmaWords; i++) found = found || !(fabsf(x[i]) <= FLT_MAX);
  return found;
}

/* A warpgroup: its rows of every item. */
template <class Word> __device__ __forceinline__ void consume(const tb_split_args &args, const Ring<Word> &ring) {
  using R = Ring<Word>;
  const int warpgroup = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / kWgmmaThreads, 0); /* the same for a warp */
  const int thread = static_cast<int>(threadIdx.x) % kWgmmaThreads, lane = thread % 32;
  const Items items(args);
  const Elements at(thread + warpgroup * kWgmmaThreads);
  const int rows = warpgroup * (kWgmmaM / 8) * R::rows_bytes;
  float *const kept =
      args.sums + (static_cast<int64_t>(blockIdx.x) * 2 + warpgroup) * (kWgmmaWords * kWgmmaThreads) + thread * 4;
  Turn<R::stages> stage;
  Turn<2> slot;
  float chunk[kWgmmaWords], sum[kWgmmaWords];
  for (;; slot.next()) {
    const int number = ring.next_item(slot);
    __syncwarp();
    if (lane == 0) barrier_arrive(&ring.item_empty[slot.at]);
    if (number < 0) break;
    const Item item = items.at(args, number);
    bool again = false;
    for (int g = 0; g < item.groups; g++) {
#pragma unroll
      for (int i = 0; i < kWgmmaWords; i++) sum[i] = 0;
      for (int left = steps_of(args, item.first_group + g); left > 0; left -= 2) {
        const unsigned char *step[2];
        uint64_t *empty[2];
#pragma unroll
        for (int s = 0; s < 2; s++, stage.next()) {
          barrier_wait(&ring.full[stage.at], stage.parity);
          step[s] = ring.stage_at + stage.at * R::stage_bytes;
          empty[s] = &ring.empty[stage.at];
        }
        begin_products();
        multiply_chunk<0>(Word(), chunk, step, rows);
        end_products();
        wait_for_products(chunk);
        if (Word::planes == Bfloat::planes) {
          add(sum, chunk);
          begin_products();
          multiply_chunk<1>(Word(), chunk, step, rows);
          end_products();
          wait_for_products(chunk);
        }
        if (left > 2 && lane == 0) barrier_arrive(empty[0]), barrier_arrive(empty[1]);
        add(sum, chunk);
        if (left > 2) continue;
        unscale<Word>(sum, step[1], at);
        __syncwarp();
        if (lane == 0) barrier_arrive(empty[0]), barrier_arrive(empty[1]);
      }
      if (Word::planes == Bfloat::planes) again = again || left_the_range(sum);
      if (item.part_of >= 0) {
        const int64_t unit = static_cast<int64_t>(item.part_of) * items.groups + item.first_group + g;
        keep(args.partials + words_at(unit, warpgroup, thread), sum);
        continue;
      }
      if (g > 0) add_kept(sum, kept);
      if (g + 1 < item.groups) keep(kept, sum);
    }
    if (again) args.again[item.row + static_cast<int64_t>(item.column) * items.down] = 1;
    if (item.part_of < 0) store(args, item, at, sum);
  }
}

/* A block starts with as many registers as its threads have equal shares of an SM's, in eights; who takes more waits
 * for those that others leave, so there must be enough of them. */
constexpr int kSupplyRegisters = 56, kConsumeRegisters = 224;
static_assert((2 * kConsumeRegisters + kSupplyRegisters) * kWgmmaThreads <=
                  65536 / TB_SPLIT_THREADS / 8 * 8 * TB_SPLIT_THREADS,
              "or the block waits for ever");

template <class Word> __device__ __forceinline__ void multiply_tiles(const tb_split_args &args) {
  constexpr int consumers = 2 * kWgmmaThreads;
  TB_DYNAMIC_SHARED(unsigned char, shared);
  const Ring<Word> ring(shared);
  const Pace pace(ring.item + 2);
  const bool in_step = kBlocksMeet && args.in_step;
  wait_for_earlier_kernels();
  let_next_start();
  if (Word::planes == Bfloat::planes && !any_left(args.left, args.left_words)) return;
  if (threadIdx.x == 0) {
    for (int s = 0; s < Ring<Word>::stages; s++) {
      barrier_init(&ring.full[s], 2);
      barrier_init(&ring.empty[s], consumers / 32);
    }
    for (int i = 0; i < 2; i++) {
      barrier_init(&ring.item_full[i], 1);
      barrier_init(&ring.item_empty[i], consumers / 32 + 1);
    }
    pace.begin(in_step);
    barriers_ready();
  }
  __syncthreads();
  if (threadIdx.x >= consumers) {
    registers_leave<kSupplyRegisters>();
    const int warp = static_cast<int>(threadIdx.x - consumers) / 32;
    if (warp == 0) supply<Word>(args, ring, pace);
    if (warp == 2 && threadIdx.x % 32 == 0) supply_columns<Word>(args, ring);
    if (warp == 1 && in_step) pace.watch(args, static_cast<int>(threadIdx.x) % 32);
  } else {
    registers_take<kConsumeRegisters>();
    consume<Word>(args, ring);
  }
}

/* A tile whose k was split: the sums of its groups in their order. A block has a warpgroup's rows and some columns. */
__device__ __forceinline__ void gather(const tb_split_args &args) {
  constexpr int parts = TB_SPLIT_GATHER_BLOCKS / 2, words = kWgmmaWords / parts;
  static_assert(words % 4 == 0, "whole columns of core matrices");
  wait_for_earlier_kernels();
  let_next_start();
  const Items items(args);
  const int split_tile = static_cast<int>(blockIdx.x / TB_SPLIT_GATHER_BLOCKS);
  const int warpgroup = static_cast<int>(blockIdx.x % 2), part = static_cast<int>(blockIdx.x / 2 % parts);
  const int thread = static_cast<int>(threadIdx.x);
  Item item;
  items.locate(args.whole + split_tile, item.row, item.column);
  if (args.again[item.row + static_cast<int64_t>(item.column) * items.down] != 0) return; /* not all are there */
  const int64_t first = static_cast<int64_t>(split_tile) * items.groups;
  float sum[words] = {};
#pragma unroll 4
  for (int group = 0; group < items.groups; group++)
    add_kept(sum, args.partials + words_at(first + group, warpgroup, thread) + part * words * kWgmmaThreads);
  Elements elements(thread + warpgroup * kWgmmaThreads);
  elements.column += part * (words / 4 * 8);
  store(args, item, elements, sum);
}

#endif

} // namespace
} // namespace split

#if defined(TB_TENSOR_CORES)
#define TB_SPLIT(...) __VA_ARGS__
#else /* the host does not launch them */
#define TB_SPLIT(...)
#endif
#define TB_SPLIT_KERNELS(word, Word)                                     \
  extern "C" __global__ void __launch_bounds__(TB_SPLIT_PACK_THREADS, 2) \
      tb_split_pack_##word(const tb_split_pack_args args) {              \
    TB_SPLIT(split::pack<Word>(args));                                   \
  }                                                                      \
  extern "C" __global__ void __launch_bounds__(TB_SPLIT_THREADS, 1)      \
      tb_split_multiply_##word(const tb_split_args args) {               \
    TB_SPLIT(split::multiply_tiles<Word>(args));                         \
  }
TB_SPLIT_KERNELS(half, Half)
TB_SPLIT_KERNELS(bfloat, Bfloat)
#undef TB_SPLIT_KERNELS
extern "C" __global__ void __launch_bounds__(TB_SPLIT_GATHER_THREADS) tb_split_gather(const tb_split_args args) {
  TB_SPLIT(split::gather(args));
}
