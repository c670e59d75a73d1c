/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a product is cut for the memory there is, over random shapes and budgets: the pieces fit, tile the product
 * without a rest, start where the kernels' groups of k start, and are no smaller than they need be. What memory is left
 * goes to the partial sums of a split k.
 *
 * Seen to fail when: padding is left out of a buffer's size; a chunk of k ends inside a kernel's chunk; the offsets
 * overlap; a block has more columns than the kernels count; what a complex
 * product makes of operands in place has no limit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "select/order.h"
#include "plan/plan.h"
#include "rng.h"
#include "common/sgemm_args.h"
#include "select/emulated_plan.h"

static const struct tb_ways staged = {TB_STAGED, TB_STAGED, TB_STAGED, false, 0, TB_MAY_BE_KEPT};

static const struct tb_emulated_way unsplit = {.splits = 1};

static int64_t rows_of(const struct tb_plan *p) { return tb_ceil_div(p->block_m, p->tile_m); }
static int64_t columns_of(const struct tb_plan *p) { return tb_ceil_div(p->block_n, p->tile_n); }

static int64_t random_size(uint64_t *rng) { return 1 + tst_random_below(rng, (int64_t)1 << tst_random_below(rng, 18)); }

static struct tb_call random_call(uint64_t *rng) {
  struct tb_call call = {.m = random_size(rng), .n = random_size(rng), .k = random_size(rng), .alpha = {1}};
  call.a.transposed = tst_random_below(rng, 2), call.b.transposed = tst_random_below(rng, 2);
  call.a.ld = call.a.transposed ? call.k : call.m, call.b.ld = call.b.transposed ? call.n : call.k, call.ldc = call.m;
  return call;
}

/* Room that `rows` x `columns` floats take when each stored column starts on a padded multiple. */
static int64_t padded_bytes(int64_t rows, int64_t columns) {
  return tb_leading(TB_S, rows) * columns * (int64_t)sizeof(float);
}

/* That all panels of a block's side take, of `tile` rows or columns each but for the last; `along`: stored along k. */
static int64_t panels_bytes(int64_t side, int64_t tile, int64_t k, bool along) {
  const int64_t whole = (side - 1) / tile, last = side - whole * tile;
  return along ? padded_bytes(k, tile) * whole + padded_bytes(k, last)
               : padded_bytes(tile, k) * whole + padded_bytes(last, k);
}

static int64_t a_panels_bytes(const struct tb_call *call, const struct tb_plan *p) {
  return p->ways.a == TB_IN_PLACE ? 0 : panels_bytes(p->block_m, p->tile_m, p->chunk_k, call->a.transposed);
}

static int64_t b_panels_bytes(const struct tb_call *call, const struct tb_plan *p) {
  return p->ways.b == TB_IN_PLACE ? 0 : panels_bytes(p->block_n, p->tile_n, p->chunk_k, !call->b.transposed);
}

static void check_plan(const struct tb_call *call, const struct tb_plan *p, int64_t budget) {
  assert_true(p->arena_bytes <= budget);
  assert_true(p->block_m >= 1 && p->block_m <= call->m && p->block_n >= 1 && p->block_n <= call->n);
  assert_true(p->tile_m >= 1 && p->tile_m <= p->block_m && p->tile_n >= 1 && p->tile_n <= p->block_n);
  assert_true(tb_ceil_div(p->block_m, p->tile_m) <= TB_TILES_MAX && tb_ceil_div(p->block_n, p->tile_n) <= TB_TILES_MAX);
  assert_true(p->chunk_k == call->k || (p->chunk_k < call->k && p->chunk_k % p->group_k == 0));
  assert_true(p->slice_k == p->chunk_k || (p->slice_k < p->chunk_k && p->slice_k % p->group_k == 0));
  assert_true(p->slice_k == p->chunk_k ||
              p->slice_k % tb_line_elems(TB_S) == 0); /* each starts on a line of the arena */
  assert_int_equal(p->group_k, tb_group_k(call->m, call->n, call->k));
  assert_true(tb_padded(TB_S, p->tile_m) <= tb_slot_elems(TB_S));

  /* Every panel and tile has its room, and the three parts of the arena follow each other. */
  int64_t rows = tb_ceil_div(p->block_m, p->tile_m), columns = tb_ceil_div(p->block_n, p->tile_n);
  int64_t a = call->a.transposed ? padded_bytes(p->chunk_k, p->tile_m) : padded_bytes(p->tile_m, p->chunk_k);
  int64_t b = call->b.transposed ? padded_bytes(p->tile_n, p->chunk_k) : padded_bytes(p->chunk_k, p->tile_n);
  assert_true(4 * p->operand[TB_OF_A].panel_elems >= a && 4 * p->operand[TB_OF_B].panel_elems >= b);
  assert_true(4 * p->tile_elems >= padded_bytes(p->tile_m, p->tile_n));
  assert_true(p->a_kept_bytes == 0 && p->operand[TB_OF_B].offset_bytes >= a_panels_bytes(call, p));
  assert_true(p->d_offset_bytes >= p->operand[TB_OF_B].offset_bytes + b_panels_bytes(call, p));
  assert_true(p->arena_bytes >= p->d_offset_bytes + rows * columns * padded_bytes(p->tile_m, p->tile_n));
  assert_int_equal(p->operand[TB_OF_B].offset_bytes % 128, 0);
  assert_int_equal(p->d_offset_bytes % 128, 0);

  /* Behind them the tiles' workspaces, each for two partial sums or more, and for no more than k has. */
  assert_true(p->workspace_offset_bytes >= p->d_offset_bytes + rows * columns * padded_bytes(p->tile_m, p->tile_n));
  assert_true(p->arena_bytes >= p->workspace_offset_bytes + rows * columns * p->workspace_bytes);
  int64_t sum = 4 * tb_padded(TB_S, p->tile_m * p->tile_n);
  assert_true(p->workspace_bytes == 0 || p->workspace_bytes >= 2 * sum);
  assert_true(p->workspace_bytes <= tb_ceil_div(p->slice_k, tb_min(TB_SGEMM_CHUNK_K, p->group_k)) * sum);
  assert_true(rows * columns * p->workspace_bytes <= 256 << 20);
  assert_int_equal(p->workspace_offset_bytes % 128 + p->workspace_bytes % 128, 0);
}

