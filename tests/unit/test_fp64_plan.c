/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How products in double precision are spread over a GPU: every plan covers the product, keeps to the GPU's limits and
 * to the memory it is given; groups depend on the shape alone; on an H200 large products take the largest tile whole,
 * few tiles are split, and the predictions are near what was measured; strips along edges, and rests that do not fill a
 * round, are taken where they pay, and make the product with what is left; cuts that are kept are their products'.
 *
 * Seen to fail when: the rounded-up groups of a split leave an empty part; splits are taken without memory for them;
 * blocks are more than the GPU holds; a shape's group is no multiple of a step.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <string.h>

#include "base/integers.h"
#include "rng.h"
#include "select/fp64_plan.h"

static const struct tb_fp64_device h200 = {132, 232448, 233472, true, 66.9e12, 4.8e12};
static const struct tb_fp64_device t4 = {40, 65536, 65536, false, 0.25e12, 0.32e12};

static void check(const struct tb_fp64_plan *p, const struct tb_fp64_device *device, int64_t partials_bytes) {
  const struct tb_fp64_tile *const t = &tb_fp64_tiles[p->tile];
  const int64_t groups = tb_ceil_div(p->k, p->group_k);
  assert_true(p->tiles == tb_ceil_div(p->m, t->block_m) * tb_ceil_div(p->n, t->block_n));
  assert_true(p->whole >= 0 && p->whole <= p->tiles && (p->splits > 1 || p->whole == p->tiles));
  assert_true(p->jobs == p->whole + (p->tiles - p->whole) * p->splits);
  assert_true((int64_t)p->splits * p->groups_per_split >= groups); /* all groups are computed, and no part is empty */
  assert_true((int64_t)(p->splits - 1) * p->groups_per_split < groups);
  assert_true(p->blocks >= 1 && p->blocks <= p->jobs && p->blocks <= (int64_t)device->sm_count * t->blocks);
  assert_true(p->shared_bytes <= device->block_shared_bytes && p->shared_bytes >= t->stage_bytes);
  if (p->whole > 0 && groups > 1) assert_true(p->shared_bytes >= t->stage_bytes + t->sum_bytes);
  assert_true(p->partials_bytes <= partials_bytes);
  if (p->splits > 1)
    assert_true(p->partials_bytes == (p->tiles - p->whole) * groups * (t->complex ? 16 : 8) * t->block_m * t->block_n);
  assert_true(p->seconds > 0 && p->seconds < 1e9);
}

/* The pieces are the product, each element once. */
static void check_cut(const struct tb_fp64_cut *cut, int64_t m, int64_t n) {
  int64_t elements = 0;
  for (int i = 0; i < cut->count; i++) {
    const struct tb_fp64_piece *const p = &cut->piece[i];
    elements += p->plan.m * p->plan.n;
    assert_true(p->row >= 0 && p->plan.m > 0 && p->row + p->plan.m <= m);
    assert_true(p->column >= 0 && p->plan.n > 0 && p->column + p->plan.n <= n);
    for (int other = 0; other < i; other++) {
      const struct tb_fp64_piece *const q = &cut->piece[other];
      assert_true(p->row >= q->row + q->plan.m || q->row >= p->row + p->plan.m || p->column >= q->column + q->plan.n ||
                  q->column >= p->column + p->plan.n);
    }
  }
  assert_int_equal(elements, m * n);
}

static int64_t random_size(uint64_t *rng) {
  return 1 + (int64_t)tst_random_below(rng, 1u << (1 + tst_random_below(rng, 16)));
}

static void every_plan_covers_its_product(void **state) {
  (void)state;
  uint64_t rng = 1;
  for (int i = 0; i < 3000; i++) {
    const int64_t m = random_size(&rng), n = random_size(&rng), k = random_size(&rng);
    const struct tb_fp64_device *const device = i % 2 ? &h200 : &t4;
    const int64_t bytes = i % 3 == 0 ? 0 : INT64_C(1) << (10 + tst_random_below(&rng, 25));
    const bool complex = i / 2 % 2;
    const int group_k = i % 5 ? tb_fp64_group_k(complex, m, n, k) : 16 * (1 + (int)tst_random_below(&rng, 100));
    struct tb_fp64_plan plan;
    const struct tb_fp64_product product = {complex, i / 4 % 2, m, n, k, group_k, {0}};
    assert_true(tb_fp64_plan_make(&plan, device, &product, bytes));
    assert_true(plan.complex == complex && plan.units == product.units && tb_fp64_tiles[plan.tile].complex == complex);
    assert_true(plan.m == m && plan.n == n && plan.k == k && plan.group_k == group_k);
    check(&plan, device, bytes);
    struct tb_fp64_cut cut;
    assert_true(tb_fp64_cut_make(&cut, device, &product, bytes));
    check_cut(&cut, m, n);
    for (int j = 0; j < cut.count; j++) check(&cut.piece[j].plan, device, bytes);
    const int tile = (int)tst_random_below(&rng, TB_FP64_TILE_COUNT), splits = 1 + (int)tst_random_below(&rng, 9);
    if (tb_fp64_plan_way(&plan, device, tile, (int64_t)tst_random_below(&rng, 3), splits)) {
      assert_true(plan.tile == tile);
      check(&plan, device, INT64_MAX);
    } /* else there are not so many tiles or groups, or it does not fit */
  }
}

