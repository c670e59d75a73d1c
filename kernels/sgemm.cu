/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single-precision products in plain fp32 FMA, for every GPU from compute capability 7.5 on.
 *
 *   D = alpha * (op(A) op(B) [+ D])       see sgemm_args.h for the contract
 *
 * A block computes a tile of D, block_m x block_n, in steps of block_k along k. Each step has two halves, overlapped:
 *
 *   fetch     the next step's panels, global memory -> registers (float4 where alignment allows; zeros beyond the edges)
 *   multiply  this step's panels, shared memory -> fragments -> accumulators
 *   put       the fetched panels, registers -> the other shared stage
 *
 *                    block_n                 A thread keeps thread_m x thread_n accumulators, in groups of 4 x 4 spread over
 *              +------------------+          the tile, so that the threads of a warp read consecutive float4s:
 *      block_k |     B panel      |
 *              +------------------+            rows    of group g: g * block_m / groups_m + 4 * thread row    + 0..3
 *     block_k                                  columns of group g: g * block_n / groups_n + 4 * thread column + 0..3
 *      +----+  +------------------+
 *      |    |  |                  |          A warp is 8 threads along m by 4 along n: it reads 128 bytes of A's stage and
 *      | A  |  |   tile of D      | block_m  64 of B's for 512 FMAs per group pair.
 *      |    |  |                  |
 *      +----+  +------------------+
 *
 * Transposes are index math: a panel element is (side, k), with side = row of op(A) or column of op(B), and memory runs either
 * along side or along k. Both kinds arrive in the same shared layout, stage[k][side ^ swizzle(k)]. The swizzle lets the panels
 * that run along k, whose float4s are stored as four single words in four rows, hit 32 different banks.
 *
 * Three boundary conditions, each where the access is: a load of A needs row < m and k-index < k, a load of B k-index < k and
 * column < n, a store of D row < m and column < n. Loads outside give zeros, which add nothing to a sum.
 *
 * Order of summation: one chain of FMAs per element, k ascending, whatever the tile; a partial sum that waits in D between two
 * launches is exact. So the bits of D depend on k alone.
 */
#include "device.cuh"
#include "sgemm_args.h"

namespace {

/* Words that one vector load moves. */
constexpr int kVector = 4;
/* Tile columns that are computed together, so that the L2 still holds their panels of B for the next tile row. */
constexpr int kGroupColumns = 8;

template <int BM, int BN, int BK, int TM, int TN>
struct Geometry {
  static constexpr int block_m = BM, block_n = BN, block_k = BK, thread_m = TM, thread_n = TN;
  static constexpr int threads_m = BM / TM, threads_n = BN / TN, threads = threads_m * threads_n;
  static constexpr int groups_m = TM / kVector, groups_n = TN / kVector;
  static_assert(TM % kVector == 0 && TN % kVector == 0, "fragments are read as float4");
  static_assert(threads_m % 8 == 0 && threads_n % 4 == 0, "a warp is 8 x 4 threads");
  static_assert(BM % 32 == 0 && BN % 32 == 0 && BK % 16 == 0, "the swizzle permutes within 32 words, over 16 rows");
};

__device__ __forceinline__ int swizzle(int k) { return (k / kVector % 4) * 8; }

__device__ __forceinline__ float4 read4(const float *p) { return *reinterpret_cast<const float4 *>(p); }

__device__ __forceinline__ void write4(float *p, float4 v) { *reinterpret_cast<float4 *>(p) = v; }

/* A float4 of which only the first `valid` words exist (0 or less: none); the others are zero. */
__device__ __forceinline__ float4 load4(const float *p, int64_t valid, bool vectors) {
  if (vectors && valid >= kVector) return read4(p);
  float4 v = make_float4(0, 0, 0, 0);
  if (valid > 0) v.x = p[0];
  if (valid > 1) v.y = p[1];
  if (valid > 2) v.z = p[2];
  if (valid > 3) v.w = p[3];
  return v;
}

/*
 * A panel, Side x BlockK, on its way from global memory through registers to a shared stage.
 * AlongK: memory runs along k, element (side, k) is data[k + side * ld]; else it is data[side + k * ld].
 */
template <int Side, int BlockK, int Threads, bool AlongK>
class Panel {
  static constexpr int per_row = (AlongK ? BlockK : Side) / kVector; /* vectors in a run of memory within the panel */
  static constexpr int count = Side * BlockK / kVector / Threads;    /* vectors a thread carries */
  static_assert(count * Threads * kVector == Side * BlockK, "every thread carries the same number of vectors");

  const float *data;
  int64_t ld, sides, ks; /* sides and ks: how many there are from `data` on */
  bool vectors;
  float4 carried[count];