static void any_shape_any_budget(void **state) {
  (void)state;
  uint64_t rng = 1;
  int cut = 0, refused = 0;
  for (int i = 0; i < 20000; i++) {
    struct tb_call call = random_call(&rng);
    struct tb_plan plan, whole;
    assert_true(tb_plan_make(&whole, &call, staged, INT64_MAX));
    check_plan(&call, &whole, INT64_MAX);
    assert_true(whole.block_n == call.n && whole.chunk_k == call.k); /* nothing is cut without need */
    int64_t budget = 1 + whole.arena_bytes / (1 + tst_random_below(&rng, 100));
    if (!tb_plan_make(&plan, &call, staged, budget)) {
      refused++; /* then not even 128 x 128 of C and one chunk of k fit */
      int64_t least = padded_bytes(128, 128) + 2 * 128 * 4 * tb_padded(TB_S, tb_min(whole.group_k, call.k)) + 4096;
      if (budget >= least)
        fail_msg("budget %ld refused for m=%ld n=%ld k=%ld", (long)budget, (long)call.m, (long)call.n, (long)call.k);
      continue;
    }
    check_plan(&call, &plan, budget);
    cut += plan.block_m < call.m || plan.block_n < call.n || plan.chunk_k < call.k;
  }
  assert_true(cut > 1000 && refused > 100); /* the budgets were tight enough to test anything */
}

/* What is in place takes no room, and where nothing is copied one launch does it all. */
static void in_place_takes_no_room(void **state) {
  (void)state;
  uint64_t rng = 2;
  for (int i = 0; i < 5000; i++) {
    struct tb_call call = random_call(&rng);
    const struct tb_ways ways = {(enum tb_way)tst_random_below(&rng, 3),
                                 (enum tb_way)tst_random_below(&rng, 3),
                                 (enum tb_way)tst_random_below(&rng, 3),
                                 false,
                                 0,
                                 TB_MAY_BE_KEPT};
    struct tb_plan p, cut;
    call.beta.s = (float)tst_random_below(&rng, 2);
    bool wants_d = ways.c != TB_IN_PLACE || call.beta.s != 0;
    bool at_once = ways.a == TB_IN_PLACE && ways.b == TB_IN_PLACE && ways.c == TB_IN_PLACE;
    assert_true(tb_plan_make(&p, &call, ways, INT64_MAX));
    assert_int_equal(p.operand[TB_OF_A].panel_elems == 0, ways.a == TB_IN_PLACE);
    assert_int_equal(p.operand[TB_OF_B].panel_elems == 0, ways.b == TB_IN_PLACE);
    assert_int_equal(p.tile_elems == 0, !wants_d);
    if (at_once) assert_true(p.tile_m == call.m && p.tile_n == call.n);
    if (at_once)
      assert_int_equal(p.workspace_offset_bytes, wants_d ? 4 * tb_padded(TB_S, tb_leading(TB_S, call.m) * call.n) : 0);
    /* A k whose panels take no room is never cut. */
    if (p.arena_bytes > 0 && tb_plan_make(&cut, &call, ways, p.arena_bytes / 3) && ways.a == TB_IN_PLACE &&
        ways.b == TB_IN_PLACE)
      assert_int_equal(cut.chunk_k, call.k);
  }
}

static enum tb_way a_way(enum tb_place place, int64_t m, int64_t n, int64_t k, int64_t ld, bool transposed) {
  struct tb_call call = {.m = m, .n = n, .k = k, .alpha = {1}, .a = {NULL, ld, transposed}, .b.ld = k, .ldc = m};
  const struct tb_places places = {.a.place = place};
  return tb_plan_ways(&call, &places).a;
}

static enum tb_way c_way(enum tb_place place, int64_t m, int64_t n, float beta) {
  struct tb_call call = {.m = m, .n = n, .k = 9, .alpha = {1}, .beta = {beta}, .a.ld = m, .b.ld = 9, .ldc = m};
  const struct tb_places places = {.c.place = place};
  return tb_plan_ways(&call, &places).c;
}

static void ways_by_place(void **state) {
  (void)state;
  struct tb_call call = {.m = 9, .n = 9, .k = 9};
  assert_int_equal(tb_plan_ways(&call, NULL).a, TB_STAGED);
  assert_int_equal(a_way(TB_PAGEABLE, 1000, 1000, 1000, 1000, false), TB_STAGED);
  assert_int_equal(a_way(TB_DEVICE, 1000, 1000, 1000, 1000, false), TB_IN_PLACE);
  assert_int_equal(a_way(TB_MANAGED, 1000, 1000, 1000, 1000, true), TB_IN_PLACE);
  assert_int_equal(a_way(TB_PINNED, 1000, 1000, 1000, 1000, false), TB_DIRECT);
  assert_int_equal(a_way(TB_PINNED, 1000, 32, 1000, 1000, false), TB_IN_PLACE);    /* read by one column of tiles */
  assert_int_equal(a_way(TB_PINNED, 128, 1000, 128, 128, false), TB_IN_PLACE);     /* 64 KiB */
  assert_int_equal(a_way(TB_PINNED, 100, 1000, 1000, 100, false), TB_STAGED);      /* short columns */
  assert_int_equal(a_way(TB_PINNED, 100, 1000, 1000, 1000, true), TB_DIRECT);      /* they run along k */
  assert_int_equal(a_way(TB_PINNED, 1000, 1000, 1000, 1 << 29, false), TB_STAGED); /* too far apart */
  assert_int_equal(c_way(TB_DEVICE, 1000, 1000, 1), TB_IN_PLACE);
  assert_int_equal(c_way(TB_PINNED, 1000, 1000, 0), TB_DIRECT);
  assert_int_equal(c_way(TB_PINNED, 10, 10, 0), TB_IN_PLACE);
  assert_int_equal(c_way(TB_PINNED, 1000, 1000, 1), TB_STAGED);
  assert_int_equal(c_way(TB_PINNED, 10, 10, 1),
                   TB_STAGED); /* the host's commit alone leaves it whole when the GPU fails */
}

/* More memory never makes smaller pieces. */
static void more_memory_larger_pieces(void **state) {
  (void)state;
  struct tb_call call = {.m = 5000, .n = 7000, .k = 9000, .alpha = {1}};
  struct tb_plan plan;
  int64_t before = 0;
  for (int64_t budget = 1 << 20; budget < (int64_t)1 << 31; budget += budget / 3) {
    assert_true(tb_plan_make(&plan, &call, staged, budget));
    int64_t volume = plan.block_m * plan.block_n * plan.chunk_k;
    assert_true(volume >= before);
    before = volume;
  }
  assert_true(before == call.m * call.n * call.k);
}