/* The bits of products rest on these: they change with the order of summation alone. */
static void groups_are_the_shapes(void **state) {
  (void)state;
  static const struct {
    bool complex;
    int64_t m, n, k;
    int group_k;
  } rows[] = {{false, 8192, 8192, 8192, 2048},
              {true, 8192, 8192, 8192, 1024},
              {false, 8192, 8192, 8191, 1024},
              {true, 8192, 8192, 8191, 512},
              {false, 2048, 2048, 2048, 1024},
              {true, 2048, 2048, 2048, 512},
              {false, 512, 512, 512, 512},
              {true, 512, 512, 512, 512},
              {false, 3072, 768, 3072, 768},
              {true, 3072, 768, 3072, 312},
              {false, 513, 512, 100000, 2048},
              {true, 513, 512, 100000, 1024},
              {false, 256, 256, 65536, 2048},
              {true, 256, 256, 65536, 1024},
              {false, 64, 64, 4096, 64},
              {true, 64, 64, 4096, 64},
              {false, 1, 1, 1, 16},
              {true, 1, 1, 1, 8},
              {false, 119, 430, 309, 80},
              {true, 119, 430, 309, 80},
              {false, 64, 64, 1073741824, 2048},
              {true, 64, 64, 1073741824, 1024},
              {false, 2147482623, 1, 5, 16},
              {true, 2147482623, 1, 5, 8},
              {false, 4096, 4096, 127, 128},
              {true, 4096, 4096, 127, 128},
              {false, 353, 863, 1242, 416},
              {true, 353, 863, 1242, 416}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const int group_k = tb_fp64_group_k(rows[i].complex, rows[i].m, rows[i].n, rows[i].k);
    if (group_k != rows[i].group_k) fail_msg("row %zu: groups of %d, not %d", i, group_k, rows[i].group_k);
  }
  uint64_t rng = 2;
  for (int i = 0; i < 2000; i++) {
    const int64_t m = random_size(&rng), n = random_size(&rng), k = random_size(&rng);
    const bool complex = i % 2;
    const int group_k = tb_fp64_group_k(complex, m, n, k), step = TB_FP64_GROUP_STEP_K >> complex;
    assert_true(group_k > 0 && group_k % step == 0 && group_k <= 2048 >> complex);
    assert_true(group_k >= 64 >> complex || group_k >= k);
    assert_true(group_k < k + step); /* no longer than k is */
    const int of_more_columns = tb_fp64_group_k(complex, m, 64 * n, k);
    assert_int_equal(group_k, tb_fp64_group_k(complex, m, n, k)); /* whatever was asked before */
    assert_true(tb_fp64_group_k(complex, m + 1, n, k) > 0);
    assert_int_equal(of_more_columns, tb_fp64_group_k(complex, m, 64 * n, k));
  }
}

static bool make(struct tb_fp64_plan *plan, const struct tb_fp64_device *device, int64_t m, int64_t n, int64_t k,
                 int group_k, int64_t bytes) {
  return tb_fp64_plan_make(plan, device, &(struct tb_fp64_product){false, true, m, n, k, group_k, {0}}, bytes);
}

