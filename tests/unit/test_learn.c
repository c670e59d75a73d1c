/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Learning, on a synthetic machine and a clock of the test's own: estimates converge on what calls take and do not
 * oscillate; one outlier, an idle GPU or other threads of the CPU BLAS do not mislead them for long; a side that was
 * given up is tried again, at a bounded price; and the regret of all that over random shapes.
 *
 * Seen to fail when: the first surprise is believed; what was learned does not fade; an idle GPU counts like any; no
 * side is ever tried; trying has no budget; shapes of another m share their memory; the shape that was used last is
 * forgotten; shapes are not learned (the regret); calls with operands elsewhere teach nothing, or others; a call among
 * others', a triangle or a time that is none teaches what it does not know; what is put by has no end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "route/learn.h"
#include "route/route.h"
#include "synthetic.h"

static struct tb_model model;
static double now;

static struct tb_call product(int64_t m, int64_t n, int64_t k) {
  return (struct tb_call){.m = m, .n = n, .k = k, .alpha = {1}};
}

static void setup_model(void) {
  const struct tb_calibration c = tst_synthetic_calibration(&tst_synthetic, TB_NODES);
  tb_model_fit(&model, TB_S, &c, 16);
  now = 1000;
}

static struct tb_prediction predict(const struct tb_call *call) {
  struct tb_prediction p;
  tb_model_predict(&model, call, NULL, now, &p);
  return p;
}

static double predicted(enum tb_where where, const struct tb_call *call) { return predict(call).seconds[where]; }

static void observe(enum tb_where where, const struct tb_call *call, double seconds) {
  const struct tb_observation o = {where, seconds, false, seconds, 0, false};
  now += seconds;
  tb_model_observe(&model, call, NULL, &o, now);
}

/* As the router does it: decided, computed on the machine, learned. Returns the seconds. */
static double live(const struct tb_call *call, const double truth[TB_WHERE_COUNT], struct tb_decision *d) {
  const struct tb_machine machine = {
      .mode = TB_ROUTE_AUTO, .gpu = TB_STATUS_ok, .gpu_open = true, .model = &model, .now = now};
  *d = tb_route(call, NULL, &machine);
  const double seconds = truth[d->where];
  const struct tb_observation o = {d->where, seconds, d->why == TB_STATUS_tried, fmin(d->cpu_seconds, d->gpu_seconds),
                                   0,        false};
  now += seconds;
  if (d->cpu_seconds > 0) tb_model_observe(&model, call, NULL, &o, now);
  return seconds;
}

static void truth_of(const struct tst_synthetic *s, const struct tb_call *call, double truth[TB_WHERE_COUNT]) {
  for (int where = 0; where < TB_WHERE_COUNT; where++) truth[where] = tst_synthetic_seconds(s, where, call);
}

static void converges(void **state) {
  (void)state;
  const double factors[] = {0.3, 0.7, 1.4, 3};
  for (int f = 0; f < 4; f++)
    for (int where = 0; where < TB_WHERE_COUNT; where++) {
      setup_model();
      const struct tb_call call = product(700, 300, 900), alike = product(600, 350, 800);
      const double true_seconds = factors[f] * predicted((enum tb_where)where, &call);
      const double alike_before = predicted((enum tb_where)where, &alike);
      for (int i = 0; i < 15; i++) observe((enum tb_where)where, &call, true_seconds);
      assert_float_equal(predicted((enum tb_where)where, &call) / true_seconds, 1, 0.03);
      /* A call of the same class goes at least half the way, and not beyond. */
      const double way = (predicted((enum tb_where)where, &alike) / alike_before - 1) / (factors[f] - 1);
      if (!(way > 0.5 && way < 1.1)) fail_msg("a call alike went %g of the way to a factor of %g", way, factors[f]);
      const struct tb_call other = product(20, 2000, 20); /* and one of another class nowhere */
      const double other_before = tst_synthetic_seconds(&tst_synthetic, where, &other);
      assert_float_equal(predicted((enum tb_where)where, &other) / other_before, 1, 0.6);
    }
}

