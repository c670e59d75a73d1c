/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single-precision products in plain fp32 FMA, for every GPU from compute capability 7.5 on.
 *
 *   D = alpha * ([D +] op(A) op(B))       see sgemm_args.h for the contract and the order of summation
 *
 * A block computes a tile of D, block_m x block_n, in steps of block_k along k. Two stages of shared memory take turns:
 *
 *   load      the next step's panels, global memory -> the other stage, asynchronously; zeros beyond the edges
 *   multiply  this step's panels, stage -> fragments -> accumulators
 *   advance   wait for the load, one barrier, stages change places
 *
 *                    block_n                 A thread keeps thread_m x thread_n accumulators, in groups of 4 x 4 spread over
 *              +------------------+          the tile, so that the threads of a warp read neighbouring float4s:
 *      block_k |     B panel      |
 *              +------------------+            rows    of group g: g * block_m / groups_m + 4 * thread row    + 0..3
 *     block_k                                  columns of group g: g * block_n / groups_n + 4 * thread column + 0..3
 *      +----+  +------------------+
 *      |    |  |                  |          Every k costs a thread one float4 a group, and thread_m * thread_n FMAs: with
 *      | A  |  |   tile of D      | block_m  8 x 16, 6 loads for 128 FMAs.
 *      |    |  |                  |
 *      +----+  +------------------+
 *
 * Transposes are index math: a panel element is (side, k), with side = row of op(A) or column of op(B), and memory runs either
 * along side or along k. Both kinds arrive in the same layout, stage[k][side], so one multiply serves all four products.
 * Panels that run along side are copied 16 bytes at a time where alignment allows; the others word by word, a warp taking
 * 8 words along k (one 32-byte sector) of 4 sides. A stage's rows are 4 words longer than the tile: those 32 words then fall
 * into 32 different banks, and rows still start on 16 bytes.
 *
 * Three boundary conditions, each where the access is: a load of A needs row < m and k-index < k, a load of B k-index < k and
 * column < n, a store of D row < m and column < n. Loads outside give zeros, which add nothing to a sum.
 */
#include "ptx.cuh"
#include "sgemm_args.h"

namespace {

/* Words that one vector access moves. */
constexpr int kVector = 4;
/* Words by which a stage's row is longer than its tile. */
constexpr int kPad = 4;
/* Words of a 32-byte sector, the least that global memory delivers. */
constexpr int kSector = 8;
/* Steps of k that the multiply's loop is unrolled by: enough to hide the loop, few enough for the instruction cache. */
#ifndef TB_SGEMM_UNROLL
#define TB_SGEMM_UNROLL 8
#endif
constexpr int kUnroll = TB_SGEMM_UNROLL;
/* Tile columns that are computed together, so that the L2 still holds their panels of B for the next tile row. */
constexpr int kGroupColumns = 8;

template <int BM, int BN, int BK, int TM, int TN>
struct Geometry {
  static constexpr int block_m = BM, block_n = BN, block_k = BK, thread_m = TM, thread_n = TN;
  static constexpr int threads_m = BM / TM, threads_n = BN / TN, threads = threads_m * threads_n;
  static constexpr int groups_m = TM / kVector, groups_n = TN / kVector;
  static constexpr int a_words = BK * (BM + kPad), b_words = BK * (BN + kPad); /* of one stage */
  static_assert(TM % kVector == 0 && TN % kVector == 0, "fragments are read as float4");
  static_assert(threads_m % 8 == 0 && threads_n % 4 == 0, "a warp is 8 x 4 threads");
  static_assert(TB_SGEMM_CHUNK_MIN % BK == 0, "a chunk ends where a step ends");
  static_assert(TB_SGEMM_SHARED_BYTES(BM, BN, BK) == 2 * 4 * (a_words + b_words), "the host asks for what is used");
};

__device__ __forceinline__ float4 read4(const float *p) { return *reinterpret_cast<const float4 *>(p); }

__device__ __forceinline__ void write4(float *p, float4 v) { *reinterpret_cast<float4 *>(p) = v; }

__device__ __forceinline__ bool takes_vectors(const float *p, int64_t ld) {
  return reinterpret_cast<uintptr_t>(p) % sizeof(float4) == 0 && ld % kVector == 0;
}

/* ---- load: one operand's panels, global memory -> shared memory ---- */

/*
 * The panels of one operand for one block: Side x BlockK words a step.
 * AlongK: memory runs along k, element (side, k) is operand[k + side * ld]; else it is operand[side + k * ld].
 */
template <int Side, int BlockK, int Threads, bool AlongK>
class Panels {
  static constexpr int row_words = Side + kPad;
  const float *next; /* this thread's first word of the next step */
  int64_t ld, sides, ks; /* sides and ks: how many there are from the block's first side, and from the next step, on */
  int side, k;       /* this thread's first word within the panel */
  bool vectors;

