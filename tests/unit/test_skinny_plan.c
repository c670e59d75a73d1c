/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How products with one short side are spread over a GPU: plans for random shapes and GPUs cover the product and are
 * what the kernels can run; those for the shapes that matter most fill an H200; what cannot be done is refused. What
 * the kernels make of the plans is test_skinny.c's.
 *
 * Seen to fail when: a block has rows for which it has no threads; the last split is left out; the partial sums are
 * counted without the limit on them; the shorter operand's leading dimension is asked for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rng.h"
#include "select/skinny.h"
#include "select/skinny_plan.h"

static const struct tb_sm_limits h200 = {132, 232448, 233472};

static struct tb_skinny_plan plan_for(const struct tb_sm_limits *limits, bool ta, bool tb, int64_t m, int64_t n,
                                      int64_t k, bool vectors, int64_t room) {
  struct tb_skinny_plan plan;
  assert_true(tb_skinny_plan_make(&plan, limits, ta, tb, m, n, k, vectors, room));
  return plan;
}

/* Any shape on any GPU: the blocks cover the product without a rest, and are what the kernels and the GPU can run. */
static void plans_are_sound(void **state) {
  (void)state;
  uint64_t rng = 3;
  for (int i = 0; i < 20000; i++) {
    const int64_t side = 1 + tst_random_below(&rng, INT64_C(1) << tst_random_below(&rng, 20));
    const int64_t columns = 1 + tst_random_below(&rng, TB_SKINNY_COLUMNS_MAX);
    const int64_t k = 1 + tst_random_below(&rng, INT64_C(1) << tst_random_below(&rng, 20));
    const bool few_rows = tst_random_below(&rng, 2);
    const struct tb_sm_limits limits = {1 + (int)tst_random_below(&rng, 200), 65536 + tst_random_below(&rng, 166912),
                                        233472};
    const int64_t room = tst_random_below(&rng, INT64_C(1) << tst_random_below(&rng, 30));
    struct tb_skinny_plan p =
        plan_for(&limits, tst_random_below(&rng, 2), tst_random_below(&rng, 2), few_rows ? columns : side,
                 few_rows ? side : columns, k, tst_random_below(&rng, 2), room);
    const struct tb_skinny_row *row = &tb_skinny_rows[p.row];
    assert_true(p.columns <= row->columns && (p.row == 0 || tb_skinny_rows[p.row - 1].columns < p.columns));
    assert_true(p.block_rows % TB_SKINNY_ROWS == 0 && p.block_chunks % TB_SKINNY_GROUP_CHUNKS == 0);
    assert_int_equal(p.threads, p.block_rows / tb_skinny_thread_rows(&p) * p.block_chunks);
    assert_true(p.block_rows % tb_skinny_thread_rows(&p) == 0);
    assert_true(p.threads <= (p.along_k ? row->k_threads : row->side_threads));
    assert_true(p.shared_bytes <= limits.block_shared_bytes);
    assert_true(p.blocks * p.block_rows >= p.x_rows && (p.blocks - 1) * p.block_rows < p.x_rows);
    const int64_t split_k = (int64_t)p.groups_per_split * TB_SGEMM_GROUP_K;
    assert_true(p.splits * split_k >= k && (p.splits - 1) * split_k < k);
    assert_true(p.buffers == 1 || (p.buffers == 2 && p.groups_per_split * TB_SKINNY_GROUP_CHUNKS > p.block_chunks));
    assert_true(tb_skinny_partials_bytes(&p) <= room);
    assert_true(p.sm_bytes > 0);
  }
}

/* The shapes that matter most on an H200: one wave that leaves few SMs idle. */
static void plans_fill_the_gpu(void **state) {
  (void)state;
  for (int variant = 0; variant < 8; variant++) {
    const bool ta = variant & 1, few_rows = variant & 4;
    const int64_t columns = variant & 2 ? 8 : 1;
    struct tb_skinny_plan p = few_rows ? plan_for(&h200, false, ta, columns, 4096, 4096, true, INT64_C(1) << 30)
                                       : plan_for(&h200, ta, false, 4096, columns, 4096, true, INT64_C(1) << 30);
    assert_int_equal(p.exchanged, few_rows);
    assert_true(p.blocks * p.splits > 120 && p.blocks * p.splits <= 132);
  }
  /* Few rows and a long k: k is split, as long as there is room for its sums. */
  assert_true(plan_for(&h200, false, false, 64, 8, 1 << 18, true, INT64_C(1) << 30).splits > 8);
  assert_int_equal(plan_for(&h200, false, false, 64, 8, 1 << 18, true, 1000).splits, 1);
}

static void plans_refused(void **state) {
  (void)state;
  struct tb_skinny_plan p;
  assert_false(tb_skinny_takes(9, 9));
  assert_false(tb_skinny_plan_make(&p, &h200, false, false, 9, 9, 100, true, 0));
  const struct tb_sm_limits tiny = {132, 1024, 1024};
  assert_false(tb_skinny_plan_make(&p, &tiny, false, false, 100, 1, 100, true, 0));
}

/* Whether columns begin where vectors do is the longer operand's: A's, or B's where C has fewer rows than columns. */
static void vectors_are_the_longer_operands(void **state) {
  (void)state;
  static _Alignas(16) const float memory[8];
  for (int few_rows = 0; few_rows < 2; few_rows++)
    for (int odd = 0; odd < 2; odd++)
      for (int of_the_longer = 0; of_the_longer < 2; of_the_longer++) {
        const bool odd_b = odd && of_the_longer == few_rows, odd_a = odd && !odd_b;
        const struct tb_sgemm_args args = {.a = memory,
                                           .b = memory,
                                           .lda = 400 + odd_a,
                                           .ldb = 400 + odd_b,
                                           .m = few_rows ? 4 : 400,
                                           .n = few_rows ? 400 : 4,
                                           .k = 400};
        for (int t = 0; t < 4; t++) assert_int_equal(tb_skinny_vectors(t & 1, t & 2, &args), !(odd && of_the_longer));
        struct tb_sgemm_args behind = args; /* from the second element of one on */
        *(of_the_longer == few_rows ? &behind.b : &behind.a) += 1;
        assert_int_equal(tb_skinny_vectors(false, false, &behind), !of_the_longer && !(odd && of_the_longer));
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(plans_are_sound), cmocka_unit_test(plans_fill_the_gpu),
                                     cmocka_unit_test(plans_refused),
                                     cmocka_unit_test(vectors_are_the_longer_operands)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
