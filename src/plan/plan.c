/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan/plan_internal.h"

#include <stddef.h>

#include "select/fma_way.h"
#include "select/order.h"
#include "common/sgemm_args.h"

/* Tiles of C: a third of the block's side, large enough that a launch fills a good part of a GPU, small enough that the
 * first one can start and the last one come down soon. Of large blocks an eighth: more tiles do not help. */
#define TILES_WISH 3
static const struct tb_tiling tiles_of_either = {128, 512, 1024, 2048, 8};
/* Twins of so many tiles a side go up by slices: most of C is complete in the second one. (H100: dsyrk 8192 16.1 ms by
 * whole panels, 15.1 so, 20 by tiles of 1536; 4096 4.15 and 4.17, 2048 1.43 and 1.64.) */
#define TWINS_BY_SLICES_LEAST 6
#define SLICES_OF_TWINS 2
/* Along the strips' long sides. */
static const struct tb_tiling strips_of_either = {128, 256, 256, 2048, TB_TILES_MAX};
/* A strip's panel goes up in slices of k, at most three, of so many bytes or more. */
#define STRIP_SLICE_BYTES ((int64_t)16 << 20)
/* Slices of a chunk of k; of a single tile, for which nothing else makes the kernels start early, more. None of a panel
 * that is this small: it is up in some 20 microseconds. */
#define SLICES 3
#define SLICES_OF_ONE_TILE 8
/* Beside a copy one tile has the more slices, the more goes up: behind the last one its product is left to compute, and
 * each has some 30 us of its own, in which the link brings up so much. */
#define SLICE_OF_COPIES_BYTES ((int64_t)1536 << 10)
#define SLICES_OF_COPIES_MOST 16
#define SLICE_BYTES_MIN ((int64_t)1 << 20)
#define SLICE_K_MIN 256
/* Pieces are multiples of this, the largest kernel's block of C, until nothing else fits but the smallest kernel's. */
#define PIECE_ELEMS 128
#define PIECE_ELEMS_MIN 32
/* k is cut first while it is longer than this and than the block: short chunks make more launches, not less traffic. */
#define CHUNK_K_WISH 1024

/* What a kernel counts in 32 bits; the columns are whole tiles of the tensor cores. */
#define CHUNK_K_MAX ((int64_t)1 << 30)
#define BLOCK_N_MAX ((int64_t)3 << 28)
/* Of a triangle in place with sides of so many elements tiles are computed. */
#define TRIANGLE_IN_PLACE_LEAST 2048
/* Most memory for the partial sums of a split k. Products that gain by a split have few elements of C. */
#define WORKSPACE_BYTES_MAX ((int64_t)256 << 20)
/* Most for them and for packed operands: when less than all of k is packed at once, the more, the less often C is read
 * and written. */
#define PACKED_BYTES_MAX ((int64_t)1 << 30)

/* Pinned memory. An operand of at most so many bytes, or one that no two tiles share, is read in place: a copy would
 * cross the link as often and be waited for besides. Of a longer one the GPU copies columns that are long enough, and
 * not too far apart for it (CU_DEVICE_ATTRIBUTE_MAX_PITCH, the same on every GPU). */
#define PINNED_IN_PLACE_BYTES ((int64_t)64 << 10)
#define DIRECT_ROWS_MIN 256
#define DIRECT_LD_BYTES_MAX (INT32_MAX - TB_LINE_BYTES)

/* Nothing is copied. */
static bool is_resident(const struct tb_ways *ways) {
  return !tb_way_is_by_link(ways->a) && !tb_way_is_by_link(ways->b) && ways->c == TB_IN_PLACE;
}

/* Tiles are for the overlap of copies and kernels: where nothing is copied, one launch does it all. But by kernels that
 * do not look what is wanted (common/region_tiles.h), those for fp32, it would compute twice what there is of a
 * triangle. */
