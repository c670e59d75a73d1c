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
  for (size_t s = 0; s < TST_SPELLINGS; s++) {
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
  for (size_t s = 0; s < TST_SPELLINGS; s++)
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
  for (size_t s = 0; s < TST_SPELLINGS; s++) {
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

/* Columns of `len` floats, 16 MiB from one to the next: the last ones lie where an index of 32 bits does not reach.
 * Zero, and taking no memory, until they are written. */
static float *sparse_matrix(int64_t len, int64_t columns, int64_t ld, size_t *bytes) {
  *bytes = (size_t)((columns - 1) * ld + len) * sizeof(float);
  float *x = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (x == MAP_FAILED) tst_skip("no address space for a matrix of %zu bytes", *bytes);
  for (int64_t j = 0; j < columns; j++)
    for (int64_t i = 0; i < len; i++) x[i + j * ld] = (float)((i + 2 * j) % 7 - 3);
  return x;
}

static void check_sparse(int64_t m, int64_t n, int64_t k) {
  const int64_t ld = ((int64_t)1 << 22) + 1;
  struct tst_problem p = {.trans_a = 'N', .trans_b = 'N', .m = m, .n = n, .k = k, .alpha = 1, .beta = 1};
  p.lda = p.ldb = p.ldc = ld;
  size_t a_bytes, b_bytes, c_bytes;
  float *a = sparse_matrix(m, k, ld, &a_bytes), *b = sparse_matrix(k, n, ld, &b_bytes);
  float *c = sparse_matrix(m, n, ld, &c_bytes);
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm");
  tst_call(symbol, tst_resolve(symbol), &p, a, b, c);
  for (int64_t j = 0; j < n; j++)
    for (int64_t i = 0; i < m; i++) {
      float expected = (float)((i + 2 * j) % 7 - 3);
      for (int64_t l = 0; l < k; l++) expected += a[i + l * ld] * b[l + j * ld];
      if (c[i + j * ld] != expected)
        fail_msg("%s: C(%ld,%ld) = %g, not %g", tst_describe(symbol, &p), (long)i, (long)j, (double)c[i + j * ld],
                 (double)expected);
    }
  munmap(a, a_bytes), munmap(b, b_bytes), munmap(c, c_bytes);
}

/* Later tiles of B and C, and later steps of A's upload, start beyond 2^31 elements. */
static void indices_beyond_32_bits(void **state) {
  (void)state;
  check_sparse(3, 1100, 3);
  check_sparse(1100, 2, 1700);
}

/* The report names each symbol with its number of calls. */
static void the_report_counts_each_symbol(void **state) {
  (void)state;
  tileblas_stats_reset();
  for (size_t s = 0; s < TST_SPELLINGS; s++)
    for (size_t i = 0; i <= s; i++) {
      struct tst_problem p = {.trans_a = 'N', .trans_b = 'N', .m = 2, .n = 3, .k = 4, .alpha = 1};
      tst_set_leading(&p, 0);
      tst_check(&tst_symbols[s], &p, TST_INTEGERS, 1);
    }
  char *text = tst_report_read(tileblas_report);
  for (size_t s = 0; s < TST_SPELLINGS; s++) assert_int_equal(tst_report_symbol(text, tst_symbols[s].name), s + 1);
  const unsigned long long calls = TST_SPELLINGS * (TST_SPELLINGS + 1) / 2;
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
