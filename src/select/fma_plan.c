/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/fma_plan.h"

#include <math.h>

#include "select/fma_splits.h"
#include "select/skinny_plan.h"

_Static_assert(TB_TILE_COUNT *(1 + 4 * BLOCKS_WANTED) <= TB_FMA_CANDIDATES_MAX, "room for every split of every tile");

/* Elements of a large tile's blocks on an SM. */
#define SUMS_OF_SM (2 * 128.0 * 128)

/* Bytes of a partial sum that are moved: written, and read again. */
#define PARTIAL_MOVED_BYTES (2 * sizeof(float))

/* Of all tiles, without a division: the compiler knows what divides. */
static void count_tiles(int64_t m, int64_t n, int64_t tiles[TB_TILE_COUNT]) {
#define TB_SGEMM_TILE(name, bm, bn, ...) tiles[TB_TILE_##name] = tb_ceil_div(m, bm) * tb_ceil_div(n, bn);
#include "fma/registry.def"
#undef TB_SGEMM_TILE
}

/* ---- the candidates ---- */

/* For so many units of a split k, beside packed operands of so many bytes. */
static bool have_room(const struct tb_product *p, int64_t units, int64_t packed_bytes) {
  return units * p->m * p->n * (int64_t)sizeof(float) <= p->workspace_bytes - packed_bytes;
}

/* Shorter parts would have D read and written too often beside their products. */
#define PACK_K_MIN 1280

int64_t tb_fma_pack_k(const struct tb_product *p, int tile) {
  if (!tb_tiles[tile].packed || p->as_stored) return 0;
  if (tb_packed_bytes(p->m, p->n, p->k) <= p->workspace_bytes) return p->k;
  const int64_t groups = p->workspace_bytes / tb_packed_bytes(p->m, p->n, p->group_k);
  return groups * p->group_k < PACK_K_MIN ? 0 : groups * p->group_k;
}

/* Whether this device can compute this product by this tile, for which it would pack so much of k at once. */
static bool can_run(const struct tb_select_device *device, int tile, int64_t pack_k) {
  return device->blocks_per_sm[tile] > 0 && (!tb_tiles[tile].packed || pack_k > 0);
}

/* What packed operands take up beside the partial sums of a split k, for which all of k is packed at once. */
static int64_t packed_bytes_of_split(const struct tb_product *p, int64_t pack_k) {
  if (pack_k == 0) return 0;
  return pack_k < p->k ? p->workspace_bytes : tb_packed_bytes(p->m, p->n, p->k);
}

/* Where the skinny kernels are there no split is as good. */
static bool may_split(const struct tb_select_device *device, const struct tb_product *p) {
  return !tb_skinny_is_for(device, p);
}

static struct tb_choice choice_of_way(struct tb_fma_way way) {
  return (struct tb_choice){.family = TB_FAMILY_FMA, .fma = way};
}

int tb_fma_candidates(const struct tb_select_device *device, const struct tb_product *p, struct tb_choice candidate[]) {
  int count = 0;
  for (int tile = 0; tile < TB_TILE_COUNT; tile++) {
    const int64_t pack_k = tb_fma_pack_k(p, tile);
    if (!can_run(device, tile, pack_k)) continue;
    candidate[count++] = choice_of_way(tile_way(tile, 1, products_of(p, GROUPS), pack_k));
    if (!may_split(device, p)) continue;
    const int64_t tiles = tb_tile_count(&tb_tiles[tile], p->m, p->n);
    for (int u = 0; u < UNITS; u++) {
      struct tb_split_k split;
      struct rest_splitter rest;
      if (rest_splits_of(device, p, tile, pack_k, u, &rest))
        while (next_rest(&rest, &split)) candidate[count++] = choice_of_way(rest.way);
      struct splitter s = splits_of(device, p, u, tile, tiles);
      if (!have_room(p, s.units, packed_bytes_of_split(p, pack_k))) continue;
      while (next_split(&s, &split))
        candidate[count++] = choice_of_way(tile_way(tile, split.splits, products_of(p, u), pack_k));
    }
  }
  return count;
}

/* ---- the prediction ---- */

/* What it has in common for all ways to compute a product. */
struct product_costs {
  const struct tb_select_table *table;
  const struct tb_select_device *device;
  const struct tb_product *product;
  double memory_us;          /* to move the operands and the result */
  double packed_moved_bytes; /* of the operands, read and written again */
  double unit_us;            /* to move one partial sum of each element */
  int64_t units[UNITS];      /* that k has */
  double sums_us[UNITS];     /* that a split into them takes at least beside its products; infinite: there is none */
};

