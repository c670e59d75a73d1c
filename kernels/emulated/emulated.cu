/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fp32 products on the tensor cores of compute capability 9.0, by operands that are split into 16-bit planes. The
 * contract, the order of summation and the layout of packed operands are emulated_args.h's; why the answer is that of
 * fp32, PRECISION.md's.
 *
 *   tb_emulated_pack_half, tb_emulated_pack_bfloat            operands, stored in whatever way, into planes (pack.cuh)
 *   tb_emulated_multiply_half, tb_emulated_multiply_bfloat    D from the planes
 *   tb_emulated_gather                                        D from the sums of a k that is split
 *   each but the last with _triangle behind its name          op(A) is a triangle: a pair of tiles has the k that its
 *                                                             rows have of it
 *
 * What a product needs is launched one after another, whatever the data. The packing of fp16 planes notes down what it
 * saw; tb_emulated_multiply_half computes those tiles of D for which fp16 planes are enough. If any is left, bf16
 * planes are packed, and tb_emulated_multiply_bfloat computes what is left; and marks the tiles that need plain fp32
 * (Inf, NaN, words too far apart, sums that leave the range), which tb_sgemm_again_* computes (sgemm.cu). Kernels
 * without work end at once.
 *
 * A block that multiplies has an SM for itself, and takes tile after tile:
 *
 *                                   a chunk of 32 k (bf16: a step of 16), all planes
 *     memory --- two threads --> [stage][stage] ... [stage] ---> warpgroup 0: rows 0 to 63 of the tile
 *                bulk copies        ring in shared memory   \--> warpgroup 1: rows 64 to 127
 *
 * Two blocks, a cluster, have tiles above each other, whose columns each has half of copied to both. A warpgroup has
 * two sums for each element, of the current chunk and of the current group of chunks. The warpgroups ask for their
 * products in turn, so that while one adds the former to the latter, the other one multiplies: if both asked at once,
 * both would add at once, and go on like that. (bf16: and what an addition rounds away, the next chunk begins with.)
 * Former groups' sums stay in shared memory (fp16), or go to device memory: bf16 chunks are larger, and a ring of less
 * than two and a half is not filled in time.
 */
#include "emulated/pack.cuh"
#include "emulated/ring.cuh"
#include "emulated/sums.cuh"

#include <float.h>

namespace emulated {
namespace {

#if defined(TB_TENSOR_CORES)

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
    const float2 scale = *reinterpret_cast<const float2 *>(columns + 8 * j + at.column);
    sum[4 * j] *= upper * scale.x, sum[4 * j + 1] *= upper * scale.y;
    sum[4 * j + 2] *= lower * scale.x, sum[4 * j + 3] *= lower * scale.y;
  }
}

/* Groups' sums. The place of a block's thread in `kept` is its own. */
template <int Words> __device__ __forceinline__ void load_kept(float (&x)[Words], const float *kept) {
#pragma unroll
  for (int i = 0; i < Words; i += 4) {
    const float4 v = *reinterpret_cast<const float4 *>(kept + i * kWgmmaThreads);
    x[i] = v.x, x[i + 1] = v.y, x[i + 2] = v.z, x[i + 3] = v.w;
  }
}
/* x = kept + x */
template <int Words> __device__ __forceinline__ void add_kept(float (&x)[Words], const float *kept) {
  float before[Words];
  load_kept(before, kept);
#pragma unroll
  for (int i = 0; i < Words; i++) x[i] += before[i];
}
__device__ __forceinline__ void keep(float *kept, const float (&x)[kWgmmaWords]) {
#pragma unroll
  for (int i = 0; i < kWgmmaWords; i += 4)
    *reinterpret_cast<float4 *>(kept + i * kWgmmaThreads) = make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]);
}