static void check_square(int64_t n, int64_t tile_m, int64_t tile_n, int64_t slice_k) {
  struct tb_call call = {.m = n, .n = n, .k = n, .alpha = {1}};
  struct tb_plan plan;
  assert_true(tb_plan_make(&plan, &call, staged, INT64_MAX));
  assert_int_equal(plan.tile_m, tile_m);
  assert_int_equal(plan.tile_n, tile_n);
  assert_int_equal(plan.slice_k, slice_k);
  assert_int_equal(plan.one_slot, tile_m == n && tile_n == n);
}

/* What bench/overlap_model.py says is best, and the largest square that is not cut. */
static void squares(void **state) {
  (void)state;
  check_square(512, 512, 512, 512);
  check_square(513, 513, 384, 513);
  check_square(1024, 1024, 256, 1024);
  check_square(2048, 2048, 256, 2048);
  check_square(3072, 1024, 1024, 1024);
  check_square(4096, 1024, 1024, 1408);
  check_square(8192, 1024, 1024, 2816);
  check_square(16384, 2048, 2048, 5632);
}

static struct tb_call transposing(const char *transposes, int64_t m, int64_t n, int64_t k) {
  struct tb_call call = {.m = m, .n = n, .k = k, .alpha = {1}};
  call.a.transposed = transposes[0] == 'T', call.b.transposed = transposes[1] == 'T';
  call.a.ld = call.a.transposed ? k : m, call.b.ld = call.b.transposed ? n : k, call.ldc = m;
  return call;
}

static struct tb_plan plan_of(const char *transposes, int64_t m, int64_t n, int64_t k, struct tb_ways ways) {
  const struct tb_call call = transposing(transposes, m, n, k);
  struct tb_plan plan;
  assert_true(tb_plan_make(&plan, &call, ways, INT64_MAX));
  assert_int_equal(plan.strips, (plan.tile_m == m) != (plan.tile_n == n)); /* of the shapes below */
  return plan;
}

/* A symmetric operand goes up as it is stored where there is room for that, and else as panels, before anything is cut.
 */
static void squares_of_mirrored_operands(void **state) {
  (void)state;
  struct tb_call call = transposing("NN", 4000, 3000, 4000);
  call.a.structure = TB_SYMMETRIC;
  struct tb_plan plan;
  assert_true(tb_plan_make(&plan, &call, staged, INT64_MAX));
  assert_true(plan.stored_ld >= 4000 && !plan.strips && tb_plan_unfolds(&plan, &call, TB_OF_A));
  assert_true(!tb_plan_unfolds(&plan, &call, TB_OF_B));
  const int64_t needed = plan.arena_bytes - plan.workspace_bytes * rows_of(&plan) * columns_of(&plan);
  assert_true(tb_plan_make(&plan, &call, staged, needed) && plan.stored_ld > 0);
  assert_true(tb_plan_make(&plan, &call, staged, needed - 4000) && plan.stored_ld == 0);
  assert_true(plan.block_m == 4000 && plan.block_n == 3000 && plan.chunk_k == 4000);
  assert_true(tb_plan_make_emulated(&plan, &call, staged, &unsplit, INT64_MAX) && plan.stored_ld > 0);
  assert_true(tb_plan_make_emulated(&plan, &call, staged, &unsplit, plan.arena_bytes - 1) && plan.stored_ld == 0);
  assert_true(plan.block_m == 4000 && plan.block_n == 3000 && plan.chunk_k == 4000);
  call.a = tb_view_at(call.a, 1, 0); /* a part of it is none */
  assert_true(tb_plan_make(&plan, &call, staged, INT64_MAX) && plan.stored_ld == 0);
}

static struct tb_plan plan_of_symmetric_a(int64_t order, int64_t n, struct tb_ways ways) {
  struct tb_call call = transposing("NN", order, n, order);
  call.a.structure = TB_SYMMETRIC;
  struct tb_plan plan;
  assert_true(tb_plan_make_emulated(&plan, &call, ways, &unsplit, INT64_MAX) && plan.stored_ld > 0);
  return plan;
}

/* It goes up ahead of B's strips, in a few panels, of a large order whose product takes no longer than they do; unless
 * they are short, or do not go up in columns. */
static void strips_beside_squares(void **state) {
  (void)state;
  const struct tb_plan two = plan_of_symmetric_a(4000, 4000, staged), four = plan_of_symmetric_a(7200, 2000, staged);
  assert_true(two.strips && two.tile_m == 2048 && two.tile_n == 384 && two.slice_k == 4000);
  assert_true(four.strips && rows_of(&four) == 4 && four.tile_m == 1920 && four.tile_n < 500 && four.streams >= 2);
  assert_true(plan_of_symmetric_a(3584, 720, staged).strips && !plan_of_symmetric_a(3583, 720, staged).strips);
  assert_false(plan_of_symmetric_a(3584, 710, staged).strips);
  assert_false(plan_of_symmetric_a(9000, 4000, staged).strips);
  struct tb_ways b_there = staged;
  b_there.b = TB_IN_PLACE;
  assert_false(plan_of_symmetric_a(4000, 4000, b_there).strips);
  struct tb_call call = transposing("NT", 4000, 4000, 4000);
  call.a.structure = TB_SYMMETRIC;
  struct tb_plan plan;
  assert_true(tb_plan_make_emulated(&plan, &call, staged, &unsplit, INT64_MAX) && !plan.strips);
  call = transposing("NN", 4000, 4000, 4000);
  call.b.structure = TB_SYMMETRIC;
  assert_true(tb_plan_make_emulated(&plan, &call, staged, &unsplit, INT64_MAX) && plan.stored_ld > 0 && !plan.strips);
}

static bool in_strips(const char *transposes, int64_t m, int64_t n, int64_t k) {
  return plan_of(transposes, m, n, k, staged).strips;
}

static bool is_hidden(int64_t m, int64_t n, int64_t k, struct tb_ways ways) {
  const struct tb_call call = transposing("NN", m, n, k);
  return tb_plan_is_hidden(&call, ways);
}

/* The smaller operand is one panel, and the other one's panels are narrow, but for each to fill a slot; of a long k
 * they go up in slices, for those of the last one are what is waited for. */