/* And for all ways of one tile. */
struct tile_costs {
  const struct product_costs *product;
  const struct tb_tile_rate *rate;
  int64_t tiles;
  int held;                /* blocks that an SM holds; 0: this product is not for this tile */
  int64_t pack_k;          /* what is packed at once; 0: nothing */
  double pack_us;          /* that packing takes */
  double held_peak_blocks; /* peak_blocks of as many */
  double sum_us;           /* of a round of blocks for a sum that each stores */
  double k_us;             /* of a block for each product along k, with the SM's peak for itself */
  double peak_us;          /* of all blocks, with one per cent of the peak of all SMs */
};

static double bytes_per_us(const struct tb_select_device *device, double per_cent) {
  return device->bytes_per_us * per_cent / 100;
}

/* The rate that an SM's blocks reach together, in per cent of its peak. */
static inline double rate_of(const struct tb_tile_rate *rate, int64_t blocks) {
  const double together = rate->alone * (double)blocks, bend = rate->full * rate->knee / 100;
  const double over = together - (rate->full - bend);
  if (over <= 0) return together;
  return over < 2 * bend ? together - over * over / (4 * bend) : rate->full;
}

/* Time in which an SM computes this many blocks at once, in blocks that take the whole of its peak. */
static inline double peak_blocks(const struct tb_tile_rate *rate, int64_t blocks) {
  return (double)blocks * 100 / rate_of(rate, blocks);
}

static double partials_us(const struct product_costs *c, int64_t units) {
  return c->table->gather_us + (double)units * (c->table->wait_us + c->unit_us);
}

/* What a split of a tile's takes beside its products. */
static inline double split_k_sums_us(const struct tile_costs *t, struct tb_split_k s, int unit_k) {
  const struct product_costs *c = t->product;
  const int together = tb_split_k_together(&s, &c->device->clusters, unit_k == c->product->group_k, t->tiles,
                                           c->device->sm_count, t->held);
  return together > 0 ? c->table->together_us : partials_us(c, s.units);
}

static struct product_costs costs_of_product(const struct tb_select_table *table, const struct tb_select_device *device,
                                             const struct tb_product *p) {
  const double m = (double)p->m, n = (double)p->n, k = (double)p->k;
  struct product_costs c = {.table = table, .device = device, .product = p};
  const double operands_bytes = sizeof(float) * (m * k + k * n + m * n);
  c.packed_moved_bytes = 2 * sizeof(float) * k * (m + n);
  c.memory_us = operands_bytes / bytes_per_us(device, table->memory);
  c.unit_us = m * n * PARTIAL_MOVED_BYTES / bytes_per_us(device, table->partials);
  for (int u = 0; u < UNITS; u++) {
    c.units[u] = units_of(p, u);
    c.sums_us[u] = c.units[u] > 1 && have_room(p, c.units[u], 0) ? partials_us(&c, c.units[u]) : INFINITY;
    if (c.sums_us[u] > table->together_us && c.sums_us[u] < INFINITY) c.sums_us[u] = table->together_us;
  }
  return c;
}

static inline struct tile_costs costs_of_tile(const struct product_costs *c, int tile, int64_t tiles) {
  const struct tb_tile *t = &tb_tiles[tile];
  const struct tb_product *p = c->product;
  struct tile_costs costs = {.product = c, .rate = &c->table->tile[tile], .tiles = tiles};
  if (t->packed) {
    costs.pack_k = tb_fma_pack_k(p, tile);
    costs.pack_us = c->table->pack_us + c->packed_moved_bytes / bytes_per_us(c->device, c->table->pack);
    costs.k_us = (double)t->block_m * t->block_n / c->device->fma_per_us;
  } else {
    const int along_k = p->transpose_a + !p->transpose_b, by_words = p->vectors ? 0 : 2 - along_k;
    const double more = (along_k * costs.rate->along_k + by_words * costs.rate->by_words) / 100;
    costs.k_us = (double)t->block_m * t->block_n * (1 + more) / c->device->fma_per_us;
  }
  costs.held = can_run(c->device, tile, costs.pack_k) ? c->device->blocks_per_sm[tile] : 0;
  costs.sum_us = c->table->group_us * costs.held * (double)(t->block_m * t->block_n) / SUMS_OF_SM;
  costs.held_peak_blocks = costs.held > 0 ? peak_blocks(costs.rate, costs.held) : 0; /* not 0 / 0 */
  costs.peak_us = (double)tiles * (double)p->k * costs.k_us * 100 / c->device->sm_count;
  return costs;
}

/* What a round of blocks takes to store so many sums, beside the last one's store. */
static double more_sums_us(const struct tile_costs *t, int64_t sums) { return (double)(sums - 1) * t->sum_us; }

static double later(double a_us, double b_us) { return a_us > b_us ? a_us : b_us; }
static double sooner(double a_us, double b_us) { return a_us < b_us ? a_us : b_us; }

