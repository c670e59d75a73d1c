/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/emulated_plan.h"

#include <stdio.h>

#include "base/integers.h"

static int64_t aligned(int64_t bytes) { return tb_round_up(bytes, TB_EMULATED_ALIGNMENT_BYTES); }

/* ---- memory ---- */

int64_t tb_emulated_padded_sides(bool of_b, int64_t sides) {
  return tb_round_up(sides, of_b ? TB_EMULATED_TILE_N : TB_EMULATED_TILE_M);
}

int64_t tb_emulated_groups(int64_t k) { return tb_ceil_div(k, TB_EMULATED_GROUP_K); }

int64_t tb_emulated_tiles(int64_t m, int64_t n) {
  return tb_ceil_div(m, TB_EMULATED_TILE_M) * tb_ceil_div(n, TB_EMULATED_TILE_N);
}

struct tb_emulated_room tb_emulated_room_for(int planes, bool of_b, int64_t sides, int64_t k) {
  const int64_t padded = tb_emulated_padded_sides(of_b, sides), groups = tb_emulated_groups(k);
  struct tb_emulated_room r = {.planes_bytes =
                                   padded * tb_round_up(k, TB_EMULATED_CHUNK_K) * planes * (int64_t)sizeof(uint16_t),
                               .scale_bytes = aligned(padded * groups * (int64_t)sizeof(float)),
                               .seen_words = padded / TB_EMULATED_PACK_SIDES * groups};
  r.bytes = r.planes_bytes + r.scale_bytes + aligned(r.seen_words * (int64_t)sizeof(uint32_t));
  return r;
}

int64_t tb_emulated_packed_bytes(bool of_b, int64_t sides, int64_t k) {
  return tb_emulated_room_for(TB_EMULATED_HALF_PLANES, of_b, sides, k).bytes;
}

/* Tiles whose k is split. */
static int64_t split_tiles(int64_t tiles, const struct tb_emulated_way *way) {
  return way->splits > 1 ? tiles - way->whole : 0;
}

/* Equal ones, but for the last, which is shorter by less than a group for each of them. */
int64_t tb_emulated_span_k(int64_t m, int64_t n, int64_t k) {
  if (k <= 2 * TB_EMULATED_SPAN_K || tb_emulated_tiles(m, n) < TB_EMULATED_SPAN_TILES_MIN) return k;
  return tb_round_up(tb_ceil_div(k, tb_ceil_div(k, TB_EMULATED_SPAN_K)), TB_EMULATED_GROUP_K);
}

struct tb_emulated_workspace tb_emulated_workspace_for(int64_t m, int64_t n, int64_t k,
                                                       const struct tb_emulated_way *way) {
  k = tb_emulated_first_span(way, k);
  const int64_t groups = tb_emulated_groups(k), tiles = tb_emulated_tiles(m, n), mark_bytes = sizeof(uint32_t);
  const int64_t tile_bytes = TB_EMULATED_TILE_M * TB_EMULATED_TILE_N * (int64_t)sizeof(float);
  struct tb_emulated_workspace w = {
      .a = tb_emulated_room_for(TB_EMULATED_BFLOAT_PLANES, false, m, k),
      .b = tb_emulated_room_for(TB_EMULATED_BFLOAT_PLANES, true, n, k),
      .left_bytes = aligned(TB_EMULATED_BLOCKS_MAX * mark_bytes),
      .tile_marks_bytes = aligned(2 * tiles * mark_bytes),
      .sums_bytes =
          groups > 1 ? tb_min(tb_round_up(tiles, TB_EMULATED_CLUSTER), TB_EMULATED_BLOCKS_MAX) * tile_bytes : 0,
      .partials_bytes = split_tiles(tiles, way) * groups * tile_bytes,
  };
  w.bytes = w.a.bytes + w.b.bytes + w.left_bytes + w.tile_marks_bytes + w.sums_bytes + w.partials_bytes;
  return w;
}

int64_t tb_emulated_workspace_bytes(int64_t m, int64_t n, int64_t k, const struct tb_emulated_way *way) {
  return tb_emulated_workspace_for(m, n, k, way).bytes;
}

int64_t tb_emulated_bytes(int64_t m, int64_t n, int64_t k, const struct tb_emulated_way *way) {
  const int64_t span_k = tb_emulated_first_span(way, k);
  return tb_emulated_packed_bytes(false, m, span_k) + tb_emulated_packed_bytes(true, n, span_k) +
         tb_emulated_workspace_bytes(m, n, k, way);
}

/* ---- time ---- */

int64_t tb_emulated_blocks(int sm_count) {
  return tb_min(sm_count, TB_EMULATED_BLOCKS_MAX) / TB_EMULATED_CLUSTER * TB_EMULATED_CLUSTER;
}

static int64_t held(const struct tb_select_device *device) { return tb_emulated_blocks(device->sm_count); }