static void what_an_h200_takes(void **state) {
  (void)state;
  /* Milliseconds: tests/gpu/fp64_bench, one H200 at up to 1.98 GHz. */
  static const struct {
    int64_t m, n, k;
    double ms;
  } rows[] = {{8192, 8192, 8192, 19.5},  {4096, 4096, 4096, 2.40}, {2048, 2048, 2048, 0.295},
              {1024, 1024, 1024, 0.041}, {512, 512, 512, 0.0106},  {256, 256, 65536, 0.169}};
  struct tb_fp64_plan plan;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const int group_k = tb_fp64_group_k(false, rows[i].m, rows[i].n, rows[i].k);
    const struct tb_fp64_product product = {false, true, rows[i].m, rows[i].n, rows[i].k, group_k, {0}};
    assert_true(tb_fp64_plan_make(&plan, &h200, &product, 1 << 29));
    const double ratio = plan.seconds * 1e3 / rows[i].ms;
    if (!(ratio > 0.8 && ratio < 1.25)) fail_msg("row %zu: predicted over measured time %.2f", i, ratio);
  }
  assert_int_equal(plan.tile, TB_FP64_d128x128); /* 4 tiles for 132 SMs */
  assert_true(plan.splits >= 16);
  assert_true(make(&plan, &h200, 8192, 8192, 8192, 2048, 0));
  assert_true(plan.tile == TB_FP64_d128x128 && plan.splits == 1 && plan.blocks == 132);
}

/* Large tiles, which have an SM for themselves, but for a short k: that is over when such a tile is to be stored. Ways
 * and milliseconds: of complex elements bench/types, two H200s, at the board's power; of reals tests/gpu/fp64_bench. */
static void what_an_h200_takes_by_which_tiles(void **state) {
  (void)state;
  static const struct {
    bool complex, units;
    int64_t m, n, k;
    int tile;
    double ms;
    int splits; /* 0: any */
  } rows[] = {{true, true, 8192, 8192, 8192, TB_FP64_z128x64, 76.2, 0},
              {true, true, 4096, 4096, 4096, TB_FP64_z128x64, 9.70, 0},
              {true, true, 2048, 2048, 2048, TB_FP64_z128x64, 1.21, 0},
              {true, true, 4953, 7413, 77, TB_FP64_z64x64, 0.555, 0},
              {true, true, 361, 7128, 114, TB_FP64_z64x64, 0.069, 0},
              {true, true, 749, 1151, 144, TB_FP64_z64x64, 0.0303, 0},
              {false, true, 3626, 1239, 250, TB_FP64_d64x64, 0.0615, 0},
              {false, false, 4097, 4097, 4097, TB_FP64_d128x128, 2.76, 0},
              {false, false, 4569, 5318, 3856, TB_FP64_d128x128, 3.55, 0},
              {false, false, 1047, 1782, 2484, TB_FP64_d128x128, 0.206, 0},
              {false, false, 7197, 7230, 185, TB_FP64_d64x64, 0.511, 0},
              {false, false, 257, 1260, 665, TB_FP64_d64x64, 0.0196, 0},
              {false, false, 161, 135, 177, TB_FP64_d32x32, 0.0057, 1}}; /* 0.0066 by two parts of k and a gather */
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct tb_fp64_plan plan;
    const int group_k = tb_fp64_group_k(rows[i].complex, rows[i].m, rows[i].n, rows[i].k);
    const struct tb_fp64_product product = {rows[i].complex, rows[i].units, rows[i].m, rows[i].n,
                                            rows[i].k,       group_k,       {0}};
    assert_true(tb_fp64_plan_make(&plan, &h200, &product, 1 << 29));
    if (plan.tile != rows[i].tile) fail_msg("row %zu: tile %s", i, tb_fp64_tiles[plan.tile].name);
    if (rows[i].splits > 0) assert_int_equal(plan.splits, rows[i].splits);
    const double ratio = plan.seconds * 1e3 / rows[i].ms;
    if (!(ratio > 0.8 && ratio < 1.25)) fail_msg("row %zu: predicted over measured time %.2f", i, ratio);
  }
}

/* Where the last tiles would lie beyond an edge for the most part, or leave most of the last round empty, a strip has
 * tiles of its own; of products below 100 us none has. */
