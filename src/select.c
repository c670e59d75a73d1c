/* SPDX-License-Identifier: BSD-3-Clause */
#include "select.h"

#include <stdio.h>

const struct tb_tile tb_tiles[TB_TILE_COUNT] = {
#define TB_SGEMM_TILE(name, bm, bn, bk, stages, tm, tn, ...) \
  {#name, TB_FAMILY_TILE, bm, bn, bk, (bm / tm) * (bn / tn), TB_SGEMM_SHARED_BYTES(bm, bn, bk, stages)},
#define TB_SGEMM_WARP_SPECIALISED(name, bm, bn, bk, stages) \
  {"ws_" #name,                                             \
   TB_FAMILY_WARP_SPECIALISED,                              \
   bm,                                                      \
   bn,                                                      \
   bk,                                                      \
   TB_SGEMM_WS_THREADS(bm, bn),                             \
   TB_SGEMM_WS_SHARED_BYTES(bm, bn, bk, stages)},
#include "registry.def"
#undef TB_SGEMM_TILE
#undef TB_SGEMM_WARP_SPECIALISED
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

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t tb_tile_count(const struct tb_tile *tile, int64_t m, int64_t n) {
  return ceil_div(m, tile->block_m) * ceil_div(n, tile->block_n);
}

struct tb_split tb_split_of(int64_t k, const struct tb_choice *choice) {
  if (choice->splits <= 1) return (struct tb_split){1, 1, 1};
  struct tb_split s = {.units = ceil_div(k, choice->unit_k)};
  s.per_split = ceil_div(s.units, choice->splits);
  s.splits = ceil_div(s.units, s.per_split);
  return s;
}

int64_t tb_partials_bytes(int64_t m, int64_t n, int64_t k, const struct tb_choice *choice) {
  struct tb_split s = tb_split_of(k, choice);
  return s.splits > 1 ? s.units * m * n * (int64_t)sizeof(float) : 0;
}

/* ---- the candidates ---- */

/*
 * Adds the split into at most `splits` parts of whole units, unless it is the one that was added last or needs more
 * memory than there is. More parts than that would only be more of the same work on the busiest SM; with fewer, others
 * would be idle.
 */
static int add_split(const struct tb_product *p, int64_t splits, struct tb_choice *c, struct tb_choice *candidate) {
  const int last = c->splits;
  c->splits = (int)splits;
  struct tb_split s = tb_split_of(p->k, c);
  c->splits = (int)s.splits;
  if (s.splits < 2 || s.splits == last) return 0;
  if (s.units * p->m * p->n * (int64_t)sizeof(float) > p->workspace_bytes) return 0;
  *candidate = *c;
  return 1;
}

/* Splits of k for one tile. Between groups; and where there are not enough of them to give the blocks about the same
 * share, between chunks too, which are eight times as many sums to store and to add. */
static int add_splits(const struct tb_select_device *device, const struct tb_product *p, int tile,
                      struct tb_choice *candidate) {
  struct tb_choice groups = {tb_tiles[tile].family, tile, 1, TB_SGEMM_GROUP_K}, chunks = groups;
  chunks.unit_k = TB_SGEMM_CHUNK_K;
  const int64_t most = ceil_div(p->k, TB_SGEMM_CHUNK_K), tiles = tb_tile_count(&tb_tiles[tile], p->m, p->n);
  int count = 0;
  int64_t before = 1;
  for (int w = 0; w < BLOCKS_WANTED && before < most; w++) {
    if (blocks_wanted[w] > 2 * device->blocks_per_sm[tile]) break; /* two rounds: more would gain little */
    int64_t splits = (int64_t)blocks_wanted[w] * device->sm_count / tiles;
    if (splits <= before) continue;
    before = splits = splits < most ? splits : most;
    count += add_split(p, splits, &groups, candidate + count);
    if (most < splits * EVEN_GROUPS * (TB_SGEMM_GROUP_K / TB_SGEMM_CHUNK_K))
      count += add_split(p, splits, &chunks, candidate + count);
  }
  return count;
}

/* How many parts of k are best thin_plan.c knows; here, whether there is room for the groups' sums. */
static struct tb_choice thin_choice(const struct tb_product *p) {
  struct tb_choice c = {TB_FAMILY_THIN, 0, 1, TB_SGEMM_GROUP_K};
  int64_t groups = ceil_div(p->k, TB_SGEMM_GROUP_K);
  if (groups * p->m * p->n * (int64_t)sizeof(float) <= p->workspace_bytes) c.splits = (int)groups;
  return c;
}

int tb_select_candidates(const struct tb_select_device *device, const struct tb_product *p,
                         struct tb_choice candidate[TB_CANDIDATES_MAX]) {
  int count = 0;
  const bool thin = device->thin && tb_thin_takes(p->m, p->n);
  if (thin) candidate[count++] = thin_choice(p);
  for (int tile = 0; tile < TB_TILE_COUNT; tile++) {
    if (device->blocks_per_sm[tile] == 0) continue;
    candidate[count++] = (struct tb_choice){tb_tiles[tile].family, tile, 1, TB_SGEMM_GROUP_K};
    if (!thin) count += add_splits(device, p, tile, candidate + count);
  }
  return count;
}

/* ---- the prediction ---- */

static double moved_us(double bytes, double per_cent, const struct tb_select_device *device) {
  return bytes / (device->bytes_per_us * per_cent / 100);
}

static double operands_bytes(const struct tb_product *p) {
  double m = (double)p->m, n = (double)p->n, k = (double)p->k;
  return sizeof(float) * (m * k + k * n + m * n);
}

/* Time in which an SM computes this many blocks at once, in blocks that take the whole of its peak. */
static double peak_blocks(const struct tb_tile_rate *rate, int64_t blocks) {
  double together = rate->alone * (double)blocks;
  return (double)blocks * 100 / (together < rate->full ? together : rate->full);
}

/* Blocks of `fma` multiply-adds each on the busiest SM, in rounds of as many as it holds. The last round may have
 * fewer, and then the SM is slower than it could be. */
static double rounds_us(const struct tb_tile_rate *rate, const struct tb_select_device *device, int held,
                        int64_t blocks, double fma) {
  int64_t rounds = blocks / held, rest = blocks % held;
  double work = (double)rounds * peak_blocks(rate, held);
  if (rest > 0) work += peak_blocks(rate, rest);
  return work * fma / device->fma_per_us + (double)(rounds + (rest > 0)) * rate->block_us;
}

double tb_select_predict_us(const struct tb_select_table *table, const struct tb_select_device *device,
                            const struct tb_product *p, const struct tb_choice *choice) {
  if (choice->family == TB_FAMILY_THIN) return table->thin_us + moved_us(operands_bytes(p), table->thin, device);
  const struct tb_tile *tile = &tb_tiles[choice->tile];
  const struct tb_tile_rate *rate = &table->tile[choice->tile];
  struct tb_split s = tb_split_of(p->k, choice);
  int64_t block_k = s.splits > 1 ? s.per_split * choice->unit_k : p->k;
  int by_words = (p->transpose_a || !p->vectors) + (!p->transpose_b || !p->vectors);
  double fma = (double)tile->block_m * tile->block_n * (double)block_k * (1 + by_words * rate->by_words / 100);
  int64_t blocks = ceil_div(tb_tile_count(tile, p->m, p->n) * s.splits, device->sm_count);
  double compute = rounds_us(rate, device, device->blocks_per_sm[choice->tile], blocks, fma);
  double memory = moved_us(operands_bytes(p), table->memory, device);
  double us = table->launch_us + (compute > memory ? compute : memory);
  if (s.splits > 1) {
    double sums = (double)s.units * (double)p->m * (double)p->n;
    us += table->gather_us + moved_us(sums * PARTIAL_MOVED_BYTES, table->partials, device);
  }
  return us;
}

struct tb_choice tb_select(const struct tb_select_device *device, const struct tb_product *product) {
  struct tb_choice candidate[TB_CANDIDATES_MAX], best = {.family = TB_FAMILY_NONE};
  int count = tb_select_candidates(device, product, candidate);
  double best_us = 0;
  for (int i = 0; i < count; i++) {
    double us = tb_select_predict_us(&tb_select_table, device, product, &candidate[i]);
    if (best.family != TB_FAMILY_NONE && !(us < best_us)) continue;
    best = candidate[i];
    best_us = us;
  }
  return best;
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