static void strips(void **state) {
  (void)state;
  struct tb_plan p = plan_of("NN", 1000, 8000, 1000, staged);
  assert_true(p.tile_m == 1000 && p.tile_n == 640 && p.slice_k == 1000);
  p = plan_of("TN", 8000, 1000, 1000, staged);
  assert_true(p.tile_m == 640 && p.tile_n == 1000 && p.slice_k == 1000);
  p = plan_of("NN", 2000, 60000, 9000, staged);
  assert_true(p.tile_m == 2000 && p.tile_n == 1920 && p.slice_k < 4500 && p.slice_k >= 3000);
  /* Panels are whole stored columns; of two operands of about the same size those of either. */
  assert_true(in_strips("TN", 1000, 8000, 1000) && !in_strips("NT", 1000, 8000, 1000));
  assert_true(!in_strips("TT", 1000, 8000, 1000) && in_strips("TT", 8000, 1000, 1000));
  assert_true(plan_of("TT", 1000, 1200, 1000, staged).tile_n == 1200 && !in_strips("NT", 1000, 1200, 1000));
  assert_true(plan_of("NN", 1200, 1000, 1000, staged).tile_m == 1200);
  /* None where one would be all; where the product takes longer than the larger operand's way up; where C does, than
   * both; or next to nothing. */
  assert_false(in_strips("NN", 300, 400, 300));
  assert_false(in_strips("NN", 600, 700, 400));
  assert_false(in_strips("NN", 3000, 8000, 3000));
  assert_false(in_strips("NN", 1000, 8000, 800));
  assert_false(in_strips("NN", 1000, 8000, 5000));
  /* Nor for what is in place; for several GPUs; or of a product that is cut. */
  for (int i = 0; i < 4; i++) {
    struct tb_ways ways = staged;
    if (i < 3) *(i == 0 ? &ways.a : i == 1 ? &ways.b : &ways.c) = TB_IN_PLACE;
    ways.passed = i == 3;
    assert_false(plan_of("NN", 1000, 8000, 1000, ways).strips);
    assert_true(is_hidden(1000, 8000, 1000, ways) == ways.passed); /* which is for how, not for what is computed */
  }
  const struct tb_call call = transposing("NN", 1000, 8000, 4000);
  assert_true(tb_plan_make(&p, &call, staged, (int64_t)64 << 20));
  assert_true(p.block_n < 8000 && !p.strips);
  /* The other kernels are enough where they take no longer than the larger operand's way up. */
  assert_true(is_hidden(2048, 2048, 2048, staged) && is_hidden(2048, 8192, 8000, staged));
  assert_false(is_hidden(2200, 2200, 2200, staged));
  assert_false(is_hidden(2048, 2048, 1000, staged)); /* C takes longer */
}

/* With memory enough, a slice of a long k can be split at every chunk; a large C, whose tiles occupy a GPU anyhow, has
 * no room. */
static void room_for_a_split_of_k(void **state) {
  (void)state;
  struct tb_call longest = {.m = 200, .n = 100, .k = 1 << 16, .alpha = {1}},
                 large = {.m = 10000, .n = 10000, .k = 5000};
  struct tb_plan plan;
  assert_true(tb_plan_make(&plan, &longest, staged, INT64_MAX));
  assert_true(plan.slice_k < longest.k && plan.workspace_bytes >= plan.slice_k / TB_SGEMM_CHUNK_K * 4 * 200 * 100);
  int64_t needed = plan.workspace_offset_bytes;
  assert_true(tb_plan_make(&plan, &longest, staged, needed + 4 * 200 * 100 * 2)); /* two sums and no more */
  assert_true(plan.chunk_k == longest.k && plan.workspace_bytes / (4 * 200 * 100) == 2);
  assert_true(tb_plan_make(&plan, &longest, staged, needed)); /* none, and k is still not cut */
  assert_true(plan.chunk_k == longest.k && plan.workspace_bytes == 0);
  assert_true(tb_plan_make(&plan, &large, staged, INT64_MAX));
  assert_int_equal(plan.workspace_bytes, 0);
}

/* In double precision what does not fill a last round of the GPU is split, 132 tiles of 128 x 128 in 8 groups at most:
 * of an operand in place, real or complex, there is room for that. */
static void room_for_a_last_round(void **state) {
  (void)state;
  static const struct tb_ways in_place = {.a = TB_IN_PLACE, .b = TB_IN_PLACE, .c = TB_IN_PLACE};
  for (int type = TB_D; type <= TB_Z; type += TB_Z - TB_D) {
    struct tb_call call = {.type = (enum tb_type)type, .m = 4096, .n = 4096, .k = 4096};
    call.a.type = call.b.type = call.type;
    call.alpha = tb_scalar_of(call.type, 1);
    struct tb_plan plan;
    assert_true(tb_plan_make(&plan, &call, in_place, INT64_MAX) && plan.at_once);
    assert_true(plan.workspace_bytes >= (int64_t)132 * 8 * 128 * 128 * 8);
  }
}

/* ---- for the tensor cores ---- */

/* Rates of links: not measured, an H200's, slow and fast ones. */
static const double links[] = {0, 52e9, 1e9, 12e9, 400e9};
enum { LINKS = sizeof links / sizeof *links };

