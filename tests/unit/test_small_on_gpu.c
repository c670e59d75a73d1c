/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small product of pageable operands takes the shortest way: one copy up, one product, one copy down, no event and no
 * allocation; and device memory that nobody has used for a while is given back, without a further call.
 *
 * Seen to fail when: a size is counted as fitting that does not fit a slot; events are recorded; the arena is allocated
 * anew for each call; nobody looks at the memory when no call comes.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "fake.h"
#include "tileblas.h"

static const struct tst_fake *fake;

static void product(int variant, int64_t m, int64_t n, int64_t k) {
  struct tst_problem p = tst_variant(variant, m, n, k, 2, 3);
  struct tst_operands x;
  uint64_t rng = 7;
  tst_set_leading(&p, 1);
  tst_operands_create(&x, &p, TST_INTEGERS, &rng);
  tst_check_operands(tst_find_symbol("cblas_sgemm"), &p, &x, false);
  tst_operands_destroy(&x);
}

/* All calls of the driver since the last reset, but for questions about pointers and whether work is done. */
static uint64_t calls_that_do(char *list, size_t size) {
  uint64_t sum = 0;
  list[0] = '\0';
  for (size_t i = 0; fake->function(i); i++) {
    const char *name = fake->function(i);
    const uint64_t calls = fake->calls(name);
    if (calls == 0 || strcmp(name, "cuStreamQuery") == 0 || strncmp(name, "cuPointer", 9) == 0) continue;
    sum += calls;
    const size_t used = strlen(list);
    snprintf(list + used, size - used, " %s x %llu", name, (unsigned long long)calls);
  }
  return sum;
}

static void few_driver_calls(void **state) {
  (void)state;
  static const struct { int64_t m, n, k; } shapes[] = {{64, 64, 64}, {128, 96, 200}, {300, 7, 90}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int variant = 0; variant < 18; variant += 5) {
      char list[1024];
      product(variant, shapes[i].m, shapes[i].n, shapes[i].k); /* the arena grows to its size */
      fake->reset_calls();
      product(variant, shapes[i].m, shapes[i].n, shapes[i].k);
      const uint64_t calls = calls_that_do(list, sizeof list);
      const uint64_t launches = fake->calls("cuLaunchKernel") + fake->calls("cuLaunchKernelEx");
      /* Enter, up, kernel, where k is split and no clusters add its sums their kernel, down, leave. To enter takes
       * three calls, because this program has the driver and might have had our context current, and to leave takes
       * two. */
      if (calls != 7 + launches || launches < 1 || launches > 2)
        fail_msg("%llu calls:%s", (unsigned long long)calls, list);
      assert_int_equal(fake->calls("cuMemcpyHtoDAsync"), 1);
      assert_int_equal(fake->calls("cuMemcpyDtoHAsync"), 1);
    }
}

/* About the largest that fit into a slot: on either side of the border the answer is right. */
static void the_border_of_what_fits_one_slot(void **state) {
  (void)state;
  static const struct {
    int64_t m, n, k;
    bool one_slot;
  } shapes[] = {{32, 32, 8192, true}, {32, 32, 8193, false}, {704, 744, 1, true}, {704, 745, 1, false}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    product(0, shapes[i].m, shapes[i].n, shapes[i].k);
    fake->reset_calls();
    product(0, shapes[i].m, shapes[i].n, shapes[i].k);
    assert_int_equal(fake->calls("cuMemcpyHtoDAsync") == 1 && fake->calls("cuEventRecord") == 0, shapes[i].one_slot);
  }
}

static void memory_is_given_back(void **state) {
  (void)state;
  product(0, 64, 64, 64);
  assert_true(fake->get(FAKE_CUDA_ALLOCATED_BYTES) > 0); /* it is kept from call to call */
  int waited_ms = 0;
  for (; fake->get(FAKE_CUDA_ALLOCATED_BYTES) > 0 && waited_ms < 9000; waited_ms += 100) usleep(100000);
  assert_in_range(waited_ms, 1000, 8000);
  product(0, 64, 64, 64);
  assert_true(fake->get(FAKE_CUDA_ALLOCATED_BYTES) > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(few_driver_calls),
      cmocka_unit_test(the_border_of_what_fits_one_slot),
      cmocka_unit_test(memory_is_given_back),
  };
  tst_check_setup();
  fake = tst_fake();
  if (!fake) {
    printf("the counts are the fake driver's\n");
    return 77;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
