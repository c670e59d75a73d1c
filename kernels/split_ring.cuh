/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a block that multiplies (split.cu) is supplied with: the items that are its own, and their steps on their way
 * through a ring of stages in shared memory.
 */
#ifndef TB_SPLIT_RING_CUH
#define TB_SPLIT_RING_CUH

#include "split_pack.cuh"

#if defined(TB_TENSOR_CORES)

namespace split {
namespace {

/* Rows of tiles that are computed together, column by column: their part of A stays in the L2. */
constexpr int kBandTiles = 12;

/* A block's work: a tile, and all of k or a part of it. */
struct Item {
  int row, column; /* the tile's number down and across */
  int first_group, groups;
  int part_of; /* k is split: which of the tiles of which it is; else -1 */
};

struct Items {
  int down, across, groups;
  __device__ __forceinline__ explicit Items(const tb_split_args &args)
      : down(static_cast<int>((args.m + kTileM - 1) / kTileM)),
        across(static_cast<int>((args.n + kTileN - 1) / kTileN)),
        groups(static_cast<int>((args.k + kGroupK - 1) / kGroupK)) {}

  /* Of tiles, which go down a band's columns, one after another. */
  __device__ __forceinline__ void locate(int tile, int &row, int &column) const {
    const int band = tile / (kBandTiles * across) * kBandTiles, within = tile - band * across;
    const int rows = down - band < kBandTiles ? down - band : kBandTiles;
    row = band + within % rows, column = within / rows;
  }

