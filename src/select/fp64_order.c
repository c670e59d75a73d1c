/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/fp64_plan.h"

#include <stddef.h>

#include "base/integers.h"

/*
 * The groups' sums of a tile whose k is split are stored one by one, and added in order, so k has about as many groups
 * as it is worth being split into: those that take an H200 the least time by the estimate below. Its numbers are like
 * fp64_plan.c's, but belong to the order of summation now: they stay as they are when kernels get faster, and on other
 * GPUs. They were fitted to the times of 1,206 ways of 67 products (tests/gpu/fp64_bench --ways, 2026-11-25), of reals
 * between those of aligned operands and of others; root mean square of the differences 10 %.
 *
 * Everything is counted in multiply-adds of one multiprocessor at its peak, in whole numbers, so that every compiler
 * and every processor comes to the same bits.
 */
#define FP64_MULTIPROCESSORS 132
#define PRODUCTS_PER_US 253440
/* A group is no longer, by the error of a sum of so many, and because panels that go up are cut between groups; nor
 * shorter, unless k is: then its sums are most of the work. */
#define FP64_GROUP_K_MAX 1024
#define LONG_K 8192 /* from here on twice as long */
#define FP64_GROUP_K_MIN 64
/* The launch that adds the groups' sums; to write and read one byte of them, and to keep one in shared memory. */
#define FP64_GATHER_PRODUCTS (PRODUCTS_PER_US * 6 / 10)
#define PARTIAL_BYTES_PER_PRODUCT 9
#define PRODUCTS_OF_SUM_BYTES_100 427
/* So many of the largest tiles for each multiprocessor leave little that a split would gain. */
#define ROUNDS_ENOUGH 16
/* More groups are to save such a part of the time: they cost what the estimate does not know, too. */
#define WORTH_A_SPLIT 50

struct fp64_order_tile {
  int side_m, side_n, held; /* held: blocks that a multiprocessor has at once */
  int full, alone;          /* per cent of the peak that they reach together, and that one does */
};

enum { FP64_ORDER_TILES = 7 }; /* of a type, at most; `held` is 0 behind the last */
static const struct fp64_order_tile fp64_order_tiles[][FP64_ORDER_TILES] = {
    {{128, 128, 1, 87, 87},
     {128, 64, 2, 74, 47},
     {64, 128, 2, 74, 47},
     {64, 64, 2, 85, 61},
     {64, 32, 3, 68, 48},
     {32, 64, 3, 68, 47},
     {32, 32, 4, 52, 30}},
    {{128, 64, 1, 85, 85}, {64, 64, 2, 92, 72}, {64, 32, 2, 86, 66}, {32, 64, 2, 86, 66}, {32, 32, 3, 76, 51}},
};
static const int fp64_order_parts[] = {2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64};

struct fp64_order {
  bool complex;
  int64_t m, n, k, group_k;
};

static int64_t fp64_group_of_parts(bool complex, int64_t k, int64_t parts) {
  const int64_t most = (k < LONG_K ? FP64_GROUP_K_MAX : 2 * FP64_GROUP_K_MAX) >> complex,
                step = TB_FP64_GROUP_STEP_K >> complex;
  const int64_t part = tb_ceil_div(k, parts), groups = tb_ceil_div(part, most);
  return tb_round_up(tb_ceil_div(part, groups), step);
}

/* Until the last of so many blocks ends, each of so many k in so many groups. */
static int64_t blocks_cost(const struct fp64_order *o, const struct fp64_order_tile *t, int64_t blocks, int64_t k,
                           int64_t groups) {
  const int64_t area = (int64_t)t->side_m * t->side_n, products = area * k * (o->complex ? 400 : 100);
  const int64_t sums = area * (o->complex ? 16 : 8) * groups * PRODUCTS_OF_SUM_BYTES_100 / 100;
  const int64_t full = products / t->full + sums, alone = products / t->alone + sums;
  const int64_t mine = tb_ceil_div(blocks, FP64_MULTIPROCESSORS), whole = tb_quotient(mine, t->held) * t->held;
  const int64_t last = (mine - whole) * full;
  return whole * full + (mine > whole ? tb_max(last, alone) : 0);
}

