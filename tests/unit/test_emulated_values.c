/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the numbers may be in products by the tensor cores' kernels: ordinary ones, for which fp16 planes are enough;
 * wide and graded ones, which take bf16 planes; what neither hold: Inf, NaN, results that overflow, subnormals. Errors
 * are compared with those of one chain of fp32 FMAs over the same data, which they may not exceed, neither the largest
 * nor the mean; where fp32 rounds nothing, with the exact answer. And what is in one row or column of the operands
 * changes no bit of the tiles that it is not in.
 */
#include "emulated_product.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rng.h"

/* ---- values ---- */

/* How far exponents reach, in either direction. */
static int span;
static int64_t depth; /* k */

static float positive(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  (void)of_b, (void)side, (void)l;
  return tst_random_unit(rng);
}

static float of_either_sign(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  (void)of_b, (void)side, (void)l;
  return 2 * tst_random_unit(rng) - 1;
}

/* A sum of twelve, as Irwin and Hall have it. */
static float normal(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  (void)of_b, (void)side, (void)l;
  float sum = -6;
  for (int i = 0; i < 12; i++) sum += tst_random_unit(rng);
  return sum;
}

/* Uniform in the logarithm, between 2^-span and 2^span. */
static float log_uniform(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  (void)of_b, (void)side, (void)l;
  const float size = exp2f((float)span * (2 * tst_random_unit(rng) - 1));
  return tst_random_below(rng, 2) ? size : -size;
}

/* From 2^span down to 2^-span along k, and op(B) the other way round, so that all products are of one size. */
static int grade(bool of_b, int64_t l) {
  const int exponent = span - (int)(2 * span * l / (depth - 1));
  return of_b ? -exponent : exponent;
}

static float graded(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  (void)side;
  return ldexpf(2 * tst_random_unit(rng) - 1, grade(of_b, l));
}

/* The same with whole numbers: no chain of fp32 rounds. */
static float graded_whole(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  (void)side;
  return ldexpf((float)(tst_random_below(rng, 9) - 4), grade(of_b, l));
}

/* Whole numbers, rows and columns of all sizes. */
static float scaled_whole(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  (void)l;
  const int exponent = (int)(side % (2 * span + 1)) - span;
  return ldexpf((float)(tst_random_below(rng, 9) - 4), of_b ? exponent / 2 : exponent);
}

/* A thousand million in one place of each side, another for each. */
static float one_huge(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  const float x = 2 * tst_random_unit(rng) - 1;
  return l == (side * 7 + (of_b ? 3 : 0)) % depth ? ldexpf(x, 30) : x;
}

/* The same of op(A) alone: one product is far larger than all others. */
static float one_huge_row(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  const float x = 2 * tst_random_unit(rng) - 1;
  return !of_b && l == side * 7 % depth ? ldexpf(x, 40) : x;
}

/* op(A) subnormal, op(B) so large that the products are ordinary. */
static float subnormal_a(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  (void)side, (void)l;
  const int64_t largest = of_b ? 4 : 1000;
  return ldexpf((float)(tst_random_below(rng, 2 * largest + 1) - largest), of_b ? 120 : -149);
}

static float small_words(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  (void)of_b, (void)side, (void)l;
  return ldexpf(2 * tst_random_unit(rng) - 1, -span);
}

/* Every third row of op(A) has zeros alone, of either sign. */
static float zero_rows(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  if (!of_b && side % 3 == 0) return l % 2 ? -0.0f : 0;
  return (float)(tst_random_below(rng, 9) - 4);
}

static float products_of_minus_zero(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  (void)rng, (void)side, (void)l;
  return of_b ? -0x1p-100f : 0x1p-100f;
}

/* Of one sign in a row, so that there is no doubt: 2^115, 2^125 and too much in every third column. */
static float overflowing(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  (void)l;
  const float x = 1 + tst_random_unit(rng);
  if (of_b) return ldexpf(x, side % 3 == 2 ? 40 : (int)(8 + side % 3 * 10));
  return ldexpf(side % 2 ? -x : x, 100);
}

/* The same, but ordinary sums before the last span. */
static float overflowing_at_last(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  const float x = overflowing(rng, of_b, side, l);
  return l < TB_EMULATED_GROUP_K ? ldexpf(x, -20) : x;
}

