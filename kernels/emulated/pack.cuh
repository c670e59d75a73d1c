/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packing, for split.cu: operands, stored in whatever way, into fp16 or bf16 planes with scales, and what is seen in
 * them meanwhile; and what that means for a tile.
 */
#ifndef TB_EMULATED_PACK_CUH
#define TB_EMULATED_PACK_CUH

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

/* ---- what a tile can be computed from ---- */

__device__ __forceinline__ uint32_t seen_together(uint32_t a, uint32_t b) {
  const uint32_t small_a = a & TB_EMULATED_SMALL_MASK, small_b = b & TB_EMULATED_SMALL_MASK;
  return ((a | b) & ~TB_EMULATED_SMALL_MASK) | (small_a > small_b ? small_a : small_b);
}

/* Whether fp16 planes are enough for rows and columns of which this was seen: nothing is lost, or what is lost stands
 * beside enough products of large words (PRECISION.md). */
__device__ __forceinline__ bool half_is_enough(uint32_t a, uint32_t b, bool fast) {
  if ((a | b) & TB_EMULATED_WILD) return false;
  if (fast || !((a | b) & TB_EMULATED_LOSSY || a & b & TB_EMULATED_LOW)) return true;
  return (a & TB_EMULATED_SMALL_MASK) + (b & TB_EMULATED_SMALL_MASK) <= TB_EMULATED_SMALL_MAX;
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

/* All threads of a block: whether some block of tb_emulated_multiply_half has left a tile of D. */
__device__ __forceinline__ bool any_left(const uint32_t *left, int words) {
  bool found = false;
  for (int i = static_cast<int>(threadIdx.x); i < words; i += static_cast<int>(blockDim.x))
    found = found || left[i] != 0;
  return __syncthreads_or(found) != 0;
}

/* ---- pack ---- */

constexpr int kPackSides = TB_EMULATED_PACK_SIDES, kPackThreads = TB_EMULATED_PACK_THREADS,
              kPackWarps = kPackThreads / 32;
/* A thread has words of one side: eight neighbouring k, and again so many. */
constexpr int kRun = 8, kRuns = kPackSides * kGroupK / kPackThreads / kRun;
static_assert(kPackSides == 8 && kPackWarps == 8 && kRuns == 4, "a warp for each side, when they are looked at");

/* Where a thread's words stand in its block's part of an operand. */
struct Place {
  int side, run; /* run: of the first eight k; the next ones are kRunStep runs further */
};
constexpr int kRunStep = kPackThreads / kPackSides;
static_assert(kRunStep == 32, "as many threads have words of a side");

/* Neighbouring lanes read neighbouring memory: eight sides, or four runs, a line of 128 bytes. In either case a warp
 * writes whole lines, the core matrices. */
__device__ __forceinline__ Place place_of(bool along_k, int warp, int lane) {
  if (along_k) return {lane / 4, warp * 4 + lane % 4};
  return {lane % 8, warp * 4 + lane / 8};
}

struct Words {
  float x[kRuns][kRun];
};

/* k_end: words of the group that exist. Vectors only where memory runs along k. */
__device__ __forceinline__ void load(Words &words, const tb_emulated_pack_operand &x, int64_t side, int64_t first_k,
                                     int k_end, const Place &place) {
  const bool has_side = side < x.sides;
  const int64_t next = x.along_k ? 1 : x.ld;
  const float *from = x.from + (x.along_k ? side * x.ld : side) + (first_k + place.run * kRun) * next;
  const int64_t next_run = (kRunStep - 1) * kRun * next;
  const int k_left = has_side ? k_end - place.run * kRun : 0;
#pragma unroll
  for (int r = 0; r < kRuns; r++, from += next_run) {
    const int left = k_left - r * kRunStep * kRun;
    if (x.vectors && left >= kRun) {
      const float4 low = load_words4(from), high = load_words4(from + 4);
      words.x[r][0] = low.x, words.x[r][1] = low.y, words.x[r][2] = low.z, words.x[r][3] = low.w;
      words.x[r][4] = high.x, words.x[r][5] = high.y, words.x[r][6] = high.z, words.x[r][7] = high.w;
      from += kRun;
      continue;
    }
#pragma unroll
    for (int i = 0; i < kRun; i++, from += next) words.x[r][i] = load_word_if(from, i < left);
  }
}

/* What the threads of a block know of their words, brought together for each side. One meeting after another has
 * another of two, so that a thread may still look at the last one's result. */
struct Meeting {
  uint32_t of_part[kPackSides][kRunStep + 1]; /* an odd row, so that neither way of access has conflicts */
  uint32_t of_side[kPackSides];
};

/* Every thread: the result of `join` over the words of its own side. */
template <class Join> __device__ __forceinline__ uint32_t meet(Meeting &m, const Place &p, uint32_t mine, Join join) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  m.of_part[p.side][p.run] = mine;
  __syncthreads();
  uint32_t all = m.of_part[warp][lane];
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) all = join(all, __shfl_xor_sync(~0u, all, lanes));
  if (lane == 0) m.of_side[warp] = all;
  __syncthreads();
  return m.of_side[p.side];
}

