/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where batches go: by all products together, by what batches of the same form took, and no GPU is opened before it
 * would have paid. Once one is open the slower side is tried now and then, if it is not much slower.
 *
 * Seen to fail when: a batch is weighed by one of its products, or without its operands' bytes, or by floats' ones;
 * what one form took counts for another; a forced batch teaches; the savings are not added up; a side that was slow
 * once is not tried again; one of what a side is made of does not count, or by another type's rates; a side that nobody
 * knows is not tried; no GPU is there and one is said to be slower.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "offload/gpus.h"
#include "offload/offload.h"
#include "route/batches.h"
#include "route/route.h"
#include "route/router.h"

#include "process.h"

/* So many products of n cubed. */
static struct tb_batch batch_of(int64_t products, int n) {
  const double one = (double)n * n * n, square = (double)n * n;
  return (struct tb_batch){.symbol = TB_SYMBOL_cblas_sgemm_batch,
                           .type = TB_S,
                           .products = products,
                           .flops = 2 * one * (double)products,
                           .up_bytes = 8 * square * (double)products,
                           .down_bytes = 4 * square * (double)products};
}

static double more(double a, double b) { return a > b ? a : b; }

static const enum tb_symbol symbol_of[] = {TB_SYMBOL_cblas_sgemm_batch, TB_SYMBOL_cblas_dgemm_batch,
                                           TB_SYMBOL_cblas_cgemm_batch, TB_SYMBOL_cblas_zgemm_batch};

/* What each side is made of: the longest of computing and moving, in its type's rates, a call, and each product's own.
 */
static void what_sides_are_made_of(void **state) {
  (void)state;
  if (tst_setting("TB_TEST_FAKE_DIR")[0] == '\0') TST_LEAVE_OUT("its sizes are for the rates of the fake driver's GPU");
  for (int type = 0; type < TB_TYPE_COUNT; type++)
    for (int longest = 0; longest < 5; longest++) {
      const struct tb_rates r = tb_router_rates((enum tb_type)type, tb_gemm_of(symbol_of[type]));
      struct tb_batch batch = batch_of(1000, 100);
      batch.symbol = symbol_of[type], batch.type = (enum tb_type)type;
      batch.flops = (longest == 0 ? 1e13 : 1e9), batch.up_bytes = 1e5, batch.down_bytes = 2e5;
      if (longest == 1) batch.up_bytes = 1e11;
      if (longest == 2) batch.down_bytes = 1e11;
      if (longest == 3) batch.products = 1000000;
      if (longest == 4) batch.products = 10, batch.up_bytes = 1e10; /* either side moves it as quickly */
      const double products = (double)batch.products;
      const double cpu = r.cpu_call_seconds + products * 0.5e-6 +
                         more(batch.flops / r.cpu_flops_per_s,
                              (batch.up_bytes + batch.down_bytes + batch.down_bytes) / r.cpu_bytes_per_s);
      const double gpu = r.gpu_latency_seconds + products * 0.3e-6 +
                         more(batch.flops / r.gpu_flops_per_s,
                              more(batch.up_bytes / r.up_bytes_per_s, batch.down_bytes / r.down_bytes_per_s));
      const double before = tb_clock_seconds();
      const struct tb_decision d = tb_batch_decide(&batch, TB_ROUTE_AUTO);
      assert_float_equal(d.cpu_seconds / cpu, 1, 1e-9);
      assert_float_equal(d.gpu_seconds / gpu, 1, 1e-9);
      assert_true(d.at >= before && d.at <= tb_clock_seconds());
      assert_int_equal(cpu < gpu, longest == 4);
      if (cpu < gpu) assert_int_equal(d.why, TB_STATUS_cpu_sooner);
    }
}