static struct tb_choice choice_of(struct tb_emulated_way way) {
  return (struct tb_choice){.family = TB_FAMILY_EMULATED, .emulated = way};
}

/* Tiles come in rounds of as many as are computed at a time, and a last one that may have few; for those, k is split.
 */
int tb_emulated_candidates(const struct tb_select_device *device, const struct tb_product *p,
                           struct tb_choice candidate[]) {
  const int64_t span_k = tb_emulated_span_k(p->m, p->n, p->k);
  const int64_t tiles = tb_emulated_tiles(p->m, p->n), groups = tb_emulated_groups(span_k);
  const struct tb_emulated_way whole = {.splits = 1, .fast = p->fast, .span_k = span_k};
  if (!device->emulated || !p->emulated || p->k < TB_EMULATED_K_MIN || held(device) == 0) return 0;
  if (tb_emulated_bytes(p->m, p->n, p->k, &whole) > p->workspace_bytes) return 0;
  int count = 0;
  candidate[count++] = choice_of(whole);
  const int64_t in_rounds = tiles / held(device) * held(device), rest = tiles - in_rounds;
  /* As many parts as give every block one, two or three of them. */
  for (int64_t rounds = 1; rounds < TB_EMULATED_CANDIDATES_MAX && rest > 0; rounds++) {
    const int64_t wanted = tb_min(rounds * held(device) / rest, groups);
    if (wanted < 2) continue;
    const struct tb_emulated_way split = {.splits = (int)tb_ceil_div(groups, tb_ceil_div(groups, wanted)),
                                          .whole = (int)in_rounds,
                                          .fast = p->fast,
                                          .span_k = span_k};
    if (split.splits != candidate[count - 1].emulated.splits &&
        tb_emulated_bytes(p->m, p->n, p->k, &split) <= p->workspace_bytes)
      candidate[count++] = choice_of(split);
  }
  return count;
}

void tb_emulated_offer(const struct tb_select_device *device, const struct tb_product *p, struct tb_best *best) {
  struct tb_choice candidate[TB_EMULATED_CANDIDATES_MAX];
  const int count = tb_emulated_candidates(device, p, candidate);
  for (int i = 0; i < count; i++)
    tb_best_take(best, &candidate[i], tb_emulated_predict_us(&tb_select_table, device, p, &candidate[i]));
}

static double predict_span_us(const struct tb_select_table *table, const struct tb_select_device *device,
                              const struct tb_product *p, const struct tb_emulated_way *way, int64_t span_k) {
  const double m = (double)tb_emulated_padded_sides(false, p->m), n = (double)tb_emulated_padded_sides(true, p->n);
  const double moved_bytes = (double)span_k * (m + n) * (sizeof(float) + TB_EMULATED_HALF_PLANES * sizeof(uint16_t));
  const double memory = device->bytes_per_us / 100;
  const double k_us = TB_EMULATED_TILE_M * TB_EMULATED_TILE_N / (device->fma_per_us / 100 * table->emulated) +
                      table->emulated_group_us / TB_EMULATED_GROUP_K;
  const int64_t tiles = tb_emulated_tiles(p->m, p->n), parts = split_tiles(tiles, way),
                groups = tb_emulated_groups(span_k);
  const int64_t part_k = tb_ceil_div(groups, way->splits) * TB_EMULATED_GROUP_K;
  double us = table->emulated_us + moved_bytes / (memory * table->emulated_pack);
  us += (double)tb_ceil_div(tiles - parts, held(device)) * ((double)span_k * k_us + table->emulated_tile_us);
  if (parts == 0) return us;
  us += (double)tb_ceil_div(parts * way->splits, held(device)) * ((double)part_k * k_us + table->emulated_tile_us);
  return us + table->gather_us +
         (double)(parts * groups * TB_EMULATED_TILE_M * TB_EMULATED_TILE_N) * 2 * sizeof(float) /
             (memory * table->partials);
}

double tb_emulated_predict_us(const struct tb_select_table *table, const struct tb_select_device *device,
                              const struct tb_product *p, const struct tb_choice *choice) {
  const struct tb_emulated_way *way = &choice->emulated;
  const int64_t span_k = tb_emulated_first_span(way, p->k);
  return (double)tb_ceil_div(p->k, span_k) * predict_span_us(table, device, p, way, span_k);
}

/* ---- names ---- */

const char *tb_emulated_name(const struct tb_choice *choice) {
  return choice->emulated.fast ? "emulated-fast" : "emulated";
}

void tb_emulated_describe(const struct tb_choice *choice, char *text, size_t size) {
  const struct tb_emulated_way *way = &choice->emulated;
  if (way->splits > 1)
    snprintf(text, size, "%s/%d%s", tb_emulated_name(choice), way->splits, way->whole > 0 ? "+" : "");
  else
    snprintf(text, size, "%s", tb_emulated_name(choice));
}