  /* Copies of `Width` words, `rows` rows of k in one pass of the block: memory runs along side. */
  template <int Width, bool Whole>
  __device__ __forceinline__ void load_along_side(float *stage) const {
    constexpr int rows = Threads * Width / Side;
    static_assert(rows > 0 && BlockK % rows == 0, "a pass of the block covers whole rows");
    const float *from = next;
    float *to = stage + k * row_words + side;
#pragma unroll
    for (int pass = 0; pass < BlockK / rows; pass++, from += rows * ld, to += rows * row_words) {
      if (Whole) {
        async_copy<4 * Width>(to, from);
      } else {
        int64_t there = k + pass * rows < ks ? sides - side : 0;
        int words = there < 0 ? 0 : there < Width ? static_cast<int>(there) : Width;
        async_copy<4 * Width>(to, words > 0 ? from : next, static_cast<unsigned>(4 * words));
      }
    }
  }

  /* Word by word, a warp taking kSector words along k of 32 / kSector sides: memory runs along k. */
  template <bool Whole>
  __device__ __forceinline__ void load_along_k(float *stage) const {
    constexpr int rows = Threads / kSector;
    static_assert(Side % rows == 0 && BlockK % kSector == 0, "a pass of the block covers whole sectors");
    const float *from = next;
    float *to = stage + k * row_words + side;
#pragma unroll
    for (int pass = 0; pass < Side / rows; pass++, from += rows * ld, to += rows) {
#pragma unroll
      for (int sector = 0; sector < BlockK; sector += kSector) {
        if (Whole) {
          async_copy<4>(to + sector * row_words, from + sector);
        } else {
          bool there = side + pass * rows < sides && k + sector < ks;
          async_copy<4>(to + sector * row_words, there ? from + sector : next, there ? 4 : 0);
        }
      }
    }
  }

  template <bool Whole>
  __device__ __forceinline__ void load_step(float *stage) const {
    if (AlongK)
      load_along_k<Whole>(stage);
    else if (vectors)
      load_along_side<kVector, Whole>(stage);
    else
      load_along_side<1, Whole>(stage);
  }

 public:
  /* `first` is the block's first side, of sides_ in all; the steps run from k_first to k_end. */
  __device__ __forceinline__ Panels(const float *operand, int64_t ld_, int64_t first, int64_t sides_, int64_t k_first,
                                    int64_t k_end)
      : ld(ld_), sides(sides_ - first), ks(k_end - k_first), vectors(!AlongK && takes_vectors(operand, ld_)) {
    int thread = static_cast<int>(threadIdx.x);
    if (AlongK) {
      side = thread / kSector;
      k = thread % kSector;
    } else {
      int width = vectors ? kVector : 1;
      side = thread * width % Side;
      k = thread * width / Side;
    }
    next = operand + (AlongK ? (first + side) * ld + k_first + k : first + side + (k_first + k) * ld);
  }

  /* Starts the next step's copies into a stage. */
  __device__ __forceinline__ void load(float *stage) {
    if (sides >= Side && ks >= BlockK)
      load_step<true>(stage);
    else
      load_step<false>(stage);
    next += AlongK ? BlockK : BlockK * ld;
    ks -= BlockK;
  }
};

/* ---- multiply: one stage, shared memory -> registers ---- */

/* One thread's words of a stage's row: Groups float4s, `Side / Groups` words apart. */
template <int Groups, int Side>
__device__ __forceinline__ void read_fragment(float (&fragment)[Groups * kVector], const float *row) {
#pragma unroll
  for (int g = 0; g < Groups; g++) {
    float4 v = read4(row + g * (Side / Groups));
    fragment[g * kVector + 0] = v.x;
    fragment[g * kVector + 1] = v.y;
    fragment[g * kVector + 2] = v.z;
    fragment[g * kVector + 3] = v.w;
  }
}

/* One thread's accumulators, and where they belong in the tile. */
template <class G>
struct Accumulators {
  float sum[G::thread_n][G::thread_m];
  int row, column; /* of the thread's first group, within the tile */

