/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan.h"

#include <math.h>
#include <stddef.h>

#include "order.h"
#include "select.h"
#include "sgemm_args.h"

/* Tiles of C: a third of the block's side, large enough that a launch fills a good part of a GPU, small enough that the
 * first one can start and the last one come down soon. Of large blocks an eighth: more tiles do not help. */
#define TILES_WISH 3
struct tiling {
  int64_t piece; /* tiles are multiples of it: the largest kernel's block of C */
  int64_t least, wish, most, enough;
};
static const struct tiling present = {128, 512, 1024, 2048, 8};
/* For the tensor cores, four times as fast, a few more. With several spans of k larger ones, for each launch drags four
 * more along that find nothing to do, and the thread that launches is late for the link: by 11 x 11 tiles of a side of
 * 1152 12288 cubed took 39 ms, by 12 x 11 of one span 33; 16384 cubed 73 by 16 x 15, 67 by 11 x 11 (H200). */
static const struct tiling split_rows = {TB_SPLIT_TILE_M, 512, 1024, 3072, 11};
static const struct tiling split_columns = {TB_SPLIT_TILE_N, 576, 1152, 3072, 11};
static const struct tiling split_rows_of_spans = {TB_SPLIT_TILE_M, 512, 1536, 3072, 11};
static const struct tiling split_columns_of_spans = {TB_SPLIT_TILE_N, 576, 1536, 3072, 11};
/* Not so large along a side that is much the longer one, as it is of the parts that several GPUs have: of the operand
 * that all of them want each has a share to bring up. (32768 cubed by two H200 221 ms instead of 239.) */
static const struct tiling split_rows_of_long_side = {TB_SPLIT_TILE_M, 512, 1536, 2048, 16};
static const struct tiling split_columns_of_long_side = {TB_SPLIT_TILE_N, 576, 1536, 2304, 16};
/* Where both C and k are cut, a tile has a launch of all kernels in every chunk, and fewer streams leave more memory to
 * C: by 2048 x 2112 and two streams 16384 cubed takes 109 ms in 1 GiB, by 1024 x 960 and four 122 (H200). */
static const struct tiling split_rows_of_chunks = {TB_SPLIT_TILE_M, 512, 2048, 3072, 8};
static const struct tiling split_columns_of_chunks = {TB_SPLIT_TILE_N, 576, 2112, 3072, 8};
/* In one stream each launch must fill the GPU alone: 11 x 12 of their tiles are an H200's 132 multiprocessors. */
static const struct tiling split_rows_in_order = {TB_SPLIT_TILE_M, 1408, 1408, 2816, 16};
static const struct tiling split_columns_in_order = {TB_SPLIT_TILE_N, 2304, 2304, 4608, 16};
/* Of the strips' long sides alone. */
static const struct tiling strips_of_either = {128, 256, 256, 2048, TB_TILES_MAX};
static const struct tiling split_strips_of_rows = {TB_SPLIT_TILE_M, 384, 384, 3072, TB_TILES_MAX};
static const struct tiling split_strips_of_columns = {TB_SPLIT_TILE_N, 384, 384, 3072, TB_TILES_MAX};
/* What is computed while the link brings up a byte, at 45 GB/s: by the tensor cores, and by the other kernels. */
#define SPLIT_FLOPS_PER_BYTE 4100.0
#define OTHER_FLOPS_PER_BYTE 1050.0
/* A product that takes more than so many times as long as the larger operand's way up is not computed in strips: by
 * bench/overlap_model.py, from 1.28 on it had better not be, and from 0.6 on where the data want bf16 planes, which
 * take twice as long (8192 cubed 17.3 ms in strips, 15.3 by squares). And one that takes at most so many times as long
 * need not be computed on the tensor cores, of which each launch is preceded by packing and is five: 1536 cubed takes
 * 0.82 ms by them, 0.76 without, 2048 cubed 1.01 in strips by either (H200). */
#define STRIPS_TIMES 1.05
#define HIDDEN_TIMES 1.0
/* The operand that is not quite the larger one may be the one in strips. */
#define STRIPS_SIDES 0.8
/* Nor is one whose C is less than such a share of what goes up. */
#define STRIPS_SHARE 0.2
/* A strip's panel is such a part of its operand, but has so many elements at least, and no more than a slot; unless
 * that were narrower than the tilings above have it. The caller's thread has some 25 microseconds of work with each:
 * 160 x 6387 x 194 in 25 strips took 961 us, in 7 tiles 299 (two hosts). */
