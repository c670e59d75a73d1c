/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model as the pure function that it is: the formula by places, measurements reproduced exactly, what lies between
 * and beyond them, threads, and the size below which the CPU needs no second thought. A synthetic machine makes the
 * measurements, so that every expected value is known.
 *
 * Seen to fail when: two sizes of the grid are exchanged; weights do not add up to 1; what was not measured counts as
 * quick; the sides are exchanged; a slow way down is taken for a slow way up; a part of the formula counts for nothing,
 * twice or in another type's bytes; a rate that was measured is not taken over; one shape is taken for another; what a
 * shape took does not fade.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "route/model.h"
#include "rng.h"
#include "select/rates.h"
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

static const double never = 1e300; /* a rate that takes no time */

/* Rates of which one alone takes time. */
static struct tb_rates gpu_rates(double latency, double flops_per_s, double up, double down) {
  return (struct tb_rates){.gpu_latency_seconds = latency,
                           .gpu_flops_per_s = flops_per_s,
                           .up_bytes_per_s = up,
                           .down_bytes_per_s = down,
                           .link_up_bytes_per_s = never,
                           .link_down_bytes_per_s = never};
}

static double gpu_seconds_of(const struct tb_call *call, const struct tb_rates *rates) {
  return tb_model_formula(rates, TB_GPU, call, NULL);
}

/* Of a small triangle, for which a product is not fewer launches. */
static double chain_of(const struct tb_call *call) {
  return 2 * (double)call->k / (tb_type_is_complex(call->type) ? 128 : 256) * tb_rate.triangular_step_seconds;
}

/* Of each type's calls, the bytes that go up and come down: of a product's operands, a triangle's only one, half of a
 * mirrored one, and of trmm half of A beside what it overwrites. On the CPU's side what is read and written. */
static void bytes_by_type_and_form(void **state) {
  (void)state;
  const struct tb_rates up = gpu_rates(0, never, 1, never), down = gpu_rates(0, never, never, 1);
  const struct tb_rates cpu = {.cpu_flops_per_s = never, .cpu_bytes_per_s = 1};
  for (int type = 0; type < TB_TYPE_COUNT; type++) {
    const double size = (double)tb_type_bytes((enum tb_type)type);
    struct tb_call call = product(20, 30, 40);
    call.type = (enum tb_type)type;
    assert_float_equal(gpu_seconds_of(&call, &up) / size, 20 * 40 + 40 * 30, 1e-6);
    assert_float_equal(gpu_seconds_of(&call, &down) / size, 20 * 30, 1e-6);
    assert_float_equal(tb_model_formula(&cpu, TB_CPU, &call, NULL) / size, 20 * 40 + 40 * 30 + 2 * 20 * 30, 1e-6);
    call.a.structure = TB_SYMMETRIC;
    assert_float_equal(gpu_seconds_of(&call, &up) / size, 20 * 40 / 2 + 40 * 30, 1e-6);
    call.a.structure = TB_GENERAL, call.b.structure = TB_HERMITIAN;
    assert_float_equal(gpu_seconds_of(&call, &up) / size, 20 * 40 + 40 * 30 / 2, 1e-6);
    call.b.structure = TB_GENERAL;
    for (int recipe = TB_TRIANGULAR_MULTIPLY; recipe <= TB_TRIANGULAR_SOLVE; recipe++) {
      call.k = call.m, call.recipe = (enum tb_recipe)recipe;
      assert_float_equal(tb_model_formula(&cpu, TB_CPU, &call, NULL) / size, 20 * 20 / 2 + 2 * 20 * 30, 1e-6);
      assert_float_equal(gpu_seconds_of(&call, &down) / size - chain_of(&call) / size, 20 * 30, 1e-6);
      assert_float_equal(gpu_seconds_of(&call, &up) / size - chain_of(&call) / size, 20 * 20 / 2 + 20 * 30, 1e-6);
    }
    /* syrk's B is A once more, syr2k's is not. */
    float elements[2];
    call = product(30, 30, 40), call.type = (enum tb_type)type;
    call.region.of = TB_UPPER_TRIANGLE, call.a.data = call.b.data = elements, call.b.transposed = true;
    assert_float_equal(gpu_seconds_of(&call, &up) / size, 30 * 40, 1e-6);
    call.b.data = elements + 1;
    assert_float_equal(gpu_seconds_of(&call, &up) / size, 2 * 30 * 40, 1e-6);
  }
}

