/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every wait of the pipeline. Each of its paths, in a few small products, has the driver watch
 * (tests/fake_cuda/watch.h) that operations which touch the same bytes are ordered by streams, events or the host, and
 * that kernels touch what their arguments say and nothing else. And each is computed once more in every order that has
 * one stream as early as possible while all others are as late as possible, and the other way round: so every two
 * streams have been on either side of each other. Exact answers with whole numbers, beta = 2, all of C and its padding.
 *
 * The plans are the library's kind but smaller than its own: tiles and slices of a few lines, so that all of that takes
 * seconds.
 *
 * Nothing goes up twice that could stay. And of a copy whose proof waits nothing is committed before the answer,
 * however late threads come to ask, or somebody else's look ends.
 *
 * Seen to fail when: panels of a block that go up ahead do not wait for the launches before; any other wait or event
 * of up.c, compute.c, down.c and exchange.c is left out, or recorded before what it is for;
 * what has come down is committed before the proof; the proof is the answer of those who have asked so far.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cache/cache.h"
#include "pipeline/exchange.h"
#include "fake.h"
#include "pipeline/pipeline.h"
#include "plan/plan_internal.h"
#include "rng.h"
#include "sanitized.h"

#define OK(call) assert_int_equal(call, CUDA_SUCCESS)
#define GPUS 2
#define COPYING_THREADS 2
/* A context's streams (device.c), behind the default one; and the one for panels of other GPUs. */
#define STREAMS (4 + TB_COMPUTE_STREAMS + 1)
#define EARLY_PANELS (1u << 1 | 1u << 3) /* up, packing */

static const struct tst_fake *fake;
static struct tb_device gpu[GPUS];
static struct tb_pool *pool[GPUS];

static int open_all(void **state) {
  (void)state;
  char detail[200];
  int count;
  assert_int_equal(tb_device_count(&count, detail, sizeof detail), TB_STATUS_ok);
  assert_int_equal(count, GPUS);
  for (int i = 0; i < GPUS; i++) {
    assert_int_equal(tb_device_open(&gpu[i], i, false, detail, sizeof detail), TB_STATUS_ok);
    gpu[i].pool = pool[i] = tb_pool_open(COPYING_THREADS, true);
  }
  return 0;
}

static int close_all(void **state) {
  (void)state;
  for (int i = 0; i < GPUS; i++) tb_device_close(&gpu[i]), tb_pool_close(pool[i]);
  return fake->get(FAKE_CUDA_MISUSES) == 0 ? 0 : 1;
}

struct shape {
  const char *name;
  int64_t m, n, k;
  int64_t block_m, block_n, chunk_k; /* 0: all of it */
  int64_t tile_m, tile_n, slice_k;   /* 0: all of the block, or of the chunk */
  int transposes;
  struct tb_ways ways;
  float beta;
  int splits;     /* of k, by launches of their own; 0: for the tensor cores */
  int64_t span_k; /* for the tensor cores */
  int streams;    /* the same */
  bool keeps_a;   /* the same */
  bool one_slot;
  bool triangle; /* the lower one of C, with everything in place: tiles of it in several streams */
  bool mirrored; /* A is symmetric, and the lower triangle of it is stored */
};

#define STAGED \
  { TB_STAGED, TB_STAGED, TB_STAGED, false, 0 }
/* A's copy, from another call. */
#define KEPT(a) \
  { a, TB_STAGED, TB_STAGED, false, 0, TB_ARE_COPIES }

static int64_t or_all(int64_t size, int64_t all) { return size > 0 ? size : all; }
static void lay_out_emulated(struct tb_plan *plan, const struct shape *s, int64_t rows, int64_t columns) {
  plan->emulated = true;
  plan->span_k = s->span_k;
  plan->way = (struct tb_emulated_way){.splits = 1, .span_k = s->span_k};
  plan->operand[TB_OF_A].packed_bytes = tb_emulated_packed_bytes(false, plan->tile_m, plan->span_k);
  plan->operand[TB_OF_B].packed_bytes = tb_emulated_packed_bytes(true, plan->tile_n, plan->span_k);
  plan->packed_offset_bytes = plan->arena_bytes;
  plan->workspace_offset_bytes =
      plan->packed_offset_bytes + tb_plan_spans(plan) * (rows * plan->operand[TB_OF_A].packed_bytes +
                                                         columns * plan->operand[TB_OF_B].packed_bytes);
  plan->workspace_bytes = tb_emulated_workspace_bytes(plan->tile_m, plan->tile_n, plan->span_k, &plan->way);
  plan->streams = s->streams;
  plan->arena_bytes = plan->workspace_offset_bytes + plan->streams * plan->workspace_bytes;
}

