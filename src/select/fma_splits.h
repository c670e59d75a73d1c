/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Into how many parts k may be split for a tile: what fma_plan.c goes through, candidate by candidate. Inline, for it
 * is asked in every selection. Pure; thread-safe.
 */
#ifndef TB_FMA_SPLITS_H
#define TB_FMA_SPLITS_H

#include "select/fma_way.h"

/* Blocks that a split of k gives each SM: few, so that each has much of k, or more, so that no SM is idle for long. */
static const int blocks_wanted[] = {1, 2, 3, 4, 6, 8, 10, 12, 16};
enum { BLOCKS_WANTED = sizeof blocks_wanted / sizeof blocks_wanted[0] };
/* And at most so many rounds of them, as in order.c, whose parts are to be found here. */
enum { ROUNDS_OF_SPLITS = 6 };

/* Groups in a part from which on parts of whole groups are even enough: one group more or less is at most a sixth. */
#define EVEN_GROUPS 6

/* What k is split into: groups; and where there are not enough of them to give the blocks about the same share, chunks,
 * which are many more sums to store and to add, if groups are whole ones. */
enum { GROUPS, CHUNKS, UNITS };
static inline int products_of(const struct tb_product *p, int unit) {
  return unit == GROUPS ? (int)p->group_k : TB_SGEMM_CHUNK_K;
}
static inline int64_t units_of(const struct tb_product *p, int unit) {
  const bool whole_chunks = p->group_k > TB_SGEMM_CHUNK_K && p->group_k % TB_SGEMM_CHUNK_K == 0;
  return unit == CHUNKS && !whole_chunks ? 1 : tb_ceil_div(p->k, products_of(p, unit));
}

/* Splits of k for one tile, from few parts to many. */
struct splitter {
  int64_t units, tiles;
  int sm_count, most; /* SMs, and most blocks on one */
  int64_t even;       /* units in a part: with as many, larger ones will do; 0: there are none */
  int next;           /* of blocks_wanted */
  int64_t asked, got; /* parts, by the last of these: asked for, and made of whole units */
};

/* Of k into such units, for a tile of which so many make up the result. */
static inline struct splitter splits_of(const struct tb_select_device *device, const struct tb_product *p, int unit,
                                        int tile, int64_t tiles) {
  return (struct splitter){.units = units_of(p, unit),
                           .tiles = tiles,
                           .even = unit == CHUNKS ? EVEN_GROUPS * p->group_k / TB_SGEMM_CHUNK_K : 0,
                           .sm_count = device->sm_count,
                           .most = ROUNDS_OF_SPLITS * device->blocks_per_sm[tile],
                           .asked = 1,
                           .got = 1};
}

/* The parts of the next split are more than those of the last. More parts than the SMs are to have blocks would only be
 * more of the same work on the busiest of them; with fewer, others would be idle. False: there is none. */
static inline bool next_split(struct splitter *s, struct tb_split_k *split) {
  while (s->next < BLOCKS_WANTED && s->asked < s->units && blocks_wanted[s->next] <= s->most) {
    int64_t splits = tb_quotient((int64_t)blocks_wanted[s->next++] * s->sm_count, s->tiles);
    if (splits <= s->asked) continue;
    s->asked = splits = splits < s->units ? splits : s->units;
    if (s->even > 0 && s->units >= splits * s->even) continue;
    *split = tb_split_k_units(s->units, splits);
    if (split->splits == s->got) continue;
    s->got = split->splits;
    return true;
  }
  return false;
}

static inline struct tb_fma_way tile_way(int tile, int64_t splits, int unit_k, int64_t pack_k) {
  return (struct tb_fma_way){.tile = tile, .splits = (int)splits, .unit_k = unit_k, .pack_k = pack_k};
}

/*
 * A packed tile's blocks come in rounds of as many as the GPU holds, and a last one that may have few. So whole rows or
 * columns of tiles, whichever come nearer to whole rounds, are computed with k whole, and k is split for what is left.
 * False: there is no whole round, or nothing left.
 */
static inline bool whole_part(const struct tb_select_device *device, const struct tb_product *p, int tile,
                              struct tb_fma_way *way) {
  const int64_t down = tb_ceil_div(p->m, tb_tiles[tile].block_m), across = tb_ceil_div(p->n, tb_tiles[tile].block_n);
  const int64_t held = (int64_t)device->sm_count * device->blocks_per_sm[tile];
  const int64_t in_rounds = tb_quotient(down * across, held) * held;
  const int64_t rows = tb_quotient(in_rounds, across), columns = tb_quotient(in_rounds, down);
  *way = tile_way(tile, 1, products_of(p, GROUPS), p->k);
  if (columns * down >= rows * across)
    way->whole_columns = (int32_t)columns;
  else
    way->whole_rows = (int32_t)rows;
  const struct tb_rest rest = tb_rest_of(p->m, p->n, way);
  return rows + columns > 0 && rest.m > 0 && rest.n > 0 && way->whole_rows + way->whole_columns > 0;
}

/* Ways that compute whole rounds with k whole, and split it for what is left: one with k split as `next` says, for each
 * of its splits. */
struct rest_splitter {
  struct tb_fma_way way;
  struct splitter splitter;
};

/* False: this tile, product and unit have none. */
static inline bool rest_splits_of(const struct tb_select_device *device, const struct tb_product *p, int tile,
                                  int64_t pack_k, int unit, struct rest_splitter *rest) {
  if (pack_k < p->k || !whole_part(device, p, tile, &rest->way)) return false;
  const struct tb_rest r = tb_rest_of(p->m, p->n, &rest->way);
  rest->way.unit_k = products_of(p, unit);
  rest->splitter = splits_of(device, p, unit, tile, tb_tile_count(&tb_tiles[tile], r.m, r.n));
  const int64_t sums_bytes = rest->splitter.units * r.m * r.n * (int64_t)sizeof(float);
  return sums_bytes <= p->workspace_bytes - tb_packed_bytes(p->m, p->n, p->k);
}

static inline bool next_rest(struct rest_splitter *rest, struct tb_split_k *split) {
  if (!next_split(&rest->splitter, split)) return false;
  rest->way.splits = (int)split->splits;
  return true;
}

#endif
