/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Double-precision products on the FP64 tensor cores, for every GPU (common/mma64.cuh says what takes their place where
 * there are none), of real and of complex elements.
 *
 *   D = alpha * ([D +] op(A) op(B))       see fp64_args.h for the contract and the order of summation
 *
 * A block computes a tile of D in steps of 16 k, or 8 complex ones, from a ring of stages in shared memory. While one
 * step is multiplied, the copies of the steps ahead are under way.
 *
 *   load      a later step's panels, from global memory to their stage, asynchronously; zeros beyond the edges
 *   fragment  the next 16 sides by 8 k (4 complex ones) of this lane, stage -> registers, ahead of the products that
 *             want them
 *   multiply  16 x 16 regions of the warp's part of the tile by these
 *   advance   (behind a step's last fragment) wait for the next step's copies, one barrier, next stage
 *   group     at a group's end: the accumulators join the sums in shared memory, become partial sums, or go to D
 *
 * The floor is 2 m n k, or 8, over the tensor cores' rate: 256 operations a cycle and SM, 67 TFLOP/s on an H200 at
 * 1.98 GHz; instructions alone reach 66.4 (../NOTES.md). A k of a tile of 128 x 128 takes 128 cycles. In these it wants
 * 2 KiB from the L2 and, with warps of 64 x 32, 6 KiB from shared memory, of 16. Steps of 16 k and three stages have
 * 4096 cycles for a copy, and one barrier in 2048. What costs is what stops all warps: the group's end (256 KiB by way
 * of shared memory), the wait for the slowest warp at a step's end, and rounds that are not full.
 *
 * So a block takes one job after another, a tile or a part of its k, and loads the next one's first stages while the
 * last one's sums go. The accumulators of a warp of 64 x 32 take 128 registers of a thread: 128 x 128 has eight warps
 * and an SM for itself. Smaller tiles are for products that have few. Where the last round is not full, its tiles have
 * k split (tb_fp64_args.whole), group by group, and a second kernel adds the groups' sums in order.
 *
 * A complex element is four products of reals and two sums, so a complex tile of 128 x 64 has the accumulators of a
 * real one of 128 x 128, twice its products, and three quarters of its panels: operands are used as they lie.
 */
#ifndef TB_FP64_GEMM_CUH
#define TB_FP64_GEMM_CUH

#include "fp64/tile.cuh"