  /*
   * Lanes: bits 1 to 3 count along m, bits 0 and 4 along n. Neighbours by bit 0 read the same float4 of A, neighbours by bit 1
   * the same of B; such pairs let the shared memory serve a half-warp's float4s at once.
   */
  __device__ __forceinline__ Accumulators() {
    int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    constexpr int warps_m = G::threads_m / 8;
    row = (warp % warps_m * 8 + lane / 2 % 8) * kVector;
    column = (warp / warps_m * 4 + lane % 2 + lane / 16 * 2) * kVector;
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int j = 0; j < G::thread_n; j++)
#pragma unroll
      for (int i = 0; i < G::thread_m; i++) sum[j][i] = 0;
  }

  /* An outer product of two fragments for each k of the stage; the next fragments travel while these are multiplied. */
  __device__ __forceinline__ void multiply(const float *a_stage, const float *b_stage) {
    const float *a = a_stage + row, *b = b_stage + column;
    float fa[2][G::thread_m], fb[2][G::thread_n];
    read_fragment<G::groups_m, G::block_m>(fa[0], a);
    read_fragment<G::groups_n, G::block_n>(fb[0], b);
    static_assert(kUnroll % 2 == 0 && G::block_k % kUnroll == 0, "fragments change places within the unrolled loop");
#pragma unroll kUnroll
    for (int k = 0; k < G::block_k; k++) {
      if (k + 1 < G::block_k) {
        read_fragment<G::groups_m, G::block_m>(fa[(k + 1) % 2], a + (k + 1) * (G::block_m + kPad));
        read_fragment<G::groups_n, G::block_n>(fb[(k + 1) % 2], b + (k + 1) * (G::block_n + kPad));
      }
#pragma unroll
      for (int j = 0; j < G::thread_n; j++)
#pragma unroll
        for (int i = 0; i < G::thread_m; i++) sum[j][i] = fmaf(fa[k % 2][i], fb[k % 2][j], sum[j][i]);
    }
  }
};

/* ---- store: a chunk's sums, registers -> D or the partial sums ---- */

/* The tile of D that a block writes: element (i, j) is data[i + j * ld] for i < rows, j < columns. */
struct Tile {
  float *data;
  int64_t ld, rows, columns;
  bool vectors;
};

/* Four words of a column: d = scale * (d + s), or without d when `add` is not set. `there` of them exist. */
__device__ __forceinline__ void store_run(float *d, const float *s, int64_t there, bool vectors, bool add, bool scaled,
                                          float alpha) {
  float v[kVector];
  const bool whole = vectors && there >= kVector;
  if (add && whole) {
    float4 before = read4(d);
    v[0] = before.x + s[0], v[1] = before.y + s[1], v[2] = before.z + s[2], v[3] = before.w + s[3];
  } else {
#pragma unroll
    for (int w = 0; w < kVector; w++) v[w] = add && w < there ? d[w] + s[w] : s[w];
  }
#pragma unroll
  for (int w = 0; w < kVector; w++) v[w] = scaled ? alpha * v[w] : v[w];
  if (whole) {
    write4(d, make_float4(v[0], v[1], v[2], v[3]));
  } else {
#pragma unroll
    for (int w = 0; w < kVector; w++)
      if (w < there) d[w] = v[w];
  }
}

template <class G>
__device__ __forceinline__ void store(const Accumulators<G> &accumulators, const Tile &tile, bool add, bool scaled,
                                      float alpha) {
#pragma unroll
  for (int j = 0; j < G::thread_n; j++) {
    int64_t column = accumulators.column + j / kVector * (G::block_n / G::groups_n) + j % kVector;
    if (column >= tile.columns) continue;
#pragma unroll
    for (int g = 0; g < G::groups_m; g++) {
      int64_t row = accumulators.row + g * (G::block_m / G::groups_m);
      store_run(tile.data + row + column * tile.ld, &accumulators.sum[j][g * kVector], tile.rows - row, tile.vectors, add,
                scaled, alpha);
    }
  }
}

/* ---- a block ---- */

/* First row and first column of this block's tile: down the rows of kGroupColumns tile columns, then on to the next columns. */
template <class G>
__device__ __forceinline__ void locate(const tb_sgemm_args &args, int64_t &row, int64_t &column) {
  int64_t down = (args.m + G::block_m - 1) / G::block_m, across = (args.n + G::block_n - 1) / G::block_n;
  int64_t group = blockIdx.x / (kGroupColumns * down), within = blockIdx.x % (kGroupColumns * down);
  int64_t first = group * kGroupColumns;
  int64_t width = across - first < kGroupColumns ? across - first : kGroupColumns;
  row = within / width * G::block_m;
  column = (first + within % width) * G::block_n;
}

