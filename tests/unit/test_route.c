/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Route decisions as the pure function that they are: every status of the machine, and the arithmetic of "sooner".
 *
 * Seen to fail when: a comparison is turned round; an unusable GPU is chosen; a forced call is weighed; the other side
 * is tried without the means; a wait is not counted, or once where each call has a core; a wait sends calls to a GPU
 * that is not sooner alone; the reason is another's; what is not known, or near, counts as clear.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "route/learn.h"
#include "route/route.h"

static struct tb_call cube(int64_t side) {
  return (struct tb_call){.m = side, .n = side, .k = side, .alpha = {1}, .a.ld = side, .b.ld = side, .ldc = side};
}

static struct tb_model model;

/* A GPU that is open and beats the CPU a thousand times over on anything that is not small. */
static struct tb_machine fast_gpu(enum tb_route_mode mode) {
  tb_model_assume(&model, TB_S, 1);
  model.rates = (struct tb_rates){.cpu_flops_per_s = 1e10,
                                  .cpu_bytes_per_s = INFINITY,
                                  .gpu_flops_per_s = 1e13,
                                  .up_bytes_per_s = 1e13,
                                  .down_bytes_per_s = 1e13,
                                  .link_up_bytes_per_s = 1e13,
                                  .link_down_bytes_per_s = 1e13};
  model.probe_seconds = -1; /* nothing is tried */
  return (struct tb_machine){.mode = mode, .gpu = TB_STATUS_ok, .gpu_open = true, .model = &model};
}

static void expect(const struct tb_call *call, const struct tb_machine *machine, enum tb_where where,
                   enum tb_status why) {
  struct tb_decision d = tb_route(call, NULL, machine);
  if (d.where != where || d.why != why)
    fail_msg("m=%ld n=%ld k=%ld alpha=%g: %s because %s, not %s because %s", (long)call->m, (long)call->n,
             (long)call->k, (double)call->alpha.s, d.where == TB_GPU ? "gpu" : "cpu", tb_status_text(d.why),
             where == TB_GPU ? "gpu" : "cpu", tb_status_text(why));
}

static void nothing_to_multiply(void **state) {
  (void)state;
  for (enum tb_route_mode mode = TB_ROUTE_AUTO; mode <= TB_ROUTE_CPU; mode++) {
    struct tb_machine machine = fast_gpu(mode);
    for (int which = 0; which < 4; which++) {
      struct tb_call call = cube(4096);
      if (which == 0) call.m = 0;
      if (which == 1) call.n = 0;
      if (which == 2) call.k = 0;
      if (which == 3) call.alpha.s = -0.0f;
      expect(&call, &machine, TB_CPU, TB_STATUS_trivial);
    }
  }
}

/* Device memory settles it whatever the size; managed memory when nothing is pageable; pinned memory never. */
static void resident(void **state) {
  (void)state;
  for (int number = 0; number < 64; number++)
    for (enum tb_route_mode mode = TB_ROUTE_AUTO; mode <= TB_ROUTE_CPU; mode++)
      for (int trivial = 0; trivial < 2; trivial++) {
        const enum tb_place a = number % 4, b = number / 4 % 4, c = number / 16;
        struct tb_places places = {.a.place = a, .b.place = b, .c.place = c};
        struct tb_call call = cube(2);
        if (trivial) call.alpha.s = 0;
        bool device = a == TB_DEVICE || b == TB_DEVICE || c == TB_DEVICE;
        bool managed = a == TB_MANAGED || b == TB_MANAGED || c == TB_MANAGED;
        bool pageable = a == TB_PAGEABLE || b == TB_PAGEABLE || c == TB_PAGEABLE;
        struct tb_decision d;
        bool settled = tb_route_resident(&call, &places, mode, &d);
        assert_int_equal(settled, device || (managed && !pageable && !trivial));
        if (!settled) continue;
        assert_int_equal(d.where, mode == TB_ROUTE_CPU ? TB_CPU : TB_GPU);
        assert_int_equal(d.why, mode == TB_ROUTE_CPU ? TB_STATUS_forced_cpu : TB_STATUS_resident);
      }
  struct tb_call call = cube(2);
  struct tb_decision d;
  assert_false(tb_route_resident(&call, NULL, TB_ROUTE_GPU, &d));
}

