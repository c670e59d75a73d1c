/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The steps of trmm and trsm, and where their parts lie: every element of the triangle is used once, when what it needs
 * is there and before what it changes is not; plans keep to their budget, and their parts apart.
 *
 * Bands have the same terms in the same order, and their panels what they need of A.
 *
 * Seen to fail when: a product adds to the half that it reads; the second half comes first; a place of a block ends
 * where the next one has begun; of what a GPU has left a block that it had not begun, or a step, is left out; products
 * have as few blocks as steps by halves; a band forgets a half that lies before it, or takes its halves the other way
 * round; a portion of which columns are committed is solved again; there are bands of too
 * few rows, of cut tiles, or where blocks are narrow; a block's column, or a band's, is longer than a slot.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/reference.h"
#include "plan/triangular.h"
#include "rng.h"
#include "sanitized.h"

enum { MOST = 400 };
static bool used[MOST][MOST], done[MOST];

/* Element (i, j) of A' meets row j of B, for row i. */
static void use(const struct tb_triangular_shape *s, int64_t i, int64_t j) {
  assert_false(used[i][j]);
  used[i][j] = true;
  if (i == j) return;
  assert_true(s->lower ? i > j : i < j);
  if (s->solves)
    assert_true(done[j] && !done[i]);
  else
    assert_true(!done[j] && done[i]); /* a row of a product has had its leaf, and the other is what it was */
}

static void take_step(const struct tb_triangular_shape *s, const struct tb_triangular_step *step) {
  if (!step->is_leaf) {
    for (int64_t i = step->first; i < step->first + step->size; i++)
      for (int64_t j = step->source; j < step->source + step->source_size; j++) use(s, i, j);
    return;
  }
  assert_true(step->size >= 1 && step->size <= s->leaf);
  for (int64_t i = step->first; i < step->first + step->size; i++) {
    for (int64_t j = step->first; j < step->first + step->size; j++)
      if (s->lower ? j <= i : j >= i) assert_false(used[i][j]), used[i][j] = true;
    assert_false(done[i]);
    done[i] = true;
  }
}

static void every_element_once(void **state) {
  (void)state;
  uint64_t rng = 1;
  for (int round = 0; round < 200; round++) {
    const struct tb_triangular_shape s = {.solves = round % 2,
                                          .lower = round / 2 % 2,
                                          .order = 1 + tst_random_below(&rng, MOST),
                                          .leaf = round % 3 ? 64 : 32};
    memset(used, 0, sizeof used);
    memset(done, 0, sizeof done);
    for (int64_t number = 0; number < tb_triangular_steps(&s); number++) {
      const struct tb_triangular_step step = tb_triangular_step(&s, number);
      take_step(&s, &step);
    }
    for (int64_t i = 0; i < s.order; i++)
      for (int64_t j = 0; j < s.order; j++) assert_int_equal(used[i][j], s.lower ? j <= i : j >= i);
  }
}

/* ---- bands ---- */

/* What is added to a row, and then the leaf that it is solved in. */
enum { TERMS_MOST = 12 };
static struct tb_triangular_step terms[2][MOST][TERMS_MOST];
static int term_count[2][MOST];

static void note_step(int in_bands, const struct tb_triangular_step *step) {
  for (int64_t i = step->first; i < step->first + step->size; i++) {
    assert_true(term_count[in_bands][i] < TERMS_MOST);
    terms[in_bands][i][term_count[in_bands][i]++] = *step;
  }
}

static void expect_same_terms(int64_t row) {
  assert_int_equal(term_count[0][row], term_count[1][row]);
  for (int i = 0; i < term_count[0][row]; i++) {
    const struct tb_triangular_step *whole = &terms[0][row][i], *in_band = &terms[1][row][i];
    assert_int_equal(whole->is_leaf, in_band->is_leaf);
    if (whole->is_leaf)
      assert_true(whole->first == in_band->first && whole->size == in_band->size);
    else
      assert_true(whole->source == in_band->source && whole->source_size == in_band->source_size &&
                  whole->size == in_band->whole_size && whole->size == whole->whole_size);
  }
}

