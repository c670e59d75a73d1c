/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packing, for split.cu: operands, stored in whatever way, into fp16 or bf16 planes with scales, and what is seen in
 * them meanwhile.
 */
#ifndef TB_EMULATED_PACK_CUH
#define TB_EMULATED_PACK_CUH

#include "emulated/choice.cuh"

#if defined(TB_TENSOR_CORES)

namespace emulated {
namespace {

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

/* Of a group's words those of a side that exist, [first, end); first is 0 but for triangles. */
template <bool Triangle> struct Extent {
  int first, end;
  /* The same, counted from so many words on. */
  __device__ __forceinline__ Extent from(int words) const { return {Triangle ? first - words : 0, end - words}; }
  /* How many of a run do not. */
  __device__ __forceinline__ uint32_t missing() const {
    return static_cast<uint32_t>(kRun - min(max(end, 0), kRun) + (Triangle ? min(max(first, 0), kRun) : 0));
  }
};
template <bool Triangle>
__device__ __forceinline__ Extent<Triangle> extent_of(const tb_emulated_pack_operand &x, int64_t side, int64_t k,
                                                      int64_t first_k) {
  const int64_t left = k - first_k;
  const int all = static_cast<int>(left < kGroupK ? left : kGroupK);
  if (!Triangle || x.triangle.parts == 0) return {0, all};
  if (side >= x.sides) return {0, 0};
  const tb_emulated_extent row = tb_emulated_extent_of(x.triangle, static_cast<int>(k), static_cast<int>(side));
  const int first = max(row.first - static_cast<int>(first_k), 0), end = min(row.end - static_cast<int>(first_k), all);
  return {first < end ? first : 0, first < end ? end : 0};
}

/* Of the words of a side of a triangle the one that is 1 and is not read; -1: none of this group. */
template <bool Triangle>
__device__ __forceinline__ int unit_of(const tb_emulated_pack_operand &x, int64_t side, int64_t first_k,
                                       const Extent<Triangle> &extent) {
  const int diagonal = static_cast<int>(side - first_k);
  return Triangle && x.unit != 0 && diagonal >= extent.first && diagonal < extent.end ? diagonal : -1;
}

/* Vectors only where memory runs along k. */
template <bool Triangle>
__device__ __forceinline__ void load(Words &words, const tb_emulated_pack_operand &x, int64_t side, int64_t first_k,
                                     const Extent<Triangle> &extent, const Place &place) {
  const bool has_side = side < x.sides;
  const int64_t next = x.along_k ? 1 : x.ld;
  const float *from = x.from + (x.along_k ? side * x.ld : side) + (first_k + place.run * kRun) * next;
  const int64_t next_run = (kRunStep - 1) * kRun * next;
  const int k_left = has_side ? extent.end - place.run * kRun : 0, k_before = extent.first - place.run * kRun;
  const int k_unit = unit_of(x, side, first_k, extent) - place.run * kRun;
#pragma unroll
  for (int r = 0; r < kRuns; r++, from += next_run) {
    const int left = k_left - r * kRunStep * kRun, before = Triangle ? k_before - r * kRunStep * kRun : 0;
    const int unit = Triangle ? k_unit - r * kRunStep * kRun : -1;
    if (x.vectors && left >= kRun && before <= 0 && (unit < 0 || unit >= kRun)) {
      const float4 low = load_words4(from), high = load_words4(from + 4);
      words.x[r][0] = low.x, words.x[r][1] = low.y, words.x[r][2] = low.z, words.x[r][3] = low.w;
      words.x[r][4] = high.x, words.x[r][5] = high.y, words.x[r][6] = high.z, words.x[r][7] = high.w;
      from += kRun;
      continue;
    }
#pragma unroll
    for (int i = 0; i < kRun; i++, from += next) {
      words.x[r][i] = load_word_if(from, i < left && i >= before && i != unit);
      if (i == unit) words.x[r][i] = 1;
    }
  }
}

/* What the threads of a block know of their words, brought together for each side. */
template <class Known> struct Meeting {
  Known of_part[kPackSides][kRunStep + 1]; /* an odd row, so that neither way of access has conflicts */
  Known of_side[kPackSides];
};
/* In shared memory: one after another, so that a thread may still look at the last one's result. */
struct Meetings {
  Meeting<uint32_t> largest, smallest;
  Meeting<uint64_t> counts;
  uint32_t seen[kPackSides];
};

/* Every thread: the result of `join` over the words of its own side. */
template <class Known, class Join>
__device__ __forceinline__ Known meet(Meeting<Known> &m, const Place &p, Known mine, Join join) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  m.of_part[p.side][p.run] = mine;
  __syncthreads();
  Known all = m.of_part[warp][lane];
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
template <bool Triangle>
__device__ __forceinline__ uint32_t count_small(const float (&x)[kRun], uint32_t largest,
                                                const Extent<Triangle> &extent) {
  constexpr uint32_t binades = bits_of_power(4) - bits_of_power(0);
  const uint32_t power = largest & kInfinity;
  if (power <= binades) return 0;
  const float bound = __int_as_float(static_cast<int>(power - binades));
  uint32_t count = 0 - extent.missing();
#pragma unroll
  for (int i = 0; i < kRun; i++) count += fabsf(x[i]) < bound;
  return count;
}

/* Counts of a thread's words, or of a side's, beside each other, and flags of TB_EMULATED_LOSSY's kind: small ones from
 * bit 0 on, faint ones from 16, cut ones from 32, flags 32 bits higher than they are. */
constexpr uint64_t kFlags = static_cast<uint64_t>(TB_EMULATED_LOSSY | TB_EMULATED_LOW) << 32;
__device__ __forceinline__ uint32_t count_at(uint64_t counts, int bit) {
  return static_cast<uint32_t>(counts >> bit) & 0xffff;
}

/* Of a thread's words, once scaled, those below 1, which are faint; and from bit 16 on those below 2^-2, which are cut.
 * Words that do not exist are zeros. */
template <bool Triangle>
__device__ __forceinline__ uint32_t count_faint(const Words &words, float scale, const Extent<Triangle> &extent) {
  uint32_t count = 0;
#pragma unroll
  for (int r = 0; r < kRuns; r++) {
    count -= extent.from(r * kRunStep * kRun).missing();
#pragma unroll
    for (int i = 0; i < kRun; i++) {
      const float x = words.x[r][i], size = fabsf(x * scale);
      if (size < 1) count++;
      if (size < 0.25f && x != 0) count += 1 << 16;
    }
  }
  return count;
}

/* Of so many words, the part that a count is, in 1024ths or others, up. */
__device__ __forceinline__ uint32_t part_of_all(uint32_t count, int parts, int existing) {
  const uint32_t all = static_cast<uint32_t>(existing);
  return (count * static_cast<uint32_t>(parts) + all - 1) / all;
}

/* What was seen of a side in a group of k, so many words. */
template <class Word, bool Triangle>
__device__ __forceinline__ uint32_t seen_of(uint64_t counts, const Scale &scale, int existing, bool short_k) {
  const uint32_t small = count_at(counts, 0), share = part_of_all(small, 1024, existing);
  const uint32_t flags = static_cast<uint32_t>((counts & kFlags) >> 32);
  if (Word::planes == Bfloat::planes) {
    const bool few_large = has_few_large(existing - static_cast<int>(small), existing);
    const bool far_apart = scale.far && share > TB_EMULATED_SMALL_MAX && !few_large;
    if (scale.wild || (far_apart && short_k && !Triangle)) return TB_EMULATED_WILD;
    return flags | (few_large ? TB_EMULATED_FEW_LARGE : 0) | (Triangle && far_apart ? TB_EMULATED_FAR_APART : 0) |
           share;
  }
  if (scale.wild) return TB_EMULATED_WILD;
  return flags | min(part_of_all(count_at(counts, 32), 256, existing), TB_EMULATED_CUT_MAX) * TB_EMULATED_CUT |
         part_of_all(count_at(counts, 16), 1024, existing) * TB_EMULATED_FAINT | share;
}

/* The part of an operand that a block packs at a time. */
struct Part {
  int strip, group; /* of sides, of k */
};

/* Neighbouring blocks read neighbouring memory. */
__device__ __forceinline__ Part part_of(const tb_emulated_pack_operand &x, int number, int strips, int groups) {
  return x.along_k ? Part{number / groups, number % groups} : Part{number % strips, number / strips};
}

/* The part's k that are wanted, in whole chunks: of a triangle those of its tiles' pair. */
struct Wanted {
  int first, end;
};
template <bool Triangle>
__device__ __forceinline__ Wanted wanted_of(const tb_emulated_pack_operand &x, int64_t k, const Part &part) {
  const int64_t first_k = static_cast<int64_t>(part.group) * kGroupK;
  int first = 0, end = static_cast<int>(k - first_k < kGroupK ? k - first_k : kGroupK);
  if (Triangle && x.triangle.parts != 0) {
    const tb_emulated_extent pair =
        tb_emulated_pair_extent(x.triangle, static_cast<int>(k), part.strip * kPackSides / (2 * kTileM));
    first = max(first, pair.first - static_cast<int>(first_k)), end = min(end, pair.end - static_cast<int>(first_k));
  }
  return {first, (end + TB_EMULATED_CHUNK_K - 1) / TB_EMULATED_CHUNK_K * TB_EMULATED_CHUNK_K};
}

/* Whether nothing of it is. */
template <bool Triangle>
__device__ __forceinline__ bool is_beside(const tb_emulated_pack_operand &x, int64_t k, const Part &part) {
  const Wanted wanted = wanted_of<Triangle>(x, k, part);
  return wanted.first >= wanted.end;
}

template <class Word, bool Triangle>
__device__ __forceinline__ void pack_part(const tb_emulated_pack_operand &x, int64_t k, Part part, Meetings &meetings) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const Place place = place_of(x.along_k, warp, lane);
  const int64_t first_k = static_cast<int64_t>(part.group) * kGroupK;
  const int64_t side = static_cast<int64_t>(part.strip) * kPackSides + place.side;
  const Extent<Triangle> extent = extent_of<Triangle>(x, side, k, first_k);
  Words words;
  load(words, x, side, first_k, extent, place);

