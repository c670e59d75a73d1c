/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Warp-specialised single-precision products in plain fp32 FMA, for compute capability 9.0.
 *
 *   D = alpha * ([D +] op(A) op(B))       see sgemm_args.h for the contract and the order of summation
 *
 * An FMA takes an issue slot, and so does everything else. Here the threads that multiply do nothing else: the first
 * warp groups of a block read fragments and multiply, one warp group more copies the panels for them, through a ring of
 * stages in shared memory with two barriers each.
 *
 *      copying threads                              multiplying threads
 *        wait   until the stage is empty              wait      until the stage is full
 *        load   panels of A and B -> stage            fragment  the next k's words, stage -> registers
 *        (full  when the copies have landed)          multiply  this k's outer product
 *        next stage                                   (empty    when its last row has been read)
 *                                                     next stage
 *
 * Copying threads need few registers and give the rest away, so that the others can keep 8 x 16 accumulators each: 6
 * float4s for 128 FMAs. A block computes one tile after another, as many blocks as the device holds at once; its copies
 * of the next tile are under way while the last one is stored.
 *
 * Stages are as in sgemm.cu, stage[k][side], and only the copying threads know how the operands lie: one kernel serves
 * all transposes and alignments. Sides beyond the edge are copied from the last one that exists, which reaches only
 * sums that are never stored; beyond the last k the stage gets zeros.
 */
#include "sgemm_parts.cuh"