static void bands_have_the_same_terms(void **state) {
  (void)state;
  uint64_t rng = 3;
  for (int round = 0; round < 200; round++) {
    const int depth = round % (TB_TRIANGULAR_DEPTH_MAX + 1), leaf = depth > 2 ? 8 : 32, least = 2 * leaf << depth;
    const int64_t order = least + tst_random_below(&rng, MOST - least + 1);
    const struct tb_triangular_shape s = {.solves = true, .lower = round / 2 % 2, .order = order, .leaf = leaf};
    const struct tb_triangular_plan plan = {.shape = s, .depth = depth, .halves_last = round % 3 > 0, .blocks = 1};
    memset(used, 0, sizeof used), memset(done, 0, sizeof done), memset(term_count, 0, sizeof term_count);
    for (int64_t number = 0; number < tb_triangular_steps(&s); number++) {
      const struct tb_triangular_step step = tb_triangular_step(&s, number);
      note_step(0, &step);
    }
    int64_t behind = 0;
    assert_true(tb_triangular_bands(&plan) <= TB_TRIANGULAR_BANDS_MAX);
    for (int64_t band = 0; band < tb_triangular_bands(&plan); band++) {
      const struct tb_triangular_rows rows = tb_triangular_rows_of(&plan, band);
      const struct tb_triangular_node node = tb_triangular_node_of(&plan, band);
      assert_int_equal(rows.first, s.lower ? behind : order - behind - rows.size);
      behind += rows.size;
      for (int64_t number = 0; number < tb_triangular_node_steps(&s, node); number++) {
        const struct tb_triangular_step step = tb_triangular_node_step(&s, node, number);
        assert_true(step.first >= rows.first && step.first + step.size <= rows.first + rows.size);
        take_step(&s, &step);
        note_step(1, &step);
      }
    }
    assert_int_equal(behind, order);
    for (int64_t i = 0; i < order; i++) expect_same_terms(i);
  }
}

static struct tb_call some_call(uint64_t *rng) {
  struct tb_call call = {.type = (enum tb_type)tst_random_below(rng, TB_TYPE_COUNT),
                         .m = 1 + tst_random_below(rng, 5000),
                         .n = 1 + tst_random_below(rng, 5000),
                         .recipe = TB_TRIANGULAR_SOLVE,
                         .on_right = tst_random_below(rng, 2)};
  call.k = call.on_right ? call.n : call.m;
  call.ldc = call.m;
  call.a = (struct tb_view){.ld = call.k, .structure = TB_TRIANGULAR, .type = call.type};
  call.a.transposed = tst_random_below(rng, 2);
  call.a.uplo = tst_random_below(rng, 2) ? TB_LOWER : TB_UPPER;
  return call;
}

/* Of each band's rows of A' all that the triangle has, and of no others. */
static void expect_bands(const struct tb_triangular_plan *p, const struct tb_call *call) {
  const bool lower = call->a.uplo == TB_LOWER, stored_by_rows = call->a.transposed != call->on_right;
  assert_true(p->shape.solves && p->places == p->blocks && p->streams == p->places &&
              p->panels == tb_triangular_bands(p));
  for (int64_t number = 0; number < p->panels; number++) {
    const struct tb_triangular_rows rows = tb_triangular_rows_of(p, number);
    const struct tb_triangular_panel x = tb_triangular_panel(p, call, number);
    const int64_t first = stored_by_rows ? x.first : x.row, size = stored_by_rows ? x.columns : x.rows;
    const int64_t across = stored_by_rows ? x.row : x.first, length = stored_by_rows ? x.rows : x.columns;
    assert_true(tb_triangular_wanted(p, number) == number && first == rows.first && size == rows.size);
    assert_int_equal(across, lower == stored_by_rows ? first : 0);
    assert_int_equal(across + length, lower == stored_by_rows ? call->k : first + size);
    assert_true(tb_leading(call->type, x.rows) * x.columns * tb_call_bytes(call) <= p->raw_bytes);
    for (int64_t step = 0; step < tb_triangular_node_steps(&p->shape, tb_triangular_node_of(p, number)); step++)
      assert_int_equal(tb_triangular_panels_for(p, call, number * p->blocks, step), number + 1);
  }
}

