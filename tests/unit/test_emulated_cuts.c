/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products on the tensor cores, in panels, that are cut: for too little memory into blocks of C and parts of k, between
 * two GPUs, and by failures, after which the GPU and plain loops have computed them together. The bits do not depend on
 * how C is cut, even where tiles are computed in different ways.
 *
 * Seen to fail when: the tiles of a block are replaced while they come down; the packed panels of a block stay for the
 * next, whose panels are others; panels that are kept are replaced by another chunk's, or taken for packed, or packed
 * where launches still read; tiles start elsewhere than the tensor cores' own. That streams do not share a workspace is
 * seen in test_schedule.c and test_waits.c: this driver runs one kernel after another.
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
#include "emulated_panels.h"

/* Streams of a device's context, behind the default one, that upload and pack (device.c): as bits of an order. */
#define EARLY_PANELS (1u << 1 | 1u << 3)

/* ---- too little memory ---- */

/* Less than a whole C takes: blocks of it, one side's panels packed once for all; and less still: other kernels. */
static void blocks_of_c(void **state) {
  (void)state;
  fake->set_order(FAKE_CUDA_RANDOM, 1);
  for (int by_rows = 0; by_rows < 2; by_rows++) {
    struct product p = by_rows ? make(0, 4099, 600, 10, 2, WHOLE) : make(3, 600, 4099, 10, 2, WHOLE);
    const struct tb_emulated_way way = {.splits = 1};
    struct tb_plan plan;
    assert_true(tb_plan_make_emulated(&plan, &p.call, staged, &way, INT64_MAX));
    const int64_t of_other_streams = plan.streams > 2 ? (plan.streams - 2) * plan.workspace_bytes : 0;
    atomic_store(&tb_option_numbers[TB_OPTION_memory_limit], plan.arena_bytes - of_other_streams - 1);
    run(0, &p.call, staged, 1, NULL);
    expect_emulated(0);
    assert_int_equal(tb_layout_blocks(&p.call, &part[0].plan), 2);
    expect_right(&p);
    memcpy(p.c, p.before, (size_t)(p.call.ldc * p.call.n) * sizeof *p.c);
    atomic_store(&tb_option_numbers[TB_OPTION_memory_limit], 1 << 20);
    run(0, &p.call, staged, 1, NULL);
    assert_int_equal(part[0].why, TB_STATUS_ok);
    assert_false(part[0].plan.emulated);
    expect_right(&p);
    atomic_store(&tb_option_numbers[TB_OPTION_memory_limit], 0);
    destroy(&p);
  }
}

/* ---- the same bits ---- */

static void expect_bits(const struct product *p, const float *c) {
  const size_t words = (size_t)(p->call.ldc * p->call.n);
  for (size_t i = 0; i < words; i++)
    if (memcmp(&p->c[i], &c[i], sizeof *c) != 0)
      fail_msg("C(%zu, %zu)", i % (size_t)p->call.ldc, i / (size_t)p->call.ldc);
}

struct member {
  struct tb_exchange *exchange;
  struct tb_call call;
  int number;
};

static void *drive(void *argument) {
  const struct member *m = argument;
  struct tb_pass pass = tb_pass_of(m->exchange, m->number, &gpu[m->number], TB_OPERAND_A);
  struct tb_ways ways = staged;
  ways.passed = true;
  run(m->number, &m->call, ways, 1, &pass);
  return NULL;
}

static void run_on_two(const struct tb_call *call, int64_t columns) {
  struct tb_exchange exchange;
  struct member member[GPUS];
  pthread_t thread[GPUS];
  tb_exchange_open(&exchange, GPUS, true);
  for (int i = 0; i < GPUS; i++) {
    const int64_t begin = i * columns, width = i == GPUS - 1 ? call->n - begin : columns;
    member[i] = (struct member){&exchange, tb_call_part(call, 0, call->m, begin, width), i};
    assert_int_equal(pthread_create(&thread[i], NULL, drive, &member[i]), 0);
  }
  for (int i = 0; i < GPUS; i++) pthread_join(thread[i], NULL);
  tb_exchange_close(&exchange);
}

