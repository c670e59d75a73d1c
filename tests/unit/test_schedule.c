/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In which order panels go up, and where they lie: over random plans every slice of every panel goes up once, every
 * tile is launched once for every slice of k, in the order of k and with both slices there; panels, slices and tiles
 * lie in the arena, apart from each other; and all that still holds for sizes and addresses beyond 32 bits.
 *
 * And the order is the one that schedule.h tells, step by step, for sides of even and odd numbers of panels.
 *
 * Seen to fail when: the panels left over on the longer side are forgotten; the last, shorter slice is taken for a
 * whole one; an offset is computed in 32 bits; of an even side half of the panels lead, and not one more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "plan/layout.h"
#include "rng.h"
#include "plan/schedule.h"
#include "common/sgemm_args.h"
#include "select/emulated_plan.h"

#define SLICES_MAX 8

static void every_slice_of_every_panel_once(void **state) {
  (void)state;
  uint64_t rng = 1;
  for (int i = 0; i < 3000; i++) {
    const struct tb_schedule s = {1 + tst_random_below(&rng, TB_TILES_MAX), 1 + tst_random_below(&rng, TB_TILES_MAX),
                                  i % 4 < 2 ? 1 + tst_random_below(&rng, SLICES_MAX) : 1,
                                  (enum tb_schedule_order)(i % 4)};
    int64_t a_slices[TB_TILES_MAX] = {0}, b_slices[TB_TILES_MAX] = {0}, tile[TB_TILES_MAX][TB_TILES_MAX] = {{0}};
    const int64_t steps = tb_schedule_steps(&s);
    assert_int_equal(steps, (s.rows + s.columns) * s.slices);
    for (int64_t number = 0; number < steps; number++) {
      const struct tb_step step = tb_schedule_step(&s, number);
      int64_t *slices = step.of_b ? b_slices : a_slices, *others = step.of_b ? a_slices : b_slices;
      if (number < tb_schedule_first(&s)) assert_true(step.of_b == (s.order == TB_B_FIRST));
      assert_in_range(step.index, 0, (step.of_b ? s.columns : s.rows) - 1);
      assert_int_equal(step.slice, slices[step.index]++); /* each once, and in order */
      for (int64_t other = 0; other < (step.of_b ? s.rows : s.columns); other++) {
        if (others[other] <= step.slice) continue;
        int64_t *launched = step.of_b ? &tile[other][step.index] : &tile[step.index][other];
        assert_int_equal(step.slice, (*launched)++);
      }
    }
    for (int64_t row = 0; row < s.rows; row++)
      for (int64_t column = 0; column < s.columns; column++) assert_int_equal(tile[row][column], s.slices);
  }
}

static void expect_steps(const struct tb_schedule *s, const char *expected) {
  char text[64] = "";
  for (int64_t number = 0; number < tb_schedule_steps(s); number++) {
    const struct tb_step step = tb_schedule_step(s, number);
    const char word[] = {step.of_b ? 'B' : 'A', (char)('0' + step.index), (char)('0' + step.slice), ' ', '\0'};
    strcat(text, word);
  }
  assert_string_equal(text, expected);
}

/* The picture in schedule.h. */
static void leading_slices_then_whole_panels(void **state) {
  (void)state;
  expect_steps(&(struct tb_schedule){3, 3, 2, TB_IN_TURN}, "A00 B00 A10 B10 A01 B01 A11 B11 A20 A21 B20 B21 ");
}

static void all_panels_by_slices(void **state) {
  (void)state;
  expect_steps(&(struct tb_schedule){2, 4, 2, TB_BY_SLICES}, "A00 B00 A10 B10 B20 B30 A01 B01 A11 B11 B21 B31 ");
  expect_steps(&(struct tb_schedule){3, 2, 1, TB_BY_SLICES}, "A00 B00 A10 B10 A20 ");
}