  uint32_t largest = 0, smallest = kInfinity; /* bf16: but for zeros */
#pragma unroll
  for (int r = 0; r < kRuns; r++) {
#pragma unroll
    for (int i = 0; i < kRun; i++) {
      const uint32_t size = magnitude(words.x[r][i]);
      largest = max(largest, size);
      if (Word::planes == Half::planes || size != 0) smallest = min(smallest, size);
    }
  }
  largest = meet(meetings.largest, place, largest, [](uint32_t a, uint32_t b) { return max(a, b); });
  if (Word::planes == Bfloat::planes)
    smallest = meet(meetings.smallest, place, smallest, [](uint32_t a, uint32_t b) { return min(a, b); });
  const Scale scale = scale_for(Word(), largest, smallest);
  const float factor = scale.wild ? 0 : power_of_two(scale.exponent); /* planes without meaning, but numbers */

  const Wanted wanted = wanted_of<Triangle>(x, k, part);
  const int64_t step_bytes = x.padded_sides / 8 * TB_EMULATED_ROWS_BYTES(Word::planes);
  unsigned char *const to = static_cast<unsigned char *>(x.to.planes) +
                            (first_k / TB_EMULATED_STEP_K + place.run / 2) * step_bytes +
                            side / 8 * TB_EMULATED_ROWS_BYTES(Word::planes) + place.run % 2 * kWgmmaCore +
                            side % 8 * static_cast<int>(sizeof(Packed));
  const int64_t to_next = kRunStep / 2 * step_bytes;
  /* Ordinary operands have next to no faint words, so that most warps do not count them. */
  uint32_t faint = 0, small = 0, flags = 0;
  if (Word::planes == Half::planes && factor * __int_as_float(static_cast<int>(smallest)) < 1)
    faint = count_faint(words, factor, extent.from(place.run * kRun));
#pragma unroll
  for (int r = 0; r < kRuns; r++) {
    const int run = place.run + r * kRunStep;
    Packed plane[Word::planes];
    flags |= split_run<Word>(plane, words.x[r], factor);
    small += count_small(words.x[r], largest, extent.from(run * kRun));
    if (run * kRun >= wanted.end || (Triangle && run * kRun < wanted.first)) continue;
    unsigned char *const core = to + r * to_next;
#pragma unroll
    for (int p = 0; p < Word::planes; p++) *reinterpret_cast<Packed *>(core + p * 2 * kWgmmaCore) = plane[p];
  }

