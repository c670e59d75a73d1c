/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>

#include "plan/plan_internal.h"

/* Tiles of C, a few more than the other kernels have (plan.c), for the tensor cores are four times as fast. With
 * several spans of k larger ones, for each launch drags four more along that find nothing to do, and the thread that
 * launches is late for the link: by 11 x 11 tiles of a side of 1152 12288 cubed took 39 ms, by 12 x 11 of one span 33;
 * 16384 cubed 73 by 16 x 15, 67 by 11 x 11 (H200). */
static const struct tb_tiling emulated_rows = {TB_EMULATED_TILE_M, 512, 1024, 3072, 11};
static const struct tb_tiling emulated_columns = {TB_EMULATED_TILE_N, 576, 1152, 3072, 11};
static const struct tb_tiling emulated_rows_of_spans = {TB_EMULATED_TILE_M, 512, 1536, 3072, 11};
static const struct tb_tiling emulated_columns_of_spans = {TB_EMULATED_TILE_N, 576, 1536, 3072, 11};
/* Not so large along a side that is much the longer one, as it is of the parts that several GPUs have: of the operand
 * that all of them want each has a share to bring up. (32768 cubed by two H200 221 ms instead of 239.) */
static const struct tb_tiling emulated_rows_of_long_side = {TB_EMULATED_TILE_M, 512, 1536, 2048, 16};
static const struct tb_tiling emulated_columns_of_long_side = {TB_EMULATED_TILE_N, 576, 1536, 2304, 16};
/* Where both C and k are cut, a tile has a launch of all kernels in every chunk, and fewer streams leave more memory to
 * C: by 2048 x 2112 and two streams 16384 cubed takes 109 ms in 1 GiB, by 1024 x 960 and four 122 (H200). */
static const struct tb_tiling emulated_rows_of_chunks = {TB_EMULATED_TILE_M, 512, 2048, 3072, 8};
static const struct tb_tiling emulated_columns_of_chunks = {TB_EMULATED_TILE_N, 576, 2112, 3072, 8};
/* In one stream each launch must fill the GPU alone: 11 x 12 of their tiles are an H200's 132 multiprocessors. */
static const struct tb_tiling emulated_rows_in_order = {TB_EMULATED_TILE_M, 1408, 1408, 2816, 16};
static const struct tb_tiling emulated_columns_in_order = {TB_EMULATED_TILE_N, 2304, 2304, 4608, 16};
/* Of twins and of both: whole tiles of the tensor cores both ways. */
static const struct tb_tiling emulated_twins = {3 * TB_EMULATED_TILE_M, 768, 768, 3072, 16};
_Static_assert(3 * TB_EMULATED_TILE_M % TB_EMULATED_TILE_N == 0, "tiles of twins are whole ones both ways");
/* Of strips, along their long sides. */
static const struct tb_tiling emulated_strips_of_rows = {TB_EMULATED_TILE_M, 384, 384, 3072, TB_TILES_MAX};
static const struct tb_tiling emulated_strips_of_columns = {TB_EMULATED_TILE_N, 384, 384, 3072, TB_TILES_MAX};

/* Sides of the blocks of a C that is cut, at least: shorter ones do not fill a GPU. */
#define EMULATED_BLOCK_M_MIN 2048
#define EMULATED_BLOCK_N_MIN 1152
/* And streams, of which each wants room for operands in bf16 planes. In one, of which each launch fills the GPU, the
 * room is for A's panels of the first chunk, which stay: 16384 cubed takes 90 ms in 1 GiB, by two streams without them
 * 97. With them two streams took 95 and four without 93 (1.25 GiB), and 32768 cubed in 2 GiB by four 639 and 625. */
#define EMULATED_STREAMS_MIN 2
/* The tensor cores reach their rate where all streams' launches together have a tile and a half for
 * each of an H200's multiprocessors. */
#define EMULATED_TILES_OF_GPU (3 * TB_EMULATED_TILES_AT_ONCE / 2)