/* Calls `visit` with the place in D of each of a thread's elements that D has, and the number of its word. */
template <int Words, class Visit>
__device__ __forceinline__ void visit_elements(const tb_emulated_args &args, const Item &item, const Elements &in_tile,
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
__device__ __forceinline__ void store(const tb_emulated_args &args, const Item &item, const Elements &in_tile,
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
template <class Word, bool Triangle>
__device__ __forceinline__ void consume(const tb_emulated_args &args, const Ring<Word> &ring) {
  using R = Ring<Word>;
  const int warpgroup = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / kWgmmaThreads, 0); /* the same for a warp */
  const int thread = static_cast<int>(threadIdx.x) % kWgmmaThreads, lane = thread % 32;
  const Items items(args);
  const Elements at(thread + warpgroup * kWgmmaThreads);
  float *const all_kept = R::kept_bytes > 0 ? ring.kept : args.sums + static_cast<int64_t>(blockIdx.x) * kTileWords;
  float *const kept = all_kept + warpgroup * (kWgmmaWords * kWgmmaThreads) + thread * 4;
  Chunks<Word> chunks(ring, warpgroup, lane);
  Cursor<2> slot;
  Cursor<1> meeting;
  float sum[kWgmmaWords];
  for (;; slot.next()) {
    const int number = ring.next_item(slot);
    if (number < 0) break;
    Item item = items.at<Triangle>(args, number >> kItemFlags, static_cast<int>(cluster_rank()));
    if (Triangle) item.row = ring.row(slot), keep_to_triangle(args, item);
    if (!(number & kOurs)) item.part_of = Item::nowhere;
    bool again = false;
    for (int g = 0; g < item.groups; g++) {
      sum_up(Word(), sum, chunks, number,
             steps_of<Triangle>(args, item.first_group + g, Triangle ? ring.row(slot) : 0));
      const auto end_group = [&] {
        unscale(sum, chunks.scales(false), chunks.scales(true), at);
        __syncwarp();
        chunks.release();
        if (Word::planes == Bfloat::planes) again = again || left_the_range(sum);
      };
      if (g > 0 && item.part_of == Item::whole) {
        float before[kWgmmaWords];
        load_kept(before, kept);
        end_group();
        add(sum, before, 1);
      } else {
        end_group();
      }
      if (item.part_of == Item::nowhere) continue;
      if (item.part_of >= 0) {
        const int64_t unit = static_cast<int64_t>(item.part_of) * items.groups + item.first_group + g;
        keep(args.partials + words_at(unit, warpgroup, thread), sum);
        continue;
      }
      if (g + 1 < item.groups) keep(kept, sum);
    }
    /* Where the tile lies is asked for once more: the sums have all registers meanwhile. */
    item.row = ring.row(slot), item.column = ring.column(slot);
    __syncwarp();
    if (lane == 0) barrier_arrive(&ring.item_empty[slot.at]);
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
                  65536 / TB_EMULATED_THREADS / 8 * 8 * TB_EMULATED_THREADS,
              "or the block waits for ever");

template <class Word, bool Triangle>
__device__ __forceinline__ void multiply_tiles(const tb_emulated_args &args, const tb_emulated_map &map) {
  constexpr int consumers = 2 * kWgmmaThreads;
  TB_DYNAMIC_SHARED(unsigned char, shared);
  const Ring<Word> ring(shared);
  wait_for_earlier_kernels();
  let_next_start();
  if (Word::planes == Bfloat::planes && !any_left(args.left, args.left_words)) return;
  if (threadIdx.x == 0) {
    for (int s = 0; s < Ring<Word>::stages; s++) {
      barrier_init(&ring.full[s], 2);
      barrier_init(&ring.empty[s], TB_EMULATED_CLUSTER * consumers / 32);
    }
    for (int i = 0; i < 2; i++) {
      barrier_init(&ring.item_full[i], 1);
      barrier_init(&ring.item_empty[i], consumers / 32 + 2);
    }
    barrier_init(ring.met, consumers / 32);
    for (int w = 0; w < 2; w++) barrier_init(&ring.turn[w], kWgmmaThreads / 32);
    ring.found[0] = ring.found[1] = -1;
    barriers_ready();
  }
  __syncthreads();
  cluster_meet();
  if (threadIdx.x >= consumers) {
    registers_leave<kSupplyRegisters>();
    const int warp = static_cast<int>(threadIdx.x - consumers) / 32;
    if (warp == 0) find_items<Word, Triangle>(args, ring);
    if (threadIdx.x % 32 == 0) {
      if (warp == 1) supply_rows<Word, Triangle>(args, ring);
      if (warp == 2) supply_columns<Word, Triangle>(args, &map, ring);
    }
  } else {
    registers_take<kConsumeRegisters>();
    consume<Word, Triangle>(args, ring);
  }
  cluster_meet(); /* not to end while the other one writes here */
}

/* A tile whose k was split: the sums of its groups in their order. A block has a warpgroup's rows and some columns. */
__device__ __forceinline__ void gather(const tb_emulated_args &args) {
  constexpr int parts = TB_EMULATED_GATHER_BLOCKS / 2, words = kWgmmaWords / parts;
  static_assert(words % 4 == 0, "whole columns of core matrices");
  wait_for_earlier_kernels();
  let_next_start();
  const Items items(args);
  const int split_tile = static_cast<int>(blockIdx.x / TB_EMULATED_GATHER_BLOCKS);
  const int warpgroup = static_cast<int>(blockIdx.x % 2), part = static_cast<int>(blockIdx.x / 2 % parts);
  const int thread = static_cast<int>(threadIdx.x);
  Item item = {};
  item.tile = args.whole + split_tile;
  locate<false>(args, items, item);
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
} // namespace emulated

#if defined(TB_TENSOR_CORES)
#define TB_SPLIT(...) __VA_ARGS__
#else /* the host does not launch them */
#define TB_SPLIT(...)
#endif
#define TB_EMULATED_KERNELS(word, Word, triangle)                                                             \
  extern "C" __global__ void __launch_bounds__(TB_EMULATED_PACK_THREADS, TB_EMULATED_PACK_BLOCKS - triangle)  \
      tb_emulated_pack_##word(const tb_emulated_pack_args args) {                                             \
    TB_SPLIT(emulated::pack<Word, triangle>(args));                                                           \
  }                                                                                                           \
  extern "C" __global__ void __launch_bounds__(TB_EMULATED_THREADS, 1)                                        \
      tb_emulated_multiply_##word(const tb_emulated_args args, const __grid_constant__ tb_emulated_map map) { \
    TB_SPLIT(emulated::multiply_tiles<Word, triangle>(args, map));                                            \
  }
TB_EMULATED_KERNELS(half, Half, false)
TB_EMULATED_KERNELS(bfloat, Bfloat, false)
TB_EMULATED_KERNELS(half_triangle, Half, true)
TB_EMULATED_KERNELS(bfloat_triangle, Bfloat, true)
#undef TB_EMULATED_KERNELS
extern "C" __global__ void __launch_bounds__(TB_EMULATED_GATHER_THREADS)
    tb_emulated_gather(const tb_emulated_args args) {
  TB_SPLIT(emulated::gather(args));
}