static void one_outlier(void **state) {
  (void)state;
  for (int where = 0; where < TB_WHERE_COUNT; where++) {
    setup_model();
    const struct tb_call call = product(500, 500, 500);
    const double true_seconds = predicted((enum tb_where)where, &call);
    for (int i = 0; i < 10; i++) observe((enum tb_where)where, &call, true_seconds);
    observe((enum tb_where)where, &call, 100 * true_seconds);
    assert_float_equal(predicted((enum tb_where)where, &call) / true_seconds, 1, 0.1);
    for (int i = 0; i < 5; i++) observe((enum tb_where)where, &call, true_seconds);
    assert_float_equal(predicted((enum tb_where)where, &call) / true_seconds, 1, 0.03);
    observe((enum tb_where)where, &call, NAN); /* and what is no time at all moves nothing */
    observe((enum tb_where)where, &call, 0);
    const struct tb_cell cell = tb_model_cell(&call);
    for (int i = 0; i < 8; i++) assert_true(isfinite(model.learned[where][cell.node[i]].value));
    assert_true(isfinite(predicted((enum tb_where)where, &call)) && isfinite(model.probe_seconds));
    assert_float_equal(predicted((enum tb_where)where, &call) / true_seconds, 1, 0.03);
    now = 1000;
  }
}

/* Two in a row are heard like one; three are believed, as far as the nearest of them goes. */
static void outliers_in_a_row(void **state) {
  (void)state;
  for (int where = 0; where < TB_WHERE_COUNT; where++) {
    for (int up = 0; up < 2; up++) {
      const double far = up ? 50 : 0.02, near = up ? 1.8 : 1 / 1.8;
      setup_model();
      const struct tb_call call = product(500, 500, 500);
      const double true_seconds = predicted((enum tb_where)where, &call);
      for (int i = 0; i < 10; i++) observe((enum tb_where)where, &call, true_seconds);
      for (int i = 0; i < 2; i++) observe((enum tb_where)where, &call, (i ? far : 2 * far) * true_seconds);
      assert_float_equal(predicted((enum tb_where)where, &call) / true_seconds, 1, 0.25);
      observe((enum tb_where)where, &call, near * true_seconds);
      const double moved = predicted((enum tb_where)where, &call) / true_seconds;
      if (!(up ? moved > 1.3 && moved < 1.8 : moved < 0.8 && moved > 1 / 1.8))
        fail_msg("up %d: moved by %g", up, moved);
      now = 1000;
    }
  }
}

/* Slower and quicker in turn agree on nothing: however many, each is heard like the first. */
static void outliers_of_both_kinds(void **state) {
  (void)state;
  for (int where = 0; where < TB_WHERE_COUNT; where++) {
    setup_model();
    const struct tb_call call = product(500, 500, 500);
    const double true_seconds = predicted((enum tb_where)where, &call);
    for (int i = 0; i < 10; i++) observe((enum tb_where)where, &call, true_seconds);
    for (int i = 0; i < 9; i++) {
      observe((enum tb_where)where, &call, (i % 2 ? 0.1 : 10) * true_seconds);
      assert_float_equal(predicted((enum tb_where)where, &call) / true_seconds, 1, 0.15);
    }
    now = 1000;
  }
}

/* Of a call of a fifth of a second two outliers are believed, cold or not; and where nothing was measured, the first.
 */
static void outliers_of_long_calls(void **state) {
  (void)state;
  const struct tb_call call = product(6000, 6000, 6000);
  setup_model();
  now += 10;
  const double true_seconds = predicted(TB_CPU, &call);
  assert_true(true_seconds > TB_LONG_SECONDS);
  observe(TB_CPU, &call, 3 * true_seconds);
  assert_true(predicted(TB_CPU, &call) < 1.2 * true_seconds);
  now += 10;
  observe(TB_CPU, &call, 3 * true_seconds);
  assert_true(predicted(TB_CPU, &call) > 1.8 * true_seconds);

  tb_model_assume(&model, TB_S, 16);
  const double assumed_seconds = predicted(TB_CPU, &call);
  observe(TB_CPU, &call, 8 * assumed_seconds);
  assert_true(predicted(TB_CPU, &call) > 2 * assumed_seconds);
}

