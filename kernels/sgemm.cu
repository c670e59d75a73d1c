/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single-precision products in plain fp32 FMA, for every GPU from compute capability 7.5 on.
 *
 *   D = alpha * ([D +] op(A) op(B))       see sgemm_args.h for the contract and the order of summation
 *
 * A block computes a tile of D, block_m x block_n, in steps of block_k along k, from a ring of stages in shared memory.
 * While one step is multiplied, the copies of the steps ahead are under way.
 *
 *   load      (before a step) a later step's panels: vectors from global memory to their stage, asynchronously;
 *             words to registers, or in small tiles, along k, to their stage as well. Zeros beyond the last k
 *   fragment  the next k's words of this thread, stage -> registers
 *   multiply  this k's outer product into the accumulators
 *   advance   (last k of a step) put the words that were loaded into their stage, wait for the next step's copies,
 *             one barrier, next stage
 *   store     (at a unit's end) accumulators -> sums in shared memory -> D or the partial sums
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
 * by those for any; panels that run along k always word by word, a warp taking a sector of 8 words along k of 4 sides.
 * A stage's rows are 4 words longer than the tile: those 32 words then fall into 32 different banks, and rows still
 * start on 16 bytes.
 *
 * Three boundary conditions, each where the access is: a load of A needs row < m and k-index < k, a load of B k-index <
 * k and column < n, a store of D row < m and column < n. Beyond the last k the stage gets zeros, which add nothing to a
 * sum; beyond the last row or column stand those of one that exists, which reach only sums that are never stored.
 */
#include "commit.cu"
#include "gather.cu"
#include "packed.cu"
#include "sgemm_parts.cuh"
#include "split_args.h"

namespace {

/* Words by which a stage's row is longer than its tile. */
constexpr int kPad = TB_SGEMM_PAD;
/* Words of a side, where memory runs along k, that neighbouring lanes load together: a sector of 32 bytes. */
constexpr int kSector = 8;

/* CopiesWords: words that run along k are copied asynchronously, not by way of registers. Small tiles gain by that. */
template <int BM, int BN, int BK, int Stages, int TM, int TN, int Blocks, bool CopiesWords = BM *BN <= 64 * 64>
struct Geometry {
  static constexpr int block_m = BM, block_n = BN, block_k = BK, stages = Stages, thread_m = TM, thread_n = TN;
  static constexpr int threads_m = BM / TM, threads_n = BN / TN, threads = threads_m * threads_n;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900 /* shared memory holds half as many there, or fewer */
  static constexpr int blocks_per_sm = (Blocks + 1) / 2;
#else
  static constexpr int blocks_per_sm = Blocks;
#endif
  static constexpr bool columns_inside = TM > TN, lanes_along_m = BM * BN >= 128 * 128;
  static constexpr bool copies_words = CopiesWords;
  static constexpr int groups_m = TM / kVector, groups_n = TN / kVector;
  static constexpr int warps_m = threads_m / 8, warp_m = 8 * kVector, warp_n = 4 * kVector;
  static constexpr int group_m = BM / groups_m, group_n = BN / groups_n;
  static constexpr int a_apart = group_m, b_apart = group_n; /* words of a stage, from one group to the next */
  static constexpr int a_words = BK * (BM + kPad), b_words = BK * (BN + kPad);
  static constexpr int stage_words = a_words + b_words;
  static_assert(TM % kVector == 0 && TN % kVector == 0, "fragments are read as float4");
  static_assert(threads_m % 8 == 0 && threads_n % 4 == 0, "a warp is 8 x 4 threads");
  static_assert(TB_SGEMM_CHUNK_K % BK == 0, "a chunk ends where a step ends");
  static_assert(TB_SGEMM_SHARED_BYTES(BM, BN, BK, Stages) == 4 * (Stages * stage_words + BM * BN),
                "the host asks for what is used");
};

/* ---- load: one operand's panels, global memory -> shared memory ---- */

/*
 * The panels of one operand for one block: Side x BlockK words a step, in `passes` loads of each of the block's
 * threads. Element (side, k) is operand[k + side * ld] with kAlongK, else operand[side + k * ld]. Which words a thread
 * has:
 *
 *   kAlongSideVectors   four sides of a row; neighbouring lanes along side; `rows` of k from one pass to the next
 *   kAlongSide          one side, likewise
 *   kAlongK             one word of k, eight lanes a sector of 32 bytes; `strip` sides to the next pass, after the
 * sectors
 *
 * Vectors along side are copied asynchronously, and words along k where CopiesWords says so, although copies that go to
 * different rows are taken apart. The others go through registers, word by word into their stage without bank
 * conflicts.
 */
template <int Side, int BlockK, int Threads, Run R, bool CopiesWords> class Panels {
public:
  static constexpr bool by_registers = R == kAlongSide || (R == kAlongK && !CopiesWords);
  static constexpr int words = Side * BlockK / Threads; /* a thread's */

private:
  static constexpr int row_words = Side + kPad, sectors = BlockK / kSector;
  static constexpr int rows = Threads * (R == kAlongSideVectors ? kVector : 1) / Side;
  static constexpr int strip = Threads / kSector; /* sides */
  static_assert(R == kAlongK ? Side % strip == 0 && BlockK % kSector == 0 : rows > 0 && BlockK % rows == 0,
                "passes cover the panel, no more");
  static_assert(row_words % 8 == 4, "lanes of four rows of k and eight, and as many words, find 32 banks");

  const char *next; /* this thread's first word of the next step */
  int64_t apart;    /* bytes of memory: along side, to the next pass; along k, to the next strip */
  int offset, k;    /* of this thread's first word: in a stage; along k */
  int strips;       /* along k: strips with sides that exist; later ones are loaded like the last of these */
  float word[by_registers ? words : 1];

public:
  /* `first` is the block's first side, of `sides` in all; the first step starts at k_first. Sides that do not exist are
   * loaded from one that does, which only reaches sums that are not stored; so only k needs zeros. */
  __device__ __forceinline__ Panels(const float *operand, int64_t ld, int first, int64_t sides, int64_t k_first,
                                    int thread) {
    const int last = static_cast<int>(smaller(sides - first, Side)) - 1;
    int side;
    if (R == kAlongK) {
      side = thread / kSector;
      k = thread % kSector;
      strips = side > last ? 1 : (last - side) / strip + 1;
      apart = strip * ld * 4;
      next = bytes(operand + (first + min(side, last)) * ld + k_first + k);
    } else {
      constexpr int width = R == kAlongSideVectors ? kVector : 1;
      side = thread * width % Side;
      k = thread * width / Side;
      apart = rows * ld * 4;
      next = bytes(operand + first + min(side, last / width * width) + (k_first + k) * ld);
    }
    offset = k * row_words + side;
  }

  /* Starts to load the next step. Whole: it has all its k; else k_left of them, or none. */
  template <bool Whole> __device__ __forceinline__ void load(float *stage, int k_left) {
    const char *from = next;
    if (R == kAlongSideVectors) {
#pragma unroll
      for (int i = 0; i < words / kVector; i++, from += apart) {
        if (Whole)
          async_copy<16>(stage + offset + i * rows * row_words, from);
        else
          async_copy<16>(stage + offset + i * rows * row_words, from, k + i * rows < k_left ? 16 : 0);
      }
      next = from;
    } else if (R == kAlongSide) {
#pragma unroll
      for (int i = 0; i < words; i++, from += apart)
        word[i] = Whole ? load_word(words_at(from)) : load_word_if(words_at(from), k + i * rows < k_left);
      next = from;
    } else {
#pragma unroll
      for (int i = 0; i < words; i++) {
        const int sector = i % sectors;
        const float *const word_from = words_at(from) + sector * kSector;
        const bool there = Whole || k + sector * kSector < k_left;
        if (by_registers)
          word[i] = Whole ? load_word(word_from) : load_word_if(word_from, there);
        else if (Whole)
          async_copy<4>(stage + place(i), word_from);
        else
          async_copy<4>(stage + place(i), word_from, there ? 4 : 0);
        if (sector == sectors - 1 && i / sectors + 1 < strips) from += apart;
      }
      next += BlockK * 4;
    }
  }

  /* The words that went into registers, into the step's stage. */
  __device__ __forceinline__ void put(float *stage) const {
    float *const to = stage + offset;
    if (R == kAlongSide) {
#pragma unroll
      for (int i = 0; i < words; i++) to[i * rows * row_words] = word[i];
    } else if (R == kAlongK && by_registers) {
#pragma unroll
      for (int i = 0; i < words; i++) stage[place(i)] = word[i];
    }
  }

private:
  /* Where a stage has a thread's words that run along k. */
  __device__ __forceinline__ int place(int i) const {
    return offset + i % sectors * kSector * row_words + i / sectors * strip;
  }
  static __device__ __forceinline__ const char *bytes(const float *p) { return reinterpret_cast<const char *>(p); }
  static __device__ __forceinline__ const float *words_at(const char *p) { return reinterpret_cast<const float *>(p); }
};

/* ---- a block ---- */

/* `tile`: its number, as locate() counts. */
template <class G, Run RunA, Run RunB> __device__ __forceinline__ void sgemm(const tb_sgemm_args &args, unsigned tile) {
  TB_DYNAMIC_SHARED(float, stages);
  constexpr int K = G::block_k;
  let_next_start();
  int row, column;
  locate<G>(args, tile, row, column);
  const Share share(args);
  const int thread = static_cast<int>(threadIdx.x);
  int chunk = static_cast<int>(share.first / TB_SGEMM_CHUNK_K), unit_first = chunk;
  int k_todo = share.count, k_left = k_todo; /* to be multiplied, to be loaded */

  /* Whole steps have code of their own, without questions; but not where two lists of addresses would cost registers
   * that there are none to spare of. */
  constexpr bool predicated =
      RunA == kAlongSideVectors && RunB == kAlongSideVectors && G::threads * G::blocks_per_sm * 128 >= 65536;
  Panels<G::block_m, K, G::threads, RunA, G::copies_words> a(args.a, args.lda, row, args.m, share.first, thread);
  Panels<G::block_n, K, G::threads, RunB, G::copies_words> b(args.b, args.ldb, column, args.n, share.first, thread);
  auto load = [&](float *stage) {
    if (!predicated && k_left >= K) {
      a.template load<true>(stage, k_left);
      b.template load<true>(stage + G::a_words, k_left);
    } else {
      a.template load<false>(stage, k_left);
      b.template load<false>(stage + G::a_words, k_left);
    }
    k_left -= K;
  };
  auto put = [&](float *stage) {
    a.put(stage);
    b.put(stage + G::a_words);
    async_commit();
  };

  for (int stage = 0; stage < G::stages - 1; stage++) {
    load(stages + stage * G::stage_words);
    put(stages + stage * G::stage_words);
  }
  async_wait<G::stages - 2>();
  __syncthreads();
  int read = 0, write = (G::stages - 1) * G::stage_words; /* stages, as offsets in words */
  const float *const a_words = stages + Lanes<G>::row(thread), *const b_words =
                                                                   stages + G::a_words + Lanes<G>::column(thread);
  float fa[2][G::thread_m], fb[2][G::thread_n];
  Accumulators<G> accumulators;
  read_fragment<G>(fa[0], fb[0], a_words, b_words);

  float *const sums = stages + G::stages * G::stage_words;
  for (; k_todo > 0; k_todo -= TB_SGEMM_CHUNK_K, chunk++) {
    accumulators.clear();
    const int k_end = k_todo > TB_SGEMM_CHUNK_K ? TB_SGEMM_CHUNK_K : k_todo;
    for (int k_step = 0; k_step < k_end; k_step += K) {
      load(stages + write); /* for the stage that was read in the last step */
#pragma unroll
      for (int k = 0; k < K; k++) {
        if (k ==
            K - 1) { /* advance: everybody has read this stage's last row, and the next stage's copies have landed */
          put(stages + write);
          write = read;
          read = read + G::stage_words == G::stages * G::stage_words ? 0 : read + G::stage_words;
          async_wait<G::stages - 2>();
          __syncthreads();
        }
        read_fragment<G>(fa[(k + 1) % 2], fb[(k + 1) % 2], a_words + read + (k + 1) % K * (G::block_m + kPad),
                         b_words + read + (k + 1) % K * (G::block_n + kPad));
        accumulators.multiply(fa[k % 2], fb[k % 2]);
      }
    }
    if (chunk > unit_first) accumulators.add(sums, thread);
    const bool at_end = k_todo <= TB_SGEMM_CHUNK_K;
    if (at_end || chunk + 1 - unit_first == unit_chunks(args)) {
      const Target target = target_of(args, opaque(row), opaque(column), unit_first, at_end);
      store(accumulators, sums, target, opaque(thread));
      unit_first = chunk + 1;
    } else {
      accumulators.keep(sums, thread);
    }
  }
}

/* Of a product on the tensor cores a tile that is marked, in parts. */
template <class G, Run RunA, Run RunB>
__device__ __forceinline__ void again(const tb_sgemm_args &args, const tb_split_again &which) {
  constexpr int rows = TB_SPLIT_TILE_M, columns = TB_SPLIT_TILE_N;
  static_assert(rows % G::block_m == 0 && columns % G::block_n == 0 && G::threads == TB_SPLIT_AGAIN_THREADS, "parts");
  wait_for_earlier_kernels();
  bool left = false;
  for (int i = static_cast<int>(threadIdx.x); i < which.left_words; i += G::threads) left = left || which.left[i] != 0;
  if (!__syncthreads_or(left) || which.marks[blockIdx.x] == 0) return;
  const int64_t down = (args.m + rows - 1) / rows;
  const int64_t row = blockIdx.x % down * rows, column = blockIdx.x / down * columns;
  tb_sgemm_args part = args;
  part.group_k = TB_SGEMM_GROUP_K;
  part.a += RunA == kAlongK ? row * args.lda : row;
  part.b += RunB == kAlongK ? column * args.ldb : column;
  part.d += row + column * args.ldd;
  part.m = smaller(args.m - row, rows), part.n = smaller(args.n - column, columns);
  const int tiles = static_cast<int>((part.m + G::block_m - 1) / G::block_m * ((part.n + G::block_n - 1) / G::block_n));
  for (int tile = 0; tile < tiles; tile++) {
    sgemm<G, RunA, RunB>(part, static_cast<unsigned>(tile));
    __syncthreads(); /* before the next one's words come to the stages */
  }
}

} // namespace

/* Stored column-major, A runs along its rows unless it is transposed, and B along k unless it is. */
#define TB_SGEMM_KERNEL(name, variant, run_a, run_b, ...)                                                            \
  extern "C" __global__ void __launch_bounds__(Geometry<__VA_ARGS__>::threads, Geometry<__VA_ARGS__>::blocks_per_sm) \
      tb_sgemm_##name##_##variant(const tb_sgemm_args args) {                                                        \
    sgemm<Geometry<__VA_ARGS__>, run_a, run_b>(args, blockIdx.x);                                                    \
  }
