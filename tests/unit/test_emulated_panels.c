/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products on the tensor cores whose operands come up in panels (part.h), however small: packed once, multiplied tile
 * by tile. Exact answers with whole numbers for every transpose, place of the operands, number of tiles and spans of k,
 * slices of them, also passed on between two GPUs, and for rings of slots. How C and k are cut is
 * test_emulated_cuts.c's, what waits for what test_waits.c's.
 *
 * Seen to fail when: a launch does not wait for the packing of its panels; a slice is packed in another's place; the
 * panels of a chunk are replaced while the one before is computed; tiles start elsewhere than the tensor cores' own; a
 * plan does not ask for the measured link.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/exchange.h"
#include "pipeline/pipeline.h"
#include "pipeline/widening.h"
#include "emulated_panels.h"
#include "sanitized.h"

/* ---- exact answers ---- */

/* Two by two tiles of odd sizes, one tile, and a k that is split. */
static void every_transpose(void **state) {
  (void)state;
  for (int transposes = 0; transposes < 4; transposes += TST_UNLESS_SANITIZED(1, 3)) {
    fake->set_order((enum fake_cuda_order)(transposes % 3), (uint64_t)transposes);
    check(transposes, 517, 579, 37, transposes % 2 ? 2.5f : 0, 1);
    check(transposes, 5, 3, 1 + 16 * transposes, 1, 1);
  }
  check(1, 20, 21, 1030, 2, 2);
  check(2, 20, 21, 1030, 2, 1);
}

/* One operand as a single panel, and then the other in strips. */
static void strips(void **state) {
  (void)state;
  fake->set_order(FAKE_CUDA_RANDOM, 8);
  check(0, 280, 600, 683, 2.5f, 1);
  assert_true(part[0].plan.strips && part[0].plan.tile_m == 280 && part[0].plan.tile_n == 384);
}

/* Three by three tiles: the launches of a stream follow each other. */
static void many_streams(void **state) {
  (void)state;
  fake->set_order(FAKE_CUDA_LAZY, 0);
  check(0, 1090, 1160, 5, 2.5f, 1);
  assert_true(part[0].plan.streams == TB_COMPUTE_STREAMS);
  fake->set_order(FAKE_CUDA_RANDOM, 3);
  check(3, 1090, 1160, 5, 0, 1);
}

/* Several tiles of spans; and chunks of one or two, when there is no memory for all. */
static void spans(void **state) {
  (void)state;
  const int64_t memory[] = {0, 1, 2};
  fake->set_order(FAKE_CUDA_RANDOM, 7);
  span_k = TB_EMULATED_GROUP_K;
  check(2, 515, 9, TB_EMULATED_GROUP_K + 36, 3, 1);
  span_k = SPAN_K;
  for (int i = 0; i < 3; i++) {
    struct product p = make(i, 20, 30, 2 * SPAN_K + 52, 1, WHOLE);
    const struct tb_emulated_way way = {.splits = 1, .span_k = span_k};
    struct tb_plan plan;
    assert_true(tb_plan_make_emulated(&plan, &p.call, staged, &way, INT64_MAX));
    for (int64_t cuts = 0; cuts < memory[i]; cuts++)
      assert_true(tb_plan_make_emulated(&plan, &p.call, staged, &way, plan.arena_bytes - 1));
    atomic_store(&tb_option_numbers[TB_OPTION_memory_limit], plan.arena_bytes);
    run(0, &p.call, staged, 1, NULL);
    atomic_store(&tb_option_numbers[TB_OPTION_memory_limit], 0);
    expect_emulated(0);
    assert_true(part[0].plan.chunk_k == (i == 0 ? p.call.k : i == 1 ? 2 * span_k : span_k));
    expect_right(&p);
    destroy(&p);
  }
  span_k = 0;
}

/* Panels go up while the launches of the chunk before still read the others, first all of one operand. */
static void chunks_that_overlap(void **state) {
  (void)state;
  span_k = SPAN_K;
  for (int by_rows = 0; by_rows < 2; by_rows++) {
    struct product p =
        by_rows ? make(2, 515, 9, 3 * SPAN_K + 28, 0, WHOLE) : make(1, 9, 580, 2 * SPAN_K + 52, 0, WHOLE);
    const struct tb_emulated_way way = {.splits = 1, .span_k = span_k};
    struct tb_plan plan;
    assert_true(tb_plan_make_emulated(&plan, &p.call, staged, &way, INT64_MAX));
    while (plan.chunk_k > span_k)
      assert_true(tb_plan_make_emulated(&plan, &p.call, staged, &way, plan.arena_bytes - 1));
    atomic_store(&tb_option_numbers[TB_OPTION_memory_limit], plan.arena_bytes);
    fake->set_order(FAKE_CUDA_LAZY, 0);
    run(0, &p.call, staged, 1, NULL);
    atomic_store(&tb_option_numbers[TB_OPTION_memory_limit], 0);
    expect_emulated(0);
    assert_true(part[0].plan.tile_m < 515 && part[0].plan.tile_n < 580 && part[0].plan.chunk_k == span_k);
    expect_right(&p);
    destroy(&p);
  }
  span_k = 0;
}

