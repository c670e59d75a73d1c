/* SPDX-License-Identifier: BSD-3-Clause */
/* The race detector: each kernel of test_race_kernels.cu passes as it is, and fails with each of its mistakes, whatever
 * the order in which its threads happen to run. */
#include "test_context.h"

/* No order is excused: races are found in all of them. */
static void in_all_orders(void (*run)(int order)) {
  for (int order = 0; order < 6; order++) {
    static const enum fake_cuda_warps warps[] = {FAKE_CUDA_IN_TURN,    FAKE_CUDA_ONE_AHEAD, FAKE_CUDA_ONE_BEHIND,
                                                 FAKE_CUDA_LAST_FIRST, FAKE_CUDA_AT_RANDOM, FAKE_CUDA_AT_RANDOM};
    fake_cuda_set_warps(warps[order], (uint64_t)order);
    fake_cuda_set_shuffle((uint64_t)order / 5);
    run(order);
  }
  fake_cuda_set_warps(FAKE_CUDA_IN_TURN, 0);
}

/* One block of `count` threads. */
static void expect(const char *name, int mistake, unsigned count, const char *words) {
  CUdeviceptr to = new_memory(2 * THREADS * sizeof(float));
  void *parameters[] = {&to, &mistake};
  OK(launch(name, 1, count, 0, NULL, parameters));
  expect_complaint(words);
  if (!words) OK(cuMemFree(to));
}

static void expect_from(const char *name, int mistake, unsigned count, const char *words) {
  CUdeviceptr from = new_memory(THREADS * sizeof(float)), to = new_memory(THREADS * sizeof(float));
  static const float zeros[THREADS];
  OK(cuMemcpyHtoD(from, zeros, sizeof zeros));
  void *parameters[] = {&from, &to, &mistake};
  OK(launch(name, 1, count, 0, NULL, parameters));
  expect_complaint(words);
  if (!words) {
    OK(cuMemFree(from));
    OK(cuMemFree(to));
  }
}

/* A cluster of two blocks, which exists in code for 9.0 and later. */
static void expect_in_cluster(int mistake, const char *words) {
  struct test_image newest = image;
  newest.architecture = 90;
  CUmodule able;
  CUfunction function;
  OK(cuModuleLoadData(&able, &newest));
  OK(cuModuleGetFunction(&function, able, "race_cluster"));
  CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {2, 1, 1}};
  const CUlaunchConfig config = {.gridDimX = 2,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 64,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .sharedMemBytes = 64 * sizeof(float),
                                 .attrs = &cluster,
                                 .numAttrs = 1};
  CUdeviceptr to = new_memory(2 * 64 * sizeof(float));
  void *parameters[] = {&to, &mistake};
  OK(cuLaunchKernelEx(&config, function, parameters, NULL));
  expect_complaint(words);
  if (!words) OK(cuMemFree(to));
}

static const char race[] = "a race in shared memory";

static void run_barriers(int order) {
  (void)order;
  expect("race_barrier", 0, 128, NULL);
  expect("race_barrier", 1, 128, race);
  expect("race_rounds", 0, 128, NULL);
  expect("race_rounds", 1, 128, race);
  expect("race_parts", 0, 128, NULL);
  expect("race_parts", 1, 128, race);
  expect("race_parts", 2, 128, race);
  expect("race_warp", 0, 64, NULL);
  expect("race_warp", 1, 64, race);
}
static void barriers(void **state) {
  (void)state;
  in_all_orders(run_barriers);
}

static void run_rings(int order) {
  (void)order;
  expect("race_ring", 0, 128, NULL);
  for (int mistake = 1; mistake <= 3; mistake++) expect("race_ring", mistake, 128, race);
  expect("race_operand", 0, 64, NULL);
  expect("race_operand", 1, 64, race);
}
static void barriers_in_shared_memory(void **state) {
  (void)state;
  in_all_orders(run_rings);
}

static void run_copies(int order) {
  expect_from("race_bulk", 0, 64, NULL);
  expect_from("race_async", 0, 64, NULL);
  for (int mistake = 1; mistake <= 3; mistake++) expect_from("race_async", mistake, 64, race);
  expect_from("race_bulk", 1, 64, race);
  expect_from("race_bulk", 2, 64, race);
  expect_from("race_bulk", 4, 64, race);
  expect_from("race_bulk", 5, 64, race);
  if (order == 0) expect_from("race_bulk", 3, 64, "does not know that it is initialised");
}
static void asynchronous_copies(void **state) {
  (void)state;
  in_all_orders(run_copies);
}

static void run_clusters(int order) {
  (void)order;
  expect_in_cluster(0, NULL);
  for (int mistake = 1; mistake <= 3; mistake++) expect_in_cluster(mistake, race);
}
static void clusters(void **state) {
  (void)state;
  in_all_orders(run_clusters);
}

static void run_volatile(int order) {
  (void)order;
  expect("race_found", 0, 64, NULL);
  expect("race_found", 1, 64, race);
  expect("race_found", 2, 64, race);
}
static void words_that_all_write_alike(void **state) {
  (void)state;
  in_all_orders(run_volatile);
}

/* What is said of one: kernel, block, both threads, the place, and since when. */
static void a_race_is_told_in_full(void **state) {
  (void)state;
  expect("race_barrier", 1, 128, "a race in shared memory: thread 64 writes byte ");
  expect(
      "race_barrier", 1, 128,
      " of the static shared memory, which thread 63 has read, and nothing orders the two, since the block began, in "
      "block (0, 0, 0) of race_barrier");
  expect_in_cluster(2, "of the cluster's block 1 has written, and nothing");
  expect("race_rounds", 1, 128, "since __syncthreads number 1 of the block, in block (0, 0, 0) of race_rounds");
  expect_from("race_bulk", 5, 64, "thread 0 reads byte ");
  expect_from("race_bulk", 5, 64, "which a bulk copy has written, and nothing orders");
  expect_from("race_async", 2, 64, "which thread 0 has a copy made to that is on its way, and nothing orders");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(barriers), TEST(barriers_in_shared_memory),  TEST(asynchronous_copies),
      TEST(clusters), TEST(words_that_all_write_alike), TEST(a_race_is_told_in_full),
  };
  return cmocka_run_group_tests_name("fake_cuda_races", tests, NULL, NULL);
}