__device__ __forceinline__ float power_of_two(int exponent) { return __int_as_float((exponent + 127) << 23); }
__device__ __forceinline__ uint32_t magnitude(float x) {
  return static_cast<uint32_t>(__float_as_int(x)) & 0x7fffffffu;
}
/* The bits of 2^exponent: of finite numbers the order of bits is that of sizes. */
__device__ constexpr uint32_t bits_of_power(int exponent) { return static_cast<uint32_t>(exponent + 127) << 23; }
constexpr uint32_t kInfinity = bits_of_power(128);

/* Of a number that is neither 0 nor infinite, from its magnitude's bits: 2^exponent <= it < 2^(exponent + 1). */
__device__ __forceinline__ int exponent_of(uint32_t size) {
  return size >= bits_of_power(-126) ? static_cast<int>(size >> 23) - 127 : 31 - 149 - __clz(static_cast<int>(size));
}

struct Scale {
  int exponent; /* words are multiplied by this power of two */
  bool wild;    /* whatever else is seen */
  bool far;     /* wild if most words are small and k is short */
};

/* fp16: the largest word of a side comes to lie in [2^14, 2^15). Beyond these sizes, products of two sides might leave
 * the range of fp32, one way or the other, when they are multiplied by both scales at once. */
__device__ __forceinline__ Scale scale_for(Half, uint32_t largest, uint32_t) {
  if (largest == 0) return {0, false, false};
  if (largest < bits_of_power(-48) || largest >= bits_of_power(53)) return {0, true, false};
  return {14 + 127 - static_cast<int>(largest >> 23), false, false};
}

/* bf16 has the range of fp32, but the lowest plane stands 2^-16 below the word, and products of planes must not leave
 * the range on either side, for what the tensor cores make of that is not IEEE's. So a side's largest word is brought
 * into a window of sizes, where it may stay if it is there; then the smallest must not be too small for its planes.
 * Where it was moved down, nor for its products with the other side's smallest, which it takes along: they are at least
 * 2^-120, and all that a chunk's instructions cut off at 2^-149 is half a unit of them.
 *
 * Where words are far apart and most of them small, few products make up a sum. With a short k, a chain of fp32 then
 * rounds less than the tensor cores cut off (PRECISION.md).
 */
__device__ __forceinline__ Scale scale_for(Bfloat, uint32_t largest, uint32_t smallest) {
  constexpr int low = -30, high = 60, smallest_exponent = -109, smallest_moved_down = -120 - smallest_exponent;
  static_assert(2 * (high + 1) + 5 <= 127 && TB_EMULATED_CHUNK_K == 1 << 5,
                "the sum of a chunk's products is in range");
  if (largest == 0) return {0, false, false};
  if (largest >= kInfinity) return {0, true, false};
  const int exponent = exponent_of(largest), least = exponent_of(smallest);
  const int move = exponent > high ? high - exponent : exponent < low ? low - exponent : 0;
  const bool too_small = least + move < (move < 0 ? smallest_moved_down : smallest_exponent);
  return {move, too_small, exponent - least > TB_EMULATED_NEAR};
}

/* Of a side's words, whether so few are not small that one product may be far larger than all others. */
__device__ __forceinline__ bool has_few_large(int large, int existing) {
  return large * TB_EMULATED_MANY_OF < existing;
}

