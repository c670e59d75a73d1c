/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which kernel is chosen, and how k is split: for shapes whose best way follows from counting blocks and SMs, and, over
 * random shapes and devices, what must hold of every choice.
 *
 * Seen to fail when: a candidate is left out of the comparison, or of equals the later one is taken; the partial sums
 * are counted without the workspace's limit; rounds of blocks are rounded down; clusters have more blocks than fit; a
 * device without a kernel is offered it; a tile has no clusters.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/integers.h"
#include "select/order.h"
#include "rng.h"
#include "select/family.h"
#include "select/select.h"

#define MIB ((int64_t)1 << 20)

/* Clusters of SMs that come in eight groups of 16 or 18. */
static struct tb_clusters clusters_of_groups(void) {
  struct tb_clusters c = {0};
  for (int size = 2; size <= TB_SGEMM_TOGETHER_MAX; size++)
    for (int held = 1; held <= TB_CLUSTERS_HELD_MAX; held++)
      c.at_once[size][held] = 6 * (16 * held / size) + 2 * (18 * held / size);
  return c;
}

/* An H200 as the driver describes it. */
static struct tb_select_device h200(void) {
  struct tb_select_device d = {.sm_count = 132, .fma_per_us = 128 * 1980.0, .bytes_per_us = 4.9e6};
  d.clusters = clusters_of_groups();
  for (int t = 0; t < TB_TILE_COUNT; t++) d.blocks_per_sm[t] = 512 / tb_tiles[t].threads;
  return d;
}

static struct tb_product product(int64_t m, int64_t n, int64_t k) {
  return (struct tb_product){
      .m = m, .n = n, .k = k, .group_k = tb_group_k(m, n, k), .vectors = true, .workspace_bytes = 64 * MIB};
}

static struct tb_choice chosen(const struct tb_select_device *d, int64_t m, int64_t n, int64_t k) {
  struct tb_product p = product(m, n, k);
  return tb_select(d, &p);
}

/* Of all members: what lies between them has no value. */
static bool are_same(const struct tb_choice *a, const struct tb_choice *b) {
  if (a->family != b->family) return false;
  const struct tb_fma_way *x = &a->fma, *y = &b->fma;
  const struct tb_emulated_way *v = &a->emulated, *w = &b->emulated;
  switch (a->family) {
    case TB_FAMILY_FMA:
      return x->tile == y->tile && x->splits == y->splits && x->unit_k == y->unit_k && x->pack_k == y->pack_k &&
             x->whole_rows == y->whole_rows && x->whole_columns == y->whole_columns;
    case TB_FAMILY_EMULATED:
      return v->splits == w->splits && v->whole == w->whole && v->fast == w->fast && v->span_k == w->span_k;
    default:
      return a->skinny.splits == b->skinny.splits;
  }
}

static int splits_of(const struct tb_choice *c) {
  return c->family == TB_FAMILY_FMA        ? c->fma.splits
         : c->family == TB_FAMILY_EMULATED ? c->emulated.splits
                                           : c->skinny.splits;
}

/* What a product has a tile chosen for. */
static const struct tb_fma_way *tile_of(const struct tb_choice *c) {
  assert_int_equal(c->family, TB_FAMILY_FMA);
  return &c->fma;
}

static struct tb_fma_way selected_tile(const struct tb_select_device *d, const struct tb_product *p) {
  const struct tb_choice c = tb_select(d, p);
  return *tile_of(&c);
}

static struct tb_fma_way chosen_tile(const struct tb_select_device *d, int64_t m, int64_t n, int64_t k) {
  const struct tb_choice c = chosen(d, m, n, k);
  return *tile_of(&c);
}

static bool is_large(const struct tb_fma_way *c) {
  return tb_tiles[c->tile].block_m * tb_tiles[c->tile].block_n >= 128 * 64;
}

