/* SPDX-License-Identifier: BSD-3-Clause */
/* What of a result is wanted (kernels/common/region_tiles.h), element by element, and at random. */
#ifndef TST_WANTED_H
#define TST_WANTED_H

#include <stdbool.h>

#include "common/region_tiles.h"
#include "rng.h"

static inline bool tst_is_wanted(struct tb_tiles_wanted w, int64_t i, int64_t j) {
  if (w.pairs) i /= 2;
  return w.of == TB_TILES_ALL || (w.of == TB_TILES_UPPER ? i <= j + w.diagonal : i >= j + w.diagonal);
}

/* All of m x n elements, or a triangle that has one of them at least. */
static inline struct tb_tiles_wanted tst_random_wanted(int64_t m, int64_t n, uint64_t *rng) {
  struct tb_tiles_wanted w = {.of = (int32_t)tst_random_below(rng, 3)};
  const int64_t at = (int64_t)tst_random_below(rng, (uint64_t)(m + n)) - n;
  if (w.of != TB_TILES_ALL) w.diagonal = (int32_t)(w.of == TB_TILES_UPPER ? at + 1 : at);
  return w;
}

#endif
