/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single-precision products in plain fp32 FMA, for every GPU from compute capability 7.5 on.
 *
 *   D = alpha * ([D +] op(A) op(B))       see sgemm_args.h for the contract and the order of summation
 *
 * A block computes a tile of D, block_m x block_n, in steps of block_k along k, from a ring of stages in shared memory.
 * While one step is multiplied, the copies of the steps ahead are under way.
 *
 *   load      (first k of a step) a later step's panels, global memory -> stage, asynchronously; zeros beyond the last
 *             k. All at once: the compiler puts three empty reads of shared memory before each batch of copies
 *   fragment  the next k's words of this thread, stage -> registers
 *   multiply  this k's outer product into the accumulators
 *   advance   (last k of a step) wait for the next step's copies, one barrier, next stage
 *
 *                    block_n
 *              +------------------+
 *      block_k |     B panel      |        Every k costs a thread one float4 a group of its accumulators and
 *              +------------------+        thread_m * thread_n FMAs: with 8 x 8, 4 loads for 64 FMAs.
 *     block_k
 *      +----+  +------------------+        sgemm_parts.cuh says which rows and columns a thread has.
 *      | A  |  |   tile of D      | block_m
 *      +----+  +------------------+
 *
 * Transposes are index math: a panel element is (side, k), with side = row of op(A) or column of op(B), and memory runs
 * either along side or along k. Both kinds arrive in the same layout, stage[k][side], so one multiply serves all four
 * products. Panels that run along side are copied 16 bytes at a time by the kernels for aligned operands, word by word
 * by those for any; panels that run along k always word by word, a warp taking 4 words along k of 8 sides, and then the
 * next 4. A stage's rows are 8 words longer than the tile: those 32 words then fall into 32 different banks, and rows
 * still start on 16 bytes.
 *
 * Three boundary conditions, each where the access is: a load of A needs row < m and k-index < k, a load of B k-index <
 * k and column < n, a store of D row < m and column < n. Beyond the last k the stage gets zeros, which add nothing to a
 * sum; beyond the last row or column it keeps what it held, which reaches only sums that are never stored.
 */
#include "commit.cu"
#include "gather.cu"
#include "sgemm_parts.cuh"

