/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model as the pure function that it is: the formula by places, measurements reproduced exactly, what lies between
 * and beyond them, threads, and the size below which the CPU needs no second thought. A synthetic machine makes the
 * measurements, so that every expected value is known.
 *
 * Seen to fail when: two sizes of the grid are exchanged; weights do not add up to 1; what was not measured counts as
 * quick; the sides are exchanged; a slow way down is taken for a slow way up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "route/model.h"
#include "rng.h"
#include "synthetic.h"

static struct tb_model model;

static struct tb_call product(int64_t m, int64_t n, int64_t k) {
  return (struct tb_call){.m = m, .n = n, .k = k, .alpha = {1}};
}

static double predicted(enum tb_where where, const struct tb_call *call) {
  struct tb_prediction p;
  tb_model_predict(&model, call, NULL, 0, &p);
  return p.seconds[where];
}

static void expect_near(double got, double expected, double factor, const char *what, const struct tb_call *call) {
  if (!(got <= expected * factor && got >= expected / factor))
    fail_msg("%s %ldx%ldx%ld: %g s, not within a factor of %g of %g s", what, (long)call->m, (long)call->n,
             (long)call->k, got, factor, expected);
}

/* The grid has every combination of sizes once, and a call lies between the eight nodes around it. */
static void grid(void **state) {
  (void)state;
  assert_int_equal(tb_node_sizes(0).m, TB_GRID_LEAST);
  assert_int_equal(tb_node_sizes(TB_NODES - 1).k, TB_GRID_MOST);
  assert_int_equal(tb_node_sizes(tb_node(1, 2, 3)).m, 35);
  assert_int_equal(tb_node_sizes(tb_node(1, 2, 3)).n, 137);
  assert_int_equal(tb_node_sizes(tb_node(1, 2, 3)).k, 541);
  uint64_t rng = 1;
  for (int i = 0; i < 2000; i++) {
    const struct tb_call call =
        product(1 + tst_log_uniform(&rng, 16384), tst_log_uniform(&rng, 16384), tst_log_uniform(&rng, 16384));
    const struct tb_cell cell = tb_model_cell(&call);
    double sum = 0, m = 0;
    for (int c = 0; c < 8; c++) {
      assert_true(cell.node[c] >= 0 && cell.node[c] < TB_NODES);
      assert_true(cell.weight[c] >= 0);
      sum += cell.weight[c];
      m += cell.weight[c] * log2((double)tb_node_sizes(cell.node[c]).m);
    }
    assert_float_equal(sum, 1, 1e-12);
    /* linear between powers of two is within 0.0861 of the logarithm, at the size and at the nodes beside it */
    assert_float_equal(m, fmin(fmax(log2((double)call.m), log2(TB_GRID_LEAST)), log2(TB_GRID_MOST)), 2 * 0.0861);
  }
}

/* What need not be staged does not count against the GPU. */
static void copies_count_by_place(void **state) {
  (void)state;
  struct tb_rates rates = {.gpu_flops_per_s = INFINITY,
                           .up_bytes_per_s = 1e6,
                           .down_bytes_per_s = 2e6,
                           .link_up_bytes_per_s = 4e6,
                           .link_down_bytes_per_s = 8e6};
  const struct tb_call call = product(1000, 500, 250); /* A has 1e6 bytes, B 0.5e6, C 2e6 */
  struct tb_places places = {0};
  assert_float_equal(tb_model_formula(&rates, TB_GPU, &call, NULL), 1 + 0.5 + 1, 1e-9);
  assert_float_equal(tb_model_formula(&rates, TB_GPU, &call, &places), 1 + 0.5 + 1, 1e-9);
  places.b.place = TB_MANAGED;
  assert_float_equal(tb_model_formula(&rates, TB_GPU, &call, &places), 1 + 1, 1e-9);
  places.a.place = TB_PINNED;
  assert_float_equal(tb_model_formula(&rates, TB_GPU, &call, &places), 0.25 + 1, 1e-9);
  places.c.place = TB_PINNED;
  assert_float_equal(tb_model_formula(&rates, TB_GPU, &call, &places), 0.25 + 0.25, 1e-9);
  places.c.place = places.a.place = TB_DEVICE;
  assert_float_equal(tb_model_formula(&rates, TB_GPU, &call, &places), 0, 1e-9);
}