static bool is_triangle_in_place(const struct tb_call *call, const struct tb_ways *ways) {
  const bool large = call->m >= TRIANGLE_IN_PLACE_LEAST && call->n >= TRIANGLE_IN_PLACE_LEAST;
  return is_resident(ways) && call->region.of != TB_WHOLE && large && !tb_type_is_double(call->type);
}

/* Operands and a C in place are the business of one stream, for the program's own must wait for it; but a triangle is
 * computed in tiles, each of which leaves a part of the GPU to the next. */
bool tb_plan_in_one_stream(const struct tb_plan *plan) {
  const struct tb_ways *const ways = &plan->ways;
  const bool in_place = !tb_way_is_by_link(ways->a) || !tb_way_is_by_link(ways->b) || ways->c == TB_IN_PLACE;
  return in_place && !plan->triangle_in_place && ways->kept != TB_ARE_COPIES;
}

bool tb_plan_is_cut(const struct tb_plan *plan, const struct tb_call *call) {
  return plan->block_m < call->m || plan->block_n < call->n || plan->chunk_k < call->k;
}

/* Even tiles, of which so many more cover the block than need be. */
static int64_t even_tile(int64_t block, int64_t tile, int64_t piece, int more) {
  const int64_t tiles = tb_min(tb_ceil_div(block, tile) + more, TB_TILES_MAX);
  return tb_min(tb_round_up(tb_ceil_div(block, tiles), piece), block); /* 1100: 640 + 460, not 1024 + 76 */
}

int64_t tb_plan_tile(int64_t block, const struct tb_tiling *t, int more) {
  int64_t tile = tb_min(tb_max(tb_round_up(tb_ceil_div(block, TILES_WISH), t->piece), t->least), t->wish);
  tile = tb_max(tile, tb_min(tb_round_up(tb_ceil_div(block, t->enough), t->piece), t->most));
  tile = tb_max(tile, tb_round_up(tb_ceil_div(block, TB_TILES_MAX), t->piece));
  return even_tile(block, tile, t->piece, more);
}

/* Elements of a stored panel: op(X) has `across` rows (A) or columns (B) and `k` along the product. `along` is true
 * when the stored columns run along k. */
static int64_t panel_elems(enum tb_type type, int64_t across, int64_t k, bool along) {
  return along ? tb_leading(type, k) * across : tb_leading(type, across) * k;
}

static enum tb_way way_of(enum tb_place place, bool pinned_in_place, int64_t stored_rows, int64_t ld_bytes) {
  if (place == TB_DEVICE || place == TB_MANAGED) return TB_IN_PLACE;
  if (place == TB_PAGEABLE) return TB_STAGED;
  if (pinned_in_place) return TB_IN_PLACE;
  return stored_rows >= DIRECT_ROWS_MIN && ld_bytes <= DIRECT_LD_BYTES_MAX ? TB_DIRECT : TB_STAGED;
}

/* `shared_by` is the side of C along which the operand's elements are read again. */
static enum tb_way operand_way(enum tb_place place, struct tb_view x, int64_t rows, int64_t columns,
                               int64_t shared_by) {
  if (tb_view_is_mirrored(&x)) return place == TB_DEVICE || place == TB_MANAGED ? TB_FORMED : TB_STAGED;
  bool in_place = shared_by <= PIECE_ELEMS_MIN || rows * columns * tb_type_bytes(x.type) <= PINNED_IN_PLACE_BYTES;
  return way_of(place, in_place, x.transposed ? columns : rows, x.ld * tb_type_bytes(x.type));
}

struct tb_ways tb_plan_ways(const struct tb_call *call, const struct tb_places *places) {
  struct tb_ways ways = {.a = TB_STAGED, .b = TB_STAGED, .c = TB_STAGED};
  if (places == NULL) return ways;
  ways.a = operand_way(places->a.place, call->a, call->m, call->k, call->n);
  ways.b = operand_way(places->b.place, call->b, call->k, call->n, call->m);
  /* A pinned C that is still needed is the host's to commit: a failing GPU must not have touched it. So is one of which
   * a triangle alone is computed. */
  enum tb_place c = places->c.place == TB_PINNED && !tb_call_overwrites_all(call) ? TB_PAGEABLE : places->c.place;
  const int64_t bytes = tb_call_bytes(call);
  ways.c = way_of(c, call->m * call->n * bytes <= PINNED_IN_PLACE_BYTES, call->m, call->ldc * bytes);
  return ways;
}

