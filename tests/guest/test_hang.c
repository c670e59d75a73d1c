/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Number 15: a GPU that hangs. Wherever it stops, the call is finished by the CPU from what is not committed, one line
 * says so, later calls are the CPU's, and the process ends. Should it come to life again, C stays as it is. With a
 * timeout of 0 it is waited for. On the fake driver, which hangs after any number of operations, and by a clock that
 * runs ahead.
 *
 * Each case is a process of its own, with an alarm. Seen to fail when: a wait of the driver's own is left in any way of
 * a call; a GPU that hangs is closed; memory of it is freed.
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
#include "sanitized.h"
#include "tileblas.h"

#define SECONDS_MAX 60
#define TIMES_AS_FAST 200

/* The library's clock, too: a program's own definition comes first. It goes on from where it stands, lest a thread that
 * has yet to look what time it is finds an idle hour. */
static _Atomic long long hurries_since; /* 0: it does not */

static long long ns_of(const struct timespec *t) { return (long long)t->tv_sec * 1000000000 + t->tv_nsec; }

int clock_gettime(clockid_t clock, struct timespec *t) {
  const int result = (int)syscall(SYS_clock_gettime, clock, t);
  const long long since = atomic_load(&hurries_since);
  if (clock != CLOCK_MONOTONIC || since == 0) return result;
  const long long ns = since + (ns_of(t) - since) * TIMES_AS_FAST;
  *t = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
  return result;
}

static void hurry(bool on) {
  struct timespec now = {0, 0};
  if (on) clock_gettime(CLOCK_MONOTONIC, &now);
  atomic_store(&hurries_since, ns_of(&now));
}

struct hang {
  const char *limit;
  int64_t n;
  enum tst_kind kind;
  uint64_t after; /* operations */
};

static const struct tst_fake *start(const char *limit) {
  alarm(SECONDS_MAX);
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  tileblas_option_set("TILEBLAS_MEMORY_LIMIT", limit);
  guest_begin();
  return tst_fake();
}

static bool multiply(int64_t n, enum tst_kind kind) {
  struct guest_product product;
  guest_product_make(&product, n, kind, 1);
  guest_product_call(&product);
  return guest_product_is_right(&product);
}

/* Prints how many operations the product has. */
static int hang(void *argument) {
  const struct hang *h = argument;
  const struct tst_fake *fake = start(h->limit);
  tileblas_stats s;
  struct guest_product product;
  bool right = multiply(h->n, h->kind); /* has the memory that it takes */
  guest_product_make(&product, h->n, h->kind, 1);
  fake->set_order(FAKE_CUDA_HANGING, h->after);
  hurry(true);
  guest_product_call(&product);
  hurry(false);
  tileblas_stats_get(&s);
  const bool failed = s.gpu_failures > 0;
  fake->set_order(FAKE_CUDA_LAZY, 0);
  GUEST_OK(guest_cuda.cuCtxSynchronize()); /* what a GPU does that comes to life again does no harm */
  right &= guest_product_is_right(&product) && multiply(40, TST_PAGEABLE);
  const uint64_t gpu = s.gpu_calls;
  tileblas_stats_get(&s);
  right &= failed ? s.gpu_calls == gpu : s.gpu_calls == 3; /* it is not used again */
  printf("failed=%d misuses=%d\n", failed, (int)fake->get(FAKE_CUDA_MISUSES));
  return right && fake->get(FAKE_CUDA_MISUSES) == 0 ? 0 : 1;
}

/* Whether it failed. */
static bool run(const struct hang *h) {
  struct tst_output o;
  tst_fork(&o, hang, (void *)h);
  const bool failed = strstr(o.out, "failed=1") != NULL;
  const bool well = o.status == 0 && tst_count_lines(o.err, "\n") == failed &&
                    tst_count_lines(o.err, "no progress for 60 s") == failed;
  if (!well)
    print_error("n=%d limit=%s memory %d, after %d operations: status %d\n%s%s", (int)h->n, h->limit, (int)h->kind,
                (int)h->after, o.status, o.out, o.err);
  tst_output_destroy(&o);
  assert_true(well);
  return failed;
}

