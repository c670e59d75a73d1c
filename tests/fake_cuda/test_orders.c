/* SPDX-License-Identifier: BSD-3-Clause */
/* The orders in which warps may go on: what a kernel leaves to chance, one of them brings out by its numbers alone. */
#include "test_context.h"

enum { COUNT = 128 };

/* How many words of race_rounds are wrong. */
static int run_rounds(int mistake) {
  float result[COUNT];
  int wrong = 0;
  CUdeviceptr to = new_memory(sizeof result);
  void *parameters[] = {&to, &mistake};
  OK(launch("race_rounds", 1, COUNT, 0, NULL, parameters));
  OK(cuMemcpyDtoH(result, to, sizeof result));
  OK(cuMemFree(to));
  for (int i = 0; i < COUNT; i++) wrong += result[i] != (i < COUNT - 64 ? 1 + 4 + 9 + 16 + 25 + 36 : 0);
  return wrong;
}

static int run_in(enum fake_cuda_warps warps, uint64_t seed, int mistake) {
  fake_cuda_set_warps(warps, seed);
  const int wrong = run_rounds(mistake);
  fake_cuda_set_warps(FAKE_CUDA_IN_TURN, 0);
  return wrong;
}

/* In turn the mistake stays hidden, which is why there are other orders. */
static void a_warp_ahead_shows_a_missing_double_buffer(void **state) {
  (void)state;
  assert_int_equal(run_in(FAKE_CUDA_IN_TURN, 0, 1), 0);
  assert_int_equal(run_in(FAKE_CUDA_ONE_AHEAD, 0, 1), 0); /* nobody reads what the first warp writes */
  assert_true(run_in(FAKE_CUDA_ONE_AHEAD, 1, 1) > 0);
  assert_true(run_in(FAKE_CUDA_ONE_AHEAD, 2, 1) > 0);
  assert_true(run_in(FAKE_CUDA_ONE_AHEAD, 5, 1) > 0); /* of four */
  assert_true(run_in(FAKE_CUDA_ONE_BEHIND, 0, 1) > 0);
  assert_true(run_in(FAKE_CUDA_LAST_FIRST, 0, 1) > 0);
  for (uint64_t seed = 1; seed <= 4; seed++) assert_true(run_in(FAKE_CUDA_AT_RANDOM, seed, 1) > 0);
}

static void a_correct_kernel_is_right_in_every_order(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 5; seed++)
    for (int warps = FAKE_CUDA_IN_TURN; warps <= FAKE_CUDA_AT_RANDOM; warps++) {
      fake_cuda_set_shuffle(seed);
      assert_int_equal(run_in((enum fake_cuda_warps)warps, seed, 0), 0);
    }
}

/* The first thread to run, of those that only count themselves. */
static int first_of(enum fake_cuda_warps warps, uint64_t seed) {
  static const int none[1 + COUNT];
  int order[1 + COUNT];
  CUdeviceptr to = new_memory(sizeof order);
  OK(cuMemcpyHtoD(to, none, sizeof none));
  void *parameters[] = {&to};
  fake_cuda_set_warps(warps, seed);
  OK(launch("test_order", 1, COUNT, 0, NULL, parameters));
  OK(cuMemcpyDtoH(order, to, sizeof order));
  fake_cuda_set_warps(FAKE_CUDA_IN_TURN, 0);
  OK(cuMemFree(to));
  assert_int_equal(order[0], COUNT);
  if (warps == FAKE_CUDA_ONE_BEHIND) assert_int_equal(order[COUNT] / 32, seed % 4);
  return order[1];
}

static void the_seed_names_the_warp(void **state) {
  (void)state;
  assert_int_equal(first_of(FAKE_CUDA_IN_TURN, 0), 0);
  assert_int_equal(first_of(FAKE_CUDA_LAST_FIRST, 0), COUNT - 1);
  for (int seed = 0; seed < 8; seed++) {
    assert_int_equal(first_of(FAKE_CUDA_ONE_AHEAD, (uint64_t)seed), seed % 4 * 32);
    assert_int_equal(first_of(FAKE_CUDA_ONE_BEHIND, (uint64_t)seed), seed % 4 == 0 ? 32 : 0);
  }
  int firsts = 0;
  for (uint64_t seed = 1; seed <= 8; seed++) firsts += first_of(FAKE_CUDA_AT_RANDOM, seed) != 0;
  assert_true(firsts > 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_warp_ahead_shows_a_missing_double_buffer),
      TEST(a_correct_kernel_is_right_in_every_order),
      TEST(the_seed_names_the_warp),
  };
  return cmocka_run_group_tests_name("fake_cuda_orders", tests, NULL, NULL);
}