namespace {

/* Words by which a stage's row is longer than its tile. */
constexpr int kPad = TB_SGEMM_PAD;
/* Words along k that neighbouring lanes copy together, where memory runs along k. */
constexpr int kLanesK = 4;

template <int BM, int BN, int BK, int Stages, int TM, int TN, int Blocks> struct Geometry {
  static constexpr int block_m = BM, block_n = BN, block_k = BK, stages = Stages, thread_m = TM, thread_n = TN;
  static constexpr int threads_m = BM / TM, threads_n = BN / TN, threads = threads_m * threads_n;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900 /* shared memory holds half as many there, or fewer */
  static constexpr int blocks_per_sm = (Blocks + 1) / 2;
#else
  static constexpr int blocks_per_sm = Blocks;
#endif
  static constexpr int groups_m = TM / kVector, groups_n = TN / kVector;
  static constexpr int a_words = BK * (BM + kPad), b_words = BK * (BN + kPad);
  static constexpr int stage_words = a_words + b_words;
  static_assert(TM % kVector == 0 && TN % kVector == 0, "fragments are read as float4");
  static_assert(threads_m % 8 == 0 && threads_n % 4 == 0, "a warp is 8 x 4 threads");
  static_assert(TB_SGEMM_CHUNK_K % BK == 0, "a chunk ends where a step ends");
  static_assert(BK % kLanesK == 0, "a panel along k is copied by whole strips");
  static_assert(TB_SGEMM_SHARED_BYTES(BM, BN, BK, Stages) == 4 * (Stages * stage_words + BM * BN),
                "the host asks for what is used");
};

/* ---- load: one operand's panels, global memory -> shared memory ---- */

/*
 * The panels of one operand for one block: Side x BlockK words a step, in `passes` passes of all the block's threads.
 * Element (side, k) is operand[k + side * ld] with kAlongK, else operand[side + k * ld].
 * Inside: every side of the block exists, and the loop need not ask.
 */
template <int Side, int BlockK, int Threads, Run R, bool Inside> class Panels {
public:
  static constexpr int width = R == kAlongSideVectors ? kVector : 1;
  static constexpr int passes = Side * BlockK / (Threads * width);

private:
  static constexpr int row_words = Side + kPad;
  /* Along side, a pass covers `rows` rows of k; along k, it covers kLanesK words of `rows` sides, a strip. */
  static constexpr int rows = R == kAlongK ? Threads / kLanesK : Threads * width / Side;
  static constexpr int words = BlockK / kLanesK; /* of a side, by one thread */
  static_assert(rows > 0 && (R == kAlongK ? Side : BlockK) % rows == 0, "passes cover the panel, no more");

  const float *next; /* this thread's first copy of the next step */
  int64_t stride;    /* from one copy to the next: along side, `rows` of k; along k, `rows` sides */
  int offset, k;     /* of this thread's first word: in a stage; along k */
  int strips;        /* passes, along k: strips, with sides that exist */

public:
  /*
   * `first` is the block's first side, of `sides` in all; the first step starts at k_first. Sides that do not exist are
   * not copied, and what then stands in the stage only reaches sums that are not stored; so only k needs zeros.
   */
  __device__ __forceinline__ Panels(const float *operand, int64_t ld, int first, int64_t sides, int64_t k_first)
      : stride(rows * ld) {
    const int thread = static_cast<int>(threadIdx.x);
    const int side = R == kAlongK ? thread / kLanesK : thread * width % Side;
    k = R == kAlongK ? thread % kLanesK : thread * width / Side;
    offset = k * row_words + side;
    const int there = static_cast<int>(smaller(sides - first, Side)) - side;
    strips = R == kAlongK ? (there + rows - 1) / rows : there > 0 ? passes : 0;
    next = operand +
           (R == kAlongK ? static_cast<int64_t>(first + side) * ld + k_first + k : first + side + (k_first + k) * ld);
  }

  /* Starts this thread's copies of the next step into a stage. k_left: how many there are along k from its first on. */
  __device__ __forceinline__ void load(float *stage, int k_left) {
    const float *from = next;
#pragma unroll
    for (int p = 0; p < passes; p++) {
      if (R == kAlongK) {
        const int strip = p / words, at = p % words * kLanesK;
        if (Inside || strip < strips)
          async_copy<4>(stage + offset + at * row_words + strip * rows, from + at, k + at < k_left ? 4 : 0);
        if (at + kLanesK == BlockK) from += stride;
      } else {
        if (Inside || p < strips)
          async_copy<4 * width>(stage + offset + p * rows * row_words, from, k + p * rows < k_left ? 4 * width : 0);
        from += stride;
      }
    }
    next = R == kAlongK ? next + BlockK : from;
  }
};

/* ---- a block ---- */

/* The tile at (row, column). */
template <class G, Run RunA, Run RunB, bool Inside>
__device__ __forceinline__ void compute_tile(const tb_sgemm_args &args, int row, int column) {
  TB_DYNAMIC_SHARED(float, stages);
  constexpr int K = G::block_k;
  /* All of k, or with a split k this block's share of it. */
  const int64_t split_k = static_cast<int64_t>(args.units_per_split) * args.unit_k;
  const int64_t k_first = args.partials != nullptr ? blockIdx.y * split_k : 0;
  int chunk = static_cast<int>(k_first / TB_SGEMM_CHUNK_K);
  int k_todo = static_cast<int>(args.partials != nullptr ? smaller(args.k - k_first, split_k) : args.k);
  int k_left = k_todo; /* to be loaded */

  using PanelsA = Panels<G::block_m, K, G::threads, RunA, Inside>;
  using PanelsB = Panels<G::block_n, K, G::threads, RunB, Inside>;
  PanelsA a(args.a, args.lda, row, args.m, k_first);
  PanelsB b(args.b, args.ldb, column, args.n, k_first);
  Accumulators<G> accumulators;

  for (int stage = 0; stage < G::stages - 1; stage++) {
    float *write = stages + stage * G::stage_words;
    a.load(write, k_left);
    b.load(write + G::a_words, k_left);
    async_commit();
    k_left -= K;
  }
  async_wait<G::stages - 2>();
  __syncthreads();
  int read = 0, write = (G::stages - 1) * G::stage_words; /* stages, as offsets in words */
  const int thread = static_cast<int>(threadIdx.x);
  const float *const a_words = stages + Lanes<G>::row(thread), *const b_words =
                                                                   stages + G::a_words + Lanes<G>::column(thread);
  float fa[2][G::thread_m], fb[2][G::thread_n];
  read_fragment<G::groups_m, G::block_m>(fa[0], a_words);
  read_fragment<G::groups_n, G::block_n>(fb[0], b_words);

  float *const group_sums = stages + G::stages * G::stage_words;
  for (; k_todo > 0; k_todo -= TB_SGEMM_CHUNK_K, chunk++) {
    accumulators.clear();
    const int k_end = k_todo > TB_SGEMM_CHUNK_K ? TB_SGEMM_CHUNK_K : k_todo;
    for (int k_step = 0; k_step < k_end; k_step += K) {
#pragma unroll
      for (int k = 0; k < K; k++) {
        if (k == 0) { /* load: into the stage that was read in the last step; all of it, see above */
          a.load(stages + write, k_left);
          b.load(stages + write + G::a_words, k_left);
        }
        if (k ==
            K - 1) { /* advance: everybody has read this stage's last row, and the next stage's copies have landed */
          async_commit();
          k_left -= K;
          write = read;
          read = read + G::stage_words == G::stages * G::stage_words ? 0 : read + G::stage_words;
          async_wait<G::stages - 2>();
          __syncthreads();
        }
        read_fragment<G::groups_m, G::block_m>(fa[(k + 1) % 2], a_words + read + (k + 1) % K * (G::block_m + kPad));
        read_fragment<G::groups_n, G::block_n>(fb[(k + 1) % 2], b_words + read + (k + 1) % K * (G::block_n + kPad));
        accumulators.multiply(fa[k % 2], fb[k % 2]);
      }
    }
    finish_chunk(accumulators, group_sums, args, blockIdx.x, chunk, k_todo <= TB_SGEMM_CHUNK_K);
  }
}

template <class G, Run RunA, Run RunB> __device__ __forceinline__ void sgemm(const tb_sgemm_args &args) {
  let_next_start();
  int row, column;
  locate<G>(args, blockIdx.x, row, column);
  if (row + G::block_m <= args.m && column + G::block_n <= args.n)
    compute_tile<G, RunA, RunB, true>(args, row, column);
  else
    compute_tile<G, RunA, RunB, false>(args, row, column);
}

} // namespace

