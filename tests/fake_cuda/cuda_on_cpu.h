/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CUDA C for g++: what a kernel source of ours may use, so that the same source runs on the CPU, under sanitizers too.
 *
 * Included by kernels/common/device.cuh when TB_ON_CPU is defined, in place of what nvcc knows by itself. One block
 * runs at a time, or the blocks of one cluster, and their threads are fibers (grid.cpp), so a kernel needs no locks and
 * a read of threadIdx is a read of a global.
 *
 * What differs from a GPU, on purpose, so that mistakes show:
 *   shared memory    is filled with NaN at the start of each block (POISON in poison.h)
 *   a thread         runs on until it needs the others, so a missing barrier reads what was not written yet
 *   tb_cpu_cp_async, tb_cpu_bulk_copy
 *                    copy at the wait that guarantees the copy, never before; until then the destination is NaN
 *   __shared__       variables exist once, so a launch in clusters fails if its kernel writes there: it has
 *                    TB_DYNAMIC_SHARED, which each block has for itself
 *
 * Must not include anything of the driver, nor know any kernel.
 */
#ifndef TB_CUDA_ON_CPU_H
#define TB_CUDA_ON_CPU_H

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

/* grid.cpp finds these variables by their section, which the linker script tells from other statics by their name. */
#define __shared__ static
#define __global__
#define __device__
#define __host__
#define __constant__ static
/* Always inlined, eight kernels of a tile would have its code eight times: as fast, but three times as long to compile.
 */
#define __forceinline__ inline
/* But what vectorised loops are made of, and functions without a sanitizer's checks, which call none that has them. */
#define TB_CPU_WITHIN inline __attribute__((always_inline))
/* Of functions that touch a thread's own arrays alone, by counters that are seen to fit: what a sanitizer adds to them
 * takes longer than they do. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TB_REGISTERS_ONLY __attribute__((no_sanitize("address", "undefined", "thread"), noinline))
#else
#define TB_REGISTERS_ONLY inline
#endif
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))

/* `extern __shared__ type name[]` under nvcc: the dynamic shared memory of the launch. */
#define TB_DYNAMIC_SHARED(type, name) type *const name = reinterpret_cast<type *>(tb_cpu_dynamic_shared())

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

#define TB_CPU_VECTOR(type, name)                                         \
  struct alignas(2 * sizeof(type)) name##2 {                              \
    type x, y;                                                            \
  };                                                                      \
  struct alignas(sizeof(type) == 8 ? 16 : 4 * sizeof(type)) name##4 {     \
    type x, y, z, w;                                                      \
  };                                                                      \
  static inline name##2 make_##name##2(type x, type y) { return {x, y}; } \
  static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
TB_CPU_VECTOR(float, float)
TB_CPU_VECTOR(double, double)
TB_CPU_VECTOR(int, int)
TB_CPU_VECTOR(unsigned, uint)
#undef TB_CPU_VECTOR

/* ---- who am I ---- */

/* What a warp's lane shows the others: a word for the shuffles, fragments for the tensor cores' stand-ins. */
#define TB_CPU_LANE_BYTES 192

struct tb_cpu_thread {
  uint3 index;
  unsigned lane;
  char (*slots)[TB_CPU_LANE_BYTES]; /* of its warp's lanes */
};
extern tb_cpu_thread *tb_cpu_current;
extern dim3 tb_cpu_block_dim, tb_cpu_grid_dim;
extern uint3 tb_cpu_block_index;

#define threadIdx (tb_cpu_current->index)
#define blockIdx (tb_cpu_block_index)
#define blockDim (tb_cpu_block_dim)
#define gridDim (tb_cpu_grid_dim)
static constexpr int warpSize = 32;

/* ---- waiting for each other ---- */

/* Waits for every thread of the block. A thread that returned instead makes the launch fail. */
void tb_cpu_barrier();
/* Waits for the threads of this warp named in mask. The same calls by all of them, or the launch fails. */
void tb_cpu_warp_barrier(unsigned mask);
static TB_CPU_WITHIN void *tb_cpu_lane_slot(unsigned lane) { return tb_cpu_current->slots[lane]; }
static TB_CPU_WITHIN unsigned tb_cpu_lane() { return tb_cpu_current->lane; }
void *tb_cpu_dynamic_shared();

#define __syncthreads tb_cpu_barrier
/* The same, and gives whether the predicate of any thread was true. */
int tb_cpu_barrier_or(int predicate);
#define __syncthreads_or tb_cpu_barrier_or
/* `threads` of the block, whole warps, wait for each other at its barrier `number`, 1 to 15. A count that is no
 * multiple of 32, or differs among those who wait, makes the launch fail. */
