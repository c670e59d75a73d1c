/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where panels lie, over random products that are cut into blocks: what is up stays where the next block looks for it,
 * whatever that block's size, and what is packed of A, what is packed of B and the workspaces lie apart, in the arena.
 *
 * Seen to fail when: a block with fewer rows of tiles looks elsewhere for B's panels.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/integers.h"
#include "plan/layout.h"
#include "rng.h"
#include "select/emulated_plan.h"

static const struct tb_ways staged = {TB_STAGED, TB_STAGED, TB_STAGED, false, 0, TB_MAY_BE_KEPT};

/* Of the panels of one block: where they lie as they came up, and packed. */
struct places {
  uint64_t a[TB_TILES_MAX], b[TB_TILES_MAX], packed_a[TB_TILES_MAX], packed_b[TB_TILES_MAX];
};

/* Those that the block has; the others stay what they were. */
static void look(const struct tb_layout *l, struct places *p) {
  const struct tb_extent k = tb_layout_slice(l, 0);
  for (int64_t row = 0; row < l->rows; row++) p->a[row] = tb_layout_panel(l, TB_OF_A, row, k).address;
  for (int64_t column = 0; column < l->columns; column++) p->b[column] = tb_layout_panel(l, TB_OF_B, column, k).address;
  if (!tb_plan_packs(l->plan)) return;
  for (int64_t row = 0; row < l->rows; row++) p->packed_a[row] = tb_layout_packed(l, TB_OF_A, row, 0);
  for (int64_t column = 0; column < l->columns; column++) p->packed_b[column] = tb_layout_packed(l, TB_OF_B, column, 0);
}

static void expect_same(const uint64_t *now, const uint64_t *before, int64_t count, const char *what, int64_t block) {
  for (int64_t i = 0; i < count; i++)
    if (now[i] != before[i]) fail_msg("block %ld looks elsewhere for %s %ld", (long)block, what, (long)i);
}

/* The first block is the largest. */
static void check_packed(const struct tb_layout *l, const struct places *p) {
  const int64_t spans = tb_plan_spans(l->plan), a = spans * l->plan->operand[TB_OF_A].packed_bytes,
                b = spans * l->plan->operand[TB_OF_B].packed_bytes;
  for (int64_t row = 1; row < l->rows; row++) assert_true(p->packed_a[row] >= p->packed_a[row - 1] + (uint64_t)a);
  assert_true(p->packed_b[0] >= p->packed_a[l->rows - 1] + (uint64_t)a);
  for (int64_t i = 1; i < l->columns; i++) assert_true(p->packed_b[i] >= p->packed_b[i - 1] + (uint64_t)b);
  assert_true(tb_layout_workspace(l, 0) >= p->packed_b[l->columns - 1] + (uint64_t)b);
}

/* Returns whether some block has fewer rows of tiles than the first. */
static bool check(const struct tb_call *call, const struct tb_plan *plan) {
  struct tb_layout l = {.call = call, .plan = plan, .arena = 1 << 20};
  struct places first = {0};
  bool smaller = false;
  tb_layout_enter(&l, 0);
  look(&l, &first);
  const int64_t rows = l.rows;
  if (tb_plan_packs(plan)) check_packed(&l, &first);
  for (int64_t block = 1; block < tb_layout_blocks(call, plan); block++) {
    struct places now = first;
    tb_layout_enter(&l, block);
    look(&l, &now);
    expect_same(now.a, first.a, TB_TILES_MAX, "panel of A", block);
    expect_same(now.b, first.b, TB_TILES_MAX, "panel of B", block);
    expect_same(now.packed_a, first.packed_a, TB_TILES_MAX, "packed panel of A", block);
    expect_same(now.packed_b, first.packed_b, TB_TILES_MAX, "packed panel of B", block);
    smaller = smaller || l.rows < rows;
  }
  return smaller;
}

static int64_t random_size(uint64_t *rng) { return 1 + tst_random_below(rng, (int64_t)1 << tst_random_below(rng, 18)); }

static void panels_stay(void **state) {
  (void)state;
  uint64_t rng = 1;
  int cut[2] = {0, 0};
  for (int i = 0; i < 20000; i++) {
    struct tb_call call = {.m = random_size(&rng), .n = random_size(&rng), .k = random_size(&rng), .alpha = {1}};
    struct tb_plan whole, plan;
    call.a.transposed = tst_random_below(&rng, 2), call.b.transposed = tst_random_below(&rng, 2);
    const bool emulated = i % 2;
    const struct tb_emulated_way way = {.splits = 1, .span_k = tb_emulated_span_k(call.m, call.n, call.k)};
    if (!(emulated ? tb_plan_make_emulated(&whole, &call, staged, &way, INT64_MAX)
                   : tb_plan_make(&whole, &call, staged, INT64_MAX)))
      continue;
    const int64_t budget = whole.arena_bytes / (1 + tst_random_below(&rng, 50));
    if (emulated ? tb_plan_make_emulated(&plan, &call, staged, &way, budget)
                 : tb_plan_make(&plan, &call, staged, budget))
      cut[emulated] += check(&call, &plan);
  }
  printf("%d and %d plans of blocks of several sizes\n", cut[0], cut[1]);
  assert_true(cut[0] > 100 && cut[1] > 100); /* budgets were tight enough for several blocks */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(panels_stay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