/* Within the arena, one behind another; blocks begin where the bits do not show it, unless they are the last. */
static void plans_keep_to_their_budget(void **state) {
  (void)state;
  uint64_t rng = 2;
  int made = 0, banded = 0;
  for (int round = 0; round < 2000; round++) {
    const struct tb_call call = some_call(&rng);
    const enum tb_way a = tst_random_below(&rng, 2) ? TB_STAGED : TB_IN_PLACE, c = round % 3 ? TB_STAGED : TB_IN_PLACE;
    const struct tb_ways ways = {a, c, c, false, 0, TB_MAY_BE_KEPT};
    const int64_t budget = round % 4 ? 1 + tst_random_below(&rng, (int64_t)1 << 30) : INT64_MAX;
    struct tb_triangular_plan p;
    const int64_t block = tb_triangular_block_wish(&call, ways, TB_BY_HALVES);
    if (!tb_triangular_plan_make(&p, &call, ways, TB_BY_HALVES, 64, block, tst_random_below(&rng, (int64_t)1 << 28),
                                 budget))
      continue;
    made++;
    assert_true(p.arena_bytes <= budget);
    assert_true(p.blocks >= 1 && (p.blocks - 1) * p.block < p.sides && p.blocks * p.block >= p.sides);
    assert_true(p.block % TB_TRIANGULAR_BLOCK_STEP == 0 || p.block == p.sides || p.block == 32);
    assert_true(p.places <= TB_TRIANGULAR_PLACES_MAX && (p.places > 0) == (c == TB_STAGED || call.on_right));
    assert_true(p.streams >= 1 && p.streams <= TB_TRIANGULAR_STREAMS);
    /* Where nothing comes down, blocks of one place have to be of one stream. */
    if (c == TB_IN_PLACE && p.places > 0) assert_int_equal(p.streams, p.places);
    if (c == TB_IN_PLACE && p.places == 0) assert_true(p.blocks <= TB_TRIANGULAR_STREAMS);
    const int64_t at[] = {0, p.raw_offset_bytes, p.b_offset_bytes, p.stored_offset_bytes, p.workspace_offset_bytes};
    for (int i = 0; i < 4; i++) assert_true(at[i] <= at[i + 1] && at[i] % TB_LINE_BYTES == 0);
    if (p.places > 0) assert_true(p.b_bytes >= p.b_ld * tb_min(p.block, p.sides) * tb_call_bytes(&call));
    assert_true(p.b_offset_bytes + p.places * p.b_bytes <= p.stored_offset_bytes);
    assert_true(p.stored_offset_bytes + p.places * p.stored_bytes <= p.workspace_offset_bytes);
    if (p.depth > 0) {
      expect_bands(&p, &call);
      banded++;
      continue;
    }
    /* What is formed beside the steps begins with little; what is formed before them has few launches. */
    if (a == TB_IN_PLACE && c == TB_IN_PLACE) assert_true(p.panels <= 18 && (p.panels - 1) * 256 < call.k);
    if (a == TB_IN_PLACE && c == TB_IN_PLACE && call.k > 4096) assert_true(p.panels >= 16);
    if (a == TB_IN_PLACE && c == TB_STAGED) assert_true(p.panels <= 8);
    int64_t columns = 0;
    for (int64_t panel = 0; panel < p.panels; panel++) {
      const struct tb_triangular_panel x = tb_triangular_panel(&p, &call, panel);
      assert_int_equal(x.first, columns);
      assert_true(x.row + x.rows <= call.k && x.row <= x.first && x.row + x.rows >= x.first + x.columns);
      assert_true(a == TB_IN_PLACE || tb_leading(call.type, x.rows) * x.columns * tb_call_bytes(&call) <= p.raw_bytes);
      columns += x.columns;
    }
    assert_int_equal(columns, call.k);
  }
  assert_true(made > 700 && banded > 50);
}

/* A column of each comes down through a slot. */
static void blocks_on_the_right_fit_into_slots(void **state) {
  const struct tb_ways staged = {TB_STAGED, TB_STAGED, TB_STAGED, false, 0, TB_MAY_BE_KEPT};
  const int64_t sides[] = {1, 524288, 3000000, 5000000, 1000000000};
  (void)state;
  for (int type = TB_S; type <= TB_Z; type++)
    for (int how = TB_BY_HALVES; how <= TB_BY_PLANES; how++)
      for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        for (int64_t order = 2; order <= 2000000; order *= 1000) { /* the last one would have bands */
          struct tb_call call = {.type = (enum tb_type)type, .m = sides[i], .n = order, .k = order, .on_right = true};
          struct tb_triangular_plan p;
          call.a = (struct tb_view){.ld = order, .structure = TB_TRIANGULAR, .type = call.type, .uplo = TB_LOWER};
          call.recipe = how == TB_BY_HALVES ? TB_TRIANGULAR_SOLVE : TB_TRIANGULAR_MULTIPLY;
          const int64_t block = tb_triangular_block_wish(&call, staged, (enum tb_triangular_how)how);
          assert_true(
              tb_triangular_plan_make(&p, &call, staged, (enum tb_triangular_how)how, 128, block, 0, INT64_MAX));
          assert_true(p.block <= tb_slot_elems(call.type));
        }
}

