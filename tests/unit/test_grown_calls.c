/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products with an operand that has got more rows, stored one behind the other: right, and what goes up is what was not
 * there. Whatever fails meanwhile costs the copy alone, or all of the GPU, and the result is right. What is packed for
 * the tensor cores is packed anew. Where CUDA has some of the pages that have come there is no copy. Threads that have
 * the operand at once, as it was and as it is, disturb each other in nothing. The verbose line and the report say it.
 *
 * Each case is a process of its own. Seen to fail when: all goes up, or the copy's new memory has not what the old one
 * had; the old one stays, or goes before it was read; what fails to go up counts as if it was there; CUDA is not asked
 * about what has come; a copy moves that another call has.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi.h"
#include "fake.h"
#include "hurry.h"
#include "kept_array.h"
#include "placed.h"
#include "process.h"
#include "sanitized.h"
#include "tileblas.h"

#define CUDA_ERROR_OUT_OF_MEMORY 2
#define CUDA_ERROR_UNKNOWN 999

enum { ROWS = 900, HAD = 600, SIGHTS = 5, K = TST_ARRAY_K };
#define ROW_BYTES ((uint64_t)K * 4)
#define CELLS_BYTES ((uint64_t)8 * 16384) /* what goes up beside: B, and cells that two rows have in common */

#define MUST(condition)                                                            \
  do                                                                               \
    if (!(condition)) return printf("line %d: not %s\n", __LINE__, #condition), 1; \
  while (0)

static uint64_t counter(enum fake_cuda_count which) { return tst_fake()->get(which); }

static bool is_right(void) {
  bool up;
  return tst_array_call(&up);
}

/* An array, and a copy of so many of its rows that the kernel watches. */
static bool begin(const char *cache, uint64_t seed) {
  tst_array_set_rows(ROWS);
  tst_array_begin(cache, &seed);
  tst_array_map(&seed);
  tst_array_set_rows(HAD);
  return tst_array_ups(SIGHTS) >= 0 && is_right() && tst_array_went_up() < CELLS_BYTES;
}

static bool gpu_answered_all(void) {
  tileblas_stats stats;
  tileblas_stats_get(&stats);
  return stats.gpu_failures == 0 && counter(FAKE_CUDA_MISUSES) == 0;
}

/* ---- what goes up ---- */

static int the_rest_goes_up(void *cache) {
  static const int steps[] = {601, 640, 700, 760, 761, 850, 900};
  int had = HAD;
  MUST(begin(cache, 1));
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    tst_array_set_rows(steps[i]);
    MUST(is_right());
    const uint64_t up = tst_array_went_up(), rest = (uint64_t)(steps[i] - had) * ROW_BYTES;
    if (up < rest || up > rest + CELLS_BYTES)
      return printf("%d rows: %llu bytes\n", steps[i], (unsigned long long)up), 1;
    had = steps[i];
    MUST(is_right() && tst_array_went_up() < CELLS_BYTES);
    tst_array()[(had - 1) * K + 5] += 1;
    tst_array()[HAD * K + 7] += 1;
    MUST(is_right() && is_right() && tst_array_went_up() < CELLS_BYTES);
    tst_array_set_rows(HAD);
    MUST(is_right() && tst_array_went_up() < CELLS_BYTES);
  }
  MUST(gpu_answered_all());
  return 0;
}

/* Of a window that moves on what lies before it may be written, in a page of others, too. */
static int windows(void *unused) {
  (void)unused;
  MUST(begin("auto", 10));
  tst_set_option("TILEBLAS_VERBOSE", "1");
  tst_array()[0] += 1;
  tst_array_set_first(HAD / 2);
  MUST(is_right() && tst_array_went_up() < HAD / 2 * ROW_BYTES + CELLS_BYTES);
  for (int i = 0; i < 3; i++) MUST(is_right() && tst_array_went_up() < CELLS_BYTES);
  MUST(gpu_answered_all());
  return 0;
}

