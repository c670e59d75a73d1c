/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products of every shape that an edge can have, through every layout and pair of transposes, with whole numbers: there
 * is one right answer whatever the order of summation, so a wrong index, a missing zero fill or a lost edge shows as
 * itself.
 *
 * Seen to fail when: the boundary test of the A load, the B load or the C store is dropped; an operand's transpose is
 * swapped; the leading dimension of a staged tile is taken for the program's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "check.h"
#include "rng.h"

/* The sizes of the production kernels' tiles, each once. */
static const int64_t tiles[] = {
#define TB_SGEMM_TILE(name, block_m, ...) block_m,
#include "fma/registry.def"
#undef TB_SGEMM_TILE
};
#define TILES (sizeof tiles / sizeof tiles[0])

static const char letters[] = {'N', 'T', 'C'};

/* Visits the 2 layouts x 3 x 3 transposes, numbered 0 to 17. */
static void set_layout(struct tst_problem *p, int number) {
  p->row_major = number % 2;
  p->trans_a = letters[number / 2 % 3];
  p->trans_b = letters[number / 6];
}

static void check(int layout, int64_t m, int64_t n, int64_t k, float alpha, float beta, int64_t pad) {
  struct tst_problem p = {.m = m, .n = n, .k = k, .alpha = alpha, .beta = beta};
  set_layout(&p, layout);
  tst_set_leading(&p, pad);
  tst_check(tst_find_symbol("cblas_sgemm"), &p, TST_INTEGERS, (uint64_t)(m * 1000003 + n * 1009 + k));
}

static int64_t edge(int64_t tile, int which) {
  const int64_t sizes[] = {0, 1, tile - 1, tile, tile + 1};
  return sizes[which];
}

/* All combinations of the five edge sizes in m, n and k for the smallest tile. */
static void smallest_tile_every_edge(void **state) {
  (void)state;
  for (int layout = 0; layout < 18; layout++)
    for (int e = 0; e < 5 * 5 * 5; e++) {
      int64_t tile = tiles[TILES - 1];
      check(layout, edge(tile, e % 5), edge(tile, e / 5 % 5), edge(tile, e / 25), 1, 1, 0);
    }
}

/* For each larger tile, all pairs of edges in m and n; k takes its turn among the edges of the tile and of one stage.
 */
static void larger_tiles_every_pair_of_edges(void **state) {
  (void)state;
  const int64_t depths[] = {1, 15, 16, 17, 31, 33, 48};
  int turn = 0;
  for (size_t t = 0; t + 1 < TILES; t++)
    for (int e = 0; e < 5 * 5; e++)
      for (int layout = (int)(t * 7 + (size_t)e) % 3; layout < 18; layout += 3, turn++)
        check(layout, edge(tiles[t], e % 5), edge(tiles[t], e / 5), depths[turn % 7], -1, 2.5f, turn % 2 ? 3 : 4);
}

/* Primes have no factor in common with a tile, a vector of four or a warp. */
static void primes(void **state) {
  (void)state;
  const int64_t sizes[] = {2, 3, 5, 7, 11, 13, 37, 61, 97, 131};
  uint64_t rng = 1;
  for (int layout = 0; layout < 18; layout++)
    for (int i = 0; i < 6; i++) {
      int64_t m = sizes[tst_random_below(&rng, 10)], n = sizes[tst_random_below(&rng, 10)];
      check(layout, m, n, sizes[tst_random_below(&rng, 10)], 2.5f, -1, tst_random_below(&rng, 9));
    }
}

/* One row, one column, one term: the thin shapes, in which a leading dimension may be anything or must not matter. */
static void thin(void **state) {
  (void)state;
  for (int layout = 0; layout < 18; layout++)
    for (int which = 0; which < 3; which++) {
      check(layout, which == 0 ? 1 : 300, which == 1 ? 1 : 7, which == 2 ? 1 : 41, 1, -1, which * 5);
      check(layout, which == 0 ? 300 : 1, which == 1 ? 70 : 1, which == 2 ? 500 : 1, 2, 0, 2);
    }
}

/* Many tiles in every direction, and none of the sizes a multiple of one. */
static void several_tiles_each_way(void **state) {
  (void)state;
  for (int layout = 0; layout < 18; layout += 5) check(layout, 283, 269, 75, -1, 1, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(smallest_tile_every_edge),
      cmocka_unit_test(larger_tiles_every_pair_of_edges),
      cmocka_unit_test(primes),
      cmocka_unit_test(thin),
      cmocka_unit_test(several_tiles_each_way),
  };
  tst_check_setup();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