/* Panels and tiles start on lines too. */
static int64_t room_for_panel(const struct tb_plan *plan, const struct tb_call *call, bool of_b, int64_t across) {
  if (tb_way_of(&plan->ways, of_b) == TB_IN_PLACE) return 0;
  return tb_padded(call->type, panel_elems(call->type, across, plan->chunk_k, tb_runs_along_k(call, of_b)));
}

void tb_plan_size_panels(struct tb_plan *plan, const struct tb_call *call, int64_t tile_m, int64_t tile_n) {
  plan->tile_m = tile_m;
  plan->tile_n = tile_n;
  plan->operand[TB_OF_A].panel_elems = room_for_panel(plan, call, TB_OF_A, tile_m);
  plan->operand[TB_OF_B].panel_elems = room_for_panel(plan, call, TB_OF_B, tile_n);
  plan->tile_elems =
      tb_kernels_write_c(&plan->ways, call) ? 0 : tb_padded(call->type, tb_leading(call->type, tile_m) * tile_n);
}

/* What a panel of a complex product takes as a real one, in reals: as it is stored, twice as long both ways; of B,
 * whose stored columns are the sides, in one. */
static int64_t real_elems_of_a(const struct tb_plan *plan, const struct tb_call *call, int64_t rows) {
  const enum tb_type real = tb_kernel_type(call->type);
  return tb_padded(real, panel_elems(real, 2 * rows, 2 * plan->chunk_k, call->a.transposed));
}

static int64_t real_elems_of_b(const struct tb_plan *plan, const struct tb_call *call, int64_t columns) {
  const enum tb_type real = tb_kernel_type(call->type);
  return call->b.transposed ? tb_padded(real, panel_elems(real, columns, 2 * plan->chunk_k, false)) : 0;
}

void tb_plan_place_real(struct tb_plan *plan, const struct tb_call *call, int64_t rows, int64_t columns) {
  if (!tb_is_made_real(call->type)) return;
  struct tb_plan_operand *const a = &plan->operand[TB_OF_A], *const b = &plan->operand[TB_OF_B];
  a->real_elems = real_elems_of_a(plan, call, plan->tile_m);
  b->real_elems = real_elems_of_b(plan, call, plan->tile_n);
  plan->real_offset_bytes = plan->arena_bytes;
  const int64_t bytes = (rows * a->real_elems + columns * b->real_elems) * tb_type_bytes(tb_kernel_type(call->type));
  plan->again_real_bytes = plan->both ? bytes : 0;
  plan->arena_bytes += bytes + plan->again_real_bytes;
}

/* One, of a panel that need not go up. */
static int64_t slices_of_strip(const struct tb_plan *plan, int64_t bytes) {
  const int64_t elems = plan->operand[plan->tile_m == plan->block_m].panel_elems;
  return tb_max(1, tb_min(SLICES, tb_ceil_div(elems * bytes, STRIP_SLICE_BYTES)));
}

/* ---- for all kernels but the tensor cores' ---- */

/* Whether a plan of one tile goes up and down by one copy each. */
static bool fits_one_slot(const struct tb_plan *plan, const struct tb_call *call) {
  const bool staged = plan->ways.a == TB_STAGED && plan->ways.b == TB_STAGED && plan->ways.c == TB_STAGED;
  if (call->twice && !tb_plan_may_have_both(plan, call)) return false;
  return !tb_plan_is_cut(plan, call) && staged &&
         plan->operand[TB_OF_A].panel_elems + plan->operand[TB_OF_B].panel_elems <= tb_slot_elems(call->type) &&
         plan->tile_elems <= tb_slot_elems(call->type);
}

