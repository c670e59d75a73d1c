/* SPDX-License-Identifier: BSD-3-Clause */
/* How the fake driver runs kernels: barriers, shared memory, warps, asynchronous copies, order, speed. */
#include "test_context.h"

#include <math.h>
#include <string.h>
#include <time.h>

static void every_thread_of_a_grid_runs_once(void **state) {
  (void)state;
  enum { COUNT = 3 * 2 * 4 * 5 * 7 * 2 };
  static int numbers[COUNT];
  for (uint64_t seed = 0; seed < 4; seed++) {
    fake_cuda_set_shuffle(seed);
    CUdeviceptr to = new_memory(sizeof numbers);
    void *parameters[] = {&to};
    OK(cuLaunchKernel(find("test_indices"), 3, 2, 4, 5, 7, 2, 0, NULL, parameters, NULL));
    OK(cuMemcpyDtoH(numbers, to, sizeof numbers));
    for (int i = 0; i < COUNT; i++) assert_int_equal(numbers[i], i);
    OK(cuMemFree(to));
  }
}

static void barriers_hold_a_block_together(void **state) {
  (void)state;
  static const char *const names[] = {"test_reverse", "test_reverse_dynamic"};
  float result[THREADS];
  for (int kernel = 0; kernel < 2; kernel++)
    for (uint64_t seed = 0; seed < 4; seed++) {
      fake_cuda_set_shuffle(seed);
      OK(run_on_ramp(names[kernel], result));
      for (int i = 0; i < THREADS; i++) assert_true(result[i] == (float)(THREADS - 1 - i));
    }
}

static void a_missing_barrier_reads_what_nobody_wrote(void **state) {
  (void)state;
  float result[THREADS];
  for (uint64_t seed = 0; seed < 4; seed++) {
    fake_cuda_set_shuffle(seed);
    OK(run_on_ramp("test_reverse_without_barrier", result));
    int unwritten = 0;
    for (int i = 0; i < THREADS; i++) unwritten += isnan(result[i]);
    assert_int_equal(unwritten, THREADS / 2);
  }
}

static void shared_memory_is_nan_in_every_block(void **state) {
  (void)state;
  enum { BLOCKS = 3 };
  float result[64 * BLOCKS];
  CUdeviceptr to = new_memory(sizeof result);
  void *parameters[] = {&to};
  OK(launch("test_unwritten_shared", BLOCKS, 32, 32 * sizeof(float), NULL, parameters));
  OK(cuMemcpyDtoH(result, to, sizeof result));
  for (int i = 0; i < 64 * BLOCKS; i++) assert_true(isnan(result[i]));
}

static void a_barrier_that_some_skip_fails_the_launch(void **state) {
  (void)state;
  for (unsigned leaving = 0; leaving <= THREADS; leaving += THREADS / 2) {
    const uint64_t misuses = fake_cuda_get(FAKE_CUDA_MISUSES);
    void *parameters[] = {&leaving};
    const int diverges = leaving > 0 && leaving < THREADS;
    fake_cuda_expect_misuses(diverges);
    OK(launch("test_diverging", 1, THREADS, 0, NULL, parameters));
    assert_int_equal(cuCtxSynchronize(), diverges ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS);
    assert_int_equal(fake_cuda_get(FAKE_CUDA_MISUSES) - misuses, diverges);
    if (diverges) { /* and nothing works any more until the context is gone */
      CUdeviceptr p;
      assert_int_equal(cuMemAlloc(&p, 4), CUDA_ERROR_LAUNCH_FAILED);
      assert_int_equal(cuStreamSynchronize(NULL), CUDA_ERROR_LAUNCH_FAILED);
      renew_context();
    }
  }
}

static CUresult launch_early(CUfunction function, void **parameters) {
  CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                             .value.programmaticStreamSerializationAllowed = 1};
  CUlaunchConfig config = {.gridDimX = 2,
                           .gridDimY = 1,
                           .gridDimZ = 1,
                           .blockDimX = THREADS,
                           .blockDimY = 1,
                           .blockDimZ = 1,
                           .attrs = &early,
                           .numAttrs = 1};
  return cuLaunchKernelEx(&config, function, parameters, NULL);
}