/* What is saved is what a GPU would take less, and at once if that is as much as opening it takes. */
static void what_is_saved(void **state) {
  (void)state;
  if (tst_setting("TB_TEST_FAKE_DIR")[0] == '\0') TST_LEAVE_OUT("its sizes are for the rates of the fake driver's GPU");
  const struct tb_rates r = tb_router_rates(TB_D, TB_SYMBOL_cblas_dgemm);
  struct tb_batch batch = batch_of(10, 100);
  batch.symbol = TB_SYMBOL_cblas_dgemm_batch, batch.type = TB_D;
  for (int enough = 0; enough < 2; enough++) {
    batch.flops = 1.5 * r.open_seconds * r.cpu_flops_per_s;
    batch.up_bytes = (enough ? 0.2 : 0.8) * r.open_seconds * r.up_bytes_per_s;
    const struct tb_decision d = tb_batch_decide(&batch, TB_ROUTE_AUTO);
    assert_true(d.cpu_seconds > r.open_seconds && (d.cpu_seconds - d.gpu_seconds > r.open_seconds) == enough);
    assert_int_equal(d.where, enough ? TB_GPU : TB_CPU);
    assert_int_equal(d.why, enough ? TB_STATUS_gpu_sooner : TB_STATUS_not_yet);
  }
  /* Nothing is by calls that a GPU would not have taken, or would have taken as long for: the next test begins at 0. */
  struct tb_batch other = batch_of(20, 100);
  other.symbol = TB_SYMBOL_cblas_zgemm_batch, other.type = TB_Z;
  const struct tb_decision sooner = {.where = TB_CPU, .why = TB_STATUS_cpu_sooner, .cpu_seconds = 1, .gpu_seconds = 2};
  const struct tb_decision as_long = {.where = TB_CPU, .why = TB_STATUS_not_yet, .cpu_seconds = 3, .gpu_seconds = 2};
  for (int i = 0; i < 10; i++) {
    tb_batch_learn(&other, &sooner, TB_CPU, 0, 3);
    tb_batch_learn(&other, &as_long, TB_CPU, 0, 2);
  }
}

static void forced_and_small(void **state) {
  (void)state;
  const struct tb_batch small = batch_of(2, 8), many = batch_of(100000, 8);
  assert_int_equal(tb_batch_decide(&small, TB_ROUTE_AUTO).why, TB_STATUS_small);
  assert_int_equal(tb_batch_decide(&small, TB_ROUTE_GPU).where, TB_GPU);
  assert_int_equal(tb_batch_decide(&many, TB_ROUTE_CPU).why, TB_STATUS_forced_cpu);
  assert_int_not_equal(tb_batch_decide(&many, TB_ROUTE_AUTO).why, TB_STATUS_small); /* together they are not */
  struct tb_batch edge = batch_of(1, 8);
  edge.flops = tb_route_small_flops(TB_S);
  assert_int_not_equal(tb_batch_decide(&edge, TB_ROUTE_AUTO).why, TB_STATUS_small);
  edge.flops *= 1 - 1e-9;
  assert_int_equal(tb_batch_decide(&edge, TB_ROUTE_AUTO).why, TB_STATUS_small);
}

/* ---- what a batch comes to ---- */

/* Of products that have something to multiply; in bytes of the type, operands as they are read. Three groups: of two
 * products, of none, and of three with nothing to multiply. */
