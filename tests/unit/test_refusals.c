/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arguments that BLAS refuses, one at a time and every pair, through every symbol, both layouts and all transposes,
 * with the extremes of either integer width among them: the program's handler hears the routine, padded as the
 * reference pads it, and the number of the first bad argument in the reference's order; C is untouched, nothing else is
 * printed, and the call counts once, as refused.
 *
 *   test_refusals none               without a CPU BLAS: what is heard is told by the order written out here
 *   test_refusals LIBRARY            behind that BLAS: what it tells itself when it is called directly. Sizes that its
 *                                    integers cannot express are refused as without it
 *
 * Seen to fail when: a number stands for another argument, or comes out of turn; a size is narrowed before it is
 * checked; the name is not padded; the wrong handler is told.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "heard.h"
#include "process.h"
#include "tileblas.h"

/* ---- a call, and what the reference says of it ---- */

enum argument { LAYOUT, TRANS_A, TRANS_B, M, N, K, LDA, LDB, LDC, ARGUMENTS };

struct call {
  int64_t argument[ARGUMENTS];
};

typedef void cblas32_fn(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *,
                        int);
typedef void cblas64_fn(int, int, int, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *, int64_t,
                        float, float *, int64_t);
typedef void fortran32_fn(const char *, const char *, const int *, const int *, const int *, const float *,
                          const float *, const int *, const float *, const int *, const float *, float *, const int *,
                          size_t, size_t);
typedef void fortran64_fn(const char *, const char *, const int64_t *, const int64_t *, const int64_t *, const float *,
                          const float *, const int64_t *, const float *, const int64_t *, const float *, float *,
                          const int64_t *, size_t, size_t);

/* Ours, linked in: named, so that the linker takes them from the archive. */
#define EXPORTED(each)                                                                                           \
  each(cblas_sgemm) each(cblas_sgemm64_) each(cblas_sgemm_64) each(scipy_cblas_sgemm) each(scipy_cblas_sgemm64_) \
      each(sgemm_) each(sgemm_64_) each(sgemm_64) each(scipy_sgemm_) each(scipy_sgemm_64_)
#define DECLARED(symbol) void symbol(void);
#define ENTRY(symbol) {#symbol, (void *)symbol},
EXPORTED(DECLARED)
static const struct {
  const char *name;
  void *function;
} exported[] = {EXPORTED(ENTRY)};

static void *ours(const struct tst_symbol *symbol) {
  for (size_t i = 0; i < sizeof exported / sizeof *exported; i++)
    if (strcmp(exported[i].name, symbol->name) == 0) return exported[i].function;
  fail_msg("%s is not in this test's list", symbol->name);
  return NULL;
}

static float a[64], b[64], c[64];
static const float alpha = 1, beta = 2;

static void make(enum tst_abi abi, void *function, const struct call *call) {
  const int64_t *x = call->argument;
  const int y[ARGUMENTS] = {(int)x[0], (int)x[1], (int)x[2], (int)x[3], (int)x[4],
                            (int)x[5], (int)x[6], (int)x[7], (int)x[8]};
  const char ta = (char)x[TRANS_A], tb = (char)x[TRANS_B];
  if (abi == TST_CBLAS32)
    ((cblas32_fn *)function)(y[0], y[1], y[2], y[M], y[N], y[K], alpha, a, y[LDA], b, y[LDB], beta, c, y[LDC]);
  else if (abi == TST_CBLAS64)
    ((cblas64_fn *)function)(y[0], y[1], y[2], x[M], x[N], x[K], alpha, a, x[LDA], b, x[LDB], beta, c, x[LDC]);
  else if (abi == TST_FORTRAN32)
    ((fortran32_fn *)function)(&ta, &tb, &y[M], &y[N], &y[K], &alpha, a, &y[LDA], b, &y[LDB], &beta, c, &y[LDC], 1, 1);
  else
    ((fortran64_fn *)function)(&ta, &tb, &x[M], &x[N], &x[K], &alpha, a, &x[LDA], b, &x[LDB], &beta, c, &x[LDC], 1, 1);
}

static int64_t most(int64_t x, int64_t y) { return x > y ? x : y; }

/* 0: not transposed, 1: transposed, -1: neither. */
static int transposed(bool fortran, int64_t t) {
  if (fortran) return t != 0 && strchr("Nn", (int)t) ? 0 : t != 0 && strchr("TtCc", (int)t) ? 1 : -1;
  return t == 111 ? 0 : t == 112 || t == 113 ? 1 : -1;
}

