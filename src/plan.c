/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan.h"

#include "sgemm_args.h"

/* Tiles of C: large enough that a launch fills a good part of a GPU, small enough that the first one can start early.
 */
#define TILE_MIN_ELEMS 1024
#define TILE_MAX_ELEMS 2048
/* Pieces are multiples of this, the largest kernel's block of C, until nothing else fits but the smallest kernel's. */
#define PIECE_ELEMS 128
#define PIECE_ELEMS_MIN 32
/* k is cut first while it is longer than this and than the block: short chunks make more launches, not less traffic. */
#define CHUNK_K_WISH 1024

/* What a kernel counts in 32 bits. */
#define CHUNK_K_MAX ((int64_t)1 << 30)
/* A column of a tile must fit into a slot of the download ring. */
#define BLOCK_M_MAX (TB_TILES_MAX * TB_SLOT_ELEMS)

/* Most memory for the partial sums of a split k. Products that gain by a split have few elements of C. */
#define WORKSPACE_BYTES_MAX ((int64_t)64 << 20)

static int64_t round_up(int64_t n, int64_t multiple) { return tb_ceil_div(n, multiple) * multiple; }

static int64_t tile_of(int64_t block) {
  int64_t tile = round_up(tb_ceil_div(block, 4), PIECE_ELEMS);
  tile = tb_min(tb_max(tile, TILE_MIN_ELEMS), TILE_MAX_ELEMS);
  tile = tb_max(tile, round_up(tb_ceil_div(block, TB_TILES_MAX), PIECE_ELEMS));
  /* Even them out: 1100 becomes 640 + 460, not 1024 + 76. */
  tile = round_up(tb_ceil_div(block, tb_ceil_div(block, tile)), PIECE_ELEMS);
  return tb_min(tile, block);
}

/* Elements of a stored panel: op(X) has `across` rows (A) or columns (B) and `k` along the product. `along` is true
 * when the stored columns run along k. */
static int64_t panel_elems(int64_t across, int64_t k, bool along) {
  return along ? tb_padded(k) * across : tb_padded(across) * k;
}

static void lay_out(struct tb_plan *plan, const struct tb_gemm *call) {
  plan->tile_m = tile_of(plan->block_m);
  plan->tile_n = tile_of(plan->block_n);
  plan->a_panel_elems = panel_elems(plan->tile_m, plan->chunk_k, call->a.transposed);
  plan->b_panel_elems = panel_elems(plan->tile_n, plan->chunk_k, !call->b.transposed);
  /* Panels and tiles start on 128-byte lines too. */
  plan->a_panel_elems = tb_padded(plan->a_panel_elems);
  plan->b_panel_elems = tb_padded(plan->b_panel_elems);
  plan->tile_elems = tb_padded(tb_padded(plan->tile_m) * plan->tile_n);
  int64_t rows = tb_ceil_div(plan->block_m, plan->tile_m), columns = tb_ceil_div(plan->block_n, plan->tile_n);
  const int64_t size = sizeof(float);
  plan->b_offset_bytes = rows * plan->a_panel_elems * size;
  plan->d_offset_bytes = plan->b_offset_bytes + columns * plan->b_panel_elems * size;
  plan->arena_bytes = plan->d_offset_bytes + rows * columns * plan->tile_elems * size;
}

/* Halves one of the three sizes: k while it dominates, else the longer side of the block. False: all are at their
 * least. k is cut where the kernels end a group of their sums, so that the cut does not show in the result. */
static bool cut(struct tb_plan *plan) {
  int64_t side = tb_max(plan->block_m, plan->block_n);
  int64_t piece = side > PIECE_ELEMS ? PIECE_ELEMS : PIECE_ELEMS_MIN;
  if (plan->chunk_k > CHUNK_K_WISH && plan->chunk_k >= side)
    plan->chunk_k = round_up(tb_ceil_div(plan->chunk_k, 2), TB_SGEMM_GROUP_K);
  else if (plan->block_m == side && side > piece)
    plan->block_m = round_up(tb_ceil_div(side, 2), piece);
  else if (side > piece)
    plan->block_n = round_up(tb_ceil_div(side, 2), piece);
  else if (plan->chunk_k > TB_SGEMM_GROUP_K)
    plan->chunk_k = round_up(tb_ceil_div(plan->chunk_k, 2), TB_SGEMM_GROUP_K);
  else
    return false;
  return true;
}

/*
 * Memory for partial sums behind the rest, as far as it fits: as many as a split k can have, one for every chunk of the
 * kernels' sums. None where not even two would fit, for then there is nothing to split.
 */
static void add_workspace(struct tb_plan *plan, int64_t budget_bytes) {
  int64_t tiles = tb_ceil_div(plan->block_m, plan->tile_m) * tb_ceil_div(plan->block_n, plan->tile_n);
  int64_t sum_bytes = tb_padded(plan->tile_m * plan->tile_n) * (int64_t)sizeof(float); /* each tile's start on a line */
  int64_t room = tb_min(WORKSPACE_BYTES_MAX, budget_bytes - plan->arena_bytes) / tiles;
  int64_t sums = tb_min(tb_ceil_div(plan->chunk_k, TB_SGEMM_CHUNK_K), room / sum_bytes);
  plan->workspace_offset_bytes = plan->arena_bytes;
  plan->workspace_bytes = sums < 2 ? 0 : sums * sum_bytes;
  plan->arena_bytes += tiles * plan->workspace_bytes;
}

bool tb_plan_make(struct tb_plan *plan, const struct tb_gemm *call, int64_t budget_bytes) {
  /* The operands lie in memory, so no product of sizes below comes near 2^63. */
  *plan = (struct tb_plan){
      .block_m = tb_min(call->m, BLOCK_M_MAX), .block_n = call->n, .chunk_k = tb_min(call->k, CHUNK_K_MAX)};
  for (;;) {
    lay_out(plan, call);
    if (plan->arena_bytes <= budget_bytes) break;
    if (!cut(plan)) return false;
  }
  add_workspace(plan, budget_bytes);
  return true;
}