static void check_emulated_plan(const struct tb_call *call, const struct tb_plan *p,
                                const struct tb_emulated_way *whole, int64_t budget) {
  assert_true(p->emulated && !p->one_slot && p->arena_bytes <= budget);
  /* k is cut between spans only. */
  assert_int_equal(p->span_k, whole->span_k > 0 && whole->span_k < call->k ? whole->span_k : call->k);
  assert_true(p->chunk_k == call->k || p->chunk_k % p->span_k == 0);
  assert_true(p->slice_k == p->chunk_k || (p->slice_k < p->chunk_k && p->slice_k % p->span_k == 0));
  assert_true(tb_ceil_div(p->chunk_k, p->slice_k) <= TB_EMULATED_SLICES_MAX); /* however many spans */
  /* Blocks and tiles start where the tensor cores' own tiles start, and blocks are not cut small. */
  assert_true(p->block_m == call->m || (p->block_m % TB_EMULATED_TILE_M == 0 && p->block_m >= 2048));
  assert_true(p->block_n == call->n || (p->block_n % TB_EMULATED_TILE_N == 0 && p->block_n >= 1152));
  assert_true(p->tile_m == p->block_m || p->tile_m % TB_EMULATED_TILE_M == 0);
  assert_true(p->tile_n == p->block_n || p->tile_n % TB_EMULATED_TILE_N == 0);
  assert_true(rows_of(p) <= TB_TILES_MAX && columns_of(p) <= TB_TILES_MAX &&
              tb_padded(TB_S, p->tile_m) <= tb_slot_elems(TB_S));
  assert_true(p->streams >= 1 && p->streams <= TB_COMPUTE_STREAMS && (p->streams & (p->streams - 1)) == 0);
  /* A launch has k split for all of its tiles; or has all of the call's, and some of them behind those that are whole.
   */
  const bool behind =
      p->tile_m == call->m && p->tile_n == call->n && tb_emulated_tiles(call->m, call->n) > whole->whole;
  assert_int_equal(p->way.splits, behind || whole->whole == 0 ? whole->splits : 1);
  assert_int_equal(p->way.whole, behind ? whole->whole : 0);
  /* Room for panels, twice for A's where those of the first chunk stay for the next block of a row. */
  const int64_t a_panels = a_panels_bytes(call, p);
  if (p->a_kept_bytes > 0) {
    assert_true(p->chunk_k < call->k && p->block_n < call->n && p->ways.a != TB_IN_PLACE);
    assert_true(p->a_kept_bytes >= a_panels && p->a_kept_bytes % 128 == 0);
  }
  assert_true(p->operand[TB_OF_B].offset_bytes >= p->a_kept_bytes + a_panels &&
              p->operand[TB_OF_B].offset_bytes % 128 == 0);
  assert_true(p->d_offset_bytes >= p->operand[TB_OF_B].offset_bytes + b_panels_bytes(call, p) &&
              p->d_offset_bytes % 128 == 0);
  /* Room for what is packed, and for each stream; all of it in the arena. */
  const int64_t a = tb_emulated_packed_bytes(false, p->tile_m, p->span_k);
  const int64_t b = tb_emulated_packed_bytes(true, p->tile_n, p->span_k);
  const int64_t spans = tb_ceil_div(p->chunk_k, p->span_k);
  int64_t workspace = tb_emulated_workspace_bytes(p->tile_m, p->tile_n, p->span_k, &p->way);
  if (p->at_once) workspace += a + b;
  assert_true(p->at_once || (p->operand[TB_OF_A].packed_bytes >= a && p->operand[TB_OF_B].packed_bytes >= b));
  assert_true(p->workspace_bytes >= workspace);
  const int64_t d_bytes = rows_of(p) * columns_of(p) * p->tile_elems * 4;
  assert_true(p->packed_offset_bytes >= p->d_offset_bytes + d_bytes);
  assert_true(p->workspace_offset_bytes >=
              p->packed_offset_bytes + spans * (rows_of(p) * p->operand[TB_OF_A].packed_bytes +
                                                columns_of(p) * p->operand[TB_OF_B].packed_bytes));
  assert_true(p->arena_bytes >= p->workspace_offset_bytes + p->streams * p->workspace_bytes);
}

static int64_t slice_of(int64_t m, int64_t n, int64_t k, struct tb_ways ways, int64_t budget) {
  const struct tb_call call = {.m = m, .n = n, .k = k, .a.ld = m, .b.ld = k, .ldc = m};
  const struct tb_emulated_way way = {.splits = 1, .span_k = tb_emulated_span_k(m, n, k)};
  struct tb_plan plan;
  assert_true(tb_plan_make_emulated(&plan, &call, ways, &way, budget));
  return plan.slice_k;
}

/* Where the product takes about as long as the way up, or longer, and C has time to come down. */
static void two_slices_of_large_products(void **state) {
  (void)state;
  const int64_t all = INT64_MAX, n = 16384;
  assert_int_equal(slice_of(n, n, n, staged, all), n / 2);
  assert_int_equal(slice_of(2 * n, 2 * n, 2 * n, staged, all), n);
  assert_int_equal(slice_of(20480, 20480, 20480, staged, all), 12288); /* five spans: three and two */
  assert_int_equal(slice_of(12288, 12288, 12288, staged, all), 12288); /* three spans */
  assert_int_equal(slice_of(8192, 8192, 8192, staged, all), 8192);
  assert_int_equal(slice_of(4096, 4096, 4 * n, staged, all), 4 * n);   /* the way up takes longer */
  assert_int_equal(slice_of(4 * n, 4 * n, 13312, staged, all), 13312); /* so does the way down, than half of it */
  assert_int_equal(slice_of(n, n, n, staged, (int64_t)2 << 30), 4096); /* C and k are cut, for want of memory */
  for (int in_place = 0; in_place < 3; in_place++) {
    struct tb_ways ways = staged;
    *(in_place == 0 ? &ways.a : in_place == 1 ? &ways.b : &ways.c) = TB_IN_PLACE;
    assert_int_equal(slice_of(n, n, n, ways, all), n);
  }
}

/* A triangle with its diagonal is hardly more than half of what goes up for it; two products in one pass go up whole.
 */
static void slices_of_triangles(void **state) {
  (void)state;
  const int64_t n = 8192;
  static const float x[2], y[2];
  const struct tb_emulated_way way = {.splits = 1, .span_k = tb_emulated_span_k(2 * n, n, 2 * n)};
  struct tb_call call = {.type = TB_C, .m = n, .n = n, .k = n, .ldc = n, .region = {.of = TB_LOWER_TRIANGLE}};
  call.a = (struct tb_view){.type = TB_C, .data = x, .ld = n};
  call.b = call.a;
  call.b.transposed = true;
  struct tb_plan plan;
  assert_true(tb_plan_make_emulated(&plan, &call, staged, &way, INT64_MAX));
  assert_true(plan.twins && plan.slice_k == n / 2);
  call.b.data = call.again_a = y, call.again_b = x;
  call.twice = true;
  assert_true(tb_plan_make_emulated(&plan, &call, staged, &way, INT64_MAX));
  assert_true(plan.both && plan.slice_k == n);
}

static void any_shape_for_the_tensor_cores(void **state) {
  (void)state;
  uint64_t rng = 3;
  int cut = 0, cut_k = 0, kept = 0, refused = 0;
  for (int i = 0; i < 40000; i++) {
    struct tb_call call = random_call(&rng);
    const struct tb_ways ways = {(enum tb_way)tst_random_below(&rng, 3),
                                 (enum tb_way)tst_random_below(&rng, 3),
                                 (enum tb_way)tst_random_below(&rng, 3),
                                 i % 2,
                                 links[i % LINKS],
                                 false};
    const struct tb_emulated_way way = {.splits = 1 + (int)tst_random_below(&rng, 3),
                                        .whole = (int)tst_random_below(&rng, 2),
                                        .span_k = tst_random_below(&rng, 3) * TB_EMULATED_GROUP_K};
    struct tb_plan plan, whole;
    call.beta.s = (float)tst_random_below(&rng, 2);
    if (!tb_plan_make_emulated(&whole, &call, ways, &way, INT64_MAX)) continue;
    check_emulated_plan(&call, &whole, &way, INT64_MAX);
    const int64_t budget = 1 + whole.arena_bytes / (1 + tst_random_below(&rng, 8));
    if (!tb_plan_make_emulated(&plan, &call, ways, &way, budget)) {
      refused++;
      continue;
    }
    check_emulated_plan(&call, &plan, &way, budget);
    cut += plan.block_m < call.m || plan.block_n < call.n;
    cut_k += plan.chunk_k < call.k;
    kept += plan.a_kept_bytes > 0;
  }
  assert_true(cut > 1000 && cut_k > 1000 && kept > 20 && refused > 1000);
}