namespace {

constexpr int kCopyThreads = TB_SGEMM_WS_COPY_THREADS; /* a warp group */
constexpr int kWsPad = TB_SGEMM_WS_PAD;
/* Where memory runs along k, neighbouring lanes copy this many words along k, a sector of 32 bytes. */
constexpr int kSector = 8;
/* Registers a thread. 128 threads of each kind, twice on an SM, make 65536. The multiplying threads have 128
 * accumulators and 2 x 24 words of fragments. */
constexpr int kCopyRegisters = 64, kMultiplyRegisters = 192;

template <int BM, int BN, int BK, int Stages> struct WsGeometry {
  static constexpr int block_m = BM, block_n = BN, block_k = BK, stages = Stages, thread_m = 8, thread_n = 16;
  static constexpr int threads_m = BM / thread_m, threads_n = BN / thread_n, threads = threads_m * threads_n;
  static constexpr int groups_m = thread_m / kVector, groups_n = thread_n / kVector;
  static constexpr int blocks_per_sm = 65536 / (threads * kMultiplyRegisters + kCopyThreads * kCopyRegisters);
  static constexpr int a_row = BM + kWsPad, b_row = BN + kWsPad, a_words = BK * a_row, b_words = BK * b_row;
  static constexpr int stage_words = a_words + b_words + 4; /* two barriers at the end */
  static_assert(threads + kCopyThreads == TB_SGEMM_WS_THREADS(BM, BN), "the host launches as many");
  static_assert(threads % 128 == 0, "registers are taken by whole warp groups");
  static_assert(TB_SGEMM_CHUNK_K % BK == 0, "a chunk ends where a step ends");
  static_assert(TB_SGEMM_WS_SHARED_BYTES(BM, BN, BK, Stages) == 4 * (Stages * stage_words + BM * BN),
                "the host asks for what is used");
};

/* A place in the ring, and the parity of the phase that is waited for there. */
template <class G> struct Stage {
  float *words;
  unsigned parity;
  __device__ __forceinline__ void next(float *first) {
    words += G::stage_words;
    if (words == first + G::stages * G::stage_words) {
      words = first;
      parity ^= 1;
    }
  }
  __device__ __forceinline__ uint64_t *full() const { return barrier(0); }
  __device__ __forceinline__ uint64_t *empty() const { return barrier(1); }
  __device__ __forceinline__ uint64_t *barrier(int which) const {
    return reinterpret_cast<uint64_t *>(words + G::a_words + G::b_words) + which;
  }
};

/* ---- load: one operand's panels, as one copying thread sees them ---- */

/*
 * Side x BlockK words a step. Element (side, k) is operand[k + side * ld] with kAlongK, else operand[side + k * ld].
 * The stage's word of copy number i is `offset` + i * (what the loops of copy() say).
 */
template <int Side, int BlockK> struct Feed {
  static constexpr int row_words = Side + kWsPad;
  static constexpr int vector_rows = kCopyThreads * kVector / Side; /* rows of k that a copy of all threads covers */
  static constexpr int strip = kCopyThreads / kSector;              /* sides that it covers where memory runs along k */
  static constexpr int strips = Side / strip;
  static_assert(Side == kCopyThreads && BlockK == kSector && BlockK % vector_rows == 0, "copies cover the panels");

  const float *from[strips]; /* with kAlongK, of each strip; else only the first */
  int64_t step;              /* words between copies along k */
  int offset, k;             /* this thread's first word in the stage, and its k */
  Run run;

  __device__ __forceinline__ Feed(const float *operand, int64_t ld, Run r, int first, int64_t sides, int64_t k_first,
                                  int thread)
      : run(r) {
    const int last = static_cast<int>(sides) - 1;
    int side;
    if (run == kAlongK) {
      side = thread / kSector;
      k = thread % kSector;
#pragma unroll
      for (int s = 0; s < strips; s++) from[s] = operand + smaller(first + side + s * strip, last) * ld + k_first + k;
      step = BlockK;
    } else {
      const int width = run == kAlongSideVectors ? kVector : 1;
      side = thread * width % Side;
      k = thread * width / Side;
      from[0] = operand + smaller(first + side, last / width * width) + (k_first + k) * ld;
      step = (run == kAlongSideVectors ? vector_rows : 1) * ld;
    }
    offset = k * row_words + side;
  }

  /* Starts this thread's copies of the next step into a panel. Whole: the step has all its k; else k_left of them. */
  template <bool Whole> __device__ __forceinline__ void copy(float *panel, int k_left) {
    float *const to = panel + offset;
    if (run == kAlongK) {
#pragma unroll
      for (int s = 0; s < strips; s++) {
        copy_one<4, Whole>(to + s * strip, from[s], k < k_left);
        from[s] += step;
      }
    } else if (run == kAlongSideVectors) {
#pragma unroll
      for (int row = 0; row < BlockK; row += vector_rows) {
        copy_one<16, Whole>(to + row * row_words, from[0], k + row < k_left);
        from[0] += step;
      }
    } else {
#pragma unroll
      for (int row = 0; row < BlockK; row++) {
        copy_one<4, Whole>(to + row * row_words, from[0], row < k_left);
        from[0] += step;
      }
    }
  }

private:
  template <int Bytes, bool Whole>
  static __device__ __forceinline__ void copy_one(float *to, const float *p, bool there) {
    if (Whole)
      async_copy<Bytes>(to, p);
    else
      async_copy<Bytes>(to, p, there ? Bytes : 0);
  }
};

/* How an operand's memory runs, and whether it may be copied 16 bytes at a time. */
__device__ __forceinline__ Run run_of(const float *operand, int64_t ld, bool along_k, int64_t sides, bool padded) {
  if (along_k) return kAlongK;
  return takes_vectors(operand, ld) && (padded || sides % kVector == 0) ? kAlongSideVectors : kAlongSide;
}

/* ---- the two kinds of threads ---- */

/* This block's part of k, all of it unless k is split. */
struct Share {
  int64_t first;
  int count;
  __device__ __forceinline__ explicit Share(const tb_sgemm_args &args) {
    const int64_t split_k = static_cast<int64_t>(args.units_per_split) * args.unit_k;
    const bool split = args.partials != nullptr;
    first = split ? blockIdx.y * split_k : 0;
    count = static_cast<int>(split ? smaller(args.k - first, split_k) : args.k);
  }
};

template <class G>
__device__ __forceinline__ void copy_panels(const tb_sgemm_args &args, float *stages, unsigned tiles, int thread) {
  const Share share(args);
  /* Stored column-major, A runs along its rows unless it is transposed, and B along k unless it is. */
  const Run run_a = run_of(args.a, args.lda, args.transpose_a, args.m, args.padded);
  const Run run_b = run_of(args.b, args.ldb, !args.transpose_b, args.n, args.padded);
  Stage<G> stage = {stages, 1}; /* nobody has to empty the stages of the first round */
  for (unsigned tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    int row, column;
    locate<G>(args, tile, row, column);
    Feed<G::block_m, G::block_k> a(args.a, args.lda, run_a, row, args.m, share.first, thread);
    Feed<G::block_n, G::block_k> b(args.b, args.ldb, run_b, column, args.n, share.first, thread);
#pragma unroll 1
    for (int k_left = share.count; k_left > 0; k_left -= G::block_k) {
      barrier_wait_long(stage.empty(), stage.parity);
      if (k_left >= G::block_k) {
        a.template copy<true>(stage.words, k_left);
        b.template copy<true>(stage.words + G::a_words, k_left);
      } else {
        a.template copy<false>(stage.words, k_left);
        b.template copy<false>(stage.words + G::a_words, k_left);
      }
      barrier_arrive_behind_copies(stage.full());
      stage.next(stages);
    }
  }
  barrier_wait_long(stage.empty(), stage.parity);
  barrier_arrive(stage.full()); /* with nothing in it: the others look one step ahead */
}

template <class G>
__device__ __forceinline__ void multiply_tiles(const tb_sgemm_args &args, float *stages, unsigned tiles, int thread) {
  constexpr int K = G::block_k;
  const Share share(args);
  float *const group_sums = stages + G::stages * G::stage_words;
  const int a_word = Lanes<G>::row(thread), b_word = G::a_words + Lanes<G>::column(thread);
  float fa[2][G::thread_m], fb[2][G::thread_n];
  Accumulators<G> accumulators;
  Stage<G> stage = {stages, 0};
  barrier_wait(stage.full(), stage.parity);
  read_fragment<G::groups_m, G::block_m>(fa[0], stage.words + a_word);
  read_fragment<G::groups_n, G::block_n>(fb[0], stage.words + b_word);

  for (unsigned tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    int chunk = static_cast<int>(share.first / TB_SGEMM_CHUNK_K);
    for (int k_todo = share.count; k_todo > 0; k_todo -= TB_SGEMM_CHUNK_K, chunk++) {
      accumulators.clear();
      const int steps = ((k_todo > TB_SGEMM_CHUNK_K ? TB_SGEMM_CHUNK_K : k_todo) + K - 1) / K;
#pragma unroll 1
      for (int step = 0; step < steps; step++) {
        const float *a_next = stage.words + a_word + G::a_row, *b_next = stage.words + b_word + G::b_row;
#pragma unroll
        for (int k = 0; k < K; k++) {
          if (k == K - 1) { /* the last row of this stage has been read */
            __syncwarp();
            if (thread % 32 == 0) barrier_arrive(stage.empty());
            stage.next(stages);
            a_next = stage.words + a_word - k * G::a_row;
            b_next = stage.words + b_word - k * G::b_row;
            barrier_wait(stage.full(), stage.parity);
          }
          read_fragment<G::groups_m, G::block_m>(fa[(k + 1) % 2], a_next + k * G::a_row);
          read_fragment<G::groups_n, G::block_n>(fb[(k + 1) % 2], b_next + k * G::b_row);
          accumulators.multiply(fa[k % 2], fb[k % 2]);
        }
      }
      finish_chunk(accumulators, group_sums, args, tile, chunk, k_todo <= TB_SGEMM_CHUNK_K);
    }
  }
}

template <class G> __device__ __forceinline__ void ws_sgemm(const tb_sgemm_args &args) {
  TB_DYNAMIC_SHARED(float, stages);
  let_next_start();
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < G::stages) {
    const Stage<G> stage = {stages + thread * G::stage_words, 0};
    barrier_init(stage.full(), kCopyThreads);
    barrier_init(stage.empty(), G::threads / 32);
  }
  __syncthreads();
  const unsigned tiles = static_cast<unsigned>((args.m + G::block_m - 1) / G::block_m) *
                         static_cast<unsigned>((args.n + G::block_n - 1) / G::block_n);
  if (thread < G::threads) {
    registers_take<kMultiplyRegisters>();
    multiply_tiles<G>(args, stages, tiles, thread);
  } else {
    registers_give<kCopyRegisters>();
    copy_panels<G>(args, stages, tiles, thread - G::threads);
  }
}

} // namespace

#define TB_SGEMM_TILE(...)
#define TB_SGEMM_WARP_SPECIALISED(name, bm, bn, bk, stages)                                            \
  extern "C" __global__ void __launch_bounds__(WsGeometry<bm, bn, bk, stages>::threads + kCopyThreads, \
                                               WsGeometry<bm, bn, bk, stages>::blocks_per_sm)          \
      tb_sgemm_ws_##name(const __grid_constant__ tb_sgemm_args args) {                                 \
    ws_sgemm<WsGeometry<bm, bn, bk, stages>>(args);                                                    \
  }
#include "registry.def"
#undef TB_SGEMM_TILE
#undef TB_SGEMM_WARP_SPECIALISED