  static __device__ __forceinline__ int side_of(int i) {
    int v = static_cast<int>(threadIdx.x) + i * Threads;
    return AlongK ? v / per_row : v % per_row * kVector;
  }
  static __device__ __forceinline__ int k_of(int i) {
    int v = static_cast<int>(threadIdx.x) + i * Threads;
    return AlongK ? v % per_row * kVector : v / per_row;
  }

 public:
  /* `first` is the panel's first side; the operand has `sides_` sides and `ks_` along k in all. */
  __device__ __forceinline__ Panel(const float *operand, int64_t ld_, int64_t first, int64_t sides_, int64_t ks_)
      : data(operand + (AlongK ? first * ld_ : first)),
        ld(ld_),
        sides(sides_ - first),
        ks(ks_),
        vectors(reinterpret_cast<uintptr_t>(operand) % sizeof(float4) == 0 && ld_ % kVector == 0) {}

  __device__ __forceinline__ void fetch(int64_t k_start) {
#pragma unroll
    for (int i = 0; i < count; i++) {
      int64_t side = side_of(i), k = k_start + k_of(i);
      int64_t valid = AlongK ? (side < sides ? ks - k : 0) : (k < ks ? sides - side : 0);
      carried[i] = load4(data + (AlongK ? k + side * ld : side + k * ld), valid, vectors);
    }
  }

  __device__ __forceinline__ void put(float (&stage)[BlockK][Side]) const {
#pragma unroll
    for (int i = 0; i < count; i++) {
      int side = side_of(i), k = k_of(i);
      if (AlongK) {
        stage[k + 0][side ^ swizzle(k)] = carried[i].x;
        stage[k + 1][side ^ swizzle(k)] = carried[i].y;
        stage[k + 2][side ^ swizzle(k)] = carried[i].z;
        stage[k + 3][side ^ swizzle(k)] = carried[i].w;
      } else {
        write4(&stage[k][side ^ swizzle(k)], carried[i]);
      }
    }
  }
};

/* One thread's words of row k of a stage: Groups float4s, `spread` words apart. */
template <int Groups, int Side>
__device__ __forceinline__ void read_fragment(float (&fragment)[Groups * kVector], const float (&row)[Side], int first,
                                              int k) {
#pragma unroll
  for (int g = 0; g < Groups; g++) {
    float4 v = read4(&row[(first + g * (Side / Groups)) ^ swizzle(k)]);
    fragment[g * kVector + 0] = v.x;
    fragment[g * kVector + 1] = v.y;
    fragment[g * kVector + 2] = v.z;
    fragment[g * kVector + 3] = v.w;
  }
}

/* One thread's accumulators, and where they belong in D. */
template <class G>
struct Accumulators {
  float sum[G::thread_n][G::thread_m];
  int row, column; /* of the thread's first group, within the tile */

  __device__ __forceinline__ Accumulators() {
    int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    constexpr int warps_m = G::threads_m / 8;
    row = (warp % warps_m * 8 + lane % 8) * kVector;
    column = (warp / warps_m * 4 + lane / 8) * kVector;
#pragma unroll
    for (int j = 0; j < G::thread_n; j++)
#pragma unroll
      for (int i = 0; i < G::thread_m; i++) sum[j][i] = 0;
  }

  /* The products of one stage: an outer product of two fragments for each k. */
  __device__ __forceinline__ void multiply(const float (&a)[G::block_k][G::block_m],
                                           const float (&b)[G::block_k][G::block_n]) {
    float fa[2][G::thread_m], fb[2][G::thread_n];
    read_fragment<G::groups_m>(fa[0], a[0], row, 0);
    read_fragment<G::groups_n>(fb[0], b[0], column, 0);
#pragma unroll
    for (int k = 0; k < G::block_k; k++) {
      if (k + 1 < G::block_k) { /* the next fragments travel while these are multiplied */
        read_fragment<G::groups_m>(fa[(k + 1) % 2], a[k + 1], row, k + 1);
        read_fragment<G::groups_n>(fb[(k + 1) % 2], b[k + 1], column, k + 1);
      }
#pragma unroll
      for (int j = 0; j < G::thread_n; j++)
#pragma unroll
        for (int i = 0; i < G::thread_m; i++) sum[j][i] = fmaf(fa[k % 2][i], fb[k % 2][j], sum[j][i]);
    }
  }

  /* Calls visit(address in D, words that exist, the four sums) for each run of four rows. */
  template <class Visit>
  __device__ __forceinline__ void for_each_run(const tb_sgemm_args &args, int64_t tile_row, int64_t tile_column,
                                               Visit visit) {
#pragma unroll
    for (int j = 0; j < G::thread_n; j++) {
      int64_t n = tile_column + column + j / kVector * (G::block_n / G::groups_n) + j % kVector;
      if (n >= args.n) continue;
#pragma unroll
      for (int g = 0; g < G::groups_m; g++) {
        int64_t m = tile_row + row + g * (G::block_m / G::groups_m);
        visit(args.d + m + n * args.ldd, args.m - m, &sum[j][g * kVector]);
      }
    }
  }

