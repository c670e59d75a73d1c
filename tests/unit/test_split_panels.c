/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products on the tensor cores whose operands come up in panels (part.h), however small: packed once, multiplied tile
 * by tile. Exact answers with whole numbers for every transpose, place of the operands, number of tiles, blocks and
 * parts of k, and order in which the driver works; on two GPUs that pass panels on; after failures, by the GPU and
 * plain loops together. And the bits do not depend on how C is cut, even where tiles are computed in different ways.
 *
 * Seen to fail when: a launch does not wait for the packing of its panels; a slice is packed in another's place; the
 * panels of a chunk are replaced while the one before is computed, or the tiles of a block while they come down; the
 * packed panels of a block stay for the next, whose panels are others; panels that are kept are replaced by another
 * chunk's, or taken for packed, or packed where launches still read; tiles start elsewhere than the tensor cores'
 * own. That streams do not share a workspace is seen in test_schedule.c: this driver runs one kernel after another.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "options.h"
#include "part.h"
#include "pipeline.h"
#include "rng.h"

#define OK(call) assert_int_equal(call, CUDA_SUCCESS)
#define GPUS 2
/* Streams of a device's context, behind the default one, that upload and pack (device.c): as bits of an order. */
#define EARLY_PANELS (1u << 1 | 1u << 3)
#define COPYING_THREADS 2

static const struct tb_ways staged = {TB_STAGED, TB_STAGED, TB_STAGED, false};
static const struct tst_fake *fake;
static struct tb_device gpu[GPUS];
static struct tb_pool *pool[GPUS];
static struct tb_part part[GPUS];
static int64_t span_k; /* of all products; 0: they are not cut into spans */

static void open_gpu(int number) {
  char detail[200];
  assert_int_equal(tb_device_open(&gpu[number], number, detail, sizeof detail), TB_STATUS_gpu_sooner);
  gpu[number].pool = pool[number];
}

static int open_all(void **state) {
  (void)state;
  char detail[200];
  int count;
  assert_int_equal(tb_device_count(&count, detail, sizeof detail), TB_STATUS_gpu_sooner);
  assert_int_equal(count, GPUS);
  for (int i = 0; i < GPUS; i++) pool[i] = tb_pool_open(COPYING_THREADS, true), open_gpu(i);
  return 0;
}

static int close_all(void **state) {
  (void)state;
  for (int i = 0; i < GPUS; i++) tb_device_close(&gpu[i]), tb_pool_close(pool[i]);
  return fake->get(FAKE_CUDA_MISUSES) == 0 ? 0 : 1;
}

/* ---- a product ---- */

/* Whole numbers; or numbers whose sums are rounded, of which some rows and columns want more than fp16 has. */
enum values { WHOLE, GRADED };

struct product {
  struct tb_gemm call;
  enum values values;
  float *a, *b, *c, *before; /* as stored */
};

static float value_of(enum values values, uint64_t *rng, int64_t side, int64_t k) {
  if (values == WHOLE) return (float)(tst_random_below(rng, 17) - 8);
  const float x = tst_random_unit(rng) - 0.5f;
  return side % 400 != 7 ? x : k % 16 != 0 ? x * 0x1p-14f : x * 0x1p14f;
}

static float *operand(struct tb_view *x, enum values values, int64_t sides, int64_t k, bool along_k, uint64_t *rng) {
  x->ld = (along_k ? k : sides) + 3;
  float *data = malloc((size_t)(x->ld * (along_k ? sides : k)) * sizeof *data);
  assert_non_null(data);
  for (int64_t side = 0; side < sides; side++)
    for (int64_t p = 0; p < k; p++)
      data[along_k ? p + side * x->ld : side + p * x->ld] = value_of(values, rng, side, p);
  x->data = data;
  return data;
}

static struct product make(int transposes, int64_t m, int64_t n, int64_t k, float beta, enum values values) {
  struct product p = {.call = {.m = m, .n = n, .k = k, .alpha = -2, .beta = beta, .ldc = m + 1}, .values = values};
  uint64_t rng = (uint64_t)(m + n + k + transposes);
  p.call.a.transposed = transposes & 1, p.call.b.transposed = transposes >> 1;
  p.a = operand(&p.call.a, values, m, k, p.call.a.transposed, &rng);
  p.b = operand(&p.call.b, values, n, k, !p.call.b.transposed, &rng);
  const size_t words = (size_t)(p.call.ldc * n);
  p.c = malloc(words * sizeof *p.c), p.before = malloc(words * sizeof *p.before);
  assert_true(p.c != NULL && p.before != NULL);
  for (size_t i = 0; i < words; i++) p.before[i] = (float)(i % 31);
  memcpy(p.c, p.before, words * sizeof *p.c);
  p.call.c = p.c;
  return p;
}

