/* SPDX-License-Identifier: BSD-3-Clause */
/* One block of TB_TURNS_THREADS reads a float4 a lane from shared memory, again and again; see turns.c. */
#include "turns.h"

/* place[lane]: the float4 that a lane reads. cycles: of the whole block. sink: so that nothing is left out. */
extern "C" __global__ void __launch_bounds__(TB_TURNS_THREADS)
    tb_turns(const int *place, long long *cycles, float *sink) {
  __shared__ float4 words[1024];
  for (unsigned i = threadIdx.x; i < 1024; i += TB_TURNS_THREADS) words[i] = make_float4(i, i, i, i);
  __syncthreads();
  const volatile float4 *const from = words + place[threadIdx.x % 32];
  float sum = 0;
  const long long begun = clock64();
  for (int round = 0; round < TB_TURNS_ROUNDS; round++) {
#pragma unroll
    for (int load = 0; load < TB_TURNS_LOADS; load++) {
      float x, y, z, w;
      asm volatile(
          "ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
          : "=f"(x), "=f"(y), "=f"(z), "=f"(w)
          : "r"(static_cast<unsigned>(__cvta_generic_to_shared(const_cast<const float4 *>(from + load * 16)))));
      sum += x + y + z + w;
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) *cycles = clock64() - begun;
  sink[threadIdx.x] = sum;
}