#define STRIPS_WISH 8
#define STRIP_ELEMS_MIN ((int64_t)256 << 10)
/* A strip's panel goes up in slices of k, at most three, of so many elements or more. */
#define STRIP_SLICE_ELEMS ((int64_t)4 << 20)
/* Slices of a chunk of k; of a single tile, for which nothing else makes the kernels start early, more. None of a panel
 * that is this small: it is up in some 20 microseconds. */
#define SLICES 3
#define SLICES_OF_ONE_TILE 8
#define SLICE_ELEMS_MIN ((int64_t)256 << 10)
#define SLICE_K_MIN 256
/* Pieces are multiples of this, the largest kernel's block of C, until nothing else fits but the smallest kernel's. */
#define PIECE_ELEMS 128
#define PIECE_ELEMS_MIN 32
/* k is cut first while it is longer than this and than the block: short chunks make more launches, not less traffic. */
#define CHUNK_K_WISH 1024

/* What a kernel counts in 32 bits. */
#define CHUNK_K_MAX ((int64_t)1 << 30)
/* A column of a tile must fit into a slot of the download ring. */
#define BLOCK_M_MAX (TB_TILES_MAX * TB_SLOT_ELEMS)

/* Where something starts, a line of 128 bytes does. */
#define LINE_BYTES ((int64_t)(TB_LD_ELEMS * sizeof(float)))
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
#define DIRECT_LD_MAX (INT32_MAX / (int64_t)sizeof(float) - TB_LD_ELEMS)

/* Operands and a C in place are the business of one stream, for the program's own must wait for it. */
static bool in_one_stream(const struct tb_ways *ways) {
  return ways->a == TB_IN_PLACE || ways->b == TB_IN_PLACE || ways->c == TB_IN_PLACE;
}

static bool is_cut(const struct tb_plan *plan, const struct tb_gemm *call) {
  return plan->block_m < call->m || plan->block_n < call->n || plan->chunk_k < call->k;
}

/* Even tiles, of which so many more cover the block than need be. */
static int64_t even_tile(int64_t block, int64_t tile, int64_t piece, int more) {
  const int64_t tiles = tb_min(tb_ceil_div(block, tile) + more, TB_TILES_MAX);
  return tb_min(tb_round_up(tb_ceil_div(block, tiles), piece), block); /* 1100: 640 + 460, not 1024 + 76 */
}

static int64_t tile_of(int64_t block, const struct tiling *t, int more) {
  int64_t tile = tb_min(tb_max(tb_round_up(tb_ceil_div(block, TILES_WISH), t->piece), t->least), t->wish);
  tile = tb_max(tile, tb_min(tb_round_up(tb_ceil_div(block, t->enough), t->piece), t->most));
  tile = tb_max(tile, tb_round_up(tb_ceil_div(block, TB_TILES_MAX), t->piece));
  return even_tile(block, tile, t->piece, more);
}

/* Elements of a stored panel: op(X) has `across` rows (A) or columns (B) and `k` along the product. `along` is true
 * when the stored columns run along k. */
static int64_t panel_elems(int64_t across, int64_t k, bool along) {
  return along ? tb_leading(k) * across : tb_leading(across) * k;
}

static enum tb_way way_of(enum tb_place place, bool pinned_in_place, int64_t stored_rows, int64_t ld) {
  if (place == TB_DEVICE || place == TB_MANAGED) return TB_IN_PLACE;
  if (place == TB_PAGEABLE) return TB_STAGED;
  if (pinned_in_place) return TB_IN_PLACE;
  return stored_rows >= DIRECT_ROWS_MIN && ld <= DIRECT_LD_MAX ? TB_DIRECT : TB_STAGED;
}

/* `shared_by` is the side of C along which the operand's words are read again. */
static enum tb_way operand_way(enum tb_place place, struct tb_view x, int64_t rows, int64_t columns,
                               int64_t shared_by) {
  bool in_place = shared_by <= PIECE_ELEMS_MIN || rows * columns * (int64_t)sizeof(float) <= PINNED_IN_PLACE_BYTES;
  return way_of(place, in_place, x.transposed ? columns : rows, x.ld);
}

struct tb_ways tb_plan_ways(const struct tb_gemm *call, const struct tb_places *places) {
  struct tb_ways ways = {TB_STAGED, TB_STAGED, TB_STAGED, false};
  if (places == NULL) return ways;
  ways.a = operand_way(places->a.place, call->a, call->m, call->k, call->n);
  ways.b = operand_way(places->b.place, call->b, call->k, call->n, call->m);
  /* A pinned C that is still needed is the host's to commit: a failing GPU must not have touched it. */
  enum tb_place c = places->c.place == TB_PINNED && call->beta != 0 ? TB_PAGEABLE : places->c.place;
  ways.c = way_of(c, call->m * call->n * (int64_t)sizeof(float) <= PINNED_IN_PLACE_BYTES, call->m, call->ldc);
  return ways;
}

