/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which of the tensor cores' launches begin early, while the one before them still runs: all, but for what packs the
 * rest, which has nothing to do as a rule. Where launches of other streams are on the GPU, too, it would keep their
 * places. Of one stream and of several: a product, and the two ways in which trmm and trsm come to these kernels.
 *
 * Seen to fail when: what packs the rest begins early beside other streams, in any of the three; or does not where it
 * is alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "base/options.h"
#include "fake.h"
#include "offload/part.h"

#define COPYING_THREADS 2

static const struct tst_fake *fake;
static struct tb_device gpu;
static struct tb_part part;
static struct tb_pool *pool;

/* ---- launches ---- */

static __typeof__(tb_cuda.cuLaunchKernel) driver_launches;
static __typeof__(tb_cuda.cuLaunchKernelEx) driver_launches_by_config;
static struct {
  int early, late; /* of what packs the rest */
  int others_late; /* of the others that there are for each product */
} launched;

static bool is_one_of(CUfunction function, const CUfunction of[2]) { return function == of[0] || function == of[1]; }

static void count(CUfunction function, bool early) {
  const struct tb_emulated_kernels *const kernels = &gpu.kernels.emulated;
  if (is_one_of(function, kernels->pack_bfloat))
    early ? launched.early++ : launched.late++;
  else if (!early && (is_one_of(function, kernels->pack_half) || is_one_of(function, kernels->multiply_half) ||
                      is_one_of(function, kernels->multiply_bfloat)))
    launched.others_late++;
}

static CUresult CUDAAPI launch(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned block_x,
                               unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream,
                               void **parameters, void **extra) {
  count(function, false);
  return driver_launches(function, x, y, z, block_x, block_y, block_z, shared_bytes, stream, parameters, extra);
}

static CUresult CUDAAPI launch_by_config(const CUlaunchConfig *config, CUfunction function, void **parameters,
                                         void **extra) {
  bool early = false;
  for (unsigned i = 0; i < config->numAttrs; i++)
    early |= config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
             config->attrs[i].value.programmaticStreamSerializationAllowed;
  count(function, early);
  return driver_launches_by_config(config, function, parameters, extra);
}

static int open_gpu(void **state) {
  (void)state;
  char detail[200];
  int gpus;
  assert_int_equal(tb_device_count(&gpus, detail, sizeof detail), TB_STATUS_ok);
  assert_int_equal(tb_device_open(&gpu, 0, false, detail, sizeof detail), TB_STATUS_ok);
  gpu.pool = pool = tb_pool_open(COPYING_THREADS, true);
  driver_launches = tb_cuda.cuLaunchKernel;
  driver_launches_by_config = tb_cuda.cuLaunchKernelEx;
  tb_cuda.cuLaunchKernel = launch;
  tb_cuda.cuLaunchKernelEx = launch_by_config;
  atomic_store(&tb_option_numbers[TB_OPTION_precision], TB_PRECISION_FP32);
  return 0;
}

static int close_gpu(void **state) {
  (void)state;
  tb_cuda.cuLaunchKernel = driver_launches;
  tb_cuda.cuLaunchKernelEx = driver_launches_by_config;
  tb_device_close(&gpu);
  tb_pool_close(pool);
  return fake->get(FAKE_CUDA_MISUSES) == 0 ? 0 : 1;
}

/* ---- calls ---- */

/* Runs it, and frees what it has. */
static void run(const struct tb_call *call, const struct tb_choice *whole) {
  const struct tb_ways ways = tb_part_ways(call, NULL);
  launched.early = launched.late = launched.others_late = 0;
  tb_part_run(&part, &gpu, call, ways, whole, true, NULL);
  if (part.why != TB_STATUS_ok) fail_msg("%s", part.failure);
  assert_string_equal(part.kernel, "emulated");
  if (call->b.data != call->c) free((void *)call->b.data);
  free((void *)call->a.data);
  free(call->c);
}

static void expect_launches(bool several) {
  assert_true((several ? launched.late : launched.early) > 0);
  assert_int_equal(several ? launched.early : launched.late, 0);
  assert_int_equal(launched.others_late, 0);
}

static float *zeros(int64_t rows, int64_t columns) {
  float *const x = calloc((size_t)(rows * columns), sizeof *x);
  assert_non_null(x);
  return x;
}

/* One tile, and several. */
static void of_a_product(void **state) {
  (void)state;
  const struct tb_choice whole = {.family = TB_FAMILY_EMULATED, .emulated = {.splits = 1}};
  for (int several = 0; several < 2; several++) {
    const int64_t side = several ? 1100 : 200, k = 40;
    const struct tb_call call = {.m = side,
                                 .n = side,
                                 .k = k,
                                 .alpha = {1},
                                 .a = {.data = zeros(side, k), .ld = side},
                                 .b = {.data = zeros(k, side), .ld = k},
                                 .c = zeros(side, side),
                                 .ldc = side};
    run(&call, &whole);
    assert_int_equal(part.plan.streams, several ? TB_COMPUTE_STREAMS : 1);
    expect_launches(several);
  }
}

/* One block, and several. */
static void of_triangles(enum tb_recipe recipe, int64_t order, enum tb_triangular_how how) {
  for (int several = 0; several < 2; several++) {
    const int64_t sides = several ? 600 : 200;
    float *const a = zeros(order, order), *const b = zeros(order, sides);
    struct tb_call call = {.m = order, .n = sides, .k = order, .alpha = {1}, .c = b, .ldc = order, .recipe = recipe};
    call.a = (struct tb_view){.data = a, .ld = order, .unit = true, .structure = TB_TRIANGULAR, .uplo = TB_LOWER};
    call.b = (struct tb_view){.data = b, .ld = order};
    const struct tb_choice whole = tb_part_choose(&gpu, &call, tb_part_ways(&call, NULL));
    run(&call, &whole);
    assert_int_equal(part.triangular.plan.how, how);
    assert_int_equal(part.triangular.plan.streams > 1, several);
    expect_launches(several);
  }
}

static void of_planes(void **state) {
  (void)state;
  of_triangles(TB_TRIANGULAR_MULTIPLY, 300, TB_BY_PLANES);
}

static void of_halves(void **state) {
  (void)state;
  of_triangles(TB_TRIANGULAR_SOLVE, 300, TB_BY_HALVES);
}

int main(void) {
  setenv("FAKE_CUDA_SMS", "2", 1); /* for which products of these sizes are large */
  fake = tst_fake();
  if (fake == NULL) return 77;
  const struct CMUnitTest tests[] = {cmocka_unit_test(of_a_product), cmocka_unit_test(of_planes),
                                     cmocka_unit_test(of_halves)};
  return cmocka_run_group_tests(tests, open_gpu, close_gpu);
}