static struct tb_plan plan_of(const struct shape *s, const struct tb_call *call) {
  struct tb_plan plan = tb_plan_uncut(call, s->ways);
  plan.block_m = or_all(s->block_m, call->m), plan.block_n = or_all(s->block_n, call->n);
  plan.chunk_k = or_all(s->chunk_k, call->k), plan.slice_k = or_all(s->slice_k, plan.chunk_k);
  plan.one_slot = s->one_slot;
  plan.triangle_in_place = s->triangle;
  tb_plan_size_panels(&plan, call, or_all(s->tile_m, plan.block_m), or_all(s->tile_n, plan.block_n));
  const int64_t rows = tb_ceil_div(plan.block_m, plan.tile_m), columns = tb_ceil_div(plan.block_n, plan.tile_n);
  tb_plan_place_panels(&plan, call, rows, columns, s->keeps_a);
  plan.workspace_offset_bytes = plan.arena_bytes;
  if (s->splits == 0) {
    lay_out_emulated(&plan, s, rows, columns);
  } else if (s->splits > 1) {
    plan.workspace_bytes = 4 * tb_padded(TB_S, plan.tile_m * plan.tile_n) * tb_ceil_div(plan.slice_k, TB_SGEMM_CHUNK_K);
    plan.arena_bytes += rows * columns * plan.workspace_bytes;
  }
  return plan;
}

static struct tb_choice choice_of(const struct shape *s) {
  if (s->splits == 0)
    return (struct tb_choice){.family = TB_FAMILY_EMULATED, .emulated = {.splits = 1, .span_k = s->span_k}};
  return (struct tb_choice){.family = TB_FAMILY_FMA,
                            .fma = {.tile = TB_TILE_32x32, .splits = s->splits, .unit_k = TB_SGEMM_CHUNK_K}};
}

struct product {
  struct tb_call call;
  float *a, *b, *c, *before, *right; /* as stored */
  bool pinned;
};

static float *room(const struct product *p, size_t words) {
  void *memory = p->pinned ? NULL : malloc(words * sizeof(float));
  if (p->pinned) OK(tb_cuda.cuMemHostAlloc(&memory, words * sizeof(float), 0));
  return memory;
}

static float *operand(const struct product *p, struct tb_view *x, bool transposed, int64_t rows, int64_t columns,
                      uint64_t *rng) {
  x->transposed = transposed;
  x->ld = (transposed ? columns : rows) + 3;
  const size_t words = (size_t)(x->ld * (transposed ? rows : columns));
  float *data = room(p, words);
  for (size_t i = 0; i < words; i++) data[i] = (float)(tst_random_below(rng, 17) - 8);
  x->data = data;
  return data;
}

static float element(const struct tb_call *call, float before, int64_t i, int64_t j) {
  const float *const a = tb_view_at(call->a, i, 0).data, *const b = tb_view_at(call->b, 0, j).data;
  const int64_t a_step = call->a.transposed ? 1 : call->a.ld, b_step = call->b.transposed ? call->b.ld : 1;
  float sum = 0;
  for (int64_t k = 0; k < call->k; k++) sum += a[k * a_step] * b[k * b_step];
  return call->alpha.s * sum + (tb_call_overwrites(call) ? 0 : call->beta.s * before);
}

/* As it is meant, on the host. */
static void mirror(const struct product *p) {
  for (int64_t j = 0; j < p->call.k; j++)
    for (int64_t i = 0; i < j; i++) p->a[i + j * p->call.a.ld] = p->a[j + i * p->call.a.ld];
}

