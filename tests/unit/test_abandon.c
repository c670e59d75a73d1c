/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A product that fails on the GPU, at one driver call after another, while the copying threads are busy elsewhere: when
 * it has come back nobody copies for it any more, nor will, for its slots are unpinned and its operands may be freed.
 *
 * And one that finds no memory beside others, which has not failed.
 *
 * Seen to fail when: pieces that were begun and not sent are not waited for; a lane without memory counts as a failure.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fake.h"
#include "offload/part.h"
#include "pipeline/lanes.h"
#include "process.h"

enum { M = 700, N = 600, K = 500 };

static const struct tst_fake *fake;
static atomic_int busy;

/* Keeps a copying thread from the product's copies until the test is over. */
static void be_busy(void *caller, int index) {
  (void)index;
  if (pthread_equal(*(pthread_t *)caller, pthread_self())) return;
  atomic_store(&busy, 1);
  while (atomic_load(&busy)) sched_yield();
}

/* True: the product is computed, so that the failure was to come later. */
static bool run(const char *function, unsigned long nth) {
  static struct tb_device device;
  static struct tb_part part;
  char detail[200];
  assert_int_equal(tb_device_open(&device, 0, false, detail, sizeof detail), TB_STATUS_ok);
  device.pool = tb_pool_open(2, false);
  assert_non_null(device.pool);
  pthread_t caller = pthread_self();
  const uint64_t job = tb_pool_start(device.pool, be_busy, &caller, 2); /* one alone would be the caller's */
  while (!atomic_load(&busy)) sched_yield();
  assert_true(tb_pool_help(device.pool));
  float *const memory = calloc((size_t)(M * K + K * N + M * N), sizeof *memory);
  const struct tb_call call = {.m = M,
                               .n = N,
                               .k = K,
                               .alpha = {1},
                               .a = {memory, M, false},
                               .b = {memory + M * K, K, false},
                               .c = memory + M * K + K * N,
                               .ldc = M};
  const struct tb_ways ways = {TB_STAGED, TB_STAGED, TB_STAGED, false, 0, TB_MAY_BE_KEPT};
  const struct tb_choice whole = tb_part_choose(&device, &call, ways);
  assert_int_equal(fake->inject(function, nth, CUDA_ERROR_UNKNOWN, 0), 0);
  tb_part_run(&part, &device, &call, ways, &whole, false, NULL);
  fake->clear_failures();
  const bool left = tb_pool_help(device.pool);
  atomic_store(&busy, 0);
  tb_pool_wait(device.pool, job);
  if (left) fail_msg("%s number %lu: there is work left to do", function, nth);
  tb_device_close(&device);
  tb_pool_close(device.pool);
  free(memory);
  return part.why == TB_STATUS_ok;
}

static void nobody_copies_behind_a_failure(void **state) {
  (void)state;
  static const char *const functions[] = {"cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync"};
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
    unsigned long nth = 1;
    while (!run(functions[i], nth)) nth++;
    printf("%s: %lu\n", functions[i], nth - 1);
    assert_true(nth > 2);
  }
}

/* A lane that is told of memory enough, and refused it then, for somebody else was quicker: its call has not failed but
 * is to be made alone, and C is as it was. */
static void a_lane_that_is_refused_memory(void **state) {
  enum { SIDE = 100 };
  static struct tb_device device;
  static struct tb_lanes lanes;
  static struct tb_part part;
  static float a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE];
  char detail[200];
  (void)state;
  assert_int_equal(tb_device_open(&device, 0, false, detail, sizeof detail), TB_STATUS_ok);
  tb_lanes_begin(&lanes, &device);
  struct tb_device *const lane = tb_lanes_device(&lanes, 1);
  assert_non_null(lane);
  for (int i = 0; i < SIDE * SIDE; i++) a[i] = b[i] = c[i] = 1;
  const struct tb_call call = {.m = SIDE,
                               .n = SIDE,
                               .k = SIDE,
                               .alpha = {1},
                               .beta = {1},
                               .a = {a, SIDE, false},
                               .b = {b, SIDE, false},
                               .c = c,
                               .ldc = SIDE};
  const struct tb_ways ways = {TB_STAGED, TB_STAGED, TB_STAGED, false, 0, TB_MAY_BE_KEPT};
  for (int refused = 1; refused >= 0; refused--) {
    const struct tb_choice whole = tb_part_choose(lane, &call, ways);
    if (refused) assert_int_equal(fake->inject("cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY, 0), 0);
    tb_part_run(&part, lane, &call, ways, &whole, false, NULL);
    fake->clear_failures();
    assert_int_equal(part.crowded, refused);
    assert_int_equal(part.committed, !refused);
    assert_true(refused ? tb_cuda_failed_call == NULL : part.why == TB_STATUS_ok);
    for (int i = 0; i < SIDE * SIDE; i++) assert_true(c[i] == (refused ? 1 : SIDE + 1));
  }
  assert_true(tb_lanes_close(&lanes));
  tb_lanes_end(&lanes);
  tb_device_close(&device);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(nobody_copies_behind_a_failure),
                                     cmocka_unit_test(a_lane_that_is_refused_memory)};
  fake = tst_fake();
  if (!fake) tst_skip("a real driver fails on no command");
  alarm(100);
  if (!tb_cuda_load() || tb_cuda.cuInit(0) != CUDA_SUCCESS) return 2;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
