/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/product.h"

const struct tb_tile tb_tiles[TB_TILE_COUNT] = {
#define TB_SGEMM_TILE(name, bm, bn, bk, stages, tm, tn, ...) \
  {#name, bm, bn, bk, (bm / tm) * (bn / tn), TB_SGEMM_SHARED_BYTES(bm, bn, bk, stages), false},
#define TB_SGEMM_PACKED_TILE(name, bm, bn, bk, stages, tm, tn, ...) \
  {#name, bm, bn, bk, (bm / tm) * (bn / tn), TB_SGEMM_PACKED_SHARED_BYTES(bm, bn, bk, stages), true},
#include "fma/registry.def"
#undef TB_SGEMM_TILE
#undef TB_SGEMM_PACKED_TILE
};

const struct tb_select_table tb_select_table = {
#define TB_SELECT_TILE(name, full, alone, knee, along_k, by_words, block_us) \
  .tile[TB_TILE_##name] = {full, alone, knee, along_k, by_words, block_us},
#define TB_SELECT_COST(name, value) .name = value,
#include "select/rates.def"
};

enum {
#define TB_SELECT_TILE(...) +1
  RATED_TILES = 0
#include "select/rates.def"
};
_Static_assert((int)RATED_TILES == (int)TB_TILE_COUNT, "rates.def has one row for each of kernels/fma/registry.def");