namespace fp64 {
namespace {

/*
 * A step's products are `all` iterations: a region along m of a block of k each. The fragments that an iteration
 * wants are read `ahead` iterations before: a warp's four instructions take 128 cycles or more, and all warps' reads of
 * one iteration's fragments 100 to 200 of shared memory. The last reads of a stage so stand `ahead` iterations before
 * its last products, and there the block advances to the next stage.
 */
template <class G> struct Iterations {
  static constexpr int all = G::Element::blocks * G::regions_m, ahead = all >= 4 ? 2 : 1;
};

template <class G, bool AlongKA, bool AlongKB> struct Fragments {
  using I = Iterations<G>;
  using E = typename G::Element;
  Reader<E, G::block_m, AlongKA> read_a;
  Reader<E, G::block_n, AlongKB> read_b;
  Fragment a[2 * I::ahead], b[E::blocks][G::regions_n];

  __device__ __forceinline__ explicit Fragments(const Owner<G> &owner)
      : read_a(owner.row, owner.lane), read_b(owner.column, owner.lane) {}

  /* What iteration i of a step wants of A; and of B a region, if it is one of a block's first, and this is read before
   * the block's products begin. */
  __device__ __forceinline__ void read(const double2 *stage, int i) {
    const int block = i / G::regions_m, region = i % G::regions_m;
    read_a.read(a[i % (2 * I::ahead)], stage, region, block);
#pragma unroll
    for (int n = 0; n < G::regions_n; n++)
      if (min(n, min(I::ahead, G::regions_m) - 1) == region)
        read_b.read(b[block][n], stage + Stage<E, G::block_m, AlongKA>::units, n, block);
  }
};

/* 16 rows of D by all columns of the warp, a block of k. Of reals that run along k in both operands a fragment is made
 * of elements that were loaded one by one: then all eight k of an instruction stand beside each other. */
template <class G, bool AlongKA, bool AlongKB>
__device__ __forceinline__ void multiply(double (&sum)[G::Element::parts][2 * G::regions_n][4], const Fragment &a,
                                         const Fragment (&b)[G::regions_n], Signs64 signs) {
  double y[2 * G::regions_n][2];
#pragma unroll
  for (int n = 0; n < 2 * G::regions_n; n++) y[n][0] = b[n / 2].of[n % 2][0], y[n][1] = b[n / 2].of[n % 2][1];
  if (G::Element::parts == 1 && AlongKA && AlongKB)
    multiply64_at_once(sum, a.of, y);
  else
    multiply64(sum, a.of, y, signs);
}

/* A group's sums are complete; `number` counts from the first of this block. Works out where they go once more, for
 * what would be kept meanwhile the products want the registers. */
template <class G>
__device__ __forceinline__ void end_group(Accumulators<G> &accumulators, double2 *sums, const tb_fp64_args &args,
                                          unsigned of_job, int number, bool at_end) {
  const int thread = opaque(static_cast<int>(threadIdx.x));
  Job job = k_of<G>(args, static_cast<unsigned>(opaque(static_cast<int>(of_job))));
  const bool split = job.partial >= 0;
  /* Without a split there are none, and nothing may be counted from there. */
  double2 *const partials =
      split ? reinterpret_cast<double2 *>(args.partials) + (job.partial + number) * G::tile_units + thread : nullptr;
  const Way way = {.sums = sums + thread,
                   .partials = partials,
                   .from_sums = !split && number > 0,
                   .from_d = !split && number == 0 && args.first == 0,
                   .to_d = !split && at_end,
                   .scale = Scale(args)};
  if (!G::triangle && (way.from_d || way.to_d)) locate<G>(args, job);
  accumulators.pass_on(way, target_of<G>(args, job, Owner<G>(thread)));
}

/*
 * A block's copies, one job's after another's: what is loaded runs ahead of what is multiplied, beyond a job's end too,
 * so that the next job's first stages come while the last one's sums go.
 */
template <class G, bool AlongKA, bool AlongKB, bool Whole> class Loads {
  using E = typename G::Element;
  Loader<E, G::block_m, G::threads, AlongKA, Whole> a;
  Loader<E, G::block_n, G::threads, AlongKB, Whole> b;
  unsigned job; /* that is being loaded */
  int k_left;   /* of it */

  __device__ __forceinline__ void begin(const tb_fp64_args &args) {
    const int thread = opaque(static_cast<int>(threadIdx.x));
    const Job j = job_of<G>(args, job);
    a.begin(args.a, args.lda, j.row, args.m, j.k_first, thread);
    b.begin(args.b, args.ldb, j.column, args.n, j.k_first, thread);
    k_left = j.k_count;
  }

public:
  __device__ __forceinline__ explicit Loads(const tb_fp64_args &args) : job(blockIdx.x) { begin(args); }

  /* A part of the next step's copies, of so many parts. Behind the last job they are zeros. */
  __device__ __forceinline__ void load(const tb_fp64_args &args, double2 *stage, int part, int parts) {
    if (part == 0 && k_left <= 0) { /* each step asks no more than that */
      const unsigned next = static_cast<unsigned>(opaque(static_cast<int>(job))) + gridDim.x;
      if (next < args.jobs) job = next, begin(args);
    }
    a.load(stage, k_left, part * a.count / parts, (part + 1) * a.count / parts);
    b.load(stage + Stage<E, G::block_m, AlongKA>::units, k_left, part * b.count / parts, (part + 1) * b.count / parts);
    if (part + 1 < parts) return;
    k_left -= E::step_k;
    async_commit();
  }
};

template <class G, bool AlongKA, bool AlongKB, bool Whole>
__device__ __forceinline__ void gemm(const tb_fp64_args &args) {
  TB_DYNAMIC_SHARED(double2, shared);
  using I = Iterations<G>;
  constexpr int stage_units = (G::block_m + G::block_n) * kRowUnits;
  static_assert(kUnitBytes * stage_units * G::stages == TB_FP64_STAGE_BYTES(G::block_m, G::block_n, G::stages),
                "the host asks for what is used");
  let_next_start();
  Loads<G, AlongKA, AlongKB, Whole> loads(args);
  for (int s = 0; s < G::stages - 1; s++) loads.load(args, shared + s * stage_units, 0, 1);
  async_wait<G::stages - 2>();
  __syncthreads();

  double2 *const sums = shared + G::stages * stage_units;
  const double2 *read = shared;
  double2 *write = shared + (G::stages - 1) * stage_units;
  Fragments<G, AlongKA, AlongKB> fragments((Owner<G>(static_cast<int>(threadIdx.x))));
#pragma unroll
  for (int i = 0; i < I::ahead; i++) fragments.read(read, i);
  Accumulators<G> accumulators;
  /* A triangle is conjugated when it is brought into form. */
  const Signs64 signs = {!G::triangle && args.conjugate_a != 0 ? kMinus64 : 0,
                         !G::triangle && args.conjugate_b != 0 ? kMinus64 : 0};
  for (unsigned job = blockIdx.x; job < args.jobs; job += gridDim.x) {
    const Job now = k_of<G>(args, job);
    int k_todo = now.k_count, within_group = G::triangle ? now.k_first % args.group_k : 0;
    for (int number = 0; k_todo > 0; number++, within_group = 0) {
      accumulators.clear();
      const int group_k = opaque(min(args.group_k - within_group, k_todo));
      for (int k = 0; k < group_k; k += G::Element::step_k) {
#pragma unroll
        for (int i = 0; i < I::all; i++) {
          if (i < I::all - I::ahead) loads.load(args, write, i, I::all - I::ahead);
          if (i == I::all - I::ahead) { /* advance: everybody has read from this stage, and the next one is there */
            write = const_cast<double2 *>(read);
            read = read + stage_units == sums ? shared : read + stage_units;
            async_wait<G::stages - 2>();
            __syncthreads();
          }
          fragments.read(read, (i + I::ahead) % I::all);
          multiply<G, AlongKA, AlongKB>(accumulators.sum[i % G::regions_m], fragments.a[i % (2 * I::ahead)],
                                        fragments.b[i / G::regions_m], signs);
        }
      }
      k_todo -= group_k;
      end_group<G>(accumulators, sums, args, job, number, k_todo <= 0);
    }
  }
}

/* Adds the groups' sums of a tile that is split; of blockIdx.x / TB_FP64_GATHER_BLOCKS, and a share of its units. */
template <class G> __device__ __forceinline__ void gather(const tb_fp64_args &args) {
  using A = Accumulators<G>;
  constexpr int share = (A::units + TB_FP64_GATHER_BLOCKS - 1) / TB_FP64_GATHER_BLOCKS;
  const int thread = static_cast<int>(threadIdx.x), groups = groups_of(args);
  const unsigned tile = blockIdx.x / TB_FP64_GATHER_BLOCKS;
  const int from = static_cast<int>(blockIdx.x % TB_FP64_GATHER_BLOCKS) * share;
  Job job = {};
  job.tile = static_cast<unsigned>(args.whole) + tile;
  locate<G>(args, job);
  const Target t = target_of<G>(args, job, Owner<G>(thread));
  wait_for_earlier_kernels();
  const double2 *partial = reinterpret_cast<const double2 *>(args.partials) +
                           static_cast<int64_t>(tile) * groups * A::units * G::threads + thread;
  double *d[share];
  double2 sum[share];
  bool there[share][2];
  int column_of[share];
#pragma unroll
  for (int s = 0; s < share; s++) { /* the unit's place, as each_unit has it */
    const int u = from + s, unit = u % G::unit_rows, column = A::place_of(u / G::unit_rows);
    const int end = u < A::units ? t.end(column) : 0;
    column_of[s] = column;
    d[s] = t.d + 16 * unit + column * t.ld_doubles;
    there[s][0] = is_there<G>(unit, 0, t.first(column), end);
    there[s][1] = is_there<G>(unit, 1, t.first(column), end);
    sum[s].x = !args.first && there[s][0] ? d[s][0] : 0;
    sum[s].y = !args.first && there[s][1] ? d[s][1] : 0;
  }
#pragma unroll 4
  for (int g = 0; g < groups; g++, partial += A::units * G::threads)
#pragma unroll
    for (int s = 0; s < share; s++)
      if (from + s < A::units) {
        const double2 v = partial[(from + s) * G::threads];
        sum[s].x = sum[s].x + v.x, sum[s].y = sum[s].y + v.y;
      }
  const Scale scale(args);
#pragma unroll
  for (int s = 0; s < share; s++) {
    const int row = (from + s) % G::unit_rows * G::unit_step;
    const double2 v =
        without_imaginary(typename G::Element(), t, row, column_of[s], scaled(typename G::Element(), scale, sum[s]));
    if (there[s][0]) d[s][0] = v.x;
    if (there[s][1]) d[s][1] = v.y;
  }
}

} // namespace
} // namespace fp64