/* Of even sides, half of the panels and one more: two of two, three of four, and no more of six. */
static void leading_of_even_sides(void **state) {
  (void)state;
  expect_steps(&(struct tb_schedule){2, 2, 2, TB_IN_TURN}, "A00 B00 A10 B10 A01 B01 A11 B11 ");
  expect_steps(&(struct tb_schedule){2, 1, 2, TB_IN_TURN}, "A00 B00 A10 A01 B01 A11 ");
  expect_steps(&(struct tb_schedule){4, 1, 2, TB_IN_TURN}, "A00 B00 A10 A20 A01 B01 A11 A21 A30 A31 ");
  expect_steps(&(struct tb_schedule){1, 6, 1, TB_IN_TURN}, "A00 B00 B10 B20 B30 B40 B50 ");
}

/* A sequence of steps that grows. */
struct steps {
  struct tb_step step[2 * TB_TILES_MAX * SLICES_MAX];
  int64_t count;
};

static void add(struct steps *s, bool of_b, int64_t index, int64_t slice) {
  s->step[s->count++] = (struct tb_step){.of_b = of_b, .index = index, .slice = slice};
}

/* Panels `begin` to before `end` of A and of B in turn, A first: `slices` of each panel from `slice` on. */
static void add_in_turn(struct steps *s, const int64_t begin[2], const int64_t end[2], int64_t slice, int64_t slices) {
  for (int64_t turn = 0; begin[0] + turn < end[0] || begin[1] + turn < end[1]; turn++)
    for (int of_b = 0; of_b < 2; of_b++)
      for (int64_t i = 0; begin[of_b] + turn < end[of_b] && i < slices; i++)
        add(s, of_b, begin[of_b] + turn, slice + i);
}

/* What schedule.h says, in its words. */
static void told(struct steps *steps, const struct tb_schedule *s) {
  const int64_t none[2] = {0, 0}, all[2] = {s->rows, s->columns};
  const int64_t half_and_one = tb_max(s->rows, s->columns) / 2 + 1;
  int64_t leading[2];
  for (int of_b = 0; of_b < 2; of_b++) leading[of_b] = tb_min(all[of_b], tb_min(half_and_one, 3));
  steps->count = 0;
  if (s->order == TB_IN_TURN) {
    for (int64_t slice = 0; slice < s->slices; slice++) add_in_turn(steps, none, leading, slice, 1);
    add_in_turn(steps, leading, all, 0, s->slices);
  } else if (s->order == TB_BY_SLICES) {
    for (int64_t slice = 0; slice < s->slices; slice++) add_in_turn(steps, none, all, slice, 1);
  } else {
    for (int i = 0; i < 2; i++) {
      const bool of_b = (s->order == TB_B_FIRST) == (i == 0);
      for (int64_t index = 0; index < all[of_b]; index++) add(steps, of_b, index, 0);
    }
  }
}

static void every_step_as_told(void **state) {
  (void)state;
  static struct steps steps;
  for (int64_t rows = 1; rows <= 12; rows++)
    for (int64_t columns = 1; columns <= 12; columns++)
      for (int64_t slices = 1; slices <= 3; slices++)
        for (int order = 0; order < (slices == 1 ? 4 : 2); order++) {
          const struct tb_schedule s = {rows, columns, slices, (enum tb_schedule_order)order};
          told(&steps, &s);
          assert_int_equal(steps.count, tb_schedule_steps(&s));
          for (int64_t number = 0; number < steps.count; number++) {
            const struct tb_step got = tb_schedule_step(&s, number), want = steps.step[number];
            if (got.of_b != want.of_b || got.index != want.index || got.slice != want.slice)
              fail_msg("%ld x %ld panels, %ld slices, order %d: step %ld", (long)rows, (long)columns, (long)slices,
                       order, (long)number);
          }
        }
}

/* ---- where things lie ---- */

struct region {
  uint64_t begin, end;
};

static int by_begin(const void *x, const void *y) {
  const struct region *a = x, *b = y;
  return a->begin < b->begin ? -1 : a->begin > b->begin;
}

#define REGIONS_MAX (2 * TB_TILES_MAX * (SLICES_MAX + 1) + 2 * TB_TILES_MAX * TB_TILES_MAX)
static struct region regions[REGIONS_MAX];
static size_t region_count;