static void strips_along_edges(void **state) {
  (void)state;
  static const struct {
    bool complex, units;
    int64_t m, n, k;
    int pieces;
  } rows[] = {
      {false, true, 5000, 5000, 5000, 3},  {false, true, 4000, 4000, 4000, 3}, {false, true, 3000, 3000, 3000, 2},
      {false, false, 4097, 4097, 4097, 2}, {true, true, 5000, 5000, 5000, 3},  {false, true, 4096, 4096, 4096, 1},
      {false, true, 6000, 6000, 6000, 1},  {false, true, 2000, 2000, 2000, 1}, {false, true, 100, 100, 5000, 1},
      {false, true, 1450, 1450, 4000, 2},  {false, true, 1450, 1450, 800, 1},  {false, true, 3072, 768, 3072, 2},
      {false, true, 1500, 1500, 1500, 2},  {true, true, 690, 2226, 1170, 2},   {false, true, 2844, 896, 1298, 2},
      {false, true, 3584, 3584, 512, 1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const int64_t m = rows[i].m, n = rows[i].n, k = rows[i].k;
    struct tb_fp64_product product = {
        rows[i].complex, rows[i].units, m, n, k, tb_fp64_group_k(rows[i].complex, m, n, k), {0}};
    struct tb_fp64_plan whole;
    struct tb_fp64_cut cut;
    assert_true(tb_fp64_plan_make(&whole, &h200, &product, 1 << 29));
    assert_true(tb_fp64_cut_make(&cut, &h200, &product, 1 << 29));
    if (cut.count != rows[i].pieces) fail_msg("row %zu: %d pieces", i, cut.count);
    check_cut(&cut, m, n);
    assert_true(cut.count == 1 ? cut.seconds == whole.seconds : cut.seconds < 0.985 * whole.seconds);
    product.wanted = (struct tb_tiles_wanted){.of = TB_TILES_LOWER};
    assert_true(tb_fp64_cut_make(&cut, &h200, &product, 1 << 29) && cut.count == 1);
  }
}

/* Of a GPU that says nothing of its rates all products take for ever, and none is refused. */
static void rates_that_are_not_known(void **state) {
  (void)state;
  struct tb_fp64_device unknown = h200;
  unknown.bytes_per_second = 0, unknown.flops_per_second = 0;
  const struct tb_fp64_product product = {false, true, 1500, 1500, 1500, 1024, {0}};
  struct tb_fp64_cut cut;
  assert_true(tb_fp64_cut_make(&cut, &unknown, &product, 1 << 29) && cut.count == 1);
  check_cut(&cut, 1500, 1500);
}

static bool same_cut(const struct tb_fp64_cut *x, const struct tb_fp64_cut *y) {
  bool same = x->count == y->count && x->seconds == y->seconds;
  for (int i = 0; same && i < x->count; i++) {
    const struct tb_fp64_plan *const p = &x->piece[i].plan, *const q = &y->piece[i].plan;
    same = x->piece[i].row == y->piece[i].row && x->piece[i].column == y->piece[i].column;
    same &= p->m == q->m && p->n == q->n && p->k == q->k && p->group_k == q->group_k && p->units == q->units;
    same &= p->complex == q->complex && p->wanted.of == q->wanted.of;
    same &= p->tile == q->tile && p->splits == q->splits && p->jobs == q->jobs && p->whole == q->whole;
    same &= p->tiles == q->tiles && p->blocks == q->blocks && p->groups_per_split == q->groups_per_split;
    same &= p->shared_bytes == q->shared_bytes && p->partials_bytes == q->partials_bytes && p->seconds == q->seconds;
  }
  return same;
}

static void find_what_is_made(const struct tb_fp64_device *device, const struct tb_fp64_product *product,
                              int64_t room_bytes) {
  struct tb_fp64_cut made, found;
  assert_true(tb_fp64_cut_make(&made, device, product, room_bytes));
  for (int time = 0; time < 2; time++) /* by the second it is kept */
    assert_true(tb_fp64_cut_find(&found, device, product, room_bytes) && same_cut(&made, &found));
}

static struct tb_fp64_product product_of(bool complex, bool units, int64_t m, int64_t n, int64_t k) {
  return (struct tb_fp64_product){complex, units || complex, m, n, k, tb_fp64_group_k(complex, m, n, k), {0}};
}

/* Behind each variant of a product, which have one place, comes one that differs from it in one thing. */
static void find_variants(int64_t m, int64_t n, int64_t k) {
  struct tb_fp64_device half = h200;
  half.sm_count /= 2, half.flops_per_second /= 2;
  for (unsigned number = 0; number < 128; number++) {
    const unsigned v = number ^ number >> 1;
    struct tb_fp64_product product = product_of(v & 8, v & 2, m, n, k);
    if (v & 16) product.group_k *= 2;
    if (v & 32) product.wanted.of = TB_TILES_LOWER;
    if (v & 64) product.wanted.diagonal = -200;
    find_what_is_made(v & 1 ? &h200 : &half, &product, v & 4 ? 1 << 29 : 0);
  }
}

/* A cut that is found is the one that would be made, behind others with its place, and more than are kept. */
static void kept_cuts_are_their_products(void **state) {
  (void)state;
  static const int64_t sides[] = {300, 768, 1500, 3072};
  enum { SIDES = sizeof sides / sizeof *sides };
  for (int i = 0; i < SIDES * SIDES * SIDES; i++)
    find_variants(sides[i % SIDES], sides[i / SIDES % SIDES], sides[i / SIDES / SIDES]);
  for (int64_t side = 100; side < 3000; side += 10) {
    const struct tb_fp64_product of_n = product_of(false, true, 1500, side, 2000),
                                 of_m = product_of(true, true, side, 500, 700),
                                 of_k = product_of(false, true, 1000, 1000, side);
    find_what_is_made(&h200, &of_n, 1 << 29);
    find_what_is_made(&h200, &of_m, 1 << 29);
    find_what_is_made(&h200, &of_k, 1 << 29);
  }
}

/* Finds a product with room and without, in turns, each in several sizes: these have one set, which has not so many
 * places. */
static void *find_in_turns(void *unused) {
  (void)unused;
  enum { ROOMS = 8 };
  const struct tb_fp64_product product = product_of(false, true, 128, 128, 4000); /* quickly planned */
  int64_t room_bytes[ROOMS];
  struct tb_fp64_cut made[ROOMS], found;
  for (int i = 0; i < ROOMS; i++) {
    room_bytes[i] = (i % 2 << 29) + i;
    if (!tb_fp64_cut_make(&made[i], &h200, &product, room_bytes[i])) return "refused";
  }
  for (int i = 0; i < 100000; i++) {
    const int room = i % ROOMS;
    if (!tb_fp64_cut_find(&found, &h200, &product, room_bytes[room])) return "refused";
    if (!same_cut(&found, &made[room])) return "another";
  }
  return NULL;
}

static void kept_cuts_are_for_all_threads(void **state) {
  (void)state;
  pthread_t thread[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&thread[i], NULL, find_in_turns, NULL), 0);
  for (int i = 0; i < 4; i++) {
    void *said;
    assert_int_equal(pthread_join(thread[i], &said), 0);
    if (said != NULL) fail_msg("%s", (const char *)said);
  }
}

