/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Digests of a copy, see digest_args.h. Bound by memory: a thread has every so many-th step of a cell, of which it
 * reads 16 bytes of the copy and 32 of the key, which the caches have. Part of sgemm.cu's fat binary.
 */
#include "common/device.cuh"
#include "kept/digest_args.h"

namespace {

using word = unsigned long long;

struct Sum {
  word low = 0, high = 0;
};

__device__ __forceinline__ void add(Sum &sum, word low, word high) {
  sum.low += low;
  sum.high += high + (sum.low < low ? 1 : 0);
}

__device__ __forceinline__ void add_product(Sum &sum, word x, word y) { add(sum, x * y, __umul64hi(x, y)); }

struct Step {
  word m[2] = {0, 0};
};

/* Of so many bytes what the column has: what lies behind it in the copy is nothing of the matrix. */
__device__ __forceinline__ Step load_step(const unsigned char *at, int64_t bytes) {
  Step s;
  if (bytes >= 16) {
    s.m[0] = reinterpret_cast<const word *>(at)[0];
    s.m[1] = reinterpret_cast<const word *>(at)[1];
  } else {
    for (int i = 0; i < static_cast<int>(bytes); i++) s.m[i / 8] |= static_cast<word>(at[i]) << (8 * (i % 8));
  }
  return s;
}

__device__ __forceinline__ void add_lanes(Sum &sum) {
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    const word low = __shfl_xor_sync(0xffffffffU, sum.low, lanes), high = __shfl_xor_sync(0xffffffffU, sum.high, lanes);
    add(sum, low, high);
  }
}

} // namespace

extern "C" __global__ void __launch_bounds__(TB_DIGEST_THREADS) tb_digest(const tb_digest_args args) {
  constexpr int warps = TB_DIGEST_THREADS / 32;
  __shared__ word sums[warps][4];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int64_t cell = blockIdx.x; cell < args.count; cell += gridDim.x) {
    const int64_t number = args.first + cell, column = number / args.in_column * args.columns_each;
    const int64_t start = number % args.in_column * args.cell_bytes, left = args.column_bytes - start;
    const int64_t bytes = left < args.cell_bytes ? left : args.cell_bytes;
    const int64_t columns = args.columns - column < args.columns_each ? args.columns - column : args.columns_each;
    const int steps = static_cast<int>((bytes + 15) / 16), all = steps * static_cast<int>(columns);
    Sum first, second;
    for (int i = static_cast<int>(threadIdx.x); i < all; i += TB_DIGEST_THREADS) {
      const int of = i / steps, at = (i - of * steps) * 16;
      const Step s = load_step(args.copy + (column + of) * args.pitch + start + at, bytes - at);
      const uint64_t *const key = args.key + 2 * i;
      add_product(first, s.m[0] + key[0], s.m[1] + key[1]);
      add_product(second, s.m[0] + key[2], s.m[1] + key[3]);
    }
    add_lanes(first);
    add_lanes(second);
    if (lane == 0) {
      word *const own = sums[warp];
      own[0] = first.low, own[1] = first.high, own[2] = second.low, own[3] = second.high;
    }
    __syncthreads();
    if (threadIdx.x < 2) {
      Sum sum;
      for (int w = 0; w < warps; w++) add(sum, sums[w][2 * threadIdx.x], sums[w][2 * threadIdx.x + 1]);
      uint64_t *const digest = args.digests + 4 * cell + 2 * threadIdx.x;
      digest[0] = sum.low, digest[1] = sum.high;
    }
    __syncthreads(); /* before the next cell's sums */
  }
}
