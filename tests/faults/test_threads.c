/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eight threads at once, from the very first call on: every answer right, every call counted once; the same while the
 * driver fails under them; and by calls that are weighed, of which the router learns.
 *
 * Seen to fail when: the device's lock is dropped; counters are not atomic; two threads open the GPU. Under
 * ThreadSanitizer (the preset tsan) when: the router learns without its lock; the kept job of a call is exchanged
 * without atomics.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake.h"
#include "process.h"
#include "rng.h"
#include "abi.h"
#include "tileblas.h"

#define THREADS 8
#define CALLS 12
#define AT_ONCE 4 /* small calls on a GPU: what fails in one may fail in all */
#define SIDE_MAX 70
#define WEIGHED 400 /* a side; smaller ones are the CPU's, unweighed */

static pthread_barrier_t start;
static atomic_int wrong;

/* C = A B for whole numbers, by plain loops in the thread: the matrices are small. */
static void call_and_check(uint64_t *rng) {
  const struct tst_symbol *symbol = &tst_symbols[tst_random_below(rng, TST_SPELLINGS)];
  struct tst_problem p = {.trans_a = 'N', .trans_b = 'N', .alpha = 1, .beta = 1};
  float *a = malloc(3 * SIDE_MAX * SIDE_MAX * sizeof *a), *b = a + SIDE_MAX * SIDE_MAX, *c = b + SIDE_MAX * SIDE_MAX;
  if (!a) abort();
  p.m = 1 + tst_random_below(rng, SIDE_MAX), p.n = 1 + tst_random_below(rng, SIDE_MAX);
  p.k = 1 + tst_random_below(rng, SIDE_MAX);
  p.lda = p.m, p.ldb = p.k, p.ldc = p.m;
  for (int i = 0; i < 3 * SIDE_MAX * SIDE_MAX; i++) a[i] = (float)tst_random_below(rng, 9) - 4;
  float *before = malloc(SIDE_MAX * SIDE_MAX * sizeof *before);
  if (!before) abort();
  memcpy(before, c, SIDE_MAX * SIDE_MAX * sizeof *c);
  tst_call(symbol, tst_resolve(symbol), &p, a, b, c);
  for (int64_t j = 0; j < p.n; j++)
    for (int64_t i = 0; i < p.m; i++) {
      float sum = before[j * p.ldc + i];
      for (int64_t l = 0; l < p.k; l++) sum += a[l * p.lda + i] * b[j * p.ldb + l];
      if (c[j * p.ldc + i] != sum) atomic_fetch_add(&wrong, 1);
    }
  free(before);
  free(a);
}

static void *thread(void *number) {
  uint64_t rng = (uint64_t)(uintptr_t)number;
  pthread_barrier_wait(&start);
  for (int i = 0; i < CALLS; i++) call_and_check(&rng);
  return NULL;
}

static void run_threads(void *(*body)(void *), uintptr_t seed) {
  pthread_t ids[THREADS];
  pthread_barrier_init(&start, NULL, THREADS);
  for (uintptr_t i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&ids[i], NULL, body, (void *)(seed + i)), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
  pthread_barrier_destroy(&start);
  assert_int_equal(wrong, 0);
}

static tileblas_stats stats_now(void) {
  tileblas_stats stats;
  tileblas_stats_get(&stats);
  return stats;
}

/* Both tests run in children: each is the first to use the library in its process. */
static int all_right(void *argument) {
  (void)argument;
  const bool gpu = strcmp(tst_setting("TB_TEST_EXPECT"), "gpu") == 0;
  run_threads(thread, 1);
  tileblas_stats s = stats_now();
  if (s.gpu_calls != (gpu ? THREADS * CALLS : 0) || s.gpu_calls + s.cpu_calls != THREADS * CALLS) return 3;
  if (!gpu || !tst_fake()) return 0;
  return tst_fake()->get(FAKE_CUDA_CONTEXTS) == 1 && tst_fake()->get(FAKE_CUDA_MISUSES) == 0 ? 0 : 4;
}

/* Ones, large enough to be weighed: what the router learns of one call counts for another thread's next. */
static void *weighed(void *unused) {
  (void)unused;
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm");
  const struct tst_problem p = {.trans_a = 'N',
                                .trans_b = 'N',
                                .m = WEIGHED,
                                .n = WEIGHED,
                                .k = WEIGHED,
                                .alpha = 1,
                                .lda = WEIGHED,
                                .ldb = WEIGHED,
                                .ldc = WEIGHED};
  const size_t elems = (size_t)WEIGHED * WEIGHED;
  float *a = malloc(2 * elems * sizeof *a), *c = a + elems;
  if (!a) abort();
  for (size_t i = 0; i < elems; i++) a[i] = 1;
  pthread_barrier_wait(&start);
  for (int i = 0; i < CALLS; i++) {
    c[i] = 0;
    tst_call(symbol, tst_resolve(symbol), &p, a, a, c);
    if (c[i] != WEIGHED) atomic_fetch_add(&wrong, 1);
  }
  free(a);
  return NULL;
}

