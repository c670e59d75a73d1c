/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/fp64_plan.h"

#include "base/integers.h"

/* Strips are looked at where each block has so many jobs, so that tiles along an edge are a small part of all (of fewer
 * the plans promise 6 to 12 % at sides of 1450 to 2060, which was not measured); and worth their launches where the
 * time is such a part of what it was. */
#define ROUNDS_FOR_STRIPS 4
#define WORTH_STRIPS 0.985

static bool add_piece(struct tb_fp64_cut *cut, const struct tb_fp64_device *device, struct tb_fp64_product product,
                      int64_t row, int64_t column, int64_t partials_bytes) {
  struct tb_fp64_piece *const piece = &cut->piece[cut->count];
  if (product.m == 0 || product.n == 0) return true;
  piece->row = row, piece->column = column;
  if (!tb_fp64_plan_make(&piece->plan, device, &product, partials_bytes)) return false;
  cut->seconds += piece->plan.seconds;
  cut->count++;
  return true;
}

/* The first m x n, what is below them, and what is on the right of them. */
static bool cut_at(struct tb_fp64_cut *cut, const struct tb_fp64_device *device, const struct tb_fp64_product *product,
                   int64_t m, int64_t n, int64_t partials_bytes) {
  struct tb_fp64_product first = *product, below = *product, right = *product;
  *cut = (struct tb_fp64_cut){.count = 0};
  first.m = m, first.n = n;
  below.m -= m;
  right.m = m, right.n -= n;
  return add_piece(cut, device, first, 0, 0, partials_bytes) && add_piece(cut, device, below, m, 0, partials_bytes) &&
         add_piece(cut, device, right, 0, n, partials_bytes);
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