/* Most memory for packed operands, for packing them again, and for real panels, when they are in place, and of what
 * there is at most such a part: the program may want it. 16384 cubed is not cut for that; to pack a panel once more
 * takes little beside its products with so many others. */
#define EMULATED_AT_ONCE_BYTES_MAX ((int64_t)6 << 30)
#define EMULATED_AT_ONCE_SHARE 2

static int64_t tiles_of_launch(const struct tb_plan *plan) {
  return tb_emulated_tiles(tb_plan_parts_of_element(plan) * plan->tile_m, plan->tile_n);
}

/* As many as there are tiles to run, at most. */
static int streams_for(const struct tb_plan *plan, const struct tb_call *call, int64_t tiles) {
  int streams = tb_plan_in_one_stream(plan) || tb_plan_has_copies(plan, call) ? 1 : TB_COMPUTE_STREAMS;
  while (streams > 1 && streams / 2 >= tiles) streams /= 2;
  return streams;
}

/* As many as fill the GPU together: room for a strip's operands in bf16 planes is most of what a stream wants. */
static int streams_for_strips(const struct tb_plan *plan) {
  const int64_t tiles = tiles_of_launch(plan);
  int streams = plan->streams;
  while (streams > EMULATED_STREAMS_MIN && streams / 2 * tiles >= EMULATED_TILES_OF_GPU) streams /= 2;
  return streams;
}

/* k is split where a product has fewer tiles than the GPU has room for, and then by the launch of every tile of ours.
 * When it would be split for the last tiles alone, so it is by a launch that has all of them, or, of a part of the
 * product, more than those before. */
static struct tb_emulated_way launch_way(const struct tb_plan *plan, const struct tb_call *call,
                                         const struct tb_emulated_way *whole) {
  const bool uncut = plan->tile_m == call->m && plan->tile_n == call->n;
  if (whole->whole == 0 || (uncut && tiles_of_launch(plan) > whole->whole)) return *whole;
  return (struct tb_emulated_way){.splits = 1, .fast = whole->fast, .span_k = whole->span_k};
}

static struct tb_tilings tilings_for(const struct tb_plan *plan, const struct tb_call *call, int streams_most) {
  if (plan->twins || plan->both) return (struct tb_tilings){&emulated_twins, &emulated_twins};
  if (tb_plan_in_one_stream(plan) || streams_most == 1)
    return (struct tb_tilings){&emulated_rows_in_order, &emulated_columns_in_order};
  if (plan->chunk_k < call->k && (plan->block_m < call->m || plan->block_n < call->n))
    return (struct tb_tilings){&emulated_rows_of_chunks, &emulated_columns_of_chunks};
  if (tb_plan_spans(plan) == 1) return (struct tb_tilings){&emulated_rows, &emulated_columns};
  const bool long_m = plan->block_m > plan->block_n * 3 / 2, long_n = plan->block_n > plan->block_m * 3 / 2;
  return (struct tb_tilings){long_m ? &emulated_rows_of_long_side : &emulated_rows_of_spans,
                             long_n ? &emulated_columns_of_long_side : &emulated_columns_of_spans};
}

/* Two slices of a product that is not cut, where that has the kernels in time (schedule.h): 16384 cubed 62 ms by one,
 * 57 by two (H200, two runs); by bench/overlap_model.py 58 by one, 53 by two, and 61 by four. Not where upload takes
 * much longer than the product; nor where C takes so long to come down that the second slice, with which it begins, had
 * better begin sooner: three spans cannot be halved. (What comes down of csyrk is half of what goes up, and a diagonal,
 * for which it is not refused: 8192 16.2 ms by one, 15.9 by two.) Nor of two products in one pass, of which the second
 * waits for all of the first: csyr2k 8192 31.6 ms by two, 30.7 by one. Both in three turns on an H200; larger ones were
 * not measured. */
#define SLICED_SPANS_MIN 4
#define SLICED_PRODUCT_SHARE 0.75 /* of upload, at least */
#define SLICED_DOWN_SHARE 0.51    /* of the longer of the two, at most */