/* The largest numbers, once in a sum. */
static float one_term(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  static const float ends[] = {FLT_MAX, -FLT_MAX, 0x1p127f, 0x1.000002p126f};
  (void)rng;
  if (of_b) return side % 2 ? 1 : 0.5f;
  return l == side % depth ? ends[side % 4] : 0;
}

/* 2^127 and -2^127 in turns: no chain of fp32 leaves the range. */
static float alternating(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  (void)rng, (void)side;
  return of_b ? 1 : l % 2 ? -0x1p127f : 0x1p127f;
}

static float with_specials(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  (void)l;
  if (side % (of_b ? 5 : 7) == 2) switch (tst_random_below(rng, 40)) {
      case 0:
        return INFINITY;
      case 1:
        return -INFINITY;
      case 2:
        return side % 2 ? NAN : 0;
      case 3:
        return 0;
    }
  return 2 * tst_random_unit(rng) - 1;
}

static float with_specials_at_last(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  return l < TB_EMULATED_GROUP_K ? of_either_sign(rng, of_b, side, l) : with_specials(rng, of_b, side, l);
}

static struct tst_emulated_problem problem(int64_t m, int64_t n, int64_t k) {
  depth = k;
  return (struct tst_emulated_problem){.transpose_a = k & 1, .m = m, .n = n, .k = k, .alpha = 1, .splits = 1};
}

/* ---- checks ---- */

static struct tst_emulated_errors check(const struct tst_emulated_problem *p, tst_emulated_value *value, uint64_t seed,
                                        bool exact) {
  struct tst_emulated_product t;
  struct tst_emulated_expected e;
  tst_emulated_create(&t, p, value, seed);
  tst_emulated_expect(&e, &t);
  float *d = tst_emulated_compute(&t, 0, 0);
  if (exact) tst_emulated_assert_exact(&t, &e, d);
  tst_emulated_assert_bounded(&t, &e, d);
  const struct tst_emulated_errors ours = tst_emulated_errors_of(&e, d, p->m, 0, p->m, 0, p->n);
  const struct tst_emulated_errors chain = tst_emulated_errors_of(&e, e.chain, p->m, 0, p->m, 0, p->n);
  /* Errors vary by about three quarters of their mean; the difference of two means may be three times what it varies
   * by. */
  const double chance = 3 * 0.75 * sqrt(2.0 / ((double)p->m * (double)p->n)) * chain.mean;
  if (!(ours.max <= chain.max && ours.mean <= chain.mean + chance))
    fail_msg("span %d, k=%ld: max %.3f, mean %.4f, bias %.4f in 2^-24 |A||B|; a chain has %.3f, %.4f, %.4f", span,
             (long)p->k, ours.max, ours.mean, ours.bias, chain.max, chain.mean, chain.bias);
  free(d);
  tst_emulated_expected_destroy(&e);
  tst_emulated_destroy(&t);
  return ours;
}

static void ordinary(void **state) {
  (void)state;
  static tst_emulated_value *const values[] = {positive, of_either_sign, normal};
  static const int64_t depths[] = {256, 1100};
  for (int i = 0; i < 6; i++) {
    const struct tst_emulated_problem p = problem(100, 150, depths[i / 3]);
    const double bias = check(&p, values[i % 3], (uint64_t)i, false).bias;
    assert_false(tst_emulated_ways_taken().bfloat);
    /* Without the correction of what is cut off, -1.3 on data of one sign. */
    if (!(fabs(bias) < 0.2)) fail_msg("k=%ld: bias %.3f", (long)p.k, bias);
  }
}

static void wide(void **state) {
  (void)state;
  static const int spans[] = {3, 7, 14, 20, 60};
  for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
    span = spans[i];
    const struct tst_emulated_problem p = problem(100, 110, 256);
    check(&p, log_uniform, i, false);
  }
}

/* Far apart, but not with a short k: bf16 planes, and what rounding takes from a sum goes on to the next chunk. By the
 * same chunks without that the mean errors would be half a chain's, with it a third. */