/* Eight words of each plane, as they go to memory. */
struct __align__(16) Packed {
  uint32_t pair[kRun / 2];
};

__device__ __forceinline__ uint32_t bits_of(float x) { return static_cast<uint32_t>(__float_as_int(x)); }

/* Splits a run, and gives back whether anything was lost, and whether there are low planes. */
template <class Word>
__device__ __forceinline__ uint32_t split_run(Packed (&plane)[Word::planes], const float (&x)[kRun], float scale) {
  uint32_t lost = 0, low = 0;
#pragma unroll
  for (int i = 0; i < kRun; i += 2) {
    float rest = x[i] * scale, next = x[i + 1] * scale;
#pragma unroll
    for (int p = 0; p < Word::planes; p++) {
      const uint32_t pair = to_pair(Word(), rest, next);
      plane[p].pair[i / 2] = pair;
      rest -= from_bits(Word(), static_cast<uint16_t>(pair & 0xffff));
      next -= from_bits(Word(), static_cast<uint16_t>(pair >> 16));
    }
    lost |= bits_of(rest) | bits_of(next), low |= plane[1].pair[i / 2];
  }
  bool lossy = lost << 1 != 0;
  if (scale < 1) { /* some may be too small to be scaled */
#pragma unroll
    for (int i = 0; i < kRun; i++) lossy = lossy || (x[i] * scale == 0 && x[i] != 0);
  }
  return (lossy ? TB_EMULATED_LOSSY : 0) | (low & 0x7fff7fff ? TB_EMULATED_LOW : 0);
}

/* Of a run's words, those below 2^-4 of the power of two of the side's largest, which are small; of subnormal ones,
 * none. Words that do not exist are zeros. */
__device__ __forceinline__ uint32_t count_small(const float (&x)[kRun], uint32_t largest, int existing) {
  constexpr uint32_t binades = bits_of_power(4) - bits_of_power(0);
  const uint32_t power = largest & kInfinity;
  if (power <= binades) return 0;
  const float bound = __int_as_float(static_cast<int>(power - binades));
  int count = min(max(existing, 0), kRun) - kRun;
#pragma unroll
  for (int i = 0; i < kRun; i++) count += fabsf(x[i]) < bound;
  return static_cast<uint32_t>(count);
}

/* The part of an operand that a block packs at a time. */
struct Part {
  int strip, group; /* of sides, of k */
};

/* Neighbouring blocks read neighbouring memory. */
__device__ __forceinline__ Part part_of(const tb_emulated_pack_operand &x, int number, int strips, int groups) {
  return x.along_k ? Part{number / groups, number % groups} : Part{number % strips, number / strips};
}

template <class Word>
__device__ __forceinline__ void pack_part(const tb_emulated_pack_operand &x, int64_t k, Part part,
                                          Meeting (&meeting)[2]) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const Place place = place_of(x.along_k, warp, lane);
  const int64_t first_k = static_cast<int64_t>(part.group) * kGroupK;
  const int64_t side = static_cast<int64_t>(part.strip) * kPackSides + place.side;
  const int k_end = static_cast<int>(k - first_k < kGroupK ? k - first_k : kGroupK);
  Words words;
  load(words, x, side, first_k, k_end, place);

  uint32_t largest = 0, smallest = kInfinity; /* but for zeros */
#pragma unroll
  for (int r = 0; r < kRuns; r++) {
#pragma unroll
    for (int i = 0; i < kRun; i++) {
      const uint32_t size = magnitude(words.x[r][i]);
      largest = max(largest, size);
      if (Word::planes == Bfloat::planes && size != 0) smallest = min(smallest, size);
    }
  }
  largest = meet(meeting[0], place, largest, [](uint32_t a, uint32_t b) { return max(a, b); });
  if (Word::planes == Bfloat::planes)
    smallest = meet(meeting[1], place, smallest, [](uint32_t a, uint32_t b) { return min(a, b); });
  const Scale scale = scale_for(Word(), largest, smallest);
  const float factor = scale.wild ? 0 : power_of_two(scale.exponent); /* planes without meaning, but numbers */

  const int k_padded = (k_end + TB_EMULATED_CHUNK_K - 1) / TB_EMULATED_CHUNK_K * TB_EMULATED_CHUNK_K;
  const int64_t step_bytes = x.padded_sides / 8 * TB_EMULATED_ROWS_BYTES(Word::planes);
  unsigned char *const to = static_cast<unsigned char *>(x.to.planes) +
                            (first_k / TB_EMULATED_STEP_K + place.run / 2) * step_bytes +
                            side / 8 * TB_EMULATED_ROWS_BYTES(Word::planes) + place.run % 2 * kWgmmaCore +
                            side % 8 * static_cast<int>(sizeof(Packed));
  const int64_t to_next = kRunStep / 2 * step_bytes;
  uint32_t small = 0, flags = 0;
