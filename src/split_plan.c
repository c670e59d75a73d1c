/* SPDX-License-Identifier: BSD-3-Clause */
#include "split_plan.h"

#include <stddef.h>

#include "integers.h"
#include "select.h"

static int64_t aligned(int64_t bytes) { return tb_round_up(bytes, TB_SPLIT_ALIGNMENT_BYTES); }

/* ---- memory ---- */

int64_t tb_split_padded_sides(bool of_b, int64_t sides) {
  return tb_round_up(sides, of_b ? TB_SPLIT_TILE_N : TB_SPLIT_TILE_M);
}

int64_t tb_split_groups(int64_t k) { return tb_ceil_div(k, TB_SPLIT_GROUP_K); }

int64_t tb_split_tiles(int64_t m, int64_t n) {
  return tb_ceil_div(m, TB_SPLIT_TILE_M) * tb_ceil_div(n, TB_SPLIT_TILE_N);
}

struct tb_split_room tb_split_room_for(int planes, bool of_b, int64_t sides, int64_t k) {
  const int64_t padded = tb_split_padded_sides(of_b, sides), groups = tb_split_groups(k);
  struct tb_split_room r = {.planes_bytes =
                                padded * tb_round_up(k, TB_SPLIT_CHUNK_K) * planes * (int64_t)sizeof(uint16_t),
                            .scale_bytes = aligned(padded * groups * (int64_t)sizeof(float)),
                            .seen_words = padded / TB_SPLIT_PACK_SIDES * groups};
  r.bytes = r.planes_bytes + r.scale_bytes + aligned(r.seen_words * (int64_t)sizeof(uint32_t));
  return r;
}

int64_t tb_split_packed_bytes(bool of_b, int64_t sides, int64_t k) {
  return tb_split_room_for(TB_SPLIT_HALF_PLANES, of_b, sides, k).bytes;
}

/* Tiles whose k is split. */
static int64_t split_tiles(int64_t tiles, const struct tb_split_way *way) {
  return way->splits > 1 ? tiles - way->whole : 0;
}

/* Equal ones, but for the last, which is shorter by less than a group for each of them. */
int64_t tb_split_span_k(int64_t m, int64_t n, int64_t k) {
  if (k <= 2 * TB_SPLIT_SPAN_K || tb_split_tiles(m, n) < TB_SPLIT_SPAN_TILES_MIN) return k;
  return tb_round_up(tb_ceil_div(k, tb_ceil_div(k, TB_SPLIT_SPAN_K)), TB_SPLIT_GROUP_K);
}

struct tb_split_workspace tb_split_workspace_for(int64_t m, int64_t n, int64_t k, const struct tb_split_way *way) {
  k = tb_split_first_span(way, k);
  const int64_t groups = tb_split_groups(k), tiles = tb_split_tiles(m, n), mark_bytes = sizeof(uint32_t);
  const int64_t tile_bytes = TB_SPLIT_TILE_M * TB_SPLIT_TILE_N * (int64_t)sizeof(float);
  struct tb_split_workspace w = {
      .a = tb_split_room_for(TB_SPLIT_BFLOAT_PLANES, false, m, k),
      .b = tb_split_room_for(TB_SPLIT_BFLOAT_PLANES, true, n, k),
      .left_bytes = aligned(TB_SPLIT_BLOCKS_MAX * mark_bytes),
      .again_bytes = aligned(tiles * mark_bytes),
      .sums_bytes = groups > 1 ? tb_min(tb_round_up(tiles, TB_SPLIT_CLUSTER), TB_SPLIT_BLOCKS_MAX) * tile_bytes : 0,
      .partials_bytes = split_tiles(tiles, way) * groups * tile_bytes,
  };
  w.bytes = w.a.bytes + w.b.bytes + w.left_bytes + w.again_bytes + w.sums_bytes + w.partials_bytes;
  return w;
}

int64_t tb_split_workspace_bytes(int64_t m, int64_t n, int64_t k, const struct tb_split_way *way) {
  return tb_split_workspace_for(m, n, k, way).bytes;
}

