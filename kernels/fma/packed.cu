/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products whose operands are packed first: for those large enough that one pass over A and B costs less than what
 * it saves in the multiplication. The contract and the bits are sgemm_args.h's. Part of sgemm.cu's fat binary; from
 * compute capability 9.0 on.
 *
 *   tb_sgemm_pack          op(A) and op(B), stored in whatever way, into panels
 *   tb_sgemm_packed<tile>  D from the panels; of its arguments, a and b are packed, and lda = ldb the panels' rows
 *
 * A panel holds TB_SGEMM_PANEL rows of op(A), or columns of op(B): word (side, k) is panel[k * TB_SGEMM_PANEL + side].
 * Sides and k are filled up with zeros, to whole pairs of panels and whole steps.
 *
 *       op(A), m x k                 packed
 *     +--------------+      +--------+--------+ ...   a step of 16 k of a panel: 4 KiB that lie together,
 *     |  panel 0     |  ->  | step 0 | step 1 |       and reach a stage by one bulk copy
 *     +--------------+      +--------+--------+
 *     |  panel 1     |
 *
 * So transposes, leading dimensions, alignment and edges are the pack's alone, which waits for the memory anyway, and
 * the multiplying threads do nothing but multiply: for a step, the first lanes of a few warps start a copy
 * each, and every thread asks once whether the next step is there. The rest is as in sgemm.cu: 8 x 8 accumulators a
 * thread, fragments read a k ahead.
 */
#include "fma/store.cuh"