/* `columns` columns of `rows` floats. */
static void occupy(struct tb_matrix x, int64_t rows, int64_t columns) {
  assert_true(region_count < REGIONS_MAX);
  assert_true(x.ld >= rows && x.address % 128 == 0);
  assert_int_equal(x.ld % (rows > 16 ? tb_line_elems(TB_S) / 4 : 4), 0);
  regions[region_count++] = (struct region){x.address, x.address + 4 * (uint64_t)((columns - 1) * x.ld + rows)};
}

static void expect_apart(const struct tb_layout *l) {
  qsort(regions, region_count, sizeof *regions, by_begin);
  assert_true(regions[0].begin >= l->arena);
  for (size_t i = 1; i < region_count; i++) assert_true(regions[i - 1].end <= regions[i].begin);
  assert_true(regions[region_count - 1].end <= l->arena + (uint64_t)l->plan->arena_bytes);
}

static void occupy_panels(const struct tb_layout *l) {
  for (int64_t slice = 0; slice < tb_layout_slices(l); slice++) {
    const struct tb_extent k = tb_layout_slice(l, slice);
    for (int64_t row = 0; row < l->rows; row++) {
      const int64_t m = tb_layout_rows(l, row).size;
      occupy(tb_layout_panel(l, TB_OF_A, row, k), l->call->a.transposed ? k.size : m,
             l->call->a.transposed ? m : k.size);
    }
    for (int64_t column = 0; column < l->columns; column++) {
      const int64_t n = tb_layout_columns(l, column).size;
      occupy(tb_layout_panel(l, TB_OF_B, column, k), l->call->b.transposed ? n : k.size,
             l->call->b.transposed ? k.size : n);
    }
  }
}

static void occupy_bytes(uint64_t begin, int64_t bytes) {
  assert_int_equal(begin % 128, 0);
  if (bytes > 0) regions[region_count++] = (struct region){begin, begin + (uint64_t)bytes};
}

static void occupy_packed(const struct tb_layout *l) {
  for (int64_t k = 0; k < l->chunk.size; k += l->plan->span_k) {
    const int64_t start = l->chunk.start + k, size = tb_min(l->plan->span_k, l->chunk.size - k);
    for (int64_t row = 0; row < l->rows; row++)
      occupy_bytes(tb_layout_packed(l, TB_OF_A, row, start),
                   tb_emulated_packed_bytes(false, tb_layout_rows(l, row).size, size));
    for (int64_t column = 0; column < l->columns; column++)
      occupy_bytes(tb_layout_packed(l, TB_OF_B, column, start),
                   tb_emulated_packed_bytes(true, tb_layout_columns(l, column).size, size));
  }
}

static void check_block(struct tb_layout *l, int64_t number) {
  tb_layout_enter(l, number);
  int64_t next = 0;
  bool more = true;
  while (more) {
    for (int64_t slice = 0; slice < tb_layout_slices(l); slice++) {
      const struct tb_extent k = tb_layout_slice(l, slice);
      assert_true(k.start == next && k.size > 0 &&
                  k.start % (l->plan->emulated ? TB_EMULATED_GROUP_K : l->plan->group_k) == 0);
      next = k.start + k.size;
    }
    region_count = 0;
    occupy_panels(l);
    const int64_t tiles = l->rows * l->columns;
    for (int64_t tile = 0; tile < tiles; tile++) {
      const struct tb_block t = tb_layout_tile(l, tile);
      occupy(tb_layout_d(l, tile), t.m, t.n);
    }
    for (int64_t number = 0; number < (l->plan->emulated ? l->plan->streams : tiles); number++)
      occupy_bytes(tb_layout_workspace(l, number), l->plan->workspace_bytes);
    if (l->plan->emulated) occupy_packed(l);
    expect_apart(l);
    more = tb_layout_next_chunk(l);
  }
  assert_true(next == l->call->k);
}