static void forced(void **state) {
  (void)state;
  const int64_t sides[] = {1, 2, 300, 5000};
  for (int i = 0; i < 4; i++) {
    struct tb_call call = cube(sides[i]);
    struct tb_machine machine = fast_gpu(TB_ROUTE_GPU);
    model.rates.gpu_latency_seconds = model.rates.open_seconds = 1e9; /* no price counts when the route is forced */
    machine.gpu_open = false;
    expect(&call, &machine, TB_GPU, TB_STATUS_forced_gpu);
    machine.mode = TB_ROUTE_CPU;
    expect(&call, &machine, TB_CPU, TB_STATUS_forced_cpu);
  }
}

static void no_usable_gpu(void **state) {
  (void)state;
  struct tb_call call = cube(5000), small = cube(10);
  const enum tb_status reasons[] = {TB_STATUS_no_kernels, TB_STATUS_no_driver, TB_STATUS_no_device,
                                    TB_STATUS_no_module,  TB_STATUS_forked,    TB_STATUS_gpu_lost};
  for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
    struct tb_machine machine = fast_gpu(TB_ROUTE_AUTO);
    machine.gpu = reasons[i];
    expect(&call, &machine, TB_CPU, reasons[i]);
    expect(&small, &machine, TB_CPU, TB_STATUS_small);
    machine.mode = TB_ROUTE_GPU;
    expect(&call, &machine, TB_CPU, reasons[i]);
    expect(&small, &machine, TB_CPU, reasons[i]);
  }
}

static void small_products(void **state) {
  (void)state;
  const struct tb_machine machine = fast_gpu(TB_ROUTE_AUTO);
  const int64_t sides[] = {100, 320};
  for (int i = 0; i < 2; i++) {
    const int64_t side = sides[i];
    tb_route_small_terms[TB_S] = side * side * side;
    struct tb_call below = cube(side - 1), at = cube(side);
    expect(&below, &machine, TB_CPU, TB_STATUS_small);
    expect(&at, &machine, TB_GPU, TB_STATUS_gpu_sooner);
    struct tb_call thin = cube(1); /* the operations count, not the sides */
    thin.m = side * side * side - 1;
    expect(&thin, &machine, TB_CPU, TB_STATUS_small);
  }
  tb_route_small_terms[TB_S] = TB_SMALL_TERMS_AT_FIRST;
}

/* The side that the arithmetic names wins, whichever part makes the difference. */
static void sooner_wins(void **state) {
  (void)state;
  struct tb_call call = cube(1000); /* 2e9 operations, 12e6 bytes */
  struct tb_machine machine = fast_gpu(TB_ROUTE_AUTO);
  expect(&call, &machine, TB_GPU, TB_STATUS_gpu_sooner);
  model.rates.gpu_flops_per_s = 0.9e10; /* slower kernels than the CPU */
  expect(&call, &machine, TB_CPU, TB_STATUS_cpu_sooner);
  machine = fast_gpu(TB_ROUTE_AUTO);
  model.rates.up_bytes_per_s = model.rates.down_bytes_per_s = 12e6; /* a second of copying against 0.2 s of the CPU */
  expect(&call, &machine, TB_CPU, TB_STATUS_cpu_sooner);
  machine = fast_gpu(TB_ROUTE_AUTO);
  model.rates.gpu_latency_seconds = 0.21;
  expect(&call, &machine, TB_CPU, TB_STATUS_cpu_sooner);
  model.rates.gpu_latency_seconds = 0.15;
  expect(&call, &machine, TB_GPU, TB_STATUS_gpu_sooner);
  struct tb_decision d = tb_route(&call, NULL, &machine);
  assert_true(fabs(d.cpu_seconds - 0.2) < 1e-9);
  assert_true(d.gpu_seconds >= 0.15 && d.gpu_seconds < 0.2);
}

