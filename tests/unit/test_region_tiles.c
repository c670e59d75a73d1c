/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tiles of a triangle (kernels/common/region_tiles.h), for D, tiles, bands and diagonals of any kind, against a
 * look at every element: those that have something of it, each once, and no others but where a tile reaches beyond D;
 * in bands, line after line, and along the band within a line.
 *
 * Seen to fail when: a tile that the diagonal only touches is left out; a line's first tile is counted from the band's
 * end; a diagonal outside of D is not the same as one at its corner.
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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_tile_once)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