static void refused(void **state) {
  (void)state;
  struct tb_fp64_plan plan;
  struct tb_fp64_device small = h200;
  const int64_t most = INT32_MAX - 1023;
  assert_true(make(&plan, &h200, most, 1, 1, 1024, 0));
  assert_false(make(&plan, &h200, most + 1, 1, 1, 1024, 0));
  assert_false(make(&plan, &h200, 1, most + 1, 1, 1024, 0));
  assert_false(make(&plan, &h200, 1, 1, most + 1, 1024, 0));
  small.block_shared_bytes = 40 << 10;
  assert_true(make(&plan, &small, 1000, 1000, 5000, 1024, 0));
  small.block_shared_bytes = 40 << 10, small.block_shared_bytes -= 1;
  assert_false(make(&plan, &small, 1000, 1000, 5000, 1024, 0));
  plan = (struct tb_fp64_plan){.m = 200, .n = 200, .k = 1000, .group_k = 512};
  assert_false(tb_fp64_plan_way(&plan, &h200, TB_FP64_d128x128, 0, 3)); /* two groups */
  assert_false(tb_fp64_plan_way(&plan, &h200, TB_FP64_d128x128, 4, 2)); /* all tiles whole, and yet split */
  assert_true(tb_fp64_plan_way(&plan, &h200, TB_FP64_d128x128, 3, 2));
}

static void arguments_are_the_plans(void **state) {
  (void)state;
  struct tb_fp64_plan plan = {.m = 300, .n = 200, .k = 1000, .group_k = 256};
  assert_true(tb_fp64_plan_way(&plan, &h200, TB_FP64_d128x128, 4, 2));
  struct tb_fp64_args args = {.alpha = 3, .lda = 7};
  tb_fp64_arguments(&args, &plan);
  assert_true(args.m == 300 && args.n == 200 && args.k == 1000 && args.group_k == 256 && args.whole == 4);
  assert_true(args.jobs == 8 && args.groups_per_split == 2 && args.alpha == 3 && args.lda == 7);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_plan_covers_its_product),
      cmocka_unit_test(groups_are_the_shapes),
      cmocka_unit_test(what_an_h200_takes),
      cmocka_unit_test(what_an_h200_takes_by_which_tiles),
      cmocka_unit_test(strips_along_edges),
      cmocka_unit_test(rates_that_are_not_known),
      cmocka_unit_test(kept_cuts_are_their_products),
      cmocka_unit_test(kept_cuts_are_for_all_threads),
      cmocka_unit_test(refused),
      cmocka_unit_test(arguments_are_the_plans),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
