/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/order.h"

#include "select/product.h"

#include "base/integers.h"
#include "common/sgemm_args.h"
#include "select/skinny_plan.h"

/*
 * A k that is split is split between groups, stores a sum for each, and takes the time of its longest part. So groups
 * are as long as the parts that suit the shape, and all but the last alike: those of the split, or of the whole k, that
 * takes an H200 the least time by the estimate below. Its numbers are like select.c's, but belong to the order of
 * summation now: they stay as they are when kernels get faster, and on other GPUs. They were fitted to the best ways'
 * times by bench/tune --parts 70 (2026-11-23, 198 shapes of at most 60 GFLOP): by these lengths of groups they take
 * 1.2 % more than by the best ones, in the geometric mean, and 23 % at worst (120x213x427, 7 us instead of 6);
 * before 2.1 %.
 *
 * Everything is counted in FMAs of one multiprocessor at its peak, in whole numbers, so that every compiler and every
 * processor comes to the same bits.
 */
#define MULTIPROCESSORS 132
#define FMAS_PER_US 253440
/* A group is no longer, by the error of a sum of so many chunks; nor, where k is whole, by the memory that a k takes
 * which cannot be cut; nor shorter, unless k is. */
#define GROUP_K_MAX (16 * TB_SGEMM_CHUNK_K)
#define WHOLE_GROUP_K_MAX (11 * TB_SGEMM_CHUNK_K)
#define GROUP_K_MIN 32
/* Two parts, a cluster that adds its sums itself; else the launch that adds the parts' sums; a thread's wait for one of
 * them; to write and read one of one element. */
#define TOGETHER_FMAS (FMAS_PER_US * 16 / 10)
#define GATHER_FMAS (FMAS_PER_US * 85 / 100)
#define WAIT_FMAS (FMAS_PER_US / 15)
#define SUMS_PER_FMA 5
/* To add a whole k's group to D, for each element of a round's tiles on a multiprocessor. */
#define GROUP_FMAS 38
/* Of what a last round computes, the per cent that is done while blocks of the one before are there. */
#define OVERLAP 60

enum { HELD_MAX = 8 };
static const struct order_tile {
  int side_m, side_n, held; /* held: blocks that a multiprocessor has at once */
  int round_us_10;          /* tenths of a microsecond that a round of blocks takes beside multiplying */
  int rate[HELD_MAX];       /* per cent of the peak that so many blocks reach together */
} order_tiles[] = {
    {128, 128, 2, 80, {80, 81}},
    {128, 64, 3, 33, {51, 76, 77}},
    {64, 128, 3, 33, {51, 76, 77}},
    {64, 64, 4, 19, {34, 58, 66, 66}},
    {64, 32, 6, 9, {40, 52, 52, 59, 59, 66}},
    {32, 64, 6, 9, {40, 52, 52, 59, 59, 66}},
    {32, 32, 8, 8, {23, 39, 41, 46, 47, 49, 54, 57}},
};
enum { ORDER_TILES = sizeof order_tiles / sizeof *order_tiles };
/* Blocks for each multiprocessor into which k is split; 0: k whole. */
static const int order_blocks_wanted[] = {0, 1, 2, 3, 4, 6, 8, 10, 12, 16};
enum { ORDER_BLOCKS_WANTED = sizeof order_blocks_wanted / sizeof *order_blocks_wanted };
/* Rounds of blocks: two; and where a split was best, more, for many parts even out what is left behind whole rounds.
 * Where k was best whole it stays so, for this estimate does not know that whole rounds of packed tiles can have k
 * whole while it is split for the rest alone. */
enum { ORDER_ROUNDS = 2, ORDER_ROUNDS_OF_SPLITS = 6 };
/* So many of the largest tiles leave nothing to split for any of them. */
#define TILES_ENOUGH (2 * HELD_MAX * MULTIPROCESSORS)

/* A whole k's are whole chunks, so that it can be split in other ways, too. */
int64_t tb_group_of_parts(int64_t k, int64_t parts) {
  const int64_t most = parts == 1 ? WHOLE_GROUP_K_MAX : GROUP_K_MAX;
  const int64_t groups = tb_ceil_div(tb_ceil_div(k, parts), most); /* of a part */
  return tb_round_up(tb_ceil_div(k, parts * groups), parts == 1 ? TB_SGEMM_CHUNK_K : TB_SGEMM_GROUP_STEP_K);
}