/* A program that calls once in a while finds the GPU with its clocks down each time; in between come calls in a row. */
static void idle_gpu(void **state) {
  (void)state;
  setup_model();
  const struct tb_call call = product(500, 500, 500);
  const double true_seconds = predicted(TB_GPU, &call);
  for (int i = 0; i < 10; i++) observe(TB_GPU, &call, true_seconds);
  for (int round = 0; round < 10; round++) {
    now += 5;
    observe(TB_GPU, &call, (round % 2 ? 3 : 1.4) * true_seconds);
    assert_float_equal(predicted(TB_GPU, &call) / true_seconds, 1, 0.06);
    for (int i = 0; i < 6; i++) observe(TB_GPU, &call, true_seconds);
  }
  assert_float_equal(predicted(TB_GPU, &call) / true_seconds, 1, 0.05);
}

/* Whatever is observed, a factor stays within its bounds. */
static void bounds(void **state) {
  (void)state;
  const struct tb_call call = product(500, 500, 500);
  for (int slow = 0; slow < 2; slow++) {
    setup_model();
    const double before = predicted(TB_CPU, &call);
    for (int i = 0; i < 200; i++) observe(TB_CPU, &call, slow ? 1e6 : 1e-9), now = 1000;
    for (int node = 0; node < TB_NODES; node++) {
      const double learned = model.learned[TB_CPU][node].value;
      assert_true(learned <= TB_LEARNED_MOST && learned >= 1 / TB_LEARNED_MOST);
    }
    const double most = 2 * TB_LEARNED_MOST * TB_LEARNED_MOST * 1.01, factor = predicted(TB_CPU, &call) / before;
    assert_true(factor <= most && factor >= 1 / most);
  }
}

/* After the BLAS's threads change, what was learned of the CPU is forgotten, and what was learned of the GPU is not. */
static void threads_change(void **state) {
  (void)state;
  setup_model();
  const struct tb_call call = product(500, 500, 500);
  const double cpu = predicted(TB_CPU, &call), gpu = predicted(TB_GPU, &call);
  for (int i = 0; i < 20; i++) observe(TB_CPU, &call, 2 * cpu);
  for (int i = 0; i < 20; i++) observe(TB_GPU, &call, 2 * gpu);
  assert_false(tb_model_set_threads(&model, 16));
  assert_float_equal(predicted(TB_CPU, &call) / cpu, 2, 0.1);
  assert_true(predict(&call).decided);
  assert_true(tb_model_set_threads(&model, 1));
  assert_false(predict(&call).decided); /* on what holds no longer */
  assert_float_equal(predicted(TB_CPU, &call) / cpu, 16, 0.01);
  assert_float_equal(predicted(TB_GPU, &call) / gpu, 2, 0.1);
  for (int i = 0; i < 15; i++) observe(TB_CPU, &call, 10 * cpu); /* one thread is better than a sixteenth */
  assert_float_equal(predicted(TB_CPU, &call) / cpu, 10, 0.5);
}

/* More shapes than are remembered: each is still predicted by its class, and no shape takes another's time. */
static void many_shapes(void **state) {
  (void)state;
  setup_model();
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < 3 * TB_SHAPES_REMEMBERED; i++) {
      struct tb_call call = product(300 + i, 300, 300);
      double truth[TB_WHERE_COUNT];
      truth_of(&tst_synthetic, &call, truth);
      observe(TB_CPU, &call, truth[TB_CPU]);
      assert_float_equal(predicted(TB_CPU, &call) / truth[TB_CPU], 1, 0.3);
      assert_int_equal(tb_model_recall(&model, &call)->m, call.m);
      call.a.transposed = true;
      assert_null(tb_model_recall(&model, &call));
    }
}

/* Where a shape's memory is made in a model that has no other: one of two places. */
static long pair_of(const struct tb_call *call) {
  setup_model();
  observe(TB_CPU, call, 1e-3);
  return (tb_model_recall(&model, call) - model.shape) / 2;
}

