/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single-precision products in plain fp32 FMA, for every GPU from compute capability 7.5 on.
 *
 *   D = alpha * ([D +] op(A) op(B))       see sgemm_args.h for the contract and the order of summation
 *
 * A block computes a tile of D, block_m x block_n, in steps of block_k along k, from a ring of stages in shared memory.
 * While one step is multiplied, the copies of the steps ahead are under way.
 *
 *   load      (A's as a step begins, B's half-way) a later step's panels, from global memory to their stage,
 *             asynchronously; zeros beyond the last k
 *   fragment  the next k's words of this thread, stage -> registers
 *   multiply  this k's outer product into the accumulators
 *   advance   (last k of a step) wait for the next step's copies, one barrier, next stage
 *   store     (at a unit's end) accumulators -> sums in shared memory -> D or the partial sums; of a split k whose
 * parts are a cluster, the sums of all its blocks -> D
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
 * either along side or along k. Panels that run along side are copied 16 bytes at a time by the kernels for aligned
 * operands, word by word by those for any; panels that run along k always word by word. In a stage four sides of a k
 * are a float4, whichever way they came, and one multiply serves all four products; how far it is to the next k and to
 * the next four sides, Panels says.
 *
 * Three boundary conditions, each where the access is: a load of A needs row < m and k-index < k, a load of B k-index <
 * k and column < n, a store of D row < m and column < n. Beyond the last k the stage gets zeros, which add nothing to a
 * sum; what stands beyond the last row or column reaches only sums that are never stored.
 */
#ifndef TB_SGEMM_BLOCK_CUH
#define TB_SGEMM_BLOCK_CUH

#include "fma/store.cuh"

namespace {

/* Words by which a stage's row is longer than its tile. */
constexpr int kPad = TB_SGEMM_PAD;
/* Words of a side, where memory runs along k, that neighbouring lanes load together: a sector of 32 bytes. */
constexpr int kSector = 8;

template <int BM, int BN, int BK, int Stages, int TM, int TN, int Blocks> struct Geometry {
  static constexpr int block_m = BM, block_n = BN, block_k = BK, stages = Stages, thread_m = TM, thread_n = TN;
  static constexpr int threads_m = BM / TM, threads_n = BN / TN, threads = threads_m * threads_n;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900 /* shared memory holds half as many there, or fewer */
  static constexpr int blocks_per_sm = (Blocks + 1) / 2;
#else
  static constexpr int blocks_per_sm = Blocks;
#endif
  static constexpr bool columns_inside = TM > TN, lanes_along_m = BM * BN >= 128 * 128;
  static constexpr int groups_m = TM / kVector, groups_n = TN / kVector;
  static constexpr int warps_m = threads_m / 8, warp_m = 8 * kVector, warp_n = 4 * kVector;
  static constexpr int group_m = BM / groups_m, group_n = BN / groups_n;
  static_assert(TM % kVector == 0 && TN % kVector == 0, "fragments are read as float4");
  static_assert(threads_m % 8 == 0 && threads_n % 4 == 0, "a warp is 8 x 4 threads");
  static_assert(TB_SGEMM_CHUNK_K % BK == 0 && TB_SGEMM_GROUP_STEP_K % BK == 0, "a chunk ends where a step ends");
};

/* ---- load: one operand's panels, global memory -> shared memory ---- */

/*
 * The panels of one operand for one block: Side x BlockK words a step, copied asynchronously, past the registers.
 * Element (side, k) is operand[k + side * ld] with kAlongK, else operand[side + k * ld]. What a thread copies of it,
 * and how a stage holds it:
 *
 *   kAlongSideVectors   four sides of a row of k; neighbouring lanes along side     rows of k, kPad words longer
 *   kAlongSide          a side, and those 32, 64 and 96 behind it, of a row that    the same
 *                       is its warp's
 *   kAlongK             a word of k; eight lanes a sector of 32 bytes, of four      four sides by all k of the step,
 *                       sides; then the next sector, and the next strip of sides    kPad words longer
 *
 * A copy takes a turn for each line of shared memory that a warp's words go to: 32 words along k lie side by side. The
 * padding has the float4s of neighbouring sides in different banks, in either layout. A row or a strip costs one
 * address, and its other copies a constant: with an address for each, copies of words took a fifth longer.
 *
 * Which of a step's copies have something to copy is a bit for each, worked out ahead of the steps, and once more for
 * the last one. So every step loads in the same way, and its copies can stand between its FMAs.
 */
template <int Side, int BlockK, int Threads, Run R> class Panels {
  static constexpr bool along_k = R == kAlongK, vectors = R == kAlongSideVectors;
  static constexpr int row_words = along_k ? kVector : Side + kPad;              /* from k to k */
  static constexpr int quad_words = along_k ? BlockK * kVector + kPad : kVector; /* from four sides to the next */
  static constexpr int strip = Threads / kSector;                                /* of sides, along k */
  static constexpr int rows = vectors ? Threads * kVector / Side : Threads / 32; /* along side: at a time */
  static constexpr int together = along_k ? BlockK / kSector : vectors ? 1 : Side / 32; /* copies from one address */
  static constexpr int copies = along_k ? Side / strip * together : BlockK / rows * together;
  static constexpr int bytes = vectors ? 16 : 4; /* of a copy */
  static_assert(!along_k || (Side % strip == 0 && strip % kVector == 0 && BlockK % kSector == 0), "whole strips");
  static_assert(along_k || (rows > 0 && BlockK % rows == 0 && Side % 32 == 0), "whole rows");
  static_assert(copies < 32, "a bit for each");
  static_assert((along_k ? quad_words : row_words) % 8 == 4, "neighbouring float4s are in different banks");

  const char *next; /* this thread's first word of the next step */
  int64_t apart;    /* bytes of memory to the next row or strip */
  int offset;       /* in a stage, of this thread's first word */
  unsigned there;   /* bit c: copy c of the next step has a word, or vector, to copy */

public:
  static constexpr int words = along_k ? Side / kVector * quad_words : BlockK * row_words; /* of a stage */

  /* `first` is the block's first side, of `sides` in all; the first step starts at k_first. */
  __device__ __forceinline__ Panels(const float *operand, int64_t ld, int first, int64_t sides, int64_t k_first,
                                    int thread) {
    const int side = side_of(thread), k = k_of(thread);
    offset = at_side(side) + side % kVector + at_k(k);
    apart = (along_k ? strip : rows) * ld * 4;
    int from = first + side;
    /* Vectors of sides that do not exist are copied from some that do, which only reaches sums that are not stored. */
    if (vectors) from = first + min(side, static_cast<int>(smaller(sides - first, Side) - 1) / kVector * kVector);
    next = reinterpret_cast<const char *>(along_k ? operand + from * ld + k_first + k
                                                  : operand + from + (k_first + k) * ld);
    there = 0;
#pragma unroll
    for (int c = 0; c < copies; c++)
      if (vectors || first + side + side_behind(c) < sides) there |= 1u << c;
  }

  /* Where a stage has the float4 of four sides, from a multiple of four on, and how far behind it that of a later k is.
   */
  static __device__ __forceinline__ constexpr int at_side(int side) { return side / kVector * quad_words; }
  static __device__ __forceinline__ constexpr int at_k(int later) { return later * row_words; }

  /* Of the next step only k_left products are left, and of those behind it none: the others become zeros. */
  __device__ __forceinline__ void end(int thread, int k_left) {
    const int left = k_left - k_of(thread);
    if (along_k) {
      constexpr unsigned every = ((1u << copies) - 1) / ((1u << together) - 1); /* bit 0 of each strip's */
#pragma unroll
      for (int s = 0; s < together; s++)
        if (s * kSector >= left) there &= ~(every << s);
    } else {
      const int rows_left = (max(left, 0) + rows - 1) / rows;
      there &= (1u << rows_left * together) - 1;
    }
  }

  /* Starts to copy the next step. */
  __device__ __forceinline__ void load(float *stage) {
    const char *from = next;
#pragma unroll
    for (int c = 0; c < copies; c++) {
      if (c > 0 && c % together == 0) from += apart;
      const int at = along_k ? at_side(side_behind(c)) + at_k(k_behind(c)) : at_k(k_behind(c)) + side_behind(c);
      async_copy_if<bytes>(stage + offset + at, from + 4 * (along_k ? k_behind(c) : side_behind(c)), there, 1u << c);
    }
    next = along_k ? next + BlockK * 4 : from + apart;
  }

private:
  /* A thread's first word. */
  static __device__ __forceinline__ int side_of(int thread) {
    return along_k ? thread / kSector : vectors ? thread * kVector % Side : thread % 32;
  }
  static __device__ __forceinline__ int k_of(int thread) {
    return along_k ? thread % kSector : vectors ? thread * kVector / Side : thread / 32;
  }
  /* How far behind its first word a thread's copy c is: in k, and in sides. */
  static __device__ __forceinline__ constexpr int k_behind(int c) {
    return along_k ? c % together * kSector : c / together * rows;
  }
  static __device__ __forceinline__ constexpr int side_behind(int c) {
    return along_k ? c / together * strip : vectors ? 0 : c % together * 32;
  }
};

/* ---- a block ---- */

template <class G, Run RunA, Run RunB> __device__ __forceinline__ void sgemm(const tb_sgemm_args &args, Job job) {
  TB_DYNAMIC_SHARED(float, stages);
  constexpr int K = G::block_k;
  let_next_start();
  int row, column;
  locate<G>(args, job.tile, row, column);
  const Share share(args, job.part);
  const int thread = static_cast<int>(threadIdx.x);
  int k_todo = share.count, k_left = k_todo; /* to be multiplied, to be loaded */

  using PanelsA = Panels<G::block_m, K, G::threads, RunA>;
  using PanelsB = Panels<G::block_n, K, G::threads, RunB>;
  constexpr int stage_words = PanelsA::words + PanelsB::words;
  static_assert(4 * (G::stages * stage_words + G::block_m * G::block_n) <=
                    TB_SGEMM_SHARED_BYTES(G::block_m, G::block_n, K, G::stages),
                "the host asks for what is used");
  PanelsA a(args.a, args.lda, row, args.m, share.first, thread);
  PanelsB b(args.b, args.ldb, column, args.n, share.first, thread);
  auto end_panels = [&] {
    if (k_left < K) a.end(opaque(thread), k_left), b.end(opaque(thread), k_left);
  };
  /* The question whether it was the last whole one stands behind its copies, which FMAs can then stand between. */
  auto step_is_asked_for = [&] {
    k_left -= K;
    end_panels();
  };

  end_panels();
  for (int stage = 0; stage < G::stages - 1; stage++) {
    a.load(stages + stage * stage_words);
    b.load(stages + stage * stage_words + PanelsA::words);
    step_is_asked_for();
    async_commit();
  }
  async_wait<G::stages - 2>();
  __syncthreads();
  int read = 0, write = (G::stages - 1) * stage_words; /* stages, as offsets in words */
  const float *const a_words = stages + PanelsA::at_side(Lanes<G>::row(thread));
  const float *const b_words = stages + PanelsA::words + PanelsB::at_side(Lanes<G>::column(thread));
  constexpr int a_apart = PanelsA::at_side(G::group_m), b_apart = PanelsB::at_side(G::group_n);
  float fa[2][G::thread_m], fb[2][G::thread_n];
  Accumulators<G> accumulators;
  read_fragment<G, a_apart, b_apart>(fa[0], fb[0], a_words, b_words);

  float *const sums = stages + G::stages * stage_words;
  Unit unit(args, share);
  while (k_todo > 0) {
    accumulators.clear();
    const int k_end = unit.chunk_k(k_todo);
    for (int k_step = 0; k_step < k_end; k_step += K) {
#pragma unroll
      for (int k = 0; k < K; k++) {
        if (k ==
            K - 1) { /* advance: everybody has read this stage's last row, and the next stage's copies have landed */
          async_commit();
          write = read;
          read = read + stage_words == G::stages * stage_words ? 0 : read + stage_words;
          async_wait<G::stages - 2>();
          __syncthreads();
        }
        read_fragment<G, a_apart, b_apart>(fa[(k + 1) % 2], fb[(k + 1) % 2],
                                           a_words + read + PanelsA::at_k((k + 1) % K),
                                           b_words + read + PanelsB::at_k((k + 1) % K));
        /* To the stage that was read in the last step. In two parts: fragments queue behind copies. */
        if (k == 0) a.load(stages + write);
        if (k == K / 2) b.load(stages + write + PanelsA::words), step_is_asked_for();
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
}

} // namespace

#endif
