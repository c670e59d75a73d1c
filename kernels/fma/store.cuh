/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the sums of a block go (sgemm_internal.cuh has how they are made): to D or to the partial sums of a split k, by
 * way of shared memory, by columns; or with those of the other blocks of a cluster.
 */
#ifndef TB_SGEMM_STORE_CUH
#define TB_SGEMM_STORE_CUH

#include "fma/sgemm_internal.cuh"

namespace {

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
