/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/fp64_plan.h"

#include "base/integers.h"

/* Strips are looked at where each block has so many jobs, so that tiles along an edge are a small part of all (of fewer
 * the plans promise 6 to 12 % at sides of 1450 to 2060, which was not measured); and worth their launches where the
 * time is such a part of what it was. */
#define ROUNDS_FOR_STRIPS 4
#define WORTH_STRIPS 0.985

/* The first m x n, what is below them, and what is on the right of them, as far as there is any. */
static void place_pieces(struct tb_fp64_cut *cut, const struct tb_fp64_product *whole, int64_t m, int64_t n) {
  const struct {
    int64_t row, column, m, n;
  } part[TB_FP64_PIECES_MAX] = {{0, 0, m, n}, {m, 0, whole->m - m, whole->n}, {0, n, m, whole->n - n}};
  *cut = (struct tb_fp64_cut){.count = 0};
  for (int i = 0; i < TB_FP64_PIECES_MAX; i++) {
    struct tb_fp64_product product = *whole;
    product.m = part[i].m, product.n = part[i].n;
    if (product.m > 0 && product.n > 0)
      cut->piece[cut->count++] = (struct tb_fp64_piece){part[i].row, part[i].column, tb_fp64_plan_of(&product)};
  }
}

static bool cut_at(struct tb_fp64_cut *cut, const struct tb_fp64_device *device, const struct tb_fp64_product *whole,
                   int64_t m, int64_t n, int64_t partials_bytes) {
  place_pieces(cut, whole, m, n);
  for (int i = 0; i < cut->count; i++) {
    struct tb_fp64_plan *const plan = &cut->piece[i].plan;
    struct tb_fp64_product product = *whole;
    product.m = plan->m, product.n = plan->n;
    if (!tb_fp64_plan_make(plan, device, &product, partials_bytes)) return false;
    cut->seconds += plan->seconds;
  }
  return true;
}

struct tb_fp64_cut_kept tb_fp64_cut_keep(const struct tb_fp64_cut *cut) {
  struct tb_fp64_cut_kept kept = {cut->piece[0].plan.m, cut->piece[0].plan.n, {{0}}};
  for (int i = 0; i < cut->count; i++) {
    const struct tb_fp64_plan *const plan = &cut->piece[i].plan;
    kept.way[i].tile = plan->tile, kept.way[i].splits = plan->splits, kept.way[i].whole = (int32_t)plan->whole;
  }
  return kept;
}

bool tb_fp64_cut_again(struct tb_fp64_cut *cut, const struct tb_fp64_device *device,
                       const struct tb_fp64_product *product, const struct tb_fp64_cut_kept *kept) {
  place_pieces(cut, product, kept->m, kept->n);
  for (int i = 0; i < cut->count; i++) {
    struct tb_fp64_plan *const plan = &cut->piece[i].plan;
    if (!tb_fp64_plan_way(plan, device, kept->way[i].tile, kept->way[i].whole, kept->way[i].splits)) return false;
    cut->seconds += plan->seconds;
  }
  return cut->count > 0;
}

bool tb_fp64_cut_make(struct tb_fp64_cut *cut, const struct tb_fp64_device *device,
                      const struct tb_fp64_product *product, int64_t partials_bytes) {
  if (!cut_at(cut, device, product, product->m, product->n, partials_bytes)) return false;
  const struct tb_fp64_plan *const whole = &cut->piece[0].plan;
  if (product->wanted.of != TB_TILES_ALL || whole->jobs < ROUNDS_FOR_STRIPS * whole->blocks) return true;
  double least = WORTH_STRIPS * cut->seconds;
  const struct tb_fp64_tile *const tile = &tb_fp64_tiles[whole->tile];
  const int64_t m = product->m / tile->block_m * tile->block_m, n = product->n / tile->block_n * tile->block_n;
  const int64_t at[][2] = {{m, product->n}, {product->m, n}, {m, n}};
  for (int i = 0; i < 3; i++) {
    struct tb_fp64_cut other;
    if (at[i][0] > 0 && at[i][1] > 0 && cut_at(&other, device, product, at[i][0], at[i][1], partials_bytes) &&
        other.seconds < least)
      *cut = other, least = other.seconds;
  }
  return true;
}