/* The longer of copying and computing hides the shorter but for a tile, of which there are one to four along the longer
 * side of C; and what takes time by itself comes on top. */
static void copies_and_kernels_overlap(void **state) {
  (void)state;
  const struct {
    int64_t m, n;
    double tiles;
  } shapes[] = {{1024, 1024, 1}, {1025, 1, 2}, {1, 1025, 2}, {2048, 5, 2}, {3, 3000, 3}, {4096, 4096, 4}, {9000, 9, 4}};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
    for (int computes = 0; computes < 2; computes++) {
      const struct tb_call call = product(shapes[i].m, shapes[i].n, 64);
      const double bytes = 4 * (double)(call.m * call.n), longer = 24, shorter = 12;
      const struct tb_rates rates = gpu_rates(5, tb_call_flops(&call) / (computes ? longer : shorter), never,
                                              bytes / (computes ? shorter : longer));
      assert_float_equal(gpu_seconds_of(&call, &rates), 5 + longer + shorter / shapes[i].tiles, 1e-9);
    }
  /* A triangle's chain: two launches for each block of 256, complex ones of 128; a product has no more than four. */
  const struct tb_rates nothing = gpu_rates(3, never, never, never);
  for (int type = 0; type < TB_TYPE_COUNT; type++) {
    struct tb_call triangle = product(1280, 64, 1280);
    triangle.type = (enum tb_type)type, triangle.recipe = TB_TRIANGULAR_SOLVE;
    const double steps = tb_type_is_complex(triangle.type) ? 20 : 10;
    assert_float_equal(gpu_seconds_of(&triangle, &nothing), 3 + steps * tb_rate.triangular_step_seconds, 1e-12);
    triangle.recipe = TB_TRIANGULAR_MULTIPLY;
    assert_float_equal(gpu_seconds_of(&triangle, &nothing), 3 + 4 * tb_rate.triangular_step_seconds, 1e-12);
  }
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

/* What the other rates are found in: the smallest product is a call, the quickest node the rate of operations, a flat
 * product the CPU's bytes, and the largest one the kernels', without its copies, up to what a GPU can reach. */
static void each_rate_is_found(void **state) {
  (void)state;
  const int last = TB_GRID_SIZES - 1;
  for (int type = 0; type < TB_TYPE_COUNT; type++)
    for (double of_peak = 0.5; of_peak < 3; of_peak *= 2) { /* the largest node's, beside the most that counts */
      const double size = (double)tb_type_bytes((enum tb_type)type), most = 20e12 * tb_rate.most_of_peak;
      struct tb_calibration c = {.open_seconds = 0.7,
                                 .link_up_bytes_per_s = 31e9,
                                 .link_down_bytes_per_s = 32e9,
                                 .gpu_peak_flops_per_s = 20e12,
                                 .cpu_threads = 3};
      double flops[TB_NODES];
      for (int node = 0; node < TB_NODES; node++) {
        const struct tb_node_sizes s = tb_node_sizes(node);
        flops[node] = tb_type_flops((enum tb_type)type) * (double)(s.m * s.n * s.k);
        c.seconds[TB_CPU][node] = 5e-6 + flops[node] / 1e9;
        c.seconds[TB_GPU][node] = 50e-6 + flops[node] / 1e9;
      }
      const int quick = tb_node(2, 3, 2), flat = tb_node(last, last, 0), whole = tb_node(last, last, last);
      const double moved = size * (2.0 * TB_GRID_MOST * TB_GRID_MOST + 2.0 * TB_GRID_LEAST * TB_GRID_MOST);
      const double square = size * TB_GRID_MOST * TB_GRID_MOST;
      c.seconds[TB_CPU][0] = 5e-6, c.seconds[TB_GPU][0] = 50e-6;
      c.seconds[TB_CPU][quick] = 5e-6 + flops[quick] / 30e9;
      c.seconds[TB_CPU][flat] = 5e-6 + flops[flat] / 30e9 + moved / 0.01e9;
      c.seconds[TB_GPU][tb_node(last, 0, last)] = 50e-6 + square / 10e9;
      c.seconds[TB_GPU][tb_node(0, last, last)] = 50e-6 + square / 20e9;
      c.seconds[TB_GPU][flat] = 50e-6 + square / 5e9;
      c.seconds[TB_GPU][whole] = 50e-6 + 2 * square / 20e9 + square / 5e9 + flops[whole] / (of_peak * most);
      tb_model_fit(&model, (enum tb_type)type, &c, 16);
      const struct tb_rates *const r = &model.rates;
      assert_float_equal(r->cpu_call_seconds / 5e-6, 1, 1e-9);
      assert_float_equal(r->cpu_flops_per_s / 30e9, 1, 1e-9);
      assert_float_equal(r->cpu_bytes_per_s / 0.01e9, 1, 1e-9);
      assert_float_equal(r->gpu_latency_seconds / 50e-6, 1, 1e-9);
      assert_float_equal(r->up_bytes_per_s / 20e9, 1, 1e-9);
      assert_float_equal(r->down_bytes_per_s / 5e9, 1, 1e-9);
      assert_float_equal(r->gpu_flops_per_s / (of_peak < 1 ? of_peak * most : most), 1, 1e-6);
      assert_true(r->open_seconds == 0.7 && r->link_up_bytes_per_s == 31e9 && r->link_down_bytes_per_s == 32e9);
      assert_true(model.threads == 3 && model.measured_threads == 3 && !model.assumed);
    }
}

/* What was not measured stays as it is assumed, and a node has what its lower neighbours have on average. */
static void what_was_not_measured(void **state) {
  (void)state;
  static struct tb_model assumed;
  struct tb_calibration c = {0};
  tb_model_assume(&assumed, TB_S, 16);
  c.seconds[TB_CPU][tb_node(1, 0, 0)] = 1, c.seconds[TB_CPU][tb_node(0, 1, 0)] = 2;
  tb_model_fit(&model, TB_S, &c, 16);
  assert_memory_equal(&model.rates, &assumed.rates, sizeof model.rates);
  double base[2];
  for (int i = 0; i < 2; i++) {
    const struct tb_node_sizes s = tb_node_sizes(i ? tb_node(0, 1, 0) : tb_node(1, 0, 0));
    const struct tb_call call = product(s.m, s.n, s.k);
    base[i] = (i + 1) / tb_model_formula(&model.rates, TB_CPU, &call, NULL);
  }
  assert_float_equal(model.base[TB_CPU][0], 1, 1e-12);
  assert_float_equal(model.base[TB_CPU][tb_node(1, 0, 0)] / base[0], 1, 1e-9);
  assert_float_equal(model.base[TB_CPU][tb_node(1, 1, 0)] / ((base[0] + base[1]) / 2), 1, 1e-9);
  assert_float_equal(model.base[TB_CPU][tb_node(1, 0, 1)] / ((base[0] + 1) / 2), 1, 1e-9);
  for (int node = 0; node < TB_NODES; node++) assert_float_equal(model.base[TB_GPU][node], 1, 1e-12);
}

/* Where a time says nothing of a rate that stays what it was: of bytes beside a call's own time, of operations beside
 * copies; and nothing is so quick that it takes no time. */
static void what_cannot_be_told(void **state) {
  (void)state;
  static struct tb_model assumed;
  const int last = TB_GRID_SIZES - 1, tall = tb_node(last, 0, last), flat = tb_node(last, last, 0);
  const int whole = tb_node(last, last, last);
  const double square = 4.0 * TB_GRID_MOST * TB_GRID_MOST, flops = 2.0 * TB_GRID_MOST * TB_GRID_MOST * TB_GRID_MOST;
  tb_model_assume(&assumed, TB_S, 16);
  struct tb_calibration c = {.gpu_peak_flops_per_s = 20e12};
  for (int where = 0; where < TB_WHERE_COUNT; where++) c.seconds[where][0] = 1, c.seconds[where][flat] = 1.9;
  c.seconds[TB_GPU][tall] = 1.9;
  tb_model_fit(&model, TB_S, &c, 16);
  assert_true(model.rates.cpu_bytes_per_s == assumed.rates.cpu_bytes_per_s);
  assert_true(model.rates.up_bytes_per_s == assumed.rates.up_bytes_per_s);
  assert_true(model.rates.down_bytes_per_s == assumed.rates.down_bytes_per_s);
  assert_true(isfinite(model.rates.cpu_flops_per_s) && isfinite(model.rates.gpu_flops_per_s));
  c.seconds[TB_GPU][tall] = 3; /* the only one that goes up */
  tb_model_fit(&model, TB_S, &c, 16);
  assert_float_equal(model.rates.up_bytes_per_s / (square / 2), 1, 1e-9);
  c.seconds[TB_GPU][whole] = 3; /* less than its copies */
  tb_model_fit(&model, TB_S, &c, 16);
  assert_float_equal(model.rates.gpu_flops_per_s / (20e12 * tb_rate.most_of_peak), 1, 1e-9);
  c.gpu_peak_flops_per_s = 1; /* others were quicker than that */
  tb_model_fit(&model, TB_S, &c, 16);
  assert_float_equal(model.rates.gpu_flops_per_s / (flops / 2), 1, 1e-9);
}

/* Cores add up, of what they move up to eight; doubles take longer on either side. */
static void what_is_assumed(void **state) {
  (void)state;
  static const int cores[] = {1, 4, 8, 9, 64};
  for (int type = 0; type < TB_TYPE_COUNT; type++)
    for (int i = 0; i < 5; i++) {
      const bool is_double = type == TB_D || type == TB_Z;
      const double of_cores = tb_rate.assumed_core_flops_per_s * cores[i];
      const double moved = tb_rate.assumed_core_bytes_per_s * (cores[i] < 8 ? cores[i] : 8);
      tb_model_assume(&model, (enum tb_type)type, cores[i]);
      assert_true(model.rates.cpu_flops_per_s == (is_double ? of_cores / tb_rate.assumed_double_times : of_cores));
      assert_true(model.rates.cpu_bytes_per_s == moved && model.rates.up_bytes_per_s == moved);
      assert_true(model.rates.down_bytes_per_s == moved);
      assert_true(model.rates.gpu_flops_per_s ==
                  (is_double ? tb_rate.assumed_gpu_double_flops_per_s : tb_rate.assumed_gpu_flops_per_s));
      assert_true(model.assumed && model.threads == cores[i] && model.type == (enum tb_type)type);
    }
  assert_true(tb_rate.assumed_double_times > 1);
  assert_true(tb_rate.assumed_gpu_double_flops_per_s < tb_rate.assumed_gpu_flops_per_s);
}

/* Calls with operands that are not pageable have a factor of their own, and the CPU's are as any. */
static void operands_elsewhere(void **state) {
  (void)state;
  const struct tb_calibration c = tst_synthetic_calibration(&tst_synthetic, TB_NODES);
  const struct tb_places pinned = {.a = {.place = TB_PINNED}};
  const struct tb_call call = product(700, 800, 900);
  struct tb_prediction p;
  tb_model_fit(&model, TB_S, &c, 16);
  tb_model_remember(&model, &call)->seen[TB_GPU] = 8; /* which is of pageable operands */
  tb_model_predict(&model, &call, &pinned, 0, &p);
  const double formula = tb_model_formula(&model.rates, TB_GPU, &call, &pinned);
  assert_float_equal(p.seconds[TB_GPU] / formula, 1, 1e-9);
  assert_false(p.known[TB_GPU] || p.decided);
  tb_model_fit(&model, TB_S, &c, 16);
  assert_float_equal(p.seconds[TB_CPU] / predicted(TB_CPU, &call), 1, 1e-9);
  model.placed.value = 3;
  tb_model_predict(&model, &call, &pinned, 0, &p);
  assert_float_equal(p.seconds[TB_GPU] / formula, 3, 1e-9);
  assert_float_equal(p.seconds[TB_CPU] / predicted(TB_CPU, &call), 1, 1e-9);
}

/* Two calls that differ in anything that counts have no memory in common, whatever places they share. */
static void shapes_are_apart(void **state) {
  (void)state;
  const struct tb_call first = product(300, 400, 500);
  for (int field = 0; field < 6; field++)
    for (int i = 1; i < (field < 3 ? 3000 : 2); i++) {
      struct tb_call other = first;
      if (field == 0) other.m += i;
      if (field == 1) other.n += i;
      if (field == 2) other.k += i;
      if (field == 3) other.a.transposed = true;
      if (field == 4) other.b.transposed = true;
      if (field == 5) other.region.of = TB_LOWER_TRIANGLE;
      tb_model_assume(&model, TB_S, 4);
      struct tb_shape_memory *const of_first = tb_model_remember(&model, &first);
      of_first->seen[TB_CPU] = 5, of_first->used = 1;
      assert_null(tb_model_recall(&model, &other));
      tb_model_remember(&model, &other)->seen[TB_CPU] = 6;
      assert_non_null(tb_model_recall(&model, &other));
      assert_true(tb_model_recall(&model, &other)->seen[TB_CPU] == 6);
      assert_true(tb_model_recall(&model, &first)->seen[TB_CPU] == 5); /* two places are enough for two */
    }
}

/* It is what it was for a second; half of it is left after a minute. */
static void shapes_fade(void **state) {
  (void)state;
  const struct tb_call call = product(300, 400, 500);
  tb_model_assume(&model, TB_S, 4);
  const double of_class = predicted(TB_GPU, &call);
  struct tb_shape_memory *const s = tb_model_remember(&model, &call);
  s->seconds[TB_GPU] = (struct tb_follower){.value = 9 * of_class, .at = 1000};
  s->seen[TB_GPU] = 8;
  const double ages[] = {0, 0.9, 60, 180}, left[] = {1, 1, 0.5, 0.25};
  for (int i = 0; i < 4; i++) {
    struct tb_prediction p;
    tb_model_predict(&model, &call, NULL, 1000 + ages[i], &p);
    assert_float_equal(p.seconds[TB_GPU] / of_class, 1 + 8 * left[i], 1e-9);
    assert_int_equal(p.known[TB_GPU], ages[i] < 60);
    assert_false(p.known[TB_CPU]);
  }
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
  const double flops = 2 * 2 * 3 * 5, bytes = 4 * (2 * 5 + 5 * 3 + 2 * 2 * 3);
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
  for (int unknown = 0; unknown < 2; unknown++) { /* by nothing that is unknown */
    model.threads = unknown ? 0 : 4, model.measured_threads = unknown ? 16 : 0;
    assert_float_equal(predicted(TB_CPU, &large) / large_before, 1, 1e-9);
  }
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
      cmocka_unit_test(bytes_by_type_and_form),
      cmocka_unit_test(copies_and_kernels_overlap),
      cmocka_unit_test(measurements_are_reproduced),
      cmocka_unit_test(each_way_of_the_link),
      cmocka_unit_test(each_rate_is_found),
      cmocka_unit_test(what_was_not_measured),
      cmocka_unit_test(what_cannot_be_told),
      cmocka_unit_test(what_is_assumed),
      cmocka_unit_test(operands_elsewhere),
      cmocka_unit_test(shapes_are_apart),
      cmocka_unit_test(shapes_fade),
      cmocka_unit_test(between_the_nodes),
      cmocka_unit_test(slow_side_stays_slow),
      cmocka_unit_test(nothing_measured),
      cmocka_unit_test(parts_of_a_cpu_call),
      cmocka_unit_test(threads),
      cmocka_unit_test(small_products),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
