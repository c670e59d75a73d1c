/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a block that multiplies (split.cu) is supplied with: the items that are its own, and their steps on their way
 * through a ring of stages in shared memory.
 */
#ifndef TB_EMULATED_RING_CUH
#define TB_EMULATED_RING_CUH

#include "emulated/pack.cuh"

#if defined(TB_TENSOR_CORES)

namespace emulated {
namespace {

/* A block's work: a tile, and all of k or a part of it. Two blocks, a pair, have items of one number, with neighbouring
 * tiles. */
struct Item {
  int tile;                                      /* its number */
  int row, column;                               /* the tile's place down and across */
  int first_group, groups;                       /* of a triangle not before its row is known (keep_to_triangle) */
  int part_of;                                   /* k is split: which of the tiles of which it is; or one of these */
  static constexpr int whole = -1, nowhere = -2; /* nowhere: the sums are not for this kernel */
  bool alone, second;                            /* the pair has one tile; this one is its second */
  bool same_column;                              /* both blocks' tiles are in one */
  bool repeated;                                 /* there is no second tile: the first one once more, for nothing */
};

struct Items {
  int down, across, groups;
  __device__ __forceinline__ explicit Items(const tb_emulated_args &args)
      : down(static_cast<int>((args.m + kTileM - 1) / kTileM)),
        across(static_cast<int>((args.n + kTileN - 1) / kTileN)),
        groups(static_cast<int>((args.k + kGroupK - 1) / kGroupK)) {}

