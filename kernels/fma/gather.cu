/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What follows a split k whose parts are no clusters that add their sums themselves (sgemm_parts.cuh): D = alpha * ([D
 * +] the partial sums), in the order of sgemm_args.h. Part of sgemm.cu's fat binary.
 *
 * The partial sums come from the L2 or the memory, and a thread asks for several before it adds the first: eight units
 * of four elements, or where four neighbours cannot be read at once or there are fewer elements than threads, 16 units
 * of one; and where k has fewer units, those of two or four elements.
 *
 * Launched early (ptx.cuh), its blocks may be there before the partial sums are, and find out where they stand.
 */
#include "fma/store.cuh"

namespace gather {
namespace {

constexpr int kThreads = 256;
/* Blocks that an SM is to hold; with four the code for compute capability 8.0 lacks a register. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr int kBlocks = 3;
#else
constexpr int kBlocks = 4;
#endif
/* Units of an element or of four on their way to a thread. */
constexpr int kWordsAtOnce = 16, kVectorsAtOnce = 8;

/* Neighbouring elements of a column. */
template <int Width> struct Elements { float word[Width]; };

template <int Width> __device__ __forceinline__ Elements<Width> read(const float *p) {
  Elements<Width> e;
  if (Width == kVector) {
    const float4 v = read4(p);
    e.word[0] = v.x, e.word[1 % Width] = v.y, e.word[2 % Width] = v.z, e.word[3 % Width] = v.w;
  } else {
    e.word[0] = *p;
  }
  return e;
}

template <int Width> __device__ __forceinline__ void write(float *p, const Elements<Width> &e) {
  if (Width == kVector)
    write4(p, make_float4(e.word[0], e.word[1 % Width], e.word[2 % Width], e.word[3 % Width]));
  else
    *p = e.word[0];
}

/* What a thread adds up side by side: elements, or fours of them, and their units. */
template <int Width, int Many> struct Batch {
  static constexpr int count = (Width == kVector ? kVectorsAtOnce : kWordsAtOnce) / Many; /* of each at once */
  Elements<Width> sum[Many];
  const float *unit[Many]; /* the next */
  float *d[Many];
  bool there[Many];

  /*
   * The sums continue with `units` units, `apart` words from one to the next. Each so many of them, a group's, have a
   * sum of their own.
   */
  __device__ __forceinline__ void add(int64_t apart, int units, int group_units) {
    Elements<Width> group[Many] = {};
    int of_group = 0; /* units that are in it */
    for (; units > 0; units -= count) {
      Elements<Width> value[Many][count] = {};
#pragma unroll
      for (int i = 0; i < count; i++)
#pragma unroll
        for (int e = 0; e < Many; e++) {
          if (i < units && there[e]) value[e][i] = read<Width>(unit[e]);
          unit[e] += apart;
        }
#pragma unroll
      for (int i = 0; i < count; i++) {
        const bool starts = of_group++ == 0, ends = i < units && (of_group == group_units || i + 1 == units);
#pragma unroll
        for (int e = 0; e < Many; e++)
#pragma unroll
          for (int w = 0; w < Width; w++) {
            float &of = group[e].word[w], &to = sum[e].word[w];
            of = starts ? value[e][i].word[w] : of + value[e][i].word[w];
            to = ends ? to + of : to;
          }
        of_group = ends ? 0 : of_group;
      }
    }
  }
};

/* Every thread of the grid takes Width elements, and then those as many behind as the grid has threads for, Many of
 * these at a time. */
template <int Width, int Many> __device__ __forceinline__ void add_all(const tb_sgemm_args &args) {
  /* In 32 bits: threads of a grid times Width stay below 2^32, and rows, too. */
  const unsigned run = static_cast<unsigned>(args.m) / Width; /* of a column */
  const unsigned at = blockIdx.x * kThreads + threadIdx.x, step = gridDim.x * kThreads;
  unsigned row = at % run;
  int64_t column = at / run;
  const unsigned step_rows = step % run, step_columns = step / run;
  const int units = static_cast<int>((args.k + args.unit_k - 1) / args.unit_k);
  const int64_t apart = args.m * args.n;
  const int group_units = args.group_k / args.unit_k;
  wait_for_earlier_kernels();
  while (column < args.n) {
    Batch<Width, Many> these;
#pragma unroll
    for (int e = 0; e < Many; e++) {
      const int64_t first = row * static_cast<int64_t>(Width);
      these.there[e] = column < args.n;
      these.d[e] = args.d + first + column * args.ldd;
      these.unit[e] = args.partials + first + column * args.m;
      these.sum[e] = {};
      if (!args.first && these.there[e]) these.sum[e] = read<Width>(these.d[e]);
      row += step_rows;
      column += step_columns;
      if (row >= run) row -= run, column++;
    }
    these.add(apart, units, group_units);
#pragma unroll
    for (int e = 0; e < Many; e++) {
#pragma unroll
      for (int w = 0; w < Width; w++)
        these.sum[e].word[w] = args.last ? args.alpha * these.sum[e].word[w] : these.sum[e].word[w];
      if (these.there[e]) write(these.d[e], these.sum[e]);
    }
  }
}

/* With few units a thread asks for those of several elements, so that it always waits for about as many. */
template <int Width> __device__ __forceinline__ void add_all(const tb_sgemm_args &args) {
  constexpr int kMost = Width == kVector ? 2 : 4; /* for four vectors there are too few registers */
  const int64_t units = (args.k + args.unit_k - 1) / args.unit_k;
  if (units <= Batch<Width, kMost>::count)
    add_all<Width, kMost>(args);
  else if (units <= Batch<Width, 2>::count)
    add_all<Width, 2>(args);
  else
    add_all<Width, 1>(args);
}

__device__ __forceinline__ void gather(const tb_sgemm_args &args) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * kThreads;
  const bool vectors = args.m % kVector == 0 && takes_vectors(args.d, args.ldd) && takes_vectors(args.partials, args.m);
  if (vectors && args.m * args.n > threads)
    add_all<kVector>(args);
  else
    add_all<1>(args);
}

} // namespace
} // namespace gather

/* Any grid of fewer than 2^23 blocks, each of 256 threads. */
extern "C" __global__ void __launch_bounds__(gather::kThreads, gather::kBlocks)
    tb_sgemm_gather(const tb_sgemm_args args) {
  gather::gather(args);
}