/* A GPU that is not open yet is opened when what it would have saved so far pays for that. */
static void opening_is_paid_by_savings(void **state) {
  (void)state;
  struct tb_call call = cube(1000); /* saves nearly 0.2 s */
  struct tb_machine machine = fast_gpu(TB_ROUTE_AUTO);
  machine.gpu_open = false;
  model.rates.open_seconds = 0.5;
  expect(&call, &machine, TB_CPU, TB_STATUS_not_yet);
  machine.saved_seconds = 0.25;
  expect(&call, &machine, TB_CPU, TB_STATUS_not_yet);
  machine.saved_seconds = 0.35;
  expect(&call, &machine, TB_GPU, TB_STATUS_gpu_sooner);
  machine.saved_seconds = 0;
  model.rates.open_seconds = 0.1;
  expect(&call, &machine, TB_GPU, TB_STATUS_gpu_sooner);
  model.rates.gpu_latency_seconds = 0.15, model.rates.open_seconds = 0.1; /* saves 0.05 s of 0.2 */
  expect(&call, &machine, TB_CPU, TB_STATUS_not_yet);
  model.rates.gpu_latency_seconds = 0.21; /* nothing */
  expect(&call, &machine, TB_CPU, TB_STATUS_cpu_sooner);
}

/* Numbers that no measurement should give must not send a call to the GPU. */
static void strange_rates(void **state) {
  (void)state;
  struct tb_call call = cube(1000);
  struct tb_machine machine = fast_gpu(TB_ROUTE_AUTO);
  model.rates.gpu_flops_per_s = NAN;
  model.rates.up_bytes_per_s = NAN;
  model.rates.gpu_latency_seconds = NAN;
  expect(&call, &machine, TB_CPU, TB_STATUS_cpu_sooner);
}

/* What is assumed of an unknown machine: one large product is worth a GPU, a 512-cube is not worth opening one. */
static void assumed_machine(void **state) {
  (void)state;
  struct tb_machine machine = {.mode = TB_ROUTE_AUTO, .gpu = TB_STATUS_ok, .model = &model};
  struct tb_call large = cube(16384), medium = cube(512);
  tb_model_assume(&model, TB_S, 16);
  expect(&large, &machine, TB_GPU, TB_STATUS_gpu_sooner);
  tb_model_assume(&model, TB_S, 4);
  struct tb_decision d = tb_route(&medium, NULL, &machine);
  assert_int_equal(d.where, TB_CPU);
}

/* Remembers a shape's times on both sides and how it was decided, as of now. */
static struct tb_shape_memory *remember(const struct tb_call *call, double cpu_seconds, double gpu_seconds,
                                        enum tb_where last) {
  const struct tb_observation cpu = {TB_CPU, cpu_seconds, false, cpu_seconds, 0, false};
  tb_model_observe(&model, call, NULL, &cpu, 0);
  struct tb_shape_memory *shape = (struct tb_shape_memory *)tb_model_recall(&model, call);
  assert_non_null(shape);
  shape->seconds[TB_CPU] = (struct tb_follower){.value = cpu_seconds};
  shape->seconds[TB_GPU] = (struct tb_follower){.value = gpu_seconds};
  shape->seen[TB_CPU] = shape->seen[TB_GPU] = 8;
  shape->last = last;
  shape->probe_seconds = 1;
  model.probe_seconds = -1;
  return shape;
}

