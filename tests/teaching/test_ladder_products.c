/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every step of the ladder computes the right product, whatever the sizes; on the fake driver and on a GPU alike.
 *
 * Reference: fp64. Each element is a chain of k fused multiply-adds in fp32, each rounding by at most eps / 2, so
 *   |C - C64| <= k eps |A||B|,  eps = 2^-23,
 * with a factor of two to spare, whatever the values and the order. C starts as NaN, so an element that no thread wrote
 * fails, and so does one that took in what lies around the matrices, see ladder_run.h.
 * argv[1]: the ladder's fat binary. argv[2]: which tests alone, with * for any text.
 */
#include "ladder_run.h"
#include "../support/rng.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum {
  FEW_BLOCKS = 2
}; /* for steps that walk over the tiles: fewer blocks than most of the products here have tiles */

static struct tst_ladder ladder;

static float *random_matrix(int rows, int cols, uint64_t *rng) {
  size_t elems = (size_t)rows * (size_t)cols;
  float *x = malloc(elems * sizeof(float));
  assert_non_null(x);
  for (size_t i = 0; i < elems; i++) x[i] = 2 * tst_random_unit(rng) - 1;
  return x;
}

static void assert_right(const struct tb_ladder_step *step, const struct tst_product *p) {
  for (int i = 0; i < p->m; i++)
    for (int j = 0; j < p->n; j++) {
      double exact = 0, magnitude = 0;
      for (int q = 0; q < p->k; q++) {
        double term = (double)p->a[(size_t)i * (size_t)p->k + (size_t)q] * p->b[(size_t)q * (size_t)p->n + (size_t)j];
        exact += term;
        magnitude += fabs(term);
      }
      double c = p->c[(size_t)i * (size_t)p->n + (size_t)j];
      double error = fabs(c - exact), bound = p->k * (double)FLT_EPSILON * magnitude;
      if (!(error <= bound))
        fail_msg("%s, m %d n %d k %d: C(%d, %d) is %.9g, should be %.9g: error %g, at most %g", step->name, p->m, p->n,
                 p->k, i, j, c, exact, error, bound);
    }
}

static void check(const struct tb_ladder_step *step, int m, int n, int k, enum tst_place place, unsigned blocks) {
  uint64_t rng = (uint64_t)m * 1000003u + (uint64_t)n * 1009u + (uint64_t)k;
  float *a = random_matrix(m, k, &rng), *b = random_matrix(k, n, &rng);
  float *c = malloc((size_t)m * (size_t)n * sizeof(float));
  assert_non_null(c);
  struct tst_product p = {m, n, k, a, b, c};
  tst_ladder_multiply(&ladder, step, &p, place, blocks);
  assert_right(step, &p);
  free(a);
  free(b);
  free(c);
}

/* Sizes around a tile of t: what fits, one less, one more; for steps that take whole tiles only, 1 to 3 of them. */
enum { SIZES = 4 };
static void sizes_around(const struct tb_ladder_step *step, int t, int sizes[SIZES]) {
  const int any[SIZES] = {1, t - 1, t, t + 1}, multiples[SIZES] = {t, 2 * t, 3 * t, t};
  for (int i = 0; i < SIZES; i++) sizes[i] = step->sizes == TB_SIZES_ANY ? any[i] : multiples[i];
}

/* One test a step: all combinations of sizes around its tiles. */
static void sizes_around_the_tile(void **state) {
  const struct tb_ladder_step *s = *state;
  int per_thread = s->grid == TB_GRID_THREADS, m[SIZES], n[SIZES], k[SIZES];
  sizes_around(s, per_thread ? s->block_y : s->tile_m, m);
  sizes_around(s, per_thread ? s->block_x : s->tile_n, n);
  sizes_around(s, s->tile_k > 1 ? s->tile_k : 8, k);
  for (int i = 0; i < SIZES; i++)
    for (int j = 0; j < SIZES; j++)
      for (int l = 0; l < SIZES; l++) {
        assert_true(tb_ladder_takes(s, m[i], n[j], k[l]));
        check(s, m[i], n[j], k[l], TST_ALIGNED, FEW_BLOCKS);
      }
}

/* Primes, tall, wide, deep and flat; rows that are whole fours of floats and rows that are not. */
static void awkward_sizes(void **state) {
  const struct tb_ladder_step *s = *state;
  static const int sizes[][3] = {{67, 131, 29}, {55, 43, 48},  {142, 146, 110}, {257, 3, 41}, {3, 257, 41},
                                 {1, 1, 401},   {97, 89, 1},   {2, 2, 2},       {64, 36, 20}, {130, 132, 34},
                                 {33, 260, 76}, {260, 33, 76}, {96, 96, 96},    {192, 64, 32}};
  int taken = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    if (tb_ladder_takes(s, sizes[i][0], sizes[i][1], sizes[i][2])) {
      check(s, sizes[i][0], sizes[i][1], sizes[i][2], TST_ALIGNED, FEW_BLOCKS);
      check(s, sizes[i][0], sizes[i][1], sizes[i][2], TST_ODD, FEW_BLOCKS);
      taken++;
    }
  assert_true(taken >= 2);
}

/* The walk over the tiles ends where it should, with one block, with a divisor of the tiles, and with too many blocks.
 */
static void any_number_of_blocks(void **state) {
  (void)state;
  int steps = 0;
  for (int i = 0; i < TB_LADDER_STEPS; i++) {
    const struct tb_ladder_step *s = &tb_ladder[i];
    if (s->grid != TB_GRID_STRIDE) continue;
    int m = 4 * s->tile_m - 3, n = 3 * s->tile_n + 1; /* 4 x 4 tiles */
    static const unsigned blocks[] = {1, 3, 4, 15, 16, 17, 40};
    for (size_t j = 0; j < sizeof blocks / sizeof blocks[0]; j++) check(s, m, n, 37, TST_ALIGNED, blocks[j]);
    steps++;
  }
  assert_int_equal(steps, 2);
}

int main(int argc, char **argv) {
  if (argc != 2 && argc != 3) {
    fprintf(stderr, "usage: %s FATBIN [TESTS]\n", argv[0]);
    return 2;
  }
  if (argc == 3) cmocka_set_test_filter(argv[2]);
  ladder = tst_ladder_open(argv[1]);
  struct CMUnitTest tests[2 * TB_LADDER_STEPS + 1];
  static char names[2 * TB_LADDER_STEPS][80];
  for (int i = 0; i < TB_LADDER_STEPS; i++) {
    void *step = (void *)&tb_ladder[i];
    snprintf(names[2 * i], sizeof names[0], "%s, sizes around the tile", tb_ladder[i].title);
    snprintf(names[2 * i + 1], sizeof names[0], "%s, awkward sizes", tb_ladder[i].title);
    tests[2 * i] = (struct CMUnitTest){names[2 * i], sizes_around_the_tile, NULL, NULL, step};
    tests[2 * i + 1] = (struct CMUnitTest){names[2 * i + 1], awkward_sizes, NULL, NULL, step};
  }
  tests[2 * TB_LADDER_STEPS] = (struct CMUnitTest)cmocka_unit_test(any_number_of_blocks);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  tst_ladder_close(&ladder);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
