/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pieces by which a triangle of C goes through the slots, in the library's own plans. What goes up takes an entry
 * of the ring for each copy, and none for a panel that another one is already. What comes down comes in pieces as large
 * as there is room for, but in the end: there each is half of what is left, of the tiles that come down and no others.
 * How one upload is cut is test_staging.c's.
 *
 * Seen to fail when: each twin has an entry, and so slots, of its own; one of several that follow each other has none;
 * what is to come down is taken for the triangle's elements, so that much of it comes in the smallest pieces, for all
 * of C, so that the last pieces are large, or for one block's; all launches of a panel are enqueued at once; a large
 * call's tiles come down as they were launched, or a small one's as the GPU ends them; whether operands are
 * those that stay is asked when a tile is done; pages are had first.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/options.h"
#include "fake.h"
#include "offload/part.h"
#include "pipeline/pipeline_internal.h"

#define COPYING_THREADS 2
#define MOST_COPIES 400
/* As down.c has it. */
#define LAST_PIECE_BYTES ((int64_t)256 << 10)

static const struct tst_fake *fake;
static struct tb_device gpu;
static struct tb_part part;
static struct tb_pool *pool;

/* ---- what comes down ---- */

static __typeof__(tb_cuda.cuMemcpyDtoHAsync) driver_copies;
static struct {
  int count;
  int64_t bytes[MOST_COPIES];
} down;

/* Kernels since the latest copy down, and the most that there were between two. */
static __typeof__(tb_cuda.cuLaunchKernel) driver_launches;
static int launches, launches_most;
static bool launches_nothing; /* what is computed does not count */
static bool doubts;           /* whether operands are what is kept is to be asked, from the next launch on */

static CUresult CUDAAPI launch_and_count(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned block_x,
                                         unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream,
                                         void **parameters, void **extra) {
  if (++launches > launches_most) launches_most = launches;
  if (doubts) part.keep.doubt = TB_NOT_ASKED;
  doubts = false;
  if (launches_nothing) return CUDA_SUCCESS;
  return driver_launches(function, x, y, z, block_x, block_y, block_z, shared_bytes, stream, parameters, extra);
}

static CUresult CUDAAPI copy_and_count(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  launches = 0;
  assert_true(down.count < MOST_COPIES);
  down.bytes[down.count++] = (int64_t)bytes;
  return driver_copies(to, from, bytes, stream);
}

/* Tiles of which the GPU has been asked whether they are done; and one that it ends last, or NO_TILE. */
#define NO_TILE (-1)
static __typeof__(tb_cuda.cuEventQuery) driver_answers;
static int64_t last_tile = NO_TILE;
static int asked_for_tiles, asked_in_doubt;

static int64_t tile_of(CUevent event) {
  for (int64_t i = 0; i < TB_TILES_MAX * TB_TILES_MAX; i++)
    if (event != NULL && gpu.tile_done[i] == event) return i;
  return NO_TILE;
}

static CUresult CUDAAPI answer(CUevent event) {
  const int64_t tile = tile_of(event);
  asked_for_tiles += tile != NO_TILE;
  asked_in_doubt += tile != NO_TILE && part.keep.doubt == TB_NOT_ASKED;
  if (tile != NO_TILE && tile == last_tile) {
    const struct tb_layout *const l = &gpu.pipeline->down.layout;
    if (gpu.pipeline->down.fetched < l->rows * l->columns - 1) return CUDA_ERROR_NOT_READY;
  }
  return driver_answers(event);
}

/* Pieces that had been begun when the pages of C were asked for first; -1: they were not. */
static struct {
  const char *c;
  int64_t bytes;
  int begun;
} asked_pages;

int mincore(void *address, size_t bytes, unsigned char *there) {
  const int64_t at = (const char *)address - asked_pages.c;
  if (at >= 0 && at < asked_pages.bytes && asked_pages.begun < 0) asked_pages.begun = (int)gpu.pipeline->up.begun;
  return (int)syscall(SYS_mincore, address, bytes, there);
}

static int open_gpu(void **state) {
  (void)state;
  char detail[200];
  int count;
  assert_int_equal(tb_device_count(&count, detail, sizeof detail), TB_STATUS_ok);
  assert_int_equal(tb_device_open(&gpu, 0, false, detail, sizeof detail), TB_STATUS_ok);
  gpu.pool = pool = tb_pool_open(COPYING_THREADS, true);
  driver_copies = tb_cuda.cuMemcpyDtoHAsync;
  tb_cuda.cuMemcpyDtoHAsync = copy_and_count;
  driver_launches = tb_cuda.cuLaunchKernel;
  tb_cuda.cuLaunchKernel = launch_and_count;
  driver_answers = tb_cuda.cuEventQuery;
  tb_cuda.cuEventQuery = answer;
  return 0;
}