int64_t tb_split_bytes(int64_t m, int64_t n, int64_t k, const struct tb_split_way *way) {
  const int64_t span_k = tb_split_first_span(way, k);
  return tb_split_packed_bytes(false, m, span_k) + tb_split_packed_bytes(true, n, span_k) +
         tb_split_workspace_bytes(m, n, k, way);
}

/* ---- time ---- */

int64_t tb_split_blocks(int sm_count) {
  return tb_min(sm_count, TB_SPLIT_BLOCKS_MAX) / TB_SPLIT_CLUSTER * TB_SPLIT_CLUSTER;
}

static int64_t held(const struct tb_select_device *device) { return tb_split_blocks(device->sm_count); }

/* Tiles come in rounds of as many as are computed at a time, and a last one that may have few; for those, k is split.
 */
int tb_split_ways(const struct tb_select_device *device, const struct tb_product *p,
                  struct tb_split_way way[TB_SPLIT_WAYS_MAX]) {
  const int64_t span_k = tb_split_span_k(p->m, p->n, p->k);
  const int64_t tiles = tb_split_tiles(p->m, p->n), groups = tb_split_groups(span_k);
  const struct tb_split_way whole = {1, 0, p->fast, span_k};
  if (!device->split || !p->split || p->k < TB_SPLIT_K_MIN || held(device) == 0) return 0;
  if (tb_split_bytes(p->m, p->n, p->k, &whole) > p->workspace_bytes) return 0;
  int count = 0;
  way[count++] = whole;
  const int64_t in_rounds = tiles / held(device) * held(device), rest = tiles - in_rounds;
  /* As many parts as give every block one, two or three of them. */
  for (int64_t rounds = 1; rounds < TB_SPLIT_WAYS_MAX && rest > 0; rounds++) {
    const int64_t wanted = tb_min(rounds * held(device) / rest, groups);
    if (wanted < 2) continue;
    struct tb_split_way split = {(int)tb_ceil_div(groups, tb_ceil_div(groups, wanted)), (int)in_rounds, p->fast,
                                 span_k};
    if (split.splits != way[count - 1].splits && tb_split_bytes(p->m, p->n, p->k, &split) <= p->workspace_bytes)
      way[count++] = split;
  }
  return count;
}

static double predict_span_us(const struct tb_select_table *table, const struct tb_select_device *device,
                              const struct tb_product *p, const struct tb_split_way *way, int64_t span_k) {
  const double m = (double)tb_split_padded_sides(false, p->m), n = (double)tb_split_padded_sides(true, p->n);
  const double moved_bytes = (double)span_k * (m + n) * (sizeof(float) + TB_SPLIT_HALF_PLANES * sizeof(uint16_t));
  const double memory = device->bytes_per_us / 100;
  const double k_us = TB_SPLIT_TILE_M * TB_SPLIT_TILE_N / (device->fma_per_us / 100 * table->split) +
                      table->split_group_us / TB_SPLIT_GROUP_K;
  const int64_t tiles = tb_split_tiles(p->m, p->n), parts = split_tiles(tiles, way), groups = tb_split_groups(span_k);
  const int64_t part_k = tb_ceil_div(groups, way->splits) * TB_SPLIT_GROUP_K;
  double us = table->split_us + moved_bytes / (memory * table->split_pack);
  us += (double)tb_ceil_div(tiles - parts, held(device)) * ((double)span_k * k_us + table->split_tile_us);
  if (parts == 0) return us;
  us += (double)tb_ceil_div(parts * way->splits, held(device)) * ((double)part_k * k_us + table->split_tile_us);
  return us + table->gather_us +
         (double)(parts * groups * TB_SPLIT_TILE_M * TB_SPLIT_TILE_N) * 2 * sizeof(float) / (memory * table->partials);
}

double tb_split_predict_us(const struct tb_select_table *table, const struct tb_select_device *device,
                           const struct tb_product *p, const struct tb_split_way *way) {
  const int64_t span_k = tb_split_first_span(way, p->k);
  return (double)tb_ceil_div(p->k, span_k) * predict_span_us(table, device, p, way, span_k);
}