static int64_t slices_beside_copies(const struct tb_plan *plan, int64_t bytes) {
  const int64_t a_elems = tb_way_is_by_link(plan->ways.a) ? plan->operand[TB_OF_A].panel_elems : 0;
  const int64_t b_elems = tb_way_is_by_link(plan->ways.b) ? plan->operand[TB_OF_B].panel_elems : 0;
  const int64_t up_bytes = (a_elems + b_elems) * bytes;
  int64_t slices = 1;
  while (slices < SLICES_OF_COPIES_MOST && (slices + 1) * (slices + 1) * SLICE_OF_COPIES_BYTES <= up_bytes) slices++;
  return slices;
}

static int64_t slice_of(const struct tb_plan *plan, int64_t bytes, int64_t slices) {
  const int64_t panels = plan->operand[TB_OF_A].panel_elems + plan->operand[TB_OF_B].panel_elems;
  const int64_t elems_of_k = panels / plan->chunk_k + 1;
  const int64_t least = tb_ceil_div(SLICE_BYTES_MIN, elems_of_k * bytes);
  int64_t slice = tb_round_up(tb_max(least, tb_ceil_div(plan->chunk_k, slices)), plan->cut_k);
  /* A launch for the few k that are left over costs as much as one for many. */
  while (slice < plan->chunk_k && (plan->chunk_k - 1) % slice + 1 < SLICE_K_MIN) slice += plan->cut_k;
  return tb_min(plan->chunk_k, slice);
}

void tb_plan_place_panels(struct tb_plan *plan, const struct tb_call *call, int64_t rows, int64_t columns,
                          bool keeps_a) {
  const int64_t size = tb_call_bytes(call), last_m = plan->block_m - (rows - 1) * plan->tile_m;
  const int64_t last_n = plan->block_n - (columns - 1) * plan->tile_n;
  struct tb_plan_operand *const a = &plan->operand[TB_OF_A], *const b = &plan->operand[TB_OF_B];
  const int64_t a_elems = (rows - 1) * a->panel_elems + room_for_panel(plan, call, TB_OF_A, last_m);
  const int64_t b_elems = (columns - 1) * b->panel_elems + room_for_panel(plan, call, TB_OF_B, last_n);
  plan->a_kept_bytes = keeps_a ? a_elems * size : 0;
  b->offset_bytes = plan->twins ? 0 : plan->a_kept_bytes + a_elems * size;
  plan->d_offset_bytes = plan->twins ? a_elems * size : b->offset_bytes + b_elems * size;
  plan->stored_offset_bytes = plan->d_offset_bytes + rows * columns * plan->tile_elems * size;
  plan->stored_ld = tb_plan_may_unfold(plan, call) ? tb_leading(call->type, call->k) : 0;
  plan->arena_bytes = plan->stored_offset_bytes + plan->stored_ld * call->k * size;
}

bool tb_plan_is_at_once(const struct tb_plan *plan) { return is_resident(&plan->ways) && !plan->triangle_in_place; }

/* Where the GPU has kept an operand, and little comes down, there is nothing for tiles to overlap: slices of all of C
 * follow the other operand's. */
static bool is_one_tile(const struct tb_plan *plan, const struct tb_call *call) {
  return tb_plan_has_copies(plan, call) && tb_call_elems(call) * (double)tb_call_bytes(call) <= (double)TB_SLOT_BYTES;
}

