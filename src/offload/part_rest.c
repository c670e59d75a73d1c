/* SPDX-License-Identifier: BSD-3-Clause */
/* What a part has left undone, as calls. */
#include "offload/part.h"

#include <string.h>

#include "base/log.h"
#include "plan/layout.h"
#include "select/order.h"

/* A part of a block's grid of tiles. */
struct tiles {
  int64_t row, rows, column, columns;
};

/* The tiles from one that C has nothing of: as many to its right as C has nothing of, and as many such rows below. */
static struct tiles grow_tiles(const int64_t *committed_columns, struct tiles grid, int64_t row, int64_t column) {
  struct tiles t = {row, 1, column, 1};
  const int64_t *line = committed_columns + row * grid.columns;
  while (t.column + t.columns < grid.columns && line[t.column + t.columns] == 0) t.columns++;
  for (int64_t next = row + 1; next < grid.rows; next++, t.rows++)
    for (int64_t c = t.column; c < t.column + t.columns; c++)
      if (committed_columns[next * grid.columns + c] != 0) return t;
  return t;
}

/* The next rectangle of the block that is under way, taken for committed from now on. */
static bool take_from_block(struct tb_part *part, struct tb_block *rest) {
  const struct tb_plan *plan = &part->plan;
  int64_t *committed = part->progress.committed_columns;
  const struct tb_block block = tb_layout_block(&part->call, plan, part->progress.block);
  const struct tiles grid = {0, tb_ceil_div(block.m, plan->tile_m), 0, tb_ceil_div(block.n, plan->tile_n)};
  for (int64_t tile = 0; tile < grid.rows * grid.columns; tile++) {
    const int64_t i = tile / grid.columns * plan->tile_m, first = tile % grid.columns * plan->tile_n;
    const int64_t j = first + committed[tile];
    const int64_t m = tb_min(plan->tile_m, block.m - i), end = tb_min(first + plan->tile_n, block.n);
    if (j >= end || tb_region_misses(tb_region_at(part->call.region, block.i + i, block.j + j), m, end - j)) continue;
    struct tiles t = {tile / grid.columns, 1, tile % grid.columns, 1};
    if (committed[tile] == 0) t = grow_tiles(committed, grid, t.row, t.column);
    *rest = (struct tb_block){block.i + i, tb_min(t.rows * plan->tile_m, block.m - i), block.j + j,
                              tb_min(first + t.columns * plan->tile_n, block.n) - j};
    for (int64_t row = t.row; row < t.row + t.rows; row++)
      for (int64_t column = t.column; column < t.column + t.columns; column++)
        committed[row * grid.columns + column] = plan->tile_n;
    return true;
  }
  return false;
}

static bool is_torn(const struct tb_part *part) {
  return part->call.recipe != TB_MULTIPLY && part->triangular.progress.torn;
}

static bool take_rectangle(struct tb_part *part, struct tb_block *rest) {
  if (!part->progress.committed) { /* and the rest of it means nothing */
    *rest = (struct tb_block){0, part->call.m, 0, part->call.n};
    part->handed_out = true;
    return true;
  }
  const int64_t blocks = tb_layout_blocks(&part->call, &part->plan);
  for (; part->progress.block < blocks; part->progress.block++) {
    if (take_from_block(part, rest)) return true;
    memset(part->progress.committed_columns, 0, sizeof part->progress.committed_columns);
  }
  return false;
}

static const char *why_lost(const struct tb_part *part) {
  if (part->device->hangs) return "operands in GPU memory cannot be reached (the GPU hangs)";
  return is_torn(part) ? "the GPU has made a part of an update in its memory, and refused the rest" : NULL;
}

bool tb_parts_are_lost(const struct tb_part *parts, int count) {
  for (int i = 0; i < count; i++)
    if (why_lost(&parts[i]) != NULL) {
      tb_warn("%s: a product is not computed", why_lost(&parts[i]));
      return true;
    }
  return false;
}

bool tb_part_take_rest(struct tb_part *part, const struct tb_call *call, struct tb_call *rest) {
  struct tb_block block;
  part->handed_out = part->handed_out || is_torn(part);
  if (part->why == TB_STATUS_ok || part->handed_out) return false;
  if (part->call.recipe != TB_MULTIPLY) {
    part->handed_out = !tb_triangular_take_rest(&part->triangular.plan, call, &part->triangular.progress, rest);
    return !part->handed_out;
  }
  if (!take_rectangle(part, &block)) {
    part->handed_out = true;
    return false;
  }
  *rest = tb_call_part(call, block.i, block.m, block.j, block.n);
  rest->group_k = tb_gemm_group_k(call); /* who computes does not show in the bits */
  return true;
}