static int64_t blocks(const struct tb_fma_way *c, int64_t m, int64_t n, int64_t k) {
  return tb_tile_count(&tb_tiles[c->tile], m, n) * tb_split_k_of(k, c).splits;
}

/* A product with tiles for every SM, many times over: large tiles, for they load least, and k whole. */
static void large_products(void **state) {
  (void)state;
  const int64_t sizes[][3] = {{4096, 4096, 4096}, {8192, 8192, 8192}, {16384, 16384, 16384},
                              {4097, 4097, 4097}, {8192, 8192, 128},  {50257, 1024, 768}};
  struct tb_select_device d = h200();
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    struct tb_fma_way c = chosen_tile(&d, sizes[i][0], sizes[i][1], sizes[i][2]);
    assert_true(is_large(&c));
    assert_int_equal(tb_split_k_of(sizes[i][2], &c).splits, 1);
  }
}

/* Large products have their operands packed, whatever their layout, and then all layouts take the same time; but for
 * that of which all loads are vectors anyway, nor where there is no room for the panels, or little to multiply. */
static void large_products_are_packed(void **state) {
  (void)state;
  struct tb_select_device d = h200();
  struct tb_choice first = {.family = TB_FAMILY_NONE};
  for (int variant = 0; variant < 8; variant++) {
    struct tb_product p = product(8192, 8192, 8192);
    p.transpose_a = variant & 1, p.transpose_b = variant & 2, p.vectors = variant & 4;
    p.workspace_bytes = 16 * 64 * MIB;
    struct tb_choice c = tb_select(&d, &p);
    if (!p.transpose_a && p.transpose_b && p.vectors) continue;
    assert_int_equal(tile_of(&c)->pack_k, 8192);
    if (variant == 0) first = c;
    assert_true(are_same(&c, &first));
    p.workspace_bytes = 256 * MIB;
    p.k = 1 << 20;
    const struct tb_fma_way by_parts = selected_tile(&d, &p);
    assert_true(by_parts.pack_k > 0 && by_parts.pack_k < p.k && by_parts.pack_k % p.group_k == 0);
    p.workspace_bytes = 1 * MIB;
    assert_int_equal(selected_tile(&d, &p).pack_k, 0);
  }
  assert_int_equal(chosen_tile(&d, 256, 256, 256).pack_k, 0);
}

/* Panels that came up are read as they are: nothing is packed, whatever room there is. And packed at once is as much of
 * k as there is room for, but no less than PACK_K_MIN. */
static void what_is_packed_at_once(void **state) {
  (void)state;
  const int64_t least = 1280; /* PACK_K_MIN of fma_plan.c */
  struct tb_product p = product(8192, 8192, 1 << 20);
  p.group_k = 512;
  for (int tile = 0; tile < TB_TILE_COUNT; tile++)
    for (int64_t groups = 0; groups < 3 * least / p.group_k; groups++) {
      p.workspace_bytes = groups * tb_packed_bytes(p.m, p.n, p.group_k);
      p.as_stored = false;
      const int64_t k = groups * p.group_k;
      assert_int_equal(tb_fma_pack_k(&p, tile), tb_tiles[tile].packed && k >= least ? k : 0);
      p.as_stored = true;
      assert_int_equal(tb_fma_pack_k(&p, tile), 0);
    }
}