/* What is too small or illegal of the stored operands, by the layout alone: no product changes places here. */
static bool is_bad(const struct call *call, bool fortran, enum argument which) {
  const int64_t *x = call->argument;
  const bool rows = x[LAYOUT] == 101;
  const int ta = transposed(fortran, x[TRANS_A]), tb = transposed(fortran, x[TRANS_B]);
  switch (which) {
    case LAYOUT:
      return !fortran && x[LAYOUT] != 101 && x[LAYOUT] != 102;
    case TRANS_A:
      return ta < 0;
    case TRANS_B:
      return tb < 0;
    case LDA:
      return x[LDA] < most(1, (ta == 1) == rows ? x[M] : x[K]);
    case LDB:
      return x[LDB] < most(1, (tb == 1) == rows ? x[K] : x[N]);
    case LDC:
      return x[LDC] < most(1, rows ? x[N] : x[M]);
    default:
      return x[which] < 0;
  }
}

/*
 * Fortran's sgemm checks its arguments in the order in which they stand. CBLAS checks the layout, then has the
 * column-major product checked: of a row-major call that is the transposed one, in which A and B, m and n change
 * places. Numbers are those of the arguments as the program passed them.
 */
static int expected_number(const struct call *call, bool fortran) {
  static const enum argument in_order[2][ARGUMENTS] = {{LAYOUT, TRANS_A, TRANS_B, M, N, K, LDA, LDB, LDC},
                                                       {LAYOUT, TRANS_B, TRANS_A, N, M, K, LDB, LDA, LDC}};
  static const int number[ARGUMENTS] = {
      [LAYOUT] = 1, [TRANS_A] = 2, [TRANS_B] = 3, [M] = 4, [N] = 5, [K] = 6, [LDA] = 9, [LDB] = 11, [LDC] = 14};
  const bool rows = !fortran && call->argument[LAYOUT] == 101;
  for (int i = 0; i < ARGUMENTS; i++)
    if (is_bad(call, fortran, in_order[rows][i])) return number[in_order[rows][i]] - fortran;
  return 0;
}

static bool fits(const struct call *call) {
  for (int i = M; i < ARGUMENTS; i++)
    if (call->argument[i] < INT_MIN || call->argument[i] > INT_MAX) return false;
  return true;
}

static const char *describe(const struct tst_symbol *s, const struct call *call) {
  static char text[512];
  const int64_t *x = call->argument;
  snprintf(text, sizeof text, "%s layout %d transposes %d %d m=%lld n=%lld k=%lld lda=%lld ldb=%lld ldc=%lld", s->name,
           (int)x[0], (int)x[1], (int)x[2], (long long)x[M], (long long)x[N], (long long)x[K], (long long)x[LDA],
           (long long)x[LDB], (long long)x[LDC]);
  return text;
}

/* What the BLAS behind us tells of it, asked directly; its own integers have 32 bits. */
static struct heard told_by_library(bool fortran, const struct call *call) {
  static void *functions[2];
  if (!functions[fortran]) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    functions[fortran] = handle ? dlsym(handle, fortran ? "sgemm_" : "cblas_sgemm") : NULL;
    if (!functions[fortran]) fail_msg("%s: %s", library, dlerror());
  }
  heard = (struct heard){0};
  make(fortran ? TST_FORTRAN32 : TST_CBLAS32, functions[fortran], call);
  return heard;
}

static void fill(void) {
  for (int i = 0; i < 64; i++) a[i] = (float)(i % 5), b[i] = (float)(i % 3), c[i] = (float)i;
}

static unsigned long refused;

/* Legal ones are left alone: their operands would be read. C is what it was, unless that BLAS computes all the same, as
 * OpenBLAS does with the transpose 114. */
static void check(const struct tst_symbol *symbol, const struct call *call) {
  static float expected_c[64];
  const bool fortran = tst_is_fortran(symbol), by_library = !alone() && fits(call);
  const int number = expected_number(call, fortran);
  if (number == 0) return;
  struct heard expected = {.calls = 1, .info = number, .by_c = !fortran};
  strcpy(expected.name, fortran ? "SGEMM " : "cblas_sgemm");
  expected.length = strlen(expected.name);
  fill();
  if (by_library) expected = told_by_library(fortran, call);
  memcpy(expected_c, c, sizeof c);
  fill();
  heard = (struct heard){0};
  tileblas_stats was, is;
  tileblas_stats_get(&was);
  make(symbol->abi, ours(symbol), call);
  tileblas_stats_get(&is);
  if (heard.calls != expected.calls || heard.info != expected.info || heard.by_c != expected.by_c ||
      heard.length != expected.length || strcmp(heard.name, expected.name) != 0)
    fail_msg("%s: heard %d times, \"%s\" parameter %d, not %d times, \"%s\" parameter %d", describe(symbol, call),
             heard.calls, heard.name, heard.info, expected.calls, expected.name, expected.info);
  if (memcmp(expected_c, c, sizeof c) != 0) fail_msg("%s: C was changed", describe(symbol, call));
  if (is.cpu_calls == was.cpu_calls || is.gpu_calls != was.gpu_calls || !(is.cpu_flops == was.cpu_flops))
    fail_msg("%s: not counted as refused", describe(symbol, call));
  refused++;
}