static void wide_and_deep(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    span = i ? 20 : 54;
    const struct tst_emulated_problem p = problem(100, 110, i ? 1100 : 512);
    const struct tst_emulated_errors ours = check(&p, log_uniform, (uint64_t)i, false);
    assert_true(tst_emulated_ways_taken().bfloat && tst_emulated_ways_taken().again == 0);
    if (span == 20 && !(ours.mean < 0.5)) fail_msg("k=%ld: mean %.3f", (long)p.k, ours.mean);
  }
}

static void graded_against_graded(void **state) {
  (void)state;
  static const int spans[] = {3, 9, 16, 40, 60, 125};
  for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
    span = spans[i];
    const struct tst_emulated_problem p = problem(90, 100, 128);
    check(&p, graded, i, false);
    check(&p, graded_whole, i, true);
  }
}

static void sides_of_all_sizes(void **state) {
  (void)state;
  for (span = 5; span <= 80; span += 25) {
    const struct tst_emulated_problem p = problem(200, 210, 64);
    check(&p, scaled_whole, (uint64_t)span, true);
  }
}

static void huge_elements(void **state) {
  (void)state;
  const struct tst_emulated_problem p = problem(140, 100, 256);
  check(&p, one_huge, 1, false);
  /* One product makes most of a sum, whose high planes are added apart from the low ones: else -0.3. */
  const double bias = check(&p, one_huge_row, 2, false).bias;
  if (!(fabs(bias) < 0.1)) fail_msg("bias %.3f", bias);
  assert_true(tst_emulated_ways_taken().bfloat && tst_emulated_ways_taken().again == 0);
}

static void subnormals(void **state) {
  (void)state;
  const struct tst_emulated_problem p = problem(100, 100, 256);
  check(&p, subnormal_a, 1, true);
  assert_true(tst_emulated_ways_taken().bfloat && tst_emulated_ways_taken().again == 0);
}

/* Products so small that a chain of fp32 has few bits left for them, or none.
 */
static void products_that_underflow(void **state) {
  (void)state;
  for (span = 62; span <= 75; span += 3) {
    const struct tst_emulated_problem p = problem(100, 100, 200);
    check(&p, small_words, (uint64_t)span, false);
  }
}

static void zeros(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    struct tst_emulated_problem p = problem(130, 20, 70);
    p.alpha = i % 2 ? -1 : 1;
    check(&p, i < 2 ? zero_rows : products_of_minus_zero, 1, true);
  }
}

/* ---- results near the end of the range ---- */

static void results_that_overflow(void **state) {
  (void)state;
  const struct tst_emulated_problem p = problem(135, 200, 64);
  check(&p, overflowing, 1, false);
  assert_true(tst_emulated_ways_taken().again > 0);
}

/* Where some of a tile's sums leave the range, all of them are computed again, and D is as it was before. */
static void a_span_that_overflows(void **state) {
  (void)state;
  struct tst_emulated_problem p = problem(135, 200, TB_EMULATED_GROUP_K + 64);
  p.span_k = TB_EMULATED_GROUP_K;
  check(&p, overflowing_at_last, 1, false);
  assert_true(tst_emulated_ways_taken().again > 0);
}

static void results_that_do_not_quite(void **state) {
  (void)state;
  struct tst_emulated_problem p = problem(135, 50, 70);
  check(&p, one_term, 1, true);
  check(&p, alternating, 1, true);
  p.k = 71;
  check(&p, alternating, 1, true);
}

/* ---- what is in one row or column ---- */

/* Kinds of words that a side gets: the tiles take bf16 planes with the first, plain fp32 from SPOILT_PLAIN on. */
enum { SPOILT_PLAIN = 3, SPOILT_OVERFLOWING = 5, SPOILT_KINDS };

static void spoil(struct tst_emulated_matrix *x, int64_t side, int kind) {
  for (int64_t l = 0; l < x->k; l++) {
    float *word = tst_emulated_at(x, side, l);
    switch (kind) {
      case 0:
        *word = ldexpf(*word, (int)l - 32);
        break;
      case 1:
        *word = ldexpf(*word, -130);
        break;
      case 2:
        *word = ldexpf(*word, 120);
        break;
      case SPOILT_PLAIN:
        if (l == 11) *word = INFINITY;
        break;
      case 4:
        if (l == x->k - 1) *word = NAN;
        break;
      case SPOILT_OVERFLOWING: /* as far apart as words can be */
        *word = l % 2 ? FLT_MAX * *word : 0x1p-149f;
        break;
    }
  }
}

