/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products with at most eight columns, or by exchanging the operands' roles eight rows: the matrix-vector products and
 * their like. They are limited by the memory: the large operand X is read once, and everything else must stay out of
 * its way. For every GPU from compute capability 7.5 on.
 *
 *   D = alpha * ([D +] X Y)       see skinny_args.h; the order of summation, chunks and groups of k, is sgemm_args.h's
 *
 *                       k
 *          +-----+-----+-----+-----+      A block computes block_rows rows, in rounds of block_chunks chunks along k:
 *          |chunk|chunk|     |     |      as many chains side by side as its threads have, so that the whole chip reads
 *   rows   |  of a row's   chunks  |      from the first moment on, even when there are few rows.
 *          +-----+-----+-----+-----+
 *
 * A round:
 *   load    X: a thread's next words, always some way ahead of what it multiplies, also across the end of a round
 *           Y: the next round's chunks, asynchronous, into the other panel, where the shared memory has room for two
 *   chain   each thread: one chunk of its rows, a chain of FMAs a row and column
 *   fold    after a barrier, a thread an element: the chunks' sums into the groups', those into D, in order
 *
 * Where X runs along its side, neighbouring lanes take neighbouring rows, and words go from memory to registers. Where
 * it runs along k, a warp copies whole lines into a ring of its own in shared memory, and each lane then walks its own
 * row's piece; no warp waits for another within a round.
 *
 * Rows beyond the last read the last row again, and their sums are not stored. Along k nothing that does not exist is
 * read or multiplied: in the place of X's words there is whatever stood there before, and 0 * Inf is no zero.
 */
#include "skinny/skinny_internal.cuh"