static int64_t blocks_of(enum tb_type type, int64_t sides, enum tb_triangular_how how) {
  const struct tb_ways staged = {TB_STAGED, TB_STAGED, TB_STAGED, false, 0, TB_MAY_BE_KEPT};
  const struct tb_call call = {.type = type, .m = 4096, .n = sides, .k = 4096};
  return tb_ceil_div(sides, tb_triangular_block_wish(&call, staged, how));
}

/* Of products of few launches there are more blocks than of steps by halves, so that less is left behind the last one;
 * but none that are too narrow for the kernels. */
static void blocks_that_are_wished(void **state) {
  (void)state;
  assert_int_equal(blocks_of(TB_S, 9216, TB_BY_HALVES), 4);
  assert_int_equal(blocks_of(TB_Z, 9216, TB_BY_HALVES), 6);
  assert_int_equal(blocks_of(TB_C, 9216, TB_BY_PLANES), 12);
  assert_int_equal(blocks_of(TB_D, 9216, TB_BY_DOUBLES), 12);
  assert_int_equal(blocks_of(TB_S, 1152, TB_BY_PLANES), 2);
}

/* A product where A and B lie is one launch behind one that forms A. */
static void one_product_in_place(void **state) {
  const struct tb_ways there = {TB_IN_PLACE, TB_IN_PLACE, TB_IN_PLACE, false, 0, TB_MAY_BE_KEPT};
  (void)state;
  for (int type = TB_S; type <= TB_Z; type++)
    for (int variant = 0; variant < 4; variant++) {
      const int64_t order = variant % 2 ? 9001 : 33;
      const bool on_right = variant / 2;
      struct tb_call call = {.type = (enum tb_type)type, .m = order, .n = order, .k = order, .on_right = on_right};
      struct tb_triangular_plan p;
      call.a = (struct tb_view){.ld = order, .structure = TB_TRIANGULAR, .type = call.type, .uplo = TB_LOWER};
      call.recipe = TB_TRIANGULAR_MULTIPLY;
      call.ldc = order;
      const enum tb_triangular_how how = tb_type_is_double(call.type) ? TB_BY_DOUBLES : TB_BY_PLANES;
      const int64_t block = tb_triangular_block_wish(&call, there, how);
      assert_true(tb_triangular_plan_make(&p, &call, there, how, 128, block, 0, INT64_MAX));
      assert_int_equal(p.blocks, 1);
      assert_int_equal(p.panels, 1);
    }
}

/* Bands of a solve ("LT": side, transposed) whose blocks may have so many columns; 1: it goes in blocks. */
static int64_t bands_beside(enum tb_type type, const char *letters, int64_t order, int64_t sides, int64_t leaf,
                            enum tb_way way_of_a, int64_t most, int64_t budget) {
  const struct tb_ways ways = {way_of_a, TB_STAGED, TB_STAGED, false, 0, TB_MAY_BE_KEPT};
  struct tb_call call = {.type = type, .recipe = TB_TRIANGULAR_SOLVE, .on_right = letters[0] == 'R', .k = order};
  struct tb_triangular_plan p;
  call.m = call.on_right ? sides : order, call.n = call.on_right ? order : sides, call.ldc = call.m;
  call.a = (struct tb_view){.ld = order, .structure = TB_TRIANGULAR, .type = type, .uplo = TB_LOWER};
  call.a.transposed = letters[1] == 'T';
  if (letters[2] == 'm') call.recipe = TB_TRIANGULAR_MULTIPLY;
  const int64_t block = tb_min(most, tb_triangular_block_wish(&call, ways, TB_BY_HALVES));
  assert_true(tb_triangular_plan_make(&p, &call, ways, TB_BY_HALVES, leaf, block, 0, budget));
  return tb_triangular_bands(&p);
}

static int64_t bands_of(enum tb_type type, const char *letters, int64_t order, int64_t sides, int64_t leaf) {
  return bands_beside(type, letters, order, sides, leaf, TB_STAGED, INT64_MAX, INT64_MAX);
}