  /* The first `whole` tiles have all of their k computed at once, and of the others a part at a time. */
  __device__ __forceinline__ int count(const tb_split_args &args) const {
    return args.whole + (down * across - args.whole) * args.splits;
  }
  __device__ __forceinline__ Item at(const tb_split_args &args, int number) const {
    Item item;
    if (number < args.whole) {
      locate(number, item.row, item.column);
      item.first_group = 0, item.groups = groups, item.part_of = -1;
      return item;
    }
    const int split_tiles = down * across - args.whole, split = (number - args.whole) / split_tiles;
    item.part_of = (number - args.whole) % split_tiles;
    locate(args.whole + item.part_of, item.row, item.column);
    item.first_group = split * args.groups_per_split;
    item.groups = min(args.groups_per_split, groups - item.first_group);
    return item;
  }
};

/* A warpgroup's thread's words of a tile, four by four, among those of the block's other threads. */
constexpr int kTileWords = kTileM * kTileN;
__device__ __forceinline__ int64_t words_at(int64_t tile, int warpgroup, int thread) {
  return tile * kTileWords + warpgroup * (kWgmmaWords * kWgmmaThreads) + thread * 4;
}

/* k of a group, in steps, filled up to whole chunks. */
__device__ __forceinline__ int steps_of(const tb_split_args &args, int group) {
  const int64_t left = args.k - static_cast<int64_t>(group) * kGroupK;
  const int k = static_cast<int>(left < kGroupK ? left : kGroupK);
  return (k + TB_SPLIT_CHUNK_K - 1) / TB_SPLIT_CHUNK_K * (TB_SPLIT_CHUNK_K / TB_SPLIT_STEP_K);
}

/* A place in a ring of N, and how often it has come round. */
template <int N> struct Turn {
  int at = 0;
  unsigned parity = 0;
  __device__ __forceinline__ void next() {
    if (++at == N) at = 0, parity ^= 1;
  }
};

/* The ring, its stages first. A group's last stage has the scales of the tile's rows and columns, too. */
template <class Word> struct Ring {
  static constexpr int stages = TB_SPLIT_STAGES(Word::planes), rows_bytes = TB_SPLIT_ROWS_BYTES(Word::planes);
  static constexpr int a_bytes = kTileM / 8 * rows_bytes, b_bytes = kTileN / 8 * rows_bytes;
  static constexpr int scale_bytes = (kTileM + kTileN) * static_cast<int>(sizeof(float));
  static constexpr int stage_bytes = a_bytes + b_bytes + scale_bytes;
  static_assert(TB_SPLIT_SHARED_BYTES(Word::planes) == stages * (stage_bytes + 16) + 64, "the host asks for it");

  unsigned char *const stage_at;
  uint64_t *const full, *const empty;           /* a stage's words are there; are no longer needed */
  uint64_t *const item_full, *const item_empty; /* two, for the items */
  int *const item;

  __device__ __forceinline__ explicit Ring(unsigned char *shared)
      : stage_at(shared), full(reinterpret_cast<uint64_t *>(shared + stages * stage_bytes)), empty(full + stages),
        item_full(empty + stages), item_empty(item_full + 2), item(reinterpret_cast<int *>(item_empty + 2)) {}

  /* The next item; -1: there is none. */
  __device__ __forceinline__ int next_item(const Turn<2> &slot) const {
    barrier_wait(&item_full[slot.at], slot.parity);
    return item[slot.at];
  }

  /* One thread, when the stage is free: `bytes` of a step's words to `offset` in the stage, and at a group's end so
   * many scales to the `scale`th. */
  __device__ __forceinline__ void copy(const Turn<stages> &stage, int offset, const unsigned char *from, int bytes,
                                       int scale, const float *scales, int scale_count) const {
    unsigned char *const to = stage_at + stage.at * stage_bytes;
    uint64_t *const barrier = &full[stage.at];
    barrier_wait(&empty[stage.at], stage.parity ^ 1);
    barrier_expect(barrier, static_cast<unsigned>(bytes + scale_count * static_cast<int>(sizeof(float))));
    bulk_copy(to + offset, from, static_cast<unsigned>(bytes), barrier);
    if (scale_count > 0)
      bulk_copy(to + a_bytes + b_bytes + scale * static_cast<int>(sizeof(float)), scales,
                static_cast<unsigned>(scale_count * static_cast<int>(sizeof(float))), barrier);
  }
};

/* Whether the tile is for this kernel. A warp. */
template <class Word>
__device__ __forceinline__ bool is_ours(const tb_split_args &args, const Items &items, const Item &item, int lane) {
  constexpr int words_a = kTileM / kPackSides, words_b = kTileN / kPackSides;
  const int64_t at_a = static_cast<int64_t>(item.row) * words_a, at_b = static_cast<int64_t>(item.column) * words_b;
  const int64_t apart_a = static_cast<int64_t>(items.down) * words_a;
  const int64_t apart_b = static_cast<int64_t>(items.across) * words_b;
  const uint32_t a = seen_in(args.seen_a + at_a, words_a, items.groups, apart_a, lane);
  const uint32_t b = seen_in(args.seen_b + at_b, words_b, items.groups, apart_b, lane);
  const bool enough = half_is_enough(a, b, args.fast);
  uint32_t *const again = args.again + item.row + static_cast<int64_t>(item.column) * items.down;
  if (Word::planes == Half::planes) {
    if (lane == 0 && item.first_group == 0) *again = 0;
    return enough;
  }
  if (enough) return false;
  const uint32_t planes_a = seen_in(args.a.seen + at_a, words_a, items.groups, apart_a, lane);
  const uint32_t planes_b = seen_in(args.b.seen + at_b, words_b, items.groups, apart_b, lane);
  if (!((planes_a | planes_b) & TB_SPLIT_WILD)) return true;
  if (lane == 0) *again = 1;
  return false;
}

/*
 * Blocks side by side read the same rows and columns, which come from the L2 only while all are at about the same k: of
 * large products, a round's rows and columns are several times what the L2 holds. Left to themselves blocks drift apart
 * (at 16384 cubed, nine times as much came from memory as with all in step). So none starts a group of k before all
 * have started the one kSlack ahead of it. One warp looks where the others are, another one supplies. When nothing has
 * moved for long, some block has no SM yet, and then there is no waiting any more.
 */
class Pace {
  static constexpr int slack = 2, most_looks = 1000; /* each of about a microsecond */
  static constexpr int position_bits = TB_SPLIT_POSITION_BITS, at_end = (1 << position_bits) - 1;
  volatile int *const allowed, *const over;

  /* The highest bits of a word tell the launch: what an earlier one has left does not count, and if the bits are the
   * same all the same, it says at_end. */
  __device__ __forceinline__ void tell(const tb_split_args &args, int position) const {
    store_now(&args.progress[blockIdx.x], args.launch | static_cast<uint32_t>(position));
  }

public:
  /* `shared`: two words. */
  __device__ __forceinline__ explicit Pace(int *shared) : allowed(shared), over(shared + 1) {}

  /* One thread, before the others come. */
  __device__ __forceinline__ void begin(bool in_step) const { *allowed = in_step ? slack : at_end, *over = 0; }

  /* One thread: this block wants to start a group; the `position`th. */
  __device__ __forceinline__ void reach(const tb_split_args &args, int position) const {
    tell(args, position);
    while (*allowed < position) continue;
  }
  __device__ __forceinline__ void end(const tb_split_args &args) const {
    tell(args, at_end);
    *over = 1;
  }

