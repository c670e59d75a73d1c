/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/fp64_plan.h"

#include <stddef.h>

#include "base/integers.h"
#include "select/limits.h"
#include "select/rates.h"

const struct tb_fp64_tile tb_fp64_tiles[TB_FP64_TILE_COUNT] = {
#define BYTES_OF_d 8
#define BYTES_OF_z 16
#define TB_FP64_TILE(letter, name, bm, bn, wm, wn, stages, blocks) \
  {#name,                                                          \
   BYTES_OF_##letter == 16,                                        \
   bm,                                                             \
   bn,                                                             \
   32 * ((bm) / (wm)) * ((bn) / (wn)),                             \
   TB_FP64_STAGE_BYTES(bm, bn, stages),                            \
   TB_FP64_SUM_BYTES(BYTES_OF_##letter, bm, bn),                   \
   blocks},
#include "fp64/tiles.def"
#undef TB_FP64_TILE
};

struct fp64_rate {
  double full, alone;
};
/* Of operands that are copied in units of 16 bytes, and of others. */
static const struct fp64_rate rates[][2] = {
#define TB_FP64_RATE(letter, kernel, full, alone, full_any, alone_any) \
  [TB_FP64_##letter##kernel] = {{full, alone}, {full_any, alone_any}},
#include "select/rates.def"
};
_Static_assert(sizeof rates / sizeof *rates == TB_FP64_TILE_COUNT, "rates.def has one row for each of tiles.def");

#define FP64_SPLITS_MAX 64

static int fp64_blocks_per_sm(const struct tb_fp64_tile *tile, const struct tb_fp64_device *device, int shared_bytes) {
  const int64_t by_shared = device->sm_shared_bytes / (shared_bytes + TB_SM_RESERVED_BYTES);
  return (int)tb_max(1, tb_min(by_shared, tile->blocks));
}

/* Until the last of so many blocks ends, each of so many k in so many groups, that fill SMs one after another. */
static double block_seconds(const struct tb_fp64_plan *p, const struct tb_fp64_device *device, int64_t blocks,
                            int64_t k, int64_t groups) {
  if (blocks == 0) return 0;
  const struct tb_fp64_tile *const tile = &tb_fp64_tiles[p->tile];
  const int at_once = fp64_blocks_per_sm(tile, device, p->shared_bytes);
  const double sm_flops = device->flops_per_second / device->sm_count;
  const double products = (p->complex ? 8.0 : 2.0) * tile->block_m * tile->block_n * (double)k / sm_flops;
  const double sums = 2.0 * tile->sum_bytes * (double)groups / tb_rate.fp64_sum_bytes_per_s;
  const int64_t mine = tb_ceil_div(blocks, device->sm_count);
  const struct fp64_rate *const rate = &rates[p->tile][!p->units];
  /* A tile that has an SM for itself is stored while nothing is multiplied there. (That of reals that are copied in
   * units has it in its fitted rate; and what shared memory alone keeps single has other rates, too.) */
  const bool is_stored_apart = tile->blocks == 1 && (p->complex || !p->units);
  const double store = is_stored_apart ? tile->sum_bytes * device->sm_count / device->bytes_per_second : 0;
  const double full = products / rate->full + sums + store, alone = products / rate->alone + sums + store;
  const double last = (double)(mine % at_once) * full; /* of those that do not fill an SM */
  return (double)(mine / at_once * at_once) * full + (mine % at_once > 0 && last < alone ? alone : last);
}

static double seconds_of(const struct tb_fp64_plan *p, const struct tb_fp64_device *device) {
  const int64_t groups = tb_ceil_div(p->k, p->group_k);
  const double moved = (p->complex ? 16 : 8) * ((double)(p->m + p->n) * (double)p->k + (double)p->m * (double)p->n);
  double seconds = block_seconds(p, device, p->whole, p->k, groups);
  if (p->splits > 1) {
    const int64_t part_k = tb_min((int64_t)p->groups_per_split * p->group_k, p->k);
    seconds += block_seconds(p, device, (p->tiles - p->whole) * p->splits, part_k, p->groups_per_split);
    seconds += tb_rate.fp64_gather_seconds + 2.0 * (double)p->partials_bytes / device->bytes_per_second;
  }
  const double by_memory = moved / device->bytes_per_second;
  return tb_rate.fp64_start_seconds + (seconds > by_memory ? seconds : by_memory);
}

static int64_t tiles_of(const struct tb_fp64_plan *p, int tile) {
  const struct tb_fp64_tile *const t = &tb_fp64_tiles[tile];
  const struct tb_tile_bands bands =
      tb_tile_bands_of(p->m, p->n, t->block_m, t->block_n, false, TB_FP64_BAND, p->wanted);
  return tb_tiles_count(&bands);
}

/* tb_fp64_plan_way, of so many tiles. */
static bool set_way(struct tb_fp64_plan *p, const struct tb_fp64_device *device, int tile, int64_t tiles, int64_t whole,
                    int splits) {
  const struct tb_fp64_tile *const t = &tb_fp64_tiles[tile];
  const int64_t groups = tb_ceil_div(p->k, p->group_k);
  p->tile = tile;
  p->tiles = tiles;
  p->whole = splits > 1 ? whole : p->tiles;
  if (p->whole > p->tiles || (splits > 1 && (p->whole == p->tiles || splits > groups)) || p->tiles > INT32_MAX / 2)
    return false;
  p->groups_per_split = (int)tb_ceil_div(groups, splits);
  p->splits = (int)tb_ceil_div(groups, p->groups_per_split);
  p->jobs = p->whole + (p->tiles - p->whole) * p->splits;
  p->shared_bytes = t->stage_bytes + (p->whole > 0 && groups > 1 ? t->sum_bytes : 0);
  p->partials_bytes = p->splits > 1 ? (p->tiles - p->whole) * groups * t->sum_bytes : 0;
  if (p->shared_bytes > device->block_shared_bytes || p->jobs > INT32_MAX) return false;
  p->blocks = tb_min(p->jobs, (int64_t)device->sm_count * fp64_blocks_per_sm(t, device, p->shared_bytes));
  p->seconds = seconds_of(p, device);
  return true;
}

bool tb_fp64_plan_way(struct tb_fp64_plan *p, const struct tb_fp64_device *device, int tile, int64_t whole,
                      int splits) {
  return set_way(p, device, tile, tiles_of(p, tile), whole, splits);
}

/* Takes `p` in this way if it can be and is quicker than what `best` has. */
static void consider(struct tb_fp64_plan *p, const struct tb_fp64_device *device, int tile, int64_t whole, int splits,
                     int64_t partials_bytes, struct tb_fp64_plan *best) {
  if (set_way(p, device, tile, p->tiles, whole, splits) && p->partials_bytes <= partials_bytes &&
      (best->blocks == 0 || p->seconds < best->seconds))
    *best = *p;
}

/* No tile split, all of them, or those that do not fill a round of the SMs. */
static void consider_tile(struct tb_fp64_plan *p, const struct tb_fp64_device *device, int tile, int64_t partials_bytes,
                          struct tb_fp64_plan *best) {
  const int64_t groups = tb_ceil_div(p->k, p->group_k);
  const struct tb_fp64_tile *const t = &tb_fp64_tiles[tile];
  p->tiles = tiles_of(p, tile);
  if (p->tiles == 0) return;
  consider(p, device, tile, 0, 1, partials_bytes, best);
  const int64_t slots = (int64_t)device->sm_count * fp64_blocks_per_sm(t, device, t->stage_bytes + t->sum_bytes);
  const int64_t rounds = p->tiles / slots * slots;
  for (int splits = 2; splits <= tb_min(groups, FP64_SPLITS_MAX); splits++) {
    consider(p, device, tile, 0, splits, partials_bytes, best);
    if (rounds > 0) consider(p, device, tile, rounds, splits, partials_bytes, best);
  }
}

struct tb_fp64_plan tb_fp64_plan_of(const struct tb_fp64_product *x) {
  return (struct tb_fp64_plan){.complex = x->complex,
                               .units = x->units,
                               .m = x->m,
                               .n = x->n,
                               .k = x->k,
                               .group_k = x->group_k,
                               .wanted = x->wanted};
}

bool tb_fp64_plan_make(struct tb_fp64_plan *plan, const struct tb_fp64_device *device,
                       const struct tb_fp64_product *product, int64_t partials_bytes) {
  const struct tb_fp64_product *const x = product;
  if (x->m > TB_SIDE_MAX_ELEMS || x->n > TB_SIDE_MAX_ELEMS || x->k > TB_SIDE_MAX_ELEMS) return false;
  struct tb_fp64_plan p = tb_fp64_plan_of(x);
  struct tb_fp64_plan best = {.blocks = 0};
  for (int tile = 0; tile < TB_FP64_TILE_COUNT; tile++)
    if (tb_fp64_tiles[tile].complex == x->complex) consider_tile(&p, device, tile, partials_bytes, &best);
  *plan = best;
  return best.blocks != 0;
}

void tb_fp64_arguments(struct tb_fp64_args *args, const struct tb_fp64_plan *plan) {
  args->m = plan->m, args->n = plan->n, args->k = plan->k;
  args->group_k = plan->group_k;
  args->tiles = (int32_t)plan->tiles;
  args->whole = (int32_t)plan->whole;
  args->jobs = (uint32_t)plan->jobs;
  args->groups_per_split = plan->groups_per_split;
}
