/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a tile can be computed from, by what the packing kernel (pack.cuh) has seen in its rows and columns.
 */
#ifndef TB_EMULATED_CHOICE_CUH
#define TB_EMULATED_CHOICE_CUH

#include "emulated/emulated_args.h"
#include "common/wgmma.cuh"

#if defined(TB_TENSOR_CORES)

namespace emulated {
namespace {

constexpr int kTileM = TB_EMULATED_TILE_M, kTileN = TB_EMULATED_TILE_N, kGroupK = TB_EMULATED_GROUP_K;
static_assert(kTileM == 2 * kWgmmaM && kTileN == kWgmmaN && TB_EMULATED_STEP_K == kWgmmaK,
              "two warpgroups make a tile");
static_assert(TB_EMULATED_CHUNK_K == 2 * TB_EMULATED_STEP_K && kGroupK % TB_EMULATED_CHUNK_K == 0,
              "groups have whole chunks");

__device__ __forceinline__ uint32_t larger_of(uint32_t a, uint32_t b, uint32_t mask) { return max(a & mask, b & mask); }
/* bf16: of cut words there are none, and what stands there is a flag. */
__device__ __forceinline__ uint32_t seen_together(uint32_t a, uint32_t b) {
  constexpr uint32_t small = TB_EMULATED_SMALL_MASK, faint = TB_EMULATED_FAINT_MASK, cut = TB_EMULATED_CUT_MASK;
  return ((a | b) & ~(small | faint | cut)) | larger_of(a, b, small) | larger_of(a, b, faint) | larger_of(a, b, cut);
}

/* In a group's 1024 k, products of a word that is not faint and one that is not small: of either side's, the more. */
__device__ __forceinline__ int products_of(uint32_t a, uint32_t b) {
  const uint32_t small_a = a & TB_EMULATED_SMALL_MASK, faint_a = (a & TB_EMULATED_FAINT_MASK) / TB_EMULATED_FAINT;
  const uint32_t small_b = b & TB_EMULATED_SMALL_MASK, faint_b = (b & TB_EMULATED_FAINT_MASK) / TB_EMULATED_FAINT;
  return 1024 - static_cast<int>(min(small_a + faint_b, faint_a + small_b));
}

/* Whether fp16 planes are enough for rows and columns of which this was seen in so many k: nothing is lost, or what is
 * lost stands beside enough products of large words; or of faint and large ones, and few are cut (PRECISION.md). */
__device__ __forceinline__ bool half_is_enough(uint32_t a, uint32_t b, int64_t k, bool fast) {
  if ((a | b) & TB_EMULATED_WILD) return false;
  if (fast || !((a | b) & TB_EMULATED_LOSSY || a & b & TB_EMULATED_LOW)) return true;
  if ((a & TB_EMULATED_SMALL_MASK) + (b & TB_EMULATED_SMALL_MASK) <= TB_EMULATED_SMALL_MAX) return true;
  const uint32_t cut = (a & TB_EMULATED_CUT_MASK) / TB_EMULATED_CUT + (b & TB_EMULATED_CUT_MASK) / TB_EMULATED_CUT;
  const int products = products_of(a, b);
  return k * (products - 1) >= TB_EMULATED_PRODUCTS_MIN * 1024 &&
         products >= static_cast<int>(TB_EMULATED_PRODUCTS_OF_CUT * cut);
}

/* Of a tile of a triangle: the fewest products along k that one of its rows has planes of, 0 if none has any; and the
 * smallest part of the group that the diagonal crosses, of so many k. */
struct Narrowest {
  int k, part, of;
};
__device__ __forceinline__ int least_of_warp(int x) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) x = min(x, __shfl_xor_sync(~0u, x, lanes));
  return x;
}
__device__ __forceinline__ Narrowest narrowest_of(const tb_emulated_args &args, int tile_row, int lane) {
  constexpr int none = 0x7fffffff;
  const int k = static_cast<int>(args.k), first = tile_row * kTileM, end = min(first + kTileM, k);
  const int group = first / kGroupK * kGroupK, group_end = min(group + kGroupK, k);
  int least = none, part = group_end - group;
  for (int row = first + lane; row < end; row += 32) {
    const tb_emulated_extent x = tb_emulated_extent_of(args.triangle, k, row);
    const int here = min(x.end, group_end) - max(x.first, group);
    if (x.end > x.first) least = min(least, x.end - x.first);
    if (here > 0) part = min(part, here);
  }
  least = least_of_warp(least);
  return {least == none ? 0 : least, least_of_warp(part), group_end - group};
}

/* What was seen of columns in a group, as if it had all been in a part of it. */
__device__ __forceinline__ uint32_t stretched(uint32_t seen, const Narrowest &x) {
  const auto share = [&](uint32_t of, uint32_t most) {
    return min((of * static_cast<uint32_t>(x.of) + static_cast<uint32_t>(x.part) - 1) / static_cast<uint32_t>(x.part),
               most);
  };
  return (seen & ~(TB_EMULATED_SMALL_MASK | TB_EMULATED_FAINT_MASK | TB_EMULATED_CUT_MASK)) |
         share(seen & TB_EMULATED_SMALL_MASK, TB_EMULATED_SMALL_MASK) |
         share((seen & TB_EMULATED_FAINT_MASK) / TB_EMULATED_FAINT, TB_EMULATED_FAINT_MASK / TB_EMULATED_FAINT) *
             TB_EMULATED_FAINT |
         share((seen & TB_EMULATED_CUT_MASK) / TB_EMULATED_CUT, TB_EMULATED_CUT_MAX) * TB_EMULATED_CUT;
}

/* half_is_enough, where rows are those of a triangle, of which a side's own part was looked at. */
__device__ __forceinline__ bool half_is_enough(uint32_t a, uint32_t b, const Narrowest &x, bool fast) {
  if (x.k == 0) return !((a | b) & TB_EMULATED_WILD);
  return half_is_enough(a, stretched(b, x), x.k, fast);
}

/* All lanes of a warp: what they have seen together. */
__device__ __forceinline__ uint32_t seen_by_warp(uint32_t seen) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) seen = seen_together(seen, __shfl_xor_sync(~0u, seen, lanes));
  return seen;
}

/* Of so many neighbouring words of each of the groups of k, which are `apart` words apart; a warp's. */
__device__ __forceinline__ uint32_t seen_in(const uint32_t *words, int count, int groups, int64_t apart, int lane) {
  uint32_t seen = 0;
#pragma unroll 1
  for (int i = lane; i < count * groups; i += 32) seen = seen_together(seen, words[i / count * apart + i % count]);
  return seen_by_warp(seen);
}
/* The same of flags alone. */
__device__ __forceinline__ uint32_t flags_in(const uint32_t *words, int count, int groups, int64_t apart, int lane) {
  uint32_t flags = 0;
#pragma unroll 1
  for (int i = lane; i < count * groups; i += 32) flags |= words[i / count * apart + i % count];
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) flags |= __shfl_xor_sync(~0u, flags, lanes);
  return flags;
}

/* All threads of a block: whether some block of tb_emulated_multiply_half has left a tile of D. */
__device__ __forceinline__ bool any_left(const uint32_t *left, int words) {
  bool found = false;
  for (int i = static_cast<int>(threadIdx.x); i < words; i += static_cast<int>(blockDim.x))
    found = found || left[i] != 0;
  return __syncthreads_or(found) != 0;
}

} // namespace
} // namespace emulated

#endif

#endif