/* ---- slices ---- */

/* The library's own plans have slices from some 10^12 terms on (test_plan.c); these get them so. */
static struct tb_plan sliced_plan(const struct tb_call *call, int64_t slice_k) {
  const struct tb_emulated_way way = {.splits = 1, .span_k = SPAN_K};
  struct tb_plan plan;
  assert_true(tb_plan_make_emulated(&plan, call, staged, &way, INT64_MAX));
  assert_int_equal(plan.slice_k, call->k);
  plan.slice_k = slice_k;
  return plan;
}

static void run_sliced(int number, const struct tb_call *call, const struct tb_plan *plan, struct tb_pass *pass) {
  const struct tb_choice choice = {.family = TB_FAMILY_EMULATED, .emulated = {.splits = 1}};
  struct tb_progress progress = {0};
  OK(tb_device_enter(&gpu[number]));
  OK(tb_device_reserve(&gpu[number], plan->arena_bytes));
  OK(tb_pipeline_run(&gpu[number], call, plan, &choice, true, pass, NULL, &progress));
  tb_device_leave();
}

/* All panels by slices of two spans, the last of which is shorter. */
static void slices(void **state) {
  (void)state;
  for (int transposes = 1; transposes < 3; transposes++) {
    const bool by_rows = transposes % 2 == 0;
    struct product p = make(transposes, by_rows ? 515 : 9, by_rows ? 9 : 580, 3 * SPAN_K - 50, 2.5f, WHOLE);
    const struct tb_plan plan = sliced_plan(&p.call, 2 * SPAN_K);
    assert_true(by_rows ? plan.tile_m < p.call.m : plan.tile_n < p.call.n);
    fake->set_order((enum fake_cuda_order)(transposes % 3), (uint64_t)transposes);
    run_sliced(0, &p.call, &plan, NULL);
    expect_right(&p);
    destroy(&p);
  }
}

struct sliced_member {
  struct tb_exchange *exchange;
  struct tb_call call;
  int number;
  int64_t slices; /* that it says it has */
};

static void *drive_sliced(void *argument) {
  const struct sliced_member *m = argument;
  struct tb_plan plan = sliced_plan(&m->call, SPAN_K);
  struct tb_pass pass = tb_pass_of(m->exchange, m->number, &gpu[m->number], TB_OPERAND_A);
  tb_pass_join(&pass, (struct tb_panels){tb_ceil_div(m->call.m, plan.tile_m), plan.tile_m, m->slices});
  if (m->exchange->panels.slices == 1) plan.slice_k = plan.chunk_k;
  run_sliced(m->number, &m->call, &plan, &pass);
  tb_pass_leave(&pass);
  return NULL;
}

/* Slices of three panels passed on between two GPUs; and whole panels, when one of them has no slices. */
static void slices_passed_on(void **state) {
  (void)state;
  fake->set_order(FAKE_CUDA_RANDOM, 5);
  for (int64_t fewest = 1; fewest <= 2; fewest++) {
    struct product p = make(1, 1030, 14, SPAN_K + 20, 0.5f, WHOLE);
    struct tb_exchange exchange;
    struct sliced_member member[GPUS];
    pthread_t thread[GPUS];
    const uint64_t before = fake->calls("cuMemcpyPeerAsync");
    tb_exchange_open(&exchange, GPUS, true);
    for (int i = 0; i < GPUS; i++) {
      member[i] = (struct sliced_member){&exchange, tb_call_part(&p.call, 0, 1030, 7 * i, 7), i, i == 0 ? 2 : fewest};
      assert_int_equal(pthread_create(&thread[i], NULL, drive_sliced, &member[i]), 0);
    }
    for (int i = 0; i < GPUS; i++) pthread_join(thread[i], NULL);
    tb_exchange_close(&exchange);
    expect_right(&p);
    assert_int_equal(fake->calls("cuMemcpyPeerAsync") - before, 3 * fewest); /* each panel goes over once */
    destroy(&p);
  }
}

/* ---- rings ---- */