static void destroy(struct product *p) { free(p->a), free(p->b), free(p->c), free(p->before); }

static float element(const struct tb_gemm *call, float before, int64_t i, int64_t j) {
  float sum = 0;
  for (int64_t k = 0; k < call->k; k++) sum += *tb_view_at(call->a, i, k).data * *tb_view_at(call->b, k, j).data;
  return call->alpha * sum + (call->beta == 0 ? 0 : call->beta * before);
}

/* All of C, and its padding. */
static void expect_right(const struct product *p) {
  for (int64_t j = 0; j < p->call.n; j++)
    for (int64_t i = 0; i < p->call.ldc; i++) {
      const float before = p->before[i + j * p->call.ldc], got = p->c[i + j * p->call.ldc];
      const struct tb_gemm host = {.m = p->call.m,
                                   .n = p->call.n,
                                   .k = p->call.k,
                                   .alpha = p->call.alpha,
                                   .beta = p->call.beta,
                                   .a = {p->a, p->call.a.ld, p->call.a.transposed},
                                   .b = {p->b, p->call.b.ld, p->call.b.transposed}};
      const float right = i < p->call.m ? element(&host, before, i, j) : before;
      if (!(got == right)) fail_msg("C(%ld, %ld) is %g, not %g", (long)i, (long)j, (double)got, (double)right);
    }
}

static void run(int number, const struct tb_gemm *call, struct tb_ways ways, int splits, struct tb_pass *pass) {
  const struct tb_choice whole = {
      .family = TB_FAMILY_SPLIT, .splits = splits, .unit_k = TB_SPLIT_GROUP_K, .pack_k = span_k};
  tb_part_run(&part[number], &gpu[number], call, ways, &whole, true, pass);
}

static void expect_split(int number) {
  if (part[number].why != TB_STATUS_gpu_sooner) fail_msg("%s", part[number].failure);
  assert_true(part[number].plan.split);
  assert_string_equal(part[number].kernel, "split");
}

static void check(int transposes, int64_t m, int64_t n, int64_t k, float beta, int splits) {
  struct product p = make(transposes, m, n, k, beta, WHOLE);
  run(0, &p.call, staged, splits, NULL);
  expect_split(0);
  expect_right(&p);
  destroy(&p);
}

/* ---- exact answers ---- */