/* Of three shapes that have two places together, the one that was not used for longest is forgotten: here not the one
 * that was made first. */
static void the_eldest_is_forgotten(void **state) {
  (void)state;
  for (int64_t first = 300; first < 320; first++) {
    struct tb_call shape[3] = {product(first, 300, 300)};
    const long pair = pair_of(&shape[0]);
    for (int found = 1, more = 1; found < 3; more++) {
      shape[found] = product(first + more, 300, 300);
      found += pair_of(&shape[found]) == pair;
    }
    setup_model();
    const int order[] = {0, 1, 0, 2};
    for (int i = 0; i < 4; i++) observe(TB_CPU, &shape[order[i]], 1e-3);
    assert_non_null(tb_model_recall(&model, &shape[0]));
    assert_null(tb_model_recall(&model, &shape[1]));
    assert_non_null(tb_model_recall(&model, &shape[2]));
  }
}

/* Of calls with operands that are not pageable the GPU's have a factor of their own; nothing else is learned of them,
 * and a trial of another call is over. */
static void operands_elsewhere(void **state) {
  (void)state;
  const struct tb_places pinned = {.a = {.place = TB_PINNED}};
  const struct tb_call call = product(500, 500, 500), other = product(90, 90, 90);
  for (int where = 0; where < TB_WHERE_COUNT; where++) {
    struct tb_prediction before, after;
    setup_model();
    const struct tb_prediction pageable = predict(&call);
    observe(TB_CPU, &other, predicted(TB_CPU, &other));
    model.trying = tb_model_recall(&model, &other);
    tb_model_predict(&model, &call, &pinned, now, &before);
    const double seconds = 3 * before.seconds[where];
    const struct tb_observation o = {(enum tb_where)where, seconds, false, seconds, 0, false};
    for (int i = 0; i < 20; i++) now += seconds, tb_model_observe(&model, &call, &pinned, &o, now);
    tb_model_predict(&model, &call, &pinned, now, &after);
    assert_null(tb_model_recall(&model, &call));
    assert_null(model.trying);
    assert_float_equal(after.seconds[TB_GPU] / before.seconds[TB_GPU], where == TB_GPU ? 3 : 1, 0.5);
    assert_true(after.seconds[TB_CPU] == before.seconds[TB_CPU]);
    for (int each = 0; each < TB_WHERE_COUNT; each++)
      assert_true(predicted((enum tb_where)each, &call) == pageable.seconds[each]);
  }
}

/* What a call took on the GPU beside others says nothing; what one took on the CPU because of them is its time, and not
 * its shape's choice. */
static void among_others(void **state) {
  (void)state;
  const struct tb_call call = product(500, 500, 500);
  for (int where = 0; where < TB_WHERE_COUNT; where++) {
    setup_model();
    const double before = predicted((enum tb_where)where, &call), seconds = 3 * before;
    const struct tb_observation o = {(enum tb_where)where, seconds, false, seconds, 0, true};
    for (int i = 0; i < 20; i++) now += seconds, tb_model_observe(&model, &call, NULL, &o, now);
    assert_float_equal(predicted((enum tb_where)where, &call) / before, where == TB_CPU ? 3 : 1, 0.1);
    assert_false(predict(&call).decided);
    assert_true(predict(&call).probe_seconds == 0);
    assert_true(where == TB_CPU || model.probe_seconds == 0);
  }
}

/* A triangle's own shape is learned, and of no class. */
static void triangles(void **state) {
  (void)state;
  struct tb_call call = product(500, 500, 500);
  const struct tb_call alike = product(480, 500, 520);
  call.region.of = TB_LOWER_TRIANGLE;
  setup_model();
  const double before = predicted(TB_CPU, &call), alike_before = predicted(TB_CPU, &alike);
  for (int i = 0; i < 20; i++) observe(TB_CPU, &call, 3 * before);
  assert_float_equal(predicted(TB_CPU, &call) / before, 3, 0.1);
  assert_true(predicted(TB_CPU, &alike) == alike_before);
}