/* ---- every argument, every pair ---- */

/* Values that are wrong or extreme: some would be legal if they were cut to 32 bits. */
static const int64_t narrow_sizes[] = {-1, INT_MIN, INT_MAX}, narrow_leading[] = {0, 3, -1, INT_MIN};
static const int64_t wide_sizes[] = {
    -1, INT_MIN, INT64_MIN, INT64_MAX, (int64_t)1 << 31, ((int64_t)1 << 32) + 4, -((int64_t)1 << 32) + 4};
static const int64_t wide_leading[] = {0, 3, INT64_MIN, -((int64_t)1 << 32) + 8, -((int64_t)1 << 31) - 1};
static const int64_t layouts[] = {0, 100, 103}, transposes[] = {0, 110, 115, 'N'}, letters[] = {0, 'X', 'n' + 128, '1'};

struct values {
  const int64_t *value;
  size_t count;
};

#define VALUES(array) \
  (struct values) { array, sizeof array / sizeof *array }

static struct values bad_values(const struct tst_symbol *symbol, enum argument which) {
  const bool wide = tst_is_64bit(symbol);
  if (which == LAYOUT) return VALUES(layouts);
  if (which == TRANS_A || which == TRANS_B) return tst_is_fortran(symbol) ? VALUES(letters) : VALUES(transposes);
  if (which >= LDA) return wide ? VALUES(wide_leading) : VALUES(narrow_leading);
  return wide ? VALUES(wide_sizes) : VALUES(narrow_sizes);
}

/* Two arguments replaced by each of their bad values, or one when they are the same. */
static void check_pair(const struct tst_symbol *symbol, const struct call *good, enum argument one, enum argument two) {
  const struct values first = bad_values(symbol, one), second = bad_values(symbol, two);
  for (size_t i = 0; i < first.count; i++)
    for (size_t j = 0; j < (one == two ? 1 : second.count); j++) {
      struct call call = *good;
      if (one != two) call.argument[two] = second.value[j];
      call.argument[one] = first.value[i];
      check(symbol, &call);
    }
}

static void check_symbol(const struct tst_symbol *symbol) {
  static const int64_t numbers[] = {111, 112, 113}, characters[] = {'N', 'T', 'C', 'n', 't', 'c'};
  const bool fortran = tst_is_fortran(symbol);
  const int64_t *const given = fortran ? characters : numbers;
  const int count = fortran ? 6 : 3;
  for (int layout = 101 + fortran; layout <= 102; layout++)
    for (int t = 0; t < count * count; t++) {
      const struct call good = {{layout, given[t / count], given[t % count], 4, 5, 6, 8, 8, 8}};
      if (!fortran) { /* no more of these: OpenBLAS would compute with whatever sizes */
        struct call conjugated = good;
        conjugated.argument[TRANS_A + t % 2] = 114;
        check(symbol, &conjugated);
      }
      const struct call empty = {{layout, given[t / count], given[t % count], 0, 0, 0, 1, 1, 1}};
      for (int one = fortran; one < ARGUMENTS; one++)
        for (int two = one; two < ARGUMENTS; two++) {
          check_pair(symbol, &good, (enum argument)one, (enum argument)two);
          check_pair(symbol, &empty, (enum argument)one, (enum argument)two);
        }
    }
}

static void every_pair_of_bad_arguments(void **state) {
  (void)state;
  for (size_t s = 0; s < TST_SPELLINGS; s++) check_symbol(&tst_symbols[s]);
  print_message("%lu calls refused\n", refused);
  assert_true(refused > 100000);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_pair_of_bad_arguments)};
  if (argc != 2) return 2;
  library = argv[1];
  tileblas_option_set("TILEBLAS_ROUTE", "cpu");
  if (!alone()) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle) tst_skip("%s is not installed", library);
    tileblas_option_set("TILEBLAS_FALLBACK", library);
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