/* Noise does not throw calls from one side to the other. */
static void sides_are_kept(void **state) {
  (void)state;
  const struct tb_call call = cube(1000);
  const struct tb_machine machine = fast_gpu(TB_ROUTE_AUTO);
  remember(&call, 0.100, 0.098, TB_CPU);
  expect(&call, &machine, TB_CPU, TB_STATUS_cpu_sooner);
  remember(&call, 0.098, 0.100, TB_GPU);
  expect(&call, &machine, TB_GPU, TB_STATUS_gpu_sooner);
  remember(&call, 0.100, 0.090, TB_CPU);
  expect(&call, &machine, TB_GPU, TB_STATUS_gpu_sooner);
  remember(&call, 0.090, 0.100, TB_GPU);
  expect(&call, &machine, TB_CPU, TB_STATUS_cpu_sooner);
  remember(&call, 0.096, 0.100, TB_GPU); /* back to the CPU by less than away from it */
  expect(&call, &machine, TB_CPU, TB_STATUS_cpu_sooner);
  remember(&call, 0.100, 0.096, TB_CPU);
  expect(&call, &machine, TB_CPU, TB_STATUS_cpu_sooner);
  remember(&call, 0.100, 0.096, TB_CPU)->decided = false; /* the sooner one, before anything was decided */
  expect(&call, &machine, TB_GPU, TB_STATUS_gpu_sooner);
}

/* The other side is tried when its time is not known and the loss is put by, on a GPU that is open. */
static void other_side_is_tried(void **state) {
  (void)state;
  const struct tb_call call = cube(1000);
  struct tb_machine machine = fast_gpu(TB_ROUTE_AUTO);
  struct tb_shape_memory *shape = remember(&call, 0.2, 0.1, TB_GPU);
  model.probe_seconds = TB_PROBE_CALLS * 0.11;
  expect(&call, &machine, TB_GPU, TB_STATUS_gpu_sooner);
  shape->seen[TB_CPU] = 1;
  expect(&call, &machine, TB_CPU, TB_STATUS_tried);
  model.probe_seconds = TB_PROBE_CALLS * 0.09;
  expect(&call, &machine, TB_GPU, TB_STATUS_gpu_sooner);
  model.trying = shape; /* a trial that has begun needs no more means */
  model.latest = TB_CPU;
  model.trial_calls = TB_PROBE_CALLS - 1;
  expect(&call, &machine, TB_CPU, TB_STATUS_tried);
  model.trial_calls = TB_PROBE_CALLS; /* it is over */
  expect(&call, &machine, TB_GPU, TB_STATUS_gpu_sooner);
  model.trial_calls = 1, model.latest = TB_GPU; /* it tries the side that is the sooner one by now */
  expect(&call, &machine, TB_GPU, TB_STATUS_gpu_sooner);
  model.trying = NULL;
  model.probe_seconds = TB_PROBE_CALLS * 0.11;
  shape->probe_seconds = TB_PROBE_CALLS * 0.09; /* this shape's own means */
  expect(&call, &machine, TB_GPU, TB_STATUS_gpu_sooner);
  shape->probe_seconds = 1;
  shape->seconds[TB_CPU].surprises = 1; /* the latest time was not the one that is believed */
  shape->seen[TB_CPU] = 8;
  expect(&call, &machine, TB_CPU, TB_STATUS_tried);
  shape->seconds[TB_CPU].surprises = 0;
  expect(&call, &machine, TB_GPU, TB_STATUS_gpu_sooner);
  machine.now = 2 * TB_SHAPE_HALF_SECONDS; /* what is known grows old */
  shape->seconds[TB_GPU].at = machine.now;
  expect(&call, &machine, TB_CPU, TB_STATUS_tried);
  shape->seconds[TB_GPU].value = shape->seconds[TB_CPU].value / (2 * TB_PROBE_MOST_TIMES); /* beyond doubt */
  model.probe_seconds = 1;
  expect(&call, &machine, TB_GPU, TB_STATUS_gpu_sooner);
  shape->seconds[TB_GPU].value = 0.1;
  machine.gpu_open = false;
  expect(&call, &machine, TB_GPU, TB_STATUS_gpu_sooner);
  struct tb_places pinned = {.a.place = TB_PINNED};
  machine.gpu_open = true;
  assert_int_equal(tb_route(&call, &pinned, &machine).why, TB_STATUS_gpu_sooner);
}

