/* SPDX-License-Identifier: BSD-3-Clause */
/* Barriers in shared memory, their phases and the bulk copies that they count; and what is said of barriers used
 * wrongly. */
#include "test_context.h"

#include <math.h>

enum { ROUNDS = 9, HALF = THREADS / 2 };

/* How many of the ring's results are not what was written for them. */
static int run_ring(int late) {
  static float result[ROUNDS * HALF];
  CUdeviceptr to = new_memory(sizeof result);
  int rounds = ROUNDS, wrong = 0;
  void *parameters[] = {&to, &rounds, &late};
  OK(launch("test_ring", 1, THREADS, 0, NULL, parameters));
  OK(cuMemcpyDtoH(result, to, sizeof result));
  OK(cuMemFree(to));
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < HALF; i++) wrong += result[round * HALF + i] != (float)(round * HALF + HALF - 1 - i);
  return wrong;
}

static void phases_follow_each_other(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 8; seed++) {
    fake_cuda_set_shuffle(seed);
    assert_int_equal(run_ring(0), 0);
  }
}

/* A stage that is given back before it has been read: some order of threads brings it out. */
static void an_arrival_too_early_shows(void **state) {
  (void)state;
  int wrong = 0;
  for (uint64_t seed = 0; seed < 8; seed++) {
    fake_cuda_set_shuffle(seed);
    wrong += run_ring(1);
  }
  assert_true(wrong > 0);
}

static void bulk_copies_land_when_they_are_waited_for(void **state) {
  (void)state;
  float ramp[THREADS], result[2 * THREADS];
  for (int i = 0; i < THREADS; i++) ramp[i] = (float)i;
  CUdeviceptr from = new_memory(sizeof ramp), to = new_memory(sizeof result);
  OK(cuMemcpyHtoD(from, ramp, sizeof ramp));
  for (uint64_t seed = 0; seed < 4; seed++)
    for (int ahead = 0; ahead < 2; ahead++) {
      fake_cuda_set_shuffle(seed);
      void *parameters[] = {&from, &to, &ahead};
      OK(launch("test_bulk_copies", 1, THREADS, 0, NULL, parameters));
      OK(cuMemcpyDtoH(result, to, sizeof result));
      for (int i = 0; i < THREADS; i++) {
        assert_true(isnan(result[i]));
        assert_true(result[THREADS + i] == ramp[i]);
      }
    }
}

static void too_few_arrivals_fail_the_launch(void **state) {
  (void)state;
  static const struct {
    unsigned wanted, arriving;
    const char *words;
  } cases[] = {
      {1, 1, NULL},
      {3, 3, NULL},
      {3, 5, NULL}, /* the rest counts for the next phase */
      {1, 0,
       "63 at one in shared memory for threads that never come (1 have returned; thread 1 waits at byte 8 of the "
       "dynamic shared memory, whose phase 0 lacks 1 of 1 arrivals and 0 bytes)"},
      {3, 2, "whose phase 0 lacks 1 of 3 arrivals"},
      {3, 6, "two phases before a thread that waits for the first has run"},
      {1, 3, "two phases before a thread that waits for the first has run"},
      {0, 1, "a number of arrivals that cannot be"},
      {65536, 1, "a number of arrivals that cannot be"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    void *parameters[] = {(void *)&cases[i].wanted, (void *)&cases[i].arriving};
    OK(launch("test_barrier_counts", 1, 64, 16, NULL, parameters));
    expect_complaint(cases[i].words);
  }
}

static void misuse_fails_the_launch(void **state) {
  (void)state;
  static const char *const words[] = {
      NULL,
      "a barrier that is not in shared memory",
      "a misaligned barrier",
      "initialised twice",
      "not initialised", /* another thread comes first where no __syncthreads holds it */
      "not initialised",
      "not initialised",
      "not initialised",
      "a parity other than 0 and 1",
      "what is no multiple of 16 bytes",
      "a bulk copy with a misaligned address",
      "a bulk copy to an address that is not in shared memory",
      "not initialised",
      "whose phase 0 lacks 0 of 1 arrivals and 16 bytes",
      "a block ended while bulk copies to it were on their way",
  };
  for (int mistake = 0; mistake < (int)(sizeof words / sizeof words[0]); mistake++) {
    CUdeviceptr global = new_memory(32);
    void *parameters[] = {&global, &mistake};
    fake_cuda_set_shuffle(1); /* thread 0 is not the first */
    OK(launch("test_barrier_misused", 1, 64, 0, NULL, parameters));
    expect_complaint(words[mistake]);
    if (!words[mistake]) OK(cuMemFree(global)); /* else it went with the context */
  }
}

static void parts_of_a_block_meet(void **state) {
  (void)state;
  int words[2][96];
  const CUdeviceptr to = new_memory(sizeof words);
  for (uint64_t seed = 0; seed < 20; seed++) {
    int mistake = 0;
    void *parameters[] = {(void *)&to, &mistake};
    fake_cuda_set_shuffle(seed);
    OK(launch("test_parts", 1, 96, 0, NULL, parameters));
    OK(cuMemcpyDtoH(words, to, sizeof words));
    for (int round = 0; round < 2; round++)
      for (int i = 32; i < 96; i++) assert_int_equal(words[round][i], (i ^ 96) + 96 * round);
  }
  OK(cuMemFree(to));
}

static void parts_that_disagree_fail_the_launch(void **state) {
  (void)state;
  static const char *const words[] = {
      "0 threads wait at __syncthreads, 32 at a part's barrier, 0 at a warp barrier",
      "at a barrier of a part that no block can have",
      "at a barrier of a part that no block can have",
      "at a barrier of a part that no block can have",
      "at a part's barrier for different numbers of threads",
  };
  for (int mistake = 1; mistake <= (int)(sizeof words / sizeof words[0]); mistake++) {
    CUdeviceptr to = new_memory(2 * 96 * sizeof(int));
    void *parameters[] = {&to, &mistake};
    fake_cuda_set_shuffle(0);
    OK(launch("test_parts", 1, 96, 0, NULL, parameters));
    expect_complaint(words[mistake - 1]);
  }
}

static void masks_that_disagree_fail_the_launch(void **state) {
  (void)state;
  static const struct {
    unsigned lower, upper;
    const char *words;
  } cases[] = {
      {0xffffffffu, 0xffffffffu, NULL},
      {0x0000ffffu, 0xffff0000u, NULL},
      {0x00ffffffu, 0xffffff00u, "different masks"},
      {0x0000ffffu, 0x0000ffffu, "whose mask does not name it"}, /* the upper half does not name itself */
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (uint64_t seed = 0; seed < 4; seed++) {
      fake_cuda_set_shuffle(seed);
      void *parameters[] = {(void *)&cases[i].lower, (void *)&cases[i].upper};
      OK(launch("test_warp_masks", 1, 64, 0, NULL, parameters));
      expect_complaint(cases[i].words);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(phases_follow_each_other),
      TEST(an_arrival_too_early_shows),
      TEST(bulk_copies_land_when_they_are_waited_for),
      TEST(too_few_arrivals_fail_the_launch),
      TEST(misuse_fails_the_launch),
      TEST(parts_of_a_block_meet),
      TEST(parts_that_disagree_fail_the_launch),
      TEST(masks_that_disagree_fail_the_launch),
  };
  return cmocka_run_group_tests_name("fake_cuda_barriers", tests, NULL, NULL);
}