/* Whoever may start early has to wait, every thread; and must have been compiled for a GPU that can. */
static void early_kernels_wait(void **state) {
  (void)state;
  for (unsigned hasty = 0; hasty <= THREADS; hasty += THREADS / 2) {
    struct test_image newest = image;
    newest.architecture = 90;
    CUmodule able;
    CUfunction waiting;
    OK(cuModuleLoadData(&able, &newest));
    OK(cuModuleGetFunction(&waiting, able, "test_waiting"));
    void *parameters[] = {&hasty};
    uint64_t misuses = fake_cuda_get(FAKE_CUDA_MISUSES);
    fake_cuda_expect_misuses(1 + (hasty > 0));
    OK(cuLaunchKernel(waiting, 2, 1, 1, THREADS, 1, 1, 0, NULL, parameters, NULL));
    OK(cuCtxSynchronize());
    assert_int_equal(launch_early(find("test_waiting"), parameters), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(fake_cuda_get(FAKE_CUDA_MISUSES), ++misuses);
    OK(launch_early(waiting, parameters));
    assert_int_equal(cuCtxSynchronize(), hasty > 0 ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS);
    assert_int_equal(fake_cuda_get(FAKE_CUDA_MISUSES) - misuses, hasty > 0);
    if (hasty > 0)
      renew_context();
    else
      OK(cuModuleUnload(able));
  }
}

static void asynchronous_copies_land_at_the_wait(void **state) {
  (void)state;
  float ramp[4 * 32], result[2 * 4 * 32];
  for (int i = 0; i < 4 * 32; i++) ramp[i] = (float)i;
  CUdeviceptr from = new_memory(sizeof ramp), to = new_memory(sizeof result);
  OK(cuMemcpyHtoD(from, ramp, sizeof ramp));
  for (unsigned left = 0; left <= 2; left++)
    for (unsigned valid_bytes = 0; valid_bytes <= 16; valid_bytes += 4) {
      void *parameters[] = {&from, &to, &left, &valid_bytes};
      OK(launch("test_cp_async", 1, 32, 0, NULL, parameters));
      OK(cuMemcpyDtoH(result, to, sizeof result));
      for (int i = 0; i < 4 * 32; i++) {
        const float second = i % 4 * sizeof(float) < valid_bytes ? ramp[i] : 0;
        assert_true(left < 2 ? result[i] == ramp[i] : isnan(result[i]));
        assert_true(left < 1 ? result[4 * 32 + i] == second : isnan(result[4 * 32 + i]));
      }
    }
}

static void asynchronous_copies_to_the_wrong_place_fail_the_launch(void **state) {
  (void)state;
  for (int misaligned = 0; misaligned < 2; misaligned++) {
    CUdeviceptr from = new_memory(64), to = misaligned ? 0 : new_memory(64);
    void *parameters[] = {&from, &to};
    fake_cuda_expect_misuses(1);
    OK(launch("test_cp_async_wrong", 1, 1, 0, NULL, parameters));
    assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
    renew_context();
  }
}

static void lanes_exchange_values(void **state) {
  (void)state;
  float result[THREADS];
  for (uint64_t seed = 0; seed < 4; seed++) {
    fake_cuda_set_shuffle(seed);
    OK(run_on_ramp("test_warp_sum", result));
    for (int i = 0; i < THREADS; i++) {
      const int first = i / 32 * 32;
      assert_true(result[i] == (float)(32 * first + 31 * 32 / 2));
    }
  }
}

static void halves_of_a_warp_go_their_own_ways(void **state) {
  (void)state;
  float result[THREADS];
  for (uint64_t seed = 0; seed < 4; seed++) {
    fake_cuda_set_shuffle(seed);
    OK(run_on_ramp("test_half_warp_sums", result));
    for (int i = 0; i < THREADS; i++) {
      const float sum = (float)(16 * (i / 16 * 16) + 15 * 16 / 2);
      /* The last lane of a half has none below it, and takes its own value twice like the others. */
      assert_true(result[i] == (i % 32 < 16 ? 2 * sum : sum));
    }
  }
}

static void shuffling_changes_the_order_and_a_seed_repeats_it(void **state) {
  (void)state;
  int order[4][1 + THREADS];
  static const uint64_t seeds[4] = {0, 5, 5, 6};
  for (int run = 0; run < 4; run++) {
    fake_cuda_set_shuffle(seeds[run]);
    CUdeviceptr to = new_memory(sizeof order[0]);
    const int zero = 0;
    OK(cuMemcpyHtoD(to, &zero, sizeof zero));
    void *parameters[] = {&to};
    OK(launch("test_order", 1, THREADS, 0, NULL, parameters));
    OK(cuMemcpyDtoH(order[run], to, sizeof order[0]));
    OK(cuMemFree(to));
  }
  for (int i = 0; i < THREADS; i++) assert_int_equal(order[0][1 + i], i);
  assert_memory_not_equal(order[0], order[1], sizeof order[0]);
  assert_memory_equal(order[1], order[2], sizeof order[0]);
  assert_memory_not_equal(order[2], order[3], sizeof order[0]);
}

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* The tests of the library launch tens of thousands of small blocks; the best of many, for the machine may be busy. */
static void a_launch_costs_little(void **state) {
  (void)state;
  enum { LAUNCHES = 200, ROUNDS = 5, BARRIERS = 2 * ROUNDS };
  CUdeviceptr data = new_memory(THREADS * sizeof(float));
  int rounds = ROUNDS;
  void *parameters[] = {&data, &rounds};
  CUfunction function = find("test_many_barriers");
  double best_us = INFINITY;
  for (int i = 0; i < LAUNCHES; i++) {
    const double start = now_us();
    OK(cuLaunchKernel(function, 1, 1, 1, THREADS, 1, 1, 0, NULL, parameters, NULL));
    OK(cuStreamSynchronize(NULL));
    best_us = fmin(best_us, now_us() - start);
  }
  print_message("a launch of %d threads with %d barriers: %.1f us\n", THREADS, BARRIERS, best_us);
  assert_true(best_us < 1000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(every_thread_of_a_grid_runs_once),
      TEST(barriers_hold_a_block_together),
      TEST(a_missing_barrier_reads_what_nobody_wrote),
      TEST(shared_memory_is_nan_in_every_block),
      TEST(a_barrier_that_some_skip_fails_the_launch),
      TEST(early_kernels_wait),
      TEST(asynchronous_copies_land_at_the_wait),
      TEST(asynchronous_copies_to_the_wrong_place_fail_the_launch),
      TEST(lanes_exchange_values),
      TEST(halves_of_a_warp_go_their_own_ways),
      TEST(shuffling_changes_the_order_and_a_seed_repeats_it),
      TEST(a_launch_costs_little),
  };
  return cmocka_run_group_tests_name("fake_cuda_blocks", tests, NULL, NULL);
}