static bool wants_d(const struct tb_ways *ways, const struct tb_gemm *call) {
  return ways->c != TB_IN_PLACE || call->beta != 0;
}

/* Panels and tiles start on 128-byte lines too. */
static int64_t a_panel_elems(const struct tb_plan *plan, const struct tb_gemm *call, int64_t rows) {
  return plan->ways.a == TB_IN_PLACE ? 0 : tb_padded(panel_elems(rows, plan->chunk_k, call->a.transposed));
}

static int64_t b_panel_elems(const struct tb_plan *plan, const struct tb_gemm *call, int64_t columns) {
  return plan->ways.b == TB_IN_PLACE ? 0 : tb_padded(panel_elems(columns, plan->chunk_k, !call->b.transposed));
}

static void size_panels(struct tb_plan *plan, const struct tb_gemm *call, int64_t tile_m, int64_t tile_n) {
  plan->tile_m = tile_m;
  plan->tile_n = tile_n;
  plan->a_panel_elems = a_panel_elems(plan, call, tile_m);
  plan->b_panel_elems = b_panel_elems(plan, call, tile_n);
  plan->tile_elems = wants_d(&plan->ways, call) ? tb_padded(tb_leading(tile_m) * tile_n) : 0;
}

/* ---- strips ---- */

/* Of C, along which of its sides the strips follow each other. */
enum strips { NO_STRIPS, STRIPS_OF_ROWS, STRIPS_OF_COLUMNS };

/* Whether the operand's stored columns do. */
static bool runs_along_k(const struct tb_gemm *call, bool a) { return a ? call->a.transposed : !call->b.transposed; }

/* Not where more comes down than goes up: then C's way must begin as soon as may be. Nor where little comes down, and
 * nothing is gained; nor where the panels of a strip are parts of stored columns, short pieces of memory far apart,
 * from which the threads copy at half the speed (H200: 75 x 7743 x 7116 NT 10.4 ms, by tiles 5.0). */
static enum strips strips_for(const struct tb_gemm *call, const struct tb_ways *ways, double flops_per_byte,
                              double times) {
  const double m = (double)call->m, n = (double)call->n, k = (double)call->k;
  bool of_rows = m > n;
  const bool much_longer = (of_rows ? n : m) < STRIPS_SIDES * (of_rows ? m : n);
  if (!runs_along_k(call, of_rows) && !much_longer) of_rows = !of_rows;
  const double up = (m + n) * k, up_in_strips = (of_rows ? m : n) * k, down = m * n;
  if (in_one_stream(ways) || !runs_along_k(call, of_rows)) return NO_STRIPS;
  if (tb_gemm_flops(call) / flops_per_byte > times * up_in_strips * sizeof(float)) return NO_STRIPS;
  if (down > up || down < STRIPS_SHARE * up) return NO_STRIPS;
  return of_rows ? STRIPS_OF_ROWS : STRIPS_OF_COLUMNS;
}

bool tb_plan_is_hidden(const struct tb_gemm *call, struct tb_ways ways) {
  return strips_for(call, &ways, OTHER_FLOPS_PER_BYTE, HIDDEN_TIMES) != NO_STRIPS;
}

struct tilings {
  const struct tiling *rows, *columns;
};

static int64_t strip_of(int64_t side, int64_t k, struct tiling t) {
  const int64_t elems = tb_min(tb_max(side * k / STRIPS_WISH, STRIP_ELEMS_MIN), TB_SLOT_ELEMS);
  t.least = t.wish = tb_max(t.wish, tb_round_up(tb_ceil_div(elems, k), t.piece));
  return tile_of(side, &t, 0);
}

/* Of a product that is not cut, strips in the place of tiles, if there are several of either. */
static void size_strips(struct tb_plan *plan, const struct tb_gemm *call, double flops_per_byte, struct tilings t) {
  const enum strips which = strips_for(call, &plan->ways, flops_per_byte, STRIPS_TIMES);
  const bool one_tile = plan->tile_m == call->m && plan->tile_n == call->n;
  if (which == NO_STRIPS || plan->ways.passed || is_cut(plan, call) || one_tile) return;
  const int64_t tile_m = which == STRIPS_OF_ROWS ? strip_of(call->m, call->k, *t.rows) : call->m;
  const int64_t tile_n = which == STRIPS_OF_COLUMNS ? strip_of(call->n, call->k, *t.columns) : call->n;
  if (tile_m == call->m && tile_n == call->n) return;
  plan->strips = true;
  size_panels(plan, call, tile_m, tile_n);
}

