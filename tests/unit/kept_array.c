/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "kept_array.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "abi.h"
#include "fake.h"
#include "process.h"
#include "rng.h"
#include "tileblas.h"

enum { N = TST_ARRAY_N, K = TST_ARRAY_K };

static float b[K * N], c[TST_ARRAY_M_MOST * N], wanted[TST_ARRAY_M_MOST * N];
static char *mapped;
static int rows = TST_ARRAY_M, first;

void tst_array_set_rows(int m) { rows = m; }
void tst_array_set_first(int row) { first = row; }

static size_t bytes(void) { return (size_t)rows * K * sizeof(float); }
static size_t mapped_bytes(void) { return (bytes() + TST_PAGE - 1) / TST_PAGE * TST_PAGE + TST_PAGE; }

void tst_set_option(const char *option, const char *value) {
  if (tileblas_option_set(option, value) != 0) exit(3);
}

static float any_number(uint64_t *seed) { return (float)tst_random_below(seed, 9) - 4; }

void tst_array_begin(const char *cache, uint64_t *seed) {
  tst_set_option("TILEBLAS_ROUTE", "gpu");
  tst_set_option("TILEBLAS_CACHE", cache);
  for (int i = 0; i < K * N; i++) b[i] = any_number(seed);
}

float *tst_array(void) { return (float *)(mapped + 192); }
char *tst_array_mapping(void) { return mapped; }

void tst_array_fill(uint64_t *seed) {
  for (int i = 0; i < rows * K; i++) tst_array()[i] = any_number(seed);
}

void tst_array_map(uint64_t *seed) {
  void *const at = mmap(mapped, mapped_bytes(), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | (mapped == NULL ? 0 : MAP_FIXED), -1, 0);
  if (at == MAP_FAILED) exit(3);
  mapped = at;
  tst_array_fill(seed);
}

void tst_array_leave(void) { mapped = NULL; }

static void multiply(float *result) {
  const struct tst_problem p = {
      .trans_a = 'T', .trans_b = 'N', .m = rows, .n = N, .k = K, .alpha = 1, .lda = K, .ldb = K, .ldc = rows};
  const struct tst_symbol *const symbol = tst_find_symbol("cblas_sgemm");
  tst_call(symbol, tst_resolve(symbol), &p, tst_array() + first * K, b, result);
}

static uint64_t bytes_up(void) { return tst_fake() == NULL ? 0 : tst_fake()->get(FAKE_CUDA_BYTES_UP); }

static uint64_t went_up;

uint64_t tst_array_went_up(void) { return went_up; }

bool tst_array_call(bool *up) {
  const uint64_t before = bytes_up();
  multiply(c);
  went_up = bytes_up() - before;
  tst_set_option("TILEBLAS_ROUTE", "cpu");
  multiply(wanted);
  tst_set_option("TILEBLAS_ROUTE", "gpu");
  *up = went_up > bytes() / 2;
  for (int i = 0; i < rows * N; i++)
    if (c[i] != wanted[i]) return printf("wrong\n"), false;
  return true;
}

int tst_array_ups(int calls) {
  int ups = 0;
  for (int i = 0; i < calls; i++) {
    bool up;
    if (!tst_array_call(&up)) return -1;
    ups += up;
  }
  return ups;
}

bool tst_array_ups_are(const char *what, int ups, int expected) {
  if (tst_fake() == NULL) return ups >= 0;
  if (ups != expected) printf("%s: %d ways up, not %d\n", what, ups, expected);
  return ups == expected;
}

void tst_array_case(int (*body)(void *), const char *which) { tst_in_a_process(body, (void *)(uintptr_t)which, which); }

/* Of an array about which CUDA is asked at once. Status 7: it goes up each time. What is wrong the tests find. */
static int goes_up(void *unused) {
  enum { CALLS = 8 };
  uint64_t seed = 6;
  (void)unused;
  tst_array_set_rows(TST_ARRAY_M / 2);
  tst_array_begin("auto", &seed);
  tst_array_map(&seed);
  return tst_array_ups(CALLS) == CALLS ? 7 : 0;
}

bool tst_array_stays(void) {
  struct tst_output o;
  tst_fork(&o, goes_up, NULL);
  const int status = o.status;
  tst_output_destroy(&o);
  return status != 7;
}