static struct product make(const struct shape *s) {
  struct product p = {.call = {.m = s->m, .n = s->n, .k = s->k, .alpha = {-2}, .beta = {s->beta}, .ldc = s->m + 1},
                      .pinned = s->ways.a == TB_DIRECT || s->ways.b == TB_DIRECT || s->ways.c == TB_DIRECT};
  if (s->triangle) p.call.region.of = TB_LOWER_TRIANGLE;
  uint64_t rng = (uint64_t)(s->m + s->n + s->k);
  p.a = operand(&p, &p.call.a, s->transposes & 1, s->m, s->k, &rng);
  if (s->mirrored) mirror(&p);
  p.b = operand(&p, &p.call.b, s->transposes >> 1, s->k, s->n, &rng);
  const size_t words = (size_t)(p.call.ldc * s->n);
  p.c = p.call.c = room(&p, words);
  p.before = malloc(words * sizeof *p.before), p.right = malloc(words * sizeof *p.right);
  for (size_t i = 0; i < words; i++) p.right[i] = p.before[i] = (float)(i % 31);
  for (int64_t j = 0; j < s->n; j++)
    for (int64_t i = 0; i < s->m; i++) {
      float *c = &p.right[i + j * p.call.ldc];
      if (!s->triangle || i >= j) *c = element(&p.call, *c, i, j);
    }
  return p;
}

static void destroy(const struct product *p) {
  float *const memory[] = {p->a, p->b, p->c};
  for (int i = 0; i < 3; i++) p->pinned ? (void)tb_cuda.cuMemFreeHost(memory[i]) : free(memory[i]);
  free(p->before), free(p->right);
}

static void expect_right(const struct shape *s, const struct product *p, const char *order) {
  for (int64_t i = 0; i < p->call.ldc * p->call.n; i++)
    if (!(p->c[i] == p->right[i]))
      fail_msg("%s, %s: C(%ld, %ld) is %g, not %g", s->name, order, (long)(i % p->call.ldc), (long)(i / p->call.ldc),
               (double)p->c[i], (double)p->right[i]);
  if (fake->get(FAKE_CUDA_MISUSES) > 0) fail_msg("%s, %s: misuse", s->name, order);
}

typedef void run_product(const struct shape *s, const struct product *p);

static void run_in_order(run_product *run, const struct shape *s, const struct product *p, enum fake_cuda_order order,
                         uint64_t bits) {
  char text[64];
  snprintf(text, sizeof text, "order %d:%llx", (int)order, (unsigned long long)bits);
  memcpy(p->c, p->before, (size_t)(p->call.ldc * p->call.n) * sizeof *p->c);
  fake->set_order(order, bits);
  run(s, p);
  expect_right(s, p, text);
}

/* Watched where all is as late as may be; then numbers alone tell. For the tensor cores, whose kernels take the fake a
 * hundred times as long, in two orders: all early, and what brings panels early. Under a sanitizer late and, by FMAs,
 * early: what the host touches is the same in all of them. */
static void run_in_every_order(run_product *run, const struct shape *s) {
  OK(tb_device_enter(&gpu[0]));
  const struct product p = make(s);
  fake->set_watch(FAKE_CUDA_WATCH_EXTENTS);
  run_in_order(run, s, &p, FAKE_CUDA_LAZY, 0);
  fake->set_watch(FAKE_CUDA_UNWATCHED);
  if (s->splits > 0 || !TST_SANITIZED) run_in_order(run, s, &p, FAKE_CUDA_EAGER, 0);
  if (s->splits == 0 && !TST_SANITIZED) run_in_order(run, s, &p, FAKE_CUDA_UNEVEN, EARLY_PANELS);
  for (int stream = 1; s->splits > 0 && !TST_SANITIZED && stream <= STREAMS; stream++) {
    run_in_order(run, s, &p, FAKE_CUDA_UNEVEN, (uint64_t)1 << stream);
    run_in_order(run, s, &p, FAKE_CUDA_UNEVEN, ~((uint64_t)1 << stream));
  }
  destroy(&p);
  tb_device_leave();
}

/* Left there by the program's own work in the default stream, for which nobody has waited yet. */
static float *on_device(const float *from, size_t words) {
  CUdeviceptr memory;
  const size_t bytes = words * sizeof *from;
  OK(tb_cuda.cuMemAlloc(&memory, 2 * bytes));
  OK(tb_cuda.cuMemcpyHtoDAsync(memory + bytes, from, bytes, NULL));
  OK(tb_cuda.cuMemcpyPeerAsync(memory, gpu[0].context, memory + bytes, gpu[0].context, bytes, NULL));
  return (float *)memory;
}