  /* Takes up the partial sums that an earlier launch left in D. */
  __device__ __forceinline__ void resume(const tb_sgemm_args &args, int64_t tile_row, int64_t tile_column) {
    for_each_run(args, tile_row, tile_column, [](const float *d, int64_t valid, float *s) {
      float4 v = load4(d, valid, false);
      s[0] = v.x, s[1] = v.y, s[2] = v.z, s[3] = v.w;
    });
  }

  __device__ __forceinline__ void store(const tb_sgemm_args &args, int64_t tile_row, int64_t tile_column) {
    const bool vectors = reinterpret_cast<uintptr_t>(args.d) % sizeof(float4) == 0 && args.ldd % kVector == 0;
    const float scale = args.alpha;
    const bool last = args.last;
    for_each_run(args, tile_row, tile_column, [=](float *d, int64_t valid, const float *s) {
      /* Not a multiplication by one otherwise: a signalling NaN would lose its payload between launches. */
      float4 v = last ? make_float4(scale * s[0], scale * s[1], scale * s[2], scale * s[3])
                      : make_float4(s[0], s[1], s[2], s[3]);
      if (vectors && valid >= kVector) {
        write4(d, v);
      } else {
        if (valid > 0) d[0] = v.x;
        if (valid > 1) d[1] = v.y;
        if (valid > 2) d[2] = v.z;
        if (valid > 3) d[3] = v.w;
      }
    });
  }
};

/* First row and first column of this block's tile: down the rows of kGroupColumns tile columns, then on to the next columns. */
template <class G>
__device__ __forceinline__ void locate(const tb_sgemm_args &args, int64_t &tile_row, int64_t &tile_column) {
  int64_t down = (args.m + G::block_m - 1) / G::block_m, across = (args.n + G::block_n - 1) / G::block_n;
  int64_t group = blockIdx.x / (kGroupColumns * down), within = blockIdx.x % (kGroupColumns * down);
  int64_t first = group * kGroupColumns;
  int64_t width = across - first < kGroupColumns ? across - first : kGroupColumns;
  tile_row = within / width * G::block_m;
  tile_column = (first + within % width) * G::block_n;
}

template <class G, bool TransposeA, bool TransposeB>
__device__ __forceinline__ void sgemm(const tb_sgemm_args &args) {
  __shared__ __align__(16) float a_stage[2][G::block_k][G::block_m];
  __shared__ __align__(16) float b_stage[2][G::block_k][G::block_n];

  int64_t tile_row, tile_column;
  locate<G>(args, tile_row, tile_column);
  /* Stored column-major, A runs along its rows unless it is transposed, and B along k unless it is. */
  Panel<G::block_m, G::block_k, G::threads, TransposeA> a(args.a, args.lda, tile_row, args.m, args.k);
  Panel<G::block_n, G::block_k, G::threads, !TransposeB> b(args.b, args.ldb, tile_column, args.n, args.k);
  Accumulators<G> accumulators;
  if (!args.first) accumulators.resume(args, tile_row, tile_column);

  a.fetch(0);
  b.fetch(0);
  a.put(a_stage[0]);
  b.put(b_stage[0]);
  __syncthreads();
  int stage = 0;
  for (int64_t k = G::block_k; k < args.k; k += G::block_k) {
    a.fetch(k);
    b.fetch(k);
    accumulators.multiply(a_stage[stage], b_stage[stage]);
    stage ^= 1; /* last read one step ago, before the barrier that ended that step */
    a.put(a_stage[stage]);
    b.put(b_stage[stage]);
    __syncthreads();
  }
  accumulators.multiply(a_stage[stage], b_stage[stage]);
  accumulators.store(args, tile_row, tile_column);
}

}  // namespace

#define TB_SGEMM_KERNEL(name, variant, ta, tb, ...)                                            \
  extern "C" __global__ void __launch_bounds__(Geometry<__VA_ARGS__>::threads)                 \
      tb_sgemm_##name##_##variant(const tb_sgemm_args args) {                                  \
    sgemm<Geometry<__VA_ARGS__>, ta, tb>(args);                                                \
  }
#define TB_SGEMM_TILE(name, ...)                     \
  TB_SGEMM_KERNEL(name, nn, false, false, __VA_ARGS__) \
  TB_SGEMM_KERNEL(name, nt, false, true, __VA_ARGS__)  \
  TB_SGEMM_KERNEL(name, tn, true, false, __VA_ARGS__)  \
  TB_SGEMM_KERNEL(name, tt, true, true, __VA_ARGS__)
#include "registry.def"
