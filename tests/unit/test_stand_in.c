/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What BLAS refuses of cgemm3m and zgemm3m, which have the arguments of cgemm and zgemm: the program's handler hears
 * the routine that it called and the number of the argument, also where that BLAS has none of the name and cgemm or
 * zgemm computes the valid ones; C is untouched, and the call counts through the symbol that it came by. A valid call
 * is right afterwards, by the long way and by the short.
 *
 *   test_stand_in none      without a CPU BLAS
 *   test_stand_in LIBRARY   behind that BLAS: what it tells itself of a name that it has, or else as without it
 *
 * Seen to fail when: an invalid call is handed to what stands in, so that CGEMM is heard of; a name of seven letters is
 * cut to six, or padded to eight.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heard.h"
#include "process.h"
#include "report.h"
#include "tileblas.h"

/* ---- calls ---- */

typedef void cblas_function(int, int, int, int64_t, int64_t, int64_t, const void *, const void *, int64_t, const void *,
                            int64_t, const void *, void *, int64_t);
typedef void fortran_function(const char *, const char *, const int64_t *, const int64_t *, const int64_t *,
                              const void *, const void *, const int64_t *, const void *, const int64_t *, const void *,
                              void *, const int64_t *, size_t, size_t);

cblas_function cblas_cgemm3m, scipy_cblas_zgemm3m64_;
fortran_function cgemm3m_, zgemm3m_64_;

static const struct {
  const char *symbol, *plain, *told; /* as OpenBLAS has it, and the name by which the routine is told of */
  cblas_function *cblas;
  fortran_function *fortran;
} ours[] = {{"cgemm3m_", "cgemm3m_", "CGEMM3M", NULL, cgemm3m_},
            {"zgemm3m_64_", "zgemm3m_", "ZGEMM3M", NULL, zgemm3m_64_},
            {"cblas_cgemm3m", "cblas_cgemm3m", "cblas_cgemm3m", cblas_cgemm3m, NULL},
            {"scipy_cblas_zgemm3m64_", "cblas_zgemm3m", "cblas_zgemm3m", scipy_cblas_zgemm3m64_, NULL}};

enum argument { LAYOUT, TRANS_A, TRANS_B, M, N, K, LDA, LDB, LDC };

/* Of a call that is legal but for the arguments named; a transpose is a letter, or CBLAS's number of it. */
struct call {
  int64_t argument[9];
  int number; /* in CBLAS's counting, from 1; of Fortran's one less */
};

/* 4 x 5 x 6, stored without transposes. */
static const struct call by_columns[] = {
    {{102, 'X', 'N', 4, 5, 6, 4, 6, 4}, 2},  {{102, 'N', 'R', 4, 5, 6, 4, 6, 4}, 3},
    {{102, 'N', 'N', -1, 5, 6, 4, 6, 4}, 4}, {{102, 'T', 'N', 4, -1, 6, 6, 6, 4}, 5},
    {{102, 'N', 'C', 4, 5, -1, 4, 5, 4}, 6}, {{102, 'N', 'N', 4, 5, 6, 3, 6, 4}, 9},
    {{102, 'C', 'N', 4, 5, 6, 5, 6, 4}, 9},  {{102, 'N', 'N', 4, 5, 6, 4, 5, 4}, 11},
    {{102, 'N', 'T', 4, 5, 6, 4, 4, 4}, 11}, {{102, 'N', 'N', 4, 5, 6, 4, 6, 3}, 14},
};
static const struct call of_cblas[] = {
    {{100, 'N', 'N', 4, 5, 6, 4, 6, 4}, 1},  {{101, 'X', 'N', 4, 5, 6, 6, 5, 5}, 2},
    {{101, 'N', 'N', -1, 5, 6, 6, 5, 5}, 4}, {{101, 'N', 'N', 4, -1, 6, 6, 5, 5}, 5},
    {{101, 'N', 'N', 4, 5, 6, 5, 5, 5}, 9},  {{101, 'N', 'N', 4, 5, 6, 6, 4, 5}, 11},
    {{101, 'C', 'N', 4, 5, 6, 3, 5, 5}, 9},  {{101, 'N', 'N', 4, 5, 6, 6, 5, 4}, 14},
};

static double a[128], b[128], c[128];

static void *our_function(int which) {
  return ours[which].cblas != NULL ? (void *)ours[which].cblas : (void *)ours[which].fortran;
}