/* A copy of what is stored, which is there: no stream of the program's concerns it. */
static float *half_on_device(const struct product *p) {
  const size_t words = (size_t)(p->call.a.ld * p->call.k);
  float *const half = malloc(words * sizeof *half);
  memcpy(half, p->a, words * sizeof *half);
  for (int64_t j = 0; j < p->call.k; j++)
    for (int64_t i = 0; i < j; i++) half[i + j * p->call.a.ld] = NAN;
  float *const there = on_device(half, words);
  OK(tb_cuda.cuStreamSynchronize(NULL));
  free(half);
  return there;
}

static const void *place_a(const struct shape *s, const struct product *p) {
  if (s->mirrored) return half_on_device(p);
  float *const there = on_device(p->a, (size_t)(p->call.a.ld * (p->call.a.transposed ? s->m : s->k)));
  if (s->ways.kept == TB_ARE_COPIES) OK(tb_cuda.cuStreamSynchronize(NULL));
  return there;
}

/* What must go up: of A and B what was not there for the block before, nor is in place; once each. Parts of k replace
 * each other, but for the first one of A where that stays. */
static double bytes_up(const struct shape *s, const struct tb_call *call, const struct tb_plan *plan) {
  const bool whole_k = plan->chunk_k == call->k;
  struct tb_block before = {.i = -1, .j = -1};
  int64_t words = 0;
  for (int64_t number = 0; number < tb_layout_blocks(call, plan); number++) {
    const struct tb_block b = tb_layout_block(call, plan, number);
    const int64_t a_there = b.i != before.i ? 0 : whole_k ? call->k : s->keeps_a ? plan->chunk_k : 0;
    if (tb_way_is_by_link(s->ways.a)) words += b.m * (call->k - a_there);
    if (s->ways.b != TB_IN_PLACE && !(whole_k && b.j == before.j)) words += b.n * call->k;
    before = b;
  }
  return 4.0 * (double)words;
}

/* Every tile of the last block, once. */
static void expect_counted(const struct shape *s, const struct tb_call *call, const struct tb_plan *plan,
                           const struct tb_progress *progress) {
  struct tb_layout l = {.call = call, .plan = plan};
  tb_layout_enter(&l, tb_layout_blocks(call, plan) - 1);
  for (int64_t tile = 0; tile < l.rows * l.columns; tile++)
    if (!tb_layout_misses(&l, tile) && progress->committed_columns[tile] != tb_layout_tile(&l, tile).n)
      fail_msg("%s: counted wrong", s->name);
}

static void run_alone(const struct shape *s, const struct product *p) {
  static struct tb_progress progress;
  struct tb_call call = p->call;
  progress = (struct tb_progress){0};
  const size_t c_words = (size_t)(call.ldc * call.n);
  if (!tb_way_is_by_link(s->ways.a)) call.a.data = place_a(s, p);
  if (s->mirrored) call.a.structure = TB_SYMMETRIC, call.a.uplo = TB_LOWER;
  if (s->ways.b == TB_IN_PLACE) call.b.data = on_device(p->b, (size_t)(call.b.ld * (call.b.transposed ? s->k : s->n)));
  if (s->ways.c == TB_IN_PLACE) call.c = on_device(p->c, c_words);
  const struct tb_plan plan = plan_of(s, &call);
  const struct tb_choice choice = choice_of(s);
  OK(tb_device_reserve(&gpu[0], plan.arena_bytes));
  if (s->triangle || s->mirrored) OK(tb_triangle_load(&gpu[0].kernels.triangle));
  OK(tb_pipeline_run(&gpu[0], &call, &plan, &choice, true, NULL, NULL, &progress));
  if (!(progress.up_bytes == bytes_up(s, &call, &plan)))
    fail_msg("%s: %.0f bytes up, not %.0f", s->name, progress.up_bytes, bytes_up(s, &call, &plan));
  expect_counted(s, &call, &plan, &progress);
  if (s->ways.c == TB_IN_PLACE) {
    OK(tb_cuda.cuMemcpyDtoHAsync(p->c, (CUdeviceptr)call.c, c_words * sizeof *p->c, gpu[0].down));
    OK(tb_cuda.cuStreamSynchronize(gpu[0].down));
    OK(tb_cuda.cuMemFree((CUdeviceptr)call.c));
  }
  if (!tb_way_is_by_link(s->ways.a)) OK(tb_cuda.cuMemFree((CUdeviceptr)call.a.data));
  if (s->ways.b == TB_IN_PLACE) OK(tb_cuda.cuMemFree((CUdeviceptr)call.b.data));
}

