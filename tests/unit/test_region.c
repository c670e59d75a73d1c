/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pieces of triangles, by themselves: their elements counted one by one; copied by many threads, whole columns each or
 * some rows of all; and computed by the CPU as products, Hermitian ones with Inf beside the diagonal. What lies outside
 * stays as it is.
 *
 * Seen to fail when: a share of rows has the diagonal of all rows; a sum counts an element of the diagonal twice; a
 * Hermitian C is multiplied by a complex beta, or keeps an imaginary part on its diagonal.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "blas/call.h"
#include "cpu/fallback.h"
#include "pipeline/copy.h"
#include "process.h"
#include "rng.h"

static bool is_inside(struct tb_region r, int64_t i, int64_t j) {
  return r.of == TB_WHOLE || (r.of == TB_UPPER_TRIANGLE ? i <= j + r.diagonal : i >= j + r.diagonal);
}

static struct tb_region random_region(int64_t m, int64_t n, uint64_t *rng) {
  return (struct tb_region){.of = (enum tb_region_of)tst_random_below(rng, 3),
                            .diagonal = tst_random_below(rng, m + n + 4) - n - 2};
}

static void counted_one_by_one(void **state) {
  (void)state;
  uint64_t rng = 1;
  for (int round = 0; round < 5000; round++) {
    const int64_t m = 1 + tst_random_below(&rng, 9), n = 1 + tst_random_below(&rng, 9);
    const struct tb_region r = random_region(m, n, &rng);
    int64_t inside = 0, by_rows = 0;
    for (int64_t j = 0; j < n; j++) {
      const struct tb_region_rows rows = tb_region_rows(r, m, j);
      by_rows += rows.end - rows.first;
      for (int64_t i = 0; i < m; i++) {
        inside += is_inside(r, i, j);
        assert_int_equal(is_inside(r, i, j), i >= rows.first && i < rows.end);
        assert_int_equal(is_inside(r, i, j), is_inside(tb_region_at(r, i, j), 0, 0));
      }
    }
    assert_int_equal(by_rows, inside);
    assert_true(tb_region_elems(r, m, n) == (double)inside);
    assert_int_equal(tb_region_misses(r, m, n), inside == 0);
    assert_int_equal(tb_region_covers(r, m, n), inside == m * n);
  }
}

static void operations(void **state) {
  (void)state;
  struct tb_call call = {.type = TB_D, .m = 10, .n = 10, .k = 3};
  assert_true(tb_call_flops(&call) == 600);
  call.region.of = TB_LOWER_TRIANGLE;
  assert_true(tb_call_flops(&call) == 330);
  call.twice = true;
  assert_true(tb_call_flops(&call) == 660);
}

/* ---- copies ---- */

enum { COPIED = 1 << 19 };
static float from[COPIED], to[COPIED], before[COPIED];

static float copied(const struct tb_copy *c, int64_t row, int64_t column, float found) {
  const float number = from[row + column * c->from_ld];
  if (row >= c->rows || !is_inside(c->region, row, column)) return found;
  return c->beta.s == 0 ? number : number + c->beta.s * found;
}

static void copied_by_threads(void **state) {
  (void)state;
  static const int64_t sides[][2] = {{300, 900}, {60000, 3}, {3, 60000}, {100000, 1}, {513, 511}};
  struct tb_pool *pool = tb_pool_open(4, true);
  uint64_t rng = 2;
  for (int round = 0; round < 60; round++) {
    struct tb_copy c = {.type = TB_S, .to = to, .from = from};
    c.rows = sides[round % 5][0], c.columns = sides[round % 5][1];
    c.to_ld = c.rows + round % 2, c.from_ld = c.rows + round % 3;
    c.region = random_region(c.rows, c.columns, &rng);
    c.beta.s = round % 4 < 2 ? 0 : 0.5f;
    c.stores = round % 2 ? TB_STORES_STREAMED : TB_STORES_CACHED;
    for (int64_t i = 0; i < COPIED; i++) from[i] = (float)(i % 1021), before[i] = to[i] = (float)(i % 509);
    tb_copy_start(pool, &c);
    tb_copy_wait(pool, &c);
    for (int64_t at = 0; at < c.to_ld * c.columns; at++) {
      const float want = copied(&c, at % c.to_ld, at / c.to_ld, before[at]);
      if (to[at] != want) fail_msg("round %d: %d is %g, not %g", round, (int)at, (double)to[at], (double)want);
    }
  }
  tb_pool_close(pool);
}

/* ---- by the CPU ---- */

enum { SIDE = 40, LD = 43 };

static double value(uint64_t *rng) { return (double)(tst_random_below(rng, 9) - 4); }

/* Whole numbers: every sum is exact. k is 1. */
static void computed_by_products(void **state) {
  (void)state;
  static double a[2 * SIDE], b[2 * SIDE], c[2 * LD * SIDE], found[2 * LD * SIDE];
  uint64_t rng = 3;
  for (int round = 0; round < 200; round++) {
    const int64_t m = 1 + tst_random_below(&rng, SIDE), n = 1 + tst_random_below(&rng, SIDE);
    struct tb_call call = {.symbol = TB_SYMBOL_zherk_, .type = TB_Z, .m = m, .n = n, .k = 1, .c = c, .ldc = LD};
    call.region = (struct tb_region){round % 2 ? TB_UPPER_TRIANGLE : TB_LOWER_TRIANGLE, round % 3 > 0, 0};
    call.region.diagonal = tst_random_below(&rng, m + n) - n;
    call.alpha.z[0] = 1;
    call.beta.z[0] = round % 5 - 1.0;
    call.a = (struct tb_view){.data = a, .ld = SIDE, .type = TB_Z};
    call.b = (struct tb_view){.data = b, .ld = SIDE, .type = TB_Z, .transposed = true, .conjugated = true};
    for (int i = 0; i < 2 * SIDE; i++) a[i] = value(&rng), b[i] = value(&rng);
    for (int i = 0; i < 2 * LD * SIDE; i++) found[i] = c[i] = value(&rng);
    const int64_t inf = 2 * (tst_random_below(&rng, m) + tst_random_below(&rng, n) * LD);
    if (call.region.hermitian) found[inf] = c[inf] = INFINITY;
    tb_fallback_compute(&call);
    for (int64_t at = 0; at < LD * n; at++) {
      const int64_t i = at % LD, j = at / LD;
      double want[2] = {found[2 * at], found[2 * at + 1]};
      if (i < m && is_inside(call.region, i, j)) {
        const double *x = a + 2 * i, *y = b + 2 * j, beta = call.beta.z[0];
        want[0] = x[0] * y[0] + x[1] * y[1] + (beta == 0 ? 0 : beta * want[0]);
        want[1] = x[1] * y[0] - x[0] * y[1] + (beta == 0 ? 0 : beta * want[1]);
        if (call.region.hermitian && i == j + call.region.diagonal) want[1] = 0;
      }
      if (!(c[2 * at] == want[0] && c[2 * at + 1] == want[1]))
        fail_msg("round %d (%d, %d): %g%+gi, not %g%+gi", round, (int)i, (int)j, c[2 * at], c[2 * at + 1], want[0],
                 want[1]);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(counted_one_by_one), cmocka_unit_test(operations),
                                     cmocka_unit_test(copied_by_threads), cmocka_unit_test(computed_by_products)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
