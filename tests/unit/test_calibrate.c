/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measuring, on a synthetic machine whose clock only its own calls advance: the time is kept whatever the machine, what
 * is measured is right in spite of slow first calls, and a failure ends it.
 *
 * Seen to fail when: a call is begun that cannot end in time; the first call of a node counts; the
 * shortest of three does; a failure is ignored; a long call is made again; a node is measured twice, or out of turn.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "route/calibrate.h"
#include "synthetic.h"

struct rig {
  struct tst_synthetic machine;
  double now;
  double first_call_seconds; /* more for the first call of every size */
  int too_quick;             /* the call of a size, from 0, that seems to take a tenth; negative: none */
  int of_size;
  int64_t last_m, last_n, last_k;
  int calls, fail_at; /* the number of the call that fails; 0: none */
};

static double rig_clock(void *context) { return ((struct rig *)context)->now; }

static double rig_call(void *context, enum tb_where where, const struct tb_node_sizes *s) {
  struct rig *rig = context;
  if (++rig->calls == rig->fail_at) return -1;
  const struct tb_call call = {.m = s->m, .n = s->n, .k = s->k, .alpha = {1}};
  double seconds = tst_synthetic_seconds(&rig->machine, (int)where, &call);
  const bool another = s->m != rig->last_m || s->n != rig->last_n || s->k != rig->last_k;
  rig->of_size = another ? 0 : rig->of_size + 1;
  if (another) seconds += rig->first_call_seconds;
  if (rig->of_size == rig->too_quick) seconds /= 10;
  rig->last_m = s->m, rig->last_n = s->n, rig->last_k = s->k;
  rig->now += seconds;
  return seconds;
}

static int measured(const double seconds[TB_NODES]) {
  int count = 0;
  for (int node = 0; node < TB_NODES; node++) count += seconds[node] > 0;
  return count;
}

static double true_seconds(const struct rig *rig, enum tb_where where, int node) {
  const struct tb_node_sizes s = tb_node_sizes(node);
  const struct tb_call call = {.m = s.m, .n = s.n, .k = s.k, .alpha = {1}};
  return tst_synthetic_seconds(&rig->machine, (int)where, &call);
}

/* Calls that a node of so many seconds is worth. */
static int calls_of(double first, double again) { return first > 0.02 ? 1 : again > 0.002 ? 2 : 3; }

/* Every node of the GPU, most of the CPU, right, in time. */
static void machine_of_today(void **state) {
  (void)state;
  double seconds[TB_NODES];
  for (int where = 0; where < TB_WHERE_COUNT; where++) {
    struct rig rig = {.machine = tst_synthetic, .now = 100, .first_call_seconds = 2e-4, .too_quick = -1};
    assert_true(tb_calibrate_side(seconds, (enum tb_where)where, rig_clock, 0.12, rig_call, &rig));
    assert_true(rig.now < 100.13);
    assert_true(measured(seconds) >= (where == TB_GPU ? TB_NODES : 90));
    int calls = 1;
    for (int node = 0; node < TB_NODES; node++) {
      if (!(seconds[node] > 0)) continue;
      const double again = true_seconds(&rig, (enum tb_where)where, node), first = again + (node > 0 ? 2e-4 : 0);
      calls += calls_of(first, again);
      assert_float_equal(seconds[node] / (calls_of(first, again) == 1 ? first : again), 1, 1e-9);
    }
    assert_int_equal(rig.calls, calls);
  }
}

/* A node's neighbours are measured before it, so what is measured has all that is smaller. */
static void smaller_ones_first(void **state) {
  (void)state;
  double seconds[TB_NODES];
  struct rig rig = {.machine = tst_synthetic, .too_quick = -1};
  rig.machine.cpu_flops_per_s /= 100;
  assert_true(tb_calibrate_side(seconds, TB_CPU, rig_clock, 0.12, rig_call, &rig));
  const int steps[] = {TB_GRID_SIZES * TB_GRID_SIZES, TB_GRID_SIZES, 1};
  for (int node = 0; node < TB_NODES; node++)
    for (int d = 0; d < 3; d++)
      if (seconds[node] > 0 && node / steps[d] % TB_GRID_SIZES > 0) assert_true(seconds[node - steps[d]] > 0);
  assert_true(measured(seconds) > 20 && measured(seconds) < TB_NODES);
}

/* Of three calls one seems too quick, whichever it is: a clock that was set, a processor that ran faster for a moment.
 * It is not believed. */
static void too_quick(void **state) {
  (void)state;
  double seconds[TB_NODES];
  for (int which = 0; which < 3; which++) {
    struct rig rig = {.machine = tst_synthetic, .too_quick = which};
    assert_true(tb_calibrate_side(seconds, TB_GPU, rig_clock, 0.12, rig_call, &rig));
    for (int node = 1; node < TB_NODES; node++) /* the smallest is called once before, uncounted */
      if (seconds[node] > 0 && true_seconds(&rig, TB_GPU, node) < 0.002)
        assert_float_equal(seconds[node] / true_seconds(&rig, TB_GPU, node), 1, 1e-9);
  }
}

/* Slower machines by powers of two, down to an emulated GPU: fewer nodes, and never much more time. */
static void slow_machines(void **state) {
  (void)state;
  double seconds[TB_NODES];
  int before = TB_NODES + 1;
  for (double slower = 1; slower < 1e8; slower *= 2) {
    struct rig rig = {.machine = tst_synthetic, .too_quick = -1};
    rig.machine.gpu_flops_per_s /= slower;
    rig.machine.gpu_latency_seconds *= sqrt(slower);
    assert_true(tb_calibrate_side(seconds, TB_GPU, rig_clock, 0.12, rig_call, &rig));
    const double first = true_seconds(&rig, TB_GPU, 0); /* nobody knows beforehand how long this one takes */
    const double again = 0.02;                          /* a call that was quicker than this is made once more */
    if (!(rig.now < 0.12 + 3 * first + again)) fail_msg("%g times slower: it took %g s", slower, rig.now);
    assert_true(measured(seconds) > 0);
    assert_true(measured(seconds) <= before + 1);
    before = measured(seconds);
  }
  assert_true(before < 20);
}

static void failures(void **state) {
  (void)state;
  double seconds[TB_NODES];
  for (int fail_at = 1; fail_at < 300; fail_at += 7) {
    struct rig rig = {.machine = tst_synthetic, .fail_at = fail_at, .too_quick = -1};
    assert_false(tb_calibrate_side(seconds, TB_GPU, rig_clock, 0.12, rig_call, &rig));
    assert_int_equal(rig.calls, fail_at);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(machine_of_today), cmocka_unit_test(smaller_ones_first), cmocka_unit_test(too_quick),
      cmocka_unit_test(slow_machines),    cmocka_unit_test(failures),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