static const struct shape by_fmas[] = {
    {"one slot", 270, 250, 250, .ways = STAGED, .beta = 2, .splits = 1, .one_slot = true},
    {"tiles and slices", 150, 130, 96, .tile_m = 32, .tile_n = 32, .slice_k = 32, .ways = STAGED, .beta = 2,
     .splits = 1},
    {"strips", 40, 300, 64, .tile_n = 32, .slice_k = 32, .transposes = 3, .ways = STAGED, .splits = 1},
    {"parts of k", 70, 64, 512, .tile_m = 32, .tile_n = 32, .slice_k = 256, .ways = STAGED, .beta = 2, .splits = 2},
    {"chunks", 70, 75, 160, .chunk_k = 64, .tile_m = 32, .tile_n = 32, .slice_k = 32, .transposes = 1, .ways = STAGED,
     .beta = 2, .splits = 1},
    {"blocks", 140, 130, 64, .block_m = 64, .block_n = 64, .tile_m = 32, .tile_n = 32, .slice_k = 32, .ways = STAGED,
     .beta = 2, .splits = 1},
    {"blocks and chunks", 100, 130, 160, .block_m = 64, .block_n = 64, .chunk_k = 64, .tile_m = 32, .tile_n = 32,
     .transposes = 2, .ways = STAGED, .beta = 2, .splits = 1},
    {"pieces of panels", 33, 40, 4200, .tile_n = 32, .ways = STAGED, .beta = 2, .splits = 1},
    {"pieces of tiles", 490, 300, 3, .tile_n = 256, .ways = STAGED, .beta = 2, .splits = 1},
    {"A in place", 70, 75, 64, .tile_m = 32, .tile_n = 32, .slice_k = 32, .beta = 2, .splits = 1,
     .ways = {TB_IN_PLACE, TB_STAGED, TB_STAGED, false, 0, false}},
    {"B and C in place", 70, 75, 64, .tile_m = 32, .tile_n = 32, .beta = 2, .splits = 1,
     .ways = {TB_STAGED, TB_IN_PLACE, TB_IN_PLACE, false, 0, false}},
    {"C in place", 70, 75, 64, .block_n = 64, .tile_m = 32, .tile_n = 32, .splits = 1,
     .ways = {TB_STAGED, TB_STAGED, TB_IN_PLACE, false, 0, false}},
    {"C in place with beta", 70, 75, 64, .block_n = 64, .tile_m = 32, .tile_n = 32, .beta = 2, .splits = 1,
     .ways = {TB_STAGED, TB_STAGED, TB_IN_PLACE, false, 0, false}},
    {"a triangle in place", 70, 70, 64, .tile_m = 32, .tile_n = 32, .beta = 2, .splits = 1, .triangle = true,
     .ways = {TB_IN_PLACE, TB_IN_PLACE, TB_IN_PLACE, false, 0, false}},
    {"pinned", 70, 75, 96, .block_m = 64, .tile_m = 32, .tile_n = 32, .slice_k = 32, .splits = 1,
     .ways = {TB_DIRECT, TB_DIRECT, TB_DIRECT, false}},
    {"A pinned", 70, 75, 96, .chunk_k = 64, .tile_m = 32, .tile_n = 32, .slice_k = 32, .beta = 2, .splits = 1,
     .ways = {TB_DIRECT, TB_STAGED, TB_STAGED, false}},
    {"a copy of A", 70, 75, 96, .block_m = 64, .chunk_k = 64, .tile_m = 32, .tile_n = 32, .slice_k = 32, .beta = 2,
     .splits = 1, .ways = KEPT(TB_IN_PLACE)},
    {"a copy of half of A", 100, 75, 100, .block_m = 64, .tile_m = 32, .tile_n = 32, .slice_k = 32, .beta = 2,
     .splits = 1, .mirrored = true, .ways = KEPT(TB_FORMED)},
    {"a copy of half of A, chunks", 100, 140, 100, .block_n = 64, .chunk_k = 64, .tile_m = 32, .tile_n = 32,
     .splits = 1, .mirrored = true, .ways = KEPT(TB_FORMED)},
};