/* peak_blocks of those that are left when an SM has computed rounds of all that it holds. They begin one by one, as
 * blocks of the last round end, and so some of their work is done at the rate of a full SM. */
static double rest_peak_blocks(const struct tile_costs *t, int64_t rounds, int64_t rest) {
  const double alone = peak_blocks(t->rate, rest);
  if (rounds == 0) return alone;
  const double among_others = (double)rest * t->held_peak_blocks / t->held;
  return alone + (among_others - alone) * t->product->table->overlap / 100;
}

/* The busiest SM computes its blocks in rounds of as many as it holds. The last round may have fewer, the rest, and
 * then the SM is slower than it could be. */
static double rounds_us(const struct tile_costs *t, int64_t rounds, int64_t rest, int64_t block_k, double more_us) {
  const struct product_costs *c = t->product;
  double work = (double)rounds * t->held_peak_blocks;
  if (rest > 0) work += rest_peak_blocks(t, rounds, rest);
  double compute_us = work * (double)block_k * t->k_us;
  compute_us += (double)(rounds + (rest > 0)) * (t->rate->block_us + more_us);
  return c->table->launch_us + t->pack_us + later(compute_us, c->memory_us);
}

static double tile_us(const struct tile_costs *t, struct tb_split_k s, int unit_k) {
  const struct product_costs *c = t->product;
  const int64_t block_k = s.splits > 1 ? s.per_split * unit_k : c->product->k;
  const int64_t blocks = tb_ceil_div(t->tiles * s.splits, c->device->sm_count);
  const int64_t rounds = tb_quotient(blocks, t->held);
  const double more_us = more_sums_us(t, s.splits > 1 ? s.per_split : c->units[GROUPS]);
  const double us = rounds_us(t, rounds, blocks - rounds * t->held, block_k, more_us);
  return s.splits > 1 ? us + split_k_sums_us(t, s, unit_k) : us;
}

/*
 * Whole rounds, of k_us and rate as ever, and the parts of what is left, which come to the SMs as those get free: so
 * that altogether they take the time of all tiles, and a part's more, or as long as the rounds of the whole ones.
 */
static double rest_us(const struct tile_costs *t, struct tb_split_k s, const struct tb_fma_way *way) {
  const struct product_costs *c = t->product;
  const struct tb_product *p = c->product;
  const struct tb_rest rest = tb_rest_of(p->m, p->n, way);
  const int64_t left = tb_tile_count(&tb_tiles[way->tile], rest.m, rest.n);
  const int64_t at_once = (int64_t)t->held * c->device->sm_count, rounds = tb_ceil_div(t->tiles - left, at_once);
  const double round_us =
      t->held_peak_blocks * (double)p->k * t->k_us + t->rate->block_us + more_sums_us(t, c->units[GROUPS]);
  const double part_us = t->held_peak_blocks * (double)(s.per_split * way->unit_k) * t->k_us + t->rate->block_us +
                         more_sums_us(t, s.per_split);
  const double share_us = (double)t->tiles / (double)at_once * round_us + part_us;
  const double sums = (double)(rest.m * rest.n) / ((double)p->m * (double)p->n) * (double)s.units;
  return 2 * c->table->launch_us + t->pack_us + later(later((double)rounds * round_us, share_us), c->memory_us) +
         c->table->gather_us + (double)s.units * c->table->wait_us + sums * c->unit_us;
}

/* The same for one of next_split's, without the partial sums: the busiest SM has at most so many blocks. */
static inline double split_k_us(const struct tile_costs *t, struct tb_split_k s, int unit_k, int blocks) {
  while ((int64_t)(blocks - 1) * t->product->device->sm_count >= t->tiles * s.splits) blocks--;
  const int64_t rounds = tb_quotient(blocks, t->held);
  const double more_us = more_sums_us(t, s.per_split);
  return rounds_us(t, rounds, blocks - rounds * t->held, s.per_split * unit_k, more_us);
}

/* No split of k that gives an SM at most so many blocks takes less: each multiplies all the time at the rate of as many
 * blocks. A little is taken off for what rounding does in the prediction itself. */
static double least_us(const struct tile_costs *t, int blocks, double sums_us) {
  const struct product_costs *c = t->product;
  const double compute_us = t->peak_us / rate_of(t->rate, blocks) + t->rate->block_us;
  return (c->table->launch_us + t->pack_us + later(compute_us, c->memory_us) + sums_us) * (1 - 1e-9);
}