  /* A warp, until this block ends. */
  __device__ __forceinline__ void watch(const tb_split_args &args, int lane) const {
    int last = 0;
    for (int look = 0; look < most_looks && *over == 0; look++, pause()) {
      int least = at_end;
#pragma unroll 1
      for (unsigned i = static_cast<unsigned>(lane); i < gridDim.x; i += 32) {
        const uint32_t word = load_now(&args.progress[i]);
        if ((word ^ args.launch) >> position_bits == 0) least = min(least, static_cast<int>(word & at_end));
      }
#pragma unroll
      for (int lanes = 16; lanes > 0; lanes /= 2) least = min(least, __shfl_xor_sync(~0u, least, lanes));
      if (least != last) look = 0;
      last = least;
      if (lane == 0) *allowed = least + slack;
      __syncwarp();
    }
    if (lane == 0) *allowed = at_end;
  }
};

/* One thread: an item's steps, the words of the rows. Another one has those of the columns copied: each has no more to
 * do for a step than there is time while the step before is multiplied. */
template <class Word>
__device__ __forceinline__ void supply_rows(const tb_split_args &args, const Ring<Word> &ring, const Items &items,
                                            const Item &item, const Pace &pace, int position,
                                            Turn<Ring<Word>::stages> &stage) {
  using R = Ring<Word>;
  const int64_t step_bytes = static_cast<int64_t>(items.down) * R::a_bytes;
  const unsigned char *from = static_cast<const unsigned char *>(args.a.planes) +
                              item.first_group * (kGroupK / TB_SPLIT_STEP_K) * step_bytes +
                              static_cast<int64_t>(item.row) * R::a_bytes;
  for (int group = item.first_group; group < item.first_group + item.groups; group++) {
    const float *const scales = args.a.scale + (static_cast<int64_t>(group) * items.down + item.row) * kTileM;
    pace.reach(args, position++);
#pragma unroll 1
    for (int left = steps_of(args, group); left > 0; left--, from += step_bytes, stage.next())
      ring.copy(stage, 0, from, R::a_bytes, 0, scales, left == 1 ? kTileM : 0);
  }
}

template <class Word>
__device__ __forceinline__ void supply_columns(const tb_split_args &args, const Ring<Word> &ring) {
  using R = Ring<Word>;
  const Items items(args);
  const int64_t step_bytes = static_cast<int64_t>(items.across) * R::b_bytes;
  Turn<R::stages> stage;
  for (Turn<2> slot;; slot.next()) {
    const int number = ring.next_item(slot);
    barrier_arrive(&ring.item_empty[slot.at]);
    if (number < 0) break;
    const Item item = items.at(args, number);
    const unsigned char *from = static_cast<const unsigned char *>(args.b.planes) +
                                item.first_group * (kGroupK / TB_SPLIT_STEP_K) * step_bytes +
                                static_cast<int64_t>(item.column) * R::b_bytes;
    for (int group = item.first_group; group < item.first_group + item.groups; group++) {
      const float *const scales = args.b.scale + (static_cast<int64_t>(group) * items.across + item.column) * kTileN;
#pragma unroll 1
      for (int left = steps_of(args, group); left > 0; left--, from += step_bytes, stage.next())
        ring.copy(stage, R::a_bytes, from, R::b_bytes, kTileM, scales, left == 1 ? kTileN : 0);
    }
  }
}

/* One warp: finds the items that are this block's, and has their rows copied. */
template <class Word>
__device__ __forceinline__ void supply(const tb_split_args &args, const Ring<Word> &ring, const Pace &pace) {
  using R = Ring<Word>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Items items(args);
  Turn<R::stages> stage;
  Turn<2> slot;
  uint32_t left = 0;
  int round = 0;
  for (int number = static_cast<int>(blockIdx.x); number < items.count(args);
       number += static_cast<int>(gridDim.x), round++) {
    const Item item = items.at(args, number);
    if (!is_ours<Word>(args, items, item, lane)) {
      left = 1;
      continue;
    }
    barrier_wait(&ring.item_empty[slot.at], slot.parity ^ 1);
    if (lane == 0) {
      ring.item[slot.at] = number;
      barrier_arrive(&ring.item_full[slot.at]);
    }
    if (lane == 0) supply_rows(args, ring, items, item, pace, round * items.groups, stage);
    __syncwarp();
    slot.next();
  }
  barrier_wait(&ring.item_empty[slot.at], slot.parity ^ 1);
  if (lane == 0) {
    ring.item[slot.at] = -1;
    barrier_arrive(&ring.item_full[slot.at]);
    pace.end(args);
    if (Word::planes == Half::planes) args.left[blockIdx.x] = left;
  }
}

} // namespace
} // namespace split

#endif

#endif