static const struct shape by_tensor_cores[] = {
    {"packed tiles", 300, 400, 64, .tile_m = 128, .tile_n = 192, .ways = STAGED, .beta = 2, .span_k = 64, .streams = 8},
    {"packed slices", 140, 200, 128, .tile_m = 128, .tile_n = 192, .slice_k = 64, .transposes = 1, .ways = STAGED,
     .beta = 2, .span_k = 32, .streams = 4},
    {"packed chunks", 140, 200, 160, .chunk_k = 32, .tile_m = 128, .tile_n = 192, .transposes = 2, .ways = STAGED,
     .beta = 2, .span_k = 32, .streams = 2},
    {"packed chunks of many panels", 400, 40, 128, .chunk_k = 32, .tile_m = 128, .tile_n = 192, .ways = STAGED,
     .span_k = 32, .streams = 1},
    {"packed blocks", 140, 390, 64, .block_m = 128, .block_n = 192, .tile_m = 128, .tile_n = 192, .ways = STAGED,
     .beta = 2, .span_k = 64, .streams = 2},
    {"packed blocks and chunks", 40, 390, 96, .block_n = 192, .chunk_k = 32, .tile_m = 128, .tile_n = 192,
     .ways = STAGED, .beta = 2, .span_k = 32, .streams = 2},
    {"A stays, two chunks", 300, 390, 60, .block_n = 192, .chunk_k = 32, .tile_m = 128, .tile_n = 192, .ways = STAGED,
     .beta = 2, .span_k = 32, .streams = 1, .keeps_a = true},
    {"A stays, three chunks", 140, 600, 96, .block_n = 400, .chunk_k = 32, .tile_m = 128, .tile_n = 192,
     .transposes = 3, .ways = STAGED, .beta = 2, .span_k = 32, .streams = 1, .keeps_a = true},
    {"A stays, four chunks, two rows", 200, 390, 128, .block_m = 128, .block_n = 192, .chunk_k = 32, .tile_m = 128,
     .tile_n = 192, .ways = STAGED, .beta = 2, .span_k = 32, .streams = 1, .keeps_a = true},
    {"packed, A in place", 140, 200, 64, .tile_m = 128, .tile_n = 192, .beta = 2, .span_k = 64, .streams = 1,
     .ways = {TB_IN_PLACE, TB_STAGED, TB_STAGED, false, 0, false}},
    {"packed, a triangle in place", 200, 200, 32, .tile_m = 128, .tile_n = 192, .beta = 2, .span_k = 32, .streams = 2,
     .triangle = true, .ways = {TB_IN_PLACE, TB_IN_PLACE, TB_IN_PLACE, false, 0, false}},
    {"packed, a copy of half of A", 140, 200, 140, .block_m = 128, .chunk_k = 64, .tile_m = 128, .tile_n = 192,
     .beta = 2, .span_k = 32, .streams = 2, .mirrored = true, .ways = KEPT(TB_FORMED)},
};

static void fmas(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof by_fmas / sizeof *by_fmas; i++) run_in_every_order(run_alone, &by_fmas[i]);
}

static void tensor_cores(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof by_tensor_cores / sizeof *by_tensor_cores; i++)
    run_in_every_order(run_alone, &by_tensor_cores[i]);
}

/* ---- proofs that wait ---- */

/* A's copy is not proven when the product begins; what is asked about stands for it, and takes several tasks. */
struct doubt {
  struct product p;
  struct tb_call call; /* as the GPU computes it */
  char *asked_about;
  struct tb_kept kept;
  struct tb_keep keep;
};
enum { ASKED_BYTES = 12 << 20 };

static const struct shape doubted = {
    "a proof that waits",     70, 75, 64, .tile_m = 32, .tile_n = 32, .slice_k = 32, .beta = 2, .splits = 1,
    .ways = KEPT(TB_IN_PLACE)};

