/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where batches go: by all products together, by what batches of the same form took, and no GPU is opened before it
 * would have paid. Once one is open the slower side is tried now and then, if it is not much slower.
 *
 * Seen to fail when: a batch is weighed by one of its products, or without its operands' bytes, or by floats' ones;
 * what one form took counts for another; a forced batch teaches; the savings are not added up; a side that was slow
 * once is not tried again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "offload/offload.h"
#include "route/batches.h"

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

static void forced_and_small(void **state) {
  (void)state;
  const struct tb_batch small = batch_of(2, 8), many = batch_of(100000, 8);
  assert_int_equal(tb_batch_decide(&small, TB_ROUTE_AUTO).why, TB_STATUS_small);
  assert_int_equal(tb_batch_decide(&small, TB_ROUTE_GPU).where, TB_GPU);
  assert_int_equal(tb_batch_decide(&many, TB_ROUTE_CPU).why, TB_STATUS_forced_cpu);
  assert_int_not_equal(tb_batch_decide(&many, TB_ROUTE_AUTO).why, TB_STATUS_small); /* together they are not */
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
  const struct tb_batch learned = batch_of(30000, 64), forced = batch_of(30001, 64);
  const struct tb_decision d = tb_batch_decide(&learned, TB_ROUTE_AUTO);
  tb_batch_learn(&learned, &d, TB_CPU, 0, 50 * d.cpu_seconds);
  const double after = tb_batch_decide(&learned, TB_ROUTE_AUTO).cpu_seconds;
  assert_true(after > 49 * d.cpu_seconds && after < 51 * d.cpu_seconds);
  const struct tb_decision by_force = tb_batch_decide(&forced, TB_ROUTE_GPU);
  const double before = tb_batch_decide(&forced, TB_ROUTE_AUTO).gpu_seconds;
  tb_batch_learn(&forced, &by_force, TB_GPU, 1, 100);
  assert_true(tb_batch_decide(&forced, TB_ROUTE_AUTO).gpu_seconds == before);
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

int main(void) {
  /* What is saved stays with the process, so the first one is the first. */
  const struct CMUnitTest tests[] = {cmocka_unit_test(opens_when_it_has_paid),   cmocka_unit_test(forced_and_small),
                                     cmocka_unit_test(all_products_count),       cmocka_unit_test(learns_by_form),
                                     cmocka_unit_test(several_teach_their_form), cmocka_unit_test(slower_side_is_tried),
                                     cmocka_unit_test(sums_of_all_groups)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
