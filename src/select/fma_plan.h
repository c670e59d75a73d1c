/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The family fma for the selector: its ways to compute a product, and how long they take. Of a tile's ways k is whole
 * in one, and the others split it (fma_splits.h). Pure arithmetic; thread-safe.
 */
#ifndef TB_FMA_PLAN_H
#define TB_FMA_PLAN_H

#include "select/fma_way.h"

/* No product has more: for each tile k whole, and nine times two splits of it, and those for a part of its tiles. */
#define TB_FMA_CANDIDATES_MAX (TB_TILE_COUNT * (1 + 2 * 2 * 9))
int tb_fma_candidates(const struct tb_select_device *device, const struct tb_product *product,
                      struct tb_choice candidate[]);

/* Takes the place of `best` with the quickest candidate, if that is sooner. Most are not predicted one by one: what
 * cannot be sooner is left out. */
void tb_fma_offer(const struct tb_select_device *device, const struct tb_product *product, struct tb_best *best);

double tb_fma_predict_us(const struct tb_select_table *table, const struct tb_select_device *device,
                         const struct tb_product *product, const struct tb_choice *choice);

/* How much of k a tile packs at once: all, or whole groups. 0: nothing, or there is no room for enough of it. */
int64_t tb_fma_pack_k(const struct tb_product *product, int tile);

#endif
