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

int64_t tb_layout_next_block(const struct tb_call *call, const struct tb_plan *plan, int64_t number) {
  const int64_t blocks = tb_layout_blocks(call, plan);
  for (; number < blocks; number++) {
    const struct tb_block b = tb_layout_block(call, plan, number);
    if (!tb_region_misses(tb_region_at(call->region, b.i, b.j), b.m, b.n)) break;
  }
  return number;
}

void tb_layout_exchange(struct tb_layout *l) {
  const struct tb_call *const other = l->other;
  l->other = l->call;
  l->call = other;
  l->exchanged = !l->exchanged;
}

void tb_layout_enter(struct tb_layout *l, int64_t number) {
  if (l->exchanged) tb_layout_exchange(l);
  l->block = tb_layout_block(l->call, l->plan, number);
  l->is_last = tb_layout_next_block(l->call, l->plan, number + 1) == tb_layout_blocks(l->call, l->plan);
  l->rows = tb_ceil_div(l->block.m, l->plan->tile_m);
  l->columns = tb_ceil_div(l->block.n, l->plan->tile_n);
  l->chunk = piece(l->call->k, l->plan->chunk_k, 0);
}

/* Whether the second product has chunks of its own. */
static bool has_second_round(const struct tb_layout *l) { return l->call->twice && !l->plan->both; }

bool tb_layout_is_last_chunk(const struct tb_layout *l) {
  return l->chunk.start + l->chunk.size >= l->call->k && (l->exchanged || !has_second_round(l));
}

bool tb_layout_next_chunk(struct tb_layout *l) {
  int64_t start = l->chunk.start + l->chunk.size;
  if (tb_layout_is_last_chunk(l)) return false;
  if (start >= l->call->k) {
    tb_layout_exchange(l);
    start = 0;
  }
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

struct tb_extent tb_layout_sides(const struct tb_layout *l, bool of_b, int64_t panel) {
  return of_b ? tb_layout_columns(l, panel) : tb_layout_rows(l, panel);
}

struct tb_block tb_layout_tile(const struct tb_layout *l, int64_t tile) {
  struct tb_extent i = tb_layout_rows(l, tile / l->columns), j = tb_layout_columns(l, tile % l->columns);
  return (struct tb_block){i.start, i.size, j.start, j.size};
}

struct tb_region tb_layout_region(const struct tb_layout *l, int64_t tile) {
  const struct tb_block t = tb_layout_tile(l, tile);
  return tb_region_at(l->call->region, l->block.i + t.i, l->block.j + t.j);
}

bool tb_layout_misses(const struct tb_layout *l, int64_t tile) {
  const struct tb_block t = tb_layout_tile(l, tile);
  return tb_region_misses(tb_layout_region(l, tile), t.m, t.n);
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

struct tb_view tb_layout_view(const struct tb_layout *l, bool of_b, int64_t panel, struct tb_extent k) {
  const int64_t side = (of_b ? l->block.j : l->block.i) + tb_layout_sides(l, of_b, panel).start;
  return of_b ? tb_view_at(l->call->b, k.start, side) : tb_view_at(l->call->a, side, k.start);
}

/* A slice of a panel of `across` rows or columns that starts `panel` elements of a type from `base`; `along`: stored
 * along k. `before`: the k of the slices ahead of it. */
static struct tb_matrix slice_of_panel(enum tb_type type, uint64_t base, int64_t panel, int64_t across, bool along,
                                       int64_t before, int64_t k) {
  const int64_t ahead = before * (along ? across : tb_leading(type, across));
  return (struct tb_matrix){base + (uint64_t)((panel + ahead) * tb_type_bytes(type)),
                            tb_leading(type, along ? k : across)};
}

/* Whether the second product's panels are the other operand's of the first. */
static bool is_from_other(const struct tb_layout *l) { return l->exchanged && l->plan->both; }

struct tb_matrix tb_layout_panel(const struct tb_layout *l, bool of_b, int64_t panel, struct tb_extent k) {
  const struct tb_view x = tb_layout_view(l, of_b, panel, k);
  if (tb_way_of(&l->plan->ways, of_b) == TB_IN_PLACE) return (struct tb_matrix){(uint64_t)x.data, x.ld};
  const struct tb_plan_operand *const operand = &l->plan->operand[of_b != is_from_other(l)];
  const int64_t kept_bytes = !of_b && l->chunk.start > 0 ? l->plan->a_kept_bytes : 0;
  return slice_of_panel(x.type, l->arena + (uint64_t)(operand->offset_bytes + kept_bytes), panel * operand->panel_elems,
                        tb_layout_sides(l, of_b, panel).size, tb_runs_along_k(l->call, of_b), k.start - l->chunk.start,
                        k.size);
}

struct tb_matrix tb_layout_stored(const struct tb_layout *l, int64_t i, int64_t j) {
  const uint64_t base = l->arena + (uint64_t)l->plan->stored_offset_bytes;
  return (struct tb_matrix){tb_address_behind(l->call, base, i + j * l->plan->stored_ld), l->plan->stored_ld};
}

/* Panels of A of a block; behind so many, B's begin that are made real or packed. */
static int64_t panels_of_a(const struct tb_layout *l) { return tb_ceil_div(l->plan->block_m, l->plan->tile_m); }

/* ---- of complex products ---- */

/* A becomes one of twice the rows and twice the k as it is stored; B of twice the k, its rows behind one another. */
struct tb_matrix tb_layout_real(const struct tb_layout *l, bool of_b, int64_t panel, struct tb_extent k) {
  const struct tb_plan_operand *const operand = l->plan->operand;
  if (of_b && operand[TB_OF_B].real_elems == 0) {
    const struct tb_matrix stored = tb_layout_panel(l, of_b, panel, k);
    return (struct tb_matrix){stored.address, 2 * stored.ld};
  }
  const enum tb_type real = tb_kernel_type(l->call->type);
  const int64_t behind_a = of_b ? panels_of_a(l) * operand[TB_OF_A].real_elems * tb_type_bytes(real) : 0;
  const int64_t behind_first = is_from_other(l) ? l->plan->again_real_bytes : 0;
  return slice_of_panel(real, l->arena + (uint64_t)(l->plan->real_offset_bytes + behind_first + behind_a),
                        panel * operand[of_b].real_elems, (of_b ? 1 : 2) * tb_layout_sides(l, of_b, panel).size,
                        !of_b && l->call->a.transposed, 2 * (k.start - l->chunk.start), 2 * k.size);
}

/* ---- packed ---- */

/* A panel has room for all spans of a chunk, one behind the other. */
uint64_t tb_layout_packed(const struct tb_layout *l, bool of_b, int64_t panel, int64_t k_start) {
  const struct tb_plan_operand *const operand = l->plan->operand;
  const int64_t spans = tb_plan_spans(l->plan);
  const int64_t behind_a = of_b ? panels_of_a(l) * spans * operand[TB_OF_A].packed_bytes : 0;
  const int64_t behind_first = is_from_other(l) ? l->plan->again_packed_bytes : 0;
  const int64_t span = panel * spans + (k_start - l->chunk.start) / l->plan->span_k;
  if (l->packed[of_b] != 0) return l->packed[of_b] + (uint64_t)(span * operand[of_b].packed_bytes);
  return l->arena +
         (uint64_t)(l->plan->packed_offset_bytes + behind_first + behind_a + span * operand[of_b].packed_bytes);
}