static int64_t order_cost(const struct order_tile *t, int64_t tiles, int64_t elements, int64_t k, int64_t parts,
                          int64_t group_k) {
  const int64_t groups = tb_ceil_div(k, group_k), area = (int64_t)t->side_m * t->side_n;
  const int64_t part_k = parts > 1 ? tb_round_up(tb_ceil_div(k, parts), group_k) : k;
  const int64_t blocks = tb_ceil_div(tiles * parts, MULTIPROCESSORS);
  const int64_t whole = tb_quotient(blocks, t->held), rest = blocks - whole * t->held, rounds = whole + (rest > 0);
  const int64_t at_peak = area * part_k * 100;
  int64_t fmas = tb_quotient(whole * t->held * at_peak, t->rate[t->held - 1]);
  if (rest > 0) {
    const int64_t alone = rest * at_peak / t->rate[rest - 1], among = rest * at_peak / t->rate[t->held - 1];
    fmas += whole > 0 ? alone + (among - alone) * OVERLAP / 100 : alone;
  }
  fmas += rounds * t->round_us_10 * (FMAS_PER_US / 10);
  if (parts == 2 && groups == 2) return fmas + TOGETHER_FMAS;
  return parts > 1 ? fmas + GATHER_FMAS + groups * WAIT_FMAS + groups * elements / SUMS_PER_FMA
                   : fmas + (groups - 1) * rounds * t->held * area * GROUP_FMAS;
}

struct order_best {
  int64_t group_k, fmas, parts;
};

/* Takes what is quicker than `best`, of every tile, in more than `beyond` rounds and at most so many. -1: k whole,
 * too. */
static void consider_order(struct order_best *best, int64_t m, int64_t n, int64_t k, int beyond, int rounds) {
  for (int i = 0; i < ORDER_TILES; i++) {
    const struct order_tile *t = &order_tiles[i];
    const int64_t tiles = tb_ceil_div(m, t->side_m) * tb_ceil_div(n, t->side_n);
    if (tiles > TILES_ENOUGH) continue;
    int64_t last = 0;
    for (int w = 0; w < ORDER_BLOCKS_WANTED && order_blocks_wanted[w] <= rounds * t->held; w++) {
      if (order_blocks_wanted[w] <= beyond * t->held) continue;
      const int64_t wanted = w == 0 ? 1 : tb_quotient((int64_t)order_blocks_wanted[w] * MULTIPROCESSORS, tiles);
      const int64_t parts = tb_min(wanted, tb_ceil_div(k, GROUP_K_MIN));
      if (parts <= last) continue;
      last = parts;
      const int64_t group_k = tb_group_of_parts(k, parts), fmas = order_cost(t, tiles, m * n, k, parts, group_k);
      if (fmas < best->fmas || (fmas == best->fmas && group_k > best->group_k))
        *best = (struct order_best){.group_k = group_k, .fmas = fmas, .parts = parts};
    }
  }
}

static int64_t best_group(int64_t m, int64_t n, int64_t k) {
  struct order_best best = {.group_k = tb_group_of_parts(k, 1), .fmas = INT64_MAX, .parts = 1};
  consider_order(&best, m, n, k, -1, ORDER_ROUNDS);
  if (best.parts > 1) consider_order(&best, m, n, k, ORDER_ROUNDS, ORDER_ROUNDS_OF_SPLITS);
  return best.group_k;
}

/* The estimates take one and a half microseconds, and programs have loops of one shape. */
static _Thread_local struct { int64_t m, n, k, group_k; } latest;

int64_t tb_group_k(int64_t m, int64_t n, int64_t k) {
  if (tb_skinny_takes(m, n)) return TB_SGEMM_GROUP_K;
  if (latest.m != m || latest.n != n || latest.k != k) {
    latest.group_k = best_group(m, n, k);
    latest.m = m, latest.n = n, latest.k = k;
  }
  return latest.group_k;
}

/* That of what the kernels see, in the call's elements: a real product's groups have whole complex ones. */
int64_t tb_gemm_group_k(const struct tb_call *call) {
  if (call->group_k > 0) return call->group_k;
  if (tb_type_is_double(call->type))
    return tb_fp64_group_k(call->type == TB_Z, call->m, call->n, call->k > 0 ? call->k : 1);
  const int parts = tb_kernel_parts(call->type);
  const int64_t m = call->m * parts, n = call->n, k = call->k * parts;
  return (k > 0 ? tb_group_k(m, n, k) : TB_SGEMM_GROUP_K) / parts; /* nothing to add: any will do */
}
