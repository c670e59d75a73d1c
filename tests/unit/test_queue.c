/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program whose threads call at once, on a machine and a clock of the test's own: each call is decided as the router
 * does it, waits its turn on the GPU or has a core, and teaches. The program as a whole must get through its calls
 * about as soon as by the better side alone, and sooner where both can work.
 *
 * Seen to fail when: nobody knows of the others' calls; those that are back stay in the queue; a call that waited
 * teaches what it took as its time alone; a call that the queue sent to the CPU counts as its shape's choice; the share
 * is not learned; a lost call is never forgotten; a wait counts once where each call has a core; doubles are taken for
 * floats.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "route/learn.h"
#include "route/queue.h"
#include "route/route.h"
#include "synthetic.h"

enum { CALLERS_MOST = 16 };

/* Calls of all threads together, and from which on they count. */
static int calls, counted_from;

static struct tb_model model;
static struct tb_queue queue;
static double now;

/* What calls take: on the CPU, each on cores of its own (threads 1) or one of all cores behind another; on the GPU,
 * where the next may begin after a part of the time. */
struct machine {
  double cpu_seconds, gpu_seconds, overlap;
  int threads;
};

static const struct tb_call call = {.m = 256, .n = 256, .k = 1024, .alpha = {1}};

/* Its class predicts these times. */
static void setup(double cpu_seconds, double gpu_seconds, int threads) {
  const struct tb_calibration c = tst_synthetic_calibration(&tst_synthetic, TB_NODES);
  tb_model_fit(&model, TB_S, &c, 16);
  model.measured_threads = model.threads = threads;
  now = 1000;
  queue = (struct tb_queue){0};
  const struct tb_cell cell = tb_model_cell(&call);
  for (int where = 0; where < TB_WHERE_COUNT; where++) {
    const double meant = where == TB_CPU ? cpu_seconds : gpu_seconds;
    const double factor = meant / tb_model_class_seconds(&model, (enum tb_where)where, &call, &cell, NULL, now);
    for (int node = 0; node < TB_NODES; node++) model.base[where][node] *= factor;
  }
}

/* As router.c does it. */
static struct tb_decision decide(void) {
  struct tb_machine m = {.mode = TB_ROUTE_AUTO, .gpu = TB_STATUS_ok, .gpu_open = true, .model = &model, .now = now};
  m.wait_seconds = tb_queue_wait_seconds(&queue, 1, now);
  struct tb_decision d = tb_route(&call, NULL, &m);
  if (d.where == TB_CPU) return d;
  d.found_seconds = tb_queue_seconds(&queue, now);
  d.place = tb_queue_join(&queue, d.gpu_seconds - d.wait_seconds, now);
  return d;
}

static void learn(const struct tb_decision *d, double seconds) {
  const struct tb_observation o = {.where = d->where,
                                   .seconds = seconds,
                                   .probe = d->why == TB_STATUS_tried,
                                   .best_predicted_seconds = fmin(d->cpu_seconds, d->gpu_seconds),
                                   .crowded = d->wait_seconds > 0};
  tb_queue_leave(&queue, d->place);
  tb_model_observe(&model, &call, NULL, &o, now);
  if (d->where == TB_GPU)
    tb_queue_learn(&queue, 1, d->found_seconds, seconds - (d->gpu_seconds - d->wait_seconds), now);
}

struct caller {
  struct tb_decision decision;
  double began, ends;
};

static double later(double a, double b) { return a > b ? a : b; }

/* Calls a second. side: -1: each call is decided. */
static double rate(const struct machine *machine, int callers, int side) {
  struct caller caller[CALLERS_MOST] = {0};
  double free_at[TB_WHERE_COUNT] = {now, now}, counting_since = now;
  for (int done = -callers; done < calls; done++) {
    struct caller *c = &caller[0];
    for (int i = 1; i < callers; i++)
      if (caller[i].ends < c->ends) c = &caller[i];
    now = later(now, c->ends);
    if (done >= 0 && side < 0) learn(&c->decision, now - c->began);
    if (done == counted_from) counting_since = now;
    c->decision = side < 0 ? decide() : (struct tb_decision){.where = (enum tb_where)side};
    const bool gpu = c->decision.where == TB_GPU, alone = gpu || machine->threads > 1;
    const double seconds = gpu ? machine->gpu_seconds : machine->cpu_seconds;
    double *const from = &free_at[c->decision.where];
    const double begins = alone ? later(now, *from) : now;
    c->began = now;
    c->ends = begins + seconds;
    *from = begins + seconds * (gpu ? machine->overlap : 1);
  }
  return (calls - counted_from) / (now - counting_since);
}

/* How much sooner the program is than by the better side alone. */
static double gain(const struct machine *m, int callers, double cpu_predicted, double gpu_predicted) {
  setup(cpu_predicted, gpu_predicted, m->threads);
  const double decided = rate(m, callers, -1);
  return decided / later(rate(m, callers, TB_CPU), rate(m, callers, TB_GPU));
}