/* 33 x 33 tiles are four rounds of 264 blocks and an eighth of one: that eighth's k is split, and only its. */
static void a_last_round_is_split(void **state) {
  (void)state;
  struct tb_select_device d = h200();
  for (int t = 0; t < TB_TILE_COUNT; t++)
    if (t != TB_TILE_packed128x128) d.blocks_per_sm[t] = 0;
  struct tb_product p = product(4097, 4097, 4097);
  p.workspace_bytes = 16 * 64 * MIB;
  struct tb_fma_way c = selected_tile(&d, &p);
  struct tb_rest rest = tb_rest_of(p.m, p.n, &c);
  assert_true(c.splits > 1 && c.whole_columns == 32 && c.whole_rows == 0);
  assert_true(rest.first_column == 4096 && rest.n == 1 && rest.first_row == 0 && rest.m == 4097);
  p = product(4097, 2 * 4097, 4097); /* one row is the finer step here */
  p.workspace_bytes = 16 * 64 * MIB;
  c = selected_tile(&d, &p);
  rest = tb_rest_of(p.m, p.n, &c);
  assert_true(rest.m > 0 && rest.n > 0 && rest.first_row + rest.m == p.m && rest.first_column + rest.n == p.n);
  p = product(4096, 4224, 4096); /* 32 x 33 tiles: whole rounds, and nothing left */
  p.workspace_bytes = 16 * 64 * MIB;
  assert_int_equal(selected_tile(&d, &p).splits, 1);
}

/* Few elements and a long k: without a split most SMs would be idle. */
static void long_k_is_split(void **state) {
  (void)state;
  const int64_t sizes[][3] = {{256, 256, 65536}, {183, 147, 7919}, {94, 116, 3475}, {368, 400, 16384}};
  struct tb_select_device d = h200();
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    struct tb_fma_way c = chosen_tile(&d, sizes[i][0], sizes[i][1], sizes[i][2]);
    assert_true(blocks(&c, sizes[i][0], sizes[i][1], sizes[i][2]) > d.sm_count / 2);
    struct tb_select_device one = d; /* with one SM and one block nobody can be idle */
    one.sm_count = 1;
    for (int t = 0; t < TB_TILE_COUNT; t++) one.blocks_per_sm[t] = 1;
    c = chosen_tile(&one, sizes[i][0], sizes[i][1], sizes[i][2]);
    assert_int_equal(c.splits, 1);
  }
}

/* What a group computes cannot be split, and what takes a few microseconds should not be. */
static void short_k_is_not_split(void **state) {
  (void)state;
  struct tb_select_device d = h200();
  const int64_t sizes[][3] = {{1, 1, 1}, {64, 64, 64}, {300, 300, 32}, {1000, 1, 100}};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    struct tb_fma_way c = chosen_tile(&d, sizes[i][0], sizes[i][1], sizes[i][2]);
    assert_int_equal(c.splits, 1);
    assert_int_equal(c.tile, TB_TILE_32x32); /* one round of blocks whatever the tile: the one with the least to do */
  }
}

static void without_workspace_no_split(void **state) {
  (void)state;
  struct tb_select_device d = h200();
  struct tb_product p = product(256, 256, 65536);
  p.workspace_bytes = 0;
  assert_int_equal(selected_tile(&d, &p).splits, 1);
  p.workspace_bytes = 4 * 256 * 256 * tb_ceil_div(65536, p.group_k); /* each group's sum, to the byte */
  assert_true(selected_tile(&d, &p).splits > 1);
  p.workspace_bytes--;
  assert_int_equal(selected_tile(&d, &p).splits, 1);
}

static void devices_that_lack_kernels(void **state) {
  (void)state;
  struct tb_select_device d = h200(), none = {.sm_count = 132, .fma_per_us = 1, .bytes_per_us = 1};
  assert_int_equal(chosen(&none, 100, 100, 100).family, TB_FAMILY_NONE);
  for (int t = 0; t < TB_TILE_COUNT; t++) { /* the only one that is there, whatever the shape */
    struct tb_select_device only = none;
    only.blocks_per_sm[t] = 1;
    assert_int_equal(chosen_tile(&only, 4096, 4096, 4096).tile, t);
    assert_int_equal(chosen_tile(&only, 3, 5, 70000).tile, t);
    struct tb_select_device others = d;
    others.blocks_per_sm[t] = 0;
    assert_true(chosen_tile(&others, 4096, 4096, 4096).tile != t);
  }
  assert_int_equal(chosen(&d, 4096, 4096, 4096).family, TB_FAMILY_FMA);
}