static void sums_of_all_groups(void **state) {
  (void)state;
  static const enum tb_symbol symbols[TB_TYPE_COUNT] = {TB_SYMBOL_cblas_sgemm_batch, TB_SYMBOL_cblas_dgemm_batch,
                                                        TB_SYMBOL_cblas_cgemm_batch, TB_SYMBOL_cblas_zgemm_batch};
  static const double bytes[TB_TYPE_COUNT] = {4, 8, 8, 16}, flops[TB_TYPE_COUNT] = {2, 2, 8, 8};
  const int trans[] = {111, 111, 111}, m[] = {3, 9, 2}, n[] = {5, 9, 2}, k[] = {7, 9, 0}, lda[] = {5, 9, 2};
  const int ldb[] = {7, 9, 2}, ldc[] = {5, 9, 2};
  double ones[6] = {1, 0, 1, 0, 1, 0};
  float float_ones[6] = {1, 0, 1, 0, 1, 0};
  for (int type = 0; type < TB_TYPE_COUNT; type++)
    for (int groups = 1; groups <= 3; groups++)
      for (int row_major = 0; row_major < 2; row_major++) {
        const int size[] = {2, 0, 3}, row_lda[] = {7, 9, 2}, row_ldb[] = {5, 9, 2};
        const void *const scalars = tb_type_is_double((enum tb_type)type) ? (void *)ones : (void *)float_ones;
        const struct tb_batch_arguments made = {.layout = row_major ? TB_ROW_MAJOR : TB_COL_MAJOR,
                                                .transa = trans,
                                                .transb = trans,
                                                .m = m,
                                                .n = n,
                                                .k = k,
                                                .alpha = scalars,
                                                .lda = row_major ? row_lda : lda,
                                                .ldb = row_major ? row_ldb : ldb,
                                                .beta = scalars,
                                                .ldc = ldc,
                                                .groups = groups,
                                                .group_size = size};
        struct tb_batch batch;
        assert_int_equal(tb_batch_from(&batch, symbols[type], &made), TB_BATCH_ACCEPTED);
        assert_int_equal(batch.products, groups < 3 ? 2 : 5);
        assert_int_equal(batch.plain, groups == 1);
        assert_true(batch.flops == 2 * flops[type] * 3 * 5 * 7);
        assert_true(batch.up_bytes == 2 * bytes[type] * (3 * 7 + 7 * 5));
        assert_true(batch.down_bytes == 2 * bytes[type] * 3 * 5);
      }
}

/* Twice the products take about twice as long, on either side. */
static void all_products_count(void **state) {
  (void)state;
  const struct tb_batch few = batch_of(20000, 96), many = batch_of(40000, 96);
  const struct tb_decision one = tb_batch_decide(&few, TB_ROUTE_AUTO), two = tb_batch_decide(&many, TB_ROUTE_AUTO);
  assert_true(one.cpu_seconds > 0 && one.gpu_seconds > 0);
  assert_true(two.cpu_seconds > 1.9 * one.cpu_seconds && two.cpu_seconds < 2.1 * one.cpu_seconds);
  assert_true(two.gpu_seconds > 1.5 * one.gpu_seconds && two.gpu_seconds < 2.1 * one.gpu_seconds);
}

static void learns_by_form(void **state) {
  (void)state;
  const struct tb_batch learned = batch_of(30000, 64), forced = batch_of(30001, 64), another = batch_of(30002, 64);
  const double of_another = tb_batch_decide(&another, TB_ROUTE_AUTO).cpu_seconds;
  const struct tb_decision d = tb_batch_decide(&learned, TB_ROUTE_AUTO);
  tb_batch_learn(&learned, &d, TB_CPU, 0, 50 * d.cpu_seconds);
  const double after = tb_batch_decide(&learned, TB_ROUTE_AUTO).cpu_seconds;
  assert_true(after > 49 * d.cpu_seconds && after < 51 * d.cpu_seconds);
  assert_true(tb_batch_decide(&another, TB_ROUTE_AUTO).cpu_seconds > 2 * of_another); /* and somewhat of all */
  const struct tb_decision by_force = tb_batch_decide(&forced, TB_ROUTE_GPU);
  const double before = tb_batch_decide(&forced, TB_ROUTE_AUTO).gpu_seconds;
  tb_batch_learn(&forced, &by_force, TB_GPU, 1, 100);
  assert_true(tb_batch_decide(&forced, TB_ROUTE_AUTO).gpu_seconds == before);
}

/* Of two that differ in anything neither has the other's times, whatever place they share; the latest counts half. */
static void forms_are_apart(void **state) {
  (void)state;
  const struct tb_batch learned = batch_of(32000, 64);
  const struct tb_decision d = tb_batch_decide(&learned, TB_ROUTE_AUTO);
  for (int field = 0; field < 3; field++)
    for (int i = 1; i < 300; i++) {
      struct tb_batch other = learned;
      if (field == 0) other.products += i;
      if (field == 1) other.flops += i;
      if (field == 2) other.up_bytes += i;
      tb_batch_decide(&learned, TB_ROUTE_AUTO); /* which takes the other's place, if it shares it */
      tb_batch_learn(&learned, &d, TB_GPU, 3, 100);
      assert_true(tb_batch_decide(&learned, TB_ROUTE_AUTO).gpu_seconds > 40);
      assert_true(tb_batch_decide(&other, TB_ROUTE_AUTO).gpu_seconds < 10);
    }
}