static void lay_out(struct tb_plan *plan, const struct tb_call *call) {
  plan->strips = plan->twins = plan->by_slices = false;
  plan->at_once = tb_plan_is_at_once(plan);
  plan->both = tb_plan_may_have_both(plan, call);
  tb_plan_size_panels(plan, call, plan->block_m, plan->block_n);
  plan->one_slot = fits_one_slot(plan, call);
  int64_t slices = 1;
  if (!plan->at_once && !plan->one_slot) {
    plan->twins = tb_plan_may_have_twins(plan, call);
    const bool one_tile = is_one_tile(plan, call);
    if (!one_tile)
      tb_plan_size_panels(plan, call, tb_plan_tile(plan->block_m, &tiles_of_either, 0),
                          tb_plan_tile(plan->block_n, &tiles_of_either, 0));
    slices = plan->tile_m == plan->block_m && plan->tile_n == plan->block_n ? SLICES_OF_ONE_TILE : SLICES;
    plan->by_slices = plan->twins && tb_ceil_div(plan->block_m, plan->tile_m) >= TWINS_BY_SLICES_LEAST;
    if (plan->by_slices) slices = SLICES_OF_TWINS;
    if (one_tile) slices = slices_beside_copies(plan, tb_call_bytes(call));
    if (plan->triangle_in_place) slices = 1; /* nothing is on its way */
    tb_plan_size_strips(plan, call, tb_plan_other_flops_per_byte(&plan->ways),
                        (struct tb_tilings){&strips_of_either, &strips_of_either});
    if (plan->strips) slices = slices_of_strip(plan, tb_call_bytes(call));
  }
  int64_t rows = tb_ceil_div(plan->block_m, plan->tile_m), columns = tb_ceil_div(plan->block_n, plan->tile_n);
  plan->slice_k = slices == 1 ? plan->chunk_k : slice_of(plan, tb_call_bytes(call), slices);
  tb_plan_place_panels(plan, call, rows, columns, false);
  tb_plan_place_real(plan, call, rows, columns);
}

/* Halves one of the three sizes: k while it dominates, else the longer side of the block. False: all are at their
 * least. k is cut where the kernels end a group of their sums, so that the cut does not show in the result. */
static bool cut(struct tb_plan *plan) {
  int64_t side = tb_max(plan->block_m, plan->block_n);
  int64_t piece = side > PIECE_ELEMS ? PIECE_ELEMS : PIECE_ELEMS_MIN;
  bool k_counts = plan->ways.a != TB_IN_PLACE || plan->ways.b != TB_IN_PLACE || tb_plan_expands(plan);
  if (k_counts && plan->chunk_k > tb_max(CHUNK_K_WISH, plan->cut_k) && plan->chunk_k >= side)
    plan->chunk_k = tb_round_up(tb_ceil_div(plan->chunk_k, 2), plan->cut_k);
  else if (plan->block_m == side && side > piece)
    plan->block_m = tb_round_up(tb_ceil_div(side, 2), piece);
  else if (side > piece)
    plan->block_n = tb_round_up(tb_ceil_div(side, 2), piece);
  else if (k_counts && plan->chunk_k > plan->cut_k)
    plan->chunk_k = tb_round_up(tb_ceil_div(plan->chunk_k, 2), plan->cut_k);
  else
    return false;
  return true;
}

/*
 * Memory for partial sums behind the rest, as far as it fits: as many as a split k can have, one for every chunk of the
 * kernels' sums, or every group if that is less. None where not even two would fit, for then there is nothing to split.
 * And for packed operands, where one launch has them all. In double precision they are taken as they are: then as much
 * is for the sums of the tiles that do not fill a last round of the GPU, whose k is split.
 */
static void add_workspace(struct tb_plan *plan, enum tb_type type, int64_t budget_bytes) {
  int64_t tiles = tb_ceil_div(plan->block_m, plan->tile_m) * tb_ceil_div(plan->block_n, plan->tile_n);
  int64_t sum_bytes =
      tb_padded(type, plan->tile_m * plan->tile_n) * tb_type_bytes(type); /* each tile's start on a line */
  int64_t room = tb_min(WORKSPACE_BYTES_MAX, budget_bytes - plan->arena_bytes) / tiles;
  const int64_t unit_k = tb_min(TB_SGEMM_CHUNK_K, plan->group_k);
  int64_t sums = tb_min(tb_ceil_div(plan->slice_k, unit_k), room / sum_bytes);
  plan->workspace_offset_bytes = plan->arena_bytes;
  plan->workspace_bytes = sums < 2 ? 0 : sums * sum_bytes;
  if (plan->at_once && !tb_plan_expands(plan)) {
    const int64_t parts = tb_type_parts(type);
    const int64_t wish =
        plan->workspace_bytes + tb_packed_bytes(parts * plan->block_m, plan->block_n, parts * plan->chunk_k);
    plan->workspace_bytes =
        tb_min(tb_min(wish, PACKED_BYTES_MAX), budget_bytes - plan->arena_bytes) / TB_LINE_BYTES * TB_LINE_BYTES;
  }
  plan->arena_bytes += tiles * plan->workspace_bytes;
}