void tb_cpu_part_barrier(unsigned number, unsigned threads);
static inline void __syncwarp(unsigned mask = 0xffffffffu) { tb_cpu_warp_barrier(mask); }

template <class T> static inline T tb_cpu_shuffle(unsigned mask, T value, unsigned from_lane) {
  static_assert(sizeof(T) <= 16, "no shuffle moves more");
  std::memcpy(tb_cpu_lane_slot(tb_cpu_lane()), &value, sizeof value);
  tb_cpu_warp_barrier(mask);
  std::memcpy(&value, tb_cpu_lane_slot(from_lane), sizeof value);
  tb_cpu_warp_barrier(mask); /* nobody overwrites a slot before everybody has read it */
  return value;
}

template <class T> static inline T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const unsigned lane = tb_cpu_lane(), first = lane / (unsigned)width * (unsigned)width;
  return tb_cpu_shuffle(mask, value, first + (unsigned)source % (unsigned)width);
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
  const unsigned lane = tb_cpu_lane(), from = lane ^ (unsigned)lane_mask;
  return tb_cpu_shuffle(mask, value, from / (unsigned)width <= lane / (unsigned)width ? from : lane);
}
template <class T> static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const unsigned lane = tb_cpu_lane(), from = lane + delta;
  return tb_cpu_shuffle(mask, value, lane % (unsigned)width + delta < (unsigned)width ? from : lane);
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const unsigned lane = tb_cpu_lane();
  return tb_cpu_shuffle(mask, value, lane % (unsigned)width >= delta ? lane - delta : lane);
}

/* Of all 32 lanes together, no others. */
static inline int __all_sync(unsigned mask, int predicate) {
  for (int lane_mask = 16; lane_mask > 0; lane_mask /= 2)
    predicate = (__shfl_xor_sync(mask, predicate, lane_mask) != 0) & (predicate != 0);
  return predicate;
}

/* ---- asynchronous copies into shared memory (cp.async) ---- */

/*
 * Copies src_bytes_valid bytes and zeros up to bytes (4, 8 or 16, to which both pointers are aligned). The bytes belong
 * to the next committed group of this thread.
 */
void tb_cpu_cp_async(void *dst_shared, const void *src_global, unsigned bytes, unsigned src_bytes_valid);
void tb_cpu_cp_async_commit();
/* Returns when all but this thread's newest n committed groups are in shared memory, where this thread sees them. */
void tb_cpu_cp_async_wait(unsigned n);

/* ---- barriers in shared memory (mbarrier) ---- */

/* The words of a barrier are this file's; a barrier that was not initialised makes the launch fail. */
void tb_cpu_mbarrier_init(uint64_t *barrier, unsigned arrivals);
void tb_cpu_mbarrier_arrive(uint64_t *barrier);
/* Arrives, and the phase does not end before bulk copies of so many bytes are done. */
void tb_cpu_mbarrier_expect(uint64_t *barrier, unsigned bytes);
/* A multiple of 16 bytes, to which both pointers are aligned. They are there when the barrier's phase has ended and
 * some thread waits for that, never before; until then the destination is NaN. */
void tb_cpu_bulk_copy(void *dst_shared, const void *src_global, unsigned bytes, uint64_t *barrier);
/* Returns when the phase of that parity has ended. */
void tb_cpu_mbarrier_wait(uint64_t *barrier, unsigned parity);

/* ---- clusters ---- */

/* 0 in a launch without clusters. */
unsigned tb_cpu_cluster_rank();
/* Waits for every thread of the cluster that has not ended. */
void tb_cpu_cluster_barrier();
/* The same, but what they have written to shared memory is not seen behind it, barriers excepted. */
void tb_cpu_cluster_meeting();
/* The word at the same offset in the shared memory of the cluster's block `rank`, which must not have ended, and must
 * be known to have begun: by a tb_cpu_cluster_barrier. */
const float *tb_cpu_word_at(const float *here_shared, unsigned rank);
/* At the barrier that stands at the same offset in the shared memory of the cluster's block `rank`, which must not have
 * ended, and must be known to have begun: by a tb_cpu_cluster_barrier. */
void tb_cpu_mbarrier_arrive_at(uint64_t *barrier, unsigned rank);
/* The box of the map (cuTensorMapEncodeTiled) whose first row that is, to the same offset in each block whose bit is
 * set in `ranks`, as tb_cpu_bulk_copy; in each it counts for the barrier at the same offset. What lies outside of the
 * map's rows and columns becomes zero. */
