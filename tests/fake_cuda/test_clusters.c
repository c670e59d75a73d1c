/* SPDX-License-Identifier: BSD-3-Clause */
/* Clusters: blocks side by side, each with its own shared memory, which others reach; and what is said of them, and of
 * boxes (test_boxes.c), used wrongly. */
#include "test_cluster.h"

enum { SEEDS = 6 };

static void every_block_knows_its_place(void **state) {
  (void)state;
  static const struct shape shapes[] = {{{3, 2, 2}, {1, 1, 1}},
                                        {{6, 1, 1}, {2, 1, 1}},
                                        {{4, 6, 2}, {2, 3, 1}},
                                        {{2, 2, 4}, {1, 2, 4}},
                                        {{8, 1, 2}, {8, 1, 1}}};
  enum { WORDS = 48 * 40 };
  static unsigned places[WORDS];
  CUfunction function = find_for_clusters("test_cluster_indices");
  CUdeviceptr to = new_memory(sizeof places);
  void *parameters[] = {&to};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
      const struct shape s = shapes[i];
      const unsigned *const c = s.cluster;
      const unsigned threads = i % 2 ? 40 : 32; /* whole warps, or not */
      fake_cuda_set_shuffle(seed);
      OK(launch_clusters(function, s, threads, 0, parameters));
      OK(cuMemcpyDtoH(places, to, sizeof places));
      for (unsigned at = 0; at < s.grid[0] * s.grid[1] * s.grid[2] * threads; at++) {
        const unsigned block = at / threads, x = block % s.grid[0], y = block / s.grid[0] % s.grid[1];
        const unsigned rank = x % c[0] + (y % c[1] + block / s.grid[0] / s.grid[1] % c[2] * c[1]) * c[0];
        assert_int_equal(places[at], rank << 16 | at % threads);
      }
    }
}

static void blocks_wait_for_each_other(void **state) {
  (void)state;
  enum { CLUSTERS = 3, MOST = 8 };
  int rounds = 5;
  CUfunction function = find_for_clusters("test_cluster_barriers");
  for (unsigned blocks = 1; blocks <= MOST; blocks *= 2)
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
      int counts[CLUSTERS * MOST * MOST] = {0};
      CUdeviceptr to = new_memory(sizeof counts);
      OK(cuMemcpyHtoD(to, counts, sizeof counts));
      void *parameters[] = {&blocks, &rounds, &to};
      fake_cuda_set_shuffle(seed);
      OK(launch_clusters(function, in_a_row(CLUSTERS, blocks), 48, sizeof(uint64_t), parameters));
      OK(cuMemcpyDtoH(counts, to, sizeof counts));
      for (unsigned i = 0; i < CLUSTERS * blocks * blocks; i++) assert_int_equal(counts[i], rounds);
      OK(cuMemFree(to));
    }
}

static void words_of_other_blocks(void **state) {
  (void)state;
  enum { CLUSTERS = 3, MOST = 8, THREADS = 40 };
  CUfunction function = find_for_clusters("test_cluster_words");
  for (unsigned blocks = 1; blocks <= MOST; blocks++)
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
      float words[CLUSTERS * MOST * THREADS];
      CUdeviceptr to = new_memory(sizeof words);
      void *parameters[] = {&blocks, &to};
      fake_cuda_set_shuffle(seed);
      OK(launch_clusters(function, in_a_row(CLUSTERS, blocks), THREADS, THREADS * sizeof(float), parameters));
      OK(cuMemcpyDtoH(words, to, sizeof words));
      for (unsigned i = 0; i < CLUSTERS * blocks * THREADS; i++)
        assert_true(words[i] == (float)(i / THREADS * 1000 + i % THREADS));
      OK(cuMemFree(to));
    }
}