double tb_fma_predict_us(const struct tb_select_table *table, const struct tb_select_device *device,
                         const struct tb_product *p, const struct tb_choice *choice) {
  const struct tb_fma_way *way = &choice->fma;
  const struct product_costs product = costs_of_product(table, device, p);
  const struct tile_costs tile = costs_of_tile(&product, way->tile, tb_tile_count(&tb_tiles[way->tile], p->m, p->n));
  const struct tb_split_k split = tb_split_k_of(p->k, way);
  if (way->whole_rows + way->whole_columns > 0) return rest_us(&tile, split, way);
  return tile_us(&tile, split, way->unit_k);
}

/* ---- the choice ---- */

/* The quickest way so far; until one of ours is, another family's time. No union: the compiler keeps it in registers.
 */
struct best_way {
  struct tb_fma_way way;
  double us;
  bool ours, nobodys;
};

/* Of equals the tile that stands first in the registry, and of its ways the one that is compared first. */
static void compare(struct best_way *best, struct tb_fma_way way, double us) {
  const bool first = us == best->us && best->ours && way.tile < best->way.tile;
  if (best->nobodys || us < best->us || first) *best = (struct best_way){way, us, true, false};
}

static void compare_splits(struct best_way *best, const struct tile_costs *t, int tile, int unit) {
  const struct product_costs *c = t->product;
  struct splitter s = splits_of(c->device, c->product, unit, tile, t->tiles);
  if (t->pack_k > 0 && !have_room(c->product, c->units[unit], packed_bytes_of_split(c->product, t->pack_k))) return;
  if (!(least_us(t, s.most, c->sums_us[unit]) < best->us)) return;
  while (s.next < BLOCKS_WANTED && !(least_us(t, blocks_wanted[s.next], c->sums_us[unit]) < best->us)) s.next++;
  for (struct tb_split_k split; next_split(&s, &split);) {
    const int unit_k = products_of(c->product, unit);
    const double us = split_k_us(t, split, unit_k, blocks_wanted[s.next - 1]) + split_k_sums_us(t, split, unit_k);
    if (us < best->us || (us == best->us && best->ours && tile < best->way.tile))
      *best = (struct best_way){tile_way(tile, split.splits, unit_k, t->pack_k), us, true, false};
  }
}

/* The most promising tile first, so that the others can be left out. */
static void compare_all_splits(struct best_way *best, const struct tile_costs tile_costs[TB_TILE_COUNT],
                               double least_sums_us) {
  int order[TB_TILE_COUNT], count = 0;
  double least[TB_TILE_COUNT];
  for (int tile = 0; tile < TB_TILE_COUNT; tile++) {
    if (tile_costs[tile].held == 0) continue;
    const double us = least_us(&tile_costs[tile], tile_costs[tile].held, least_sums_us);
    if (!(us < best->us)) continue;
    int at = count++;
    for (; at > 0 && us < least[at - 1]; at--) least[at] = least[at - 1], order[at] = order[at - 1];
    least[at] = us, order[at] = tile;
  }
  for (int i = 0; i < count && least[i] < best->us; i++) {
    for (int u = 0; u < UNITS; u++) compare_splits(best, &tile_costs[order[i]], order[i], u);
  }
}

static void compare_rests(struct best_way *best, const struct tile_costs *t, int tile) {
  const struct product_costs *c = t->product;
  for (int u = 0; u < UNITS; u++) {
    struct rest_splitter rest;
    struct tb_split_k split;
    if (!rest_splits_of(c->device, c->product, tile, t->pack_k, u, &rest)) continue;
    while (next_rest(&rest, &split)) compare(best, rest.way, rest_us(t, split, &rest.way));
  }
}

void tb_fma_offer(const struct tb_select_device *device, const struct tb_product *product, struct tb_best *all) {
  struct best_way best = {.us = all->us, .nobodys = all->choice.family == TB_FAMILY_NONE};
  const struct product_costs costs = costs_of_product(&tb_select_table, device, product);
  const bool splits = may_split(device, product);
  struct tile_costs tile_costs[TB_TILE_COUNT];
  int64_t tiles[TB_TILE_COUNT];
  count_tiles(product->m, product->n, tiles);
  for (int tile = 0; tile < TB_TILE_COUNT; tile++) {
    tile_costs[tile] = costs_of_tile(&costs, tile, tiles[tile]);
    if (tile_costs[tile].held == 0) continue;
    const struct tb_fma_way way = tile_way(tile, 1, products_of(product, GROUPS), tile_costs[tile].pack_k);
    compare(&best, way, tile_us(&tile_costs[tile], tb_whole_k, way.unit_k));
    if (splits && tb_tiles[tile].packed) compare_rests(&best, &tile_costs[tile], tile);
  }
  const double least_sums_us = sooner(costs.sums_us[0], costs.sums_us[1]);
  if (splits && least_sums_us < best.us) compare_all_splits(&best, tile_costs, least_sums_us);
  if (best.ours) *all = (struct tb_best){choice_of_way(best.way), best.us};
}