void tb_cpu_box_copy(void *dst_shared, const void *map, int row, uint64_t *barrier, unsigned ranks);

/* ---- tensor cores (wgmma) ---- */

/* The stand-ins read their operands at once, where a GPU reads until the products are waited for. For the race
 * detector, the running thread's part of it: 16 bytes of an operand from there on; and the wait, up to which these are
 * being read. */
#if defined(FAKE_CUDA_RACES)
void tb_cpu_products_read(const void *p);
void tb_cpu_products_done();
#else
static inline void tb_cpu_products_read(const void *) {}
static inline void tb_cpu_products_done() {}
#endif

/* ---- kernels that start early (programmatic stream serialisation) ---- */

/* Nothing but a duty: a thread of a kernel so launched that ends without it makes the launch fail. */
void tb_cpu_wait_for_earlier_kernels();

/* ---- arithmetic ---- */

static inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
/* Never contracted to an FMA, as under nvcc: the compiler cannot see through the empty instruction. */
static inline float tb_cpu_rounded(float x) {
#if defined(__x86_64__)
  __asm__("" : "+x"(x));
#else
  __asm__("" : "+m"(x));
#endif
  return x;
}
static inline float __fmul_rn(float a, float b) { return tb_cpu_rounded(a * b); }
static inline float __fadd_rn(float a, float b) { return tb_cpu_rounded(a) + b; }
static inline double tb_cpu_rounded(double x) {
#if defined(__x86_64__)
  __asm__("" : "+x"(x));
#else
  __asm__("" : "+m"(x));
#endif
  return x;
}
static inline double __dmul_rn(double a, double b) { return tb_cpu_rounded(a * b); }
static inline double __dadd_rn(double a, double b) { return tb_cpu_rounded(a) + b; }
static inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
template <class T> static inline T __ldg(const T *p) { return *p; }
template <class T> static inline constexpr T min(T a, T b) { return b < a ? b : a; }
template <class T> static inline constexpr T max(T a, T b) { return a < b ? b : a; }
static inline float min(float a, float b) { return std::fmin(a, b); }
static inline float max(float a, float b) { return std::fmax(a, b); }
static inline int __float_as_int(float x) {
  int bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  __extension__ typedef unsigned __int128 wide;
  return (unsigned long long)((wide)x * y >> 64);
}
static inline int __double2hiint(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return (int)(bits >> 32);
}
static inline int __double2loint(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return (int)(uint32_t)bits;
}
static inline float __int_as_float(int bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
/* ---- 16-bit words (IEEE 754's binary16, and the upper half of a float), rounded to the nearest, ties to even ---- */

static TB_CPU_WITHIN float tb_cpu_float_of_bfloat(uint16_t bits) {
  return __builtin_bit_cast(float, (uint32_t)bits << 16);
}
static inline uint16_t tb_cpu_bfloat_of(float x) {
  const uint32_t bits = (uint32_t)__float_as_int(x);
  if (x != x) return (uint16_t)(bits >> 16 | 0x40); /* quiet */
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
static TB_CPU_WITHIN float tb_cpu_float_of_half(uint16_t bits) {
  /* The factor adds to the exponent what the biases differ by, subnormals included; Inf and NaN get their own. */
  const float size = __builtin_bit_cast(float, (bits & 0x7fffu) << 13) * 0x1p112f;
  const uint32_t special = (bits & 0x7c00u) == 0x7c00 ? 0x7f800000 : 0;
  return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, size) | special | (bits & 0x8000u) << 16);
}
static inline uint16_t tb_cpu_half_of(float x) {
  const uint16_t sign = (uint16_t)((uint32_t)__float_as_int(x) >> 16 & 0x8000);
  const float size = std::fabs(x);
  if (size != size) return (uint16_t)(sign | 0x7e00);
  if (size >= 65520.0f) return (uint16_t)(sign | 0x7c00);
  int exponent;
  std::frexp(size, &exponent); /* size < 2^exponent */
  if (exponent < -13) exponent = -13;
  const int steps = (int)std::nearbyint(std::ldexp(size, 11 - exponent)); /* of the last place; 2048 carries over */
  return (uint16_t)(sign | (size == 0 ? 0 : ((exponent + 13) << 10) + steps));
}
/* As the tensor cores leave a sum: what a float has no room for is cut off. */
static TB_CPU_WITHIN float tb_cpu_toward_zero(double exact) {
  const float x = (float)exact;
  const bool longer = __builtin_fabs((double)x) > __builtin_fabs(exact);
  return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, x) - longer);
}

static inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline size_t __cvta_generic_to_shared(const void *p) { return reinterpret_cast<size_t>(p); }

#endif
