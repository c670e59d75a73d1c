/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The way from measured times to the selector's table, without a GPU: the times are predictions of another table, which
 * must be found again, or one that predicts the same.
 *
 * Seen to fail when: the descent stops at its coarsest step; the weights are not taken out of the sum again; the regret
 * is taken of the predicted times.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "fit.h"
#include "select/order.h"
#include "rng.h"

enum { SAMPLES_MAX = 4096, PRODUCTS = 60 };
static struct tb_sample sample[SAMPLES_MAX];

static struct tb_select_device device_of_the_tests(void) {
  struct tb_select_device d = {.sm_count = 132, .skinny = true, .fma_per_us = 128 * 1980.0, .bytes_per_us = 4.9e6};
  for (int t = 0; t < TB_TILE_COUNT; t++) d.blocks_per_sm[t] = 512 / tb_tiles[t].threads;
  return d;
}

/* Every number off by up to a third, but the rates within what is possible. */
static struct tb_select_table other_table(uint64_t *rng) {
  struct tb_select_table t = tb_select_table;
  for (size_t i = 0; i < sizeof t / sizeof(double); i++)
    ((double *)&t)[i] *= 0.75 + 0.01 * (double)tst_random_below(rng, 58);
  for (int i = 0; i < TB_TILE_COUNT; i++) {
    if (t.tile[i].full > 100) t.tile[i].full = 100;
    if (t.tile[i].alone > t.tile[i].full) t.tile[i].alone = t.tile[i].full;
    if (t.tile[i].knee > 99) t.tile[i].knee = 99;
  }
  if (t.overlap > 100) t.overlap = 100;
  return t;
}

static int64_t size_up_to(uint64_t *rng, int bits) { return 1 + tst_random_below(rng, (int64_t)1 << bits); }

/* Times of every candidate for random products, as `table` predicts them. */
static int make_samples(const struct tb_select_table *table, const struct tb_select_device *d, uint64_t *rng) {
  int count = 0;
  for (int i = 0; i < PRODUCTS; i++) {
    struct tb_product p;
    memset(&p, 0, sizeof p); /* products are compared with their padding */
    p.m = size_up_to(rng, 4 + i % 10), p.n = size_up_to(rng, 4 + i / 10), p.k = size_up_to(rng, 6 + i % 11);
    p.group_k = tb_group_k(p.m, p.n, p.k);
    p.transpose_a = i & 1, p.transpose_b = i >> 1 & 1, p.vectors = i >> 2 & 1, p.workspace_bytes = 64 << 20;
    struct tb_choice candidate[TB_CANDIDATES_MAX];
    int candidates = tb_select_candidates(d, &p, candidate);
    for (int c = 0; c < candidates && count < SAMPLES_MAX; c++)
      sample[count++] = (struct tb_sample){p, candidate[c], tb_select_predict_us(table, d, &p, &candidate[c])};
  }
  return count;
}

static void finds_the_table_again(void **state) {
  (void)state;
  struct tb_select_device d = device_of_the_tests();
  uint64_t rng = 1;
  struct tb_select_table truth = other_table(&rng), fitted = tb_select_table;
  int count = make_samples(&truth, &d, &rng);
  assert_true(count > 4 * PRODUCTS);
  struct tb_regret before = tb_fit_regret(&fitted, &d, sample, count);
  double off = tb_fit(&fitted, &d, sample, count);
  struct tb_regret after = tb_fit_regret(&fitted, &d, sample, count);
  if (!(off < 0.01)) fail_msg("the fitted table is off by %.3f", off);
  assert_int_equal(after.products, PRODUCTS);
  assert_true(after.mean < 1.005 && after.mean <= before.mean && after.worst >= after.mean && after.worst < 1.1);
  for (int t = 0; t < TB_TILE_COUNT; t++)
    assert_true(fitted.tile[t].full <= 100 && fitted.tile[t].alone <= fitted.tile[t].full);
}

/* A choice that is twice as slow as the best is a regret of two, whatever was predicted. */
static void regret_is_measured(void **state) {
  (void)state;
  struct tb_select_device d = device_of_the_tests();
  uint64_t rng = 1;
  int count = make_samples(&tb_select_table, &d, &rng);
  struct tb_regret none = tb_fit_regret(&tb_select_table, &d, sample, count);
  assert_true(none.mean == 1 && none.worst == 1);
  int end = tb_fit_next_product(sample, count, 0), best = 0;
  assert_true(end > 1);
  for (int i = 1; i < end; i++)
    if (sample[i].us < sample[best].us) best = i;
  sample[best].us *= 1000;
  struct tb_regret one = tb_fit_regret(&tb_select_table, &d, sample, count);
  assert_int_equal(one.worst_chosen, best);
  assert_true(one.worst > 1 && one.worst == sample[best].us / sample[one.worst_best].us);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_the_table_again),
      cmocka_unit_test(regret_is_measured),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