/* One chunk for one tile: steps from the panels' next one on. On return the stages are free. */
template <class G, class PanelsA, class PanelsB>
__device__ __forceinline__ void accumulate(Accumulators<G> &accumulators, PanelsA &a, PanelsB &b, float *stages, int steps) {
  float *const a_stages = stages, *const b_stages = stages + 2 * G::a_words;
  accumulators.clear();
  a.load(a_stages);
  b.load(b_stages);
  async_commit();
  for (int step = 0; step < steps; step++) {
    int current = step % 2;
    async_wait<0>();
    __syncthreads(); /* this step's panels are there, and nobody reads the other stage any more */
    if (step + 1 < steps) {
      a.load(a_stages + (1 - current) * G::a_words);
      b.load(b_stages + (1 - current) * G::b_words);
      async_commit();
    }
    accumulators.multiply(a_stages + current * G::a_words, b_stages + current * G::b_words);
  }
  __syncthreads();
}

__device__ __forceinline__ int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }

template <class G, bool TransposeA, bool TransposeB>
__device__ __forceinline__ void sgemm(const tb_sgemm_args &args) {
  TB_DYNAMIC_SHARED(float, stages);
  int64_t row, column;
  locate<G>(args, row, column);
  Tile tile = {args.d + row + column * args.ldd, args.ldd, args.m - row, args.n - column, takes_vectors(args.d, args.ldd)};
  int64_t k_first = 0, k_end = args.k;
  const bool split = args.partials != nullptr;
  if (split) {
    k_first = blockIdx.y * (args.chunks_per_split * args.chunk_k);
    k_end = smaller(k_end, k_first + args.chunks_per_split * args.chunk_k);
  }
  /* Stored column-major, A runs along its rows unless it is transposed, and B along k unless it is. */
  Panels<G::block_m, G::block_k, G::threads, TransposeA> a(args.a, args.lda, row, args.m, k_first, k_end);
  Panels<G::block_n, G::block_k, G::threads, !TransposeB> b(args.b, args.ldb, column, args.n, k_first, k_end);
  Accumulators<G> accumulators;
  for (int64_t k = k_first; k < k_end; k += args.chunk_k) {
    int steps = static_cast<int>((smaller(args.chunk_k, k_end - k) + G::block_k - 1) / G::block_k);
    accumulate(accumulators, a, b, stages, steps);
    if (split) {
      tile.data = args.partials + k / args.chunk_k * (args.m * args.n) + row + column * args.m;
      tile.ld = args.m;
      tile.vectors = false;
      store(accumulators, tile, false, false, 1.0f);
    } else {
      bool last = args.last && k + args.chunk_k >= k_end;
      store(accumulators, tile, k > 0 || !args.first, last, args.alpha);
    }
  }
}

}  // namespace

/* Split k: D = alpha * ([D +] the chunks' sums, in order). A thread an element, any grid. */
extern "C" __global__ void __launch_bounds__(256) tb_sgemm_gather(const tb_sgemm_args args) {
  const int64_t elements = args.m * args.n, chunks = (args.k + args.chunk_k - 1) / args.chunk_k;
  for (int64_t e = blockIdx.x * 256ll + threadIdx.x; e < elements; e += gridDim.x * 256ll) {
    float *d = args.d + e % args.m + e / args.m * args.ldd;
    float sum = args.first ? args.partials[e] : *d + args.partials[e];
    for (int64_t c = 1; c < chunks; c++) sum += args.partials[c * elements + e];
    *d = args.last ? args.alpha * sum : sum;
  }
}

#define TB_SGEMM_KERNEL(name, variant, ta, tb, ...)                                            \
  extern "C" __global__ void __launch_bounds__(Geometry<__VA_ARGS__>::threads)                 \
      tb_sgemm_##name##_##variant(const tb_sgemm_args args) {                                  \
    sgemm<Geometry<__VA_ARGS__>, ta, tb>(args);                                                \
  }
#define TB_SGEMM_TILE(name, ...)                       \
  TB_SGEMM_KERNEL(name, nn, false, false, __VA_ARGS__) \
  TB_SGEMM_KERNEL(name, nt, false, true, __VA_ARGS__)  \
  TB_SGEMM_KERNEL(name, tn, true, false, __VA_ARGS__)  \
  TB_SGEMM_KERNEL(name, tt, true, true, __VA_ARGS__)
#include "registry.def"