#pragma unroll
  for (int r = 0; r < kRuns; r++) {
    const int run = place.run + r * kRunStep;
    Packed plane[Word::planes];
    flags |= split_run<Word>(plane, words.x[r], factor);
    small += count_small(words.x[r], largest, k_end - run * kRun);
    if (run * kRun >= k_padded) continue;
    unsigned char *const core = to + r * to_next;
#pragma unroll
    for (int p = 0; p < Word::planes; p++) *reinterpret_cast<Packed *>(core + p * 2 * kWgmmaCore) = plane[p];
  }

  /* A side's small words are counted in 1024ths, up; a sum of counts leaves the flags alone. */
  constexpr int last = Word::planes == Bfloat::planes ? 0 : 1;
  const uint32_t of_side = meet(meeting[last], place, small | flags, [](uint32_t a, uint32_t b) {
    return ((a | b) & (TB_EMULATED_LOSSY | TB_EMULATED_LOW)) | ((a + b) & TB_EMULATED_SMALL_MASK);
  });
  const uint32_t share =
      ((of_side & TB_EMULATED_SMALL_MASK) * 1024 + static_cast<uint32_t>(k_end) - 1) / static_cast<uint32_t>(k_end);
  const bool few_large = Word::planes == Bfloat::planes &&
                         has_few_large(k_end - static_cast<int>(of_side & TB_EMULATED_SMALL_MASK), k_end);
  const bool wild = scale.wild || (scale.far && share > TB_EMULATED_SMALL_MAX && !few_large && k < TB_EMULATED_FAR_K);
  uint32_t seen = (of_side & (TB_EMULATED_LOSSY | TB_EMULATED_LOW)) | (few_large ? TB_EMULATED_FEW_LARGE : 0) | share;
  if (wild || largest == 0) seen = wild ? TB_EMULATED_WILD : 0;
  if (place.run == 0) {
    x.to.scale[part.group * x.padded_sides + side] = power_of_two(-scale.exponent);
    meeting[1 - last].of_side[place.side] = seen;
  }
  __syncthreads();
  if (warp == 0) {
    seen = seen_by_warp(meeting[1 - last].of_side[lane % kPackSides]);
    if (lane == 0) x.to.seen[part.group * (x.padded_sides / kPackSides) + part.strip] = seen;
  }
}

template <class Word> __device__ __forceinline__ void pack(const tb_emulated_pack_args &args) {
  __shared__ Meeting meeting[2];
  wait_for_earlier_kernels();
  let_next_start();
  if (Word::planes == Bfloat::planes && !any_left(args.left, args.left_words)) return;
  const int groups = static_cast<int>((args.k + kGroupK - 1) / kGroupK);
  const int parts_of_first = static_cast<int>(args.x[0].padded_sides / kPackSides) * groups;
  const int parts = parts_of_first + static_cast<int>(args.x[1].padded_sides / kPackSides) * groups;
  for (int part = static_cast<int>(blockIdx.x); part < parts; part += static_cast<int>(gridDim.x)) {
    const bool second = part >= parts_of_first;
    const tb_emulated_pack_operand &x = args.x[second];
    const int number = part - (second ? parts_of_first : 0), strips = static_cast<int>(x.padded_sides / kPackSides);
    pack_part<Word>(x, args.k, part_of(x, number, strips, groups), meeting);
    __syncthreads();
  }
}

} // namespace
} // namespace emulated

#endif

#endif
