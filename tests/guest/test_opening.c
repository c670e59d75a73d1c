/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Number 9: a GPU that cannot be opened for the moment is tried again, after 1, 2, 4, 8, 16 and 32 seconds: until then
 * the CPU answers, and the driver is left alone. A seventh failure is the last, and one line says so. What will not
 * change is not tried again. On the fake driver, by a clock that the test sets.
 *
 * Each case is a process of its own. Seen to fail when: the first failure is for good; there is no pause; a failure
 * that lasts is taken for one that passes; no line is printed.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cuda_program.h"
#include "fake.h"
#include "process.h"
#include "tileblas.h"

/* The library's clock, too: a program's own definition comes first. */
static atomic_long ahead_seconds;
int clock_gettime(clockid_t clock, struct timespec *t) {
  const int result = (int)syscall(SYS_clock_gettime, clock, t);
  t->tv_sec += atomic_load(&ahead_seconds);
  return result;
}

/* What opening calls, once or first, and what a driver gives there for a while. */
static const struct failure {
  const char *function;
  int code;
} passing[] = {{"cuInit", CUDA_ERROR_UNKNOWN},
               {"cuInit", CUDA_ERROR_SYSTEM_NOT_READY},
               {"cuDeviceGetCount", CUDA_ERROR_OUT_OF_MEMORY},
               {"cuDevicePrimaryCtxRetain", CUDA_ERROR_OUT_OF_MEMORY},
               {"cuDevicePrimaryCtxRetain", CUDA_ERROR_DEVICE_UNAVAILABLE},
               {"cuModuleLoadData", CUDA_ERROR_OUT_OF_MEMORY},
               {"cuStreamCreate", CUDA_ERROR_OUT_OF_MEMORY},
               {"cuMemHostAlloc", CUDA_ERROR_OUT_OF_MEMORY}},
  lasting[] = {{"cuInit", CUDA_ERROR_NO_DEVICE},
               {"cuInit", CUDA_ERROR_SYSTEM_DRIVER_MISMATCH},
               {"cuModuleLoadData", CUDA_ERROR_NO_BINARY_FOR_GPU}};

/* A right product, by whom? */
static bool is_by_gpu(bool *right) {
  struct guest_product product;
  const uint64_t before = guest_gpu_calls();
  guest_product_make(&product, 40, TST_PAGEABLE, 1);
  guest_product_call(&product);
  *right &= guest_product_is_right(&product);
  return guest_gpu_calls() == before + 1;
}

static const struct tst_fake *start(void) {
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  return tst_fake();
}

/* At once, before the pause is over, and after it. */
static int one_failure(void *argument) {
  const struct failure *f = argument;
  const struct tst_fake *fake = start();
  bool right = true;
  fake->inject(f->function, 1, f->code, 0);
  const bool first = is_by_gpu(&right);
  const uint64_t tries = fake->calls(f->function);
  const bool second = is_by_gpu(&right), left_alone = fake->calls(f->function) == tries;
  atomic_store(&ahead_seconds, 2);
  const bool third = is_by_gpu(&right), fourth = is_by_gpu(&right);
  if (!(right && !first && !second && left_alone && third && fourth))
    printf("%s, %d: right %d, by the GPU %d %d %d %d, left alone %d\n", f->function, f->code, right, first, second,
           third, fourth, left_alone);
  return right && !first && !second && left_alone && third && fourth ? 0 : 1;
}

/* A call each second for two minutes. */
static int failures_without_end(void *argument) {
  const struct failure *f = argument;
  const struct tst_fake *fake = start();
  bool right = true, by_gpu = false;
  fake->inject(f->function, 0, f->code, 0);
  printf("tries");
  for (long second = 0; second < 120; second++) {
    const uint64_t before = fake->calls(f->function);
    by_gpu |= is_by_gpu(&right);
    if (fake->calls(f->function) > before) printf(" %ld", second);
    atomic_store(&ahead_seconds, second + 1);
  }
  printf("\n");
  return right && !by_gpu ? 0 : 1;
}

static void expect(int (*body)(void *), const struct failure *f, const char *out, size_t lines) {
  struct tst_output o;
  tst_fork(&o, body, (void *)f);
  const bool well = o.status == 0 && strstr(o.out, out) && tst_count_lines(o.err, "\n") == lines &&
                    tst_count_lines(o.err, "and given up") == lines;
  if (!well) print_error("%s, %d: status %d\n%s%s", f->function, f->code, o.status, o.out, o.err);
  assert_true(well);
  tst_output_destroy(&o);
}

#define EACH(list) (size_t i = 0; i < sizeof(list) / sizeof(list)[0]; i++)

static void a_failure_that_passes(void **state) {
  (void)state;
  for
    EACH(passing) expect(one_failure, &passing[i], "", 0);
}

/* A second later at the latest: real time passes, too. */
static void a_failure_that_does_not_pass(void **state) {
  (void)state;
  for
    EACH(passing) expect(failures_without_end, &passing[i], "tries 0 1 3 7 15 31 63\n", 1);
}

static void a_failure_that_lasts(void **state) {
  (void)state;
  for
    EACH(lasting) expect(failures_without_end, &lasting[i], "tries 0\n", 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_failure_that_passes),
                                     cmocka_unit_test(a_failure_that_does_not_pass),
                                     cmocka_unit_test(a_failure_that_lasts)};
  if (tst_setting("TB_TEST_FAKE_DIR")[0] == '\0') tst_skip("a real driver fails at nothing on command");
  return cmocka_run_group_tests_name("opening", tests, NULL, NULL);
}