/* A matrix times a few columns is limited by memory, and the tiles would compute mostly padding. */
static void skinny_products(void **state) {
  (void)state;
  struct tb_select_device d = h200();
  assert_int_equal(chosen(&d, 4096, 1, 4096).family == TB_FAMILY_SKINNY, false); /* not there */
  d.skinny = true;
  assert_int_equal(chosen(&d, 4096, 1, 4096).family, TB_FAMILY_SKINNY);
  assert_int_equal(chosen(&d, TB_SKINNY_COLUMNS_MAX, 4096, 4096).family, TB_FAMILY_SKINNY);
  assert_true(chosen(&d, 4096, TB_SKINNY_COLUMNS_MAX + 1, 4096).family != TB_FAMILY_SKINNY);
}

/* ---- the tensor cores ---- */

/* Written out: a change in src/select/emulated_plan.h must fail a test. */
enum { EMULATED_K_MIN = 128 };

static struct tb_select_device with_tensor_cores(void) {
  struct tb_select_device d = h200();
  d.emulated = true;
  return d;
}

static struct tb_product emulated_product(int64_t m, int64_t n, int64_t k) {
  struct tb_product p = product(m, n, k);
  p.emulated = true, p.workspace_bytes = 16 * 1024 * MIB;
  return p;
}

/* How many candidates are for the tensor cores; the first of them, which is the first of all, has k whole. */
static int emulated_candidates(const struct tb_select_device *d, const struct tb_product *p,
                               struct tb_choice candidate[TB_CANDIDATES_MAX]) {
  const int count = tb_select_candidates(d, p, candidate);
  int split = 0;
  for (int c = 0; c < count; c++) {
    if (candidate[c].family != TB_FAMILY_EMULATED) continue;
    assert_int_equal(c, split);
    assert_true((candidate[c].emulated.splits == 1) == (c == 0));
    split++;
  }
  return split;
}

static bool may_split(const struct tb_select_device *d, const struct tb_product *p) {
  struct tb_choice candidate[TB_CANDIDATES_MAX];
  const int count = emulated_candidates(d, p, candidate);
  if (count == 0) assert_true(tb_select(d, p).family != TB_FAMILY_EMULATED);
  return count > 0;
}

/* Large products take the tensor cores, whatever their layout, and small ones do not: they would wait for five
 * launches.
 */
static void large_products_take_tensor_cores(void **state) {
  (void)state;
  const struct tb_select_device d = with_tensor_cores();
  for (int variant = 0; variant < 16; variant++) {
    struct tb_product p = emulated_product(4096, 4096, 4096);
    p.transpose_a = variant & 1, p.transpose_b = variant & 2, p.vectors = variant & 4, p.fast = variant & 8;
    const struct tb_choice c = tb_select(&d, &p);
    assert_true(c.family == TB_FAMILY_EMULATED && c.emulated.fast == p.fast);
    assert_string_equal(tb_choice_name(&c), p.fast ? "emulated-fast" : "emulated");
  }
  const struct tb_product small = emulated_product(128, 192, 256);
  assert_true(may_split(&d, &small) && tb_select(&d, &small).family == TB_FAMILY_FMA);
}

/* Spans of k are for products of 512 tiles and more, with k for two of them and more: written out as above. */
static void spans_want_tiles(void **state) {
  (void)state;
  const int64_t k = 2 * 4096 + 1, m = TB_EMULATED_TILE_M, n = TB_EMULATED_TILE_N;
  assert_int_equal(tb_emulated_span_k(16 * m, 32 * n, k - 1), k - 1);
  assert_true(tb_emulated_span_k(16 * m, 32 * n, k) < k);
  assert_true(tb_emulated_span_k(7 * m + 1, 63 * n + 1, k) < k);
  assert_int_equal(tb_emulated_span_k(7 * m, 73 * n, k), k); /* 511 */
}