/* On a device whose SMs are all beside each other. */
static void as_many_clusters_at_once(void **state) {
  (void)state;
  CUfunction function = find_for_clusters("test_cluster_words"), other = (CUfunction)&function;
  CUlaunchAttribute size = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {3, 1, 1}};
  CUlaunchConfig config = {.gridDimX = 6,
                           .gridDimY = 1,
                           .gridDimZ = 1,
                           .blockDimX = 64,
                           .blockDimY = 1,
                           .blockDimZ = 1,
                           .attrs = &size,
                           .numAttrs = 1};
  int held = 0, multiprocessors = 0, clusters = 0;
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&held, function, 64, 0));
  OK(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  OK(cuOccupancyMaxActiveClusters(&clusters, function, &config));
  assert_true(held > 0 && clusters == held * multiprocessors / 3);
  assert_int_equal(cuOccupancyMaxActiveClusters(&clusters, other, &config), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuOccupancyMaxActiveClusters(NULL, function, &config), CUDA_ERROR_INVALID_VALUE);
  config.gridDimX = 5;
  assert_int_equal(cuOccupancyMaxActiveClusters(&clusters, function, &config), CUDA_ERROR_INVALID_CLUSTER_SIZE);
}

static void votes_are_a_blocks_own(void **state) {
  (void)state;
  enum { THREADS_EACH = 40, BLOCKS = 4 };
  int votes[BLOCKS * THREADS_EACH][2];
  CUfunction function = find_for_clusters("test_votes");
  CUdeviceptr to = new_memory(sizeof votes);
  for (unsigned below = 0; below <= BLOCKS * THREADS_EACH; below += THREADS_EACH / 2)
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
      unsigned then = BLOCKS * THREADS_EACH - below;
      void *parameters[] = {&to, &below, &then};
      fake_cuda_set_shuffle(seed);
      OK(launch_clusters(function, in_a_row(2, BLOCKS / 2), THREADS_EACH, 0, parameters));
      OK(cuMemcpyDtoH(votes, to, sizeof votes));
      for (unsigned i = 0; i < BLOCKS * THREADS_EACH; i++) {
        assert_int_equal(votes[i][0], i / THREADS_EACH * THREADS_EACH < below);
        assert_int_equal(votes[i][1], i / THREADS_EACH * THREADS_EACH < then);
      }
    }
}

/* ---- mistakes ---- */

static void impossible_clusters_are_refused(void **state) {
  (void)state;
  static const struct {
    struct shape shape;
    CUresult expected;
  } cases[] = {
      {{{4, 4, 4}, {2, 2, 2}}, CUDA_SUCCESS},
      {{{8, 1, 1}, {8, 1, 1}}, CUDA_SUCCESS},
      {{{16, 1, 1}, {16, 1, 1}}, CUDA_ERROR_INVALID_CLUSTER_SIZE},
      {{{4, 4, 4}, {2, 2, 4}}, CUDA_ERROR_INVALID_CLUSTER_SIZE},
      {{{3, 2, 2}, {2, 1, 1}}, CUDA_ERROR_INVALID_CLUSTER_SIZE},
      {{{2, 3, 2}, {1, 2, 1}}, CUDA_ERROR_INVALID_CLUSTER_SIZE},
      {{{2, 2, 3}, {1, 1, 2}}, CUDA_ERROR_INVALID_CLUSTER_SIZE},
      {{{2, 1, 1}, {0, 1, 1}}, CUDA_ERROR_INVALID_CLUSTER_SIZE},
      {{{2, 1, 1}, {4, 1, 1}}, CUDA_ERROR_INVALID_CLUSTER_SIZE},
  };
  CUdeviceptr to = new_memory(64 * sizeof(unsigned));
  void *parameters[] = {&to};
  CUfunction function = find_for_clusters("test_cluster_indices"), older = find("test_cluster_indices");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    assert_int_equal(launch_clusters(function, cases[i].shape, 1, 0, parameters), cases[i].expected);
  const uint64_t misuses = fake_cuda_get(FAKE_CUDA_MISUSES);
  fake_cuda_expect_misuses(1);
  OK(launch_clusters(older, in_a_row(1, 1), 1, 0, parameters));
  assert_int_equal(launch_clusters(older, in_a_row(1, 2), 1, 0, parameters), CUDA_ERROR_NOT_SUPPORTED);
  assert_int_equal(fake_cuda_get(FAKE_CUDA_MISUSES), misuses + 1);
  OK(cuCtxSynchronize());
}