static int64_t slice_of_emulated(const struct tb_plan *plan, const struct tb_call *call) {
  const double m = (double)call->m, n = (double)call->n, k = (double)call->k;
  const double bytes = (double)tb_call_bytes(call), up = (plan->twins ? m : m + n) * k * bytes;
  const double down = tb_call_elems(call) * bytes;
  const double product = tb_call_flops(call) / tb_plan_emulated_flops_per_byte(&plan->ways);
  const bool pays = product >= SLICED_PRODUCT_SHARE * up && down <= SLICED_DOWN_SHARE * (product > up ? product : up);
  const bool goes_in_pieces = !tb_plan_is_cut(plan, call) && !tb_plan_in_one_stream(plan) && !plan->both;
  if (!goes_in_pieces || !pays || tb_plan_spans(plan) < SLICED_SPANS_MIN) return plan->chunk_k;
  return tb_ceil_div(tb_plan_spans(plan), TB_EMULATED_SLICES_MAX) * plan->span_k;
}

/* Of the ways to lay out a plan. */
struct layout {
  int streams_most;
  int more_columns; /* of tiles, than are best for a block that need not be cut; they may fill its side better */
  bool keeps_a, strips;
};

/* The tiles, and what of k goes up at a time. */
static void size_tiles(struct tb_plan *plan, const struct tb_call *call, const struct layout *layout) {
  static const struct tb_tilings of_strips = {&emulated_strips_of_rows, &emulated_strips_of_columns};
  const bool copies = tb_plan_has_copies(plan, call);
  plan->strips = false;
  plan->slice_k = slice_of_emulated(plan, call);
  if (plan->at_once) {
    tb_plan_size_panels(plan, call, plan->block_m, plan->block_n);
  } else if (copies) {
    tb_plan_size_copies(plan, call);
  } else {
    const struct tb_tilings tilings = tilings_for(plan, call, layout->streams_most);
    tb_plan_size_panels(plan, call, tb_plan_tile(plan->block_m, tilings.rows, 0),
                        tb_plan_tile(plan->block_n, tilings.columns, layout->more_columns));
    if (layout->strips) tb_plan_size_strips(plan, call, tb_plan_emulated_flops_per_byte(&plan->ways), of_strips);
  }
  if (plan->strips || copies) plan->slice_k = plan->chunk_k;
}

static void lay_out_emulated(struct tb_plan *plan, const struct tb_call *call, const struct tb_emulated_way *whole,
                             const struct layout *layout) {
  const int parts = tb_kernel_parts(call->type);
  plan->emulated = true;
  plan->triangle_in_place = false; /* these kernels look what is wanted of C */
  plan->twins = tb_plan_may_have_twins(plan, call);
  plan->both = tb_plan_may_have_both(plan, call);
  plan->at_once = tb_plan_is_at_once(plan);
  plan->span_k = tb_emulated_first_span(whole, parts * call->k) / parts;
  size_tiles(plan, call, layout);
  const int64_t rows = tb_ceil_div(plan->block_m, plan->tile_m), columns = tb_ceil_div(plan->block_n, plan->tile_n);
  tb_plan_place_panels(plan, call, rows, columns, layout->keeps_a);
  tb_plan_place_real(plan, call, rows, columns);
  const int64_t a_bytes = tb_emulated_packed_bytes(false, parts * plan->tile_m, parts * plan->span_k);
  const int64_t b_bytes = tb_emulated_packed_bytes(true, plan->tile_n, parts * plan->span_k);
  plan->packed_offset_bytes = plan->arena_bytes;
  struct tb_plan_operand *const a = &plan->operand[TB_OF_A], *const b = &plan->operand[TB_OF_B];
  a->packed_bytes = plan->at_once ? 0 : a_bytes;
  b->packed_bytes = plan->at_once ? 0 : b_bytes;
  const int64_t packed_bytes = tb_plan_spans(plan) * (rows * a->packed_bytes + columns * b->packed_bytes);
  plan->again_packed_bytes = plan->both ? packed_bytes : 0;
  plan->workspace_offset_bytes = plan->packed_offset_bytes + packed_bytes + plan->again_packed_bytes;
  plan->way = launch_way(plan, call, whole);
  plan->workspace_bytes = tb_emulated_workspace_bytes(parts * plan->tile_m, plan->tile_n, parts * call->k, &plan->way);
  if (plan->at_once) plan->workspace_bytes += a_bytes + b_bytes;
  plan->streams = (int)tb_min(streams_for(plan, call, rows * columns), layout->streams_most);
  if (plan->strips) plan->streams = streams_for_strips(plan);
  plan->way.beside = plan->streams > 1;
  plan->arena_bytes = plan->workspace_offset_bytes + plan->streams * plan->workspace_bytes;
}

