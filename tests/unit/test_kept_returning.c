/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arrays that follow each other in one place, as those do that a model makes for each fit: when one was used often
 * enough and given back, the next one goes up once and no more. Each result is the CPU's, all numbers being whole, also
 * behind a write; and what CUDA has a page of goes up each time, for nobody takes a fault when a GPU writes to it.
 *
 * Each case is a process of its own. Seen to fail when: no array is expected to return, or all are; the driver is not
 * asked about their pages, or about the first ones alone; a copy of which a panel is missing counts as whole; what
 * returns gets new memory.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "abi.h"
#include "fake.h"
#include "kept_array.h"
#include "placed.h"
#include "process.h"
#include "rng.h"
#include "sanitized.h"
#include "tileblas.h"

#define CUDA_ERROR_UNKNOWN 999

enum { ARRAYS = 4, CALLS = 8 };

/* Then there is no thread that might look for CUDA's memory while the caller sees to the way up. */
static void keep_to_one_core(void) {
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(sched_getcpu(), &core);
  if (sched_setaffinity(0, sizeof core, &core) != 0) exit(3);
}

static uint64_t calls_of(const char *function) { return tst_fake() == NULL ? 0 : tst_fake()->calls(function); }

/* The first array goes up as what it is, to stay, and while CUDA is asked about it, the others to stay alone, in their
 * products' panels: the third one, behind which nothing is new, in the memory of the one before. */
static int arrays_return(void *which) {
  uint64_t seed = 1, had = 0, copied = 0;
  bool right = true;
  if (strcmp(which, "return, one core") == 0) keep_to_one_core();
  tst_array_begin("auto", &seed);
  for (int i = 0; i < ARRAYS; i++) {
    tst_array_map(&seed);
    if (i == 2) had = calls_of("cuMemAlloc"), copied = calls_of("cuMemcpy2DAsync");
    const int ups = tst_array_ups(CALLS);
    right &= tst_array_ups_are("an array", ups, i == 0 ? 3 : 1);
  }
  if (calls_of("cuMemAlloc") != had) right = false, printf("new memory\n");
  if (tst_fake() != NULL && calls_of("cuMemcpy2DAsync") == copied) right = false, printf("not copied from panels\n");
  return right ? 0 : 1;
}

/* Both operands of a product return: what comes behind the first sight is computed from copies alone, the last panel's,
 * too. */
enum { SIDES = 100, BOTH_K = 2700, BOTH_BYTES = SIDES * BOTH_K * 4, BOTH_PLACE = 2 << 20 };