namespace packed {
namespace {

template <int BM, int BN, int BK, int Stages, int TM, int TN, int Blocks> struct Geometry {
  static constexpr int block_m = BM, block_n = BN, block_k = BK, stages = Stages, thread_m = TM, thread_n = TN;
  static constexpr int threads_m = BM / TM, threads_n = BN / TN, threads = threads_m * threads_n;
  static constexpr int blocks_per_sm = Blocks;
  static constexpr bool columns_inside = true, lanes_along_m = true;
  static constexpr int groups_m = TM / kVector, groups_n = TN / kVector;
  static constexpr int warps_m = threads_m / 8, warp_m = 8 * kVector, warp_n = 4 * kVector;
  static constexpr int group_m = BM / groups_m, group_n = BN / groups_n;
  static constexpr int panels_m = BM / TB_SGEMM_PANEL, panels_n = BN / TB_SGEMM_PANEL;
  static constexpr int panel_words = BK * TB_SGEMM_PANEL; /* in a stage */
  static constexpr int a_words = panels_m * panel_words, b_words = panels_n * panel_words;
  static constexpr int stage_words = a_words + b_words;
  /* Words of a stage from one group to the next: of several panels each holds one. */
  static constexpr int a_apart = panels_m > 1 ? panel_words : group_m, b_apart = panels_n > 1 ? panel_words : group_n;
  static_assert(panels_m == 1 || (panels_m == 2 && panels_m == groups_m), "a tile has a panel or a pair of them");
  static_assert(panels_n == 1 || (panels_n == 2 && panels_n == groups_n), "a tile has a panel or a pair of them");
  static_assert(BK == TB_SGEMM_PACKED_K && TB_SGEMM_CHUNK_K % BK == 0 && TB_SGEMM_GROUP_STEP_K % BK == 0,
                "panels have whole steps, chunks too");
  static_assert(TB_SGEMM_PACKED_SHARED_BYTES(BM, BN, BK, Stages) == 4 * (Stages * stage_words + BM * BN) + 8 * Stages,
                "the host asks for what is used");
};

#if defined(TB_BULK_COPIES)

/* ---- pack ---- */

constexpr int kPackDepth = TB_SGEMM_PACK_K, kPackThreads = TB_SGEMM_PACK_THREADS;
static_assert(kPackDepth == 32, "a warp's lanes along k");
constexpr int kPackSides = 2 * TB_SGEMM_PANEL, kPackStrips = kPackSides / 32, kPackWarps = kPackThreads / 32;
/* Words of a thread: of some k, one of each strip of sides. */
constexpr int kPackWords = kPackSides * kPackDepth / kPackThreads;
/* By which words along k come in neighbouring lanes, and go out along the side; an odd row keeps either way free of
 * conflicts. */
using Turn = float[kPackDepth][kPackSides + 1];

/* A block's part of an operand: at most the sides of a pair of panels and kPackDepth of k. */
struct Part {
  const float *from;
  int64_t ld;
  int sides, k; /* that exist */
};

/* Where memory runs along the side, a warp's lanes have neighbouring sides, in strips, and a k of their own. */
__device__ __forceinline__ void load_along_side(float (&word)[kPackWords], const Part &x, int warp, int lane) {
  const float *from = x.from + warp * x.ld + lane;
#pragma unroll
  for (int i = 0; i < kPackWords; i++) {
    const int strip = i % kPackStrips, k = i / kPackStrips * kPackWarps + warp;
    word[i] = load_word_if(from + strip * 32, strip * 32 + lane < x.sides && k < x.k);
    if (strip == kPackStrips - 1) from += kPackWarps * x.ld;
  }
}

/* Where it runs along k, neighbouring lanes have neighbouring k, and the words change places by way of the others. */
__device__ __forceinline__ void load_along_k(float (&word)[kPackWords], const Part &x, int warp, int lane, Turn &turn) {
  const float *from = x.from + warp * x.ld + lane;
#pragma unroll
  for (int i = 0; i < kPackWords; i++, from += kPackWarps * x.ld)
    word[i] = load_word_if(from, i * kPackWarps + warp < x.sides && lane < x.k);
#pragma unroll
  for (int i = 0; i < kPackWords; i++) turn[lane][i * kPackWarps + warp] = word[i];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kPackWords; i++) word[i] = turn[i / kPackStrips * kPackWarps + warp][i % kPackStrips * 32 + lane];
}

/* Neighbouring blocks read neighbouring memory: blockIdx.x counts all parts of A, then B's, along k first where memory
 * runs along k, and else from pair to pair of panels. */
__device__ __forceinline__ void pack(const tb_sgemm_pack_args &args) {
  __shared__ Turn turn;
  const unsigned parts = static_cast<unsigned>((args.rows + kPackDepth - 1) / kPackDepth);
  const unsigned pairs_a = static_cast<unsigned>((args.a.sides + kPackSides - 1) / kPackSides);
  const unsigned pairs_b = static_cast<unsigned>((args.b.sides + kPackSides - 1) / kPackSides);
  const bool is_a = blockIdx.x < pairs_a * parts;
  const unsigned number = is_a ? blockIdx.x : blockIdx.x - pairs_a * parts, pairs = is_a ? pairs_a : pairs_b;
  const bool along_k = is_a ? args.a.along_k : args.b.along_k;
  const unsigned pair = along_k ? number / parts : number % pairs, part = along_k ? number % parts : number / pairs;
  const int64_t first_side = static_cast<int64_t>(pair) * kPackSides;
  const int64_t first_k = static_cast<int64_t>(part) * kPackDepth;
  let_next_start();

  Part x;
  x.ld = is_a ? args.a.ld : args.b.ld;
  x.from = (is_a ? args.a.from : args.b.from) + (along_k ? first_k + first_side * x.ld : first_side + first_k * x.ld);
  x.sides = static_cast<int>(smaller((is_a ? args.a.sides : args.b.sides) - first_side, kPackSides));
  x.k = static_cast<int>(smaller(args.k - first_k, kPackDepth));
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  float word[kPackWords];
  if (along_k)
    load_along_k(word, x, warp, lane, turn);
  else
    load_along_side(word, x, warp, lane);

  const int rows = static_cast<int>(smaller(args.rows - first_k, kPackDepth));
  float *const to = (is_a ? args.a.to : args.b.to) + first_side * args.rows + (first_k + warp) * TB_SGEMM_PANEL + lane;
#pragma unroll
  for (int i = 0; i < kPackWords; i++) {
    const int side = i % kPackStrips * 32, k = i / kPackStrips * kPackWarps;
    float *const panel = to + side / TB_SGEMM_PANEL * (args.rows * TB_SGEMM_PANEL);
    if (k + warp < rows) panel[k * TB_SGEMM_PANEL + side % TB_SGEMM_PANEL] = word[i];
  }
}

/* ---- multiply ---- */

/* The steps of a block's panels, on their way through a ring of stages in shared memory. Each panel is the care of one
 * warp's first lane, so that none is late for all of them. */
template <class G> class Ring {
  float *const stages;
  uint64_t *const there; /* a barrier for each stage: its step has been copied */
  const int panel;       /* of this warp: A's, then B's; no panel for the last warps */
  const float *next;     /* its next step to be copied */
  int to_copy, to_read, stage, left_stage;
  unsigned parity;

public:
  /* All threads of the block: their copies of the first steps are under way. Panels are `apart` words apart. */
  __device__ __forceinline__ Ring(float *stages_, uint64_t *there_, const float *a, const float *b, int64_t apart,
                                  int steps)
      : stages(stages_), there(there_), panel(static_cast<int>(threadIdx.x) / 32),
        next(panel < G::panels_m ? a + panel * apart : b + (panel - G::panels_m) * apart), to_copy(steps),
        to_read(steps), stage(0), parity(0) {
    if (threadIdx.x == 0) {
      for (int s = 0; s < G::stages; s++) barrier_init(&there[s], 1);
      barriers_ready();
    }
    __syncthreads();
    for (left_stage = 0; left_stage < G::stages - 1; left_stage++) copy();
    barrier_wait(&there[0], 0);
  }

  /* The words of the stage that is being read stand so far behind those of the first. */
  __device__ __forceinline__ int offset() const { return stage * G::stage_words; }

  /* Starts to copy the next step to the stage that was left last, when all threads have done with it. */
  __device__ __forceinline__ void copy() {
    const bool has_panel = threadIdx.x % 32 == 0 && panel < G::panels_m + G::panels_n;
    if (has_panel && to_copy > 0) {
      if (threadIdx.x == 0) barrier_expect(&there[left_stage], 4 * G::stage_words);
      bulk_copy(stages + left_stage * G::stage_words + panel * G::panel_words, next, 4 * G::panel_words,
                &there[left_stage]);
      next += G::panel_words;
    }
    to_copy--;
  }

  /* On to the next stage, and waits for its step. */
  __device__ __forceinline__ void advance() {
    left_stage = stage;
    stage = stage + 1 == G::stages ? 0 : stage + 1;
    parity ^= stage == 0;
    if (to_read > 1) barrier_wait(&there[stage], parity);
    to_read--;
  }
};

template <class G> __device__ __forceinline__ void sgemm(const tb_sgemm_args &args) {
  TB_DYNAMIC_SHARED(float, stages);
  constexpr int K = G::block_k;
  if (!args.beside) wait_for_earlier_kernels();
  let_next_start(); /* now, so that a kernel beside this one finds the panels, too */
  int row, column;
  const Job job(args);
  locate<G>(args, job.tile, row, column);
  const Share share(args, job.part);
  const int thread = static_cast<int>(threadIdx.x);
  int k_todo = share.count;
  float *const sums = stages + G::stages * G::stage_words;
  Ring<G> ring(stages, reinterpret_cast<uint64_t *>(sums + G::block_m * G::block_n),
               args.a + row * args.lda + share.first * TB_SGEMM_PANEL,
               args.b + column * args.ldb + share.first * TB_SGEMM_PANEL, args.lda * TB_SGEMM_PANEL,
               (k_todo + K - 1) / K);
  const float *const a_words = stages + Lanes<G>::row(thread), *const b_words =
                                                                   stages + G::a_words + Lanes<G>::column(thread);
  float fa[2][G::thread_m], fb[2][G::thread_n];
  Accumulators<G> accumulators;
  read_fragment<G, G::a_apart, G::b_apart>(fa[0], fb[0], a_words, b_words);
  Unit unit(args, share);
  while (k_todo > 0) {
    accumulators.clear();
    const int k_end = unit.chunk_k(k_todo);
#pragma unroll 1
    for (int k_step = 0; k_step < k_end; k_step += K) {
#pragma unroll
      for (int k = 0; k < K; k++) {
        /* Not at once where a stage is left: only from what a thread has multiplied since it is certain that its last
         * fragments have come out of it, and a bulk copy would not wait for them. */
        if (k == K / 2 - 1) {
          __syncthreads();
          ring.copy();
        }
        if (k == K - 1) ring.advance();
        const int next = ring.offset() + (k + 1) % K * TB_SGEMM_PANEL;
        read_fragment<G, G::a_apart, G::b_apart>(fa[(k + 1) % 2], fb[(k + 1) % 2], a_words + next, b_words + next);
        accumulators.multiply(fa[k % 2], fb[k % 2]);
      }
    }
    k_todo -= k_end;
    if (unit.has_sums()) accumulators.add(sums, thread);
    if (unit.ends_with(k_end, k_todo)) {
      const Target target = target_of(args, opaque(row), opaque(column), unit.number, k_todo == 0);
      store_unit(accumulators, sums, target, opaque(thread), args.together);
      unit.next();
    } else {
      accumulators.keep(sums, thread);
    }
  }
  if (args.beside) wait_for_earlier_kernels(); /* so that this one's end means the end of both */
}

#endif

} // namespace
} // namespace packed

#if defined(TB_BULK_COPIES)
#define TB_SGEMM_PACKED(...) __VA_ARGS__
#else /* the host does not launch them */
#define TB_SGEMM_PACKED(...)
#endif
extern "C" __global__ void __launch_bounds__(TB_SGEMM_PACK_THREADS) tb_sgemm_pack(const tb_sgemm_pack_args args) {
  TB_SGEMM_PACKED(packed::pack(args));
}

#define TB_SGEMM_TILE(name, ...)
#define TB_SGEMM_PACKED_TILE(name, ...)                                                      \
  extern "C" __global__ void __launch_bounds__(packed::Geometry<__VA_ARGS__>::threads,       \
                                               packed::Geometry<__VA_ARGS__>::blocks_per_sm) \
      tb_sgemm_##name(const tb_sgemm_args args) {                                            \
    TB_SGEMM_PACKED(packed::sgemm<packed::Geometry<__VA_ARGS__>>(args));                     \
  }
#include "fma/registry.def"
#undef TB_SGEMM_TILE
#undef TB_SGEMM_PACKED_TILE