static int close_gpu(void **state) {
  (void)state;
  tb_cuda.cuMemcpyDtoHAsync = driver_copies;
  tb_cuda.cuLaunchKernel = driver_launches;
  tb_cuda.cuEventQuery = driver_answers;
  tb_device_close(&gpu);
  tb_pool_close(pool);
  return fake->get(FAKE_CUDA_MISUSES) == 0 ? 0 : 1;
}

/* ---- a call ---- */

/* C = A A^T, of zeros; all of C, or a triangle. */
static struct tb_call syrk(enum tb_type type, enum tb_region_of of, int64_t n, int64_t k) {
  void *const a = calloc((size_t)(n * k), (size_t)tb_type_bytes(type));
  void *const c = calloc((size_t)(n * n), (size_t)tb_type_bytes(type));
  assert_true(a != NULL && c != NULL);
  return (struct tb_call){.type = type,
                          .m = n,
                          .n = n,
                          .k = k,
                          .alpha = tb_scalar_of(type, 1),
                          .a = {.data = a, .ld = n, .type = type},
                          .b = {.data = a, .ld = n, .transposed = true, .type = type},
                          .c = c,
                          .ldc = n,
                          .region = {.of = of}};
}

static void run(const struct tb_call *call, bool emulated) {
  const struct tb_ways ways = tb_part_ways(call, NULL);
  const struct tb_choice whole = emulated ? (struct tb_choice){.family = TB_FAMILY_EMULATED, .emulated = {.splits = 1}}
                                          : (struct tb_choice){.family = TB_FAMILY_NONE};
  down.count = launches = launches_most = 0;
  tb_part_run(&part, &gpu, call, ways, &whole, true, NULL);
  if (part.why != TB_STATUS_ok) fail_msg("%s", part.failure);
  assert_int_equal(part.plan.emulated, emulated);
}

static void destroy(const struct tb_call *call) {
  free((void *)call->a.data);
  free(call->c);
}

/* ---- up ---- */

/* By slices, of which the last panel's twin has two that follow each other, and by whole panels. */
static void twins_have_no_entry(void **state) {
  (void)state;
  static const struct {
    enum tb_type type;
    int64_t n, k;
    int slices;
    bool emulated;
  } shapes[] = {{TB_S, 1100, 700, 2, false}, {TB_D, 1700, 40, 1, false}, {TB_C, 1100, 32, 1, true}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const struct tb_call call = syrk(shapes[i].type, TB_LOWER_TRIANGLE, shapes[i].n, shapes[i].k);
    const uint64_t before = fake->calls("cuMemcpyHtoDAsync");
    run(&call, shapes[i].emulated);
    const struct tb_up *const up = &gpu.pipeline->up;
    const int64_t panels = tb_ceil_div(call.m, part.plan.tile_m);
    assert_true(part.plan.twins && panels > 1);
    assert_int_equal(tb_ceil_div(call.k, part.plan.slice_k), shapes[i].slices);
    assert_int_equal(up->begun, fake->calls("cuMemcpyHtoDAsync") - before);
    assert_true(up->begun == up->sent && (int64_t)up->begun >= panels * shapes[i].slices);
    assert_int_equal(up->computed_steps, 2 * panels * shapes[i].slices);
    destroy(&call);
  }
}

/* ---- down ---- */

static int64_t tiles_of(const struct tb_call *call, const struct tb_plan *plan) {
  struct tb_layout l = {.call = call, .plan = plan};
  int64_t tiles = 0;
  for (int64_t block = 0; block < tb_layout_blocks(call, plan); block++) {
    tb_layout_enter(&l, block);
    for (int64_t tile = 0; tile < l.rows * l.columns; tile++) tiles += !tb_layout_misses(&l, tile);
  }
  return tiles;
}

/* Each piece is at most as large as it may be; and less than that by a column, or by more at the end of a tile, or, of
 * a tile's even pieces, by half. */
static void expect_down(const struct tb_call *call, int64_t tiles) {
  const int64_t whole = tb_ring_piece_bytes(&gpu.down_ring), column = part.plan.tile_m * tb_call_bytes(call);
  int64_t rest = 0, shorter = 0;
  for (int i = 0; i < down.count; i++) rest += down.bytes[i];
  for (int i = 0; i < down.count; i++) {
    const int64_t most = tb_min(whole, tb_max(LAST_PIECE_BYTES, rest / 2));
    if (down.bytes[i] > most) fail_msg("piece %d of %ld bytes, not %ld", i, (long)down.bytes[i], (long)most);
    shorter += down.bytes[i] + column <= (most == whole ? whole / 2 : most);
    rest -= down.bytes[i];
  }
  if (shorter > tiles) fail_msg("%ld pieces of %ld tiles are shorter than need be", (long)shorter, (long)tiles);
  assert_int_equal(gpu.pipeline->down.rest_bytes, 0);
}