static int weigh(void *unused) {
  (void)unused;
  tileblas_option_set("TILEBLAS_ROUTE", "auto");
  run_threads(weighed, 1);
  const tileblas_stats s = stats_now();
  return s.gpu_calls + s.cpu_calls == THREADS * CALLS ? 0 : 3;
}

static int while_the_driver_fails(void *argument) {
  const struct tst_fake *fake = tst_fake();
  if (!fake || fake->inject("cuLaunchKernel", (unsigned long)(uintptr_t)argument, 999, FAKE_CUDA_STICKY) != 0) return 2;
  run_threads(thread, (uintptr_t)argument);
  tileblas_stats s = stats_now();
  if (s.gpu_calls + s.cpu_calls != THREADS * CALLS) return 3;
  return s.gpu_failures >= 1 && s.gpu_failures <= AT_ONCE && fake->get(FAKE_CUDA_CONTEXTS) == 0 ? 0 : 4;
}

/* With pauses, in some of which nobody is inside a call. */
static void *call_for_ever(void *number) {
  uint64_t rng = (uint64_t)(uintptr_t)number;
  for (;;) {
    call_and_check(&rng);
    if (tst_random_below(&rng, 4) == 0) usleep(1000);
  }
  return NULL;
}

/* The process ends while threads are inside calls or between them: no crash, no hang, no message. What they call when
 * the GPU is closed goes to the CPU BLAS, here one that does nothing: OpenBLAS crashes when the process ends in the
 * middle of its calls, TileBLAS or not. Without a GPU it gets all calls, and nothing is right. */
static int exit_during_calls(void *microseconds) {
  pthread_t id;
  const bool gpu = strcmp(tst_setting("TB_TEST_EXPECT"), "gpu") == 0;
  tileblas_option_set("TILEBLAS_FALLBACK", tst_format("%s/../unit/libecho_blas.so", tst_setting("TB_TEST_BUILD_DIR")));
  setenv("FAKE_CUDA_LEAKS", "count", 1); /* a GPU in use is left to the end of the process */
  for (uintptr_t i = 0; i < 3; i++)
    if (pthread_create(&id, NULL, call_for_ever, (void *)i) != 0) return 2;
  alarm(60);
  usleep((useconds_t)(uintptr_t)microseconds);
  return gpu && wrong ? 1 : 0;
}

static void expect_child(int (*body)(void *), uintptr_t argument, size_t warnings) {
  struct tst_output o;
  tst_fork(&o, body, (void *)argument);
  if (o.status != 0 || tst_count_lines(o.err, "tileblas: warning") != warnings)
    fail_msg("status %d\n%s%s", o.status, o.out, o.err);
  tst_output_destroy(&o);
}

static void eight_at_once(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) expect_child(all_right, 0, 0);
}

static void eight_that_are_weighed(void **state) {
  (void)state;
  expect_child(weigh, 0, 0);
}

static void eight_at_once_on_a_failing_driver(void **state) {
  (void)state;
  if (tst_setting("TB_TEST_FAKE_DIR")[0] == '\0') TST_LEAVE_OUT("a real driver fails on no command");
  for (uintptr_t nth = 1; nth <= 40; nth += 13) expect_child(while_the_driver_fails, nth, 1);
}

/* The sanitizer's runtime crashes, too, when the process ends meanwhile. */
static void exit_at_any_time(void **state) {
  (void)state;
#ifdef __SANITIZE_ADDRESS__
  TST_LEAVE_OUT("the sanitizer's runtime crashes at the end");
#endif
  for (uintptr_t i = 0; i < 12; i++) {
    struct tst_output o;
    tst_fork(&o, exit_during_calls, (void *)(i * 4000));
    if (o.status != 0 || o.err[0]) fail_msg("after %d us: status %d\n%s%s", (int)i * 4000, o.status, o.out, o.err);
    tst_output_destroy(&o);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(eight_at_once),
      cmocka_unit_test(eight_that_are_weighed),
      cmocka_unit_test(exit_at_any_time),
      cmocka_unit_test(eight_at_once_on_a_failing_driver),
  };
  const struct CMUnitTest no_gpu[] = {cmocka_unit_test(eight_at_once), cmocka_unit_test(exit_at_any_time)};
  if (strcmp(tst_setting("TB_TEST_EXPECT"), "gpu") != 0)
    return tst_result(cmocka_run_group_tests(no_gpu, NULL, NULL)); /* there is no driver that could fail */
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
