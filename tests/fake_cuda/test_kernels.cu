/* SPDX-License-Identifier: BSD-3-Clause */
/* Small kernels with which the fake driver proves itself in test_*.c. CPU only. */
#include "common/device.cuh"

/* What the fake has of this file. */
#define FAKE_CUDA_TEST_KERNELS                        \
  FAKE_CUDA_TEST_KERNEL(test_scale)                   \
  FAKE_CUDA_TEST_KERNEL(test_indices)                 \
  FAKE_CUDA_TEST_KERNEL(test_reverse)                 \
  FAKE_CUDA_TEST_KERNEL(test_reverse_without_barrier) \
  FAKE_CUDA_TEST_KERNEL(test_reverse_dynamic)         \
  FAKE_CUDA_TEST_KERNEL(test_unwritten_shared)        \
  FAKE_CUDA_TEST_KERNEL(test_diverging)               \
  FAKE_CUDA_TEST_KERNEL(test_waiting)                 \
  FAKE_CUDA_TEST_KERNEL(test_cp_async)                \
  FAKE_CUDA_TEST_KERNEL(test_warp_sum)                \
  FAKE_CUDA_TEST_KERNEL(test_half_warp_sums)          \
  FAKE_CUDA_TEST_KERNEL(test_warp_masks)              \
  FAKE_CUDA_TEST_KERNEL(test_many_barriers)           \
  FAKE_CUDA_TEST_KERNEL(test_order)                   \
  FAKE_CUDA_TEST_KERNEL(test_write_at)                \
  FAKE_CUDA_TEST_KERNEL(test_write_shared_at)         \
  FAKE_CUDA_TEST_KERNEL(test_cp_async_wrong)          \
  FAKE_CUDA_TEST_KERNEL(test_ring)                    \
  FAKE_CUDA_TEST_KERNEL(test_bulk_copies)             \
  FAKE_CUDA_TEST_KERNEL(test_barrier_counts)          \
  FAKE_CUDA_TEST_KERNEL(test_barrier_misused)         \
  FAKE_CUDA_TEST_KERNEL(test_parts)                   \
  FAKE_CUDA_TEST_KERNEL(test_votes)                   \
  FAKE_CUDA_TEST_KERNEL(test_cluster_indices)         \
  FAKE_CUDA_TEST_KERNEL(test_cluster_barriers)        \
  FAKE_CUDA_TEST_KERNEL(test_cluster_words)           \
  FAKE_CUDA_TEST_KERNEL(test_boxes)                   \
  FAKE_CUDA_TEST_KERNEL(test_cluster_misused)         \
  FAKE_CUDA_TEST_KERNEL(test_padded)

struct test_scale_args {
  const float *from;
  float *to;
  int count;
  float factor;
};

/* to[i] = factor * from[i], any grid in x. */
extern "C" __global__ void test_scale(test_scale_args a) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += gridDim.x * blockDim.x)
    a.to[i] = a.factor * a.from[i];
}

struct test_padded_args {
  unsigned *to;
  unsigned value; /* and four bytes that are nobody's */
};

extern "C" __global__ void test_padded(test_padded_args a) { *a.to = a.value; }

/* Every thread of a three-dimensional grid writes its own number. */
extern "C" __global__ void test_indices(int *to) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned number = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
  to[number] = (int)number;
}

