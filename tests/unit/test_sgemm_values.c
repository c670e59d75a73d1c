/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the numbers may be: every alpha and beta, Inf and NaN in the operands and the scalars, subnormals, overflow,
 * sums long enough for rounding to matter, and what must not be read at all.
 *
 * Seen to fail when: beta * C is computed for beta = 0; zeros of B are skipped as old BLAS did; subnormals are flushed;
 * alpha is applied twice when k is split; the CPU BLAS is asked to multiply when alpha or k is zero (OpenBLAS with
 * AVX-512).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>

#include "check.h"
#include "rng.h"

static struct tst_problem problem(int variant, int64_t m, int64_t n, int64_t k, float alpha, float beta) {
  struct tst_problem p = tst_variant(variant, m, n, k, alpha, beta);
  tst_set_leading(&p, variant % 4);
  return p;
}

static void check(const struct tst_problem *p, enum tst_values values, uint64_t seed) {
  tst_check(tst_find_symbol("cblas_sgemm"), p, values, seed);
}

static void every_alpha_and_beta(void **state) {
  (void)state;
  const float scalars[] = {0, -0.0f, 1, -1, 2.5f, -0.5f};
  int variant = 0;
  for (int a = 0; a < 6; a++)
    for (int b = 0; b < 6; b++)
      for (int i = 0; i < 3; i++, variant++) {
        struct tst_problem p = problem(variant, 33, 37, 35, scalars[a], scalars[b]);
        check(&p, TST_INTEGERS, (uint64_t)variant);
        p.alpha *= 1e-3f, p.beta *= 7e4f; /* and scalars that round */
        check(&p, TST_SIGNED, (uint64_t)variant);
      }
}

static void scalars_that_are_no_numbers(void **state) {
  (void)state;
  const float scalars[] = {NAN, INFINITY, -INFINITY, 1};
  for (int a = 0; a < 4; a++)
    for (int b = 0; b < 4; b++) {
      for (int64_t k = 0; k <= 5; k += 5) { /* with k = 0, alpha multiplies nothing */
        struct tst_problem p = problem(a * 4 + b, 9, 35, k, scalars[a], scalars[b]);
        check(&p, TST_SIGNED, (uint64_t)(a + b));
      }
    }
}

/* Fills A and B with numbers and C with NaN, or the other way round. */
static void check_unread(struct tst_problem p, bool c_is_nan) {
  struct tst_operands x;
  uint64_t rng = 5;
  tst_operands_create(&x, &p, TST_INTEGERS, &rng);
  if (c_is_nan) {
    tst_matrix_fill(&x.c, TST_NAN, &rng);
  } else {
    tst_matrix_fill(&x.a, TST_NAN, &rng);
    tst_matrix_fill(&x.b, TST_NAN, &rng);
  }
  tst_matrix_remember(&x.a);
  tst_matrix_remember(&x.b);
  tst_matrix_remember(&x.c);
  tst_check_operands(tst_find_symbol("cblas_sgemm"), &p, &x, true);
  tst_operands_destroy(&x);
}

static void beta_zero_does_not_read_c(void **state) {
  (void)state;
  for (int variant = 0; variant < 18; variant++) {
    check_unread(problem(variant, 31, 45, 20, 1, 0), true);
    check_unread(problem(variant, 31, 45, 20, -1, -0.0f), true);
    check_unread(problem(variant, 31, 45, 0, 1, 0), true);
    check_unread(problem(variant, 31, 45, 20, 0, 0), true);
  }
}

static void alpha_zero_does_not_read_a_and_b(void **state) {
  (void)state;
  for (int variant = 0; variant < 18; variant++) check_unread(problem(variant, 31, 45, 20, 0, 2.5f), false);
}

/* Inf and NaN land where IEEE arithmetic puts them, next to edges whose zero fill must not meet them. */
static void inf_and_nan_in_the_operands(void **state) {
  (void)state;
  for (int variant = 0; variant < 18; variant++) {
    const float beta = (float)(variant % 3 - 1);
    struct tst_problem p = problem(variant, 33, 45, 3 + variant % 5, 1, beta);
    check(&p, TST_SPECIAL, (uint64_t)variant);
    p = problem(variant, 65, 17, 21, -0.5f, beta);
    check(&p, TST_SPECIAL, (uint64_t)variant + 100);
  }
}