static bool fits(const struct tb_plan *plan, int64_t budget_bytes) {
  const int64_t most = tb_min(EMULATED_AT_ONCE_BYTES_MAX, budget_bytes / EMULATED_AT_ONCE_SHARE);
  const int64_t real_bytes = tb_plan_expands(plan) ? plan->packed_offset_bytes - plan->real_offset_bytes : 0;
  return plan->arena_bytes <= budget_bytes && !(plan->at_once && real_bytes + plan->workspace_bytes > most);
}

/* Of two things that go on at once, the shorter does with the longer, but for a panel. */
static double overlapped(double x, double y, double panels) { return x > y ? x + y / panels : y + x / panels; }

/* Of two that hold each other up: the longer, and up to a sixth more, if the other takes as long. */
static double together(double x, double y) {
  const double longer = x > y ? x : y, share = (x > y ? y : x) / longer;
  return longer * (1 + 0.15 * share * share * share * share);
}

/* What the launches that run at the same time reach of the kernels' rate. */
static double filling(const struct tb_plan *plan) {
  const int64_t tiles = tiles_of_launch(plan);
  if (plan->streams == 1) return (double)tiles / (double)tb_round_up(tiles, TB_EMULATED_TILES_AT_ONCE / 2);
  const double full = (double)(plan->streams * tiles) / EMULATED_TILES_OF_GPU;
  return full < 1 ? full : 1;
}

/*
 * How long a product takes that is cut, in bytes that the link brings up meanwhile. Blocks come row by row.
 *
 * Whole k: A's part stays while they are in its row, and of B all goes up for each row, but for the block at which it
 * turns. Bringing B up and multiplying overlap. What a block has left of C when its launches are over is taken for half
 * of it.
 *
 * Where k is cut, all of both goes up for each block, but for the first chunk of A, which may stay. By several streams
 * that and multiplying hold each other up, for the next chunk's panels replace this one's; of C only what the last
 * chunk of the last block has not seen down comes behind all else. By one, what goes up waits for no launch, but
 * launches do for C, so that the longer of two is what it takes: all that goes up; or the product, most of C, and what
 * every chunk begins with.
 *
 * Beside what was measured (H200, 2026-11-23, 40 cuts of 16384 and 32768 cubed that took 70 to 722 ms): where k is cut
 * 5 % off in the mean, 13 % at most; whole k takes 0.86 to 1.02 of this.
 */
#define DOWN_IN_CHUNK 0.3 /* by several streams: of a chunk's product, while the block's C comes down */
#define LEAST_DOWN_SHARE 0.4
#define IN_ORDER_DOWN_SHARE 0.75
#define IN_ORDER_CHUNK_WAITS 1.2

/* What the link brings up meanwhile. */
static double link_bytes(const struct tb_plan *plan, double seconds) {
  return seconds * tb_link_bytes_per_s(plan->ways.link_bytes_per_s);
}

/* Blocks of C and chunks of k; and in bytes, of each block on average. */
struct parts {
  double rows, columns, blocks, chunks;
  double a, b, product, down; /* the product: what the link brings up while it is computed */
};