/* With k whole for the first `whole` tiles, and in so many parts for the others. */
static int64_t fp64_order_cost(const struct fp64_order *o, const struct fp64_order_tile *t, int64_t tiles,
                               int64_t whole, int64_t parts) {
  const int64_t groups = tb_ceil_div(o->k, o->group_k), split = tiles - whole;
  int64_t cost = blocks_cost(o, t, whole, o->k, groups);
  if (split == 0) return cost;
  const int64_t of_part = tb_ceil_div(groups, parts);
  cost += blocks_cost(o, t, split * tb_ceil_div(groups, of_part), tb_min(of_part * o->group_k, o->k), of_part);
  const int64_t bytes = split * groups * t->side_m * t->side_n * (o->complex ? 16 : 8);
  return cost + FP64_GATHER_PRODUCTS + bytes / PARTIAL_BYTES_PER_PRODUCT;
}

/* The least for a tile: all of them split, or those that do not fill a round. */
static int64_t fp64_least_cost(const struct fp64_order *o, const struct fp64_order_tile *t, int64_t parts) {
  const int64_t tiles = tb_ceil_div(o->m, t->side_m) * tb_ceil_div(o->n, t->side_n);
  const int64_t round = (int64_t)FP64_MULTIPROCESSORS * t->held, rounds = tiles / round * round;
  if (parts == 1) return fp64_order_cost(o, t, tiles, tiles, 1);
  const int64_t all = fp64_order_cost(o, t, tiles, 0, parts);
  return rounds == 0 || rounds == tiles ? all : tb_min(all, fp64_order_cost(o, t, tiles, rounds, parts));
}

static int64_t fp64_order_cost_of_parts(struct fp64_order *o, int64_t parts) {
  int64_t least = INT64_MAX;
  o->group_k = fp64_group_of_parts(o->complex, o->k, parts);
  for (int i = 0; i < FP64_ORDER_TILES && fp64_order_tiles[o->complex][i].held > 0; i++)
    least = tb_min(least, fp64_least_cost(o, &fp64_order_tiles[o->complex][i], parts));
  return least;
}

/* The estimates take some microseconds, and programs have loops of one shape. */
static _Thread_local struct fp64_order latest_fp64_order;

int tb_fp64_group_k(bool complex, int64_t m, int64_t n, int64_t k) {
  struct fp64_order *const latest = &latest_fp64_order;
  if (latest->group_k > 0 && latest->complex == complex && latest->m == m && latest->n == n && latest->k == k)
    return (int)latest->group_k;
  struct fp64_order o = {.complex = complex, .m = m, .n = n, .k = k};
  const struct fp64_order_tile *const largest = &fp64_order_tiles[complex][0];
  int64_t best_group_k = fp64_group_of_parts(complex, k, 1);
  if (tb_ceil_div(m, largest->side_m) <= ROUNDS_ENOUGH * FP64_MULTIPROCESSORS / tb_ceil_div(n, largest->side_n)) {
    int64_t best = fp64_order_cost_of_parts(&o, 1);
    for (size_t i = 0; i < sizeof fp64_order_parts / sizeof *fp64_order_parts; i++) {
      if (tb_ceil_div(k, fp64_order_parts[i]) < FP64_GROUP_K_MIN >> complex) break;
      const int64_t cost = fp64_order_cost_of_parts(&o, fp64_order_parts[i]);
      if (cost < best - best / WORTH_A_SPLIT) best = cost, best_group_k = o.group_k;
    }
  }
  *latest = (struct fp64_order){complex, m, n, k, best_group_k};
  return (int)best_group_k;
}