static void a_launch_that_fails_midway_leaves_whole_clusters(void **state) {
  (void)state;
  CUdeviceptr to = new_memory(64 * sizeof(unsigned));
  void *parameters[] = {&to};
  CUfunction function = find_for_clusters("test_cluster_indices");
  const uint64_t before = fake_cuda_get(FAKE_CUDA_BLOCKS);
  assert_int_equal(fake_cuda_fail("cuLaunchKernelEx", 1, CUDA_ERROR_LAUNCH_FAILED, FAKE_CUDA_ASYNC), 0);
  OK(launch_clusters(function, in_a_row(5, 2), 1, 0, parameters));
  assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
  assert_int_equal(fake_cuda_get(FAKE_CUDA_BLOCKS) - before, 4);
  renew_context();
}

static void misuse_fails_the_launch(void **state) {
  (void)state;
  static const char *const words[] = {
      NULL,
      "a block that may not have begun",
      "a block that may not have begun",
      "a block that the cluster does not have",
      "not initialised",
      "a barrier that is not in shared memory",
      "static shared memory of another block",
      "static shared memory is written",
      "a misaligned barrier",
      "a block that the cluster does not have",
      "a copy of a box to no block",
      "a copy of a box to a misaligned address",
      "a read of what is not in shared memory",
      "a read of what is not in shared memory",
      "not initialised",
      "a barrier that is not in shared memory",
      "a misaligned tensor map",
      "a tensor map that cuTensorMapEncodeTiled did not make",
      "a tensor map that cuTensorMapEncodeTiled did not make",
      "a block ended while bulk copies to it were on their way",
      "0 threads wait at __syncthreads, 0 at a warp barrier, 0 for their cluster and 2 at one in shared memory for "
      "threads that never come (62 have returned; thread 0 of the cluster's block 0 waits at byte 0 of the dynamic "
      "shared memory, whose phase 0 lacks 1 of 1 arrivals and 0 bytes; thread 0 of the cluster's block 1 waits at",
      "a block that has ended",
      "a block that has ended",
      "31 for their cluster and 1 at one in shared memory for threads that never come (32 have returned; thread 0 of",
      "a read of a block that has ended",
      "a read of a block that may not have begun",
      "a read of a block that the cluster does not have",
      "a read of what is not in shared memory",
  };
  for (int mistake = 0; mistake < (int)(sizeof words / sizeof words[0]); mistake++)
    for (uint64_t seed = 0; seed < 3; seed++) {
      CUdeviceptr global = new_memory(1024);
      CUtensorMap map;
      struct map_request request = rows_at(global);
      request.box[0] = 128;
      OK(encode(&request, &map));
      void *parameters[] = {&map, &global, &mistake};
      fake_cuda_set_shuffle(seed);
      OK(launch_clusters(find_for_clusters("test_cluster_misused"), in_a_row(1, 2), 32, 16 * 8 + 512, parameters));
      expect_complaint(words[mistake]);
      if (!words[mistake]) OK(cuMemFree(global)); /* else it went with the context */
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(every_block_knows_its_place),     TEST(blocks_wait_for_each_other),
      TEST(words_of_other_blocks),           TEST(as_many_clusters_at_once),
      TEST(votes_are_a_blocks_own),

      TEST(impossible_clusters_are_refused), TEST(a_launch_that_fails_midway_leaves_whole_clusters),
      TEST(misuse_fails_the_launch),
  };
  return cmocka_run_group_tests_name("fake_cuda_clusters", tests, NULL, NULL);
}