static struct parts parts_of(const struct tb_plan *plan, const struct tb_call *call) {
  struct parts p = {.rows = (double)tb_ceil_div(call->m, plan->block_m),
                    .columns = (double)tb_ceil_div(call->n, plan->block_n),
                    .chunks = (double)tb_ceil_div(call->k, plan->chunk_k)};
  const double m = (double)call->m / p.rows, n = (double)call->n / p.columns, k = (double)call->k;
  const double bytes = (double)tb_call_bytes(call);
  const double products = call->twice ? 2 : 1;
  p.blocks = p.rows * p.columns;
  p.a = !tb_way_is_by_link(plan->ways.a) ? 0 : products * m * k * bytes;
  p.b = !tb_way_is_by_link(plan->ways.b) ? 0 : products * n * k * bytes;
  p.product =
      products * tb_type_flops(call->type) * m * n * k / tb_plan_emulated_flops_per_byte(&plan->ways) / filling(plan);
  p.down = m * n * bytes;
  return p;
}

static double cost_of_whole_k(const struct tb_plan *plan, const struct parts *p, double wait) {
  const double panels = (double)tb_ceil_div(plan->block_n, plan->tile_n), turns = p->rows - 1;
  return p->rows * p->a + (p->blocks - turns) * (overlapped(p->b, p->product, panels) + 0.5 * p->down) +
         turns * p->product + p->blocks * wait;
}

static double cost_by_streams(const struct parts *p, double wait) {
  const double rest = p->down - DOWN_IN_CHUNK * p->product / p->chunks, least = LEAST_DOWN_SHARE * p->down;
  return p->blocks * (together(p->a + p->b, p->product) + p->chunks * wait) + (rest > least ? rest : least);
}

static double cost_in_order(const struct tb_plan *plan, const struct parts *p, double wait) {
  const double kept = plan->a_kept_bytes > 0 ? p->a / p->chunks * (p->columns - 1) / p->columns : 0;
  const double up = p->blocks * (p->a + p->b - kept);
  const double computed =
      p->blocks * (p->product + IN_ORDER_DOWN_SHARE * p->down + IN_ORDER_CHUNK_WAITS * p->chunks * wait);
  return (up > computed ? up : computed) + link_bytes(plan, tb_rate.plan_ends_seconds);
}

/* `wait`: what is to count for a wait. */
static double cost_with(const struct tb_plan *plan, const struct tb_call *call, double wait) {
  const struct parts p = parts_of(plan, call);
  if (plan->chunk_k == call->k) return cost_of_whole_k(plan, &p, wait);
  return plan->streams > 1 ? cost_by_streams(&p, wait) : cost_in_order(plan, &p, wait);
}

static double cut_cost(const struct tb_plan *plan, const struct tb_call *call) {
  return cost_with(plan, call, link_bytes(plan, tb_rate.plan_wait_seconds));
}

/* A side in so many pieces of a power of two, of whole tiles; 0: they would be too short. */
static int64_t block_of(int64_t side, int halvings, int64_t tile, int64_t least) {
  const int64_t block = halvings == 0 ? side : tb_round_up(tb_ceil_div(side, (int64_t)1 << halvings), tile);
  return halvings == 0 || block >= least ? block : 0;
}

/* What the other kernels take at best, in the same measure, but for waits: they are cut, and wait, about as often. */
static double cost_of_others(const struct tb_call *call, const struct tb_ways *ways) {
  const double m = (double)call->m, n = (double)call->n, k = (double)call->k;
  const double bytes = (double)tb_call_bytes(call), up_bytes = (call->twice ? 2 : 1) * k * bytes;
  const double a = !tb_way_is_by_link(ways->a) ? 0 : m * up_bytes, b = !tb_way_is_by_link(ways->b) ? 0 : n * up_bytes;
  const double full = (double)(2 * tb_emulated_tiles(tb_kernel_parts(call->type) * call->m, call->n)) /
                      EMULATED_TILES_OF_GPU; /* theirs are half as large */
  return a + b + tb_call_flops(call) / tb_plan_other_flops_per_byte(ways) / (full < 1 ? full : 1) + 0.5 * m * n * bytes;
}

/* Sets `plan` to this cut of C and k if it fits and is better than one that takes `least`, by more than the estimate is
 * worth, in one of the ways to lay it out. */
