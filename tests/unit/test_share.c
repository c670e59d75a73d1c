/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a product is shared: the runs cover C once, in whole pieces, in proportion to what the devices are worth; what
 * they are worth follows what calls took, so that all end together; and sharing begins where it pays.
 *
 * Seen to fail when: rounding leaves the last columns to nobody; a device without a weight gets a run; a call of
 * another shape changes the ratios; a slow device is never tried again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rng.h"
#include "plan/share.h"

#define DEVICES_MAX 16

static void runs_cover_the_side(void **state) {
  (void)state;
  uint64_t rng = 1;
  for (int i = 0; i < 20000; i++) {
    const int count = 1 + (int)tst_random_below(&rng, DEVICES_MAX);
    const int64_t side = 1 + tst_random_below(&rng, (int64_t)1 << tst_random_below(&rng, 40));
    double weight[DEVICES_MAX], all = 0;
    int64_t run[DEVICES_MAX], begin = 0;
    for (int d = 0; d < count; d++) all += weight[d] = (double)tst_random_below(&rng, 4) * tst_random_unit(&rng);
    if (!(all > 0)) continue;
    const int64_t piece = i % 2 ? TB_SHARE_PIECE_ELEMS : 192;
    tb_share_cut(side, piece, weight, count, run);
    for (int d = 0; d < count; d++) {
      assert_true(run[d] >= 0);
      assert_true(run[d] == 0 || weight[d] > 0);
      assert_int_equal(run[d] > 0 ? begin % piece : 0, 0);
      begin += run[d];
      /* Within a piece at either end of what is due. */
      const double off = (double)run[d] - (double)side * (weight[d] / all);
      assert_true(off <= 2 * (double)piece && off >= -2 * (double)piece);
    }
    assert_int_equal(begin, side);
  }
}

static void equal_devices_get_equal_runs(void **state) {
  (void)state;
  const double weight[] = {3, 3, 3, 3};
  int64_t run[4];
  tb_share_cut(32768, TB_SHARE_PIECE_ELEMS, weight, 4, run);
  for (int d = 0; d < 4; d++) assert_int_equal(run[d], 8192);
  tb_share_cut(300, TB_SHARE_PIECE_ELEMS, weight, 2, run);
  assert_int_equal(run[0], 256); /* three pieces */
  assert_int_equal(run[1], 44);
}

/* A cut stays while no run is an eighth longer or shorter than it should be, or a piece; and nobody comes or goes. */
static void near_cuts(void **state) {
  (void)state;
  const int64_t before[] = {4096, 4096}, slow[] = {3584, 4608}, slower[] = {3456, 4736}, alone[] = {8192, 0};
  assert_true(tb_share_is_near(before, before, 2, 128));
  assert_true(tb_share_is_near(slow, before, 2, 128));
  assert_false(tb_share_is_near(slower, before, 2, 128));
  assert_false(tb_share_is_near(before, alone, 2, 8192));
  assert_false(tb_share_is_near(alone, before, 2, 8192));
  const int64_t small[] = {256, 128}, other[] = {128, 256}, third[] = {0, 384};
  assert_true(tb_share_is_near(small, other, 2, 128));
  assert_false(tb_share_is_near(small, other, 2, 127));
  assert_false(tb_share_is_near(other, third, 2, 128));
}

/* ---- learning ---- */

struct team {
  int count;
  struct tb_pace pace[DEVICES_MAX];
  const struct tb_pace *read[DEVICES_MAX];
  struct tb_pace *write[DEVICES_MAX];
};

static void make(struct team *t, int count) {
  t->count = count;
  for (int d = 0; d < count; d++) {
    t->pace[d] = (struct tb_pace){.flops_per_s = 60e12};
    t->read[d] = t->write[d] = &t->pace[d];
  }
}

/* A call of n columns on devices of these speeds, in flops for each column; returns how much longer than the best
 * possible it took. */