/* What a class has learned long ago has faded when it is learned of again. */
static void classes_fade(void **state) {
  (void)state;
  const struct tb_call call = product(500, 500, 500), alike = product(501, 500, 500);
  setup_model();
  const double before = predicted(TB_CPU, &alike);
  for (int i = 0; i < 30; i++) observe(TB_CPU, &call, 3 * before);
  const double learned = predicted(TB_CPU, &alike) / before;
  assert_true(learned > 2);
  now += 9 * TB_CLASS_HALF_SECONDS;
  observe(TB_CPU, &alike, predicted(TB_CPU, &alike)); /* as it is predicted */
  const struct tb_call third = product(502, 500, 500);
  assert_float_equal(predicted(TB_CPU, &third) / before, 1 + (learned - 1) / 10, 0.05);
}

/* Of one call behind a pause a quarter counts, but for a long one of the CPU. */
static void cold_calls(void **state) {
  (void)state;
  for (int where = 0; where < TB_WHERE_COUNT; where++)
    for (int is_long = 0; is_long < 2; is_long++) {
      const int64_t side = is_long ? 12000 : 500;
      const struct tb_call call = product(side, side, side);
      setup_model();
      const double seconds = predicted((enum tb_where)where, &call);
      assert_int_equal(seconds > TB_LONG_SECONDS, is_long);
      for (int i = 0; i < 10; i++) observe((enum tb_where)where, &call, seconds);
      now += 0.5; /* too short to fade */
      observe((enum tb_where)where, &call, 1.1 * seconds);
      const double moved = tb_model_recall(&model, &call)->seconds[where].value / seconds - 1;
      assert_float_equal(moved / (0.3 * 0.1), where == TB_CPU && is_long ? 1 : 0.25, 1e-3);
    }
}

/* A trial costs what it took beyond the other side; and no more is put by than so much. */
static void what_is_put_by(void **state) {
  (void)state;
  const struct tb_call call = product(500, 500, 500);
  setup_model();
  for (int i = 0; i < 3; i++) observe(TB_CPU, &call, predicted(TB_CPU, &call));
  struct tb_shape_memory *const s = tb_model_remember(&model, &call);
  for (int sooner = 0; sooner < 2; sooner++) {
    s->probe_seconds = model.probe_seconds = 0.05;
    const struct tb_observation trial = {TB_GPU, 5e-3, true, sooner ? 9e-3 : 2e-3, 0, false};
    tb_model_observe(&model, &call, NULL, &trial, now);
    assert_float_equal(model.probe_seconds, sooner ? 0.05 : 0.05 - 3e-3, 1e-12);
    assert_float_equal(s->probe_seconds, sooner ? 0.05 : 0.05 - 3e-3, 1e-12);
  }
  const struct tb_observation calls = {TB_CPU, 5e-3, false, 5e-3, 100000, false};
  model.trying = NULL;
  for (int i = 0; i < 3; i++) tb_model_observe(&model, &call, NULL, &calls, now);
  assert_float_equal(s->probe_seconds, TB_PROBE_MOST_SECONDS, 1e-12);
  assert_float_equal(model.probe_seconds, TB_PROBE_MOST_SECONDS, 1e-12);
}

/* ---- decisions that follow ---- */

/*
 * The machine changes under a program that makes the same call again and again: the side that is sooner from then on is
 * found within some hundred calls, whichever it is, and kept.
 */