static void latest_counts_half(void **state) {
  (void)state;
  const struct tb_batch batch = batch_of(33000, 64);
  const struct tb_decision d = tb_batch_decide(&batch, TB_ROUTE_AUTO);
  for (int where = 0; where < TB_WHERE_COUNT; where++) {
    tb_batch_learn(&batch, &d, (enum tb_where)where, 3, 8);
    tb_batch_learn(&batch, &d, (enum tb_where)where, 3, 4);
    tb_batch_learn(&batch, &d, (enum tb_where)where, 3, 0); /* of which nobody knows */
    const struct tb_decision after = tb_batch_decide(&batch, TB_ROUTE_AUTO);
    assert_true((where == TB_CPU ? after.cpu_seconds : after.gpu_seconds) == 6);
  }
}

/* What several GPUs took says how long that form takes them, and nothing of others. */
static void several_teach_their_form(void **state) {
  (void)state;
  const struct tb_batch shared = batch_of(31000, 64), other = batch_of(31001, 64);
  const struct tb_decision d = tb_batch_decide(&shared, TB_ROUTE_AUTO);
  const double before = tb_batch_decide(&other, TB_ROUTE_AUTO).gpu_seconds;
  tb_batch_learn(&shared, &d, TB_GPU, 3, 50 * d.gpu_seconds);
  assert_true(tb_batch_decide(&shared, TB_ROUTE_AUTO).gpu_seconds > 49 * d.gpu_seconds);
  assert_true(tb_batch_decide(&other, TB_ROUTE_AUTO).gpu_seconds == before);
  tb_batch_learn(&shared, &d, TB_GPU, 1, 50 * d.gpu_seconds);
  assert_true(tb_batch_decide(&other, TB_ROUTE_AUTO).gpu_seconds > 2 * before);
}

/* The first calls stay, until a GPU would have saved what opening it takes. */
static void opens_when_it_has_paid(void **state) {
  (void)state;
  const struct tb_batch batch = batch_of(5000, 128);
  struct tb_decision d = tb_batch_decide(&batch, TB_ROUTE_AUTO);
  tb_batch_learn(&batch, &d, TB_CPU, 0, d.gpu_seconds + 0.05); /* 50 ms are lost by each */
  int stayed = 0;
  for (; stayed < 100; stayed++) {
    d = tb_batch_decide(&batch, TB_ROUTE_AUTO);
    if (d.where == TB_GPU) break;
    assert_int_equal(d.why, TB_STATUS_not_yet);
    tb_batch_learn(&batch, &d, TB_CPU, 0, d.gpu_seconds + 0.05);
  }
  assert_int_equal(d.why, TB_STATUS_gpu_sooner);
  assert_in_range(stayed, 2, 40);
}

/* Calls of a batch that take so long on each side: how many were tried, and where the latest went otherwise. */
struct tried {
  int trials, longest_row; /* longest: of calls without a trial */
  enum tb_where where;
};

static struct tried call_often(const struct tb_batch *batch, int calls, const double seconds[TB_WHERE_COUNT]) {
  struct tried t = {0};
  for (int i = 0, row = 0; i < calls; i++) {
    const struct tb_decision d = tb_batch_decide(batch, TB_ROUTE_AUTO);
    const bool is_trial = d.why == TB_STATUS_tried;
    if (!is_trial) t.where = d.where;
    t.trials += is_trial;
    row = is_trial ? 0 : row + 1;
    if (row > t.longest_row) t.longest_row = row;
    tb_batch_learn(batch, &d, d.where, d.where == TB_GPU ? 1 : 0, seconds[d.where]);
  }
  return t;
}