static double call(struct team *t, int64_t n, const double speed[], double flops_per_column) {
  double weight[DEVICES_MAX], flops[DEVICES_MAX], seconds[DEVICES_MAX], longest = 0, all = 0;
  int64_t run[DEVICES_MAX];
  tb_share_weigh(t->read, t->count, weight);
  tb_share_cut(n, TB_SHARE_PIECE_ELEMS, weight, t->count, run);
  for (int d = 0; d < t->count; d++) {
    flops[d] = (double)run[d] * flops_per_column;
    seconds[d] = flops[d] / speed[d];
    if (seconds[d] > longest) longest = seconds[d];
    all += speed[d];
  }
  tb_share_learn(t->write, t->count, flops, seconds);
  return longest / ((double)n * flops_per_column / all);
}

static void all_end_together_after_some_calls(void **state) {
  (void)state;
  const double speeds[][4] = {{50e12, 50e12, 50e12, 50e12}, {50e12, 25e12, 50e12, 10e12}, {5e12, 40e12, 41e12, 42e12}};
  for (int i = 0; i < 3; i++) {
    struct team t;
    double excess = 0;
    make(&t, 4);
    for (int calls = 0; calls < 10; calls++) excess = call(&t, 32768, speeds[i], 1e9);
    assert_true(excess >= 1 && excess < 1.04);
  }
}

/* Small products are slower on all, and that says nothing about one beside the other. */
static void another_shape_keeps_the_ratios(void **state) {
  (void)state;
  const double fast[] = {50e12, 25e12}, slow[] = {5e12, 2.5e12};
  struct team t;
  make(&t, 2);
  for (int calls = 0; calls < 10; calls++) call(&t, 32768, fast, 1e9);
  const double ratio = t.pace[0].flops_per_s / t.pace[1].flops_per_s;
  for (int calls = 0; calls < 3; calls++) call(&t, 4096, slow, 1e6);
  assert_true(t.pace[0].flops_per_s / t.pace[1].flops_per_s < 1.05 * ratio);
  assert_true(t.pace[0].flops_per_s / t.pace[1].flops_per_s > 0.95 * ratio);
}

/* A busy device gets less at once, and its part back when it is free. */
static void a_busy_device_recovers(void **state) {
  (void)state;
  const double free_speed[] = {50e12, 50e12}, busy[] = {50e12, 8e12};
  struct team t;
  make(&t, 2);
  for (int calls = 0; calls < 8; calls++) call(&t, 32768, busy, 1e9);
  assert_true(call(&t, 32768, busy, 1e9) < 1.1);
  for (int calls = 0; calls < 8; calls++) call(&t, 32768, free_speed, 1e9);
  assert_true(call(&t, 32768, free_speed, 1e9) < 1.05);
}

/* One that is no help is left out, and now and then tried with the least there is. */
static void a_hopeless_device_is_left_out(void **state) {
  (void)state;
  const double speed[] = {50e12, 0.05e12}, free_speed[] = {50e12, 50e12};
  struct team t;
  double sum = 0;
  make(&t, 2);
  for (int calls = 0; calls < 40; calls++) call(&t, 32768, speed, 1e9);
  for (int calls = 0; calls < 1000; calls++) sum += call(&t, 32768, speed, 1e9);
  assert_true(sum / 1000 < 1.5);
  for (int calls = 0; calls < 2 * TB_SHARE_RETRY_CALLS; calls++) call(&t, 32768, free_speed, 1e9);
  assert_true(call(&t, 32768, free_speed, 1e9) < 1.05);
}

/* ---- when ---- */