static void machine_changes(void **state) {
  (void)state;
  const struct tb_call call = product(1000, 1000, 64);
  for (int slower = 0; slower < TB_WHERE_COUNT; slower++) {
    setup_model();
    double truth[TB_WHERE_COUNT];
    struct tb_decision d;
    truth_of(&tst_synthetic, &call, truth);
    truth[TB_CPU] = truth[TB_GPU] = fmin(truth[TB_CPU], truth[TB_GPU]);
    truth[slower] *= 1.5;
    for (int i = 0; i < 300; i++) live(&call, truth, &d);
    for (int turn = 0; turn < 4; turn++) {
      const double swap = truth[TB_CPU];
      truth[TB_CPU] = truth[TB_GPU], truth[TB_GPU] = swap;
      const enum tb_where sooner = truth[TB_CPU] < truth[TB_GPU] ? TB_CPU : TB_GPU;
      now += 10;
      /* What is known of the other side grows old before it is tried again. */
      double until = now + 2 * TB_SHAPE_HALF_SECONDS;
      while (now < until) live(&call, truth, &d), now += 0.01;
      int wrong = 0;
      for (int i = 0; i < 1000; i++) {
        live(&call, truth, &d);
        wrong += d.where != sooner;
      }
      if (wrong > 10) fail_msg("%d of 1000 calls went to the slower side after change %d", wrong, turn);
    }
  }
}

/* Sides of equal speed and noise: calls do not go back and forth, and it costs nothing but the trying. */
static void no_oscillation(void **state) {
  (void)state;
  const struct tb_call call = product(1000, 1000, 64);
  setup_model();
  uint64_t rng = 11;
  double best[TB_WHERE_COUNT], spent = 0, least = 0;
  int changes = 0;
  enum tb_where before = TB_CPU;
  truth_of(&tst_synthetic, &call, best);
  best[TB_CPU] = best[TB_GPU];
  for (int i = 0; i < 5000; i++) {
    double truth[TB_WHERE_COUNT];
    struct tb_decision d;
    for (int where = 0; where < TB_WHERE_COUNT; where++) truth[where] = best[where] * (1 + 0.1 * tst_random_unit(&rng));
    spent += live(&call, truth, &d);
    least += 1.05 * best[TB_CPU];
    if (d.why == TB_STATUS_tried) continue;
    changes += d.where != before;
    before = d.where;
  }
  assert_true(changes <= 50);
  assert_true(spent <= least * 1.01);
}

/* One estimate of the other side is wrong by far, too slow: it is tried all the same, at no more than the promised
 * share of the time and a little to begin with. */
static void never_stuck(void **state) {
  (void)state;
  for (int wronged = 0; wronged < TB_WHERE_COUNT; wronged++) {
    setup_model();
    const struct tb_call call = product(1000, 1000, 64);
    double truth[TB_WHERE_COUNT], spent = 0;
    truth_of(&tst_synthetic, &call, truth);
    truth[wronged] = 0.5 * truth[!wronged]; /* it is the sooner one */
    const double wrong = 3 * truth[!wronged] / predicted((enum tb_where)wronged, &call);
    for (int node = 0; node < TB_NODES; node++) model.base[wronged][node] *= wrong;
    int calls = 0;
    struct tb_decision d = {.why = TB_STATUS_tried};
    while ((d.where != (enum tb_where)wronged || d.why == TB_STATUS_tried) && calls < 5000)
      spent += live(&call, truth, &d), calls++;
    if (calls >= 5000) fail_msg("the %s was not found in %d calls", wronged == TB_GPU ? "gpu" : "cpu", calls);
  }
}

/* A side that really is slower is tried, and what that costs stays within the budget. */
static void trying_is_cheap(void **state) {
  (void)state;
  setup_model();
  const struct tb_call call = product(400, 400, 400); /* some way from where the sides meet */
  double truth[TB_WHERE_COUNT], spent = 0;
  struct tb_decision d;
  int tried = 0;
  truth_of(&tst_synthetic, &call, truth);
  const double least = fmin(truth[TB_CPU], truth[TB_GPU]);
  const int calls = 20000;
  for (int i = 0; i < calls; i++) {
    spent += live(&call, truth, &d);
    tried += d.why == TB_STATUS_tried;
  }
  assert_true(tried > 0);
  assert_true(spent <= least * calls * (1 + TB_PROBE_SHARE) + 1e-9);
}

/* ---- regret ---- */

struct regret {
  double log_sum, worst;
  int shapes;
};

static void add_regret(struct regret *r, double took, double best) {
  r->log_sum += log(took / best);
  r->worst = fmax(r->worst, took / best - 1);
  r->shapes++;
}

