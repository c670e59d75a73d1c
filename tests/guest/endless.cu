/* SPDX-License-Identifier: BSD-3-Clause */
/* A program's kernel that never ends by itself; see test_endless.c. */

/* flags, in pinned memory: [0] becomes 1 when the kernel has begun; it ends when the host sets [1]. One thread of a
 * block looks, and not all the time: the link is for the copies of others. */
extern "C" __global__ void __launch_bounds__(1024) tst_endless(volatile int *flags) {
  if (blockIdx.x == 0 && threadIdx.x == 0) flags[0] = 1;
  while (threadIdx.x == 0 && flags[1] == 0) __nanosleep(1000);
  __syncthreads();
}
