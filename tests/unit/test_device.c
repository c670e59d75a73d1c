/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a GPU is opened with, widened by, kept tidy and closed with: after each of these with any one driver call
 * failing (of those often made some), the thread's contexts are as before, and nothing is left in the driver.
 *
 * Seen to fail when: the second block of a ring's pinned memory is not freed; tb_part_tidy does not leave the device;
 * one stream, event or module of tb_device_close is forgotten; a failing opening keeps the context.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/device.h"
#include "fake.h"
#include "offload/part.h"
#include "process.h"

static const char *const functions[] = {
#define TB_CUDA(name) #name,
#include "cuda/driver.def"
#undef TB_CUDA
};
#define FUNCTIONS (sizeof functions / sizeof functions[0])

static const struct tst_fake *fake;

/* All that a device can have. False: something failed on the way. */
static bool use(struct tb_device *d) {
  CUevent event;
  if (tb_device_enter(d) != CUDA_SUCCESS) return false;
  bool had = tb_device_reserve(d, 1000) == CUDA_SUCCESS;
  tb_device_widen_ring(&d->up_ring);
  tb_device_widen_ring(&d->down_ring);
  for (int64_t i = 0; i < 3; i++) {
    had &= tb_device_tile_event(d, i, &event) == CUDA_SUCCESS;
    had &= tb_device_panel_event(d, i, i % 2, &event) == CUDA_SUCCESS;
  }
  had &= tb_device_open_fetching(d) == CUDA_SUCCESS;
  tb_device_leave();
  return had;
}

/* True: nothing failed. */
static bool live(void) {
  static struct tb_device device;
  char detail[200];
  if (tb_device_open(&device, 0, detail, sizeof detail) != TB_STATUS_ok) return false;
  const bool had = use(&device);
  tb_device_close(&device);
  return had;
}

static void look(const char *function, unsigned long nth) {
  if (fake->get(FAKE_CUDA_PUSHED_HERE) == 0 && fake->audit() == 0) return;
  fail_msg("after %s number %lu: %llu contexts pushed, or more is left (stderr)", function, nth,
           (unsigned long long)fake->get(FAKE_CUDA_PUSHED_HERE));
}

/* After a handler's window a call may find that it cannot enter again, and ends by leaving. */
static void leaving_twice_leaves_the_programs(void **state) {
  (void)state;
  static struct tb_device device;
  char detail[200];
  CUcontext ours;
  assert_int_equal(tb_device_open(&device, 0, detail, sizeof detail), TB_STATUS_ok);
  assert_int_equal(tb_cuda.cuCtxPushCurrent(device.context), CUDA_SUCCESS); /* as the program would */
  assert_int_equal(tb_device_enter(&device), CUDA_SUCCESS);
  tb_device_leave();
  tb_device_leave();
  assert_int_equal(fake->get(FAKE_CUDA_PUSHED_HERE), 1);
  assert_int_equal(tb_device_enter(&device), CUDA_SUCCESS); /* and the count is right still */
  tb_device_leave();
  assert_int_equal(fake->get(FAKE_CUDA_PUSHED_HERE), 1);
  assert_int_equal(tb_cuda.cuCtxPopCurrent(&ours), CUDA_SUCCESS);
  tb_device_close(&device);
  look("nothing", 0);
}

static void one_call_fails(void **state) {
  (void)state;
  unsigned long cases = 0;
  fake->reset_calls();
  assert_true(live());
  look("nothing", 0);
  unsigned long counts[FUNCTIONS];
  for (size_t i = 0; i < FUNCTIONS; i++) counts[i] = (unsigned long)fake->calls(functions[i]);
  for (size_t i = 0; i < FUNCTIONS; i++)
    for (unsigned long nth = 1; nth <= counts[i]; nth += nth < 3 ? 1 : 29, cases++) {
      const uint64_t failed = fake->get(FAKE_CUDA_FAILURES);
      assert_int_equal(fake->inject(functions[i], nth, CUDA_ERROR_OPERATING_SYSTEM, 0), 0);
      live();
      assert_int_equal(fake->get(FAKE_CUDA_FAILURES), failed + 1);
      look(functions[i], nth);
    }
  printf("%lu cases\n", cases);
  assert_true(cases > 40);
}

/* An arena that is larger than what is kept from call to call, by what the device believes of it. */
static void a_large_arena_is_given_back(void **state) {
  (void)state;
  static struct tb_device device;
  char detail[200];
  assert_int_equal(tb_device_open(&device, 0, detail, sizeof detail), TB_STATUS_ok);
  for (int fails = 0; fails < 3; fails++) {
    static const char *const function[] = {"", "cuCtxPushCurrent", "cuMemFree"};
    assert_int_equal(tb_device_enter(&device), CUDA_SUCCESS);
    assert_int_equal(tb_device_reserve(&device, 1000), CUDA_SUCCESS);
    tb_device_leave();
    device.memory_bytes = 0;
    device.arena_bytes = INT64_MAX / 2;
    if (fails) assert_int_equal(fake->inject(function[fails], 1, CUDA_ERROR_OPERATING_SYSTEM, 0), 0);
    tb_part_tidy(&device);
    assert_int_equal(fake->get(FAKE_CUDA_PUSHED_HERE), 0);
    assert_int_equal(fake->get(FAKE_CUDA_ALLOCATIONS), fails == 1); /* not entered: it stays for another time */
    if (fails == 1) device.arena_bytes = 1000;
  }
  tb_device_close(&device);
  look("tb_part_tidy", 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_call_fails), cmocka_unit_test(a_large_arena_is_given_back),
                                     cmocka_unit_test(leaving_twice_leaves_the_programs)};
  fake = tst_fake();
  if (!fake) tst_skip("a real driver fails on no command");
  if (!tb_cuda_load() || tb_cuda.cuInit(0) != CUDA_SUCCESS) return 2;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