/* Anything but zeros, in new memory there. */
static void map_numbers(float *x, uint64_t *seed) {
  if (mmap(x, BOTH_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != x) exit(3);
  for (int i = 0; i < SIDES * BOTH_K; i++) x[i] = (float)tst_random_below(seed, 9) - 4;
}

static bool product_is_right(const float *a, const float *b) {
  static float c[SIDES * SIDES], wanted[SIDES * SIDES];
  const struct tst_problem p = {.trans_a = 'T',
                                .trans_b = 'N',
                                .m = SIDES,
                                .n = SIDES,
                                .k = BOTH_K,
                                .alpha = 1,
                                .lda = BOTH_K,
                                .ldb = BOTH_K,
                                .ldc = SIDES};
  const struct tst_symbol *const symbol = tst_find_symbol("cblas_sgemm");
  tst_set_option("TILEBLAS_ROUTE", "gpu");
  tst_call(symbol, tst_resolve(symbol), &p, a, b, c);
  tst_set_option("TILEBLAS_ROUTE", "cpu");
  tst_call(symbol, tst_resolve(symbol), &p, a, b, wanted);
  return memcmp(c, wanted, sizeof c) == 0;
}

/* In two places, or side by side, where they become one mapping, and the first one's watch is the second one's, too. */
static int both_return(void *which) {
  uint64_t seed = 9;
  bool right = true;
  const int64_t pages_bytes = (BOTH_BYTES + TST_PAGE - 1) / TST_PAGE * TST_PAGE;
  char *const places = mmap(NULL, 2 * BOTH_PLACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  float *const a = (float *)places;
  float *const b = (float *)(places + (strcmp(which, "side by side") == 0 ? pages_bytes : BOTH_PLACE));
  tst_set_option("TILEBLAS_CACHE", "auto");
  if (tst_fake() != NULL) tst_fake()->set_order(FAKE_CUDA_LAZY, 0); /* nothing is done before somebody waits for it */
  for (int i = 0; i < ARRAYS; i++) {
    const uint64_t copied = calls_of("cuMemcpy2DAsync");
    map_numbers(a, &seed), map_numbers(b, &seed);
    for (int call = 0; call < CALLS; call++) right &= product_is_right(a, b);
    if (tst_fake() != NULL) right &= calls_of("cuMemcpy2DAsync") == copied + 4; /* two panels of each */
  }
  return right ? 0 : 1;
}

static volatile sig_atomic_t signals;

static void count_signal(int number) {
  (void)number;
  signals++;
}

/* Meanwhile, in some of which who asks CUDA stops, and goes on behind it. */
static int signals_come_in(void *unused) {
  const struct itimerval often = {.it_interval = {.tv_usec = 1500}, .it_value = {.tv_usec = 1500}}, never = {0};
  uint64_t seed = 8;
  bool right = true;
  (void)unused;
  tst_array_begin("auto", &seed);
  signal(SIGALRM, count_signal);
  for (int i = 0; i < ARRAYS; i++) {
    tst_array_map(&seed);
    setitimer(ITIMER_REAL, &often, NULL);
    const int ups = tst_array_ups(CALLS);
    setitimer(ITIMER_REAL, &never, NULL);
    right &= tst_array_ups_are("an array among signals", ups, i == 0 ? 3 : 1);
  }
  return right && signals > 0 ? 0 : 1;
}

/* An element is written: few pages, so that these alone go up again; then all of it, in place, which does not return.
 */
static int arrays_are_written(void *unused) {
  uint64_t seed = 2;
  bool right = true, up;
  (void)unused;
  tst_array_begin("auto", &seed);
  for (int i = 0; i < 2; i++) tst_array_map(&seed), tst_array_ups(CALLS);
  tst_array()[TST_ARRAY_ELEMS / 3] += 1;
  right &= tst_array_ups_are("an element", tst_array_ups(3), 0);
  tst_array_fill(&seed);
  right &= tst_array_call(&up) && tst_array_call(&up);
  tst_array_map(&seed);
  right &= tst_array_call(&up) && tst_array_ups_are("behind writes", up, 1);
  right &= tst_array_call(&up) && tst_array_ups_are("its second sight", up, 1);
  return right ? 0 : 1;
}

/* Of the first array, or of one that is expected. */
static int cuda_has_a_page(void *which) {
  const bool of_first = strcmp(which, "first") == 0;
  uint64_t seed = 3;
  bool right = true;
  if (strcmp(which, "expected, one core") == 0) keep_to_one_core();
  tst_cuda_begin(0);
  tst_array_begin("auto", &seed);
  for (int place = 0; place < 3; place++) {
    tst_array_leave();
    for (int i = 0; i < (of_first ? 0 : 2); i++) tst_array_map(&seed), tst_array_ups(CALLS);
    tst_array_map(&seed);
    char *const page = tst_array_mapping() + (place == 0   ? TST_PAGE
                                              : place == 1 ? TST_ARRAY_BYTES / 2 / TST_PAGE * TST_PAGE
                                                           : TST_ARRAY_BYTES / TST_PAGE * TST_PAGE - TST_PAGE);
    tst_cuda_register(page, TST_PAGE);
    right &= tst_array_ups_are("CUDA's", tst_array_ups(CALLS), CALLS);
    tst_cuda_unregister(page);
  }
  tst_cuda_end(0);
  return right ? 0 : 1;
}

/* Where all bytes may be looked at nobody need watch it: it is digested like any other of which a copy was in vain,
 * from the fourth sight behind that on. */
static int cuda_has_a_page_by_hash(void *unused) {
  uint64_t seed = 4;
  (void)unused;
  tst_cuda_begin(0);
  tst_array_begin("8G", &seed);
  for (int i = 0; i < 2; i++) tst_array_map(&seed), tst_array_ups(CALLS);
  tst_array_map(&seed);
  tst_cuda_register(tst_array_mapping() + TST_PAGE, TST_PAGE);
  const bool right = tst_array_ups_are("CUDA's by the digest", tst_array_ups(CALLS), 5);
  tst_cuda_unregister(tst_array_mapping() + TST_PAGE);
  tst_cuda_end(0);
  return right ? 0 : 1;
}

/* The copy at the first sight fails, of a panel, or for want of memory: the call does without, its result is right, and
 * no failure of the GPU's is counted. */
static int a_copy_fails(void *function) {
  uint64_t seed = 7;
  bool right = true, up;
  tst_array_begin("auto", &seed);
  for (int i = 0; i < 2; i++) tst_array_map(&seed), tst_array_ups(CALLS);
  tst_array_map(&seed);
  if (tst_fake() != NULL) tst_fake()->inject(function, 1, CUDA_ERROR_UNKNOWN, 0);
  right &= tst_array_call(&up);
  if (tst_fake() != NULL) tst_fake()->clear_failures();
  right &= tst_array_ups(CALLS) >= 0;
  for (int i = 0; i < TST_ARRAY_ELEMS; i++) tst_array()[i] += 1;
  right &= tst_array_ups(2) >= 0;
  tst_set_option("TILEBLAS_CACHE", "off");
  right &= tst_array_call(&up);
  tileblas_stats s;
  tileblas_stats_get(&s);
  return right && s.gpu_failures == 0 ? 0 : 1;
}

/* What the program takes back is expected no more. */
static int forgotten(void *unused) {
  uint64_t seed = 5;
  (void)unused;
  tst_array_begin("auto", &seed);
  for (int i = 0; i < 2; i++) tst_array_map(&seed), tst_array_ups(CALLS);
  if (tileblas_keep(tst_array_mapping(), TST_ARRAY_MAPPED) != 0 ||
      tileblas_forget(tst_array_mapping(), TST_ARRAY_MAPPED) != 0)
    return 3;
  tst_array_map(&seed);
  return tst_array_ups_are("what was forgotten", tst_array_ups(CALLS), 3) ? 0 : 1;
}

static void returning(void **state) {
  (void)state;
  tst_array_case(arrays_return, "return");
  tst_array_case(arrays_return, "return, one core");
  tst_array_case(both_return, "both");
  tst_array_case(both_return, "side by side");
  tst_array_case(signals_come_in, "signals");
  tst_array_case(forgotten, "forgotten");
}
static void failing(void **state) {
  (void)state;
  tst_array_case(a_copy_fails, "cuMemAlloc");
  tst_array_case(a_copy_fails, "cuMemcpy2DAsync");
}
static void written(void **state) {
  (void)state;
  tst_array_case(arrays_are_written, "written");
}
static void cudas(void **state) {
  (void)state;
  tst_array_case(cuda_has_a_page, "first");
  tst_array_case(cuda_has_a_page, "expected");
  tst_array_case(cuda_has_a_page, "expected, one core");
  tst_array_case(cuda_has_a_page_by_hash, "by hash");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(returning),
      cmocka_unit_test(failing),
      cmocka_unit_test(written),
      cmocka_unit_test(cudas),
  };
  if (!tst_array_stays()) return printf("skipped: this kernel does not say who writes\n"), 77;
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