/* A side that was slow once may be quick by now: whoever had it may be gone. */
static void slower_side_is_tried(void **state) {
  (void)state;
  struct tb_gpu_identity gpu;
  assert_true(tb_offload_open(&gpu));
  for (int quick = 0; quick < TB_WHERE_COUNT; quick++) {
    const enum tb_where slow = quick == TB_CPU ? TB_GPU : TB_CPU;
    const struct tb_batch batch = batch_of(12000 + quick, 100), hopeless = batch_of(13000 + quick, 100);
    const struct tb_decision d = tb_batch_decide(&batch, TB_ROUTE_AUTO);
    double seconds[TB_WHERE_COUNT];
    seconds[quick] = 0.010, seconds[slow] = 0.015;
    for (int where = 0; where < TB_WHERE_COUNT; where++)
      tb_batch_learn(&batch, &d, (enum tb_where)where, where == TB_GPU, seconds[where]);
    const struct tried t = call_often(&batch, 640, seconds);
    assert_int_equal(t.where, quick);
    assert_in_range(t.trials, 9, 11);
    assert_in_range(t.longest_row, 60, 64);
    seconds[slow] = 0.001; /* from now on */
    assert_int_equal(call_often(&batch, 66, seconds).where, slow);
    seconds[slow] = 0.030; /* three times as long: never tried */
    for (int where = 0; where < TB_WHERE_COUNT; where++)
      tb_batch_learn(&hopeless, &d, (enum tb_where)where, where == TB_GPU, seconds[where]);
    assert_int_equal(call_often(&hopeless, 200, seconds).trials, 0);
  }
}

/* Once, for its time may be any: if it is not thought to take twice as long. What several GPUs took teaches no other
 * form. */
static void unknown_side_is_tried(void **state) {
  (void)state;
  assert_true(tb_offload_is_open());
  for (int far = 0; far < 2; far++) {
    const struct tb_batch batch = batch_of(14000 + far, 100);
    struct tb_decision d = tb_batch_decide(&batch, TB_ROUTE_AUTO);
    const double there = d.cpu_seconds;
    tb_batch_learn(&batch, &d, TB_GPU, 3, there * (far ? 0.4 : 0.6));
    d = tb_batch_decide(&batch, TB_ROUTE_AUTO);
    assert_int_equal(d.why, far ? TB_STATUS_gpu_sooner : TB_STATUS_tried);
    assert_int_equal(d.where, far ? TB_GPU : TB_CPU);
    if (far) continue;
    tb_batch_learn(&batch, &d, TB_CPU, 0, there);
    d = tb_batch_decide(&batch, TB_ROUTE_AUTO);
    assert_int_equal(d.where, TB_GPU);
    assert_int_equal(d.why, TB_STATUS_gpu_sooner);
  }
}

/* The last one: from then on there is none. */
static void without_a_gpu(void **state) {
  (void)state;
  const struct tb_batch batch = batch_of(15000, 100);
  tb_gpus_close(TB_STATUS_gpu_lost);
  for (enum tb_route_mode mode = TB_ROUTE_AUTO; mode <= TB_ROUTE_CPU; mode++) {
    const struct tb_decision d = tb_batch_decide(&batch, mode);
    assert_int_equal(d.where, TB_CPU);
    assert_int_equal(d.why, mode == TB_ROUTE_CPU ? TB_STATUS_forced_cpu : TB_STATUS_gpu_lost);
  }
}

int main(void) {
  /* What is saved stays with the process, so the first one is the first. */
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_sides_are_made_of),
                                     cmocka_unit_test(what_is_saved),
                                     cmocka_unit_test(opens_when_it_has_paid),
                                     cmocka_unit_test(forced_and_small),
                                     cmocka_unit_test(all_products_count),
                                     cmocka_unit_test(learns_by_form),
                                     cmocka_unit_test(forms_are_apart),
                                     cmocka_unit_test(latest_counts_half),
                                     cmocka_unit_test(several_teach_their_form),
                                     cmocka_unit_test(slower_side_is_tried),
                                     cmocka_unit_test(sums_of_all_groups),
                                     cmocka_unit_test(unknown_side_is_tried),
                                     cmocka_unit_test(without_a_gpu)};
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