static void check_layout(const struct tb_call *call, int splits, int64_t budget, uint64_t *rng) {
  static const struct tb_ways staged = {TB_STAGED, TB_STAGED, TB_STAGED, false, 0, TB_MAY_BE_KEPT};
  const struct tb_emulated_way way = {.splits = splits, .span_k = tst_random_below(rng, 4) * 8 * TB_EMULATED_GROUP_K};
  struct tb_plan plan;
  if (splits > 0 && !tb_plan_make_emulated(&plan, call, staged, &way, budget)) return;
  if (splits == 0 && !tb_plan_make(&plan, call, staged, budget)) return;
  assert_true(tb_ceil_div(tb_min(call->k, plan.chunk_k), plan.slice_k) <= SLICES_MAX);
  struct tb_layout l = {.call = call, .plan = &plan, .arena = (uint64_t)1 << 40};
  const int64_t blocks = tb_layout_blocks(call, &plan);
  const int64_t numbers[] = {0, blocks - 1, tst_random_below(rng, blocks)};
  for (int i = 0; i < 3; i++) check_block(&l, numbers[i]);
}

static int64_t random_size(uint64_t *rng, int bits) {
  return 1 + tst_random_below(rng, (int64_t)1 << tst_random_below(rng, bits));
}

static void nothing_overlaps(void **state) {
  (void)state;
  uint64_t rng = 2;
  for (int i = 0; i < 600; i++) {
    /* Every third one is larger than 32 bits can count: 2^31 elements and more, leading dimensions of 2^32. */
    const bool huge = i % 3 == 0;
    struct tb_call call = {.m = random_size(&rng, 17), .n = random_size(&rng, 17), .k = random_size(&rng, 15)};
    if (huge) call.m += (int64_t)1 << 16, call.n += (int64_t)1 << 16, call.k += 1 << 14;
    call.a.transposed = tst_random_below(&rng, 2), call.b.transposed = tst_random_below(&rng, 2);
    call.a.ld = call.b.ld = call.ldc = (int64_t)1 << 32;
    int64_t budget = huge ? INT64_MAX : (int64_t)1 << (20 + tst_random_below(&rng, 12));
    if (i % 6 == 0) budget = (int64_t)1 << (28 + tst_random_below(&rng, 8));
    check_layout(&call, 0, budget, &rng);
    check_layout(&call, 1 + i % 2, budget, &rng); /* for the tensor cores */
  }
}

/* What the program's own pointers become: 2^31 columns of C, 2^32 floats apart, are 2^65 bytes, so fewer of them. */
static void addresses_beyond_32_bits(void **state) {
  (void)state;
  const int64_t ld = (int64_t)1 << 32;
  struct tb_call call = {.m = 3000, .n = 70000, .k = 40000, .a.ld = ld, .b.ld = ld, .ldc = ld};
  static const struct tb_ways staged = {TB_STAGED, TB_STAGED, TB_STAGED, false, 0, TB_MAY_BE_KEPT};
  struct tb_plan plan;
  assert_true(tb_plan_make(&plan, &call, staged, INT64_MAX));
  struct tb_layout l = {.call = &call, .plan = &plan};
  tb_layout_enter(&l, 0);
  const int64_t tile = l.rows * l.columns - 1;
  const struct tb_block t = tb_layout_tile(&l, tile);
  assert_true((uintptr_t)tb_layout_c(&l, tile) == 4 * ((uintptr_t)t.i + (uintptr_t)t.j * (uintptr_t)ld));
  const struct tb_extent k = tb_layout_slice(&l, tb_layout_slices(&l) - 1);
  const int64_t j = tb_layout_columns(&l, l.columns - 1).start;
  assert_true((uintptr_t)tb_layout_view(&l, TB_OF_A, 0, k).data == 4 * (uintptr_t)k.start * (uintptr_t)ld);
  assert_true((uintptr_t)tb_layout_view(&l, TB_OF_B, l.columns - 1, k).data ==
              4 * ((uintptr_t)k.start + (uintptr_t)j * (uintptr_t)ld));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_slice_of_every_panel_once),
      cmocka_unit_test(leading_slices_then_whole_panels),
      cmocka_unit_test(all_panels_by_slices),
      cmocka_unit_test(leading_of_even_sides),
      cmocka_unit_test(every_step_as_told),
      cmocka_unit_test(nothing_overlaps),
      cmocka_unit_test(addresses_beyond_32_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
