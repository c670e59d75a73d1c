/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan/layout.h"

/* Piece number `index` of a side that is cut into steps. */
static struct tb_extent piece(int64_t side, int64_t step, int64_t index) {
  return (struct tb_extent){index * step, tb_min(step, side - index * step)};
}

/* ---- blocks ---- */

int64_t tb_layout_blocks(const struct tb_call *call, const struct tb_plan *plan) {
  return tb_ceil_div(call->m, plan->block_m) * tb_ceil_div(call->n, plan->block_n);
}

struct tb_block tb_layout_block(const struct tb_call *call, const struct tb_plan *plan, int64_t number) {
  int64_t across = tb_ceil_div(call->n, plan->block_n);
  int64_t row = number / across, column = number % across;
  if (row % 2 == 1) column = across - 1 - column; /* there and back: the last columns of B serve the next row at once */
  struct tb_extent i = piece(call->m, plan->block_m, row), j = piece(call->n, plan->block_n, column);
  return (struct tb_block){i.start, i.size, j.start, j.size};
}

void tb_layout_enter(struct tb_layout *l, int64_t number) {
  l->block = tb_layout_block(l->call, l->plan, number);
  l->is_last = number + 1 == tb_layout_blocks(l->call, l->plan);
  l->rows = tb_ceil_div(l->block.m, l->plan->tile_m);
  l->columns = tb_ceil_div(l->block.n, l->plan->tile_n);
  l->chunk = piece(l->call->k, l->plan->chunk_k, 0);
}

bool tb_layout_next_chunk(struct tb_layout *l) {
  const int64_t start = l->chunk.start + l->chunk.size;
  if (start >= l->call->k) return false;
  l->chunk = (struct tb_extent){start, tb_min(l->plan->chunk_k, l->call->k - start)};
  return true;
}

int64_t tb_layout_slices(const struct tb_layout *l) { return tb_ceil_div(l->chunk.size, l->plan->slice_k); }

struct tb_extent tb_layout_slice(const struct tb_layout *l, int64_t slice) {
  struct tb_extent k = piece(l->chunk.size, l->plan->slice_k, slice);
  k.start += l->chunk.start;
  return k;
}

/* ---- tiles ---- */

struct tb_extent tb_layout_rows(const struct tb_layout *l, int64_t row) {
  return piece(l->block.m, l->plan->tile_m, row);
}

struct tb_extent tb_layout_columns(const struct tb_layout *l, int64_t column) {
  return piece(l->block.n, l->plan->tile_n, column);
}

struct tb_block tb_layout_tile(const struct tb_layout *l, int64_t tile) {
  struct tb_extent i = tb_layout_rows(l, tile / l->columns), j = tb_layout_columns(l, tile % l->columns);
  return (struct tb_block){i.start, i.size, j.start, j.size};
}

void *tb_layout_c(const struct tb_layout *l, int64_t tile) {
  struct tb_block t = tb_layout_tile(l, tile);
  return tb_call_c(l->call, l->block.i + t.i, l->block.j + t.j);
}

struct tb_matrix tb_layout_d(const struct tb_layout *l, int64_t tile) {
  if (l->plan->tile_elems == 0) return (struct tb_matrix){(uint64_t)tb_layout_c(l, tile), l->call->ldc};
  uint64_t base = l->arena + (uint64_t)l->plan->d_offset_bytes;
  return (struct tb_matrix){tb_address_behind(l->call, base, tile * l->plan->tile_elems),
                            tb_leading(l->call->type, tb_layout_tile(l, tile).m)};
}

uint64_t tb_layout_workspace(const struct tb_layout *l, int64_t tile_or_stream) {
  return l->arena + (uint64_t)(l->plan->workspace_offset_bytes + tile_or_stream * l->plan->workspace_bytes);
}

/* ---- panels ---- */

struct tb_view tb_layout_a_view(const struct tb_layout *l, int64_t row, struct tb_extent k) {
  return tb_view_at(l->call->a, l->block.i + tb_layout_rows(l, row).start, k.start);
}

struct tb_view tb_layout_b_view(const struct tb_layout *l, int64_t column, struct tb_extent k) {
  return tb_view_at(l->call->b, k.start, l->block.j + tb_layout_columns(l, column).start);
}

