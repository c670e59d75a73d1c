/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all tiled sgemm kernels do alike: read fragments, multiply, add up the three levels of sums, store.
 *
 * A tile's geometry G says block_m, block_n (the tile of D), thread_m, thread_n (a thread's part of it), threads (that
 * share the tile), warps_m, warp_m, group_m, groups_m and the same for n; and columns_inside, the order in which a
 * thread takes its accumulators, along rows or along columns first, whichever the compiler makes more of. A thread
 * keeps thread_m x thread_n accumulators in groups of 4 x 4, spread so that the threads of a warp, 8 along m and 4
 * along n, read neighbouring float4s.
 *
 *   rows    of group g: warp row    * warp_m + g * group_m + 4 * (thread's row in the warp)    + 0..3
 *   columns of group g: warp column * warp_n + g * group_n + 4 * (thread's column in the warp) + 0..3
 */
#ifndef TB_SGEMM_PARTS_CUH
#define TB_SGEMM_PARTS_CUH

#include "common/ptx.cuh"
#include "common/sgemm_args.h"

namespace {

/* Words that one vector access moves. */
constexpr int kVector = 4;
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

/* One thread's words of a stage's row: Groups float4s, Apart words from one to the next. */
template <int Groups, int Apart>
__device__ __forceinline__ void read_row(float (&fragment)[Groups * kVector], const float *row) {
#pragma unroll
  for (int g = 0; g < Groups; g++) {
    float4 v = read4(row + g * Apart);
    fragment[g * kVector + 0] = v.x;
    fragment[g * kVector + 1] = v.y;
    fragment[g * kVector + 2] = v.z;
    fragment[g * kVector + 3] = v.w;
  }
}

/* ApartA, ApartB: words from one group to the next. */
template <class G, int ApartA, int ApartB>
__device__ __forceinline__ void read_fragment(float (&fa)[G::thread_m], float (&fb)[G::thread_n], const float *a,
                                              const float *b) {
  read_row<G::groups_m, ApartA>(fa, a);
  read_row<G::groups_n, ApartB>(fb, b);
}

/*
 * Where a thread's first groups start within the tile, and the place of its float4s among its warp's in the group's
 * sums. A warp is 8 threads along m and 4 along n.
 *
 *   lane                  bit 4  bit 3  bit 2  bit 1  bit 0
 *   row                   bit 2  bit 1                bit 0
 *   column                              bit 1  bit 0
 *   with lanes_along_m
 *     row                               bit 2  bit 1  bit 0
 *     column              bit 1  bit 0
 *
 * Shared memory serves a float4 of every lane in four turns, or in two if the lanes that differ in bit 0 of their
 * number read the same one, or those that differ in bit 1 (measured: bench/results/studies.md). So either fragment is
 * read in two turns; with lanes_along_m those of A take four, which tiles with 8 x 8 accumulators a thread have the
 * time for: the largest and the packed ones are quicker so by 1 to 3 %, which is not understood.
 */
template <class G> struct Lanes {
  static __device__ __forceinline__ int row(int thread) {
    return thread / 32 % G::warps_m * G::warp_m + warp_row(thread % 32) * kVector;
  }
  static __device__ __forceinline__ int column(int thread) {
    return thread / 32 / G::warps_m * G::warp_n + warp_column(thread % 32) * kVector;
  }
  static __device__ __forceinline__ int slot(int thread) {
    return thread / 32 * 32 + slot_in_warp(warp_row(thread % 32), warp_column(thread % 32));
  }
  /* Eight lanes one behind the other, and the eight threads of a column, find all 32 banks. */
  static __device__ __forceinline__ int slot_in_warp(int row, int column) {
    return (G::lanes_along_m ? row : row ^ column * 2) + column * 8;
  }

private:
  static __device__ __forceinline__ int warp_row(int lane) {
    return G::lanes_along_m ? lane % 8 : lane % 2 + lane / 8 * 2;
  }
  static __device__ __forceinline__ int warp_column(int lane) { return G::lanes_along_m ? lane / 8 : lane / 2 % 4; }
};

/*
 * One thread's accumulators, and its part of the group's sums in shared memory: float4s, those of a warp side by
 * side. A float4 holds two pairs of rows, each exchanged: float4s are loaded into four registers from a multiple of
 * four on, so an accumulator's register gets the other parity than that of its word of A, and an FMA does not ask one
 * of the register file's two banks for both. With columns_inside it is pairs of columns, and the words of B.
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
  __device__ __forceinline__ void add(const float *sums, int thread) {
    const int slot = Lanes<G>::slot(thread);
#pragma unroll
    for (int at = 0; at < G::thread_m * G::thread_n; at += kVector) {
      const float4 before = read4(sums + at * G::threads + kVector * slot);
      of<0>(at) = before.x + of<0>(at), of<1>(at) = before.y + of<1>(at);
      of<2>(at) = before.z + of<2>(at), of<3>(at) = before.w + of<3>(at);
    }
  }
  __device__ __forceinline__ void keep(float *sums, int thread) {
    const int slot = Lanes<G>::slot(thread);
#pragma unroll
    for (int at = 0; at < G::thread_m * G::thread_n; at += kVector)
      write4(sums + at * G::threads + kVector * slot, make_float4(of<0>(at), of<1>(at), of<2>(at), of<3>(at)));
  }

  /*
   * The outer product of a k's two fragments, forth and back along the inner side: each FMA then shares a word with the
   * one before, and reads two from the register file, whose two banks give one each, instead of three.
   */
  __device__ __forceinline__ void multiply(const float (&a)[G::thread_m], const float (&b)[G::thread_n]) {
    constexpr int inner = G::columns_inside ? G::thread_n : G::thread_m;
    constexpr int outer = G::columns_inside ? G::thread_m : G::thread_n;
#pragma unroll
    for (int out = 0; out < outer; out++) {
#pragma unroll
      for (int step = 0; step < inner; step++) {
        const bool back = kRegisterBanks && out % 2 == 1;
        const int in = back ? inner - 1 - step : step;
        const int i = G::columns_inside ? outer - 1 - out : in, j = G::columns_inside ? inner - 1 - in : out;
        sum[j][i] = fmaf(a[i], b[j], sum[j][i]);
      }
    }
  }

private:
  /* The accumulator that is word `Place` of the float4 which starts with number `at`, counted along the inner side. */
  template <int Place> __device__ __forceinline__ float &of(int at) {
    if (!G::columns_inside) return sum[at / G::thread_m][at % G::thread_m + (Place ^ 1)];
    const int i = at / G::thread_n;
    return sum[at % G::thread_n + (Place ^ 1 ^ (i & 2))][i];
  }
};

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

/* ---- a unit's sums, shared memory -> D or the partial sums ---- */

/* What a block computes: a tile, or of a split k a part of one. */
struct Job {
  unsigned tile, part;
  __device__ __forceinline__ explicit Job(const tb_sgemm_args &args) : tile(blockIdx.x), part(blockIdx.y) {
    if (args.together > 0) tile = blockIdx.x / args.together, part = blockIdx.x % args.together;
  }
  __device__ __forceinline__ Job(unsigned tile_, unsigned part_) : tile(tile_), part(part_) {}
};

/* That part of k, all of it unless k is split. */
struct Share {
  int64_t first;
  int first_unit, count;
  __device__ __forceinline__ Share(const tb_sgemm_args &args, unsigned part) {
    const int64_t split_k = static_cast<int64_t>(args.units_per_split) * args.unit_k;
    const bool to_partials = args.partials != nullptr, split = to_partials || args.together > 0;
    first = split ? part * split_k : 0;
    first_unit = to_partials ? static_cast<int>(part) * args.units_per_split : 0;
    count = static_cast<int>(split ? smaller(args.k - first, split_k) : args.k);
  }
};

/* Products whose chunks' sums are added up in shared memory before they go to D or the partial sums: a unit. This one
 * is the one that a block computes now. */
struct Unit {
  const int size;
  int number; /* counted from the start of k */
  int done;   /* its products that are multiplied */
  __device__ __forceinline__ Unit(const tb_sgemm_args &args, const Share &share)
      : size(args.partials != nullptr ? args.unit_k : args.group_k), number(share.first_unit), done(0) {}

  /* Products of its next chunk, of so many that the block still has. */
  __device__ __forceinline__ int chunk_k(int k_todo) const { return min(min(size - done, k_todo), TB_SGEMM_CHUNK_K); }
  __device__ __forceinline__ bool has_sums() const { return done > 0; }
  /* A chunk of so many has been multiplied, behind which the block has k_todo left. */
  __device__ __forceinline__ bool ends_with(int chunk, int k_todo) {
    done += chunk;
    return done == size || k_todo == 0;
  }
  __device__ __forceinline__ void next() { number++, done = 0; }
};

/* Where a unit's sums go: d = scale * ([d +] sums), for the elements that exist. */
struct Target {
  float *d; /* the tile's first element */
  int64_t ld;
  int rows, columns; /* from there on */
  bool add;
  float scale;
  /* All elements of the tile exist, and may be stored four rows at a time. */
  template <class G> __device__ __forceinline__ bool whole() const {
    return rows >= G::block_m && columns >= G::block_n && takes_vectors(d, ld);
  }
};

/* Of a unit of the tile at (row, column). */
__device__ __forceinline__ Target target_of(const tb_sgemm_args &args, int row, int column, int unit, bool at_end) {
  const bool split = args.partials != nullptr;
  float *const d = split ? args.partials + unit * (args.m * args.n) : args.d;
  Target t;
  t.ld = split ? args.m : args.ldd;
  t.d = d + row + column * t.ld;
  t.rows = static_cast<int>(args.m) - row, t.columns = static_cast<int>(args.n) - column;
  t.add = !split && (unit > 0 || !args.first);
  t.scale = !split && at_end && args.last ? args.alpha : 1.0f;
  return t;
}

/* Float4s of D that a thread asks for before it adds to the first of them: the wait for the L2 is then paid once for
 * each so many. */
constexpr int kStoreQuads = 4;

/* The accumulators, with no way by shared memory, to a tile whose elements all exist, in a D that takes vectors. */
template <class G>
__device__ __forceinline__ void store_whole(const Accumulators<G> &accumulators, const Target &t, int thread) {
  constexpr int quads = G::thread_n * G::groups_m;
  static_assert(quads % kStoreQuads == 0, "batches are whole");
  float *const d = t.d + Lanes<G>::row(thread) + Lanes<G>::column(thread) * t.ld;
  auto at = [&](int q) {
    const int j = q / G::groups_m;
    return d + q % G::groups_m * G::group_m + (j / kVector * G::group_n + j % kVector) * t.ld;
  };
#pragma unroll
  for (int first = 0; first < quads; first += kStoreQuads) {
    float4 v[kStoreQuads];
#pragma unroll
    for (int b = 0; b < kStoreQuads; b++) v[b] = t.add ? read4(at(first + b)) : make_float4(0, 0, 0, 0);
#pragma unroll
    for (int b = 0; b < kStoreQuads; b++) {
      const float *s = &accumulators.sum[(first + b) / G::groups_m][(first + b) % G::groups_m * kVector];
      write4(at(first + b), make_float4(t.scale * (v[b].x + s[0]), t.scale * (v[b].y + s[1]), t.scale * (v[b].z + s[2]),
                                        t.scale * (v[b].w + s[3])));
    }
  }
}

/* A row or column of a tile, told apart: its warp, its thread's group, and its place in what the warp's threads have
 * of that group. Apart: from a warp's first to the next warp's, and from a thread's group to its next, which holds
 * those of all warps. */
struct Place {
  unsigned warp, group, within;
};
template <unsigned WarpApart, unsigned GroupApart> __device__ __forceinline__ Place place_of(unsigned at) {
  return {at % GroupApart / WarpApart, at / GroupApart, at % WarpApart};
}

/*
 * The word of the sums that belongs to the tile's element (row, column): Accumulators::keep says where it put it. With
 * columns_inside half of the rows have the halves of their float4s exchanged, which spreads a column over more banks.
 */
template <class G> __device__ __forceinline__ unsigned sums_word(unsigned row, unsigned column) {
  const Place r = place_of<G::warp_m, G::group_m>(row), c = place_of<G::warp_n, G::group_n>(column);
  const unsigned slot =
      (c.warp * G::warps_m + r.warp) * 32 + Lanes<G>::slot_in_warp(r.within / kVector, c.within / kVector);
  const unsigned i = r.group * kVector + r.within % kVector, j = c.group * kVector + c.within % kVector;
  if (G::columns_inside) {
    const unsigned at = i * (G::thread_n / kVector) + j / kVector;
    return (at * G::threads + slot) * kVector + (j % kVector ^ 1 ^ (i & 2));
  }
  const unsigned at = j * G::groups_m + i / kVector;
  return (at * G::threads + slot) * kVector + (i % kVector ^ 1);
}

/* That of the element `columns` behind it in the same four columns, `warps` warps behind, of the same row and group,
 * where `first` is the word of the first of four columns. */
template <class G> __device__ __forceinline__ unsigned sums_word_behind(unsigned first, int warps, int columns) {
  const unsigned four = first + warps * G::warps_m * 32 * kVector;
  return G::columns_inside ? four ^ columns : four + columns * G::groups_m * G::threads * kVector;
}

/* Words of D that a thread asks for before it adds to the first of them: the wait for the memory is then paid once for
 * each so many. */
constexpr int kStoreBatch = 32;

/*
 * Where not all of that is so: a thread stores one row of some neighbouring columns, neighbouring lanes neighbouring
 * rows, whatever D's alignment. A batch of columns is all of a warp's, or two warps', so the places of its sums are
 * those of each first of four columns, and constants behind them.
 */
template <class G> __device__ __forceinline__ void store_columns(const float *sums, const Target &t, int thread) {
  constexpr int parts = G::threads / G::block_m, columns = G::block_n / parts,
                batch = columns < kStoreBatch ? columns : kStoreBatch;
  static_assert(parts > 0 && columns % batch == 0, "whole batches of columns");
  static_assert(batch % G::warp_n == 0 && G::group_n % batch == 0, "whole warps of columns, of one group");
  const int row = thread % G::block_m, start = thread / G::block_m * columns;
  int there = row < t.rows ? t.columns - start : 0;
  float *d = t.d + row + start * t.ld;
#pragma unroll 1
  for (int c = 0; c < columns; c += batch, there -= batch) {
    float v[batch] = {};
    if (t.add) {
      const float *before = opaque(d); /* the stores compute their addresses anew: two lists of them are too many */
#pragma unroll
      for (int j = 0; j < batch; j++, before += t.ld)
        if (j < there) v[j] = *before;
    }
    unsigned fours[G::warp_n / kVector];
#pragma unroll
    for (int f = 0; f < G::warp_n / kVector; f++)
      fours[f] = sums_word<G>(static_cast<unsigned>(row), static_cast<unsigned>(start + c + f * kVector));
#pragma unroll
    for (int j = 0; j < batch; j++) {
      const float sum = sums[sums_word_behind<G>(fours[j % G::warp_n / kVector], j / G::warp_n, j % kVector)];
      v[j] = opaque(t.scale * (v[j] + sum)); /* read now, and not behind the question whether it is stored */
    }
    /* One address after the other: as a product of its own each would take three instructions. */
#pragma unroll
    for (int j = 0; j < batch; j++, d = opaque(d + t.ld))
      if (j < there) *d = v[j];
  }
}

/*
 * A unit's sums: the accumulators of the largest tiles go straight to D where that can be, for the way by shared memory
 * takes 5 % of their time. In smaller ones the compiler then puts the accumulators where they meet the fragments in one
 * register bank.
 */
template <class G>
__device__ __forceinline__ void store(Accumulators<G> &accumulators, float *sums, const Target &target, int thread) {
  constexpr bool direct = G::block_m * G::block_n >= 128 * 128;
  if (direct && target.template whole<G>()) {
    store_whole(accumulators, target, thread);
  } else {
    accumulators.keep(sums, thread);
    __syncthreads();
    store_columns<G>(sums, target, thread);
  }
}

#if defined(TB_BULK_COPIES)
/*
 * The sums of a tile whose parts of k are a cluster's blocks: they stay in shared memory, and each block adds all
 * blocks' for its share of the tile, in the order of the parts. A thread takes a row's words of four columns, and then
 * those behind what the cluster's threads take together.
 *
 * What a warp reads of another block at once is to be whole lines. With the rows of a column side by side neighbouring
 * lanes have neighbouring rows, and read word by word. With columns_inside the four columns of a row are, in places
 * that are exchanged (sums_word); a line has every fourth row, and so have eight neighbouring lanes.
 */
template <class G>
__device__ __forceinline__ void store_together(Accumulators<G> &accumulators, float *sums, const Target &t, int thread,
                                               int parts) {
  constexpr int fours = G::block_m * G::block_n / kVector;
  accumulators.keep(sums, thread);
  cluster_share();
#pragma unroll 1
  for (int four = static_cast<int>(cluster_rank()) * G::threads + thread; four < fours; four += parts * G::threads) {
    const int side = four % G::block_m, column = four / G::block_m * kVector;
    const int row = G::columns_inside ? side / 32 * 32 + side % 8 * 4 + side / 8 % 4 : side;
    const unsigned first = sums_word<G>(static_cast<unsigned>(row), static_cast<unsigned>(column));
    const int exchanged =
        G::columns_inside ? static_cast<int>(first % kVector) : 0; /* word w is column w ^ exchanged */
    const int there = row < t.rows ? t.columns - column : 0;
    float *const d = t.d + row + column * t.ld;
    float part[TB_SGEMM_TOGETHER_MAX][kVector] = {}, sum[kVector] = {};
#pragma unroll
    for (int p = 0; p < TB_SGEMM_TOGETHER_MAX; p++) {
      if (p >= parts) continue;
      const ClusterWords words(sums, static_cast<unsigned>(p));
      if constexpr (G::columns_inside) {
        const float4 v = words.four(first / kVector * kVector);
        part[p][0] = v.x, part[p][1] = v.y, part[p][2] = v.z, part[p][3] = v.w;
      } else {
#pragma unroll
        for (int w = 0; w < kVector; w++) part[p][w] = words[sums_word_behind<G>(first, 0, w)];
      }
    }
#pragma unroll
    for (int w = 0; w < kVector; w++)
      if (t.add && (w ^ exchanged) < there) sum[w] = d[(w ^ exchanged) * t.ld];
#pragma unroll
    for (int p = 0; p < TB_SGEMM_TOGETHER_MAX; p++)
#pragma unroll
      for (int w = 0; w < kVector; w++) sum[w] = p < parts ? sum[w] + part[p][w] : sum[w];
        /* Whether they are stored or not, so that nothing is read any more behind the cluster's last meeting. */
#pragma unroll
    for (int w = 0; w < kVector; w++) sum[w] = opaque(t.scale * sum[w]);
#pragma unroll
    for (int w = 0; w < kVector; w++)
      if ((w ^ exchanged) < there) d[(w ^ exchanged) * t.ld] = sum[w];
  }
  cluster_meet(); /* no block ends while another reads its sums */
}
#endif

/* `together`: of tb_sgemm_args. */
template <class G>
__device__ __forceinline__ void store_unit(Accumulators<G> &accumulators, float *sums, const Target &target, int thread,
                                           int together) {
#if defined(TB_BULK_COPIES)
  if (together > 0) {
    store_together(accumulators, sums, target, thread, together);
    return;
  }
#endif
  store(accumulators, sums, target, thread);
}

} // namespace

#endif