/* At the grid's nodes the prediction is what was measured. */
static void measurements_are_reproduced(void **state) {
  (void)state;
  const struct tb_calibration c = tst_synthetic_calibration(&tst_synthetic, TB_NODES);
  tb_model_fit(&model, TB_S, &c, 16);
  for (int node = 0; node < TB_NODES; node++)
    for (int where = 0; where < TB_WHERE_COUNT; where++) {
      const struct tb_node_sizes s = tb_node_sizes(node);
      const struct tb_call call = product(s.m, s.n, s.k);
      expect_near(predicted((enum tb_where)where, &call), c.seconds[where][node], 1 + 1e-9, "measured", &call);
    }
}

/* What the link moves up is found in flat and in tall products, what it moves down in one of a short k. */
static void each_way_of_the_link(void **state) {
  (void)state;
  const double latency = 50e-6, bytes = 4.0 * TB_GRID_MOST * TB_GRID_MOST;
  const int last = TB_GRID_SIZES - 1;
  struct tb_calibration c = tst_synthetic_calibration(&tst_synthetic, TB_NODES);
  c.seconds[TB_GPU][0] = latency;
  c.seconds[TB_GPU][tb_node(last, 0, last)] = c.seconds[TB_GPU][tb_node(0, last, last)] = latency + bytes / 40e9;
  c.seconds[TB_GPU][tb_node(last, last, 0)] = latency + bytes / 10e9;
  tb_model_fit(&model, TB_S, &c, 16);
  assert_float_equal(model.rates.up_bytes_per_s / 40e9, 1, 1e-9);
  assert_float_equal(model.rates.down_bytes_per_s / 10e9, 1, 1e-9);
}

/* Between the nodes and a little beyond them it is near the machine's own times: those are not of the formula's form.
 */
static void between_the_nodes(void **state) {
  (void)state;
  const struct tb_calibration c = tst_synthetic_calibration(&tst_synthetic, TB_NODES);
  tb_model_fit(&model, TB_S, &c, 16);
  uint64_t rng = 3;
  for (int i = 0; i < 2000; i++) {
    const struct tb_call call =
        product(tst_log_uniform(&rng, 8192), tst_log_uniform(&rng, 8192), tst_log_uniform(&rng, 8192));
    for (int where = 0; where < TB_WHERE_COUNT; where++)
      expect_near(predicted((enum tb_where)where, &call), tst_synthetic_seconds(&tst_synthetic, where, &call), 1.6,
                  where == TB_GPU ? "gpu" : "cpu", &call);
  }
}

/* A GPU so slow that only its smallest products were measured is not believed to be quick at the others. */
static void slow_side_stays_slow(void **state) {
  (void)state;
  struct tst_synthetic slow = tst_synthetic;
  slow.gpu_flops_per_s = 1e7;
  const struct tb_calibration c = tst_synthetic_calibration(&slow, 10);
  tb_model_fit(&model, TB_S, &c, 16);
  for (int64_t side = 64; side <= 16384; side *= 2) {
    const struct tb_call call = product(side, side, side);
    assert_true(predicted(TB_GPU, &call) > 3 * predicted(TB_CPU, &call));
  }
}

/* Nothing measured at all: the assumptions, and nothing that is no number. */
static void nothing_measured(void **state) {
  (void)state;
  static const struct tb_calibration none;
  static struct tb_model assumed;
  tb_model_assume(&assumed, TB_S, 4);
  tb_model_fit(&model, TB_S, &none, 4);
  const struct tb_call call = product(3000, 1000, 2000);
  for (int where = 0; where < TB_WHERE_COUNT; where++) {
    struct tb_prediction p;
    tb_model_predict(&assumed, &call, NULL, 0, &p);
    assert_float_equal(predicted((enum tb_where)where, &call), p.seconds[where], 1e-12);
    assert_true(isfinite(p.seconds[where]) && p.seconds[where] > 0);
  }
}

