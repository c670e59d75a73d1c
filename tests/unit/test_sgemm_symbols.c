/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every exported symbol through its own calling convention: 32 and 64 bit, by value and by address, letters of both
 * cases.
 *
 * Seen to fail when: a row of symbols.def has the wrong integer width; a 64-bit leading dimension is narrowed;
 * lower-case letters are refused.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "check.h"
#include "report.h"
#include "rng.h"
#include "tileblas.h"
#include "process.h"

static void set_letters(struct tst_problem *p, const char *letters, int number) {
  p->trans_a = letters[number % 3];
  p->trans_b = letters[number / 3 % 3];
}

static void check_symbol(const struct tst_symbol *symbol, const char *letters, bool row_major) {
  const float scalars[] = {1, -1, 2.5f, 0};
  uint64_t rng = 11;
  for (int i = 0; i < 9; i++) {
    struct tst_problem p = {.row_major = row_major, .m = 1 + i * 5, .n = 1 + tst_random_below(&rng, 40), .k = 34 - i};
    set_letters(&p, letters, i);
    p.alpha = scalars[i % 3], p.beta = scalars[i % 4];
    tst_set_leading(&p, i % 4);
    tst_check(symbol, &p, TST_INTEGERS, (uint64_t)i);
  }
}

static void every_symbol(void **state) {
  (void)state;
  for (size_t s = 0; s < tst_symbol_count; s++) {
    check_symbol(&tst_symbols[s], "NTC", false);
    if (tst_is_fortran(&tst_symbols[s]))
      check_symbol(&tst_symbols[s], "ntc", false);
    else
      check_symbol(&tst_symbols[s], "NTC", true);
  }
}

/* Nothing to multiply, through every symbol: m, n or k = 0, or alpha = 0. */
static void every_symbol_quick_return(void **state) {
  (void)state;
  for (size_t s = 0; s < tst_symbol_count; s++)
    for (int which = 0; which < 4; which++) {
      struct tst_problem p = {.trans_a = 'N', .trans_b = 'T', .m = 5, .n = 7, .k = 9, .alpha = 1, .beta = 2.5f};
      if (which == 0) p.m = 0;
      if (which == 1) p.n = 0;
      if (which == 2) p.k = 0;
      if (which == 3) p.alpha = 0;
      tst_set_leading(&p, 2);
      tst_check(&tst_symbols[s], &p, TST_INTEGERS, 1);
    }
}

/*
 * With one column each, a leading dimension may be larger than 2^31: a legal call that only a 64-bit interface can
 * make, and that no 32-bit BLAS can answer unless somebody narrows it with thought.
 */
static void leading_dimensions_beyond_32_bits(void **state) {
  (void)state;
  const int64_t huge = ((int64_t)1 << 33) + 1;
  for (size_t s = 0; s < tst_symbol_count; s++) {
    if (!tst_is_64bit(&tst_symbols[s])) continue;
    float a[3] = {1, 2, 3}, b[1] = {4}, c[3] = {10, 20, 30};
    struct tst_problem p = {.trans_a = 'N', .trans_b = 'N', .m = 3, .n = 1, .k = 1, .alpha = 1, .beta = 2};
    p.lda = p.ldb = p.ldc = huge;
    tst_call(&tst_symbols[s], tst_resolve(&tst_symbols[s]), &p, a, b, c);
    const float expected[3] = {24, 48, 72};
    if (memcmp(c, expected, sizeof c) != 0)
      fail_msg("%s: %g %g %g", tst_describe(&tst_symbols[s], &p), (double)c[0], (double)c[1], (double)c[2]);
  }
}

/* 3 columns (rows, when row-major) that lie 4 GiB apart, so that an index computed in 32 bits lands elsewhere. */
static float *sparse_matrix(int64_t ld) {
  size_t bytes = (size_t)(2 * ld + 3) * sizeof(float);
  float *x = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (x == MAP_FAILED) tst_skip("no address space for matrices of %zu bytes", bytes);
  return x;
}

static void indices_beyond_32_bits(void **state) {
  (void)state;
  const int64_t ld = ((int64_t)1 << 30) + 1;
  float *a = sparse_matrix(ld), *b = sparse_matrix(ld), *c = sparse_matrix(ld);
  for (int variant = 0; variant < 8; variant++) {
    struct tst_problem p = {.row_major = variant % 2,
                            .trans_a = "NT"[variant / 2 % 2],
                            .trans_b = "NT"[variant / 4],
                            .m = 3,
                            .n = 3,
                            .k = 3,
                            .alpha = 1,
                            .lda = ld,
                            .ldb = ld,
                            .beta = 1,
                            .ldc = ld};
    float expected[9] = {0};
    for (int i = 0; i < 9; i++) {
      a[i % 3 + i / 3 * ld] = (float)(i + 1);
      b[i % 3 + i / 3 * ld] = (float)(2 * i - 5);
      c[i % 3 + i / 3 * ld] = 100;
    }
    for (int i = 0; i < 3; i++)
      for (int j = 0; j < 3; j++)
        for (int l = 0; l < 3; l++) {
          int64_t at = (p.trans_a == 'N') != p.row_major ? i + l * ld : l + i * ld;
          int64_t bt = (p.trans_b == 'N') != p.row_major ? l + j * ld : j + l * ld;
          expected[i + 3 * j] += a[at] * b[bt];
        }
    tst_call(tst_find_symbol("cblas_sgemm"), tst_resolve(tst_find_symbol("cblas_sgemm")), &p, a, b, c);
    for (int i = 0; i < 3; i++)
      for (int j = 0; j < 3; j++) assert_true(c[p.row_major ? j + i * ld : i + j * ld] == 100 + expected[i + 3 * j]);
  }
  size_t bytes = (size_t)(2 * ld + 3) * sizeof(float);
  munmap(a, bytes), munmap(b, bytes), munmap(c, bytes);
}

/* The report names each symbol with its number of calls. */
static void the_report_counts_each_symbol(void **state) {
  (void)state;
  tileblas_stats_reset();
  for (size_t s = 0; s < tst_symbol_count; s++)
    for (size_t i = 0; i <= s; i++) {
      struct tst_problem p = {.trans_a = 'N', .trans_b = 'N', .m = 2, .n = 3, .k = 4, .alpha = 1};
      tst_set_leading(&p, 0);
      tst_check(&tst_symbols[s], &p, TST_INTEGERS, 1);
    }
  const char *path = tst_temporary_file();
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  tileblas_report(fileno(file));
  fclose(file);
  char *text = tst_read_file(path);
  for (size_t s = 0; s < tst_symbol_count; s++) assert_int_equal(tst_report_symbol(text, tst_symbols[s].name), s + 1);
  const unsigned long long calls = tst_symbol_count * (tst_symbol_count + 1) / 2;
  assert_int_equal(tst_report_calls(text, "gpu", "TILEBLAS_ROUTE=gpu"), tst_expect_gpu() ? calls : 0);
  assert_int_equal(tst_report_calls(text, "cpu", NULL), tst_expect_gpu() ? 0 : calls);
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_symbol),
      cmocka_unit_test(every_symbol_quick_return),
      cmocka_unit_test(leading_dimensions_beyond_32_bits),
      cmocka_unit_test(indices_beyond_32_bits),
      cmocka_unit_test(the_report_counts_each_symbol),
  };
  tst_check_setup();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