/* Not where plain fp32 was asked for, nor on a GPU without such kernels, nor for a short k. */
static void tensor_cores_that_may_not_be_used(void **state) {
  (void)state;
  const struct tb_select_device d = with_tensor_cores(), without = h200();
  const int64_t depths[] = {1, 32, EMULATED_K_MIN - 1, EMULATED_K_MIN, 20000};
  for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
    struct tb_product p = emulated_product(8192, 8192, depths[i]);
    assert_int_equal(may_split(&d, &p), depths[i] >= EMULATED_K_MIN);
    assert_false(may_split(&without, &p));
    p.emulated = false;
    assert_false(may_split(&d, &p));
    p.fast = true;
    assert_false(may_split(&d, &p));
  }
}

/* Each way to the byte. */
static void tensor_cores_want_workspace(void **state) {
  (void)state;
  const struct tb_select_device d = with_tensor_cores();
  struct tb_product p = emulated_product(4096, 4096, 4096);
  struct tb_choice all[TB_CANDIDATES_MAX], some[TB_CANDIDATES_MAX];
  const int count = emulated_candidates(&d, &p, all);
  assert_true(count > 2);
  for (int c = 0; c < count; c++) {
    p.workspace_bytes = tb_workspace_bytes(p.m, p.n, p.k, &all[c]);
    assert_true(emulated_candidates(&d, &p, some) > c && are_same(&some[c], &all[c]));
    p.workspace_bytes--;
    const int fewer = emulated_candidates(&d, &p, some);
    for (int i = 0; i < fewer; i++) assert_false(are_same(&some[i], &all[c]));
    if (c == 0) assert_false(may_split(&d, &p));
  }
}

/* 32 x 22 tiles are five rounds of 132 and 44 more: only those have k split, into parts that give each SM one, or two.
 */
static void rest_tiles_have_k_split(void **state) {
  (void)state;
  const struct tb_select_device d = with_tensor_cores();
  struct tb_choice c[TB_CANDIDATES_MAX];
  struct tb_product p = emulated_product(4096, 4096, 6 * 1024);
  assert_int_equal(emulated_candidates(&d, &p, c), 3);
  assert_true(c[1].emulated.splits == 3 && c[1].emulated.whole == 660 && c[2].emulated.splits == 6 &&
              c[2].emulated.whole == 660);
  char text[32];
  tb_choice_describe(&c[1], text, sizeof text);
  assert_string_equal(text, "emulated/3+");
  p = emulated_product(300, 500, 6 * 1024); /* no whole round: all tiles */
  assert_int_equal(emulated_candidates(&d, &p, c), 2);
  assert_true(c[1].emulated.splits == 6 && c[1].emulated.whole == 0);
  const struct tb_choice choice = tb_select(&d, &p);
  assert_true(splits_of(&choice) > 1);
  p.k = 1024; /* one group is never split */
  assert_int_equal(emulated_candidates(&d, &p, c), 1);
  p = emulated_product(12 * 128, 11 * 192, 6 * 1024); /* one round, and nothing left */
  assert_int_equal(emulated_candidates(&d, &p, c), 1);
}

/* ---- what holds of all ---- */

static int64_t random_size(uint64_t *rng) { return 1 + tst_random_below(rng, (int64_t)1 << tst_random_below(rng, 17)); }

static struct tb_product random_product(uint64_t *rng) {
  struct tb_product p = product(random_size(rng), random_size(rng), random_size(rng));
  p.transpose_a = tst_random_below(rng, 2), p.transpose_b = tst_random_below(rng, 2);
  p.vectors = tst_random_below(rng, 2);
  if (tst_random_below(rng, 2)) p.group_k = TB_SGEMM_CHUNK_K * (2 + tst_random_below(rng, 15)); /* a part's */
  p.workspace_bytes = tst_random_below(rng, 3) * tst_random_below(rng, 64 * MIB);
  p.emulated = tst_random_below(rng, 2), p.fast = tst_random_below(rng, 2);
  if (p.emulated) p.workspace_bytes *= 16; /* the operands are packed twice */
  return p;
}