/* After 0, 1, 2, 3, 5, 8, ... operations, until the product is over before. */
static void everywhere(const char *limit, int64_t n, enum tst_kind kind) {
  uint64_t after = 0, step = 1, cases = 0;
  while (run(&(struct hang){limit, n, kind, after})) {
    after += step;
    if (++cases > TST_UNLESS_SANITIZED(4, 1)) step += step / 2 + 1;
    assert_true(cases < 60);
  }
  printf("n=%d: up to %d operations, %d of which the GPU hangs after\n", (int)n, (int)after, (int)cases);
  assert_true(cases > 1);
}

static void a_small_product(void **state) {
  (void)state;
  everywhere("0", 60, TST_PAGEABLE);
}

static void a_product_in_pieces(void **state) {
  (void)state;
  everywhere("178K", 200, TST_PAGEABLE);
}

static void pinned_operands(void **state) {
  (void)state;
  everywhere("178K", 300, TST_PINNED);
}

/* Operands that nobody reaches any more: C is not computed, and a line says so. */
static int hang_with_operands_on_the_gpu(void *unused) {
  (void)unused;
  const struct tst_fake *fake = start("0");
  struct guest_product product;
  bool right = multiply(100, TST_DEVICE);
  guest_product_make(&product, 100, TST_DEVICE, 1);
  fake->set_order(FAKE_CUDA_HANGING, 0);
  hurry(true);
  guest_product_call(&product);
  hurry(false);
  fake->set_order(FAKE_CUDA_LAZY, 0);
  guest_product_is_right(&product); /* nobody said so: that ends it */
  return right && fake->get(FAKE_CUDA_MISUSES) == 0 ? 0 : 1;
}

static void operands_on_the_gpu(void **state) {
  (void)state;
  struct tst_output o;
  tst_fork(&o, hang_with_operands_on_the_gpu, NULL);
  if (o.status != 0 || tst_count_lines(o.err, "\n") != 2) print_error("status %d\n%s%s", o.status, o.out, o.err);
  assert_int_equal(o.status, 0);
  assert_int_equal(tst_count_lines(o.err, "no progress for 60 s"), 1);
  assert_int_equal(tst_count_lines(o.err, "a product is not computed"), 1);
  assert_int_equal(tst_count_lines(o.err, "\n"), 2);
  tst_output_destroy(&o);
}

/* Then the driver's own wait is waited for, after a while. */
static int no_timeout(void *unused) {
  (void)unused;
  const struct tst_fake *fake = start("0");
  tileblas_option_set("TILEBLAS_TIMEOUT", "0");
  bool right = multiply(60, TST_PAGEABLE);
  fake->reset_calls();
  struct guest_product product;
  guest_product_make(&product, 60, TST_PAGEABLE, 1);
  fake->set_order(FAKE_CUDA_HANGING, 0);
  hurry(true);
  fake->expect_misuses(1);
  guest_product_call(&product); /* of which the fake driver says that it is a misuse */
  right = right && fake->calls("cuStreamSynchronize") > 0 && fake->get(FAKE_CUDA_MISUSES) > 0;
  hurry(false);
  fake->set_order(FAKE_CUDA_LAZY, 0);
  guest_product_is_right(&product); /* nobody said so: that ends it */
  return right ? 0 : 1;
}

static void without_a_timeout(void **state) {
  (void)state;
  struct tst_output o;
  tst_fork(&o, no_timeout, NULL);
  if (o.status != 0) print_error("status %d\n%s%s", o.status, o.out, o.err);
  assert_int_equal(o.status, 0);
  tst_output_destroy(&o);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_small_product), cmocka_unit_test(a_product_in_pieces),
                                     cmocka_unit_test(pinned_operands), cmocka_unit_test(operands_on_the_gpu),
                                     cmocka_unit_test(without_a_timeout)};
  if (tst_setting("TB_TEST_FAKE_DIR")[0] == '\0') tst_skip("a real GPU hangs at nothing on command");
  return cmocka_run_group_tests_name("hang", tests, NULL, NULL);
}
