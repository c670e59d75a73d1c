/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "emulated_panels.h"

#define COPYING_THREADS 2

const struct tb_ways staged = {TB_STAGED, TB_STAGED, TB_STAGED, false, 0, TB_MAY_BE_KEPT};
const struct tst_fake *fake;
struct tb_device gpu[GPUS];
struct tb_part part[GPUS];
int64_t span_k;
static struct tb_pool *pool[GPUS];

void open_gpu(int number) {
  char detail[200];
  assert_int_equal(tb_device_open(&gpu[number], number, false, detail, sizeof detail), TB_STATUS_ok);
  gpu[number].pool = pool[number];
}

int open_all(void **state) {
  (void)state;
  char detail[200];
  int count;
  assert_int_equal(tb_device_count(&count, detail, sizeof detail), TB_STATUS_ok);
  assert_int_equal(count, GPUS);
  for (int i = 0; i < GPUS; i++) pool[i] = tb_pool_open(COPYING_THREADS, true), open_gpu(i);
  return 0;
}

int close_all(void **state) {
  (void)state;
  for (int i = 0; i < GPUS; i++) tb_device_close(&gpu[i]), tb_pool_close(pool[i]);
  return fake->get(FAKE_CUDA_MISUSES) == 0 ? 0 : 1;
}

/* ---- a product ---- */

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

struct product make(int transposes, int64_t m, int64_t n, int64_t k, float beta, enum values values) {
  struct product p = {.call = {.m = m, .n = n, .k = k, .alpha = {-2}, .beta = {beta}, .ldc = m + 1}, .values = values};
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

void destroy(struct product *p) { free(p->a), free(p->b), free(p->c), free(p->before); }

float element(const struct tb_call *call, float before, int64_t i, int64_t j) {
  const float *const a = tb_view_at(call->a, i, 0).data, *const b = tb_view_at(call->b, 0, j).data;
  const int64_t a_step = call->a.transposed ? 1 : call->a.ld, b_step = call->b.transposed ? call->b.ld : 1;
  float sum = 0;
  for (int64_t k = 0; k < call->k; k++) sum += a[k * a_step] * b[k * b_step];
  return call->alpha.s * sum + (tb_call_overwrites(call) ? 0 : call->beta.s * before);
}

void expect_right(const struct product *p) {
  for (int64_t j = 0; j < p->call.n; j++)
    for (int64_t i = 0; i < p->call.ldc; i++) {
      const float before = p->before[i + j * p->call.ldc], got = p->c[i + j * p->call.ldc];
      const struct tb_call host = {.m = p->call.m,
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

void run(int number, const struct tb_call *call, struct tb_ways ways, int splits, struct tb_pass *pass) {
  const struct tb_choice whole = {.family = TB_FAMILY_EMULATED, .emulated = {.splits = splits, .span_k = span_k}};
  if (pass != NULL) tb_keep_nothing(&part[number].keep, call, ways); /* as who shares a call out begins it */
  tb_part_run(&part[number], &gpu[number], call, ways, &whole, true, pass);
}

void expect_emulated(int number) {
  if (part[number].why != TB_STATUS_ok) fail_msg("%s", part[number].failure);
  assert_true(part[number].plan.emulated);
  assert_string_equal(part[number].kernel, "emulated");
}

void check(int transposes, int64_t m, int64_t n, int64_t k, float beta, int splits) {
  struct product p = make(transposes, m, n, k, beta, WHOLE);
  run(0, &p.call, staged, splits, NULL);
  expect_emulated(0);
  expect_right(&p);
  destroy(&p);
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

void compute_in_place(struct product *p, struct tb_ways ways) {
  struct tb_call call = p->call;
  const size_t a_words = (size_t)(call.a.ld * (call.a.transposed ? call.m : call.k));
  const size_t b_words = (size_t)(call.b.ld * (call.b.transposed ? call.k : call.n));
  const size_t c_words = (size_t)(call.ldc * call.n);
  OK(tb_device_enter(&gpu[0]));
  if (ways.a == TB_IN_PLACE) call.a.data = on_device(p->a, a_words);
  if (ways.b == TB_IN_PLACE) call.b.data = on_device(p->b, b_words);
  if (ways.c == TB_IN_PLACE) call.c = on_device(p->c, c_words);
  run(0, &call, ways, 1, NULL);
  expect_emulated(0);
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