static struct tb_select_device random_device(uint64_t *rng) {
  struct tb_select_device d = h200();
  d.sm_count = (int)(1 + tst_random_below(rng, 200));
  for (int t = 0; t < TB_TILE_COUNT; t++) d.blocks_per_sm[t] = (int)tst_random_below(rng, 9);
  d.blocks_per_sm[tst_random_below(rng, TB_TILE_packed128x128)] = 1; /* one that wants no workspace */
  d.skinny = tst_random_below(rng, 2), d.emulated = tst_random_below(rng, 2);
  if (tst_random_below(rng, 2)) d.clusters = (struct tb_clusters){0};
  return d;
}

/* On the tensor cores: only where both sides allow it, in the workspace there is; no block without work, and k split
 * for the tiles of the last round alone. */
static void check_split_candidate(const struct tb_select_device *d, const struct tb_product *p,
                                  const struct tb_choice *choice) {
  const struct tb_emulated_way *c = &choice->emulated;
  const int64_t span_k = tb_emulated_span_k(p->m, p->n, p->k);
  const int64_t tiles = (p->m + 127) / 128 * ((p->n + 191) / 192), groups = (span_k + 1023) / 1024;
  assert_true(d->emulated && p->emulated && p->k >= EMULATED_K_MIN && c->fast == p->fast);
  assert_true(tb_workspace_bytes(p->m, p->n, p->k, choice) <= p->workspace_bytes);
  assert_true(c->span_k == span_k);
  if (c->splits == 1) {
    assert_int_equal(c->whole, 0);
    return;
  }
  const int64_t per_split = (groups + c->splits - 1) / c->splits, most = d->sm_count < 160 ? d->sm_count : 160,
                at_once = most / 2 * 2; /* pairs of blocks */
  assert_true(c->splits > 1 && per_split * (c->splits - 1) < groups);
  assert_true(c->whole < tiles && c->whole % at_once == 0 && tiles - c->whole < at_once);
}

static void check_candidate(const struct tb_select_device *d, const struct tb_product *p,
                            const struct tb_choice *choice) {
  if (choice->family == TB_FAMILY_SKINNY) {
    assert_true(d->skinny && tb_skinny_takes(p->m, p->n) && p->group_k == TB_SGEMM_GROUP_K);
    assert_true(choice->skinny.splits == 1 || tb_workspace_bytes(p->m, p->n, p->k, choice) <= p->workspace_bytes);
    return;
  }
  if (choice->family == TB_FAMILY_EMULATED) {
    check_split_candidate(d, p, choice);
    return;
  }
  const struct tb_fma_way *c = tile_of(choice);
  assert_true(d->blocks_per_sm[c->tile] > 0);
  struct tb_split_k s = tb_split_k_of(p->k, c);
  assert_int_equal(s.splits, c->splits); /* nobody is without work */
  if (c->splits > 1) assert_true(c->unit_k == TB_SGEMM_CHUNK_K || c->unit_k == p->group_k);
  assert_true(s.units <= s.per_split * s.splits && s.units > s.per_split * (s.splits - 1));
  assert_true(c->splits == 1 || s.units * c->unit_k >= p->k);
  assert_int_equal(c->pack_k > 0, tb_tiles[c->tile].packed);
  const struct tb_rest rest = tb_rest_of(p->m, p->n, c);
  assert_true(rest.m > 0 && rest.n > 0 && (c->whole_rows == 0 || c->whole_columns == 0));
  assert_true(c->whole_rows + c->whole_columns == 0 || (c->splits > 1 && c->pack_k == p->k));
  assert_true(c->pack_k == 0 || c->pack_k == p->k || (c->pack_k % p->group_k == 0 && c->splits == 1));
  assert_true(tb_workspace_bytes(p->m, p->n, p->k, choice) <= p->workspace_bytes || (c->splits == 1 && c->pack_k == 0));
}