/* Where the runs that a band has of stored columns are long, and bands have rows enough for a kernel; of the last one
 * the halves, where there is a second one. */
static void bands_that_are_wished(void **state) {
  (void)state;
  assert_int_equal(bands_of(TB_D, "LN", 8192, 8192, 256), 9);
  assert_int_equal(bands_of(TB_S, "LN", 8192, 8192, 256), 5);
  assert_int_equal(bands_of(TB_C, "LN", 7168, 7168, 128), 9);
  assert_int_equal(bands_of(TB_D, "LT", 7168, 7168, 256), 9);
  assert_int_equal(bands_of(TB_Z, "LT", 7167, 7167, 128), 1);
  assert_int_equal(bands_of(TB_Z, "LN", 8192, 8192, 128), 17);
  assert_int_equal(bands_of(TB_D, "LN", 32768, 8192, 256), 17);
  assert_int_equal(bands_of(TB_S, "RT", 4096, 4096, 256), 5); /* runs of A */
  assert_int_equal(bands_of(TB_S, "RN", 4096, 4096, 256), 9);
  assert_int_equal(bands_of(TB_D, "RN", 2048, 2048, 256), 5);
  assert_int_equal(bands_of(TB_D, "RN", 2047, 2047, 256), 1);
  assert_int_equal(bands_of(TB_D, "LN", 7169, 7169, 256), 8); /* the last half would have one row */
  assert_int_equal(bands_of(TB_D, "LT", 7169, 7169, 256), 9); /* and here the first band has fewer */
  assert_int_equal(bands_of(TB_D, "RN", 4097, 4097, 256), 9);
  assert_int_equal(bands_of(TB_D, "RT", 4097, 4097, 256), 8);
  assert_int_equal(bands_of(TB_D, "RNm", 2048, 2048, 256), 1);
  assert_int_equal(bands_of(TB_D, "RN", 2048, 4096, 256), 5);
  assert_int_equal(bands_of(TB_D, "RN", 2048, 4097, 256), 1); /* A is little of what goes up */
  assert_int_equal(bands_beside(TB_D, "RN", 4096, 4096, 256, TB_IN_PLACE, INT64_MAX, INT64_MAX), 1); /* or nothing */
  assert_int_equal(bands_of(TB_S, "RN", 4096, 4096, 128), 9);
  assert_int_equal(bands_of(TB_S, "RN", 4096, 4096, 96), 1); /* tiles of the tensor cores would be others */
  assert_int_equal(bands_of(TB_D, "RN", 4096, 4096, 96), 9);
  assert_int_equal(bands_beside(TB_D, "RN", 4096, 4096, 256, TB_STAGED, INT64_MAX, (int64_t)300 << 20),
                   1); /* no room */
  /* A part has no wider blocks than the whole. */
  assert_int_equal(bands_beside(TB_D, "RN", 4096, 4096, 256, TB_STAGED, TB_TRIANGULAR_BLOCK_STEP, INT64_MAX), 9);
  assert_int_equal(bands_beside(TB_D, "RN", 4096, 4096, 256, TB_STAGED, 32, INT64_MAX), 1);
}

/* A on the right with few rows of B: room for A' and one block, but not for four. */
static void one_place_where_there_is_no_more(void **state) {
  (void)state;
  const struct tb_ways staged = {TB_STAGED, TB_STAGED, TB_STAGED, false, 0, TB_MAY_BE_KEPT};
  struct tb_call call = {.type = TB_C, .m = 112, .n = 126, .k = 126, .ldc = 112, .recipe = TB_TRIANGULAR_MULTIPLY};
  struct tb_triangular_plan p;
  call.on_right = true;
  call.a = (struct tb_view){.ld = 184, .structure = TB_TRIANGULAR, .type = TB_C, .uplo = TB_LOWER};
  assert_true(tb_triangular_plan_make(&p, &call, staged, TB_BY_HALVES, 128,
                                      tb_triangular_block_wish(&call, staged, TB_BY_HALVES), 0, 428 << 10));
  assert_int_equal(p.places, 1);
  assert_true(p.blocks > 1 && p.arena_bytes <= 428 << 10);
  assert_false(tb_triangular_plan_make(&p, &call, staged, TB_BY_HALVES, 128, 112, 0, 300 << 10));
  const struct tb_ways in_place = {TB_IN_PLACE, TB_IN_PLACE, TB_IN_PLACE, false, 0, TB_MAY_BE_KEPT};
  assert_true(tb_triangular_plan_make(&p, &call, in_place, TB_BY_HALVES, 128, 112, 0, 300 << 10));
  assert_int_equal(p.places, 1);
  assert_int_equal(p.streams, 1);
}