namespace skinny {
namespace {

/* ---- X along its side ---- */

/* A thread's words of R rows at U consecutive k. The rows are neighbours with Vectors, and read at once. */
template <int U, int R, bool Vectors> struct Batch {
  static_assert(!Vectors || R == kVector, "a vector is a row's word four times");
  float word[U][R];
  /* From x on, which moves on to the k behind the last. `left`: how many k there are; `beside`: each row's distance. */
  __device__ __forceinline__ void load(const float *&x, const int (&beside)[R], int64_t ld, int left) {
#pragma unroll
    for (int u = 0; u < U; u++) {
      if (Vectors) {
        if (u < left) {
          const float4 v = load_once4(x);
          word[u][0] = v.x, word[u][1 % R] = v.y, word[u][2 % R] = v.z, word[u][3 % R] = v.w;
        }
      } else {
#pragma unroll
        for (int r = 0; r < R; r++)
          if (u < left) word[u][r] = load_word(x + beside[r]);
      }
      x += ld;
    }
  }
};

template <int N, int R, int U>
__device__ __forceinline__ void multiply_batch(Chains<N, R> &chains, const float (&x)[U][R], const float *y, int left) {
  if (left >= U) {
#pragma unroll
    for (int u = 0; u < U; u += kVector) {
      float4 four[R];
#pragma unroll
      for (int r = 0; r < R; r++) four[r] = make_float4(x[u][r], x[u + 1][r], x[u + 2][r], x[u + 3][r]);
      chains.multiply4(four, y + u);
    }
  } else {
#pragma unroll
    for (int u = 0; u < U; u++)
#pragma unroll
      for (int r = 0; r < R; r++)
        if (u < left) chains.multiply(r, x[u][r], y + u);
  }
}

/*
 * Thread t: chunk t / (block_rows / R) of each round; the R rows from R * (t % (block_rows / R)) on, or without
 * Vectors, row t % (block_rows / R) and those each block_rows / R further. Its batches take turns: as soon as one is
 * multiplied it is loaded again, and the others are on their way.
 */
template <int N, int R, int U, bool Vectors> __device__ __forceinline__ void along_side(const tb_skinny_args &args) {
  constexpr int kTurn = TB_SKINNY_BATCHES * U; /* k of all batches */
  static_assert(kChunk % kTurn == 0, "a chunk is whole turns");
  TB_DYNAMIC_SHARED(float, panels);
  let_next_start();
  const int panel_words = TB_SKINNY_PANEL_WORDS(N, args.block_chunks);
  const int sum_words = TB_SKINNY_SUM_WORDS(N, args.block_rows, args.block_chunks);
  float *const sums = panels + args.buffers * panel_words, *const totals = sums + args.buffers * sum_words;
  const Share share(args);
  const int threads = args.block_rows / R; /* of a chunk */
  const int chunk = static_cast<int>(threadIdx.x) / threads, apart = Vectors ? 1 : threads;
  const int row = static_cast<int>(threadIdx.x) % threads * (Vectors ? R : 1);

  /* Where the memory allows vectors, the last one may be read whole. */
  const int64_t last = Vectors ? (args.rows - 1) / R * R : args.rows - 1, first = smaller(share.row + row, last);
  const float *x = args.x + first + (share.k + chunk * kChunk) * args.x_ld;
  int beside[R];
#pragma unroll
  for (int r = 0; r < R; r++) beside[r] = static_cast<int>(smaller(share.row + row + r * apart, last) - first);
  /* Along k, what is left to multiply and to load. */
  int left = static_cast<int>(share.k_end - share.k) - chunk * kChunk, left_ahead = left;
  const int skip = (args.block_chunks - 1) * kChunk; /* from the end of a chunk to the thread's next */

  load_y<N>(panels, args, share.k, share.k_end); /* first: nothing is multiplied, nor loaded again, without it */
  async_commit();
  Batch<U, R, Vectors> batch[TB_SKINNY_BATCHES];
#pragma unroll
  for (int b = 0; b < TB_SKINNY_BATCHES; b++, left_ahead -= U) batch[b].load(x, beside, args.x_ld, left_ahead);

  const int k_round = args.block_chunks * kChunk;
  int buffer = 0;
  for (int64_t k = share.k; k < share.k_end; k += k_round, buffer = args.buffers - 1 - buffer) {
    const bool more = k + k_round < share.k_end, ahead = more && args.buffers > 1;
    /* For Y. Here, where the loop begins, and not ahead of it: there the compiler puts the first loads of X behind it.
     */
    async_wait<0>();
    __syncthreads();
    if (ahead) load_y<N>(panels + (buffer ^ 1) * panel_words, args, k + k_round, share.k_end);
    async_commit();
    const float *y = panels + buffer * panel_words + chunk * TB_SKINNY_CHUNK_WORDS(N);
    Chains<N, R> chains;
    chains.clear();
#pragma unroll 1
    for (int at = 0; at < kChunk; at += kTurn, y += kTurn) {
      if (at + kTurn == kChunk) { /* what is loaded from now on is of the next chunk */
        x += skip * args.x_ld;
        left_ahead -= skip;
      }
#pragma unroll
      for (int b = 0; b < TB_SKINNY_BATCHES; b++, left -= U, left_ahead -= U) {
        multiply_batch(chains, batch[b].word, y + b * U, left);
        batch[b].load(x, beside, args.x_ld, left_ahead);
      }
    }
    left -= skip;
    chains.template store<Vectors>(sums + buffer * sum_words, chunk, row, apart, args.block_rows);
    __syncthreads();
    fold<N>(args, share, sums + buffer * sum_words, totals, k);
    if (more && !ahead) {
      load_y<N>(panels, args, k + k_round, share.k_end);
      async_commit();
    }
  }
}

/* ---- X along k ---- */

constexpr int kStageK = TB_SKINNY_STAGE_K;
constexpr int kSegment = TB_SKINNY_SEGMENT_WORDS;
/* Where X runs along k, a warp's lanes are kGroupChunks chunks of kWarpRows rows. */
constexpr int kWarpRows = 32 / kGroupChunks;
static_assert(TB_SKINNY_ROWS % (2 * kWarpRows) == 0, "a block's rows are whole warps', with two rows a thread too");
static_assert(kStageK == 32, "a warp copies a segment word by word with one word a lane");

/*
 * A warp's copies into its ring: kGroupChunks chunks of R * kWarpRows rows, kStageK words of each a stage. The segment
 * of row r * kWarpRows + i and chunk c stands at number (r * kGroupChunks + c) * kWarpRows + i of a stage: those of one
 * lane for each r, and lanes that read the same words of Y are neighbours.
 */
template <int R, bool Vectors> class Ring {
  static constexpr int kWidth = Vectors ? kVector : 1;
  static constexpr int kLanes = kStageK / kWidth; /* that copy a segment together */
  static constexpr int kAtOnce = 32 / kLanes;     /* rows that a warp copies from at once */
  static constexpr int kRoundStages = kChunk / kStageK;

  const float *next; /* this lane's first word of the next stage */
  int64_t ld;        /* of X */
  int last_row;      /* last row of the warp's that exists; those beyond read it again */
  int left;          /* words along k, from this lane's first on */
  int asked;         /* stages of this round that are on their way */

public:
  static constexpr int stage_words = R * 32 * kSegment;

  /* `left_of_k`: words along k from `k` on. */
  __device__ __forceinline__ Ring(const tb_skinny_args &args, int64_t row, int64_t k, int left_of_k) {
    const int lane = static_cast<int>(threadIdx.x) % 32, word = lane % kLanes * kWidth;
    ld = args.x_ld;
    next = args.x + row * ld + k + word;
    last_row = static_cast<int>(smaller(args.rows - 1 - row, R * kWarpRows - 1));
    left = left_of_k - word;
    asked = 0;
  }

  /* Starts the copies of the next stage. `skip`: words from the end of a round's chunks to the warp's next ones. */
  __device__ __forceinline__ void load(float *stage, int skip) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    float *const to = stage + lane % kLanes * kWidth;
    const bool whole = left >= (kGroupChunks - 1) * kChunk + kWidth;
#pragma unroll 1
    for (int i = 0; i < R * kWarpRows; i += kAtOnce) {
      const int row = i + lane / kLanes;
      const float *const from = next + (row < last_row ? row : last_row) * ld;
      float *const target = to + (row / kWarpRows * 32 + row % kWarpRows) * kSegment;
      if (whole) {
#pragma unroll
        for (int c = 0; c < kGroupChunks; c++)
          async_copy<4 * kWidth>(target + c * kWarpRows * kSegment, from + c * kChunk);
      } else {
#pragma unroll 1
        for (int c = 0; c * kChunk < left; c++)
          async_copy<4 * kWidth>(target + c * kWarpRows * kSegment, from + c * kChunk,
                                 4 * static_cast<unsigned>(smaller(left - c * kChunk, kWidth)));
      }
    }
    const int step = ++asked < kRoundStages ? kStageK : kStageK + skip;
    if (asked == kRoundStages) asked = 0;
    next += step;
    left -= step;
  }
};

/* A stage's products; `there` of them exist in this lane's chunk. */
template <int N, int R>
__device__ __forceinline__ void multiply_stage(Chains<N, R> &chains, const float *segment, const float *y, int there) {
  if (there >= kStageK) {
#pragma unroll(N > 2 ? 2 : 8)
    for (int at = 0; at < kStageK; at += kVector) {
      float4 x[R];
#pragma unroll
      for (int r = 0; r < R; r++) x[r] = read4(segment + r * 32 * kSegment + at);
      chains.multiply4(x, y + at);
    }
  } else {
    for (int at = 0; at < there; at++)
#pragma unroll
      for (int r = 0; r < R; r++) chains.multiply(r, segment[r * 32 * kSegment + at], y + at);
  }
}

/*
 * Warp w: rows from w % row_warps * R * kWarpRows on, group w / row_warps of each round, row_warps = block_rows /
 * (R * kWarpRows). Stages are counted through the rounds, kChunk / kStageK to each, and all but one are always on their
 * way.
 */
template <int N, int R, int Stages, bool Vectors> __device__ __forceinline__ void along_k(const tb_skinny_args &args) {
  TB_DYNAMIC_SHARED(float, rings);
  let_next_start();
  constexpr int kRoundStages = kChunk / kStageK;
  static_assert(kRoundStages >= Stages, "what is asked for with a round's first stage has landed at its end");
  const int panel_words = TB_SKINNY_PANEL_WORDS(N, args.block_chunks);
  const int sum_words = TB_SKINNY_SUM_WORDS(N, args.block_rows, args.block_chunks);
  float *const panels = rings + TB_SKINNY_RING_WORDS(args.block_rows, args.block_chunks, Stages);
  float *const sums = panels + args.buffers * panel_words, *const totals = sums + args.buffers * sum_words;
  const Share share(args);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int row_warps = args.block_rows / (R * kWarpRows);
  const int warp_row = warp % row_warps * R * kWarpRows, warp_chunk = warp / row_warps * kGroupChunks;
  const int chunk = lane / kWarpRows;

  using WarpRing = Ring<R, Vectors>;
  float *const ring = rings + warp * Stages * WarpRing::stage_words;
  const int k_round = args.block_chunks * kChunk, skip = k_round - kChunk;
  /* A warp whose rows do not exist copies the last row there is. */
  WarpRing x(args, smaller(share.row + warp_row, args.rows - 1), share.k + warp_chunk * kChunk,
             static_cast<int>(share.k_end - share.k) - warp_chunk * kChunk);
  load_y<N>(panels, args, share.k, share.k_end); /* first: nothing is multiplied, nor loaded again, without it */
  async_commit();
  for (int stage = 0; stage < Stages - 1; stage++) {
    x.load(ring + stage * WarpRing::stage_words, skip);
    async_commit();
  }
  async_wait<Stages - 1>();
  __syncthreads();

  int buffer = 0, slot = 0;
  for (int64_t k = share.k; k < share.k_end; k += k_round, buffer = args.buffers - 1 - buffer) {
    const bool more = k + k_round < share.k_end, ahead = more && args.buffers > 1;
    if (ahead) load_y<N>(panels + (buffer ^ 1) * panel_words, args, k + k_round, share.k_end);
    const float *y = panels + buffer * panel_words + (warp_chunk + chunk) * TB_SKINNY_CHUNK_WORDS(N);
    int there = static_cast<int>(share.k_end - k) - (warp_chunk + chunk) * kChunk;
    Chains<N, R> chains;
    chains.clear();
#pragma unroll 1
    for (int stage = 0; stage < kRoundStages; stage++, y += kStageK, there -= kStageK) {
      async_wait<Stages - 2>();
      __syncwarp(); /* this stage is here for every lane, and every lane is done with the one before */
      x.load(ring + (slot + Stages - 1) % Stages * WarpRing::stage_words, skip);
      async_commit();
      multiply_stage(chains, ring + slot * WarpRing::stage_words + lane * kSegment, y, there);
      slot = (slot + 1) % Stages;
    }
    chains.template store<false>(sums + buffer * sum_words, warp_chunk + chunk, warp_row + lane % kWarpRows, kWarpRows,
                                 args.block_rows);
    __syncthreads(); /* the next panel of Y was asked for with the first stage, and has landed with the last */
    fold<N>(args, share, sums + buffer * sum_words, totals, k);
    if (more && !ahead) load_y_now<N>(panels, args, k + k_round, share.k_end);
  }
  async_wait<0>();
}

} // namespace
} // namespace skinny