/* A ring gets the rest of its slots for large calls; without the memory for them, it goes on without. */
static void rings_that_grow(void **state) {
  (void)state;
  fake->set_order(FAKE_CUDA_RANDOM, 6);
  for (int enough = 0; enough < 2; enough++) {
    const int slots = enough ? TB_SLOTS : TB_SLOTS_FIRST;
    gpu[0].up_ring.credit_bytes = gpu[0].down_ring.credit_bytes = 1;
    if (!enough) assert_int_equal(fake->inject("cuMemHostRegister", 0, CUDA_ERROR_OUT_OF_MEMORY, 0), 0);
    check(3, 300, 2900, 8, 1, 1);
    tb_part_tidy(&gpu[0]);
    assert_true(tb_widening_settle());
    check(3, 300, 2900, 8, 1, 1);
    assert_int_equal(gpu[0].up_ring.slots, TB_SLOTS_FIRST); /* these are small */
    tb_rounds_prepare_rings(&gpu[0], TB_LARGE_BYTES, TB_LARGE_BYTES, true);
    tb_part_tidy(&gpu[0]);
    assert_true(tb_widening_settle());
    assert_true(gpu[0].up_ring.slots == TB_SLOTS_FIRST && gpu[0].down_ring.slots == TB_SLOTS_FIRST);
    check(3, 300, 2900, 8, 1, 1);
    fake->clear_failures();
    assert_true(gpu[0].up_ring.slots == slots && gpu[0].down_ring.slots == slots);
    assert_true((gpu[0].up_ring.credit_bytes < 0) == !enough && (gpu[0].down_ring.credit_bytes < 0) == !enough);
  }
  /* Nine pieces up, by FMAs: the last one's slot is of the second allocation. */
  const struct tb_choice any = {.family = TB_FAMILY_NONE};
  struct product p = make(1, 3, 2, 600000, 0, WHOLE);
  tb_part_run(&part[0], &gpu[0], &p.call, staged, &any, true, NULL);
  assert_int_equal(part[0].why, TB_STATUS_ok);
  expect_right(&p);
  destroy(&p);
}

/* A call is planned for the link that was measured last, and computes the same. */
static void planned_for_the_link(void **state) {
  (void)state;
  const struct tb_choice any = {.family = TB_FAMILY_NONE};
  const double links[] = {0, 1e9, 400e9};
  for (int i = TST_UNLESS_SANITIZED(0, 2); i < 3; i++) {
    struct product p = make(i, 300, 1100, 200, 2.5f, WHOLE);
    tb_part_set_link(links[i]);
    tb_part_run(&part[0], &gpu[0], &p.call, staged, &any, true, NULL);
    tb_part_set_link(0);
    assert_int_equal(part[0].why, TB_STATUS_ok);
    assert_true(part[0].plan.ways.link_bytes_per_s == links[i]);
    expect_right(&p);
    destroy(&p);
  }
}

/* By FMAs; how many copies go up or down. */
static int check_pieces(int64_t m, int64_t n, int64_t k, const char *copies) {
  const struct tb_choice any = {.family = TB_FAMILY_NONE};
  struct product p = make(0, m, n, k, 1, WHOLE);
  const int before = fake->calls(copies);
  tb_part_run(&part[0], &gpu[0], &p.call, staged, &any, true, NULL);
  assert_int_equal(part[0].why, TB_STATUS_ok);
  expect_right(&p);
  destroy(&p);
  return fake->calls(copies) - before;
}

/* Pieces of two slots go several times round the ring, up and down: 64 MiB in some 25 to 31, for there are small ones
 * at the beginning or the end, and what is left of each panel and tile; of one slot they would be 42. A smaller call's
 * are of one. */
static void pieces_of_two_slots(void **state) {
  (void)state;
  fake->set_order(FAKE_CUDA_RANDOM, 7);
  const int up = check_pieces(4096, 2, 4099, "cuMemcpyHtoDAsync");
  assert_int_equal(gpu[0].up_ring.piece_slots, TB_PIECE_SLOTS);
  assert_in_range(up, 16, 36);
  if (TST_SANITIZED) return; /* 16 million elements of C, in as many pieces */
  const int down = check_pieces(4099, 4096, 2, "cuMemcpyDtoHAsync");
  assert_int_equal(gpu[0].down_ring.piece_slots, TB_PIECE_SLOTS);
  assert_in_range(down, 16, 36);
  check_pieces(2048, 2, 4099, "cuMemcpyHtoDAsync");
  assert_int_equal(gpu[0].up_ring.piece_slots, 1);
}

/* ---- other places ---- */

/* Each operand and C on the device or not, two tiles in one stream. */
static void some_in_place(void **state) {
  (void)state;
  for (int places = 1; places < 8; places++) {
    const struct tb_ways ways = {places & 1 ? TB_IN_PLACE : TB_STAGED,
                                 places & 2 ? TB_IN_PLACE : TB_STAGED,
                                 places & 4 ? TB_IN_PLACE : TB_STAGED,
                                 false,
                                 0,
                                 TB_MAY_BE_KEPT};
    fake->set_order((enum fake_cuda_order)(places % 3), (uint64_t)places);
    struct product p = make(places % 4, 1413, 11, 9, places % 2 ? 2.5f : 0, WHOLE);
    compute_in_place(&p, ways);
    assert_int_equal(part[0].plan.at_once, places == 7);
    expect_right(&p);
    destroy(&p);
  }
}

int main(int argc, char **argv) {
  setenv("FAKE_CUDA_DEVICES", "2", 1);
  fake = tst_fake();
  if (fake == NULL) return 77;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_transpose),      cmocka_unit_test(strips),
      cmocka_unit_test(many_streams),         cmocka_unit_test(spans),
      cmocka_unit_test(chunks_that_overlap),  cmocka_unit_test(slices),
      cmocka_unit_test(slices_passed_on),     cmocka_unit_test(rings_that_grow),
      cmocka_unit_test(planned_for_the_link), cmocka_unit_test(pieces_of_two_slots),
      cmocka_unit_test(some_in_place),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, open_all, close_all);
}