/* A slice of a panel of `across` rows or columns that starts `panel` elements of a type from `base`; `along`: stored
 * along k. `before`: the k of the slices ahead of it. */
static struct tb_matrix slice_of_panel(enum tb_type type, uint64_t base, int64_t panel, int64_t across, bool along,
                                       int64_t before, int64_t k) {
  const int64_t ahead = before * (along ? across : tb_leading(type, across));
  return (struct tb_matrix){base + (uint64_t)((panel + ahead) * tb_type_bytes(type)),
                            tb_leading(type, along ? k : across)};
}

struct tb_matrix tb_layout_a(const struct tb_layout *l, int64_t row, struct tb_extent k) {
  struct tb_view x = tb_layout_a_view(l, row, k);
  if (l->plan->ways.a == TB_IN_PLACE) return (struct tb_matrix){(uint64_t)x.data, x.ld};
  const uint64_t base = l->arena + (uint64_t)(l->chunk.start > 0 ? l->plan->a_kept_bytes : 0);
  return slice_of_panel(x.type, base, row * l->plan->a_panel_elems, tb_layout_rows(l, row).size, x.transposed,
                        k.start - l->chunk.start, k.size);
}

struct tb_matrix tb_layout_b(const struct tb_layout *l, int64_t column, struct tb_extent k) {
  struct tb_view x = tb_layout_b_view(l, column, k);
  if (l->plan->ways.b == TB_IN_PLACE) return (struct tb_matrix){(uint64_t)x.data, x.ld};
  uint64_t base = l->arena + (uint64_t)l->plan->b_offset_bytes;
  return slice_of_panel(x.type, base, column * l->plan->b_panel_elems, tb_layout_columns(l, column).size, !x.transposed,
                        k.start - l->chunk.start, k.size);
}

/* ---- of complex products ---- */

struct tb_matrix tb_layout_real_a(const struct tb_layout *l, int64_t row, struct tb_extent k) {
  const uint64_t base = l->arena + (uint64_t)l->plan->real_offset_bytes;
  return slice_of_panel(tb_type_real(l->call->type), base, row * l->plan->a_real_elems, 2 * tb_layout_rows(l, row).size,
                        l->call->a.transposed, 2 * (k.start - l->chunk.start), 2 * k.size);
}

struct tb_matrix tb_layout_real_b(const struct tb_layout *l, int64_t column, struct tb_extent k) {
  if (l->plan->b_real_elems == 0) {
    const struct tb_matrix stored = tb_layout_b(l, column, k);
    return (struct tb_matrix){stored.address, 2 * stored.ld};
  }
  const enum tb_type real = tb_type_real(l->call->type);
  const int64_t rows = tb_ceil_div(l->plan->block_m, l->plan->tile_m);
  const uint64_t base =
      l->arena + (uint64_t)(l->plan->real_offset_bytes + rows * l->plan->a_real_elems * tb_type_bytes(real));
  return slice_of_panel(real, base, column * l->plan->b_real_elems, tb_layout_columns(l, column).size, false,
                        2 * (k.start - l->chunk.start), 2 * k.size);
}

/* ---- packed ---- */

/* Of a panel, which has room for all spans of a chunk, one behind the other. */
static int64_t packed_span(const struct tb_layout *l, int64_t panel, int64_t k_start) {
  return panel * tb_plan_spans(l->plan) + (k_start - l->chunk.start) / l->plan->span_k;
}

uint64_t tb_layout_packed_a(const struct tb_layout *l, int64_t row, int64_t k_start) {
  return l->arena + (uint64_t)(l->plan->packed_offset_bytes + packed_span(l, row, k_start) * l->plan->a_packed_bytes);
}

uint64_t tb_layout_packed_b(const struct tb_layout *l, int64_t column, int64_t k_start) {
  const int64_t rows = tb_ceil_div(l->plan->block_m, l->plan->tile_m);
  const int64_t behind_a = rows * tb_plan_spans(l->plan) * l->plan->a_packed_bytes;
  return l->arena + (uint64_t)(l->plan->packed_offset_bytes + behind_a +
                               packed_span(l, column, k_start) * l->plan->b_packed_bytes);
}