static void check_split_square(int64_t n, int64_t tile_m, int64_t tile_n, int streams) {
  struct tb_call call = {.m = n, .n = n, .k = n, .alpha = {1}};
  struct tb_plan plan;
  assert_true(tb_plan_make_emulated(&plan, &call, staged, &unsplit, INT64_MAX));
  assert_int_equal(plan.tile_m, tile_m);
  assert_int_equal(plan.tile_n, tile_n);
  assert_int_equal(plan.streams, streams);
}

/* What bench/overlap_model.py says is best; of the largest, what was measured. What is in place is packed at once,
 * unless that takes 6 GiB. */
static void squares_for_the_tensor_cores(void **state) {
  (void)state;
  const struct tb_ways in_place = {TB_IN_PLACE, TB_IN_PLACE, TB_IN_PLACE, false, 0, TB_MAY_BE_KEPT};
  struct tb_call call = {.m = 16384, .n = 16384, .k = 16384, .alpha = {1}};
  struct tb_plan plan;
  check_split_square(2048, 2048, 384, 8);
  check_split_square(4096, 4096, 384, 4); /* strips: of four or two the launches fill a GPU */
  check_split_square(8192, 8192, 384, 2);
  check_split_square(9000, 1024, 1152, 8);
  check_split_square(16384, 1536, 1536, 8);
  assert_true(tb_plan_make_emulated(&plan, &call, in_place, &unsplit, INT64_MAX));
  assert_true(plan.at_once && plan.block_m == call.m && plan.block_n == call.n);
  call.m = call.n = call.k = 32768;
  assert_true(tb_plan_make_emulated(&plan, &call, in_place, &unsplit, INT64_MAX));
  assert_true(plan.at_once && plan.workspace_bytes <= (int64_t)6 << 30);
  /* Of a complex one the real panels count, too. */
  call.type = call.a.type = call.b.type = TB_C;
  const struct tb_emulated_way in_spans = {.splits = 1, .span_k = tb_emulated_span_k(2 * call.m, call.n, 2 * call.k)};
  assert_true(tb_plan_make_emulated(&plan, &call, in_place, &in_spans, INT64_MAX));
  assert_true(plan.at_once && plan.arena_bytes - plan.real_offset_bytes <= (int64_t)6 << 30);
}

/* Columns of half a line and less share one, and none straddles two; longer ones start on lines, or on quarters where
 * that would bring more than an eighth for nothing. More columns never have a shorter one. */
static void leading_dimensions(void **state) {
  (void)state;
  assert_int_equal(tb_leading(TB_S, 74), 80);
  assert_int_equal(tb_leading(TB_S, 110), 128 - 16);
  assert_int_equal(tb_leading(TB_S, 1000), 1024);
  for (enum tb_type type = TB_S; type < TB_TYPE_COUNT; type++) {
    const int64_t line = tb_line_elems(type), quarter = line / 4;
    for (int64_t n = 1; n < 40 * line; n++) {
      const int64_t ld = tb_leading(type, n);
      assert_true(ld >= n && ld >= tb_leading(type, tb_max(n - 1, 1)) && ld <= tb_padded(type, n));
      if (n <= line / 2) assert_true(line % ld == 0);
      if (n > line / 2) assert_true(ld % line == 0 ? 8 * (ld - n) <= n || ld - n < quarter : ld - n < quarter);
    }
  }
}

/* What all kernels but the tensor cores' make of a thin operand beside a copy: one tile, in the more slices, the more
 * goes up; but tiles, where much comes down. */
static void slices_beside_copies(void **state) {
  (void)state;
  const struct tb_ways kept_b = {.a = TB_STAGED, .b = TB_IN_PLACE, .c = TB_STAGED, .kept = TB_ARE_COPIES};
  const struct tb_ways kept_a = {.a = TB_IN_PLACE, .b = TB_STAGED, .c = TB_STAGED, .kept = TB_ARE_COPIES};
  const struct tb_ways kept_both = {.a = TB_IN_PLACE, .b = TB_IN_PLACE, .c = TB_STAGED, .kept = TB_ARE_COPIES};
  const int64_t k[] = {2000, 60000, 1000000};
  const int64_t slices[] = {1, 3, 14};
  for (int i = 0; i < 3; i++) {
    const struct tb_call call = transposing("NT", 74, 1024, k[i]);
    struct tb_plan p;
    assert_true(tb_plan_make(&p, &call, kept_b, INT64_MAX));
    assert_true(p.tile_m == 74 && p.tile_n == 1024 && !p.strips);
    assert_int_equal(tb_ceil_div(k[i], p.slice_k), slices[i]);
    const struct tb_call turned = transposing("NT", 1024, 74, k[i]);
    assert_true(tb_plan_make(&p, &turned, kept_a, INT64_MAX) && p.tile_m == 1024 && p.tile_n == 74);
    assert_int_equal(tb_ceil_div(k[i], p.slice_k), slices[i]);
    assert_true(tb_plan_make(&p, &call, staged, INT64_MAX) && p.tile_n == 512);
    assert_true(tb_plan_make(&p, &call, kept_both, INT64_MAX) && p.slice_k == k[i]);
  }
  for (int64_t n = 7500; n < 100000; n *= 2) { /* more than a slot */
    const struct tb_call wide = transposing("NN", 74, n, 1024);
    struct tb_plan p;
    assert_true(tb_plan_make(&p, &wide, kept_b, INT64_MAX) && p.tile_n < tb_min(n, 10000));
  }
}

static struct tb_plan plan_of_copies(const struct tb_call *call, bool a_goes_up, bool b_goes_up, int64_t budget) {
  const struct tb_ways ways = {.a = a_goes_up ? TB_STAGED : TB_IN_PLACE,
                               .b = b_goes_up ? TB_STAGED : TB_IN_PLACE,
                               .c = TB_STAGED,
                               .kept = TB_ARE_COPIES};
  const struct tb_emulated_way way = {.splits = 1, .span_k = tb_emulated_span_k(call->m, call->n, call->k)};
  struct tb_plan plan;
  assert_true(tb_plan_make_emulated(&plan, call, ways, &way, budget));
  check_emulated_plan(call, &plan, &way, budget);
  return plan;
}