#define expect_gain(machine, callers, cpu, gpu, least)                                                \
  do {                                                                                                \
    const double found = gain(machine, callers, cpu, gpu);                                            \
    if (!(found >= (least))) fail_msg("%d callers: %g times, not %g", callers, found, (double)least); \
  } while (0)

static int when_learned(void **state) {
  (void)state;
  calls = 4000, counted_from = 1000;
  return 0;
}

static int at_first(void **state) {
  (void)state;
  calls = 600, counted_from = 0;
  return 0;
}

/* A short program has no time to learn that it stands in a row. */
static void first_calls(void **state) {
  (void)state;
  const struct machine near = {1.8e-3, 1.5e-3, 1, 1}, worse = {1.8e-3, 2.6e-3, 1, 1},
                       all_cores = {1.1e-3, 0.5e-3, 1, 16};
  expect_gain(&near, 16, 1.8e-3, 1.5e-3, 0.99);
  expect_gain(&near, 16, 3.2e-3, 1.0e-3, 0.98);
  expect_gain(&worse, 16, 1.8e-3, 1.5e-3, 0.98);
  expect_gain(&all_cores, 4, 1.1e-3, 0.5e-3, 1.4);
}

/* scikit-learn's KMeans: 16 threads, each with a BLAS of one thread, and sides that are near each other. */
static void threads_of_one_core(void **state) {
  (void)state;
  const struct machine near = {1.8e-3, 1.5e-3, 1, 1};
  expect_gain(&near, 16, 1.8e-3, 1.5e-3, 15.0 / 16 + 1.8 / 1.5 / 16 - 0.01);
  /* What was predicted is not what they take. */
  expect_gain(&near, 16, 3.2e-3, 1.0e-3, 0.99);
  expect_gain(&near, 16, 1.8e-3, 0.5e-3, 0.99);
  expect_gain(&near, 16, 0.9e-3, 1.5e-3, 0.98);
  /* A GPU that is worse than a core takes nothing. */
  const struct machine worse = {1.8e-3, 2.6e-3, 1, 1};
  expect_gain(&worse, 16, 1.8e-3, 1.5e-3, 0.98);
}

/* Both work: the GPU without a pause, and those cores that would wait long. */
static void both_sides_work(void **state) {
  (void)state;
  const struct machine fast = {1.8e-3, 0.1e-3, 1, 1};
  expect_gain(&fast, 16, 1.8e-3, 0.1e-3, 1.35);
  struct tb_prediction p; /* the wait for others is not the call's own time */
  tb_model_predict(&model, &call, NULL, now, &p);
  assert_float_equal(p.seconds[TB_GPU] / fast.gpu_seconds, 1, 0.05);
  const struct machine overlapping = {1.8e-3, 0.5e-3, 0.5, 1};
  expect_gain(&overlapping, 16, 1.8e-3, 0.5e-3, 1.15);
}

/* A CPU BLAS that uses all cores for one call after another. */
static void threads_of_all_cores(void **state) {
  (void)state;
  const struct machine far = {60e-3, 1.2e-3, 1, 16}, near = {1.1e-3, 0.5e-3, 1, 16}, slow = {1e-3, 3e-3, 1, 16};
  expect_gain(&far, 4, 60e-3, 1.2e-3, 0.98);
  expect_gain(&near, 4, 1.1e-3, 0.5e-3, 1.0);
  expect_gain(&slow, 4, 1e-3, 3e-3, 0.98);
  expect_gain(&slow, 4, 1e-3, 0.8e-3, 0.97);
  expect_gain(&near, 1, 1.1e-3, 0.5e-3, 0.98); /* one thread alone */
}

/* What a call adds to the wait of others: all of it where they take turns, less where they overlap. */
static void share_is_learned(void **state) {
  (void)state;
  for (double share = 0.25; share <= 2; share *= 2) {
    setup(1, 1, 16);
    for (int i = 0; i < 100; i++) tb_queue_learn(&queue, 1, 3e-3, share * 3e-3, now);
    assert_int_equal(tb_queue_join(&queue, 2e-3, now), 1);
    assert_float_equal(tb_queue_wait_seconds(&queue, 1, now) / (share * 2e-3), 1, 0.02);
  }
  for (int far = 0; far < 2; far++) { /* between a tenth and four times, whatever is found */
    setup(1, 1, 16);
    for (int i = 0; i < 1000; i++) tb_queue_learn(&queue, 1, 3e-3, far ? 1 : 0, now);
    tb_queue_join(&queue, 2e-3, now);
    assert_float_equal(tb_queue_wait_seconds(&queue, 1, now) / 2e-3, far ? 4 : 0.1, 1e-9);
  }
  setup(1, 1, 16);
  for (int i = 0; i < 100; i++) tb_queue_learn(&queue, 1, 3e-3, 6e-3, now);
  tb_queue_join(&queue, 2e-3, now);
  tb_queue_learn(&queue, 1, 0, 5, now); /* says nothing */
  assert_float_equal(tb_queue_wait_seconds(&queue, 1, now) / 4e-3, 1, 0.02);
}

