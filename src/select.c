/* SPDX-License-Identifier: BSD-3-Clause */
#include "select.h"

#include <stdio.h>

const struct tb_tile tb_tiles[TB_TILE_COUNT] = {
#define TB_SGEMM_TILE(name, bm, bn, bk, stages, tm, tn, ...) \
  {#name, TB_FAMILY_TILE, bm, bn, bk, (bm / tm) * (bn / tn), TB_SGEMM_SHARED_BYTES(bm, bn, bk, stages)},
#include "registry.def"
#undef TB_SGEMM_TILE
};

const struct tb_select_table tb_select_table = {
#define TB_SELECT_TILE(name, full, alone, by_words, block_us) .tile[TB_TILE_##name] = {full, alone, by_words, block_us},
#define TB_SELECT_COST(name, value) .name = value,
#include "select.def"
#undef TB_SELECT_TILE
#undef TB_SELECT_COST
};

enum {
#define TB_SELECT_TILE(...) +1
#define TB_SELECT_COST(...)
  RATED_TILES = 0
#include "select.def"
#undef TB_SELECT_TILE
#undef TB_SELECT_COST
};
_Static_assert((int)RATED_TILES == (int)TB_TILE_COUNT, "select.def has one row for each of kernels/registry.def");

/* Blocks that a split of k gives each SM: few, so that each has much of k, or more, so that no SM is idle for long. */
static const int blocks_wanted[] = {1, 2, 3, 4, 6, 8};
enum { BLOCKS_WANTED = sizeof blocks_wanted / sizeof blocks_wanted[0] };
_Static_assert(TB_TILE_COUNT *(1 + 2 * BLOCKS_WANTED) < TB_CANDIDATES_MAX, "room for one more, the thin kernels");

/* Groups in each part from which on the parts are even enough: one group more or less is at most a sixth. */
#define EVEN_GROUPS 6

/* Bytes of a partial sum that are moved: written, and read again. */
#define PARTIAL_MOVED_BYTES (2 * sizeof(float))

/* Both are small numbers almost always, and processors divide those several times as fast. */
static int64_t quotient(int64_t a, int64_t b) {
  if (((uint64_t)a | (uint64_t)b) >> 32 == 0) return (uint32_t)a / (uint32_t)b;
  return a / b;
}

static int64_t ceil_div(int64_t a, int64_t b) { return quotient(a + b - 1, b); }

int64_t tb_tile_count(const struct tb_tile *tile, int64_t m, int64_t n) {
  return ceil_div(m, tile->block_m) * ceil_div(n, tile->block_n);
}

static const struct tb_split whole = {1, 1, 1};

/* Into at most `splits` parts of whole units. */
static struct tb_split split_units(int64_t units, int64_t splits) {
  struct tb_split s = {.units = units, .per_split = ceil_div(units, splits)};
  s.splits = ceil_div(units, s.per_split);
  return s;
}

struct tb_split tb_split_of(int64_t k, const struct tb_choice *choice) {
  return choice->splits <= 1 ? whole : split_units(ceil_div(k, choice->unit_k), choice->splits);
}

int64_t tb_partials_bytes(int64_t m, int64_t n, int64_t k, const struct tb_choice *choice) {
  struct tb_split s = tb_split_of(k, choice);
  return s.splits > 1 ? s.units * m * n * (int64_t)sizeof(float) : 0;
}

/* ---- the candidates ---- */

struct candidate {
  struct tb_choice choice;
  struct tb_split split;
};

/*
 * Adds the split into at most `splits` parts of whole units, unless it has no more parts than the one that was added
 * last or needs more memory than there is. More parts than that would only be more of the same work on the busiest SM;
 * with fewer, others would be idle.
 */
static int add_split(const struct tb_product *p, int64_t units, int64_t splits, struct tb_choice *c,
                     struct candidate *candidate) {
  struct tb_split s = split_units(units, splits);
  const int last = c->splits;
  c->splits = (int)s.splits;
  if (s.splits < 2 || s.splits == last) return 0;
  if (units * p->m * p->n * (int64_t)sizeof(float) > p->workspace_bytes) return 0;
  *candidate = (struct candidate){*c, s};
  return 1;
}

/* Splits of k for one tile, of which m x n has `tiles`. Between groups; and where there are not enough of them to give
 * the blocks about the same share, between chunks too, which are four times as many sums to store and to add. */
static int add_splits(const struct tb_select_device *device, const struct tb_product *p, int tile, int64_t tiles,
                      struct candidate candidate[2 * BLOCKS_WANTED]) {
  struct tb_choice by_group = {tb_tiles[tile].family, tile, 1, TB_SGEMM_GROUP_K}, by_chunk = by_group;
  by_chunk.unit_k = TB_SGEMM_CHUNK_K;
  const int64_t groups = ceil_div(p->k, TB_SGEMM_GROUP_K), chunks = ceil_div(p->k, TB_SGEMM_CHUNK_K);
  int count = 0;
  int64_t before = 1;
  for (int w = 0; w < BLOCKS_WANTED && before < chunks; w++) {
    if (blocks_wanted[w] > 2 * device->blocks_per_sm[tile]) break; /* two rounds: more would gain little */
    int64_t splits = quotient((int64_t)blocks_wanted[w] * device->sm_count, tiles);
    if (splits <= before) continue;
    before = splits = splits < chunks ? splits : chunks;
    count += add_split(p, groups, splits, &by_group, candidate + count);
    if (chunks < splits * EVEN_GROUPS * (TB_SGEMM_GROUP_K / TB_SGEMM_CHUNK_K))
      count += add_split(p, chunks, splits, &by_chunk, candidate + count);
  }
  return count;
}

static struct candidate whole_k(int tile) {
  return (struct candidate){{tb_tiles[tile].family, tile, 1, TB_SGEMM_GROUP_K}, whole};
}

/* How many parts of k are best thin_plan.c knows; here, whether there is room for the groups' sums. */
static struct tb_choice thin_choice(const struct tb_product *p) {
  struct tb_choice c = {TB_FAMILY_THIN, 0, 1, TB_SGEMM_GROUP_K};
  int64_t groups = ceil_div(p->k, TB_SGEMM_GROUP_K);
  if (groups * p->m * p->n * (int64_t)sizeof(float) <= p->workspace_bytes) c.splits = (int)groups;
  return c;
}

static bool is_thin(const struct tb_select_device *device, const struct tb_product *p) {
  return device->thin && tb_thin_takes(p->m, p->n);
}

int tb_select_candidates(const struct tb_select_device *device, const struct tb_product *p,
                         struct tb_choice candidate[TB_CANDIDATES_MAX]) {
  int count = 0;
  if (is_thin(device, p)) candidate[count++] = thin_choice(p);
  for (int tile = 0; tile < TB_TILE_COUNT; tile++) {
    if (device->blocks_per_sm[tile] == 0) continue;
    candidate[count++] = whole_k(tile).choice;
    if (is_thin(device, p)) continue;
    struct candidate split[2 * BLOCKS_WANTED];
    const int splits = add_splits(device, p, tile, tb_tile_count(&tb_tiles[tile], p->m, p->n), split);
    for (int i = 0; i < splits; i++) candidate[count++] = split[i].choice;
  }
  return count;
}

/* ---- the prediction ---- */

/* What it has in common for all ways to compute a product. */
struct product_costs {
  const struct tb_select_table *table;
  const struct tb_select_device *device;
  const struct tb_product *product;
  double operands_bytes, memory_us;
  double unit_us; /* to move one partial sum of each element */
};

/* And for all ways of one tile. */
struct tile_costs {
  const struct product_costs *product;
  const struct tb_tile_rate *rate;
  int64_t tiles;
  int held;                /* blocks that an SM holds */
  double held_peak_blocks; /* peak_blocks of as many */
  double k_us;             /* of a block for each product along k, with the SM's peak for itself */
};

static double bytes_per_us(const struct tb_select_device *device, double per_cent) {
  return device->bytes_per_us * per_cent / 100;
}

/* Time in which an SM computes this many blocks at once, in blocks that take the whole of its peak. */
static double peak_blocks(const struct tb_tile_rate *rate, int64_t blocks) {
  double together = rate->alone * (double)blocks;
  return (double)blocks * 100 / (together < rate->full ? together : rate->full);
}

static struct product_costs costs_of_product(const struct tb_select_table *table, const struct tb_select_device *device,
                                             const struct tb_product *p) {
  const double m = (double)p->m, n = (double)p->n, k = (double)p->k;
  struct product_costs c = {.table = table, .device = device, .product = p};
  c.operands_bytes = sizeof(float) * (m * k + k * n + m * n);
  c.memory_us = c.operands_bytes / bytes_per_us(device, table->memory);
  c.unit_us = m * n * PARTIAL_MOVED_BYTES / bytes_per_us(device, table->partials);
  return c;
}

static struct tile_costs costs_of_tile(const struct product_costs *c, int tile) {
  const struct tb_tile *t = &tb_tiles[tile];
  const struct tb_product *p = c->product;
  const int by_words = (p->transpose_a || !p->vectors) + (!p->transpose_b || !p->vectors);
  struct tile_costs costs = {.product = c, .rate = &c->table->tile[tile], .held = c->device->blocks_per_sm[tile]};
  costs.tiles = tb_tile_count(t, p->m, p->n);
  costs.held_peak_blocks = peak_blocks(costs.rate, costs.held);
  costs.k_us = (double)t->block_m * t->block_n * (1 + by_words * costs.rate->by_words / 100) / c->device->fma_per_us;
  return costs;
}

static double partials_us(const struct product_costs *c, int64_t units) {
  return c->table->gather_us + (double)units * c->unit_us;
}

static double later(double a_us, double b_us) { return a_us > b_us ? a_us : b_us; }

/* The busiest SM computes its blocks in rounds of as many as it holds. The last round may have fewer, and then the SM
 * is slower than it could be. */
static double tile_us(const struct tile_costs *t, struct tb_split s, int unit_k) {
  const struct product_costs *c = t->product;
  const int64_t block_k = s.splits > 1 ? s.per_split * unit_k : c->product->k;
  const int64_t blocks = ceil_div(t->tiles * s.splits, c->device->sm_count);
  const int64_t rounds = quotient(blocks, t->held), rest = blocks - rounds * t->held;
  double work = (double)rounds * t->held_peak_blocks;
  if (rest > 0) work += peak_blocks(t->rate, rest);
  double compute_us = work * (double)block_k * t->k_us;
  compute_us += (double)(rounds + (rest > 0)) * t->rate->block_us;
  const double us = c->table->launch_us + later(compute_us, c->memory_us);
  return s.splits > 1 ? us + partials_us(c, s.units) : us;
}

/* No split of k into these units takes less: every SM multiplies all the time at its full rate. A little is taken off
 * for what rounding does in the prediction itself. */
static double least_us(const struct tile_costs *t, int64_t units) {
  const struct product_costs *c = t->product;
  double compute_us = (double)t->tiles * (double)c->product->k * t->k_us * 100 / (t->rate->full * c->device->sm_count);
  compute_us += t->rate->block_us;
  return (c->table->launch_us + later(compute_us, c->memory_us) + partials_us(c, units)) * (1 - 1e-9);
}

static double thin_us(const struct product_costs *c) {
  return c->table->thin_us + c->operands_bytes / bytes_per_us(c->device, c->table->thin);
}

double tb_select_predict_us(const struct tb_select_table *table, const struct tb_select_device *device,
                            const struct tb_product *p, const struct tb_choice *choice) {
  const struct product_costs product = costs_of_product(table, device, p);
  if (choice->family == TB_FAMILY_THIN) return thin_us(&product);
  const struct tile_costs tile = costs_of_tile(&product, choice->tile);
  return tile_us(&tile, tb_split_of(p->k, choice), choice->unit_k);
}

/* ---- the choice ---- */

struct best {
  struct tb_choice choice;
  double us;
};

/* Of equals the tile that stands first in the registry, and of its ways the one that is compared first. */
static void compare(struct best *best, const struct tb_choice *choice, double us) {
  const bool first = us == best->us && choice->tile < best->choice.tile && best->choice.family != TB_FAMILY_THIN;
  if (best->choice.family == TB_FAMILY_NONE || us < best->us || first) *best = (struct best){*choice, us};
}

static void compare_splits(struct best *best, const struct tile_costs *t, int tile) {
  const struct tb_product *p = t->product->product;
  struct candidate split[2 * BLOCKS_WANTED];
  const int splits = add_splits(t->product->device, p, tile, t->tiles, split);
  const double by_chunk_us = least_us(t, ceil_div(p->k, TB_SGEMM_CHUNK_K));
  for (int i = 0; i < splits; i++) {
    const struct tb_choice *choice = &split[i].choice;
    if (choice->unit_k == TB_SGEMM_GROUP_K || by_chunk_us < best->us)
      compare(best, choice, tile_us(t, split[i].split, choice->unit_k));
  }
}

/* The most promising tile first, so that the others can be left out. */
static void compare_all_splits(struct best *best, const struct tile_costs tile_costs[TB_TILE_COUNT]) {
  int order[TB_TILE_COUNT], count = 0;
  double least[TB_TILE_COUNT];
  for (int tile = 0; tile < TB_TILE_COUNT; tile++) {
    if (tile_costs[tile].held == 0) continue;
    const double us = least_us(&tile_costs[tile], ceil_div(tile_costs[tile].product->product->k, TB_SGEMM_GROUP_K));
    if (!(us < best->us)) continue;
    int at = count++;
    for (; at > 0 && us < least[at - 1]; at--) least[at] = least[at - 1], order[at] = order[at - 1];
    least[at] = us, order[at] = tile;
  }
  for (int i = 0; i < count && least[i] < best->us; i++) compare_splits(best, &tile_costs[order[i]], order[i]);
}

struct tb_choice tb_select(const struct tb_select_device *device, const struct tb_product *product) {
  const struct product_costs costs = costs_of_product(&tb_select_table, device, product);
  const bool thin = is_thin(device, product);
  struct best best = {.choice = {.family = TB_FAMILY_NONE}};
  if (thin) {
    const struct tb_choice choice = thin_choice(product);
    compare(&best, &choice, thin_us(&costs));
  }
  struct tile_costs tile_costs[TB_TILE_COUNT];
  for (int tile = 0; tile < TB_TILE_COUNT; tile++) {
    tile_costs[tile] = costs_of_tile(&costs, tile);
    if (tile_costs[tile].held == 0) continue;
    const struct candidate one = whole_k(tile);
    compare(&best, &one.choice, tile_us(&tile_costs[tile], one.split, one.choice.unit_k));
  }
  if (!thin) compare_all_splits(&best, tile_costs);
  return best.choice;
}

const char *tb_choice_name(const struct tb_choice *choice) {
  if (choice->family == TB_FAMILY_NONE) return "none";
  return choice->family == TB_FAMILY_THIN ? "thin" : tb_tiles[choice->tile].name;
}

void tb_choice_describe(const struct tb_choice *choice, char *text, size_t size) {
  if (choice->splits > 1 && choice->family != TB_FAMILY_THIN)
    snprintf(text, size, "%s/%d", tb_choice_name(choice), choice->splits);
  else
    snprintf(text, size, "%s", tb_choice_name(choice));
}