/* The tiles with row `at` of op(A), or column `at` of op(B), are others than in `before`, and those without are not. */
static void check_neighbours(const struct tst_emulated_product *t, const float *before, bool of_b, int64_t at,
                             int kind) {
  const struct tst_emulated_problem *p = &t->problem;
  const int64_t side = of_b ? TB_EMULATED_TILE_N : TB_EMULATED_TILE_M, sides = of_b ? p->n : p->m;
  const int64_t first = at / side * side, end = first + side < sides ? first + side : sides;
  struct tst_emulated_expected e;
  tst_emulated_expect(&e, t);
  float *d = tst_emulated_compute(t, 0, 0);
  if (kind < SPOILT_OVERFLOWING) tst_emulated_assert_bounded(t, &e, d); /* where it is the last sum that counts */
  tst_emulated_assert_same(d, before, p->m, 0, of_b ? p->m : first, 0, of_b ? first : p->n);
  tst_emulated_assert_same(d, before, p->m, of_b ? 0 : end, p->m, of_b ? end : 0, p->n);
  if (kind >= SPOILT_PLAIN) {
    float *plain = tst_emulated_plain(t);
    tst_emulated_assert_same(d, plain, p->m, of_b ? 0 : first, of_b ? p->m : end, of_b ? first : 0, of_b ? end : p->n);
    free(plain);
  }
  free(d);
  tst_emulated_expected_destroy(&e);
}

static void a_side_concerns_its_tiles_alone(void **state) {
  (void)state;
  for (int of_b = 0; of_b < 2; of_b++) {
    struct tst_emulated_problem p = problem(of_b ? 130 : 260, of_b ? 390 : 200, 64);
    p.transpose_a = of_b, p.transpose_b = of_b, p.pad = of_b;
    struct tst_emulated_product t;
    tst_emulated_create(&t, &p, of_either_sign, 1);
    float *before = tst_emulated_compute(&t, 0, 0);
    for (int kind = of_b; kind < SPOILT_KINDS; kind += 1 + of_b) {
      struct tst_emulated_product spoilt;
      const int64_t at = of_b ? 192 + kind : 255 - kind;
      tst_emulated_create(&spoilt, &p, of_either_sign, 1);
      spoil(of_b ? &spoilt.b : &spoilt.a, at, kind);
      check_neighbours(&spoilt, before, of_b, at, kind);
      tst_emulated_destroy(&spoilt);
    }
    free(before);
    tst_emulated_destroy(&t);
  }
}

/* Inf and NaN in several places of both operands, where they meet each other and zeros. */
static void infinities_meet(void **state) {
  (void)state;
  for (int way = 0; way < 3; way++) {
    struct tst_emulated_problem p = problem(150, 210, way == 0 ? 40 : 1050);
    p.splits = way == 1 ? 2 : 1;
    p.span_k = way == 2 ? TB_EMULATED_GROUP_K : 0;
    struct tst_emulated_product t;
    struct tst_emulated_expected e;
    tst_emulated_create(&t, &p, way == 2 ? with_specials_at_last : with_specials, 3);
    tst_emulated_expect(&e, &t);
    float *d = tst_emulated_compute(&t, 0, 0);
    tst_emulated_assert_bounded(&t, &e, d);
    free(d);
    tst_emulated_expected_destroy(&e);
    tst_emulated_destroy(&t);
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ordinary),
      cmocka_unit_test(wide),
      cmocka_unit_test(wide_and_deep),
      cmocka_unit_test(graded_against_graded),
      cmocka_unit_test(sides_of_all_sizes),
      cmocka_unit_test(huge_elements),
      cmocka_unit_test(subnormals),
      cmocka_unit_test(products_that_underflow),
      cmocka_unit_test(zeros),
      cmocka_unit_test(results_that_overflow),
      cmocka_unit_test(a_span_that_overflows),
      cmocka_unit_test(results_that_do_not_quite),
      cmocka_unit_test(a_side_concerns_its_tiles_alone),
      cmocka_unit_test(infinities_meet),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  tst_emulated_open();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
