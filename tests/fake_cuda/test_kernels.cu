/* SPDX-License-Identifier: BSD-3-Clause */
/* Small kernels with which the fake driver proves itself in test_*.c. CPU only. */
#include "device.cuh"

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
  FAKE_CUDA_TEST_KERNEL(test_many_barriers)           \
  FAKE_CUDA_TEST_KERNEL(test_order)                   \
  FAKE_CUDA_TEST_KERNEL(test_write_at)                \
  FAKE_CUDA_TEST_KERNEL(test_write_shared_at)         \
  FAKE_CUDA_TEST_KERNEL(test_cp_async_wrong)

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