#define TB_SKINNY_KERNEL(name, threads, function)                                                        \
  extern "C" __global__ void __launch_bounds__(threads, 1) tb_skinny_##name(const tb_skinny_args args) { \
    skinny::function(args);                                                                              \
  }
#define TB_SKINNY_COMMA ,
#define TB_SKINNY(columns, rows, batch, side_threads, k_threads, stages)                                       \
  TB_SKINNY_KERNEL(side_##columns, side_threads,                                                               \
                   along_side<columns TB_SKINNY_COMMA TB_SKINNY_SIDE_ROWS TB_SKINNY_COMMA TB_SKINNY_SIDE_BATCH \
                                  TB_SKINNY_COMMA true>)                                                       \
  TB_SKINNY_KERNEL(side_##columns##_any, side_threads,                                                         \
                   along_side<columns TB_SKINNY_COMMA rows TB_SKINNY_COMMA batch TB_SKINNY_COMMA false>)       \
  TB_SKINNY_KERNEL(k_##columns, k_threads,                                                                     \
                   along_k<columns TB_SKINNY_COMMA rows TB_SKINNY_COMMA stages TB_SKINNY_COMMA true>)          \
  TB_SKINNY_KERNEL(k_##columns##_any, k_threads,                                                               \
                   along_k<columns TB_SKINNY_COMMA rows TB_SKINNY_COMMA stages TB_SKINNY_COMMA false>)
#include "skinny/skinny.def"
#undef TB_SKINNY