static int64_t slices_of_strip(const struct tb_plan *plan) {
  const int64_t elems = plan->tile_m == plan->block_m ? plan->b_panel_elems : plan->a_panel_elems;
  return tb_min(SLICES, tb_ceil_div(elems, STRIP_SLICE_ELEMS));
}

/* ---- for all kernels but the tensor cores' ---- */

/* Whether a plan of one tile goes up and down by one copy each. */
static bool fits_one_slot(const struct tb_plan *plan, const struct tb_gemm *call) {
  const bool staged = plan->ways.a == TB_STAGED && plan->ways.b == TB_STAGED && plan->ways.c == TB_STAGED;
  return !is_cut(plan, call) && staged && plan->a_panel_elems + plan->b_panel_elems <= TB_SLOT_ELEMS &&
         plan->tile_elems <= TB_SLOT_ELEMS;
}

static int64_t slice_of(const struct tb_plan *plan, int64_t slices) {
  const int64_t elems_of_k = (plan->a_panel_elems + plan->b_panel_elems) / plan->chunk_k + 1;
  const int64_t least = tb_ceil_div(SLICE_ELEMS_MIN, elems_of_k);
  int64_t slice = tb_round_up(tb_max(least, tb_ceil_div(plan->chunk_k, slices)), plan->cut_k);
  /* A launch for the few k that are left over costs as much as one for many. */
  while (slice < plan->chunk_k && (plan->chunk_k - 1) % slice + 1 < SLICE_K_MIN) slice += plan->cut_k;
  return tb_min(plan->chunk_k, slice);
}

/* Where B's panels and the tiles of C start in the arena, and where they end. The last panel of a side may be shorter.
 * `keeps_a`: A's panels twice. */
static void place_panels(struct tb_plan *plan, const struct tb_gemm *call, int64_t rows, int64_t columns,
                         bool keeps_a) {
  const int64_t size = sizeof(float), last_m = plan->block_m - (rows - 1) * plan->tile_m;
  const int64_t last_n = plan->block_n - (columns - 1) * plan->tile_n;
  const int64_t a_elems = (rows - 1) * plan->a_panel_elems + a_panel_elems(plan, call, last_m);
  const int64_t b_elems = (columns - 1) * plan->b_panel_elems + b_panel_elems(plan, call, last_n);
  plan->a_kept_bytes = keeps_a ? a_elems * size : 0;
  plan->b_offset_bytes = plan->a_kept_bytes + a_elems * size;
  plan->d_offset_bytes = plan->b_offset_bytes + b_elems * size;
  plan->arena_bytes = plan->d_offset_bytes + rows * columns * plan->tile_elems * size;
}

/* Tiles are for the overlap of copies and kernels: where nothing is copied, one launch does it all. */
static bool is_at_once(const struct tb_ways *ways) {
  return ways->a == TB_IN_PLACE && ways->b == TB_IN_PLACE && ways->c == TB_IN_PLACE;
}

static void lay_out(struct tb_plan *plan, const struct tb_gemm *call) {
  plan->strips = false;
  plan->at_once = is_at_once(&plan->ways);
  size_panels(plan, call, plan->block_m, plan->block_n);
  plan->one_slot = fits_one_slot(plan, call);
  int64_t slices = 1;
  if (!plan->at_once && !plan->one_slot) {
    size_panels(plan, call, tile_of(plan->block_m, &present, 0), tile_of(plan->block_n, &present, 0));
    slices = plan->tile_m == plan->block_m && plan->tile_n == plan->block_n ? SLICES_OF_ONE_TILE : SLICES;
    size_strips(plan, call, OTHER_FLOPS_PER_BYTE, (struct tilings){&strips_of_either, &strips_of_either});
    if (plan->strips) slices = slices_of_strip(plan);
  }
  int64_t rows = tb_ceil_div(plan->block_m, plan->tile_m), columns = tb_ceil_div(plan->block_n, plan->tile_n);
  plan->slice_k = slices == 1 ? plan->chunk_k : slice_of(plan, slices);
  place_panels(plan, call, rows, columns, false);
}

/* Halves one of the three sizes: k while it dominates, else the longer side of the block. False: all are at their
 * least. k is cut where the kernels end a group of their sums, so that the cut does not show in the result. */