/* Products are the same when all is the same that a choice can depend on. */
static void products_that_are_the_same(void **state) {
  (void)state;
  const struct tb_product p = {
      .m = 5, .n = 6, .k = 7, .group_k = 512, .vectors = true, .emulated = true, .workspace_bytes = 8};
  struct tb_product other[11];
  for (int i = 0; i < 11; i++) other[i] = p;
  other[0].m++, other[1].n++, other[2].k++, other[3].workspace_bytes++;
  other[4].transpose_a = other[5].transpose_b = other[6].as_stored = other[7].fast = true;
  other[8].vectors = other[9].emulated = false;
  other[10].group_k *= 2;
  for (int i = 0; i < 11; i++) assert_false(tb_product_is(&p, &other[i]) || tb_product_is(&other[i], &p));
  other[0] = p;
  assert_true(tb_product_is(&p, &other[0]));
}

/* Every candidate can be launched, none is there twice, and of those that are predicted to be fastest the first is
 * chosen: what the selector leaves out to save time it may leave out. */
static void any_product_any_device(void **state) {
  (void)state;
  uint64_t rng = 1;
  int split = 0, most = 0, tensor_cores = 0;
  for (int i = 0; i < 20000; i++) {
    struct tb_product p = random_product(&rng);
    struct tb_select_device d = random_device(&rng);
    struct tb_choice candidate[TB_CANDIDATES_MAX], choice = tb_select(&d, &p);
    const int count = tb_select_candidates(&d, &p, candidate);
    assert_in_range(count, 1, TB_CANDIDATES_MAX);
    double best_us = INFINITY;
    int best = 0;
    for (int c = 0; c < count; c++) {
      check_candidate(&d, &p, &candidate[c]);
      double us = tb_select_predict_us(&tb_select_table, &d, &p, &candidate[c]);
      assert_true(us > 0);
      if (us < best_us) best_us = us, best = c;
      for (int before = 0; before < c; before++) assert_false(are_same(&candidate[before], &candidate[c]));
    }
    assert_true(are_same(&choice, &candidate[best]));
    struct tb_choice again = tb_select(&d, &p);
    assert_true(are_same(&choice, &again));
    split += splits_of(&choice) > 1, tensor_cores += choice.family == TB_FAMILY_EMULATED;
    most = count > most ? count : most;
  }
  assert_true(split > 1000 && tensor_cores > 100 && most > 2 * TB_TILE_COUNT); /* there was something to choose from */
}

/* More work never takes less time, nor do fewer SMs make it shorter; with a larger workspace nothing gets slower. */
static void predictions_are_monotone(void **state) {
  (void)state;
  uint64_t rng = 2;
  for (int i = 0; i < 20000; i++) {
    struct tb_product p = random_product(&rng), more = p;
    struct tb_select_device d = random_device(&rng), fewer = d;
    fewer.sm_count = (d.sm_count + 1) / 2;
    const int tile = (int)tst_random_below(&rng, TB_TILE_COUNT);
    struct tb_choice whole = {.family = TB_FAMILY_FMA, .fma = {.tile = tile, .splits = 1, .unit_k = (int)p.group_k}};

    if (d.blocks_per_sm[tile] == 0) continue;
    more.m += random_size(&rng), more.k += random_size(&rng);
    whole.fma.pack_k = tb_fma_pack_k(&p, tile);
    if (tb_tiles[tile].packed && (whole.fma.pack_k == 0 || tb_fma_pack_k(&more, tile) == 0)) continue;
    double us = tb_select_predict_us(&tb_select_table, &d, &p, &whole);
    assert_true(us <= tb_select_predict_us(&tb_select_table, &d, &more, &whole));
    const double rounding = 1 + 1e-12; /* blocks that do not get into each other's way take as long as one */
    assert_true(us <= tb_select_predict_us(&tb_select_table, &fewer, &p, &whole) * rounding);
    struct tb_product roomy = p;
    roomy.workspace_bytes += 8 * MIB;
    struct tb_choice best = tb_select(&d, &p), with_room = tb_select(&d, &roomy);
    assert_true(tb_select_predict_us(&tb_select_table, &d, &roomy, &with_room) <=
                tb_select_predict_us(&tb_select_table, &d, &p, &best));
  }
}