/* 200 random shapes, each called some times, on a machine that was measured at the grid's nodes and at every other
 * shape takes up to a quarter more or less than any smooth function says, and whose calls vary by a tenth besides. The
 * regret of the first calls and, once settled, of the last ones. Shapes that go to the CPU unasked count too. */
static void regret_over_random_shapes(void **state) {
  (void)state;
  setup_model();
  tb_route_small_terms[TB_S] = (long long)(tb_model_small_flops(&model) / 2);
  uint64_t rng = 20261121;
  struct regret first = {0}, settled = {0};
  for (int shape = 0; shape < 200; shape++) {
    const struct tb_call call =
        product(tst_log_uniform(&rng, 8192), tst_log_uniform(&rng, 8192), tst_log_uniform(&rng, 8192));
    double truth[TB_WHERE_COUNT], noisy[TB_WHERE_COUNT];
    struct tb_decision d;
    truth_of(&tst_synthetic, &call, truth);
    for (int where = 0; where < TB_WHERE_COUNT; where++) truth[where] *= 0.75 + 0.5 * tst_random_unit(&rng);
    const double best = fmin(truth[TB_CPU], truth[TB_GPU]);
    for (int i = 0; i < 60; i++) {
      for (int where = 0; where < TB_WHERE_COUNT; where++)
        noisy[where] = truth[where] * (0.95 + 0.1 * tst_random_unit(&rng));
      live(&call, noisy, &d);
      if (i == 0) add_regret(&first, truth[d.where], best);
    }
    add_regret(&settled, truth[d.why == TB_STATUS_tried ? !d.where : d.where], best);
  }
  const double first_mean = exp(first.log_sum / first.shapes) - 1, mean = exp(settled.log_sum / settled.shapes) - 1;
  print_message("regret of the first calls: mean %.4f, worst %.3f; once settled: mean %.4f, worst %.3f\n", first_mean,
                first.worst, mean, settled.worst);
  assert_true(first_mean <= 0.03);
  assert_true(mean <= 0.01 && mean <= first_mean / 2);
  assert_true(settled.worst <= 0.2);
  tb_route_small_terms[TB_S] = TB_SMALL_TERMS_AT_FIRST;
}

/* What is put by for trying is a share of the time of all calls, also of those that were not timed. */
static void followers_count(void **state) {
  (void)state;
  const struct tb_call call = {.m = 100, .n = 100, .k = 100, .alpha = {1}};
  double put_by[2];
  for (int i = 0; i < 2; i++) {
    setup_model();
    const struct tb_observation o = {TB_CPU, 50e-6, false, 50e-6, i == 0 ? 0 : 7, false};
    tb_model_observe(&model, &call, NULL, &o, now);
    put_by[i] = model.probe_seconds;
    assert_float_equal(tb_model_recall(&model, &call)->probe_seconds / put_by[i], TB_SHAPE_PROBE_SHARE / TB_PROBE_SHARE,
                       1e-9);
  }
  assert_float_equal(put_by[1] / put_by[0], 8, 1e-9);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(converges),
      cmocka_unit_test(one_outlier),
      cmocka_unit_test(outliers_in_a_row),
      cmocka_unit_test(outliers_of_both_kinds),
      cmocka_unit_test(outliers_of_long_calls),
      cmocka_unit_test(idle_gpu),
      cmocka_unit_test(bounds),
      cmocka_unit_test(threads_change),
      cmocka_unit_test(many_shapes),
      cmocka_unit_test(operands_elsewhere),
      cmocka_unit_test(among_others),
      cmocka_unit_test(triangles),
      cmocka_unit_test(classes_fade),
      cmocka_unit_test(cold_calls),
      cmocka_unit_test(what_is_put_by),
      cmocka_unit_test(machine_changes),
      cmocka_unit_test(no_oscillation),
      cmocka_unit_test(never_stuck),
      cmocka_unit_test(trying_is_cheap),
      cmocka_unit_test(followers_count),
      cmocka_unit_test(regret_over_random_shapes),
      cmocka_unit_test(the_eldest_is_forgotten),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