/* False: the kernel does not watch. */
static bool make_doubt(struct doubt *x) {
  *x = (struct doubt){.p = make(&doubted)};
  x->call = x->p.call;
  x->call.a.data = place_a(&doubted, &x->p);
  x->asked_about = mmap(NULL, ASKED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(x->asked_about != MAP_FAILED);
  memset(x->asked_about, 1, ASKED_BYTES);
  x->kept.stored = (struct tb_stored){x->asked_about, ASKED_BYTES, 1, ASKED_BYTES, TB_STORED_ALL};
  x->kept.tracked = tb_track_pages((uintptr_t)x->asked_about, (uintptr_t)x->asked_about + ASKED_BYTES);
  if (!tb_track_begin(&x->kept.tracked, x->kept.tracked)) return false;
  tb_keep_nothing(&x->keep, &x->call, doubted.ways);
  x->keep.doubt = TB_NOT_ASKED;
  return tb_kept_question(&x->keep.question[TB_OF_A], &x->kept, &x->kept.stored);
}

static void end_doubt(struct doubt *x) {
  tb_track_close();
  munmap(x->asked_about, ASKED_BYTES);
  OK(tb_cuda.cuMemFree((CUdeviceptr)x->call.a.data));
  destroy(&x->p);
}

static bool is_untouched(const struct product *p) {
  return memcmp(p->c, p->before, (size_t)(p->call.ldc * p->call.n) * sizeof *p->c) == 0;
}

static CUresult run_in_doubt(struct doubt *x) {
  static struct tb_progress progress;
  progress = (struct tb_progress){0};
  memcpy(x->p.c, x->p.before, (size_t)(x->call.ldc * x->call.n) * sizeof *x->p.c);
  const struct tb_plan plan = plan_of(&doubted, &x->call);
  const struct tb_choice choice = choice_of(&doubted);
  OK(tb_device_reserve(&gpu[0], plan.arena_bytes));
  const CUresult result = tb_pipeline_run(&gpu[0], &x->call, &plan, &choice, false, NULL, &x->keep, &progress);
  tb_device_settle(&gpu[0]);
  tb_keep_end(&x->keep, &gpu[0]);
  return result;
}

/* Another call's look, which lasts until all of C has come down, and a little longer. */
struct look {
  const struct product *p;
  atomic_bool begun;
  bool c_was_touched;
};

static void *look_for_long(void *opaque) {
  struct look *const look = opaque;
  uint64_t before = 0, down;
  assert_true(tb_cache_enter());
  const uint64_t first = fake->get(FAKE_CUDA_BYTES_DOWN);
  atomic_store(&look->begun, true);
  for (int tries = 0; (down = fake->get(FAKE_CUDA_BYTES_DOWN)) == first || down != before; tries++) {
    if (tries == 500) break;
    before = down;
    usleep(20000);
  }
  look->c_was_touched = !is_untouched(look->p);
  tb_cache_leave();
  return NULL;
}

static void nothing_is_committed_unproven(void **state) {
  (void)state;
  struct doubt x;
  pthread_t thread;
  OK(tb_device_enter(&gpu[0]));
  fake->set_order(FAKE_CUDA_EAGER, 0);
  if (make_doubt(&x)) {
    struct look look = {.p = &x.p};
    memcpy(x.p.c, x.p.before, (size_t)(x.call.ldc * x.call.n) * sizeof *x.p.c);
    assert_int_equal(pthread_create(&thread, NULL, look_for_long, &look), 0);
    while (!atomic_load(&look.begun)) usleep(100);
    OK(run_in_doubt(&x));
    pthread_join(thread, NULL);
    assert_false(look.c_was_touched);
    expect_right(&doubted, &x.p, "late");
  }
  end_doubt(&x);
  tb_device_leave();
}

/* What keeps the pool's other thread from asking. */
struct hold {
  pthread_t caller;
  atomic_bool begun, over;
};

static void hold_thread(void *opaque, int task) {
  struct hold *const hold = opaque;
  (void)task;
  if (pthread_equal(pthread_self(), hold->caller)) return;
  atomic_store(&hold->begun, true);
  while (!atomic_load(&hold->over)) usleep(100);
}

/* A page was written, which the caller finds when it comes to ask, for nobody else does. */
static void nothing_is_taken_for_an_answer(void **state) {
  (void)state;
  for (int written = 0; written < 2; written++) {
    struct doubt x;
    struct hold hold = {pthread_self(), false, false};
    OK(tb_device_enter(&gpu[0]));
    fake->set_order(FAKE_CUDA_EAGER, 0);
    if (make_doubt(&x)) {
      const uint64_t job = tb_pool_start(pool[0], hold_thread, &hold, COPYING_THREADS);
      while (!atomic_load(&hold.begun)) usleep(100);
      if (written) x.asked_about[ASKED_BYTES - 1] = 2;
      assert_int_equal(run_in_doubt(&x), written ? TB_REFUTED : CUDA_SUCCESS);
      atomic_store(&hold.over, true);
      tb_pool_wait(pool[0], job);
      if (written) assert_true(is_untouched(&x.p));
      if (!written) expect_right(&doubted, &x.p, "held");
    }
    end_doubt(&x);
    tb_device_leave();
  }
}

/* ---- several ---- */

struct member {
  const struct shape *shape;
  struct tb_exchange *exchange;
  struct tb_call call;
  int number;
};

static void *drive(void *argument) {
  static struct tb_progress progress[GPUS];
  const struct member *m = argument;
  struct tb_device *d = &gpu[m->number];
  const struct tb_plan plan = plan_of(m->shape, &m->call);
  const struct tb_choice choice = choice_of(m->shape);
  struct tb_pass pass = tb_pass_of(m->exchange, m->number, d, TB_OPERAND_A);
  OK(tb_device_enter(d));
  OK(tb_device_reserve(d, plan.arena_bytes));
  tb_pass_join(&pass, (struct tb_panels){tb_ceil_div(m->call.m, plan.tile_m), plan.tile_m,
                                         tb_ceil_div(m->call.k, plan.slice_k)});
  OK(tb_pipeline_run(d, &m->call, &plan, &choice, true, &pass, NULL, &progress[m->number]));
  tb_pass_leave(&pass);
  tb_device_leave();
  return NULL;
}

static void run_on_two(const struct shape *s, const struct product *p) {
  struct tb_exchange exchange;
  struct member member[GPUS];
  pthread_t thread[GPUS];
  const int64_t half = p->call.n / GPUS;
  const uint64_t before = fake->calls("cuMemcpyPeerAsync");
  tb_exchange_open(&exchange, GPUS, true);
  for (int i = 0; i < GPUS; i++) {
    member[i] =
        (struct member){s, &exchange, tb_call_part(&p->call, 0, s->m, i * half, i == 0 ? half : s->n - half), i};
    assert_int_equal(pthread_create(&thread[i], NULL, drive, &member[i]), 0);
  }
  for (int i = 0; i < GPUS; i++) pthread_join(thread[i], NULL);
  tb_exchange_close(&exchange);
  /* Each slice of a panel goes over once. */
  assert_int_equal(fake->calls("cuMemcpyPeerAsync") - before,
                   tb_ceil_div(s->m, s->tile_m) * tb_ceil_div(s->k, or_all(s->slice_k, s->k)));
}

static void several_gpus(void **state) {
  (void)state;
  static const struct shape shapes[] = {
      {"panels passed on", 150, 140, 40, .tile_m = 32, .tile_n = 32, .ways = STAGED, .beta = 2, .splits = 1},
      {"panels passed on for two blocks", 70, 140, 40, .block_n = 40, .tile_m = 32, .tile_n = 32, .ways = STAGED,
       .beta = 2, .splits = 1},
      {"packed panels passed on", 400, 300, 64, .tile_m = 128, .tile_n = 192, .slice_k = 32, .ways = STAGED, .beta = 2,
       .span_k = 32, .streams = 4}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) run_in_every_order(run_on_two, &shapes[i]);
}

int main(int argc, char **argv) {
  setenv("FAKE_CUDA_DEVICES", "2", 1);
  fake = tst_fake();
  if (fake == NULL) return 77;
  const struct CMUnitTest tests[] = {cmocka_unit_test(fmas), cmocka_unit_test(tensor_cores),
                                     cmocka_unit_test(nothing_is_committed_unproven),
                                     cmocka_unit_test(nothing_is_taken_for_an_answer), cmocka_unit_test(several_gpus)};
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, open_all, close_all);
}