/* One that was expected is watched and not digested; so is what it gets. */
static int one_that_returned(void *unused) {
  (void)unused;
  uint64_t seed = 2;
  tst_array_set_rows(ROWS);
  tst_array_begin("auto", &seed);
  tst_array_map(&seed);
  tst_array_set_rows(HAD);
  for (int i = 0; i < 2; i++) {
    MUST(tst_array_ups(10) >= 0);
    tst_array_set_rows(ROWS), tst_array_map(&seed), tst_array_set_rows(HAD);
  }
  MUST(is_right() && is_right() && tst_array_went_up() < CELLS_BYTES);
  tst_array_set_rows(ROWS);
  MUST(is_right() && tst_array_went_up() < (ROWS - HAD) * ROW_BYTES + CELLS_BYTES);
  MUST(is_right() && tst_array_went_up() < CELLS_BYTES);
  tst_array()[(ROWS - 9) * K] += 1;
  MUST(is_right() && is_right() && gpu_answered_all());
  return 0;
}

/* ---- CUDA's pages ---- */

static int cuda_has_a_page(void *where) {
  const bool old = strcmp(where, "old") == 0;
  tst_cuda_begin(0);
  MUST(begin("auto", 3));
  char *const page = tst_array_mapping() + (uint64_t)(old ? HAD / 2 : HAD + 100) * ROW_BYTES / TST_PAGE * TST_PAGE;
  tst_cuda_register(page, TST_PAGE);
  tst_array_set_rows(ROWS);
  for (int i = 0; i < 4; i++) {
    MUST(is_right());
    if (!old && i > 0) MUST(tst_array_went_up() >= ROWS * ROW_BYTES); /* it is not used again */
  }
  tst_array()[(page - (char *)tst_array()) / (long)sizeof(float) + 3] += 1; /* a GPU might, unseen */
  MUST(is_right());
  tst_cuda_unregister(page);
  MUST(is_right() && gpu_answered_all());
  tst_cuda_end(0);
  return 0;
}

/* ---- failures ---- */

struct failure {
  const char *function;
  unsigned long first, last; /* of its calls */
  bool stays;                /* the copy, as it was */
};

/* All goes up, and there is a copy of all later, if there is none of the beginning. */
static int something_fails(void *opaque) {
  const struct failure *const f = opaque;
  MUST(begin("auto", 4));
  tst_array_set_rows(ROWS);
  const uint64_t before = counter(FAKE_CUDA_ALLOCATED_BYTES);
  for (unsigned long nth = f->first; nth <= f->last; nth++)
    tst_fake()->inject(f->function, nth, CUDA_ERROR_OUT_OF_MEMORY, 0);
  MUST(is_right() && counter(FAKE_CUDA_FAILURES) > 0);
  tst_fake()->clear_failures();
  MUST(tst_array_went_up() >= ROWS * ROW_BYTES);
  tst_array_set_rows(HAD);
  MUST(is_right() && f->stays == (tst_array_went_up() < CELLS_BYTES));
  tst_array_set_rows(ROWS);
  for (int i = 0; i < 8; i++) MUST(is_right());
  MUST(tst_array_went_up() < CELLS_BYTES && gpu_answered_all());
  tst_set_option("TILEBLAS_CACHE", "off");
  MUST(is_right() && counter(FAKE_CUDA_ALLOCATED_BYTES) < before);
  return 0;
}

/* There is no room for the rest, nor for a product beside the copy, which makes way for it. */
static int little_memory(void *unused) {
  (void)unused;
  MUST(begin("auto", 11));
  tst_array_set_rows(ROWS);
  tst_set_option("TILEBLAS_MEMORY_LIMIT", "14M");
  for (int i = 0; i < 3; i++) MUST(is_right() && tst_array_went_up() >= ROWS * ROW_BYTES);
  tileblas_stats stats;
  tileblas_stats_get(&stats);
  MUST(gpu_answered_all() && stats.cpu_calls == 9); /* those that tell what is right */
  return 0;
}

/* With all of the GPU. */
static int the_gpu_fails(void *function) {
  MUST(begin("auto", 5));
  tst_array_set_rows(ROWS);
  tst_fake()->inject(function, 1, CUDA_ERROR_UNKNOWN, FAKE_CUDA_ASYNC);
  MUST(is_right());
  tst_fake()->clear_failures();
  MUST(is_right() && counter(FAKE_CUDA_MISUSES) == 0);
  return 0;
}

static int the_gpu_hangs(void *operations) {
  alarm(60);
  MUST(begin("auto", 6));
  tst_array_set_rows(ROWS);
  tst_fake()->set_order(FAKE_CUDA_HANGING, (uint64_t)(uintptr_t)operations);
  tst_hurry(true);
  MUST(is_right());
  tst_hurry(false);
  tst_fake()->set_order(FAKE_CUDA_LAZY, 0);
  MUST(is_right() && counter(FAKE_CUDA_MISUSES) == 0);
  return 0;
}