/* A call waits for others' calls on the GPU if it is finished there first all the same. */
static void others_are_there(void **state) {
  (void)state;
  const struct tb_call call = cube(1000);
  static const struct {
    double cpu, gpu, wait;
    enum tb_where last;
    int threads;
    enum tb_status why;
  } cases[] = {{0.10, 0.04, 0.05, TB_GPU, 4, TB_STATUS_gpu_sooner},
               {0.10, 0.04, 0.07, TB_GPU, 4, TB_STATUS_gpu_taken},
               {0.10, 0.11, 0.05, TB_GPU, 4, TB_STATUS_cpu_sooner},
               {0.10, 0.04, 0.05, TB_GPU, 1, TB_STATUS_gpu_taken},
               {0.10, 0.04, 0.02, TB_GPU, 1, TB_STATUS_gpu_sooner},
               /* sooner, but not so much that this shape would leave the CPU */
               {0.10, 0.098, 0.001, TB_CPU, 4, TB_STATUS_cpu_sooner}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct tb_machine machine = fast_gpu(TB_ROUTE_AUTO);
    remember(&call, cases[i].cpu, cases[i].gpu, cases[i].last);
    model.probe_seconds = 10; /* nothing is tried there */
    model.threads = model.measured_threads = cases[i].threads;
    machine.wait_seconds = cases[i].wait;
    const struct tb_decision d = tb_route(&call, NULL, &machine);
    if (d.why != cases[i].why) fail_msg("case %d: %s", (int)i, tb_status_text(d.why));
    assert_int_equal(d.where, d.why == TB_STATUS_gpu_sooner ? TB_GPU : TB_CPU);
    assert_float_equal(d.cpu_seconds, cases[i].cpu, 1e-12);
    assert_float_equal(d.gpu_seconds, cases[i].gpu + cases[i].wait, 1e-12);
    assert_float_equal(d.wait_seconds, cases[i].wait, 1e-12);
    assert_false(d.clear);
  }
}

/* Others may follow a call without being weighed that is the CPU's by its own times, and by a quarter at least. */
static void what_is_clear(void **state) {
  (void)state;
  const struct tb_call call = cube(1000);
  static const struct {
    double cpu, gpu;
    bool known, clear;
  } cases[] = {{0.10, 0.13, true, true},
               {0.10, 0.12, true, false},
               {0.10, 0.13, false, false},
               {0.10, 0.05, true, false},
               {0.10, 0.02, true, false}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct tb_machine machine = fast_gpu(TB_ROUTE_AUTO);
    struct tb_shape_memory *const shape = remember(&call, cases[i].cpu, cases[i].gpu, TB_CPU);
    if (!cases[i].known) shape->seen[TB_CPU] = 1;
    const struct tb_decision d = tb_route(&call, NULL, &machine);
    assert_int_equal(d.clear, cases[i].clear);
    if (!d.clear) continue;
    shape->seen[TB_GPU] = 0.5; /* a trial is no such call */
    shape->probe_seconds = model.probe_seconds = 1;
    const struct tb_decision tried = tb_route(&call, NULL, &machine);
    assert_int_equal(tried.why, TB_STATUS_tried);
    assert_false(tried.clear);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_to_multiply),
      cmocka_unit_test(resident),
      cmocka_unit_test(forced),
      cmocka_unit_test(no_usable_gpu),
      cmocka_unit_test(small_products),
      cmocka_unit_test(sooner_wins),
      cmocka_unit_test(strange_rates),
      cmocka_unit_test(opening_is_paid_by_savings),
      cmocka_unit_test(assumed_machine),
      cmocka_unit_test(sides_are_kept),
      cmocka_unit_test(other_side_is_tried),
      cmocka_unit_test(others_are_there),
      cmocka_unit_test(what_is_clear),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