/* What the CPU's formula is made of, each part by itself and in a whole number of seconds. */
static void parts_of_a_cpu_call(void **state) {
  (void)state;
  const struct tb_call call = product(2, 3, 5);
  const double never = 1e300, flops = 2 * 2 * 3 * 5, bytes = 4 * (2 * 5 + 5 * 3 + 2 * 2 * 3);
  const struct tb_rates calls = {.cpu_call_seconds = 7, .cpu_flops_per_s = never, .cpu_bytes_per_s = never};
  const struct tb_rates operations = {.cpu_flops_per_s = flops / 11, .cpu_bytes_per_s = never};
  const struct tb_rates moved = {.cpu_flops_per_s = never, .cpu_bytes_per_s = bytes / 13};
  const struct tb_rates all = {.cpu_call_seconds = 7, .cpu_flops_per_s = flops / 11, .cpu_bytes_per_s = bytes / 13};
  assert_float_equal(tb_model_formula(&calls, TB_CPU, &call, NULL), 7, 1e-9);
  assert_float_equal(tb_model_formula(&operations, TB_CPU, &call, NULL), 11, 1e-9);
  assert_float_equal(tb_model_formula(&moved, TB_CPU, &call, NULL), 13, 1e-9);
  assert_float_equal(tb_model_formula(&all, TB_CPU, &call, NULL), 7 + 11 + 13, 1e-9);
}

/* A quarter of the threads: large products take four times as long, small ones as long as before. */
static void threads(void **state) {
  (void)state;
  struct tb_calibration c = tst_synthetic_calibration(&tst_synthetic, TB_NODES);
  c.cpu_threads = 16;
  tb_model_fit(&model, TB_S, &c, 16);
  const struct tb_call large = product(1000, 1000, 1000), small = product(16, 16, 16);
  const double large_before = predicted(TB_CPU, &large), small_before = predicted(TB_CPU, &small);
  const double gpu_before = predicted(TB_GPU, &large);
  model.threads = 4;
  assert_float_equal(predicted(TB_CPU, &large) / large_before, 4, 1e-9);
  assert_float_equal(predicted(TB_CPU, &small), small_before, 1e-15);
  assert_float_equal(predicted(TB_GPU, &large), gpu_before, 1e-15);
}

/* Below the published size the GPU never wins, whatever the CPU's threads; and it is not needlessly small. */
static void small_products(void **state) {
  (void)state;
  const struct tb_calibration c = tst_synthetic_calibration(&tst_synthetic, TB_NODES);
  tb_model_fit(&model, TB_S, &c, 16);
  for (int threads = 16; threads > 0; threads /= 4) {
    model.threads = threads;
    const double small = tb_model_small_flops(&model);
    uint64_t rng = 5;
    double least = INFINITY;
    for (int i = 0; i < 20000; i++) {
      const struct tb_call call =
          product(tst_log_uniform(&rng, 8192), tst_log_uniform(&rng, 8192), tst_log_uniform(&rng, 8192));
      if (predicted(TB_GPU, &call) < predicted(TB_CPU, &call)) least = fmin(least, tb_call_flops(&call));
    }
    assert_true(small <= least || small <= TB_SMALL_FLOPS_LEAST);
    assert_true(small >= least / 4 || small >= TB_SMALL_FLOPS_MOST);
  }
  tb_model_assume(&model, TB_S, 1);
  model.rates.gpu_latency_seconds = 1e3;
  assert_float_equal(tb_model_small_flops(&model), TB_SMALL_FLOPS_MOST, 1);
  model.rates.gpu_latency_seconds = 0;
  model.rates.up_bytes_per_s = model.rates.down_bytes_per_s = 1e15;
  assert_float_equal(tb_model_small_flops(&model), TB_SMALL_FLOPS_LEAST, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(grid),
      cmocka_unit_test(copies_count_by_place),
      cmocka_unit_test(measurements_are_reproduced),
      cmocka_unit_test(each_way_of_the_link),
      cmocka_unit_test(between_the_nodes),
      cmocka_unit_test(slow_side_stays_slow),
      cmocka_unit_test(nothing_measured),
      cmocka_unit_test(parts_of_a_cpu_call),
      cmocka_unit_test(threads),
      cmocka_unit_test(small_products),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