/* A column of a tile fits into a slot of the way down, however many rows there are and whatever goes up. */
static void columns_within_slots(void) {
  const struct tb_call tall = {
      .m = 600000, .n = 1500, .k = 64, .alpha = {1}, .a.ld = 600000, .b.ld = 64, .ldc = 600000};
  for (int up = 0; up < 3; up++) {
    const struct tb_plan plan = plan_of_copies(&tall, up == 1, up == 2, INT64_MAX);
    assert_true(plan.tile_m <= tb_slot_elems(TB_S));
  }
}

/* Where A goes up by a single panel C comes down in parts. */
static void columns_beside_a_thin_a(void) {
  const struct tb_call thin = {.m = 74, .n = 60000, .k = 1024, .alpha = {1}, .a.ld = 74, .b.ld = 1024, .ldc = 74};
  const struct tb_plan plan = plan_of_copies(&thin, true, false, INT64_MAX);
  assert_true(plan.tile_m == 74 && plan.tile_n == 132 * 192);
}

static void check_tile_of_copies(int64_t m, int64_t n, int64_t k, bool b_goes_up, int64_t tile_m, int64_t tile_n) {
  const struct tb_call call = {.m = m, .n = n, .k = k, .alpha = {1}, .a.ld = m, .b.ld = k, .ldc = m};
  const struct tb_plan plan = plan_of_copies(&call, false, b_goes_up, INT64_MAX);
  assert_int_equal(plan.tile_m, tile_m);
  assert_int_equal(plan.tile_n, tile_n);
}

/* Of what the GPU has kept: in one stream and by all of k at once; a launch fills an H200 where all is there, and half
 * of it where a panel of the operand that goes up completes a strip. */
static void launches_of_copies(void **state) {
  (void)state;
  check_tile_of_copies(4096, 4096, 4096, false, 4096, 768); /* those that were measured */
  check_tile_of_copies(8192, 8192, 8192, false, 4096, 768);
  check_tile_of_copies(16384, 16384, 16384, false, 4096, 1536); /* two rounds of a launch, so that there are not more */
  check_tile_of_copies(11008, 512, 4096, false, 3712, 512);
  check_tile_of_copies(4096, 4096, 4096, true, 4096, 384);
  check_tile_of_copies(8192, 8192, 8192, true, 8192, 384);
  check_tile_of_copies(16384, 16384, 16384, true, 16384, 1152);
  check_tile_of_copies(11008, 512, 4096, true, 11008, 192);
  check_tile_of_copies(60000, 74, 1024, true, 16896, 74);
  columns_beside_a_thin_a();
  columns_within_slots();
  uint64_t rng = 11;
  for (int i = 0; i < 20000; i++) {
    struct tb_call call = random_call(&rng);
    const int up = (int)tst_random_below(&rng, 3); /* nothing, A, B */
    call.k = tst_random_below(&rng, 2) ? call.k : 40000;
    struct tb_plan p = plan_of_copies(&call, up == 1, up == 2, INT64_MAX);
    if (p.block_m < call.m || p.block_n < call.n) continue; /* beyond what one block may have */
    const int64_t tiles = tb_emulated_tiles(p.tile_m, p.tile_n);
    assert_true(p.streams == 1 && p.slice_k == call.k && !p.strips);
    if (p.tile_m < call.m || p.tile_n < call.n) assert_true(tiles >= 32 || p.tile_m > tb_slot_elems(TB_S) / 2);
    /* Several panels of what goes up have all of the other side each. */
    if (up == 1 && p.tile_m < call.m) assert_int_equal(p.tile_n, call.n);
    if (up == 2 && p.tile_n < call.n) assert_true(p.tile_m == call.m || call.m > tb_slot_elems(TB_S));
  }
  /* With less memory it is cut as ever. */
  const struct tb_call large = {
      .m = 16384, .n = 16384, .k = 16384, .alpha = {1}, .a.ld = 16384, .b.ld = 16384, .ldc = 16384};
  assert_true(plan_of_copies(&large, false, false, (int64_t)2 << 30).block_m < large.m);
}

/* Where there is no memory for strips, of which the streams want more, there may be for squares of the whole product.
 */
static void squares_where_strips_do_not_fit(void **state) {
  (void)state;
  const struct tb_call call = {.m = 3000, .n = 3000, .k = 3000, .alpha = {1}};
  struct tb_ways passed = staged;
  passed.passed = true;
  struct tb_plan in_strips, in_squares, plan;
  assert_true(tb_plan_make_emulated(&in_strips, &call, staged, &unsplit, INT64_MAX));
  assert_true(tb_plan_make_emulated(&in_squares, &call, passed, &unsplit, INT64_MAX));
  assert_true(in_strips.tile_m == 3000 && in_squares.tile_m == 1024);
  assert_true(in_squares.arena_bytes < in_strips.arena_bytes);
  assert_true(tb_plan_make_emulated(&plan, &call, staged, &unsplit, in_strips.arena_bytes - 1));
  assert_true(plan.tile_m == 1024 && plan.block_m == 3000 && plan.block_n == 3000 && plan.chunk_k == 3000);
}

/* With less memory: cuts by which B goes up twice at most, four times with a third of what it all takes; none where the
 * other kernels are sooner. */
static void less_memory_for_the_tensor_cores(void **state) {
  (void)state;
  const struct tb_call call = {.m = 16384, .n = 16384, .k = 16384, .alpha = {1}};
  const int64_t gib = (int64_t)1 << 30;
  struct tb_plan whole, plan;
  assert_true(tb_plan_make_emulated(&whole, &call, staged, &unsplit, INT64_MAX));
  for (int64_t budget = 2 * gib; budget < whole.arena_bytes; budget += gib) {
    assert_true(tb_plan_make_emulated(&plan, &call, staged, &unsplit, budget));
    assert_true(plan.arena_bytes <= budget && plan.block_m >= (budget == 2 * gib ? call.m / 4 : call.m / 2));
  }
  assert_false(tb_plan_make_emulated(&plan, &call, staged, &unsplit, gib) && tb_plan_emulated_pays(&plan, &call));
  /* In chunks of a span a quarter of C finds room where none would. */
  const struct tb_emulated_way spans = {.splits = 1, .span_k = tb_emulated_span_k(call.m, call.n, call.k)};
  assert_true(tb_plan_make_emulated(&plan, &call, staged, &spans, gib) && tb_plan_emulated_pays(&plan, &call));
  assert_true(plan.block_m >= call.m / 2 && plan.block_n >= call.n / 2 && plan.chunk_k == spans.span_k);
  assert_true(plan.a_kept_bytes > 0 && plan.streams == 1); /* which need not go up again for the row's other block */
}