/* All at once, in place; in tiles of panels; by two GPUs, of which each fetches the other's panel of A. */
static void check_bits(int64_t m, int64_t n, int64_t k, int64_t columns) {
  const struct tb_ways in_place = {TB_IN_PLACE, TB_IN_PLACE, TB_IN_PLACE, false, 0, TB_MAY_BE_KEPT};
  fake->set_order(FAKE_CUDA_RANDOM, 2);
  struct product whole = make(0, m, n, k, 0.5f, GRADED), p = make(0, m, n, k, 0.5f, GRADED);
  compute_in_place(&whole, in_place);
  run(0, &p.call, staged, 1, NULL);
  expect_emulated(0);
  expect_bits(&p, whole.c);
  memcpy(p.c, p.before, (size_t)(p.call.ldc * p.call.n) * sizeof *p.c);
  const uint64_t before = fake->calls("cuMemcpyPeerAsync");
  run_on_two(&p.call, columns);
  expect_emulated(0), expect_emulated(1);
  assert_int_equal(fake->calls("cuMemcpyPeerAsync") - before, 2);
  expect_bits(&p, whole.c);
  destroy(&p), destroy(&whole);
}

static void the_bits_of_any_cut(void **state) {
  (void)state;
  check_bits(517, 579, 40, (int64_t)2 * TB_EMULATED_TILE_N);
  span_k = SPAN_K;
  check_bits(517, 200, span_k + 40, TB_EMULATED_TILE_N);
  span_k = 0;
}

/* C in two blocks, and k in chunks; of such plans the first, which has the most memory, or the first by which A's
 * panels of the first chunk stay for the second block. */
static int64_t memory_for_blocks(const struct product *p, bool keeps_a) {
  const struct tb_emulated_way way = {.splits = 1, .span_k = span_k};
  struct tb_plan plan = {.arena_bytes = INT64_MAX};
  do assert_true(tb_plan_make_emulated(&plan, &p->call, staged, &way, plan.arena_bytes - 1));
  while (plan.block_n == p->call.n || plan.chunk_k == p->call.k || (keeps_a && plan.a_kept_bytes == 0));
  return plan.arena_bytes;
}

static void run_in_blocks(const struct product *p, bool keeps_a) {
  atomic_store(&tb_option_numbers[TB_OPTION_memory_limit], memory_for_blocks(p, keeps_a));
  run(0, &p->call, staged, 1, NULL);
  atomic_store(&tb_option_numbers[TB_OPTION_memory_limit], 0);
  expect_emulated(0);
  const int64_t m = p->call.m, n = p->call.n, k = p->call.k, kept = keeps_a ? part[0].plan.chunk_k : 0;
  assert_true(part[0].plan.chunk_k < k && (part[0].plan.a_kept_bytes > 0) == keeps_a);
  assert_int_equal(tb_layout_blocks(&p->call, &part[0].plan), 2);
  assert_true(part[0].progress.up_bytes == 4.0 * (double)(n * k + m * k + m * (k - kept)));
}

/* Both operands' panels of the next block go up while launches of this one are still to run, some of which read them as
 * they came; two chunks, and three, so that either operand is the first of a block to go up. */
static void blocks_that_go_up_ahead(void **state) {
  (void)state;
  span_k = SPAN_K;
  struct product p = make(0, 100, 2400, span_k + 16, 1, GRADED), whole = make(0, 100, 2400, span_k + 16, 1, GRADED);
  fake->set_order(FAKE_CUDA_RANDOM, 4);
  run(0, &whole.call, staged, 1, NULL);
  run_in_blocks(&p, true);
  expect_bits(&p, whole.c);
#ifndef __SANITIZE_ADDRESS__ /* the others are about their order, and take a minute there */
  memcpy(p.c, p.before, (size_t)(p.call.ldc * p.call.n) * sizeof *p.c);
  run_in_blocks(&p, false);
  expect_bits(&p, whole.c);
#endif
  destroy(&p), destroy(&whole);
#ifndef __SANITIZE_ADDRESS__
  p = make(1, 100, 2400, 2 * span_k + 16, 1, WHOLE);
  fake->set_order(FAKE_CUDA_UNEVEN, EARLY_PANELS);
  run_in_blocks(&p, true);
  expect_right(&p);
  destroy(&p);
#endif
  span_k = 0;
}

/* ---- failures ---- */