/* Sides of whole lines, so that nothing comes down but C: of small calls, of one in several blocks, and of a large one.
 */
static void last_pieces_are_small(void **state) {
  (void)state;
  static const struct {
    enum tb_type type;
    enum tb_region_of of;
    int64_t n, k, memory, tiles;
  } shapes[] = {{TB_S, TB_WHOLE, 1664, 20, 0, 9},
                {TB_S, TB_LOWER_TRIANGLE, 1664, 20, 0, 6},
                {TB_D, TB_UPPER_TRIANGLE, 1664, 20, 0, 6},
                {TB_D, TB_LOWER_TRIANGLE, 1664, 20, 6000000, 0},
                {TB_D, TB_LOWER_TRIANGLE, 4096, 4, 0, 10}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const struct tb_call call = syrk(shapes[i].type, shapes[i].of, shapes[i].n, shapes[i].k);
    atomic_store(&tb_option_numbers[TB_OPTION_memory_limit], shapes[i].memory);
    run(&call, false);
    atomic_store(&tb_option_numbers[TB_OPTION_memory_limit], 0);
    const int64_t tiles = tiles_of(&call, &part.plan);
    if (shapes[i].memory == 0) assert_int_equal(tiles, shapes[i].tiles);
    if (shapes[i].memory > 0) assert_true(tb_layout_blocks(&call, &part.plan) > 2);
    expect_down(&call, tiles);
    destroy(&call);
  }
  assert_int_equal(gpu.down_ring.piece_slots, TB_PIECE_SLOTS);
}

/* The last panel is what three tiles have waited for. Each is a launch, and is asked for when it is enqueued, before
 * the next one is. */
static void launches_are_one_a_turn(void **state) {
  (void)state;
  const struct tb_call call = syrk(TB_D, TB_LOWER_TRIANGLE, 1664, 20);
  run(&call, false);
  assert_int_equal(tiles_of(&call, &part.plan), 6);
  assert_int_equal(launches_most, 1);
  destroy(&call);
}

/* Each of 3 x 3 tiles once; the one that the GPU ends last, wherever it was launched, behind all others. */
static void large_calls_fetch_what_is_done(void **state) {
  (void)state;
  const struct tb_call call = syrk(TB_D, TB_WHOLE, 2304, 1024);
  launches_nothing = true;
  for (last_tile = NO_TILE; last_tile < 9; last_tile++) {
    asked_for_tiles = asked_in_doubt = 0;
    doubts = true; /* the kernel is asked while the GPU computes, and not when it has */
    run(&call, false);
    assert_true(asked_for_tiles >= 9 && asked_in_doubt == 0);
    const struct tb_down *const fetched = &gpu.pipeline->down;
    int seen = 0;
    assert_true(gpu.pipeline->is_large && fetched->layout.rows == 3 && fetched->layout.columns == 3);
    for (int i = 0; i < 9; i++) seen |= 1 << fetched->order[i];
    assert_int_equal(seen, (1 << 9) - 1);
    if (last_tile != NO_TILE) assert_int_equal(fetched->order[8], last_tile);
  }
  last_tile = NO_TILE;
  launches_nothing = false;
  destroy(&call);
}

/* Their copies are ordered behind launches that are not over. */
static void small_calls_do_not_ask(void **state) {
  (void)state;
  const struct tb_call call = syrk(TB_D, TB_WHOLE, 1664, 20);
  asked_for_tiles = 0;
  run(&call, false);
  assert_false(gpu.pipeline->is_large);
  assert_true(tiles_of(&call, &part.plan) > 1);
  assert_int_equal(asked_for_tiles, 0);
  destroy(&call);
}

/* A thread that has a huge page comes late to what is to go up. */
static void pages_are_had_behind_pieces(void **state) {
  (void)state;
  const struct tb_call call = syrk(TB_D, TB_WHOLE, 1664, 20);
  run(&call, false);
  asked_pages.c = call.c, asked_pages.bytes = call.m * call.n * tb_call_bytes(&call), asked_pages.begun = -1;
  run(&call, false);
  asked_pages.bytes = 0;
  assert_true(asked_pages.begun > 0);
  destroy(&call);
}

int main(void) {
  fake = tst_fake();
  if (fake == NULL) return 77;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(twins_have_no_entry),     cmocka_unit_test(last_pieces_are_small),
      cmocka_unit_test(launches_are_one_a_turn), cmocka_unit_test(large_calls_fetch_what_is_done),
      cmocka_unit_test(small_calls_do_not_ask),  cmocka_unit_test(pages_are_had_behind_pieces)};
  return cmocka_run_group_tests(tests, open_gpu, close_gpu);
}
