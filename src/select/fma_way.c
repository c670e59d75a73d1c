/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/fma_way.h"

#include <stdio.h>

struct tb_split_k tb_split_k_of(int64_t k, const struct tb_fma_way *way) {
  return way->splits <= 1 ? tb_whole_k : tb_split_k_units(tb_ceil_div(k, way->unit_k), way->splits);
}

int64_t tb_fma_workspace_bytes(int64_t m, int64_t n, int64_t k, const struct tb_choice *choice) {
  const struct tb_fma_way *way = &choice->fma;
  const struct tb_split_k s = tb_split_k_of(k, way);
  const struct tb_rest rest = tb_rest_of(m, n, way);
  int64_t bytes = s.splits > 1 ? s.units * rest.m * rest.n * (int64_t)sizeof(float) : 0;
  if (way->pack_k > 0) bytes += tb_packed_bytes(m, n, way->pack_k < k ? way->pack_k : k);
  return bytes;
}

const char *tb_fma_name(const struct tb_choice *choice) { return tb_tiles[choice->fma.tile].name; }

void tb_fma_describe(const struct tb_choice *choice, char *text, size_t size) {
  const struct tb_fma_way *way = &choice->fma;
  if (way->splits > 1)
    snprintf(text, size, "%s/%d%s", tb_fma_name(choice), way->splits,
             way->whole_rows + way->whole_columns > 0 ? "+" : "");
  else
    snprintf(text, size, "%s", tb_fma_name(choice));
}
