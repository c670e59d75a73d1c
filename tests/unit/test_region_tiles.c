/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tiles of a triangle (kernels/common/region_tiles.h), for D, tiles, bands and diagonals of any kind, against a
 * look at every element: those that have something of it, each once, and no others but where a tile reaches beyond D;
 * in bands, line after line, and along the band within a line. Of a large D, with the kernels' tiles, against a count
 * of each column's tiles.
 *
 * Seen to fail when: a tile that the diagonal only touches is left out; a line's first tile is counted from the band's
 * end; a diagonal outside of D is not the same as one at its corner; a triangle's tiles are counted in 32 bits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <string.h>

#include "wanted.h"

#define TILES_MOST 40
#define SIDES_MOST (INT32_MAX - 511) /* of both together */

struct grid {
  int64_t m, n;
  int tile_m, tile_n, band;
  bool of_rows;
  struct tb_tiles_wanted wanted;
};

/* Whether a tile has something of it; in `reaching`, if it were whole. */
static bool has_some(const struct grid *g, int row, int column, bool reaching) {
  for (int64_t i = (int64_t)row * g->tile_m; i < (int64_t)(row + 1) * g->tile_m; i++)
    for (int64_t j = (int64_t)column * g->tile_n; j < (int64_t)(column + 1) * g->tile_n; j++)
      if ((reaching || (i < g->m && j < g->n)) && tst_is_wanted(g->wanted, i, j)) return true;
  return false;
}

static struct grid random_grid(uint64_t *rng) {
  struct grid g = {.m = 1 + (int64_t)tst_random_below(rng, 60),
                   .n = 1 + (int64_t)tst_random_below(rng, 60),
                   .tile_m = 2 + (int)tst_random_below(rng, 8),
                   .tile_n = 2 + (int)tst_random_below(rng, 8),
                   .band = 1 + (int)tst_random_below(rng, 9),
                   .of_rows = tst_random_below(rng, 2)};
  g.wanted.of = (int32_t)tst_random_below(rng, 3);
  g.wanted.diagonal = (int32_t)((int64_t)tst_random_below(rng, (uint64_t)(g.m + g.n + 1)) - g.n);
  return g;
}

/* Bands are in order, lines within a band, places within a line. */
static int64_t order_of(const struct grid *g, struct tb_tile_place p) {
  return ((int64_t)(p.along / g->band) * TILES_MOST + p.line) * TILES_MOST + p.along;
}

static void check(const struct grid *g) {
  const struct tb_tile_bands bands = tb_tile_bands_of(g->m, g->n, g->tile_m, g->tile_n, g->of_rows, g->band, g->wanted);
  const int64_t count = tb_tiles_count(&bands);
  bool seen[TILES_MOST][TILES_MOST];
  memset(seen, 0, sizeof seen);
  int64_t before = -1;
  struct tb_tile_place last = {-1, -1, 0, 0};
  for (int64_t number = 0; number < count; number++) {
    const struct tb_tile_place p = tb_tile_place_of(&bands, (int)number);
    const struct tb_tile_place walked = tb_tile_place_walked(&bands, (int)number);
    assert_memory_equal(&p, &walked, sizeof p);
    const int row = g->of_rows ? p.along : p.line, column = g->of_rows ? p.line : p.along;
    assert_true(row >= 0 && row * g->tile_m < g->m && column >= 0 && column * g->tile_n < g->n);
    assert_true(has_some(g, row, column, true));
    assert_true(order_of(g, p) > before);
    before = order_of(g, p);
    assert_true(p.number >= 0 && p.number < p.of);
    const bool same_line = number > 0 && p.line == last.line && p.along / g->band == last.along / g->band;
    assert_int_equal(p.number, same_line ? last.number + 1 : 0);
    if (number > 0 && !same_line) assert_int_equal(last.number, last.of - 1);
    seen[row][column] = true;
    last = p;
  }
  for (int row = 0; row * g->tile_m < g->m; row++)
    for (int column = 0; column * g->tile_n < g->n; column++)
      assert_true(seen[row][column] || !has_some(g, row, column, false));
}