#define TB_SGEMM_TILE(name, bm, bn, bk, stages, rows, columns, blocks)                                       \
  TB_SGEMM_KERNEL(name, nn, kAlongSideVectors, kAlongK, bm, bn, bk, stages, rows, columns, blocks)           \
  TB_SGEMM_KERNEL(name, nt, kAlongSideVectors, kAlongSideVectors, bm, bn, bk, stages, rows, columns, blocks) \
  TB_SGEMM_KERNEL(name, tn, kAlongK, kAlongK, bm, bn, bk, stages, rows, columns, blocks)                     \
  TB_SGEMM_KERNEL(name, tt, kAlongK, kAlongSideVectors, bm, bn, bk, stages, rows, columns, blocks)           \
  TB_SGEMM_KERNEL(name, nn_any, kAlongSide, kAlongK, bm, bn, bk, stages, rows, columns, blocks)              \
  TB_SGEMM_KERNEL(name, nt_any, kAlongSide, kAlongSide, bm, bn, bk, stages, rows, columns, blocks)           \
  TB_SGEMM_KERNEL(name, tt_any, kAlongK, kAlongSide, bm, bn, bk, stages, rows, columns, blocks)
#define TB_SGEMM_PACKED_TILE(name, ...) /* packed.cu */
#include "registry.def"

