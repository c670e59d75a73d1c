/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arrays that follow each other in one place, as those do that a model makes for each fit: when one was used often
 * enough and given back, the next one goes up once and no more. Each result is the CPU's, all numbers being whole, also
 * behind a write; and what CUDA has a page of goes up each time, for nobody takes a fault when a GPU writes to it.
 *
 * Each case is a process of its own. Seen to fail when: no array is expected to return, or all are; the driver is not
 * asked about their pages, or about the first ones alone; a piece of a copy is sent while threads fill it.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "abi.h"
#include "fake.h"
#include "placed.h"
#include "process.h"
#include "rng.h"
#include "sanitized.h"
#include "tileblas.h"

#define CUDA_ERROR_UNKNOWN 999

/* A in four slots and a part of one, of columns of a slot's cell or longer; B is less than what may stay. */
enum { M = 700, N = 3, K = 3000, PAGE = 4096, ARRAYS = 4, CALLS = 8 };
enum { A_BYTES = M * K * 4, MAPPED = (A_BYTES + PAGE - 1) / PAGE * PAGE + PAGE };

static float b[K * N], c[M * N], wanted[M * N];
static char *mapped;

static void set(const char *option, const char *value) {
  if (tileblas_option_set(option, value) != 0) exit(3);
}

/* It does not begin with a page. */
static float *array(void) { return (float *)(mapped + 192); }

static void map_anew(uint64_t *seed) {
  void *const at = mmap(mapped, MAPPED, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | (mapped == NULL ? 0 : MAP_FIXED), -1, 0);
  if (at == MAP_FAILED) exit(3);
  mapped = at;
  for (int i = 0; i < M * K; i++) array()[i] = (float)tst_random_below(seed, 9) - 4;
}

static void multiply(float *result) {
  static const struct tst_problem p = {
      .trans_a = 'T', .trans_b = 'N', .m = M, .n = N, .k = K, .alpha = 1, .lda = K, .ldb = K, .ldc = M};
  const struct tst_symbol *const symbol = tst_find_symbol("cblas_sgemm");
  tst_call(symbol, tst_resolve(symbol), &p, array(), b, result);
}

static uint64_t bytes_up(void) { return tst_fake() == NULL ? 0 : tst_fake()->get(FAKE_CUDA_BYTES_UP); }

/* Whether it is right; and whether A went up. */
static bool call(bool *up) {
  const uint64_t before = bytes_up();
  multiply(c);
  const uint64_t bytes = bytes_up() - before;
  set("TILEBLAS_ROUTE", "cpu");
  multiply(wanted);
  set("TILEBLAS_ROUTE", "gpu");
  *up = bytes > A_BYTES / 2;
  for (int i = 0; i < M * N; i++)
    if (c[i] != wanted[i]) return printf("wrong\n"), false;
  return true;
}

/* How often A goes up in so many calls; -1: something was wrong. */
static int ways_up(int calls) {
  int ups = 0;
  for (int i = 0; i < calls; i++) {
    bool up;
    if (!call(&up)) return -1;
    ups += up;
  }
  return ups;
}

static void begin(uint64_t *seed) {
  set("TILEBLAS_ROUTE", "gpu");
  set("TILEBLAS_CACHE", "auto");
  for (int i = 0; i < K * N; i++) b[i] = (float)tst_random_below(seed, 9) - 4;
}

/* A real driver does not say what went up. */
static bool is(const char *what, int ups, int expected) {
  if (tst_fake() == NULL) return ups >= 0;
  if (ups != expected) printf("%s: %d ways up, not %d\n", what, ups, expected);
  return ups == expected;
}

/* Then there is no thread that might look for CUDA's memory while the caller sees to the way up. */
static void keep_to_one_core(void) {
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(sched_getcpu(), &core);
  if (sched_setaffinity(0, sizeof core, &core) != 0) exit(3);
}

/* The first array goes up as what it is and to stay, the others to stay alone. */
static int arrays_return(void *unused) {
  uint64_t seed = 1;
  bool right = true;
  (void)unused;
  begin(&seed);
  for (int i = 0; i < ARRAYS; i++) {
    map_anew(&seed);
    const int ups = ways_up(CALLS);
    right &= is("an array", ups, i == 0 ? 2 : 1);
  }
  return right ? 0 : 1;
}

/* An element is written: few pages, so that these alone go up again; then all of it, in place, which does not return.
 */
