/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small kernels in which something is left to chance if `mistake` is not 0, and else nothing: for the race detector and
 * the orders of warps (test_races.c, test_orders.c). One block, or one cluster. CPU only.
 */
#include "common/device.cuh"

#define FAKE_CUDA_RACE_KERNELS        \
  FAKE_CUDA_TEST_KERNEL(race_barrier) \
  FAKE_CUDA_TEST_KERNEL(race_rounds)  \
  FAKE_CUDA_TEST_KERNEL(race_parts)   \
  FAKE_CUDA_TEST_KERNEL(race_warp)    \
  FAKE_CUDA_TEST_KERNEL(race_ring)    \
  FAKE_CUDA_TEST_KERNEL(race_bulk)    \
  FAKE_CUDA_TEST_KERNEL(race_async)   \
  FAKE_CUDA_TEST_KERNEL(race_cluster) \
  FAKE_CUDA_TEST_KERNEL(race_operand) \
  FAKE_CUDA_TEST_KERNEL(race_found)

/* 1: no barrier between write and read. */
extern "C" __global__ void race_barrier(float *to, int mistake) {
  __shared__ float tile[256];
  tile[threadIdx.x] = (float)threadIdx.x;
  if (mistake != 1) __syncthreads();
  to[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

/*
 * Rounds with one barrier each, which need a double buffer; 1: there is none. Each warp but the last writes, and reads
 * what the next one has written: in turn no thread is ahead of those that still want what it writes over.
 */
extern "C" __global__ void race_rounds(float *to, int mistake) {
  __shared__ float words[2][256];
  const unsigned i = threadIdx.x, writers = blockDim.x - 32;
  float sum = 0;
  for (int round = 0; round < 6; round++) {
    float *const buffer = words[mistake == 1 ? 0 : round % 2];
    if (i < writers) buffer[i] = (float)(round + 1);
    __syncthreads();
    if (i + 32 < writers) sum += buffer[i + 32] * (float)(round + 1);
  }
  to[i] = sum;
}

/* Both halves of the block write, and read what a thread of their own half wrote. 1: a half does not meet; 2: it meets,
 * and reads what the other half wrote. */
extern "C" __global__ void race_parts(float *to, int mistake) {
  __shared__ float tile[256];
  const unsigned half = blockDim.x / 2, part = threadIdx.x / half, i = threadIdx.x % half;
  tile[threadIdx.x] = (float)threadIdx.x;
  if (mistake != 1) tb_cpu_part_barrier(1 + part, half);
  to[threadIdx.x] = tile[(mistake == 2 ? 1 - part : part) * half + half - 1 - i];
}

/* 1: lanes that do not meet. */
extern "C" __global__ void race_warp(float *to, int mistake) {
  __shared__ float tile[256];
  tile[threadIdx.x] = (float)threadIdx.x;
  if (mistake != 1) __syncwarp();
  to[threadIdx.x] = tile[threadIdx.x ^ 1];
}

/* A ring of one stage between the block's halves. 1: the consumers do not wait, in the one round that there is; 2: they
 * give the stage back before they read; 3: the producers fill it again without waiting for that. */
extern "C" __global__ void race_ring(float *to, int mistake) {
  __shared__ uint64_t full[2], empty;
  __shared__ float stage[128];
  const unsigned half = blockDim.x / 2, i = threadIdx.x % half, rounds = mistake == 1 ? 1 : 2;
  if (threadIdx.x == 0) {
    tb_cpu_mbarrier_init(&full[0], half);
    tb_cpu_mbarrier_init(&full[1], half);
    tb_cpu_mbarrier_init(&empty, half);
  }
  __syncthreads();
  for (unsigned round = 0; round < rounds; round++) {
    if (threadIdx.x < half) {
      if (round > 0 && mistake != 3) tb_cpu_mbarrier_wait(&empty, 0);
      stage[i] = (float)i;
      tb_cpu_mbarrier_arrive(&full[round]);
    } else {
      if (mistake != 1) tb_cpu_mbarrier_wait(&full[round], 0);
      if (mistake == 2) tb_cpu_mbarrier_arrive(&empty);
      to[i] = stage[half - 1 - i];
      if (mistake != 2) tb_cpu_mbarrier_arrive(&empty);
    }
  }
}

/*
 * Thread 0 has a stage filled by bulk copies, which all read, twice. 1: they do not wait for the copy, of which there
 * is one; 2: it is filled again before all have read; 3: the barriers are used by those who do not know them; 4:
 * another thread has written there before, and nobody has waited for it; 5: the asker itself reads on its way.
 */
extern "C" __global__ void race_bulk(const float *from, float *to, int mistake) {
  __shared__ uint64_t full[2], empty;
  __shared__ __align__(16) float stage[256];
  const unsigned i = threadIdx.x, bytes = blockDim.x * sizeof(float), rounds = mistake == 1 ? 1 : 2;
  if (i == 0) {
    tb_cpu_mbarrier_init(&full[0], 1);
    tb_cpu_mbarrier_init(&full[1], 1);
    tb_cpu_mbarrier_init(&empty, blockDim.x);
  }
  if (mistake != 3) __syncthreads();
  if (mistake == 4 && i == 40) stage[i] = 0;
  for (unsigned round = 0; round < rounds; round++) {
    if (i == 0 && round > 0 && mistake != 2) tb_cpu_mbarrier_wait(&empty, 0);
    if (i == 0) tb_cpu_mbarrier_expect(&full[round], bytes);
    if (i == 0) tb_cpu_bulk_copy(stage, from, bytes, &full[round]);
    if (i == 0 && mistake == 5) to[0] = stage[1];
    if (mistake != 1) tb_cpu_mbarrier_wait(&full[round], 0);
    to[i] = stage[blockDim.x - 1 - i];
    tb_cpu_mbarrier_arrive(&empty);
  }
}

/* Each thread copies a word, which another reads, twice. 1: nothing but the copier's own wait; 2: the copier reads
 * before it; 3: no barrier before the second copy. */
extern "C" __global__ void race_async(const float *from, float *to, int mistake) {
  __shared__ float tile[256];
  const unsigned i = threadIdx.x;
  for (int round = 0; round < 2; round++) {
    tb_cpu_cp_async(&tile[i], from + i, 4, 4);
    tb_cpu_cp_async_commit();
    if (mistake == 2) to[i] = tile[i];
    tb_cpu_cp_async_wait(0);
    if (mistake != 1) __syncthreads();
    to[i] = tile[blockDim.x - 1 - i];
    if (mistake != 3) __syncthreads();
  }
}

/* Each block reads the next one's words. 1: they meet, but do not share; 2: a block writes anew while another reads; 3:
 * one meets its own block alone. */
extern "C" __global__ void race_cluster(float *to, int mistake) {
  TB_DYNAMIC_SHARED(float, words);
  const unsigned i = threadIdx.x, other = tb_cpu_cluster_rank() ^ 1;
  tb_cpu_cluster_barrier();
  words[i] = (float)i;
  if (mistake == 1)
    tb_cpu_cluster_meeting();
  else if (mistake == 3)
    __syncthreads();
  else
    tb_cpu_cluster_barrier();
  to[blockIdx.x * blockDim.x + i] = *tb_cpu_word_at(words + i, other);
  if (mistake != 2) tb_cpu_cluster_barrier();
  words[i] = 0;
  tb_cpu_cluster_barrier();
}

/* The first warp has products made of what the second one then writes over. 1: before they are done. */
extern "C" __global__ void race_operand(float *to, int mistake) {
  __shared__ __align__(16) float operand[4];
  __shared__ uint64_t empty;
  if (threadIdx.x == 0) tb_cpu_mbarrier_init(&empty, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    tb_cpu_products_read(operand);
    if (mistake == 1) tb_cpu_mbarrier_arrive(&empty);
    tb_cpu_products_done();
    if (mistake != 1) tb_cpu_mbarrier_arrive(&empty);
  } else if (threadIdx.x == 32) {
    tb_cpu_mbarrier_wait(&empty, 0);
    operand[0] = 1;
  }
  to[threadIdx.x] = 1;
}

/* Threads that write the same to a word, which is volatile; 1: it is not; 2: one reads it at once. */
extern "C" __global__ void race_found(float *to, int mistake) {
  __shared__ int found;
  volatile int *const word = &found;
  if (mistake == 1)
    found = 1;
  else if (mistake != 2 || threadIdx.x != 5)
    *word = 1;
  if (mistake != 2) __syncthreads();
  to[threadIdx.x] = mistake != 2 || threadIdx.x == 5 ? (float)*word : 1;
}