/* One Inf in the last row and column of A: with B = 0 it makes NaN in one line of C, and only there. */
static void zero_times_inf_is_nan(void **state) {
  (void)state;
  for (int64_t k = 1; k <= 33; k += 16) {
    struct tst_problem p = problem(0, 33, 34, k, 1, 0);
    struct tst_operands x;
    uint64_t rng = 3;
    tst_operands_create(&x, &p, TST_INTEGERS, &rng);
    for (int64_t j = 0; j < p.n; j++)
      for (int64_t l = 0; l < k; l++) x.b.data[j * p.ldb + l] = 0;
    x.a.data[(k - 1) * p.lda + p.m - 1] = INFINITY;
    tst_matrix_remember(&x.a);
    tst_matrix_remember(&x.b);
    tst_check_operands(tst_find_symbol("cblas_sgemm"), &p, &x, false);
    assert_true(isnan(x.c.data[p.m - 1]));
    assert_true(x.c.data[0] == 0);
    tst_operands_destroy(&x);
  }
}

/* A and B may be one and the same, as in A * A. */
static void one_matrix_as_both_operands(void **state) {
  (void)state;
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm");
  for (int variant = 0; variant < 18; variant++) {
    struct tst_problem p = problem(variant, 37, 37, 37, 1, 1);
    p.ldb = p.lda;
    struct tst_operands x;
    struct tst_expected e;
    uint64_t rng = (uint64_t)variant;
    tst_operands_create(&x, &p, TST_INTEGERS, &rng);
    struct tst_matrix b = x.b;
    x.b = x.a;
    tst_expect(&e, &p, &x);
    tst_call(symbol, tst_resolve(symbol), &p, x.a.data, x.a.data, x.c.data);
    const char *what = tst_verify(&p, &x, &e);
    if (what) fail_msg("%s: %s", tst_describe(symbol, &p), what);
    tst_expected_destroy(&e);
    x.b = b;
    tst_operands_destroy(&x);
  }
}

/* k = 1, alpha = 1, beta = 0: the answer is one rounded fp32 product, the same on every machine. */
static void check_single_product(float a, float b) {
  struct tst_problem p = problem(0, 35, 33, 1, 1, 0);
  struct tst_operands x;
  uint64_t rng = 2;
  tst_operands_create(&x, &p, TST_INTEGERS, &rng);
  for (int64_t i = 0; i < p.m; i++) x.a.data[i] = a;
  for (int64_t j = 0; j < p.n; j++) x.b.data[j * p.ldb] = b;
  tst_call(tst_find_symbol("cblas_sgemm"), tst_resolve(tst_find_symbol("cblas_sgemm")), &p, x.a.data, x.b.data,
           x.c.data);
  volatile float expected = a * b;
  for (int64_t j = 0; j < p.n; j++)
    for (int64_t i = 0; i < p.m; i++) {
      float got = x.c.data[j * p.ldc + i];
      if (got != expected) fail_msg("%a * %a = %a, not %a", (double)a, (double)b, (double)expected, (double)got);
    }
  tst_operands_destroy(&x);
}

static void subnormals_and_overflow(void **state) {
  (void)state;
  check_single_product(0x1p-100f, 0x1.8p-30f); /* a subnormal, exact */
  check_single_product(0x1p-100f, 0x1p-49f);   /* the smallest one */
  check_single_product(0x1.8p-100f, 0x1p-49f); /* rounds within the subnormals */
  check_single_product(0x1p-140f, 0x1p20f);    /* from a subnormal to a normal number */
  check_single_product(0x1p-140f, 0.5f);       /* subnormal times normal */
  check_single_product(FLT_MAX, 1.0f + FLT_EPSILON);
  check_single_product(-0x1p100f, 0x1p100f);
}

/* Long sums of one sign: the bound is k eps |A||B|, with no cancellation to hide behind. */
static void long_sums(void **state) {
  (void)state;
  const int64_t depths[] = {255, 1000, 4099};
  for (int i = 0; i < 3; i++)
    for (int variant = 0; variant < 18; variant += 5) {
      struct tst_problem p = problem(variant, 19, 23, depths[i], 1, 0);
      check(&p, TST_POSITIVE, (uint64_t)variant);
      p.alpha = -0.3f, p.beta = 1.7f;
      check(&p, TST_SIGNED, (uint64_t)variant);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_alpha_and_beta),
      cmocka_unit_test(scalars_that_are_no_numbers),
      cmocka_unit_test(beta_zero_does_not_read_c),
      cmocka_unit_test(alpha_zero_does_not_read_a_and_b),
      cmocka_unit_test(inf_and_nan_in_the_operands),
      cmocka_unit_test(zero_times_inf_is_nan),
      cmocka_unit_test(one_matrix_as_both_operands),
      cmocka_unit_test(subnormals_and_overflow),
      cmocka_unit_test(long_sums),
  };
  tst_check_setup();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