static void sharing_begins_where_it_pays(void **state) {
  (void)state;
  const double rate = 47e12;
  const struct tb_call small = {.m = 1700, .n = 1700, .k = 1700}, large = {.m = 8192, .n = 8192, .k = 8192};
  const struct tb_call flat = {.m = 16384, .n = 16384, .k = 8}; /* little to compute, 1 GB to bring down */
  double saved = 0;
  assert_true(tb_share_alone_seconds(&small, rate, 0) < TB_SHARE_SECONDS);
  assert_true(tb_share_alone_seconds(&large, rate, 0) > 0.02 && tb_share_alone_seconds(&large, rate, 0) < 0.03);
  assert_true(tb_share_alone_seconds(&flat, rate, 0) > 0.02);
  assert_true(tb_share_alone_seconds(&flat, rate, 52e9) == tb_share_alone_seconds(&flat, rate, 0)); /* an H200's */
  assert_true(tb_share_alone_seconds(&flat, rate, 12e9) > 0.08 && tb_share_alone_seconds(&flat, rate, 400e9) < 0.003);
  assert_false(tb_share_pays(0.001, 2, 0, &saved));
  assert_true(tb_share_pays(0.005, 2, 0, &saved));
  assert_false(tb_share_pays(1, 1, 0, &saved));
  assert_false(tb_share_pays(0.0 / 0.0, 2, 0, &saved));
  /* Opening costs 0.3 s; each of these calls would have taken 0.1 s less. */
  assert_false(tb_share_pays(0.5, 2, 0.3, &saved));
  assert_false(tb_share_pays(0.5, 2, 0.3, &saved));
  assert_true(tb_share_pays(0.501, 2, 0.3, &saved));
  saved = 0;
  assert_true(tb_share_pays(1.6, 2, 0.3, &saved));
}

/* trmm's and trsm's B goes up and comes down, and is divided; A each GPU has to have first. */
static void a_triangle_is_for_each(void **state) {
  (void)state;
  const double rate = 50e12, link = 25e9;
  const struct tb_call solve = {.type = TB_D, .recipe = TB_TRIANGULAR_SOLVE, .m = 8000, .n = 8000, .k = 8000};
  const struct tb_call product = {.type = TB_D, .m = 8000, .n = 8000, .k = 8000};
  struct tb_call narrow = solve;
  narrow.n = 100;
  const double common = tb_share_common_seconds(&solve, link);
  assert_true(common > 10.2e-3 && common < 10.3e-3);
  assert_true(tb_share_common_seconds(&product, link) == 0);
  const double b = tb_share_alone_seconds(&solve, rate, link), bs = tb_share_alone_seconds(&narrow, rate, link);
  assert_true(b > 20.4e-3 && b < 20.6e-3 && bs > 0.25e-3 && bs < 0.26e-3);
  assert_true(tb_share_common_seconds(&narrow, link) == common);
  const double slow = tb_share_alone_seconds(&solve, 1e12, link);
  assert_true(slow > 0.511 && slow < 0.513); /* half of a product's operations */
}

static void the_longer_side_is_cut(void **state) {
  (void)state;
  assert_true(tb_share_by_columns(&(struct tb_call){.m = 5, .n = 5}));
  assert_false(tb_share_by_columns(&(struct tb_call){.m = 6, .n = 5}));
  assert_int_equal(tb_share_pieces(&(struct tb_call){.m = 128, .n = 5}), 1);
  assert_int_equal(tb_share_pieces(&(struct tb_call){.m = 5, .n = 129}), 2);
  /* Of a triangle the sides that know nothing of each other. */
  struct tb_call solve = {.recipe = TB_TRIANGULAR_SOLVE, .m = 900, .n = 192};
  assert_true(tb_share_by_columns(&solve));
  assert_int_equal(tb_share_pieces(&solve), 1);
  solve.on_right = true;
  assert_false(tb_share_by_columns(&solve));
  assert_int_equal(tb_share_pieces(&solve), 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs_cover_the_side),
      cmocka_unit_test(near_cuts),
      cmocka_unit_test(equal_devices_get_equal_runs),
      cmocka_unit_test(all_end_together_after_some_calls),
      cmocka_unit_test(another_shape_keeps_the_ratios),
      cmocka_unit_test(a_busy_device_recovers),
      cmocka_unit_test(a_hopeless_device_is_left_out),
      cmocka_unit_test(sharing_begins_where_it_pays),
      cmocka_unit_test(a_triangle_is_for_each),
      cmocka_unit_test(the_longer_side_is_cut),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