/* The operands lie in memory, so no product of sizes below comes near 2^63. */
struct tb_plan tb_plan_uncut(const struct tb_call *call, struct tb_ways ways) {
  const int64_t group_k = tb_gemm_group_k(call);
  const int64_t cut_k = group_k % tb_line_elems(call->type) == 0 ? group_k : 2 * group_k;
  const int64_t most_k = CHUNK_K_MAX / tb_kernel_parts(call->type);
  /* A column of a tile must fit into a slot of the download ring. */
  return (struct tb_plan){.block_m = tb_min(call->m, TB_TILES_MAX * tb_slot_elems(call->type)),
                          .block_n = tb_min(call->n, BLOCK_N_MAX),
                          .chunk_k = call->k > most_k ? most_k / cut_k * cut_k : call->k,
                          .group_k = group_k,
                          .cut_k = cut_k,
                          .triangle_in_place = is_triangle_in_place(call, &ways),
                          .ways = ways};
}

/* Operands in place are read by one launch for all of k; but what a complex product makes of them is the more, the
 * longer the k. */
static void shorten_real_panels(struct tb_plan *plan, const struct tb_call *call) {
  const int64_t k = plan->chunk_k, a = real_elems_of_a(plan, call, plan->block_m);
  const int64_t bytes = (a + real_elems_of_b(plan, call, plan->block_n)) * tb_type_bytes(tb_kernel_type(call->type));
  if (bytes <= PACKED_BYTES_MAX) return;
  const int64_t cuts = tb_ceil_div(bytes, PACKED_BYTES_MAX);
  plan->chunk_k = tb_min(k, tb_round_up(tb_ceil_div(k, cuts), plan->cut_k));
}

/* Nor are panels that are formed longer than that: they are read once. */
static void shorten_formed_panels(struct tb_plan *plan, const struct tb_call *call) {
  tb_plan_size_panels(plan, call, plan->block_m, plan->block_n);
  const int64_t elems = (plan->ways.a == TB_FORMED ? plan->operand[TB_OF_A].panel_elems : 0) +
                        (plan->ways.b == TB_FORMED ? plan->operand[TB_OF_B].panel_elems : 0);
  const int64_t cuts = tb_ceil_div(elems * tb_call_bytes(call), PACKED_BYTES_MAX);
  if (cuts > 1) plan->chunk_k = tb_min(plan->chunk_k, tb_round_up(tb_ceil_div(plan->chunk_k, cuts), plan->cut_k));
}

bool tb_plan_make(struct tb_plan *plan, const struct tb_call *call, struct tb_ways ways, int64_t budget_bytes) {
  *plan = tb_plan_uncut(call, ways);
  shorten_formed_panels(plan, call);
  if (tb_is_made_real(call->type) && is_resident(&ways)) shorten_real_panels(plan, call);
  for (;;) {
    lay_out(plan, call);
    if (plan->arena_bytes <= budget_bytes) break;
    if (plan->stored_ld > 0)
      plan->no_square = true;
    else if (!cut(plan))
      return false;
  }
  add_workspace(plan, call->type, budget_bytes);
  return true;
}

bool tb_plan_fits_one_slot(const struct tb_call *call, struct tb_ways ways) {
  struct tb_plan plan = tb_plan_uncut(call, ways);
  tb_plan_size_panels(&plan, call, plan.block_m, plan.block_n);
  return fits_one_slot(&plan, call);
}