static void make(int which, void *function, const struct call *call) {
  const int64_t *x = call->argument;
  const char ta = (char)x[TRANS_A], tb = (char)x[TRANS_B];
  static const double one_of_doubles[2] = {1, 0};
  static const float one_of_floats[2] = {1, 0};
  const void *one = strchr(ours[which].plain, 'z') ? (const void *)one_of_doubles : one_of_floats;
  static const int number[128] = {['N'] = 111, ['T'] = 112, ['C'] = 113, ['X'] = 110, ['R'] = 115};
  if (ours[which].cblas != NULL)
    ((cblas_function *)function)((int)x[LAYOUT], number[(int)ta], number[(int)tb], x[M], x[N], x[K], one, a, x[LDA], b,
                                 x[LDB], one, c, x[LDC]);
  else
    ((fortran_function *)function)(&ta, &tb, &x[M], &x[N], &x[K], one, a, &x[LDA], b, &x[LDB], one, c, &x[LDC], 1, 1);
}

/* 1 x 1 x 1, three times: 2 times 3 is added to C. The first makes the short way known, which the others go. */
static void valid_calls(int which) {
  static const struct call valid = {.argument = {102, 'N', 'N', 1, 1, 1, 1, 1, 1}};
  const bool doubles = strchr(ours[which].plain, 'z') != NULL;
  memcpy(a, doubles ? (const void *)(const double[2]){2} : (const float[2]){2}, sizeof(double));
  memcpy(b, doubles ? (const void *)(const double[2]){3} : (const float[2]){3}, sizeof(double));
  memset(c, 0, sizeof c);
  for (int i = 0; i < 3; i++) make(which, our_function(which), &valid);
  float as_float;
  memcpy(&as_float, c, sizeof as_float);
  const double sum = doubles ? c[0] : (double)as_float;
  if (!(sum == 18)) fail_msg("%s: the sum of three products is %g, not 18", ours[which].symbol, sum);
}

/* What must be heard: of a BLAS that has the routine what it tells itself, asked directly. */
static struct heard expected(int which, const struct call *call) {
  const bool fortran = ours[which].fortran != NULL;
  struct heard told = {.calls = 1, .info = call->number - fortran, .by_c = !fortran};
  strcpy(told.name, ours[which].told);
  told.length = strlen(told.name);
  void *const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  void *const function = handle != NULL ? dlsym(handle, ours[which].plain) : NULL;
  if (function == NULL) return told;
  heard = (struct heard){0};
  make(which, function, call);
  return heard;
}

static unsigned long long calls_so_far(const char *symbol) {
  char *const text = tst_report_read(tileblas_report);
  const unsigned long long calls = tst_report_symbol(text, symbol);
  free(text);
  return calls;
}

static void check(int which, const struct call *call) {
  const struct heard want = expected(which, call);
  if (want.calls == 0) return; /* OpenBLAS conjugates without transposing, by the letter R and the number 114 */
  const unsigned long long before = calls_so_far(ours[which].symbol);
  memset(c, 0, sizeof c);
  heard = (struct heard){0};
  make(which, our_function(which), call);
  if (memcmp(&heard, &want, sizeof want) != 0)
    fail_msg("%s: heard %d times, \"%s\" parameter %d, not %d times, \"%s\" parameter %d", ours[which].symbol,
             heard.calls, heard.name, heard.info, want.calls, want.name, want.info);
  for (int i = 0; i < 128; i++) assert_true(c[i] == 0);
  assert_int_equal(calls_so_far(ours[which].symbol), before + 1);
}

static void refusals(void **state) {
  (void)state;
  for (int which = 0; which < 4; which++) {
    for (size_t i = 0; i < sizeof by_columns / sizeof *by_columns; i++) check(which, &by_columns[i]);
    for (size_t i = 0; ours[which].cblas != NULL && i < sizeof of_cblas / sizeof *of_cblas; i++)
      check(which, &of_cblas[i]);
    const unsigned long long before = calls_so_far(ours[which].symbol);
    valid_calls(which);
    assert_int_equal(calls_so_far(ours[which].symbol), before + 3);
  }
  tileblas_stats stats;
  tileblas_stats_get(&stats);
  assert_true(stats.cpu_calls >= 54 + 12 && stats.gpu_calls == 0);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(refusals)};
  if (argc != 2) return 2;
  library = argv[1];
  if (!alone()) {
    if (!dlopen(library, RTLD_NOW | RTLD_LOCAL)) tst_skip("%s is not installed", library);
    tileblas_option_set("TILEBLAS_FALLBACK", library);
  }
  return cmocka_run_group_tests_name(library, tests, NULL, NULL);
}