  const uint64_t counts = static_cast<uint64_t>(flags) << 32 | static_cast<uint64_t>(faint) << 16 | small;
  const uint64_t of_side = meet(meetings.counts, place, counts, [](uint64_t a, uint64_t b) {
    return ((a | b) & kFlags) | ((a & ~kFlags) + (b & ~kFlags));
  });
  if (place.run == 0) {
    x.to.scale[part.group * x.padded_sides + side] = power_of_two(-scale.exponent);
    if (x.unfit != nullptr) x.unfit[part.group * x.padded_sides + side] = largest >= kInfinity;
    meetings.seen[place.side] =
        largest == 0 ? 0 : seen_of<Word, Triangle>(of_side, scale, extent.end - extent.first, k < TB_EMULATED_FAR_K);
  }
  __syncthreads();
  if (warp == 0) {
    const uint32_t seen = seen_by_warp(meetings.seen[lane % kPackSides]);
    if (lane == 0) x.to.seen[part.group * (x.padded_sides / kPackSides) + part.strip] = seen;
  }
}

template <class Word, bool Triangle> __device__ __forceinline__ void pack(const tb_emulated_pack_args &args) {
  __shared__ Meetings meetings;
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
    const Part which = part_of(x, number, strips, groups);
    if (Triangle && is_beside<Triangle>(x, args.k, which)) continue;
    pack_part<Word, Triangle>(x, args.k, which, meetings);
    __syncthreads();
  }
}

} // namespace
} // namespace emulated

#endif

#endif