/* In a template, as the kernels of the product are; blocks of N threads. */
template <int N> __device__ void reverse(float *data, bool with_barrier) {
  __shared__ float tile[N];
  tile[threadIdx.x] = data[threadIdx.x];
  if (with_barrier) __syncthreads();
  data[threadIdx.x] = tile[N - 1 - threadIdx.x];
}
extern "C" __global__ void test_reverse(float *data) { reverse<256>(data, true); }
extern "C" __global__ void test_reverse_without_barrier(float *data) { reverse<256>(data, false); }
extern "C" __global__ void test_reverse_dynamic(float *data) {
  TB_DYNAMIC_SHARED(float, tile);
  tile[threadIdx.x] = data[threadIdx.x];
  __syncthreads();
  data[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

/* Reads shared memory before anybody wrote it, and then writes it, for the next block to find. Blocks of 32. */
extern "C" __global__ void test_unwritten_shared(float *to) {
  __shared__ float fixed[32];
  TB_DYNAMIC_SHARED(float, dynamic);
  float *const mine = to + 64 * blockIdx.x;
  mine[threadIdx.x] = fixed[threadIdx.x];
  mine[32 + threadIdx.x] = dynamic[threadIdx.x];
  fixed[threadIdx.x] = dynamic[threadIdx.x] = 1;
}

/* The first `leaving` threads return, the others wait for them. */
extern "C" __global__ void test_diverging(unsigned leaving) {
  if (threadIdx.x < leaving) return;
  __syncthreads();
}

/* The first `hasty` threads do not wait for the kernels ahead. */
extern "C" __global__ void test_waiting(unsigned hasty) {
  if (threadIdx.x >= hasty) tb_cpu_wait_for_earlier_kernels();
}

/* Two groups of copies of 4 floats a thread; waits until all but the newest `left` are there. One block of 32. */
extern "C" __global__ void test_cp_async(const float *from, float *to, unsigned left, unsigned valid_bytes) {
  __shared__ float4 first[32], second[32];
  const unsigned i = threadIdx.x;
  tb_cpu_cp_async(&first[i], from + 4 * i, 16, 16);
  tb_cpu_cp_async_commit();
  tb_cpu_cp_async(&second[i], from + 4 * i, 16, valid_bytes);
  tb_cpu_cp_async_commit();
  tb_cpu_cp_async_wait(left);
  reinterpret_cast<float4 *>(to)[i] = first[i];
  reinterpret_cast<float4 *>(to)[32 + i] = second[i];
}

/* Each warp's sum of its lanes' values, to all lanes. */
extern "C" __global__ void test_warp_sum(float *data) {
  float sum = data[threadIdx.x];
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  data[threadIdx.x] = sum;
}

/* The halves of a warp sum apart, and only the lower half goes on to sum the sums. */
extern "C" __global__ void test_half_warp_sums(float *data) {
  const bool upper = threadIdx.x % 32 >= 16;
  float sum = data[threadIdx.x];
  for (int distance = 8; distance > 0; distance /= 2)
    sum += __shfl_xor_sync(upper ? 0xffff0000u : 0x0000ffffu, sum, distance);
  if (!upper) sum += __shfl_down_sync(0x0000ffffu, sum, 1, 16);
  data[threadIdx.x] = sum;
}

/* The halves of a warp wait with a mask each. */
extern "C" __global__ void test_warp_masks(unsigned lower, unsigned upper) {
  __syncwarp(threadIdx.x % 32 < 16 ? lower : upper);
}

/* A chain through all threads that only barriers hold together; for measuring, too. */
extern "C" __global__ void test_many_barriers(float *data, int rounds) {
  __shared__ float values[1024];
  const unsigned i = threadIdx.x, next = (i + 1) % blockDim.x;
  values[i] = data[i];
  for (int round = 0; round < rounds; ++round) {
    __syncthreads();
    const float value = values[next];
    __syncthreads();
    values[i] = value;
  }
  data[i] = values[i];
}

/* In which order the threads of the one block came: to[0] counts from 0, their numbers follow. */
extern "C" __global__ void test_order(int *to) { to[1 + to[0]++] = (int)threadIdx.x; }

/* Writes one element of global memory, or of shared memory: in bounds or not. */
extern "C" __global__ void test_write_at(float *to, long index) { to[index] = 1; }
extern "C" __global__ void test_write_shared_at(long index) {
  TB_DYNAMIC_SHARED(float, dynamic);
  dynamic[index] = 1;
}

/* cp.async to what is no shared memory, or from a misaligned address. */
extern "C" __global__ void test_cp_async_wrong(const float *from, float *to) {
  __shared__ float4 tile;
  if (to)
    tb_cpu_cp_async(to, from, 4, 4);
  else
    tb_cpu_cp_async(&tile, from + 1, 16, 16);
}

/*
 * A ring of one stage: the first half of the block fills it, round after round, and the second half brings each round
 * to to[round * half], when two barriers say so. `late`: the first arrivals for "empty" come before the reading.
 */
extern "C" __global__ void test_ring(float *to, int rounds, int late) {
  __shared__ uint64_t full, empty;
  __shared__ float stage[512];
  const unsigned half = blockDim.x / 2, i = threadIdx.x % half;
  if (threadIdx.x == 0) {
    tb_cpu_mbarrier_init(&full, half);
    tb_cpu_mbarrier_init(&empty, half);
  }
  __syncthreads();
  for (int round = 0; round < rounds; round++) {
    const unsigned parity = (unsigned)round % 2;
    if (threadIdx.x < half) {
      tb_cpu_mbarrier_wait(&empty, parity ^ 1);
      stage[i] = (float)(round * (int)half + (int)i);
      tb_cpu_mbarrier_arrive(&full);
    } else {
      tb_cpu_mbarrier_wait(&full, parity);
      if (late) tb_cpu_mbarrier_arrive(&empty);
      if (late) __syncwarp();
      to[round * (int)half + (int)i] = stage[half - 1 - i];
      if (!late) tb_cpu_mbarrier_arrive(&empty);
    }
  }
}

/*
 * Thread 0 copies `count` floats in two parts, behind its arrival that expects them or ahead of it. All look at them
 * before they wait, to[0 ..], and afterwards, to[count ..]. One block of `count` threads.
 */
extern "C" __global__ void test_bulk_copies(const float *from, float *to, int ahead) {
  __shared__ uint64_t barrier;
  __shared__ __align__(16) float tile[1024];
  const unsigned i = threadIdx.x, bytes = blockDim.x * sizeof(float) / 2, half = blockDim.x / 2;
  if (i == 0) tb_cpu_mbarrier_init(&barrier, 1);
  __syncthreads();
  if (i == 0 && !ahead) tb_cpu_mbarrier_expect(&barrier, 2 * bytes);
  if (i == 0) tb_cpu_bulk_copy(tile, from, bytes, &barrier);
  if (i == 0) tb_cpu_bulk_copy(tile + half, from + half, bytes, &barrier);
  if (i == 0 && ahead) tb_cpu_mbarrier_expect(&barrier, 2 * bytes);
  __syncthreads();
  to[i] = tile[i];
  __syncthreads();
  tb_cpu_mbarrier_wait(&barrier, 0);
  to[blockDim.x + i] = tile[i];
}

/*
 * The first thread arrives `arriving` times at a barrier for `wanted` arrivals, and all others wait for one phase, the
 * last of them before the first arrives: whoever completes a __syncthreads goes on.
 */
extern "C" __global__ void test_barrier_counts(unsigned wanted, unsigned arriving) {
  TB_DYNAMIC_SHARED(uint64_t, barriers);
  if (threadIdx.x == 0) tb_cpu_mbarrier_init(barriers + 1, wanted);
  __syncthreads();
  if (threadIdx.x == 0)
    for (unsigned i = 0; i < arriving; i++) tb_cpu_mbarrier_arrive(barriers + 1);
  else
    tb_cpu_mbarrier_wait(barriers + 1, 0);
}

/* One thing done wrong, see test_barriers.c; none with 0. */
extern "C" __global__ void test_barrier_misused(uint64_t *global, int mistake) {
  __shared__ uint64_t barriers[2];
  __shared__ __align__(16) float tile[8];
  uint64_t *const misaligned = reinterpret_cast<uint64_t *>(reinterpret_cast<char *>(barriers) + 4);
  if (threadIdx.x == 0) tb_cpu_mbarrier_init(mistake == 1 ? global : mistake == 2 ? misaligned : barriers, 1);
  if (threadIdx.x == 0 && mistake == 3) tb_cpu_mbarrier_init(barriers, 1);
  if (mistake != 4) __syncthreads();
  if (mistake == 5) tb_cpu_mbarrier_arrive(barriers + 1);
  if (mistake == 6) tb_cpu_mbarrier_expect(barriers + 1, 16);
  if (mistake == 7) tb_cpu_mbarrier_wait(barriers + 1, 0);
  if (mistake == 8) tb_cpu_mbarrier_wait(barriers, 2);
  if (mistake == 9) tb_cpu_bulk_copy(tile, global, 8, barriers);
  if (mistake == 10) tb_cpu_bulk_copy(tile, reinterpret_cast<char *>(global) + 8, 16, barriers);
  if (mistake == 11) tb_cpu_bulk_copy(global, global, 16, barriers);
  if (mistake == 12) tb_cpu_bulk_copy(tile, global, 16, barriers + 1);
  if (mistake == 13 && threadIdx.x == 0) tb_cpu_mbarrier_expect(barriers, 16); /* and no copy comes */
  if (mistake == 13) tb_cpu_mbarrier_wait(barriers, 0);
  if (mistake == 14 && threadIdx.x == 0) tb_cpu_bulk_copy(tile, global, 16, barriers); /* and nobody waits */
  tb_cpu_mbarrier_wait(barriers, 1);
}

/* Two warps of three, without the first, hand each other a word, twice. Blocks of 96. */
extern "C" __global__ void test_parts(int *to, int mistake) {
  __shared__ int words[2][96];
  const unsigned i = threadIdx.x;
  if (i < 32) return;
  for (int round = 0; round < 2; round++) {
    words[round][i] = (int)i + 96 * round;
    if (mistake == 1 && i >= 64) return;
    tb_cpu_part_barrier(mistake == 2   ? 0
                        : mistake == 3 ? 16
                                       : 1,
                        mistake == 4              ? 48
                        : mistake == 5 && i >= 64 ? 32
                                                  : 64);
    to[round * 96 + (int)i] = words[round][i ^ 96];
  }
}

/* Whether any thread of the block has a number below `below`, for two values of it one after the other. */
extern "C" __global__ void test_votes(int *to, unsigned below, unsigned then) {
  const unsigned number = blockIdx.x * blockDim.x + threadIdx.x;
  to[2 * number] = __syncthreads_or(number < below);
  to[2 * number + 1] = __syncthreads_or(number < then);
}

/* Each thread writes the rank that its warp's first one knows before others have run, and its own number, to the place
 * of the block that it asks for afterwards. */
extern "C" __global__ void test_cluster_indices(unsigned *to) {
  const unsigned rank = __shfl_sync(~0u, tb_cpu_cluster_rank(), 0);
  tb_cpu_cluster_barrier();
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  to[block * blockDim.x + threadIdx.x] = rank << 16 | threadIdx.x;
}

/*
 * Rounds in which each block waits for one arrival of every block of its cluster: the thread with its rank, of each.
 * The other threads end at once. Each of these counts its rounds, and finds those of the threads that it has waited
 * for.
 */
extern "C" __global__ void test_cluster_barriers(unsigned blocks, int rounds, int *counts) {
  TB_DYNAMIC_SHARED(uint64_t, barrier);
  if (threadIdx.x == 0) tb_cpu_mbarrier_init(barrier, blocks);
  __syncthreads();
  if (threadIdx.x >= blocks) return;
  const unsigned rank = tb_cpu_cluster_rank(), first = (blockIdx.x - rank) * blocks;
  int *const mine = counts + blockIdx.x * blocks + threadIdx.x;
  tb_cpu_cluster_barrier();
  for (int round = 0; round < rounds; round++) {
    ++*mine;
    tb_cpu_mbarrier_arrive_at(barrier, threadIdx.x);
    tb_cpu_mbarrier_wait(barrier, (unsigned)round % 2);
    for (unsigned other = 0; other < blocks; other++)
      if (counts[first + other * blocks + rank] <= round) *mine = -rounds;
    tb_cpu_cluster_barrier();
  }
}

/* Every thread of every block has a word in shared memory, and the last of a cluster's blocks writes down what it reads
 * of them, the block's own number times 1000 and the thread's. */
extern "C" __global__ void test_cluster_words(unsigned blocks, float *to) {
  TB_DYNAMIC_SHARED(float, words);
  words[threadIdx.x] = (float)(blockIdx.x * 1000 + threadIdx.x);
  tb_cpu_cluster_barrier();
  if (tb_cpu_cluster_rank() + 1 == blocks)
    for (unsigned rank = 0; rank < blocks; rank++)
      to[(blockIdx.x + 1 - blocks + rank) * blockDim.x + threadIdx.x] = *tb_cpu_word_at(words + threadIdx.x, rank);
  tb_cpu_cluster_barrier();
}

struct test_map {
  __align__(64) uint64_t words[16];
};

/*
 * Each block of a cluster has the box that begins at row `first` + its rank copied to every block: as the rank-th in
 * each. All look at what they have before they wait, to[..], and afterwards, to[words ..]. A box has a word for each of
 * the block's threads.
 */
extern "C" __global__ void test_boxes(const __grid_constant__ test_map map, int first, unsigned blocks, unsigned *to) {
  TB_DYNAMIC_SHARED(unsigned, boxes);
  uint64_t *const barrier = reinterpret_cast<uint64_t *>(boxes + blocks * blockDim.x);
  const unsigned words = blocks * blockDim.x, rank = tb_cpu_cluster_rank();
  unsigned *const mine = to + blockIdx.x * 2 * words;
  for (unsigned i = threadIdx.x; i < words; i += blockDim.x) boxes[i] = 1;
  if (threadIdx.x == 0) tb_cpu_mbarrier_init(barrier, 1);
  tb_cpu_cluster_barrier();
  if (threadIdx.x == 0) tb_cpu_mbarrier_expect(barrier, words * sizeof *boxes);
  if (threadIdx.x == 0)
    tb_cpu_box_copy(boxes + rank * blockDim.x, &map, first + (int)rank, barrier, (1u << blocks) - 1);
  tb_cpu_cluster_barrier();
  for (unsigned i = threadIdx.x; i < words; i += blockDim.x) mine[i] = boxes[i];
  tb_cpu_cluster_barrier();
  tb_cpu_mbarrier_wait(barrier, 0);
  for (unsigned i = threadIdx.x; i < words; i += blockDim.x) mine[words + i] = boxes[i];
}

/* One thing done wrong in a cluster of two blocks, see test_clusters.c; none with 0. A box has 512 bytes. */
extern "C" __global__ void test_cluster_misused(const __grid_constant__ test_map map, uint64_t *global, int mistake) {
  TB_DYNAMIC_SHARED(uint64_t, barriers); /* 16 */
  __shared__ uint64_t fixed[2];
  unsigned char *const box = reinterpret_cast<unsigned char *>(barriers + 16);
  const unsigned rank = tb_cpu_cluster_rank();
  const bool first = threadIdx.x == 0 && rank == 0;
  if (threadIdx.x == 0) tb_cpu_mbarrier_init(barriers, 1);
  if (mistake == 1 && first) tb_cpu_mbarrier_arrive_at(barriers, 1);
  if (mistake == 2 && first) tb_cpu_box_copy(box, &map, 0, barriers, 2);
  const float *const word = reinterpret_cast<const float *>(barriers);
  float read = 0;
  if (mistake == 25 && first) read = *tb_cpu_word_at(word, 1);
  tb_cpu_cluster_barrier();
  if (mistake == 26 && first) read = *tb_cpu_word_at(word, 2);
  if (mistake == 27 && first) read = *tb_cpu_word_at(reinterpret_cast<const float *>(global), 1);
  if (mistake == 3 && first) tb_cpu_mbarrier_arrive_at(barriers, 2);
  if (mistake == 4 && first) tb_cpu_mbarrier_arrive_at(barriers + 1, 1);
  if (mistake == 5 && first) tb_cpu_mbarrier_arrive_at(global, 1);
  if (mistake == 6 && first) tb_cpu_mbarrier_arrive_at(fixed, 1);
  if (mistake == 7 && first) fixed[1] = 0;
  if (mistake == 8 && first) tb_cpu_mbarrier_arrive_at(reinterpret_cast<uint64_t *>(box + 4), 1);
  if (mistake == 9 && first) tb_cpu_box_copy(box, &map, 0, barriers, 4);
  if (mistake == 10 && first) tb_cpu_box_copy(box, &map, 0, barriers, 0);
  if (mistake == 11 && first) tb_cpu_box_copy(box + 64, &map, 0, barriers, 1);
  if (mistake == 12 && first) tb_cpu_box_copy(box + 128, &map, 0, barriers, 2);
  if (mistake == 13 && first) tb_cpu_box_copy(global, &map, 0, barriers, 1);
  if (mistake == 14 && first) tb_cpu_box_copy(box, &map, 0, barriers + 1, 3);
  if (mistake == 15 && first) tb_cpu_box_copy(box, &map, 0, global, 3);
  if (mistake == 16 && first) tb_cpu_box_copy(box, &map.words[1], 0, barriers, 3);
  test_map other = map;
  other.words[mistake == 17 ? 0 : 15]++;
  if ((mistake == 17 || mistake == 18) && first) tb_cpu_box_copy(box, &other, 0, barriers, 3);
  if (mistake == 19 && first) tb_cpu_box_copy(box, &map, 0, barriers, 2); /* and nobody waits */
  if (mistake == 20 && threadIdx.x == 0) tb_cpu_mbarrier_wait(barriers, 0);
  const bool other_ends = mistake > 20 && mistake < 25;
  if (other_ends && rank == 1) return;
  if (other_ends) tb_cpu_cluster_barrier();
  if (mistake == 21 && first) tb_cpu_mbarrier_arrive_at(barriers, 1);
  if (mistake == 22 && first) tb_cpu_box_copy(box, &map, 0, barriers, 2);
  if (mistake == 23 && first) tb_cpu_mbarrier_wait(barriers, 0);
  if (mistake == 23) tb_cpu_cluster_barrier();
  if (mistake == 24 && first) read = *tb_cpu_word_at(word, 1);
  if (read != 0) global[0] = 1;
}
