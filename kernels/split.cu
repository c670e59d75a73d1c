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
 * words too far apart, sums that leave the range), which tb_sgemm_again_* computes (sgemm.cu). Kernels without work end
 * at once.
 *
 * A block that multiplies has an SM for itself, and takes tile after tile:
 *
 *                                   a chunk of 32 k (bf16: a step of 16), all planes
 *     memory --- two threads --> [stage][stage] ... [stage] ---> warpgroup 0: rows 0 to 63 of the tile
 *                bulk copies        ring in shared memory   \--> warpgroup 1: rows 64 to 127
 *
 * Two blocks, a cluster, have tiles above each other, whose columns each has half of copied to both. A warpgroup has
 * two sums for each element, of the current chunk and of the current group of chunks. While one warpgroup adds the
 * former to the latter, the other one multiplies. (bf16: and what that rounds away, the next chunk begins with.)
 */
#include "split_pack.cuh"
#include "split_ring.cuh"

#include <float.h>

namespace split {
namespace {

#if defined(TB_TENSOR_CORES)

/* A chunk's operands, of its two steps, planes side by side. */
struct Operands {
  WgmmaOperand rows[2], columns[2];
};
template <class Word, int PlaneA, int PlaneB>
__device__ __forceinline__ void multiply_planes(float (&d)[kWgmmaWords], const Operands &x, bool add) {
#pragma unroll
  for (int s = 0; s < 2; s++)
    multiply<Word>(d, behind(x.rows[s], PlaneA * 2 * kWgmmaCore), behind(x.columns[s], PlaneB * 2 * kWgmmaCore),
                   add || s > 0);
}
/* sum += factor times the chunk's, rounded once. */
__device__ __forceinline__ void add(float (&sum)[kWgmmaWords], const float (&chunk)[kWgmmaWords], float factor) {
#pragma unroll
  for (int i = 0; i < kWgmmaWords; i++) sum[i] = __fmaf_rn(chunk[i], factor, sum[i]);
}
/* sum += the chunk's, which becomes what that has rounded away (Dekker): all of it where the chunk's was the smaller
 * one, else up to a rounding of its own. */
__device__ __forceinline__ void add_and_carry(float (&sum)[kWgmmaWords], float (&chunk)[kWgmmaWords]) {
#pragma unroll
  for (int i = 0; i < kWgmmaWords; i++) {
    const float added = (sum[i] + chunk[i]) - sum[i];
    chunk[i] -= added, sum[i] += added;
  }
}
/* What the tensor cores cut off makes a chunk's sum too small by some 1.4 of 2^-24 of itself (PRECISION.md). Five of
 * eight chunks are made larger by 2^-23, unless words are the sums of their planes: there the sum may be exact. */
__device__ __forceinline__ float correction(int number, int steps_left) {
  return number & kLossy && steps_left / 2 % 8 < 5 ? 1 + 0x1p-23f : 1;
}

/* sum += a chunk's sum by tensor cores, low planes first. `release` is called when they have read the operands. */
template <class Release>
__device__ __forceinline__ void add_chunk(Half, float (&sum)[kWgmmaWords], float (&chunk)[kWgmmaWords],
                                          const Operands &x, int number, int steps_left, Release release) {
  begin_products();
  multiply_planes<Half, 1, 0>(chunk, x, false);
  multiply_planes<Half, 0, 1>(chunk, x, true);
  multiply_planes<Half, 0, 0>(chunk, x, true);
  end_products();
  wait_for_products(chunk);
  release();
  add(sum, chunk, correction(number, steps_left));
}
__device__ __forceinline__ void multiply_low_planes(float (&chunk)[kWgmmaWords], const Operands &x) {
  multiply_planes<Bfloat, 2, 0>(chunk, x, true);
  multiply_planes<Bfloat, 0, 2>(chunk, x, true);
  multiply_planes<Bfloat, 1, 1>(chunk, x, true);
  multiply_planes<Bfloat, 1, 0>(chunk, x, true);
  multiply_planes<Bfloat, 0, 1>(chunk, x, true);
}
/* bf16: a chunk begins with what rounding took from the sum before. Where few words of a side are large, one product
 * may be far larger than all others: then the high planes' sum alone is exact, and only that of the low ones, which is
 * far smaller, is cut off. Two whole branches: with the low planes' products in front of them ptxas spills. */
template <class Release>
__device__ __forceinline__ void add_chunk(Bfloat, float (&sum)[kWgmmaWords], float (&chunk)[kWgmmaWords],
                                          const Operands &x, int number, int, Release release) {
  if (number & kFewLarge) {
    begin_products();
    multiply_low_planes(chunk, x);
    end_products();
    wait_for_products(chunk);
    add(sum, chunk, 1);
    begin_products();
    multiply_planes<Bfloat, 0, 0>(chunk, x, false);
    end_products();
    wait_for_products(chunk);
  } else {
    begin_products();
    multiply_low_planes(chunk, x);
    multiply_planes<Bfloat, 0, 0>(chunk, x, true);
    end_products();
    wait_for_products(chunk);
  }
  release();
  add_and_carry(sum, chunk);
}

/* Where a thread's elements stand: 8 j + column and one more, of rows `row` and row + 8. */
struct Elements {
  int row, column; /* in the tile */
  __device__ __forceinline__ explicit Elements(int thread)
      : row(thread / 32 * 16 + thread % 32 / 4), column(thread % 4 * 2) {}
};

/* Sums times the scales of their rows and columns, which came with the stage. */
__device__ __forceinline__ void unscale(float (&sum)[kWgmmaWords], const float *rows, const float *columns,
                                        const Elements &at) {
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

/* Calls `visit` with the place in D of each of a thread's elements that D has, and the number of its word. */
template <int Words, class Visit>
__device__ __forceinline__ void visit_elements(const tb_split_args &args, const Item &item, const Elements &in_tile,
                                               Visit visit) {
  const int64_t row = static_cast<int64_t>(item.row) * kTileM + in_tile.row;
  int64_t column = static_cast<int64_t>(item.column) * kTileN + in_tile.column;
  float *at = args.d + row + column * args.ldd;
#pragma unroll
  for (int j = 0; j < Words / 4; j++) {
#pragma unroll
    for (int e = 0; e < 4; e++) {
      if (row + e / 2 * 8 < args.m && column + e % 2 < args.n) visit(at + (e / 2 * 8 + e % 2 * args.ldd), 4 * j + e);
    }
    at += 8 * args.ldd, column += 8;
  }
}

/* D = alpha ([D or 0] + x): to 0, so that a sum of -0 becomes 0. All of D's words are asked for before the first one
 * is waited for. */
template <int Words>
__device__ __forceinline__ void store(const tb_split_args &args, const Item &item, const Elements &in_tile,
                                      const float (&x)[Words]) {
  const float scale = args.last ? args.alpha : 1;
  float before[Words] = {};
  if (!args.first) visit_elements<Words>(args, item, in_tile, [&](const float *at, int word) { before[word] = *at; });
  visit_elements<Words>(args, item, in_tile, [&](float *at, int word) { *at = scale * (before[word] + x[word]); });
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
  const WgmmaOperand first_rows = operand<R::rows_bytes>(ring.first + warpgroup * (kWgmmaM / 8) * R::rows_bytes);
  const WgmmaOperand first_columns = operand<R::rows_bytes>(ring.first + R::a_bytes);
  float *const kept =
      args.sums + (static_cast<int64_t>(blockIdx.x) * 2 + warpgroup) * (kWgmmaWords * kWgmmaThreads) + thread * 4;
  Turn<R::stages> stage;
  Turn<2> slot;
  Turn<1> meeting;
  float chunk[kWgmmaWords], sum[kWgmmaWords];
  for (;; slot.next()) {
    const int number = ring.next_item(slot);
    __syncwarp();
    if (lane == 0) barrier_arrive(&ring.item_empty[slot.at]);
    if (number < 0) break;
    Item item = items.at(args, number >> kItemFlags, static_cast<int>(cluster_rank()));
    if (!(number & kOurs)) item.part_of = Item::nowhere;
    bool again = false;
    for (int g = 0; g < item.groups; g++) {
#pragma unroll
      for (int i = 0; i < kWgmmaWords; i++) sum[i] = chunk[i] = 0;
      for (int left = steps_of(args, item.first_group + g); left > 0; left -= 2) {
        Operands x;
        Turn<R::stages> used[2 / R::steps];
#pragma unroll
        for (int s = 0; s < 2; s++) {
          if (s % R::steps == 0) {
            barrier_wait(&ring.full[stage.at], stage.parity);
            used[s / R::steps] = stage;
          }
          const int offset = stage.at * R::stage_bytes + s % R::steps * R::step_bytes;
          x.rows[s] = behind(first_rows, offset), x.columns[s] = behind(first_columns, offset);
          if (s % R::steps == R::steps - 1) stage.next();
        }
        add_chunk(Word(), sum, chunk, x, number, left, [&] {
          if (left > 2) ring.release(used, lane);
        });
        if (left > 2) continue;
        unsigned char *const last = ring.stage_at(used[2 / R::steps - 1]);
        unscale(sum, ring.scales_at(last, false), ring.scales_at(last, true), at);
        __syncwarp();
        ring.release(used, lane);
      }
      if (Word::planes == Bfloat::planes) again = again || left_the_range(sum);
      if (item.part_of == Item::nowhere) continue;
      if (item.part_of >= 0) {
        const int64_t unit = static_cast<int64_t>(item.part_of) * items.groups + item.first_group + g;
        keep(args.partials + words_at(unit, warpgroup, thread), sum);
        continue;
      }
      if (g > 0) add_kept(sum, kept);
      if (g + 1 < item.groups) keep(kept, sum);
    }
    if (again && item.part_of != Item::nowhere)
      args.again[item.row + static_cast<int64_t>(item.column) * items.down] = 1;
    /* A tile that is to be computed again finds D as it was. */
    if (Word::planes == Bfloat::planes) again = ring.any(again, number, slot, meeting, lane);
    if (item.part_of == Item::whole && !again) store(args, item, at, sum);
  }
}

/* A block starts with as many registers as its threads have equal shares of an SM's, in eights; who takes more waits
 * for those that others leave, so there must be enough of them. */
constexpr int kSupplyRegisters = 56, kConsumeRegisters = 224;
static_assert((2 * kConsumeRegisters + kSupplyRegisters) * kWgmmaThreads <=
                  65536 / TB_SPLIT_THREADS / 8 * 8 * TB_SPLIT_THREADS,
              "or the block waits for ever");

template <class Word>
__device__ __forceinline__ void multiply_tiles(const tb_split_args &args, const tb_split_map &map) {
  constexpr int consumers = 2 * kWgmmaThreads;
  TB_DYNAMIC_SHARED(unsigned char, shared);
  const Ring<Word> ring(shared);
  const Pace pace(ring.pace);
  const bool in_step = kBlocksMeet && args.in_step;
  wait_for_earlier_kernels();
  let_next_start();
  if (Word::planes == Bfloat::planes && !any_left(args.left, args.left_words)) return;
  if (threadIdx.x == 0) {
    for (int s = 0; s < Ring<Word>::stages; s++) {
      barrier_init(&ring.full[s], 2);
      barrier_init(&ring.empty[s], TB_SPLIT_CLUSTER * consumers / 32);
    }
    for (int i = 0; i < 2; i++) {
      barrier_init(&ring.item_full[i], 1);
      barrier_init(&ring.item_empty[i], consumers / 32 + 1);
    }
    barrier_init(ring.met, consumers / 32);
    ring.found[0] = ring.found[1] = -1;
    if (in_step) pace.begin(args);
    barriers_ready();
  }
  __syncthreads();
  cluster_meet();
  if (threadIdx.x >= consumers) {
    registers_leave<kSupplyRegisters>();
    const int warp = static_cast<int>(threadIdx.x - consumers) / 32;
    if (warp == 0) supply<Word>(args, ring, pace, in_step);
    if (warp == 2 && threadIdx.x % 32 == 0) supply_columns<Word>(args, &map, ring);
    if (warp == 1 && in_step && threadIdx.x % 32 == 0) pace.watch(args);
  } else {
    registers_take<kConsumeRegisters>();
    consume<Word>(args, ring);
  }
  cluster_meet(); /* not to end while the other one writes here */
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
  items.locate(args.whole + split_tile, item, true);
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
#define TB_SPLIT_KERNELS(word, Word)                                                                 \
  extern "C" __global__ void __launch_bounds__(TB_SPLIT_PACK_THREADS, 2)                             \
      tb_split_pack_##word(const tb_split_pack_args args) {                                          \
    TB_SPLIT(split::pack<Word>(args));                                                               \
  }                                                                                                  \
  extern "C" __global__ void __launch_bounds__(TB_SPLIT_THREADS, 1)                                  \
      tb_split_multiply_##word(const tb_split_args args, const __grid_constant__ tb_split_map map) { \
    TB_SPLIT(split::multiply_tiles<Word>(args, map));                                                \
  }
TB_SPLIT_KERNELS(half, Half)
TB_SPLIT_KERNELS(bfloat, Bfloat)
#undef TB_SPLIT_KERNELS
extern "C" __global__ void __launch_bounds__(TB_SPLIT_GATHER_THREADS) tb_split_gather(const tb_split_args args) {
  TB_SPLIT(split::gather(args));
}