/* Stored column-major, A runs along its rows unless it is transposed, and B along k unless it is. */
#define TB_SGEMM_KERNEL(name, variant, run_a, run_b, ...)                                                            \
  extern "C" __global__ void __launch_bounds__(Geometry<__VA_ARGS__>::threads, Geometry<__VA_ARGS__>::blocks_per_sm) \
      tb_sgemm_##name##_##variant(const tb_sgemm_args args) {                                                        \
    sgemm<Geometry<__VA_ARGS__>, run_a, run_b>(args);                                                                \
  }
#define TB_SGEMM_TILE(name, bm, bn, bk, stages, rows, columns, blocks)                                       \
  TB_SGEMM_KERNEL(name, nn, kAlongSideVectors, kAlongK, bm, bn, bk, stages, rows, columns, blocks)           \
  TB_SGEMM_KERNEL(name, nt, kAlongSideVectors, kAlongSideVectors, bm, bn, bk, stages, rows, columns, blocks) \
  TB_SGEMM_KERNEL(name, tn, kAlongK, kAlongK, bm, bn, bk, stages, rows, columns, blocks)                     \
  TB_SGEMM_KERNEL(name, tt, kAlongK, kAlongSideVectors, bm, bn, bk, stages, rows, columns, blocks)           \
  TB_SGEMM_KERNEL(name, nn_any, kAlongSide, kAlongK, bm, bn, bk, stages, rows, columns, blocks)              \
  TB_SGEMM_KERNEL(name, nt_any, kAlongSide, kAlongSide, bm, bn, bk, stages, rows, columns, blocks)           \
  TB_SGEMM_KERNEL(name, tt_any, kAlongK, kAlongSide, bm, bn, bk, stages, rows, columns, blocks)
#define TB_SGEMM_WARP_SPECIALISED(...)
#include "registry.def"
#undef TB_SGEMM_WARP_SPECIALISED