/* ---- the tensor cores ---- */

enum { SIDES = 130, DENSE_K = 2750, DENSE_HAD = 100 };

static void multiply_dense(const float *a, int rows, const float *b, float *c) {
  const struct tst_problem p = {.trans_a = 'T',
                                .trans_b = 'N',
                                .m = rows,
                                .n = SIDES,
                                .k = DENSE_K,
                                .alpha = 1,
                                .lda = DENSE_K,
                                .ldb = DENSE_K,
                                .ldc = SIDES};
  const struct tst_symbol *const symbol = tst_find_symbol("cblas_sgemm");
  tst_call(symbol, tst_resolve(symbol), &p, a, b, c);
}

/* Used so often as it grows that it is packed by then, each time. */
static int on_tensor_cores(void *unused) {
  enum { STEPS = (SIDES - DENSE_HAD) / 10 + 1, RESULT = SIDES * SIDES };
  static float a[SIDES * DENSE_K + 2048], b[SIDES * DENSE_K], c[STEPS][RESULT], wanted[RESULT];
  (void)unused;
  uint64_t seed = 7;
  tst_array_begin("auto", &seed);
  for (int i = 0; i < SIDES * DENSE_K; i++) a[i] = (float)(i % 2003) / 64 - 15, b[i] = (float)(i % 1999) / 64 - 15;
  for (int i = 0; i < 9; i++) multiply_dense(a, DENSE_HAD, b, c[0]);
  for (int i = 0; i < STEPS; i++) {
    const uint64_t before = counter(FAKE_CUDA_BYTES_UP);
    multiply_dense(a, DENSE_HAD + 10 * i, b, c[i]);
    MUST(counter(FAKE_CUDA_BYTES_UP) - before < 20 * DENSE_K * 4);
    for (int j = 0; j < 4; j++) multiply_dense(a, DENSE_HAD + 10 * i, b, wanted);
    MUST(memcmp(c[i], wanted, sizeof wanted) == 0);
  }
  tst_set_option("TILEBLAS_CACHE", "off");
  for (int i = 0; i < STEPS; i++) {
    memset(wanted, 0, sizeof wanted);
    multiply_dense(a, DENSE_HAD + 10 * i, b, wanted);
    MUST(memcmp(c[i], wanted, sizeof wanted) == 0);
  }
  MUST(gpu_answered_all());
  return 0;
}

/* ---- threads ---- */

enum { THREADS = 3, CALLS = TST_UNLESS_SANITIZED(60, 20) };
static atomic_int wrong;
static float ones[K], sums[ROWS];

static void *multiply_often(void *number) {
  const struct tst_symbol *const symbol = tst_find_symbol("cblas_sgemm");
  void *const function = tst_resolve(symbol);
  float c[ROWS];
  for (int i = 0; i < CALLS; i++) {
    const int rows = HAD + (i * 7 + (int)(intptr_t)number * 40) % (ROWS - HAD);
    const struct tst_problem p = {
        .trans_a = 'T', .trans_b = 'N', .m = rows, .n = 1, .k = K, .alpha = 1, .lda = K, .ldb = K, .ldc = rows};
    tst_call(symbol, function, &p, tst_array(), ones, c);
    if (memcmp(c, sums, sizeof(float) * (size_t)rows) != 0) atomic_fetch_add(&wrong, 1);
  }
  return NULL;
}

static int threads_at_once(void *unused) {
  pthread_t thread[THREADS];
  (void)unused;
  MUST(begin("auto", 8));
  for (int i = 0; i < K; i++) ones[i] = 1;
  for (int i = 0; i < ROWS; i++)
    for (int l = 0; l < K; l++) sums[i] += tst_array()[i * K + l];
  for (intptr_t i = 0; i < THREADS; i++)
    if (pthread_create(&thread[i], NULL, multiply_often, (void *)i) != 0) return 3;
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  MUST(atomic_load(&wrong) == 0 && gpu_answered_all());
  return 0;
}

/* ---- what is said ---- */