/* How many are there at once depends on their size; what is learned is how far that is off. */
static void sizes_overlap_differently(void **state) {
  (void)state;
  const struct tb_call small = {.m = 512, .n = 512, .k = 512}, larger = {.m = 4096, .n = 4096, .k = 4096},
                       largest = {.m = 16384, .n = 16384, .k = 16384},
                       triangle = {.recipe = TB_TRIANGULAR_SOLVE, .m = 64, .n = 64, .k = 64};
  assert_true(tb_queue_expected(&small) < tb_queue_expected(&larger));
  assert_true(tb_queue_expected(&larger) < tb_queue_expected(&largest));
  assert_true(tb_queue_expected(&largest) == 1 && tb_queue_expected(&triangle) == 1);
  setup(1, 1, 16);
  tb_queue_join(&queue, 2e-3, now);
  assert_float_equal(tb_queue_wait_seconds(&queue, 0.5, now), 1e-3, 1e-9);
  for (int i = 0; i < 100; i++) tb_queue_learn(&queue, 0.5, 4e-3, 1e-3, now);
  assert_float_equal(tb_queue_wait_seconds(&queue, 0.5, now), 0.5e-3, 1e-5);
  assert_float_equal(tb_queue_wait_seconds(&queue, 1, now), 1e-3, 2e-5);
}

/* What a call moves says with how many others it is there: up to 8 MB, and up to 1 GiB, of whatever type. */
static void company_is_by_bytes(void **state) {
  (void)state;
  for (int type = 0; type < TB_TYPE_COUNT; type++)
    for (int64_t n = 1; n < 12000; n++) {
      const struct tb_call cube = {.type = (enum tb_type)type, .m = n, .n = n, .k = n};
      const struct tb_call flat = {
          .type = (enum tb_type)type, .m = 2 * n, .n = n / 2, .k = n}; /* sides add up to more */
      const double size = (double)tb_type_bytes(cube.type), square = (double)(n * n) * size;
      const double flat_bytes = (double)(2 * n * n + n / 2 * n + 2 * n * (n / 2)) * size;
      for (int is_flat = 0; is_flat < 2; is_flat++) {
        const double bytes = is_flat ? flat_bytes : 3 * square;
        const enum tb_company company = tb_call_company(is_flat ? &flat : &cube);
        const enum tb_company wanted = bytes <= 8e6 ? TB_SMALL_ONES : bytes <= 0x1p30 ? TB_A_PAIR : TB_ALONE;
        if (company != wanted)
          fail_msg("type %d, n %lld: company %d instead of %d", type, (long long)n, company, wanted);
      }
    }
}

static void places(void **state) {
  (void)state;
  setup(1, 1, 16);
  for (int i = 1; i <= TB_QUEUE_MOST; i++) assert_int_equal(tb_queue_join(&queue, 1e-3, now), i);
  assert_int_equal(tb_queue_join(&queue, 1e-3, now), 0); /* it is not counted, and leaves nothing */
  tb_queue_leave(&queue, 0);
  assert_float_equal(tb_queue_seconds(&queue, now), TB_QUEUE_MOST * 1e-3, 1e-9);
  tb_queue_leave(&queue, 7);
  assert_float_equal(tb_queue_seconds(&queue, now), (TB_QUEUE_MOST - 1) * 1e-3, 1e-9);
  assert_int_equal(tb_queue_join(&queue, 5e-3, now), 7);
  assert_int_equal(queue.joined, TB_QUEUE_MOST + 2); /* whether or not there was a place */
  /* A long one is waited for as long as it may take, a short one for a second; none for ever. */
  setup(1, 1, 16);
  tb_queue_join(&queue, 1e-3, now);
  assert_float_equal(tb_queue_seconds(&queue, now + 0.99), 1e-3, 1e-9);
  assert_true(tb_queue_seconds(&queue, now + 1.1) == 0);
  tb_queue_join(&queue, 10, now);
  assert_float_equal(tb_queue_seconds(&queue, now + 5), 10, 1e-9);
  assert_true(tb_queue_seconds(&queue, now + 1000) == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(first_calls, at_first),
      cmocka_unit_test_setup(threads_of_one_core, when_learned),
      cmocka_unit_test_setup(both_sides_work, when_learned),
      cmocka_unit_test_setup(threads_of_all_cores, when_learned),
      cmocka_unit_test(share_is_learned),
      cmocka_unit_test(sizes_overlap_differently),
      cmocka_unit_test(company_is_by_bytes),
      cmocka_unit_test(places),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