static bool is_same_plan(const struct tb_plan *p, const struct tb_plan *q) {
  return p->block_m == q->block_m && p->block_n == q->block_n && p->chunk_k == q->chunk_k && p->slice_k == q->slice_k &&
         p->tile_m == q->tile_m && p->tile_n == q->tile_n && p->strips == q->strips && p->streams == q->streams &&
         p->a_kept_bytes == q->a_kept_bytes && p->arena_bytes == q->arena_bytes;
}

/* The link's rate decides about sizes, slices and streams, and a measured one that is near the named one about nothing.
 * What the bits depend on is the same for every rate: whether there is a plan, groups and spans, what is hidden. */
static void links_decide_about_no_bits(void **state) {
  (void)state;
  uint64_t rng = 8;
  int others[LINKS] = {0}, emulated_others[LINKS] = {0};
  for (int i = 0; i < 1000; i++) {
    const struct tb_call call = transposing(i % 2 ? "NN" : "TN", 1 + tst_random_below(&rng, 9000),
                                            1 + tst_random_below(&rng, 9000), 1 + tst_random_below(&rng, 20000));
    const struct tb_emulated_way way = {.splits = 1, .span_k = tb_emulated_span_k(call.m, call.n, call.k)};
    const int64_t budget = i % 3 ? INT64_MAX : tst_random_below(&rng, (int64_t)1 << 31);
    struct tb_plan named, emulated, p;
    const bool there = tb_plan_make(&named, &call, staged, budget);
    const bool emulated_there = tb_plan_make_emulated(&emulated, &call, staged, &way, budget);
    for (int l = 0; l < LINKS; l++) {
      struct tb_ways ways = staged;
      ways.link_bytes_per_s = links[l];
      assert_true(tb_plan_is_hidden(&call, ways) == tb_plan_is_hidden(&call, staged));
      assert_true(tb_plan_make(&p, &call, ways, budget) == there);
      if (there) assert_true(p.group_k == named.group_k && p.cut_k == named.cut_k);
      if (there) others[l] += !is_same_plan(&p, &named);
      assert_true(tb_plan_make_emulated(&p, &call, ways, &way, budget) == emulated_there);
      if (emulated_there) assert_true(p.span_k == emulated.span_k && p.way.fast == emulated.way.fast);
      if (emulated_there) emulated_others[l] += !is_same_plan(&p, &emulated);
    }
  }
  assert_true(others[0] + others[1] + emulated_others[0] + emulated_others[1] == 0);
  for (int l = 2; l < LINKS; l++) assert_true(others[l] > 0 && emulated_others[l] > 0);
}

/* All of a short k and of a small C; else equal parts of about the same length, of whole groups. */
static void spans_of_k(void **state) {
  (void)state;
  assert_int_equal(tb_emulated_span_k(100000, 100000, 8192), 8192);
  assert_int_equal(tb_emulated_span_k(1024, 1024, 100000), 100000);
  for (int64_t k = 8193; k < 40000; k += 97) {
    const int64_t span_k = tb_emulated_span_k(16384, 16384, k), spans = tb_ceil_div(k, span_k);
    assert_true(span_k % TB_EMULATED_GROUP_K == 0 && span_k <= TB_EMULATED_SPAN_K && span_k > TB_EMULATED_SPAN_K / 2);
    assert_true(k - (spans - 1) * span_k > span_k - spans * TB_EMULATED_GROUP_K);
  }
}

/* As a slot is 2 MiB, and the least tiles are 512 x 512. */
/* In GPU memory a side may have more elements than the kernels count. */
static void sides_beyond_the_kernels(void **state) {
  (void)state;
  const struct tb_ways in_place = {TB_IN_PLACE, TB_IN_PLACE, TB_IN_PLACE, false, 0, TB_MAY_BE_KEPT};
  const int64_t beyond = ((int64_t)1 << 31) + 7, most = ((int64_t)1 << 31) - 1024;
  for (int side = 0; side < 3 * TB_TYPE_COUNT; side++) {
    struct tb_call call = {.type = (enum tb_type)(side / 3), .m = 2, .n = 3, .k = 5};
    *(side % 3 == 0 ? &call.m : side % 3 == 1 ? &call.n : &call.k) = beyond;
    call.alpha = tb_scalar_of(call.type, 1);
    call.a = (struct tb_view){.ld = call.m, .type = call.type},
    call.b = (struct tb_view){.ld = call.k, .type = call.type};
    call.ldc = call.m;
    struct tb_plan plan;
    assert_true(tb_plan_make(&plan, &call, in_place, INT64_MAX));
    const int parts = tb_kernel_parts(call.type);
    assert_true(parts * plan.block_m <= most && plan.block_n <= most && parts * plan.chunk_k <= most);
    assert_true(plan.block_n % TB_EMULATED_TILE_N == 0 || plan.block_n == call.n);
  }
}

static void what_fits_into_a_slot(void **state) {
  (void)state;
  const struct tb_ways in_place = {TB_IN_PLACE, TB_STAGED, TB_STAGED, false, 0, TB_MAY_BE_KEPT};
  struct tb_call call = {.m = 512, .n = 512, .k = 512, .alpha = {1}};
  assert_true(tb_plan_fits_one_slot(&call, staged));
  assert_false(tb_plan_fits_one_slot(&call, in_place));
  call.k = 513;
  assert_false(tb_plan_fits_one_slot(&call, staged));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_shape_any_budget),
      cmocka_unit_test(in_place_takes_no_room),
      cmocka_unit_test(ways_by_place),
      cmocka_unit_test(more_memory_larger_pieces),
      cmocka_unit_test(links_decide_about_no_bits),
      cmocka_unit_test(room_for_a_split_of_k),
      cmocka_unit_test(room_for_a_last_round),
      cmocka_unit_test(squares),
      cmocka_unit_test(squares_of_mirrored_operands),
      cmocka_unit_test(strips_beside_squares),
      cmocka_unit_test(strips),
      cmocka_unit_test(spans_of_k),
      cmocka_unit_test(two_slices_of_large_products),
      cmocka_unit_test(slices_of_triangles),
      cmocka_unit_test(any_shape_for_the_tensor_cores),
      cmocka_unit_test(squares_for_the_tensor_cores),
      cmocka_unit_test(launches_of_copies),
      cmocka_unit_test(leading_dimensions),
      cmocka_unit_test(slices_beside_copies),
      cmocka_unit_test(squares_where_strips_do_not_fit),
      cmocka_unit_test(less_memory_for_the_tensor_cores),
      cmocka_unit_test(sides_beyond_the_kernels),
      cmocka_unit_test(what_fits_into_a_slot),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