/* What the GPU left, by plain loops. */
static void finish(const struct product *p) {
  struct tb_call rest;
  while (tb_part_take_rest(&part[0], &p->call, &rest))
    for (int64_t j = 0; j < rest.n; j++)
      for (int64_t i = 0; i < rest.m; i++) {
        float *c = tb_call_c(&rest, i, j);
        *c = element(&rest, *c, i, j);
      }
}

/* Each call of a function fails in its turn, or what it enqueued does. */
static int fail_each(const char *function, unsigned flags) {
  struct product p = make(2, 515, 9, 4, 3, WHOLE);
  const size_t bytes = (size_t)(p.call.ldc * p.call.n) * sizeof *p.c;
  int failures = 0;
  for (unsigned long nth = 1;; nth++) {
    memcpy(p.c, p.before, bytes);
    assert_int_equal(fake->inject(function, nth, 719, flags), 0);
    run(0, &p.call, staged, 1, NULL);
    fake->clear_failures();
    const bool failed = part[0].why != TB_STATUS_ok;
    finish(&p);
    expect_right(&p);
    if (!failed) break; /* it is called no more often */
    failures++;
    if (flags == 0) continue;
    tb_device_close(&gpu[0]);
    open_gpu(0);
  }
  destroy(&p);
  return failures;
}

static void a_call_that_fails(void **state) {
  (void)state;
  fake->set_order(FAKE_CUDA_RANDOM, 5);
  check(2, 515, 9, 4, 3, 1); /* events that are made when first needed are there */
  /* Three panels are packed, and a tile takes four launches or more. */
  assert_true(fail_each("cuLaunchKernel", 0) + fail_each("cuLaunchKernelEx", 0) >= 3 + 2 * 4);
  assert_true(fail_each("cuStreamWaitEvent", 0) >= 3 + 2 + 2);
  assert_true(fail_each("cuEventRecord", 0) >= 3 + 3 + 2);
  const int launches = fail_each("cuLaunchKernel", FAKE_CUDA_ASYNC) + fail_each("cuLaunchKernelEx", FAKE_CUDA_ASYNC);
  assert_true(launches >= 3 + 2 * 4);
}

/* A plan in blocks by which A's panels stay: a failure in its first block, in its second, and of what was enqueued. */
static void a_call_in_blocks_that_fails(void **state) {
  (void)state;
  static const struct {
    const char *function;
    unsigned long nth;
    unsigned flags;
  } failures[] = {{"cuMemcpyHtoDAsync", 2, 0}, {"cuStreamWaitEvent", 24, 0}, {"cuMemcpyDtoHAsync", 3, FAKE_CUDA_ASYNC}};
  span_k = SPAN_K;
  fake->set_order(FAKE_CUDA_RANDOM, 6);
  struct product p = make(0, 3, 2400, span_k + 16, 2, WHOLE);
  const size_t bytes = (size_t)(p.call.ldc * p.call.n) * sizeof *p.c;
  const int64_t limit = memory_for_blocks(&p, true);
  bool later = false;
  for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
    memcpy(p.c, p.before, bytes);
    assert_int_equal(fake->inject(failures[i].function, failures[i].nth, 719, failures[i].flags), 0);
    atomic_store(&tb_option_numbers[TB_OPTION_memory_limit], limit);
    run(0, &p.call, staged, 1, NULL);
    atomic_store(&tb_option_numbers[TB_OPTION_memory_limit], 0);
    fake->clear_failures();
    assert_true(part[0].why != TB_STATUS_ok && part[0].plan.a_kept_bytes > 0);
    later = later || part[0].progress.block > 0;
    finish(&p);
    expect_right(&p);
    tb_device_close(&gpu[0]);
    open_gpu(0);
  }
  assert_true(later); /* one of them was in the second block */
  destroy(&p);
  span_k = 0;
}

int main(int argc, char **argv) {
  setenv("FAKE_CUDA_DEVICES", "2", 1);
  fake = tst_fake();
  if (fake == NULL) return 77;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks_of_c),
      cmocka_unit_test(blocks_that_go_up_ahead),
      cmocka_unit_test(the_bits_of_any_cut),
      cmocka_unit_test(a_call_that_fails),
      cmocka_unit_test(a_call_in_blocks_that_fails),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, open_all, close_all);
}