static void every_tile_once(void **state) {
  (void)state;
  uint64_t rng = 1;
  for (int i = 0; i < 20000; i++) {
    const struct grid g = random_grid(&rng);
    check(&g);
  }
}

/* So large that its sides together are at the limit, or so that places have each its column's count of tiles. */
static struct grid large_grid(uint64_t *rng) {
  static const int tiles[] = {16, 32, 64, 128, 192};
  const int64_t m = 1 + (int64_t)tst_random_below(rng, 1 << 21), n = 1 + (int64_t)tst_random_below(rng, 1 << 21);
  const bool tall = tst_random_below(rng, 8) == 0, wide = tst_random_below(rng, 8) == 0;
  struct grid g = {.m = tall ? SIDES_MOST - n : m,
                   .n = wide && !tall ? SIDES_MOST - m : n,
                   .tile_m = tiles[tst_random_below(rng, sizeof tiles / sizeof *tiles)],
                   .tile_n = tiles[tst_random_below(rng, sizeof tiles / sizeof *tiles)],
                   .band = 1 + (int)tst_random_below(rng, 12),
                   .of_rows = tst_random_below(rng, 2)};
  g.wanted.of = 1 + (int32_t)tst_random_below(rng, 2);
  g.wanted.diagonal = (int32_t)((int64_t)tst_random_below(rng, (uint64_t)(g.m + g.n + 1)) - g.n);
  return g;
}

/* Of a column of tiles, or of a row of them: from which tile on it has some of the triangle, or up to which. */
static int64_t tiles_beside(const struct grid *g, int64_t along) {
  const bool lower = g->wanted.of == TB_TILES_LOWER;
  const int64_t across = g->of_rows ? (g->n + g->tile_n - 1) / g->tile_n : (g->m + g->tile_m - 1) / g->tile_m;
  int64_t none = lower == g->of_rows ? across : -1, some = lower == g->of_rows ? -1 : across;
  while (none - some > 1 || some - none > 1) { /* the triangle's corner of a tile says whether it has some */
    const int64_t middle = (none + some) / 2, row = g->of_rows ? along : middle, column = g->of_rows ? middle : along;
    const int64_t i = lower ? (row + 1) * g->tile_m - 1 : row * g->tile_m;
    const int64_t j = lower ? column * g->tile_n : (column + 1) * g->tile_n - 1;
    if (tst_is_wanted(g->wanted, i, j))
      some = middle;
    else
      none = middle;
  }
  return lower == g->of_rows ? none : across - some;
}

static void check_large(const struct grid *g, uint64_t *rng) {
  const struct tb_tile_bands bands = tb_tile_bands_of(g->m, g->n, g->tile_m, g->tile_n, g->of_rows, g->band, g->wanted);
  const int64_t count = tb_tiles_count(&bands);
  const int step = bands.along > 1 << 12 ? bands.along / (1 << 8) : 1;
  for (int along = 0, last = 0; along < bands.along; last = along, along += step) {
    assert_int_equal(tb_tiles_ahead(&bands, along + 1) - tb_tiles_ahead(&bands, along), tiles_beside(g, along));
    assert_true(tb_tiles_ahead(&bands, along) >= tb_tiles_ahead(&bands, last));
  }
  if (count == 0 || count > INT32_MAX / 2) return;
  const int numbers[] = {0, (int)count - 1, (int)tst_random_below(rng, (uint64_t)count)};
  for (int i = 0; i < 3; i++) {
    const struct tb_tile_place p = tb_tile_place_of(&bands, numbers[i]);
    const int band = p.along / g->band * g->band;
    assert_true(tb_tiles_ahead(&bands, band) <= numbers[i]);
    assert_true(band + g->band >= bands.along || tb_tiles_ahead(&bands, band + g->band) > numbers[i]);
  }
}

static void large_ones(void **state) {
  (void)state;
  uint64_t rng = 2;
  for (int i = 0; i < 2000; i++) {
    const struct grid g = large_grid(&rng);
    check_large(&g, &rng);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_tile_once), cmocka_unit_test(large_ones)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