static int some_calls(void *unused) {
  (void)unused;
  MUST(begin("auto", 9));
  tst_set_option("TILEBLAS_VERBOSE", "1"), tst_set_option("TILEBLAS_REPORT", "1");
  for (int rows = HAD + 100; rows <= ROWS; rows += 100) {
    tst_array_set_rows(rows);
    MUST(is_right());
  }
  return 0;
}

/* ---- each in a process ---- */

static void bits(void **state) {
  (void)state;
  tst_array_case(the_rest_goes_up, "auto");
  tst_array_case(the_rest_goes_up, "8G");
  tst_array_case(one_that_returned, "returned");
}

static void windows_that_move_on(void **state) {
  (void)state;
  struct tst_output o;
  tst_fork(&o, windows, NULL);
  const size_t in_part = tst_count_lines(o.err, "A=kept (in part)"),
               tracked = tst_count_lines(o.err, "A=kept (tracked)");
  if (o.status != 0) printf("%s%s", o.out, o.err);
  const int status = o.status;
  tst_output_destroy(&o);
  assert_int_equal(status, 0);
  assert_int_equal(in_part, 1);
  assert_int_equal(tracked, 3);
}

static void cudas(void **state) {
  (void)state;
  tst_array_case(cuda_has_a_page, "old");
  tst_array_case(cuda_has_a_page, "new");
}

static void failures(void **state) {
  static const struct failure of[] = {{"cuMemGetInfo", 1, 1, true},
                                      {"cuMemAlloc", 1, 2, true}, /* with room for what may come, and without */
                                      {"cuMemcpy2DAsync", 1, 1, false},
                                      {"cuMemcpyHtoDAsync", 1, 1, false},
                                      {"cuMemcpyHtoDAsync", 2, 2, false}};
  (void)state;
  for (size_t i = 0; i < sizeof of / sizeof *of; i++)
    tst_in_a_process(something_fails, (void *)(uintptr_t)&of[i], of[i].function);
  tst_array_case(little_memory, "little memory");
  tst_array_case(the_gpu_fails, "cuMemcpy2DAsync");
  tst_array_case(the_gpu_fails, "cuMemcpyHtoDAsync");
}

static void hangs(void **state) {
  (void)state;
  for (uintptr_t operations = 0; operations < 4; operations++)
    tst_in_a_process(the_gpu_hangs, (void *)operations, "hangs");
}

static void tensor_cores(void **state) {
  (void)state;
  tst_in_a_process(on_tensor_cores, NULL, "tensor cores");
}

static void threads(void **state) {
  (void)state;
  tst_in_a_process(threads_at_once, NULL, "threads");
}

/* Of each such line the MB that did not go up, cut to whole ones: all rows but the last hundred. (Less some cells that
 * two rows have in common, which here are less than what is cut off.) */
static int wrong_numbers(const char *text, const char *before) {
  int wrong = 0;
  for (uint64_t rows = HAD; (text = strstr(text, before)) != NULL; rows += 100, text++)
    wrong += tst_number_after(text, before) != rows * ROW_BYTES / 1000000;
  return wrong;
}

static void what_is_said(void **state) {
  static const char saved[] = "A=kept (in part) B=host C=host saved ";
  (void)state;
  struct tst_output o;
  tst_fork(&o, some_calls, NULL);
  const size_t lines = tst_count_lines(o.err, saved);
  const int wrong = wrong_numbers(o.err, saved);
  const size_t reported = tst_count_lines(o.err, "with the rest of an operand of which the beginning was there: 3");
  if (lines != 3 || reported != 1 || wrong != 0) printf("%s%s", o.out, o.err);
  const int status = o.status;
  tst_output_destroy(&o);
  assert_int_equal(status, 0);
  assert_int_equal(lines, 3);
  assert_int_equal(wrong, 0);
  assert_int_equal(reported, 1);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(bits),        cmocka_unit_test(windows_that_move_on),
                                     cmocka_unit_test(cudas),       cmocka_unit_test(failures),
                                     cmocka_unit_test(hangs),       cmocka_unit_test(threads),
                                     cmocka_unit_test(what_is_said)};
  const struct CMUnitTest tensor_alone[] = {cmocka_unit_test(tensor_cores)};
  if (tst_fake() == NULL) tst_skip("a real driver does not count");
  if (!tst_array_stays()) tst_skip("the kernel does not tell which pages were written");
  if (argc > 1 && strcmp(argv[1], "tensor") == 0) return cmocka_run_group_tests(tensor_alone, NULL, NULL);
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