/* Two by two tiles of odd sizes, one tile, and a k that is split. */
static void every_transpose(void **state) {
  (void)state;
  for (int transposes = 0; transposes < 4; transposes++) {
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
  span_k = TB_SPLIT_GROUP_K;
  check(2, 515, 9, 1060, 3, 1);
  for (int i = 0; i < 3; i++) {
    struct product p = make(i, 20, 30, 2100, 1, WHOLE);
    const struct tb_split_way way = {.splits = 1, .span_k = span_k};
    struct tb_plan plan;
    assert_true(tb_plan_make_split(&plan, &p.call, staged, &way, INT64_MAX));
    for (int64_t cuts = 0; cuts < memory[i]; cuts++)
      assert_true(tb_plan_make_split(&plan, &p.call, staged, &way, plan.arena_bytes - 1));
    atomic_store(&tb_option_numbers[TB_OPTION_memory_limit], plan.arena_bytes);
    run(0, &p.call, staged, 1, NULL);
    atomic_store(&tb_option_numbers[TB_OPTION_memory_limit], 0);
    expect_split(0);
    assert_true(part[0].plan.chunk_k == (i == 0 ? p.call.k : i == 1 ? 2 * span_k : span_k));
    expect_right(&p);
    destroy(&p);
  }
  span_k = 0;
}

/* Panels go up while the launches of the chunk before still read the others, first all of one operand. */
static void chunks_that_overlap(void **state) {
  (void)state;
  span_k = TB_SPLIT_GROUP_K;
  for (int by_rows = 0; by_rows < 2; by_rows++) {
    struct product p = by_rows ? make(2, 515, 9, 3100, 0, WHOLE) : make(1, 9, 580, 2100, 0, WHOLE);
    const struct tb_split_way way = {.splits = 1, .span_k = span_k};
    struct tb_plan plan;
    assert_true(tb_plan_make_split(&plan, &p.call, staged, &way, INT64_MAX));
    while (plan.chunk_k > span_k) assert_true(tb_plan_make_split(&plan, &p.call, staged, &way, plan.arena_bytes - 1));
    atomic_store(&tb_option_numbers[TB_OPTION_memory_limit], plan.arena_bytes);
    fake->set_order(FAKE_CUDA_LAZY, 0);
    run(0, &p.call, staged, 1, NULL);
    atomic_store(&tb_option_numbers[TB_OPTION_memory_limit], 0);
    expect_split(0);
    assert_true(part[0].plan.tile_m < 515 && part[0].plan.tile_n < 580 && part[0].plan.chunk_k == span_k);
    expect_right(&p);
    destroy(&p);
  }
  span_k = 0;
}

/* ---- slices ---- */

/* The library's own plans have slices from some 10^12 terms on (test_plan.c); these get them so. */
static struct tb_plan sliced_plan(const struct tb_gemm *call, int64_t slice_k) {
  const struct tb_split_way way = {.splits = 1, .span_k = TB_SPLIT_GROUP_K};
  struct tb_plan plan;
  assert_true(tb_plan_make_split(&plan, call, staged, &way, INT64_MAX));
  assert_int_equal(plan.slice_k, call->k);
  plan.slice_k = slice_k;
  return plan;
}

static void run_sliced(int number, const struct tb_gemm *call, const struct tb_plan *plan, struct tb_pass *pass) {
  const struct tb_choice choice = {.family = TB_FAMILY_SPLIT, .splits = 1, .unit_k = TB_SPLIT_GROUP_K};
  struct tb_progress progress = {0};
  OK(tb_device_enter(&gpu[number]));
  OK(tb_device_reserve(&gpu[number], plan->arena_bytes));
  OK(tb_pipeline_run(&gpu[number], call, plan, &choice, true, pass, &progress));
  tb_device_leave();
}

/* All panels by slices of two spans, the last of which is shorter. */
static void slices(void **state) {
  (void)state;
  for (int transposes = 1; transposes < 3; transposes++) {
    const bool by_rows = transposes % 2 == 0;
    struct product p = make(transposes, by_rows ? 515 : 9, by_rows ? 9 : 580, 3 * TB_SPLIT_GROUP_K - 50, 2.5f, WHOLE);
    const struct tb_plan plan = sliced_plan(&p.call, 2 * TB_SPLIT_GROUP_K);
    assert_true(by_rows ? plan.tile_m < p.call.m : plan.tile_n < p.call.n);
    fake->set_order((enum fake_cuda_order)(transposes % 3), (uint64_t)transposes);
    run_sliced(0, &p.call, &plan, NULL);
    expect_right(&p);
    destroy(&p);
  }
}

struct sliced_member {
  struct tb_exchange *exchange;
  struct tb_gemm call;
  int number;
  int64_t slices; /* that it says it has */
};

static void *drive_sliced(void *argument) {
  const struct sliced_member *m = argument;
  struct tb_plan plan = sliced_plan(&m->call, TB_SPLIT_GROUP_K);
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
    struct product p = make(1, 1030, 14, TB_SPLIT_GROUP_K + 20, 0.5f, WHOLE);
    struct tb_exchange exchange;
    struct sliced_member member[GPUS];
    pthread_t thread[GPUS];
    const uint64_t before = fake->calls("cuMemcpyPeerAsync");
    tb_exchange_open(&exchange, GPUS, true);
    for (int i = 0; i < GPUS; i++) {
      member[i] = (struct sliced_member){&exchange, tb_gemm_part(&p.call, 0, 1030, 7 * i, 7), i, i == 0 ? 2 : fewest};
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

/* A ring gets the rest of its slots when it has moved enough; without the memory for them, it goes on without. */
static void rings_that_grow(void **state) {
  (void)state;
  fake->set_order(FAKE_CUDA_RANDOM, 6);
  for (int enough = 0; enough < 2; enough++) {
    gpu[0].up_ring.staged_bytes = gpu[0].down_ring.staged_bytes = 1e9;
    if (!enough) assert_int_equal(fake->inject("cuMemHostAlloc", 0, CUDA_ERROR_OUT_OF_MEMORY, 0), 0);
    check(3, 300, 2900, 8, 1, 1);
    assert_int_equal(gpu[0].up_ring.slots, TB_SLOTS_FIRST); /* 1e9 are not enough */
    gpu[0].up_ring.staged_bytes = gpu[0].down_ring.staged_bytes = 1.1e9;
    check(3, 300, 2900, 8, 1, 1);
    fake->clear_failures();
    assert_int_equal(gpu[0].up_ring.slots, enough ? TB_SLOTS : TB_SLOTS_FIRST);
    assert_int_equal(gpu[0].down_ring.slots, enough ? TB_SLOTS : TB_SLOTS_FIRST);
    if (!enough) assert_true(gpu[0].up_ring.staged_bytes == 0 && gpu[0].down_ring.staged_bytes == 0);
  }
  /* Nine pieces up, by FMAs: the last one's slot is of the second allocation. */
  const struct tb_choice any = {.family = TB_FAMILY_NONE};
  struct product p = make(1, 3, 2, 600000, 0, WHOLE);
  tb_part_run(&part[0], &gpu[0], &p.call, staged, &any, true, NULL);
  assert_int_equal(part[0].why, TB_STATUS_gpu_sooner);
  expect_right(&p);
  destroy(&p);
}

/* By FMAs; how many copies go up or down. */
static int check_pieces(int64_t m, int64_t n, int64_t k, const char *copies) {
  const struct tb_choice any = {.family = TB_FAMILY_NONE};
  struct product p = make(0, m, n, k, 1, WHOLE);
  const int before = fake->calls(copies);
  tb_part_run(&part[0], &gpu[0], &p.call, staged, &any, true, NULL);
  assert_int_equal(part[0].why, TB_STATUS_gpu_sooner);
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
  const int down = check_pieces(4099, 4096, 2, "cuMemcpyDtoHAsync");
  assert_int_equal(gpu[0].down_ring.piece_slots, TB_PIECE_SLOTS);
  assert_in_range(down, 16, 36);
  check_pieces(2048, 2, 4099, "cuMemcpyHtoDAsync");
  assert_int_equal(gpu[0].up_ring.piece_slots, 1);
}

/* ---- other places ---- */

/* An operand in memory of its own on the device. */
static float *on_device(const float *from, size_t words) {
  CUdeviceptr memory;
  OK(tb_cuda.cuMemAlloc(&memory, words * sizeof *from));
  OK(tb_cuda.cuMemcpyHtoDAsync(memory, from, words * sizeof *from, gpu[0].up));
  OK(tb_cuda.cuStreamSynchronize(gpu[0].up));
  return (float *)memory;
}

static void free_on_device(const float *memory) { OK(tb_cuda.cuMemFree((CUdeviceptr)memory)); }

static void compute_in_place(struct product *p, struct tb_ways ways) {
  struct tb_gemm call = p->call;
  const size_t a_words = (size_t)(call.a.ld * (call.a.transposed ? call.m : call.k));
  const size_t b_words = (size_t)(call.b.ld * (call.b.transposed ? call.k : call.n));
  const size_t c_words = (size_t)(call.ldc * call.n);
  OK(tb_device_enter(&gpu[0]));
  if (ways.a == TB_IN_PLACE) call.a.data = on_device(p->a, a_words);
  if (ways.b == TB_IN_PLACE) call.b.data = on_device(p->b, b_words);
  if (ways.c == TB_IN_PLACE) call.c = on_device(p->c, c_words);
  run(0, &call, ways, 1, NULL);
  expect_split(0);
  assert_int_equal(part[0].plan.streams, 1);
  if (ways.a == TB_IN_PLACE) free_on_device(call.a.data);
  if (ways.b == TB_IN_PLACE) free_on_device(call.b.data);
  if (ways.c == TB_IN_PLACE) {
    OK(tb_cuda.cuMemcpyDtoHAsync(p->c, (CUdeviceptr)call.c, c_words * sizeof *p->c, gpu[0].down));
    OK(tb_cuda.cuStreamSynchronize(gpu[0].down));
    free_on_device(call.c);
  }
  tb_device_leave();
}

/* Each operand and C on the device or not, two tiles in one stream. */
static void some_in_place(void **state) {
  (void)state;
  for (int places = 1; places < 8; places++) {
    const struct tb_ways ways = {places & 1 ? TB_IN_PLACE : TB_STAGED, places & 2 ? TB_IN_PLACE : TB_STAGED,
                                 places & 4 ? TB_IN_PLACE : TB_STAGED, false};
    fake->set_order((enum fake_cuda_order)(places % 3), (uint64_t)places);
    struct product p = make(places % 4, 1413, 11, 9, places % 2 ? 2.5f : 0, WHOLE);
    compute_in_place(&p, ways);
    assert_int_equal(part[0].plan.at_once, places == 7);
    expect_right(&p);
    destroy(&p);
  }
}

/* ---- too little memory ---- */

/* Less than a whole C takes: blocks of it, one side's panels packed once for all; and less still: other kernels. */
static void blocks_of_c(void **state) {
  (void)state;
  fake->set_order(FAKE_CUDA_RANDOM, 1);
  for (int by_rows = 0; by_rows < 2; by_rows++) {
    struct product p = by_rows ? make(0, 4099, 600, 10, 2, WHOLE) : make(3, 600, 4099, 10, 2, WHOLE);
    const struct tb_split_way way = {.splits = 1};
    struct tb_plan plan;
    assert_true(tb_plan_make_split(&plan, &p.call, staged, &way, INT64_MAX));
    const int64_t of_other_streams = plan.streams > 2 ? (plan.streams - 2) * plan.workspace_bytes : 0;
    atomic_store(&tb_option_numbers[TB_OPTION_memory_limit], plan.arena_bytes - of_other_streams - 1);
    run(0, &p.call, staged, 1, NULL);
    expect_split(0);
    assert_int_equal(tb_layout_blocks(&p.call, &part[0].plan), 2);
    expect_right(&p);
    memcpy(p.c, p.before, (size_t)(p.call.ldc * p.call.n) * sizeof *p.c);
    atomic_store(&tb_option_numbers[TB_OPTION_memory_limit], 1 << 20);
    run(0, &p.call, staged, 1, NULL);
    assert_int_equal(part[0].why, TB_STATUS_gpu_sooner);
    assert_false(part[0].plan.split);
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
  struct tb_gemm call;
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

static void run_on_two(const struct tb_gemm *call, int64_t columns) {
  struct tb_exchange exchange;
  struct member member[GPUS];
  pthread_t thread[GPUS];
  tb_exchange_open(&exchange, GPUS, true);
  for (int i = 0; i < GPUS; i++) {
    const int64_t begin = i * columns, width = i == GPUS - 1 ? call->n - begin : columns;
    member[i] = (struct member){&exchange, tb_gemm_part(call, 0, call->m, begin, width), i};
    assert_int_equal(pthread_create(&thread[i], NULL, drive, &member[i]), 0);
  }
  for (int i = 0; i < GPUS; i++) pthread_join(thread[i], NULL);
  tb_exchange_close(&exchange);
}

/* All at once, in place; in tiles of panels; by two GPUs, of which each fetches the other's panel of A. */
static void check_bits(int64_t m, int64_t n, int64_t k, int64_t columns) {
  const struct tb_ways in_place = {TB_IN_PLACE, TB_IN_PLACE, TB_IN_PLACE, false};
  fake->set_order(FAKE_CUDA_RANDOM, 2);
  struct product whole = make(0, m, n, k, 0.5f, GRADED), p = make(0, m, n, k, 0.5f, GRADED);
  compute_in_place(&whole, in_place);
  run(0, &p.call, staged, 1, NULL);
  expect_split(0);
  expect_bits(&p, whole.c);
  memcpy(p.c, p.before, (size_t)(p.call.ldc * p.call.n) * sizeof *p.c);
  const uint64_t before = fake->calls("cuMemcpyPeerAsync");
  run_on_two(&p.call, columns);
  expect_split(0), expect_split(1);
  assert_int_equal(fake->calls("cuMemcpyPeerAsync") - before, 2);
  expect_bits(&p, whole.c);
  destroy(&p), destroy(&whole);
}

static void the_bits_of_any_cut(void **state) {
  (void)state;
  check_bits(517, 579, 40, (int64_t)2 * TB_SPLIT_TILE_N);
  span_k = TB_SPLIT_GROUP_K;
  check_bits(517, 200, span_k + 40, TB_SPLIT_TILE_N);
  span_k = 0;
}

/* C in two blocks, and k in chunks; of such plans the first, which has the most memory, or the first by which A's
 * panels of the first chunk stay for the second block. */
static int64_t memory_for_blocks(const struct product *p, bool keeps_a) {
  const struct tb_split_way way = {.splits = 1, .span_k = span_k};
  struct tb_plan plan = {.arena_bytes = INT64_MAX};
  do assert_true(tb_plan_make_split(&plan, &p->call, staged, &way, plan.arena_bytes - 1));
  while (plan.block_n == p->call.n || plan.chunk_k == p->call.k || (keeps_a && plan.a_kept_bytes == 0));
  return plan.arena_bytes;
}

static void run_in_blocks(const struct product *p, bool keeps_a) {
  atomic_store(&tb_option_numbers[TB_OPTION_memory_limit], memory_for_blocks(p, keeps_a));
  run(0, &p->call, staged, 1, NULL);
  atomic_store(&tb_option_numbers[TB_OPTION_memory_limit], 0);
  expect_split(0);
  const int64_t m = p->call.m, n = p->call.n, k = p->call.k, kept = keeps_a ? part[0].plan.chunk_k : 0;
  assert_true(part[0].plan.chunk_k < k && (part[0].plan.a_kept_bytes > 0) == keeps_a);
  assert_int_equal(tb_layout_blocks(&p->call, &part[0].plan), 2);
  assert_true(part[0].progress.up_bytes == 4.0 * (double)(n * k + m * k + m * (k - kept)));
}

/* Both operands' panels of the next block go up while launches of this one are still to run, some of which read them as
 * they came; two chunks, and three, so that either operand is the first of a block to go up. */
static void blocks_that_go_up_ahead(void **state) {
  (void)state;
  span_k = TB_SPLIT_GROUP_K;
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

/* Of plans that cut k and not C, the one that has the most memory, but in one stream: only much larger products are
 * computed so. */
static struct tb_plan in_one_stream(const struct product *p) {
  const struct tb_split_way way = {.splits = 1, .span_k = span_k};
  struct tb_plan plan = {.arena_bytes = INT64_MAX};
  do assert_true(tb_plan_make_split(&plan, &p->call, staged, &way, plan.arena_bytes - 1));
  while (plan.block_n < p->call.n || plan.chunk_k > span_k);
  plan.streams = 1;
  return plan;
}

/* Panels of the next chunk go up, and are packed, while launches of this one are still to run. */
static void chunks_in_one_stream(void **state) {
  (void)state;
  static struct tb_progress progress;
  const struct tb_choice choice = {.family = TB_FAMILY_SPLIT, .splits = 1, .unit_k = TB_SPLIT_GROUP_K};
  span_k = TB_SPLIT_GROUP_K;
  OK(tb_device_enter(&gpu[0]));
  for (int uneven = 0; uneven < 2; uneven++) {
    struct product p = make(2, 100, 2400, 2 * span_k + 16, 1, WHOLE);
    const struct tb_plan plan = in_one_stream(&p);
    assert_true(tb_ceil_div(p.call.k, plan.chunk_k) == 3 && tb_ceil_div(p.call.n, plan.tile_n) >= 2);
    fake->set_order(uneven ? FAKE_CUDA_UNEVEN : FAKE_CUDA_RANDOM, uneven ? EARLY_PANELS : 8);
    OK(tb_device_reserve(&gpu[0], plan.arena_bytes));
    OK(tb_pipeline_run(&gpu[0], &p.call, &plan, &choice, false, NULL, &progress));
    expect_right(&p);
    destroy(&p);
#ifdef __SANITIZE_ADDRESS__ /* the other is about its order */
    break;
#endif
  }
  tb_device_leave();
  span_k = 0;
}

/* ---- failures ---- */

/* What the GPU left, by plain loops. */
static void finish(const struct product *p) {
  struct tb_block r;
  while (tb_part_take_rest(&part[0], &r))
    for (int64_t j = r.j; j < r.j + r.n; j++)
      for (int64_t i = r.i; i < r.i + r.m; i++) {
        float *c = &p->c[i + j * p->call.ldc];
        *c = element(&p->call, *c, i, j);
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
    const bool failed = part[0].why != TB_STATUS_gpu_sooner;
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
  span_k = TB_SPLIT_GROUP_K;
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
    assert_true(part[0].why != TB_STATUS_gpu_sooner && part[0].plan.a_kept_bytes > 0);
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
      cmocka_unit_test(every_transpose),      cmocka_unit_test(strips),
      cmocka_unit_test(many_streams),         cmocka_unit_test(spans),
      cmocka_unit_test(chunks_that_overlap),  cmocka_unit_test(slices),
      cmocka_unit_test(slices_passed_on),     cmocka_unit_test(rings_that_grow),
      cmocka_unit_test(pieces_of_two_slots),  cmocka_unit_test(some_in_place),
      cmocka_unit_test(blocks_of_c),          cmocka_unit_test(blocks_that_go_up_ahead),
      cmocka_unit_test(chunks_in_one_stream), cmocka_unit_test(the_bits_of_any_cut),
      cmocka_unit_test(a_call_that_fails),    cmocka_unit_test(a_call_in_blocks_that_fails),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, open_all, close_all);
}