/* They are, where no cluster waits for room that its blocks would find one by one; in all tiles. */
static void parts_are_together(void **state) {
  (void)state;
  const struct tb_clusters clusters = clusters_of_groups(), none = {0};
  static const struct {
    int splits, per_split, tiles, held, expected;
  } cases[] = {
      {2, 1, 1000, 3, 3},                   /* pairs, in several rounds */
      {2, 1, 66, 3, 1},   {3, 1, 84, 3, 2}, /* 252 blocks of 264, and no cluster more */
      {3, 1, 86, 3, 0},   {4, 1, 93, 4, 3}, {7, 1, 16, 4, 1}, {7, 1, 18, 4, 0},   {8, 1, 16, 8, 1},
      {9, 1, 1, 8, 0},    {2, 2, 66, 3, 0}, {1, 1, 66, 3, 0}, {4, 1, 1000, 4, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct tb_split_k split = {(int64_t)cases[i].splits * cases[i].per_split, cases[i].per_split,
                                     cases[i].splits};
    const int64_t tiles = cases[i].tiles;
    assert_int_equal(tb_split_k_together(&split, &clusters, true, tiles, 132, cases[i].held), cases[i].expected);
    assert_int_equal(tb_split_k_together(&split, &clusters, false, tiles, 132, cases[i].held), 0);
    assert_int_equal(tb_split_k_together(&split, &none, true, tiles, 132, cases[i].held), 0);
  }
  const struct tb_select_device with = h200();
  struct tb_select_device without = with;
  memset(&without.clusters, 0, sizeof without.clusters);
  for (int tile = 0; tile < TB_TILE_COUNT; tile++) {
    const struct tb_tile *t = &tb_tiles[tile];
    const struct tb_product p = {.m = 2 * t->block_m,
                                 .n = 2 * t->block_n,
                                 .k = 560,
                                 .group_k = 80,
                                 .vectors = true,
                                 .workspace_bytes = 64 * MIB}; /* four clusters of seven blocks always have room */
    const struct tb_choice choice = {.family = TB_FAMILY_FMA,
                                     .fma = {.tile = tile, .splits = 7, .unit_k = 80, .pack_k = t->packed ? p.k : 0}};
    const double with_us = tb_select_predict_us(&tb_select_table, &with, &p, &choice);
    const double without_us = tb_select_predict_us(&tb_select_table, &without, &p, &choice);
    assert_true(with_us < without_us);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_are_together),
      cmocka_unit_test(large_products),
      cmocka_unit_test(large_products_are_packed),
      cmocka_unit_test(what_is_packed_at_once),
      cmocka_unit_test(a_last_round_is_split),
      cmocka_unit_test(long_k_is_split),
      cmocka_unit_test(short_k_is_not_split),
      cmocka_unit_test(without_workspace_no_split),
      cmocka_unit_test(devices_that_lack_kernels),
      cmocka_unit_test(skinny_products),
      cmocka_unit_test(large_products_take_tensor_cores),
      cmocka_unit_test(spans_want_tiles),
      cmocka_unit_test(tensor_cores_that_may_not_be_used),
      cmocka_unit_test(tensor_cores_want_workspace),
      cmocka_unit_test(rest_tiles_have_k_split),
      cmocka_unit_test(products_that_are_the_same),
      cmocka_unit_test(any_product_any_device),
      cmocka_unit_test(predictions_are_monotone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
