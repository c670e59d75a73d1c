/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/fp64_plan.h"

#include "base/integers.h"

/* Pieces are looked at where a product takes so long, for to plan them takes 20 to 80 us, the first time; and worth
 * their launches where the time is such a part of what it was. */
#define SECONDS_FOR_STRIPS 100e-6
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

/* In less time than `limit_s`. */
static bool cut_at(struct tb_fp64_cut *cut, const struct tb_fp64_device *device, const struct tb_fp64_product *whole,
                   int64_t m, int64_t n, int64_t partials_bytes, double limit_s) {
  place_pieces(cut, whole, m, n);
  for (int i = 0; i < cut->count && cut->seconds < limit_s; i++) {
    struct tb_fp64_plan *const plan = &cut->piece[i].plan;
    struct tb_fp64_product product = *whole;
    product.m = plan->m, product.n = plan->n;
    if (!tb_fp64_plan_make(plan, device, &product, partials_bytes)) return false;
    cut->seconds += plan->seconds;
  }
  return cut->seconds < limit_s;
}

/* First pieces that leave no tile beyond an edge, or no block without a tile in the last round: all of the product's
 * rows, or as many as whole tiles have, and likewise its columns; and of each, what of it fills whole rounds (of blocks
 * by their registers: where shared memory is little an SM has fewer, and rounds are shorter). */
struct first_pieces {
  int count;
  struct {
    int64_t m, n;
  } at[12];
};

static void add_first(struct first_pieces *firsts, int64_t m, int64_t n) {
  if (m <= 0 || n <= 0) return;
  firsts->at[firsts->count].m = m, firsts->at[firsts->count++].n = n;
}

static struct first_pieces first_pieces_of(const struct tb_fp64_product *x, const struct tb_fp64_device *device,
                                           const struct tb_fp64_tile *tile) {
  const int64_t block_m = tile->block_m, block_n = tile->block_n, round = (int64_t)device->sm_count * tile->blocks;
  struct first_pieces firsts = {.count = 0};
  for (int edges = 0; edges < 4; edges++) {
    const int64_t m = edges & 1 ? x->m / block_m * block_m : x->m, n = edges & 2 ? x->n / block_n * block_n : x->n;
    if (((edges & 1) && m == x->m) || ((edges & 2) && n == x->n)) continue;
    if (edges != 0) add_first(&firsts, m, n);
    const int64_t rows = tb_ceil_div(m, block_m), columns = tb_ceil_div(n, block_n), rounds = rows * columns / round;
    if (rounds == 0) continue;
    add_first(&firsts, tb_min(rounds * round / columns * block_m, m), n);
    add_first(&firsts, m, tb_min(rounds * round / rows * block_n, n));
  }
  return firsts;
}

/* Takes the quickest of these for `cut`, if it takes less than `limit_s`; says what it takes, or the limit. */
static double consider_firsts(struct tb_fp64_cut *cut, const struct tb_fp64_device *device,
                              const struct tb_fp64_product *product, int tile, int64_t partials_bytes, double limit_s) {
  const struct first_pieces firsts = first_pieces_of(product, device, &tb_fp64_tiles[tile]);
  for (int i = 0; i < firsts.count; i++) {
    struct tb_fp64_cut other;
    if (cut_at(&other, device, product, firsts.at[i].m, firsts.at[i].n, partials_bytes, limit_s))
      *cut = other, limit_s = other.seconds;
  }
  return limit_s;
}

bool tb_fp64_cut_make(struct tb_fp64_cut *cut, const struct tb_fp64_device *device,
                      const struct tb_fp64_product *product, int64_t partials_bytes) {
  place_pieces(cut, product, product->m, product->n);
  if (!tb_fp64_plan_make(&cut->piece[0].plan, device, product, partials_bytes)) return false;
  cut->seconds = cut->piece[0].plan.seconds;
  if (product->wanted.of != TB_TILES_ALL || cut->seconds < SECONDS_FOR_STRIPS) return true;
  const int tile = cut->piece[0].plan.tile, largest = product->complex ? TB_FP64_z128x64 : TB_FP64_d128x128;
  double limit_s = WORTH_STRIPS * cut->seconds;
  limit_s = consider_firsts(cut, device, product, tile, partials_bytes, limit_s);
  if (tile != largest) consider_firsts(cut, device, product, largest, partials_bytes, limit_s);
  return true;
}