static int arrays_are_written(void *unused) {
  uint64_t seed = 2;
  bool right = true, up;
  (void)unused;
  begin(&seed);
  for (int i = 0; i < 2; i++) map_anew(&seed), ways_up(CALLS);
  array()[M * K / 3] += 1;
  right &= is("an element", ways_up(3), 0);
  for (int i = 0; i < M * K; i++) array()[i] = (float)tst_random_below(&seed, 9) - 4;
  right &= call(&up) && call(&up);
  map_anew(&seed);
  right &= call(&up) && is("behind writes", up, 1);
  right &= call(&up) && is("its second sight", up, 1);
  return right ? 0 : 1;
}

/* Of the first array, or of one that is expected. */
static int cuda_has_a_page(void *which) {
  const bool of_first = strcmp(which, "first") == 0;
  uint64_t seed = 3;
  bool right = true;
  if (strcmp(which, "expected, one core") == 0) keep_to_one_core();
  tst_cuda_begin(0);
  begin(&seed);
  for (int place = 0; place < 3; place++) {
    mapped = NULL; /* elsewhere */
    for (int i = 0; i < (of_first ? 0 : 2); i++) map_anew(&seed), ways_up(CALLS);
    map_anew(&seed);
    char *const page = mapped + (place == 0   ? PAGE
                                 : place == 1 ? A_BYTES / 2 / PAGE * PAGE
                                              : A_BYTES / PAGE * PAGE - PAGE);
    tst_cuda_register(page, PAGE);
    right &= is("CUDA's", ways_up(CALLS), CALLS);
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
  begin(&seed);
  set("TILEBLAS_CACHE", "8G");
  for (int i = 0; i < 2; i++) map_anew(&seed), ways_up(CALLS);
  map_anew(&seed);
  tst_cuda_register(mapped + PAGE, PAGE);
  const bool right = is("CUDA's by the digest", ways_up(CALLS), 5);
  tst_cuda_unregister(mapped + PAGE);
  tst_cuda_end(0);
  return right ? 0 : 1;
}

/* The copy at the first sight fails: the call does without, its result is right, and no failure of the
 * GPU's is counted. */
static int a_copy_fails(void *function) {
  uint64_t seed = 7;
  bool right = true, up;
  begin(&seed);
  for (int i = 0; i < 2; i++) map_anew(&seed), ways_up(CALLS);
  map_anew(&seed);
  if (tst_fake() != NULL) tst_fake()->inject(function, 1, CUDA_ERROR_UNKNOWN, 0);
  right &= call(&up);
  if (tst_fake() != NULL) tst_fake()->clear_failures();
  right &= ways_up(CALLS) >= 0;
  for (int i = 0; i < M * K; i++) array()[i] += 1;
  right &= ways_up(2) >= 0;
  set("TILEBLAS_CACHE", "off");
  right &= call(&up);
  tileblas_stats s;
  tileblas_stats_get(&s);
  return right && s.gpu_failures == 0 ? 0 : 1;
}

/* What the program takes back is expected no more. */
static int forgotten(void *unused) {
  uint64_t seed = 5;
  (void)unused;
  begin(&seed);
  for (int i = 0; i < 2; i++) map_anew(&seed), ways_up(CALLS);
  if (tileblas_keep(mapped, MAPPED) != 0 || tileblas_forget(mapped, MAPPED) != 0) return 3;
  map_anew(&seed);
  return is("what was forgotten", ways_up(CALLS), 2) ? 0 : 1;
}

/* 7: the kernel does not say who writes, so that A goes up each time, and nothing of this is done. What is wrong the
 * tests find. */
static int is_watched(void *unused) {
  uint64_t seed = 6;
  (void)unused;
  begin(&seed);
  map_anew(&seed);
  return ways_up(CALLS) == CALLS ? 7 : 0;
}

static void run_in_process(int (*body)(void *), const char *which) {
  tst_in_a_process(body, (void *)(uintptr_t)which, which);
}

static void returning(void **state) {
  (void)state;
  run_in_process(arrays_return, "return");
  run_in_process(forgotten, "forgotten");
}
static void failing(void **state) {
  (void)state;
  run_in_process(a_copy_fails, "cuMemAlloc");
  run_in_process(a_copy_fails, "cuMemcpyHtoDAsync");
}
static void written(void **state) {
  (void)state;
  run_in_process(arrays_are_written, "written");
}
static void cudas(void **state) {
  (void)state;
  run_in_process(cuda_has_a_page, "first");
  run_in_process(cuda_has_a_page, "expected");
  run_in_process(cuda_has_a_page, "expected, one core");
  run_in_process(cuda_has_a_page_by_hash, "by hash");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(returning),
      cmocka_unit_test(failing),
      cmocka_unit_test(written),
      cmocka_unit_test(cudas),
  };
  struct tst_output o;
  tst_fork(&o, is_watched, NULL);
  const int status = o.status;
  tst_output_destroy(&o);
  if (status == 7) return printf("skipped: this kernel does not say who writes\n"), 77;
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