  /* The first `whole` tiles have all of their k computed at once, and of the others a part at a time. */
  static_assert(TB_EMULATED_CLUSTER == 2, "a pair");
  __device__ __forceinline__ int pairs_whole(const tb_emulated_args &args) const { return (args.whole + 1) / 2; }
  __device__ __forceinline__ int pairs_split(const tb_emulated_args &args) const {
    return (args.tiles - args.whole + 1) / 2;
  }
  __device__ __forceinline__ int count(const tb_emulated_args &args) const {
    return pairs_whole(args) + pairs_split(args) * args.splits;
  }
  __device__ __forceinline__ int count_in_triangle() const { return (down + 1) / 2 * across; }
  /* Of the pair's `rank`th block; where its tile lies has been told (Found), or remains to be located. */
  template <bool Triangle>
  __device__ __forceinline__ Item at(const tb_emulated_args &args, int number, int rank) const {
    Item item;
    if (Triangle) return {2 * number + rank, 0, 0, 0, 0, Item::whole, false, rank > 0, true, false};
    const int whole = pairs_whole(args);
    int first, end;
    if (number < whole) {
      first = 2 * number, end = args.whole;
      item.first_group = 0, item.groups = groups;
    } else {
      const int pairs = pairs_split(args), split = (number - whole) / pairs;
      first = args.whole + 2 * ((number - whole) % pairs), end = args.tiles;
      item.first_group = split * args.groups_per_split;
      item.groups = min(args.groups_per_split, groups - item.first_group);
    }
    item.alone = first + 1 == end;
    item.repeated = item.alone && rank > 0;
    item.second = rank > 0 && !item.alone;
    item.tile = first + item.second;
    item.part_of = number < whole ? Item::whole : item.tile - args.whole;
    return item;
  }
};

/* A pair of a triangle has all that either tile's rows have of k. */
__device__ __forceinline__ tb_emulated_extent extent_of(const tb_emulated_args &args, int row) {
  return tb_emulated_pair_extent(args.triangle, static_cast<int>(args.k), row / 2);
}
__device__ __forceinline__ void keep_to_triangle(const tb_emulated_args &args, Item &item) {
  const tb_emulated_extent x = extent_of(args, item.row);
  item.first_group = x.first / kGroupK;
  item.groups = (x.end + kGroupK - 1) / kGroupK - item.first_group;
  item.repeated = item.second && item.row % 2 == 0;
}

/* Of a triangle's tiles the longest come first: pairs go down a band's columns, and bands from the long rows to the
 * short ones. */
__device__ __forceinline__ void locate_in_triangle(const tb_emulated_args &args, const Items &items, Item &item) {
  constexpr int band = TB_EMULATED_TRIANGLE_BAND;
  const int pairs = (items.down + 1) / 2, number = item.tile / 2, first = number / (band * items.across) * band;
  const int width = min(band, pairs - first), within = number - first * items.across;
  const int along = first + within % width, pair = args.triangle.lower ? pairs - 1 - along : along;
  item.row = 2 * pair + item.second, item.column = within / width;
  if (item.row == items.down) item.row--;
}

/* A tile's place, by its number: they go down a band's columns, one after another. That is many instructions, so that
 * one warp finds it out for all. */
template <bool Triangle>
__device__ __forceinline__ void locate(const tb_emulated_args &args, const Items &items, Item &item) {
  if (Triangle) return locate_in_triangle(args, items, item);
  const tb_tile_bands bands = tb_emulated_bands(args.m, args.n, args.wanted);
  const tb_tile_place place = tb_tile_place_walked(&bands, item.tile);
  item.row = place.along, item.column = place.line;
  item.same_column = item.alone || (item.second ? place.number > 0 : place.number + 1 < place.of);
}

/* A warpgroup's thread's words of a tile, four by four, among those of the block's other threads. */
constexpr int kTileWords = kTileM * kTileN;
__device__ __forceinline__ int64_t words_at(int64_t tile, int warpgroup, int thread) {
  return tile * kTileWords + warpgroup * (kWgmmaWords * kWgmmaThreads) + thread * 4;
}

/* k of a group, in steps, filled up to whole chunks; of a triangle's tile in that row. */
template <bool Triangle> __device__ __forceinline__ int steps_of(const tb_emulated_args &args, int group, int row) {
  if (Triangle) {
    const tb_emulated_extent x = extent_of(args, row);
    const int k = min(x.end, (group + 1) * kGroupK) - max(x.first, group * kGroupK);
    return (k + TB_EMULATED_CHUNK_K - 1) / TB_EMULATED_CHUNK_K * (TB_EMULATED_CHUNK_K / TB_EMULATED_STEP_K);
  }
  const int64_t left = args.k - static_cast<int64_t>(group) * kGroupK;
  const int k = static_cast<int>(left < kGroupK ? left : kGroupK);
  return (k + TB_EMULATED_CHUNK_K - 1) / TB_EMULATED_CHUNK_K * (TB_EMULATED_CHUNK_K / TB_EMULATED_STEP_K);
}

/* What is told of a block's next item: its number, with flags (kItemFlags), and where its tile lies; a column times
 * two, and one if both blocks' tiles are in it. */
struct Found {
  int number, row, column;
};
constexpr int kItemFlags = 2;
template <bool Triangle>
__device__ __forceinline__ Item item_of(const tb_emulated_args &args, const Items &items, const Found &x, int rank) {
  Item item = items.at<Triangle>(args, x.number >> kItemFlags, rank);
  item.row = x.row, item.column = x.column >> 1, item.same_column = x.column & 1;
  if (Triangle) keep_to_triangle(args, item);
  return item;
}

/* The first of an item's steps. */
template <bool Triangle> __device__ __forceinline__ int first_step(const tb_emulated_args &args, const Item &item) {
  if (Triangle) return extent_of(args, item.row).first / TB_EMULATED_STEP_K;
  return item.first_group * (kGroupK / TB_EMULATED_STEP_K);
}

/* A place in a ring of N, and how often it has come round. */
template <int N> struct Cursor {
  int at = 0;
  unsigned parity = 0;
  __device__ __forceinline__ void next() {
    if (++at == N) at = 0, parity ^= 1;
  }
};

/* The ring, its stages first, and a tile's sums behind them. A stage has one step or two, of each the rows' words and
 * the columns', and behind them room for the scales of the tile's rows and columns, which come with a group's last one.
 */
template <class Word> struct Ring {
  static constexpr int stages = TB_EMULATED_STAGES(Word::planes), rows_bytes = TB_EMULATED_ROWS_BYTES(Word::planes);
  static constexpr int steps = TB_EMULATED_STAGE_STEPS(Word::planes);
  static constexpr int a_bytes = kTileM / 8 * rows_bytes, b_bytes = kTileN / 8 * rows_bytes;
  static constexpr int step_bytes = a_bytes + b_bytes, scale_bytes = static_cast<int>(sizeof(float));
  static constexpr int stage_bytes = steps * step_bytes + (kTileM + kTileN) * scale_bytes;
  static constexpr int all_stages_bytes = stages * stage_bytes, kept_bytes = TB_EMULATED_KEPT_BYTES(Word::planes);
  static constexpr int barriers = 2 * stages + 7, words = 8; /* as below */
  static_assert(TB_EMULATED_SHARED_BYTES(Word::planes) == all_stages_bytes + kept_bytes + barriers * 8 + words * 4,
                "the host asks for it");

  unsigned char *const first;
  float *const kept;                            /* former groups' sums, if there is room */
  uint64_t *const full, *const empty;           /* a stage's words are there; are no longer needed */
  uint64_t *const item_full, *const item_empty; /* two, for the items */
  int *const item;                              /* of each what was found, three words */
  uint64_t *const met;                          /* the warps that multiply have met at an item's end */
  volatile int *const found; /* two, for the items: the number of one in which they found something */
  uint64_t *const turn;      /* one for each warpgroup: the other one has asked for its products */

  __device__ __forceinline__ explicit Ring(unsigned char *shared)
      : first(shared), kept(reinterpret_cast<float *>(shared + all_stages_bytes)),
        full(reinterpret_cast<uint64_t *>(shared + all_stages_bytes + kept_bytes)), empty(full + stages),
        item_full(empty + stages), item_empty(item_full + 2), item(reinterpret_cast<int *>(item_empty + 2)),
        met(reinterpret_cast<uint64_t *>(item + 6)), found(reinterpret_cast<int *>(met + 1)), turn(met + 2) {}

  /* The number of the next item; -1: there is none. */
  __device__ __forceinline__ int next_item(const Cursor<2> &slot) const {
    barrier_wait(&item_full[slot.at], slot.parity);
    return item[3 * slot.at];
  }
  /* Where its tile lies, until the slot is needed no longer. */
  __device__ __forceinline__ int row(const Cursor<2> &slot) const { return item[3 * slot.at + 1]; }
  __device__ __forceinline__ int column(const Cursor<2> &slot) const { return item[3 * slot.at + 2] >> 1; }
  __device__ __forceinline__ void tell(const Cursor<2> &slot, const Found &x) const {
    int *const words = item + 3 * slot.at;
    words[0] = x.number, words[1] = x.row, words[2] = x.column;
    barrier_arrive(&item_full[slot.at]);
  }

  /* The same for one thread that supplies, which needs the slot no longer. */
  __device__ __forceinline__ Found take_item(const Cursor<2> &slot) const {
    const Found x = {next_item(slot), item[3 * slot.at + 1], item[3 * slot.at + 2]};
    barrier_arrive(&item_empty[slot.at]);
    return x;
  }

  __device__ __forceinline__ unsigned char *stage_at(const Cursor<stages> &stage) const {
    return first + stage.at * stage_bytes;
  }
  /* Of a stage's columns if `of_b`, else of its rows. */
  __device__ __forceinline__ float *scales_at(unsigned char *stage, bool of_b) const {
    return reinterpret_cast<float *>(stage + steps * step_bytes) + (of_b ? kTileM : 0);
  }
  /* A warp of either block: a chunk's stages are no longer needed, which both blocks are told, for the columns. */
  __device__ __forceinline__ void release(const Cursor<stages> (&used)[2 / steps], int lane) const {
    if (lane < 4 / steps)
      barrier_arrive_at(&empty[lane < 2 ? used[0].at : used[2 / steps - 1].at], static_cast<unsigned>(lane % 2));
  }
  /* All warps that multiply, at an item's end: whether one of their threads has found something in it. A slot's word is
   * written anew two meetings later, when all have read it. */
  __device__ __forceinline__ bool any(bool mine, int number, const Cursor<2> &slot, Cursor<1> &meeting,
                                      int lane) const {
    int some = mine;
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) some |= __shfl_xor_sync(~0u, some, lanes);
    if (lane == 0) {
      if (some) found[slot.at] = number;
      barrier_arrive(met);
    }
    barrier_wait(met, meeting.parity);
    meeting.next();
    return found[slot.at] == number;
  }
  /* One thread: waits until the stage is free, and has it wait for so many bytes. */
  __device__ __forceinline__ unsigned char *open(const Cursor<stages> &stage, int bytes) const {
    barrier_wait(&empty[stage.at], stage.parity ^ 1);
    barrier_expect(&full[stage.at], static_cast<unsigned>(bytes));
    return stage_at(stage);
  }
};

/* What consumers are told of an item, in the lowest bits of its number: that its tile is for this kernel; fp16: that
 * some words are not the sums of their planes, so that there is no exact result that a correction could spoil; bf16, in
 * the same bit: that some side has few large words. */
constexpr unsigned kOurs = 1, kLossy = 2, kFewLarge = 2;

/* A warp. */
template <class Word, bool Triangle>
__device__ __forceinline__ unsigned look_at(const tb_emulated_args &args, const Items &items, const Item &item,
                                            int lane) {
  constexpr int words_a = kTileM / kPackSides, words_b = kTileN / kPackSides;
  const int64_t apart_a = static_cast<int64_t>(items.down) * words_a;
  const int64_t apart_b = static_cast<int64_t>(items.across) * words_b;
  int64_t at_a = static_cast<int64_t>(item.row) * words_a, at_b = static_cast<int64_t>(item.column) * words_b;
  if (item.repeated) return 0;
  const Narrowest narrowest = Triangle ? narrowest_of(args, item.row, lane) : Narrowest();
  if (Triangle) at_a += item.first_group * apart_a, at_b += item.first_group * apart_b;
  const int groups = Triangle ? item.groups : items.groups;
  const int tile = item.row + item.column * items.down;
  if (Word::planes == Half::planes) {
    const uint32_t a = seen_in(args.a.seen + at_a, words_a, groups, apart_a, lane);
    const uint32_t b = seen_in(args.b.seen + at_b, words_b, groups, apart_b, lane);
    const bool enough = Triangle ? half_is_enough(a, b, narrowest, args.fast) : half_is_enough(a, b, args.k, args.fast);
    if (lane == 0 && (Triangle || item.first_group == 0)) args.taken[tile] = enough, args.again[tile] = 0;
    return (enough ? kOurs : 0) | ((a | b) & TB_EMULATED_LOSSY ? kLossy : 0);
  }
  if (args.taken[tile] != 0) return 0;
  const uint32_t flags = flags_in(args.a.seen + at_a, words_a, groups, apart_a, lane) |
                         flags_in(args.b.seen + at_b, words_b, groups, apart_b, lane);
  const bool far_apart = Triangle && flags & TB_EMULATED_FAR_APART && narrowest.k < TB_EMULATED_FAR_K;
  if (!(flags & TB_EMULATED_WILD) && !far_apart) return kOurs | (flags & TB_EMULATED_FEW_LARGE ? kFewLarge : 0);
  if (lane == 0) args.again[tile] = 1;
  return 0;
}

/* One thread: the items' steps, the words of the rows. Another one has those of the columns copied: each has no more to
 * do for a step than there is time while the step before is multiplied. */
template <class Word, bool Triangle>
__device__ __forceinline__ void supply_rows(const tb_emulated_args &args, const Ring<Word> &ring) {
  using R = Ring<Word>;
  const int rank = static_cast<int>(cluster_rank());
  const Items items(args);
  const int64_t step_bytes = static_cast<int64_t>(items.down) * R::a_bytes;
  Cursor<R::stages> stage;
  for (Cursor<2> slot;; slot.next()) {
    const Found found = ring.take_item(slot);
    if (found.number < 0) break;
    const Item item = item_of<Triangle>(args, items, found, rank);
    const unsigned char *from = static_cast<const unsigned char *>(args.a.planes) +
                                first_step<Triangle>(args, item) * step_bytes +
                                static_cast<int64_t>(item.row) * R::a_bytes;
    for (int group = item.first_group; group < item.first_group + item.groups; group++) {
      const float *const scales = args.a.scale + (static_cast<int64_t>(group) * items.down + item.row) * kTileM;
#pragma unroll 1
      for (int left = steps_of<Triangle>(args, group, item.row); left > 0; left -= R::steps, stage.next()) {
        const int scale_bytes = left == R::steps ? kTileM * R::scale_bytes : 0;
        unsigned char *const to = ring.open(stage, R::steps * R::a_bytes + scale_bytes);
        uint64_t *const there = &ring.full[stage.at];
#pragma unroll
        for (int s = 0; s < R::steps; s++, from += step_bytes)
          bulk_copy(to + s * R::step_bytes, from, R::a_bytes, there);
        if (scale_bytes > 0) bulk_copy(ring.scales_at(to, false), scales, static_cast<unsigned>(scale_bytes), there);
      }
    }
  }
}

template <class Word, bool Triangle>
__device__ __forceinline__ void supply_columns(const tb_emulated_args &args, const void *map, const Ring<Word> &ring) {
  using R = Ring<Word>;
  constexpr int map_rows = TB_EMULATED_MAP_ROWS(Word::planes);
  const int rank = static_cast<int>(cluster_rank());
  const Items items(args);
  const int64_t step_bytes = static_cast<int64_t>(items.across) * R::b_bytes;
  Cursor<R::stages> stage;
  for (Cursor<2> slot;; slot.next()) {
    const Found found = ring.take_item(slot);
    if (found.number < 0) break;
    const Item item = item_of<Triangle>(args, items, found, rank);
    int map_row = (first_step<Triangle>(args, item) * items.across + item.column) * 2 * map_rows + rank * map_rows;
    const unsigned char *from = static_cast<const unsigned char *>(args.b.planes) +
                                first_step<Triangle>(args, item) * step_bytes +
                                static_cast<int64_t>(item.column) * R::b_bytes;
    for (int group = item.first_group; group < item.first_group + item.groups; group++) {
      const float *const scales = args.b.scale + (static_cast<int64_t>(group) * items.across + item.column) * kTileN;
#pragma unroll 1
      for (int left = steps_of<Triangle>(args, group, item.row); left > 0; left -= R::steps, stage.next()) {
        const int scale_bytes = left == R::steps ? kTileN * R::scale_bytes : 0;
        unsigned char *const to = ring.open(stage, R::steps * R::b_bytes + scale_bytes) + R::a_bytes;
        uint64_t *const there = &ring.full[stage.at];
#pragma unroll
        for (int s = 0; s < R::steps; s++, from += step_bytes, map_row += items.across * 2 * map_rows) {
          if (item.same_column)
            box_copy(to + s * R::step_bytes + rank * (R::b_bytes / 2), map, map_row, there, 3);
          else
            bulk_copy(to + s * R::step_bytes, from, R::b_bytes, there);
        }
        if (scale_bytes > 0)
          bulk_copy(ring.scales_at(to - R::a_bytes, true), scales, static_cast<unsigned>(scale_bytes), there);
      }
    }
  }
}

/* One warp: finds the items that are this pair's, two ahead of those that are supplied, for it has to look at what was
 * seen in their words. If only the other block's tile is for this kernel, both have the columns copied all the same,
 * and this block multiplies for nothing. */
template <class Word, bool Triangle>
__device__ __forceinline__ void find_items(const tb_emulated_args &args, const Ring<Word> &ring) {
  const int lane = static_cast<int>(threadIdx.x) % 32, rank = static_cast<int>(cluster_rank());
  const Items items(args);
  Cursor<2> slot;
  uint32_t left = 0;
  const auto tell = [&](const Found &found) {
    barrier_wait(&ring.item_empty[slot.at], slot.parity ^ 1);
    __syncwarp(); /* else a lane that looks late may find the next phase over, and wait for ever */
    if (lane == 0) ring.tell(slot, found);
    slot.next();
  };
  int turn = 0; /* of a triangle's tiles, which become shorter, there and back in turns */
  const auto next = [&](int number) {
    const int pairs = static_cast<int>(gridDim.x / TB_EMULATED_CLUSTER);
    return Triangle ? (turn += 2 * pairs) - 1 - number : number + pairs;
  };
  for (int number = static_cast<int>(blockIdx.x / TB_EMULATED_CLUSTER);
       number < (Triangle ? items.count_in_triangle() : items.count(args)); number = next(number)) {
    /* A lane has the pair's first tile or its second. */
    Item mine = items.at<Triangle>(args, number, lane % 2);
    locate<Triangle>(args, items, mine);
    if (Triangle) keep_to_triangle(args, mine);
    unsigned both = 0;
#pragma unroll 1
    for (int r = 0; r < 2; r++) {
      Item item = items.at<Triangle>(args, number, r);
      item.row = __shfl_sync(~0u, mine.row, r), item.column = __shfl_sync(~0u, mine.column, r);
      if (Triangle) keep_to_triangle(args, item);
      both |= look_at<Word, Triangle>(args, items, item, lane) << r * kItemFlags;
    }
    const unsigned flags = both >> rank * kItemFlags & ((1u << kItemFlags) - 1);
    Item own = items.at<Triangle>(args, number, rank);
    const int same_column = __shfl_sync(~0u, mine.same_column, rank);
    if (Triangle) own.repeated = __shfl_sync(~0u, mine.repeated, rank);
    if (!(flags & kOurs) && !own.repeated) left = 1;
    if (both & (kOurs | kOurs << kItemFlags))
      tell({number << kItemFlags | static_cast<int>(flags), __shfl_sync(~0u, mine.row, rank),
            2 * __shfl_sync(~0u, mine.column, rank) + same_column});
  }
  tell({-1, 0, 0});
  if (Word::planes == Half::planes && lane == 0) args.left[blockIdx.x] = left;
}

} // namespace
} // namespace emulated

#endif

#endif