static void lay_out_best(struct tb_plan *plan, const struct tb_plan *cut, const struct tb_call *call,
                         const struct tb_emulated_way *whole, int64_t budget_bytes, double *least) {
  const bool in_order = cut->chunk_k < call->k && !tb_plan_in_one_stream(cut);
  struct tb_plan p = *cut;
  for (int streams = TB_COMPUTE_STREAMS; streams >= (in_order ? 1 : EMULATED_STREAMS_MIN); streams /= 2)
    for (int more_columns = 0; more_columns <= 1; more_columns++) {
      const bool keeps_a = streams == 1 && cut->block_n < call->n;
      const struct layout layout = {
          .streams_most = streams, .more_columns = more_columns, .keeps_a = keeps_a, .strips = false};
      lay_out_emulated(&p, call, whole, &layout);
      if (!fits(&p, budget_bytes) || cut_cost(&p, call) >= 0.98 * *least) continue;
      *least = cut_cost(&p, call);
      *plan = p;
    }
}

/* The best cut of C that fits, with this chunk of k, if it is better than one that takes `least`. */
static void cut_block(struct tb_plan *plan, const struct tb_call *call, const struct tb_emulated_way *whole,
                      int64_t chunk_k, int64_t budget_bytes, double *least) {
  struct tb_plan p = tb_plan_uncut(call, plan->ways);
  const int64_t m = p.block_m, n = p.block_n;
  p.chunk_k = chunk_k;
  for (int i = 0; (p.block_m = block_of(m, i, TB_EMULATED_TILE_M, EMULATED_BLOCK_M_MIN)) > 0; i++)
    for (int j = 0; (p.block_n = block_of(n, j, TB_EMULATED_TILE_N, EMULATED_BLOCK_N_MIN)) > 0; j++)
      lay_out_best(plan, &p, call, whole, budget_bytes, least);
}

/* The best of all cuts that fit, of C and of k. False: there is none. */
static bool cut_emulated(struct tb_plan *plan, const struct tb_call *call, const struct tb_emulated_way *whole,
                         int64_t budget_bytes) {
  const int64_t span_k = plan->span_k;
  double least = INFINITY;
  for (int64_t spans = tb_ceil_div(call->k, span_k), last = 0; spans != last; last = spans, spans = (spans + 1) / 2)
    cut_block(plan, call, whole, tb_min(call->k, spans * span_k), budget_bytes, &least);
  return least < INFINITY;
}

static bool make_emulated(struct tb_plan *plan, const struct tb_call *call, struct tb_ways ways,
                          const struct tb_emulated_way *whole, int64_t budget_bytes) {
  *plan = tb_plan_uncut(call, ways);
  if (plan->chunk_k < call->k) return false;
  const bool unfolds = tb_plan_may_unfold(plan, call);
  for (int way = unfolds ? 0 : 1; way <= 2; way++) { /* with a square; then in strips, if that is best; by tiles */
    plan->no_square = way > 0;
    lay_out_emulated(plan, call, whole, &(struct layout){.streams_most = TB_COMPUTE_STREAMS, .strips = way < 2});
    if (fits(plan, budget_bytes)) return true;
  }
  return cut_emulated(plan, call, whole, budget_bytes);
}

/* Whether there is a plan decides about the bits, so it must not depend on a measurement: first by the named rate. */
bool tb_plan_make_emulated(struct tb_plan *plan, const struct tb_call *call, struct tb_ways ways,
                           const struct tb_emulated_way *whole, int64_t budget_bytes) {
  struct tb_ways named = ways;
  named.link_bytes_per_s = 0;
  if (!make_emulated(plan, call, named, whole, budget_bytes)) return false;
  struct tb_plan measured;
  if (tb_link_bytes_per_s(ways.link_bytes_per_s) != tb_link_bytes_per_s(0) &&
      make_emulated(&measured, call, ways, whole, budget_bytes))
    *plan = measured;
  return true;
}

bool tb_plan_emulated_pays(const struct tb_plan *plan, const struct tb_call *call) {
  return !tb_plan_is_cut(plan, call) || cost_with(plan, call, 0) < cost_of_others(call, &plan->ways);
}