/* Behind a product on the tensor cores: its tiles that are marked, from the operands themselves. */
#define TB_SGEMM_AGAIN_GEOMETRY \
  Geometry<TB_SPLIT_AGAIN_TILE, TB_SPLIT_AGAIN_TILE, TB_SPLIT_AGAIN_DEPTH, TB_SPLIT_AGAIN_STAGES, 8, 4, 4, false>
#if defined(TB_BULK_COPIES)
#define TB_SGEMM_AGAIN_BODY(run_a, run_b) again<TB_SGEMM_AGAIN_GEOMETRY, run_a, run_b>(args, which)
#else /* the host does not launch them */
#define TB_SGEMM_AGAIN_BODY(run_a, run_b)
#endif
#define TB_SGEMM_AGAIN(variant, run_a, run_b)                                          \
  extern "C" __global__ void __launch_bounds__(TB_SPLIT_AGAIN_THREADS, 4)              \
      tb_sgemm_again_##variant(const tb_sgemm_args args, const tb_split_again which) { \
    TB_SGEMM_AGAIN_BODY(run_a, run_b);                                                 \
  }
TB_SGEMM_AGAIN(nn, kAlongSide, kAlongK)
TB_SGEMM_AGAIN(nt, kAlongSide, kAlongSide)
TB_SGEMM_AGAIN(tn, kAlongK, kAlongK)
TB_SGEMM_AGAIN(tt, kAlongK, kAlongSide)