/* ---- what is left where B lies ---- */

enum { ORDER = 130, SIDES = 400, LEAF = 64 };

static void compute(const struct tb_call *call) {
  if (call->recipe == TB_MULTIPLY)
    tb_reference_gemm(call);
  else
    tb_reference_triangular(call);
}

/* The streams of a GPU had come so far, of the second block's steps too, or it was what it had been: the rest by others
 * gives what the call gives. `done`: steps of the plan's, from -1, where the block is not alpha B yet. */
static void expect_completed(const struct tb_call *call, const double *b, const double *want, int first, int second) {
  static double x[ORDER * SIDES];
  const struct tb_ways ways = {TB_IN_PLACE, TB_IN_PLACE, TB_IN_PLACE, false, 0, TB_MAY_BE_KEPT};
  const int done[TB_TRIANGULAR_STREAMS] = {first, second};
  struct tb_triangular_progress progress = {.begun = true};
  struct tb_triangular_plan plan;
  struct tb_call mine = *call, rest;
  mine.c = x;
  memcpy(x, b, sizeof x);
  assert_true(tb_triangular_plan_make(&plan, &mine, ways, TB_BY_HALVES, LEAF, 384, 0, INT64_MAX));
  assert_true(plan.places == 0 && plan.blocks == 2);
  for (int64_t block = 0; block < plan.blocks; block++) { /* as the GPU does it */
    const int64_t from = tb_triangular_first(&plan, block), end = from + tb_triangular_size(&plan, block);
    if (done[block] < 0) continue;
    for (int64_t j = from; j < end; j++)
      for (int64_t i = 0; i < ORDER; i++) x[i + j * ORDER] *= mine.alpha.d;
    progress.steps[block] = 1;
    struct tb_triangular_progress stream = {.begun = true, .portion = block, .steps = {1, 1}};
    for (; progress.steps[block] <= done[block]; progress.steps[block]++) {
      assert_true(tb_triangular_take_rest(&plan, &mine, &stream, &rest));
      compute(&rest);
    }
  }
  while (tb_triangular_take_rest(&plan, &mine, &progress, &rest)) compute(&rest);
  for (int64_t i = 0; i < (int64_t)ORDER * SIDES; i++)
    if (x[i] != want[i])
      fail_msg("behind %d and %d steps element %d is %g, not %g", first, second, (int)i, x[i], want[i]);
}

/* Bands of three blocks had come so far: portions before `portion` are committed, and `lines` of its columns. */
static void expect_rest(const struct tb_call *call, const double *b, const double *want, int64_t portion,
                        int64_t lines) {
  static double x[ORDER * SIDES];
  struct tb_triangular_plan plan = {.shape = tb_triangular_shape_of(call, ORDER / 9),
                                    .turns = call->on_right,
                                    .sides = SIDES,
                                    .block = 150,
                                    .blocks = 3,
                                    .places = 3,
                                    .depth = 2,
                                    .halves_last = true};
  struct tb_triangular_progress progress = {.begun = true, .portion = portion, .lines = lines};
  struct tb_call mine = *call, rest;
  mine.c = x;
  memcpy(x, b, sizeof x);
  for (int64_t i = 0; i <= portion && i < tb_triangular_portions(&plan); i++) {
    const struct tb_triangular_rows rows = tb_triangular_rows_of(&plan, tb_triangular_band_of(&plan, i));
    const int64_t first = tb_triangular_first(&plan, tb_triangular_block_of(&plan, i));
    const int64_t sides = tb_triangular_size(&plan, tb_triangular_block_of(&plan, i));
    const int64_t done = i < portion ? INT64_MAX : lines, ends = tb_min(sides, plan.turns ? sides : done);
    const int64_t kept = tb_min(rows.size, plan.turns ? done : rows.size);
    const int64_t from = tb_triangular_is_downward(call) ? rows.first : rows.first + rows.size - kept;
    for (int64_t side = first; side < first + ends; side++)
      for (int64_t row = from; row < from + kept; row++) {
        const int64_t at = plan.turns ? side + row * SIDES : row + side * ORDER;
        x[at] = want[at];
      }
  }
  int calls = 0;
  for (; tb_triangular_take_rest(&plan, &mine, &progress, &rest); calls++) compute(&rest);
  assert_true(calls <= 6);
  for (int64_t i = 0; i < (int64_t)ORDER * SIDES; i++)
    if (x[i] != want[i])
      fail_msg("behind %d portions and %d columns element %d is %g, not %g", (int)portion, (int)lines, (int)i, x[i],
               want[i]);
}