static bool cut(struct tb_plan *plan) {
  int64_t side = tb_max(plan->block_m, plan->block_n);
  int64_t piece = side > PIECE_ELEMS ? PIECE_ELEMS : PIECE_ELEMS_MIN;
  bool k_counts = plan->ways.a != TB_IN_PLACE || plan->ways.b != TB_IN_PLACE;
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
 * And for packed operands, where one launch has them all.
 */
static void add_workspace(struct tb_plan *plan, int64_t budget_bytes) {
  int64_t tiles = tb_ceil_div(plan->block_m, plan->tile_m) * tb_ceil_div(plan->block_n, plan->tile_n);
  int64_t sum_bytes = tb_padded(plan->tile_m * plan->tile_n) * (int64_t)sizeof(float); /* each tile's start on a line */
  int64_t room = tb_min(WORKSPACE_BYTES_MAX, budget_bytes - plan->arena_bytes) / tiles;
  const int64_t unit_k = tb_min(TB_SGEMM_CHUNK_K, plan->group_k);
  int64_t sums = tb_min(tb_ceil_div(plan->slice_k, unit_k), room / sum_bytes);
  plan->workspace_offset_bytes = plan->arena_bytes;
  plan->workspace_bytes = sums < 2 ? 0 : sums * sum_bytes;
  if (plan->at_once) {
    const int64_t wish = plan->workspace_bytes + tb_packed_bytes(plan->block_m, plan->block_n, plan->chunk_k);
    plan->workspace_bytes =
        tb_min(tb_min(wish, PACKED_BYTES_MAX), budget_bytes - plan->arena_bytes) / LINE_BYTES * LINE_BYTES;
  }
  plan->arena_bytes += tiles * plan->workspace_bytes;
}

/* The operands lie in memory, so no product of sizes below comes near 2^63. */
static struct tb_plan uncut(const struct tb_gemm *call, struct tb_ways ways) {
  const int64_t group_k = tb_gemm_group_k(call), cut_k = group_k % TB_LD_ELEMS == 0 ? group_k : 2 * group_k;
  return (struct tb_plan){.block_m = tb_min(call->m, BLOCK_M_MAX),
                          .block_n = call->n,
                          .chunk_k = call->k > CHUNK_K_MAX ? CHUNK_K_MAX / cut_k * cut_k : call->k,
                          .group_k = group_k,
                          .cut_k = cut_k,
                          .ways = ways};
}

bool tb_plan_make(struct tb_plan *plan, const struct tb_gemm *call, struct tb_ways ways, int64_t budget_bytes) {
  *plan = uncut(call, ways);
  for (;;) {
    lay_out(plan, call);
    if (plan->arena_bytes <= budget_bytes) break;
    if (!cut(plan)) return false;
  }
  add_workspace(plan, budget_bytes);
  return true;
}

bool tb_plan_fits_one_slot(const struct tb_gemm *call, struct tb_ways ways) {
  struct tb_plan plan = uncut(call, ways);
  size_panels(&plan, call, plan.block_m, plan.block_n);
  return fits_one_slot(&plan, call);
}

/* ---- for the tensor cores ---- */

/* Sides of the blocks of a C that is cut, at least: shorter ones do not fill a GPU. */
#define SPLIT_BLOCK_M_MIN 2048
#define SPLIT_BLOCK_N_MIN 1152
/* And streams, of which each wants room for operands in bf16 planes. In one, of which each launch fills the GPU, the
 * room is for A's panels of the first chunk, which stay: 16384 cubed takes 90 ms in 1 GiB, by two streams without them
 * 97. With them two streams took 95 and four without 93 (1.25 GiB), and 32768 cubed in 2 GiB by four 639 and 625. */
#define SPLIT_STREAMS_MIN 2
/* The tensor cores reach that where all streams' launches together have a tile and a half for each of an H200's
 * multiprocessors. What `cost` makes of it, beside what the cuts took that were chosen by it: 16384 cubed in 512 MiB
 * 281 ms (160), in 1 GiB 136 (90), in 1.5 103 (87), in 2 100 (91), 32768 cubed in 2 GiB 756 (625) (2026-11-23; the day
 * before 16384 in 3 GiB 74 (84), in 4 72 (76), 8192 cubed in 768 MiB 32 (25), 32768 in 4 GiB 493 (550)). */
#define SPLIT_TILES_AT_ONCE 132
#define SPLIT_TILES_OF_GPU (3 * SPLIT_TILES_AT_ONCE / 2)
/* And a millisecond: for a block or a chunk, behind the one before. */
#define WAIT_BYTES 45e6

/* Most memory for packed operands, and for packing them again, when they are in place, and of what there is at most
 * such a part: the program may want it. 16384 cubed is not cut for that; to pack a panel once more takes little beside
 * its products with so many others. */
#define SPLIT_AT_ONCE_BYTES_MAX ((int64_t)6 << 30)
#define SPLIT_AT_ONCE_SHARE 2

/* As many as there are tiles to run, at most. */
static int streams_for(const struct tb_ways *ways, int64_t tiles) {
  int streams = in_one_stream(ways) ? 1 : TB_COMPUTE_STREAMS;
  while (streams > 1 && streams / 2 >= tiles) streams /= 2;
  return streams;
}

/* As many as fill the GPU together: room for a strip's operands in bf16 planes is most of what a stream wants. */
static int streams_for_strips(const struct tb_plan *plan) {
  const int64_t tiles = tb_split_tiles(plan->tile_m, plan->tile_n);
  int streams = plan->streams;
  while (streams > SPLIT_STREAMS_MIN && streams / 2 * tiles >= SPLIT_TILES_OF_GPU) streams /= 2;
  return streams;
}

/* k is split where a product has fewer tiles than the GPU has room for, and then by the launch of every tile of ours.
 * When it would be split for the last tiles alone, so it is by a launch that has all of them, or, of a part of the
 * product, more than those before. */
static struct tb_split_way launch_way(const struct tb_plan *plan, const struct tb_gemm *call,
                                      const struct tb_split_way *whole) {
  const bool uncut = plan->tile_m == call->m && plan->tile_n == call->n;
  if (whole->whole == 0 || (uncut && tb_split_tiles(plan->tile_m, plan->tile_n) > whole->whole)) return *whole;
  return (struct tb_split_way){.splits = 1, .fast = whole->fast, .span_k = whole->span_k};
}

static struct tilings tilings_for(const struct tb_plan *plan, const struct tb_gemm *call, int streams_most) {
  if (in_one_stream(&plan->ways) || streams_most == 1)
    return (struct tilings){&split_rows_in_order, &split_columns_in_order};
  if (plan->chunk_k < call->k && (plan->block_m < call->m || plan->block_n < call->n))
    return (struct tilings){&split_rows_of_chunks, &split_columns_of_chunks};
  if (tb_plan_spans(plan) == 1) return (struct tilings){&split_rows, &split_columns};
  const bool long_m = plan->block_m > plan->block_n * 3 / 2, long_n = plan->block_n > plan->block_m * 3 / 2;
  return (struct tilings){long_m ? &split_rows_of_long_side : &split_rows_of_spans,
                          long_n ? &split_columns_of_long_side : &split_columns_of_spans};
}

/* Two slices of a product that is not cut, where that has the kernels in time (schedule.h): 16384 cubed 62 ms by one,
 * 57 by two (H200, two runs); by bench/overlap_model.py 61 by one, 55 by two, and 63 by four. Not where upload takes
 * much longer than the product; nor where C takes so long to come down that the second slice, with which it begins, had
 * better begin sooner: three spans cannot be halved. */
#define SLICED_SPANS_MIN 4
#define SLICED_PRODUCT_SHARE 0.75 /* of upload, at least */

static int64_t slice_of_split(const struct tb_plan *plan, const struct tb_gemm *call) {
  const double m = (double)call->m, n = (double)call->n, k = (double)call->k;
  const double product = 2 * m * n * k / SPLIT_FLOPS_PER_BYTE, up = (m + n) * k * sizeof(float);
  const double down = m * n * sizeof(float);
  const bool pays = product >= SLICED_PRODUCT_SHARE * up && 2 * down <= (product > up ? product : up);
  if (is_cut(plan, call) || in_one_stream(&plan->ways) || tb_plan_spans(plan) < SLICED_SPANS_MIN || !pays)
    return plan->chunk_k;
  return tb_ceil_div(tb_plan_spans(plan), TB_SPLIT_SLICES_MAX) * plan->span_k;
}

/* Of the ways to lay out a plan. */
struct layout {
  int streams_most;
  int more_columns; /* of tiles, than are best for a block that need not be cut; they may fill its side better */
  bool keeps_a, strips;
};

static void lay_out_split(struct tb_plan *plan, const struct tb_gemm *call, const struct tb_split_way *whole,
                          const struct layout *layout) {
  static const struct tilings of_strips = {&split_strips_of_rows, &split_strips_of_columns};
  plan->split = true;
  plan->strips = false;
  plan->at_once = is_at_once(&plan->ways);
  plan->span_k = tb_split_first_span(whole, call->k);
  plan->slice_k = slice_of_split(plan, call);
  const struct tilings tilings = tilings_for(plan, call, layout->streams_most);
  size_panels(plan, call, plan->block_m, plan->block_n);
  if (!plan->at_once)
    size_panels(plan, call, tile_of(plan->block_m, tilings.rows, 0),
                tile_of(plan->block_n, tilings.columns, layout->more_columns));
  if (layout->strips) size_strips(plan, call, SPLIT_FLOPS_PER_BYTE, of_strips);
  if (plan->strips) plan->slice_k = plan->chunk_k;
  const int64_t rows = tb_ceil_div(plan->block_m, plan->tile_m), columns = tb_ceil_div(plan->block_n, plan->tile_n);
  place_panels(plan, call, rows, columns, layout->keeps_a);
  const int64_t a_bytes = tb_split_packed_bytes(false, plan->tile_m, plan->span_k);
  const int64_t b_bytes = tb_split_packed_bytes(true, plan->tile_n, plan->span_k);
  plan->packed_offset_bytes = plan->arena_bytes;
  plan->a_packed_bytes = plan->at_once ? 0 : a_bytes;
  plan->b_packed_bytes = plan->at_once ? 0 : b_bytes;
  plan->workspace_offset_bytes =
      plan->packed_offset_bytes + tb_plan_spans(plan) * (rows * plan->a_packed_bytes + columns * plan->b_packed_bytes);
  plan->way = launch_way(plan, call, whole);
  plan->workspace_bytes = tb_split_workspace_bytes(plan->tile_m, plan->tile_n, call->k, &plan->way);
  if (plan->at_once) plan->workspace_bytes += a_bytes + b_bytes;
  plan->streams = (int)tb_min(streams_for(&plan->ways, rows * columns), layout->streams_most);
  if (plan->strips) plan->streams = streams_for_strips(plan);
  plan->arena_bytes = plan->workspace_offset_bytes + plan->streams * plan->workspace_bytes;
}

static bool fits(const struct tb_plan *plan, int64_t budget_bytes) {
  const int64_t most = tb_min(SPLIT_AT_ONCE_BYTES_MAX, budget_bytes / SPLIT_AT_ONCE_SHARE);
  return plan->arena_bytes <= budget_bytes && !(plan->at_once && plan->workspace_bytes > most);
}

/* Of two things that go on at once, the shorter does with the longer, but for a panel. */
static double overlapped(double x, double y, double panels) { return x > y ? x + y / panels : y + x / panels; }

/* What the launches that run at the same time reach of the kernels' rate. */
static double filling(const struct tb_plan *plan) {
  const int64_t tiles = tb_split_tiles(plan->tile_m, plan->tile_n);
  if (plan->streams == 1) return (double)tiles / (double)tb_round_up(tiles, SPLIT_TILES_AT_ONCE);
  const double full = (double)(plan->streams * tiles) / SPLIT_TILES_OF_GPU;
  return full < 1 ? full : 1;
}

/*
 * How long a product takes that is cut, but for waits, in bytes that the link brings up meanwhile. Blocks come row by
 * row: A's part stays while they are in its row, and of B all goes up for each row, but for the block at which it
 * turns. Bringing B up and multiplying overlap. Where k is cut, all of both goes up for each block, but for the first
 * chunk of A, which may stay. What a block has left of C when its launches are over is taken for half of it, and for
 * three quarters where k is cut: panels of the next block go up meanwhile, over the same memory.
 */
static double work(const struct tb_plan *plan, const struct tb_gemm *call) {
  const double rows = (double)tb_ceil_div(call->m, plan->block_m),
               columns = (double)tb_ceil_div(call->n, plan->block_n);
  const double m = (double)call->m / rows, n = (double)call->n / columns, k = (double)call->k; /* of a block */
  const double a = plan->ways.a == TB_IN_PLACE ? 0 : m * k * sizeof(float);
  const double b = plan->ways.b == TB_IN_PLACE ? 0 : n * k * sizeof(float);
  const double product = 2 * m * n * k / SPLIT_FLOPS_PER_BYTE / filling(plan);
  const double panels = (double)tb_ceil_div(plan->block_n, plan->tile_n), turns = rows - 1;
  const double down = m * n * sizeof(float);
  const double kept = plan->a_kept_bytes > 0 ? a * (double)plan->chunk_k / k * (columns - 1) / columns : 0;
  if (plan->chunk_k < call->k) return rows * columns * (overlapped(a + b - kept, product, panels) + 0.75 * down);
  const double block = overlapped(b, product, panels) + 0.5 * down;
  return rows * a + (rows * columns - turns) * block + turns * product;
}

/* And with those for blocks and chunks that come before. */
static double cost(const struct tb_plan *plan, const struct tb_gemm *call) {
  return work(plan, call) + (double)(tb_ceil_div(call->m, plan->block_m) * tb_ceil_div(call->n, plan->block_n) *
                                     tb_ceil_div(call->k, plan->chunk_k)) *
                                WAIT_BYTES;
}

/* A side in so many pieces of a power of two, of whole tiles; 0: they would be too short. */
static int64_t block_of(int64_t side, int halvings, int64_t tile, int64_t least) {
  const int64_t block = halvings == 0 ? side : tb_round_up(tb_ceil_div(side, (int64_t)1 << halvings), tile);
  return halvings == 0 || block >= least ? block : 0;
}

/* What the other kernels take at best, in the same measure. They are cut, and wait, about as often. */
static double work_of_others(const struct tb_gemm *call, const struct tb_ways *ways) {
  const double m = (double)call->m, n = (double)call->n, k = (double)call->k;
  const double a = ways->a == TB_IN_PLACE ? 0 : m * k * sizeof(float);
  const double b = ways->b == TB_IN_PLACE ? 0 : n * k * sizeof(float);
  const double full =
      (double)(2 * tb_split_tiles(call->m, call->n)) / SPLIT_TILES_OF_GPU; /* theirs are half as large */
  return a + b + tb_gemm_flops(call) / OTHER_FLOPS_PER_BYTE / (full < 1 ? full : 1) + 0.5 * m * n * sizeof(float);
}

/* Sets `plan` to this cut of C and k if it fits and is better than one that takes `least`, by more than the estimate is
 * worth, in one of the ways to lay it out. */
static void lay_out_best(struct tb_plan *plan, const struct tb_plan *cut, const struct tb_gemm *call,
                         const struct tb_split_way *whole, int64_t budget_bytes, double *least) {
  const bool may_keep = cut->chunk_k < call->k && cut->block_n < call->n && !in_one_stream(&cut->ways);
  struct tb_plan p = *cut;
  for (int streams = TB_COMPUTE_STREAMS; streams >= (may_keep ? 1 : SPLIT_STREAMS_MIN); streams /= 2)
    for (int more_columns = 0; more_columns <= 1; more_columns++) {
      const struct layout layout = {
          .streams_most = streams, .more_columns = more_columns, .keeps_a = streams == 1, .strips = false};
      lay_out_split(&p, call, whole, &layout);
      if (!fits(&p, budget_bytes) || cost(&p, call) >= 0.98 * *least) continue;
      *least = cost(&p, call);
      *plan = p;
    }
}

/* The best cut of C that fits, with this chunk of k, if it is better than one that takes `least`. */
static void cut_block(struct tb_plan *plan, const struct tb_gemm *call, const struct tb_split_way *whole,
                      int64_t chunk_k, int64_t budget_bytes, double *least) {
  struct tb_plan p = uncut(call, plan->ways);
  const int64_t m = p.block_m, n = p.block_n;
  p.chunk_k = chunk_k;
  for (int i = 0; (p.block_m = block_of(m, i, TB_SPLIT_TILE_M, SPLIT_BLOCK_M_MIN)) > 0; i++)
    for (int j = 0; (p.block_n = block_of(n, j, TB_SPLIT_TILE_N, SPLIT_BLOCK_N_MIN)) > 0; j++)
      lay_out_best(plan, &p, call, whole, budget_bytes, least);
}

/* The best of all cuts that fit, of C and of k. False: there is none. */
static bool cut_split(struct tb_plan *plan, const struct tb_gemm *call, const struct tb_split_way *whole,
                      int64_t budget_bytes) {
  const int64_t span_k = plan->span_k;
  double least = INFINITY;
  for (int64_t spans = tb_ceil_div(call->k, span_k), last = 0; spans != last; last = spans, spans = (spans + 1) / 2)
    cut_block(plan, call, whole, tb_min(call->k, spans * span_k), budget_bytes, &least);
  return least < INFINITY;
}

bool tb_plan_make_split(struct tb_plan *plan, const struct tb_gemm *call, struct tb_ways ways,
                        const struct tb_split_way *whole, int64_t budget_bytes) {
  *plan = uncut(call, ways);
  if (plan->chunk_k < call->k) return false;
  for (int strips = 1; strips >= 0; strips--) {
    lay_out_split(plan, call, whole, &(struct layout){.streams_most = TB_COMPUTE_STREAMS, .strips = strips});
    if (fits(plan, budget_bytes)) return true;
  }
  return cut_split(plan, call, whole, budget_bytes);
}

bool tb_plan_split_pays(const struct tb_plan *plan, const struct tb_gemm *call) {
  return !is_cut(plan, call) || work(plan, call) < work_of_others(call, &plan->ways);
}
