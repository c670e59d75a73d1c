/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The three things in a matrix product that cost: reading global memory, writing global memory, and multiplying.
 *
 * Every step of the ladder does them through these functions and in no other way. On a GPU each is one instruction. On
 * the CPU (TB_ON_CPU) each also counts, so that a test can hold a kernel to what a textbook says of it, byte by byte.
 * Shared memory is not counted: it is what the steps spend to read global memory less.
 * The counters are plain integers: on the CPU one thread at a time may run these kernels.
 */
#ifndef TB_TEACHING_COUNT_CUH
#define TB_TEACHING_COUNT_CUH

#include <stdint.h>

#include "../common/device.cuh"

#ifdef TB_ON_CPU
#include "ladder.h"
extern "C" {
__attribute__((visibility("default"))) inline struct tb_ladder_counts tb_ladder_counts;
}
#define TB_COUNT(what, amount) (tb_ladder_counts.what += (amount))
#else
#define TB_COUNT(what, amount) ((void)0)
#endif

namespace teaching {

__device__ inline float load_global(const float *from) {
  TB_COUNT(bytes_read, sizeof(float));
  return *from;
}

/* One 16-byte access in place of four; `from` must be 16-byte aligned. */
__device__ inline float4 load_global_four(const float *from) {
  TB_COUNT(bytes_read, sizeof(float4));
  return *reinterpret_cast<const float4 *>(from);
}

__device__ inline void store_global(float *to, float value) {
  TB_COUNT(bytes_written, sizeof(float));
  *to = value;
}

__device__ inline void store_global_four(float *to, float4 value) {
  TB_COUNT(bytes_written, sizeof(float4));
  *reinterpret_cast<float4 *>(to) = value;
}

/* Two floating-point operations in one rounding: a * b + sum. */
__device__ inline float multiply_add(float a, float b, float sum) {
  TB_COUNT(flops, 2);
  return fmaf(a, b, sum);
}

} // namespace teaching

#undef TB_COUNT

#endif