/* Stored column-major, A runs along its rows unless it is transposed, and B along k unless it is. */
#define TB_FP64_KERNEL(function, along_k_a, along_k_b, whole, ...)                         \
  extern "C" __global__ void __launch_bounds__(fp64::Geometry<__VA_ARGS__>::threads,       \
                                               fp64::Geometry<__VA_ARGS__>::blocks_per_sm) \
      function(const tb_fp64_args args) {                                                  \
    fp64::gemm<fp64::Geometry<__VA_ARGS__>, along_k_a, along_k_b, whole>(args);            \
  }
/* Of triangles.def: op(A) is a triangle, and nothing is transposed. */
#define TB_FP64_TRIANGLES(prefix, name, ...)                            \
  TB_FP64_KERNEL(prefix##_##name, false, true, true, __VA_ARGS__, true) \
  TB_FP64_KERNEL(prefix##_##name##_any, false, true, false, __VA_ARGS__, true)
/* Those of one row of tiles.def; `prefix` is tb_dgemm or tb_zgemm. */
#define TB_FP64_KERNELS(prefix, name, ...)                                           \
  TB_FP64_KERNEL(prefix##_##name##_nn, false, true, true, __VA_ARGS__)               \
  TB_FP64_KERNEL(prefix##_##name##_nt, false, false, true, __VA_ARGS__)              \
  TB_FP64_KERNEL(prefix##_##name##_tn, true, true, true, __VA_ARGS__)                \
  TB_FP64_KERNEL(prefix##_##name##_tt, true, false, true, __VA_ARGS__)               \
  TB_FP64_KERNEL(prefix##_##name##_nn_any, false, true, false, __VA_ARGS__)          \
  TB_FP64_KERNEL(prefix##_##name##_nt_any, false, false, false, __VA_ARGS__)         \
  TB_FP64_KERNEL(prefix##_##name##_tn_any, true, true, false, __VA_ARGS__)           \
  TB_FP64_KERNEL(prefix##_##name##_tt_any, true, false, false, __VA_ARGS__)          \
  extern "C" __global__ void __launch_bounds__(fp64::Geometry<__VA_ARGS__>::threads) \
      prefix##_gather_##name(const tb_fp64_args args) {                              \
    fp64::gather<fp64::Geometry<__VA_ARGS__>>(args);                                 \
  }

#endif