static void what_is_left_of_bands(void **state) {
  static double a[ORDER * ORDER], b[ORDER * SIDES], want[ORDER * SIDES];
  (void)state;
  for (int kind = 0; kind < 4; kind++) {
    const bool right = kind % 2;
    struct tb_call call = {.type = TB_D,
                           .m = right ? SIDES : ORDER,
                           .n = right ? ORDER : SIDES,
                           .k = ORDER,
                           .c = want,
                           .ldc = right ? SIDES : ORDER,
                           .alpha = {.d = 3},
                           .on_right = right,
                           .recipe = TB_TRIANGULAR_SOLVE};
    call.a = (struct tb_view){.data = a, .ld = ORDER, .structure = TB_TRIANGULAR, .type = TB_D};
    call.a.uplo = kind / 2 ? TB_LOWER : TB_UPPER;
    for (int i = 0; i < ORDER; i++)
      for (int j = 0; j < ORDER; j++) a[i + j * ORDER] = i == j ? 1 : (i + 3 * j) % 41 == 0 ? 1 : 0;
    for (int i = 0; i < ORDER * SIDES; i++) b[i] = i % 7 - 3;
    memcpy(want, b, sizeof want);
    tb_reference_triangular(&call);
    for (int64_t portion = 0; portion <= 15; portion += TST_UNLESS_SANITIZED(1, 5))
      for (int64_t lines = 0; lines < (portion == 15 ? 1 : 11); lines += 5) expect_rest(&call, b, want, portion, lines);
  }
}

/* Whole numbers, which are exact: a solve has ones on its diagonal and little beside it. */
static void what_is_left_completes_it(void **state) {
  static double a[ORDER * ORDER], b[ORDER * SIDES], want[ORDER * SIDES];
  (void)state;
  for (int kind = 0; kind < 4; kind++) {
    const bool solves = kind % 2, lower = kind / 2;
    struct tb_call call = {.type = TB_D,
                           .m = ORDER,
                           .n = SIDES,
                           .k = ORDER,
                           .c = want,
                           .ldc = ORDER,
                           .alpha = {.d = 3},
                           .recipe = solves ? TB_TRIANGULAR_SOLVE : TB_TRIANGULAR_MULTIPLY};
    call.a = (struct tb_view){.data = a, .ld = ORDER, .structure = TB_TRIANGULAR, .type = TB_D};
    call.a.uplo = lower ? TB_LOWER : TB_UPPER;
    for (int i = 0; i < ORDER; i++)
      for (int j = 0; j < ORDER; j++) a[i + j * ORDER] = i == j ? 1 : (i + 3 * j) % 41 == 0 ? 1 : 0;
    for (int i = 0; i < ORDER * SIDES; i++) b[i] = i % 7 - 3;
    memcpy(want, b, sizeof want);
    tb_reference_triangular(&call);
    const struct tb_triangular_shape shape = tb_triangular_shape_of(&call, LEAF);
    const int steps = (int)tb_triangular_steps(&shape);
    assert_true(steps > 3);
    for (int first = 0; first <= steps; first += TST_UNLESS_SANITIZED(1, 3))
      for (int second = -1; second <= first; second++) expect_completed(&call, b, want, first, second);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_element_once),
                                     cmocka_unit_test(what_is_left_completes_it),
                                     cmocka_unit_test(one_place_where_there_is_no_more),
                                     cmocka_unit_test(blocks_that_are_wished),
                                     cmocka_unit_test(one_product_in_place),
                                     cmocka_unit_test(blocks_on_the_right_fit_into_slots),
                                     cmocka_unit_test(bands_that_are_wished),
                                     cmocka_unit_test(bands_have_the_same_terms),
                                     cmocka_unit_test(what_is_left_of_bands),
                                     cmocka_unit_test(plans_keep_to_their_budget)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
