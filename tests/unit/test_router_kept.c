/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the router makes of measurements that an earlier process kept, here of a synthetic machine: what it learns lasts
 * when the GPU is found to be the one that was measured, and the short way of small calls hears of the BLAS's threads.
 * Only decisions are asked for; no operand is ever touched. Each case is a process of its own.
 *
 * Seen to fail when: the model is fitted again to the figures that it has; a change of threads is not published; nobody
 * tells the GPUs the link's rate.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "route/calibration_file.h"
#include "base/clock.h"
#include "route/cpu_side.h"
#include "process/environment.h"
#include "fake.h"
#include "route/learn.h"
#include "offload/offload.h"
#include "offload/part.h"
#include "process.h"
#include "route/router.h"
#include "interface/run.h"
#include "interface/short_way.h"
#include "synthetic.h"

static char folder[300];

/* Keeps measurements of a synthetic machine for this one, whose CPU BLAS had so many threads then. */
static struct tb_calibration keep(const struct tst_synthetic *machine, int threads) {
  struct tb_cpu_side side;
  struct tb_gpu_identity gpu;
  char path[TB_CALIBRATION_PATH_MAX];
  tst_fake();
  tb_run_initialise();
  tb_cpu_side_look(&side, TB_SYMBOL_cblas_sgemm);
  if (!tb_offload_open(&gpu)) exit(8);
  struct tb_calibration c = tst_synthetic_calibration(machine, TB_NODES);
  c.cpu_threads = threads;
  const struct tb_machine_key key = {side.processor, side.blas, gpu.text, TB_S};
  if (!tb_calibration_write(folder, &key, &c, path)) exit(9);
  return c;
}

static struct tb_decision decide(int64_t side) {
  const struct tb_call call = {.symbol = TB_SYMBOL_cblas_sgemm, .m = side, .n = side, .k = side, .alpha = {1}};
  return tb_router_decide(&call, NULL, TB_ROUTE_AUTO);
}

/* What was learned while nobody knew which GPU it is stays when it is found to be the one that was measured. */
static int keeps_what_was_learned(void *unused) {
  (void)unused;
  struct tst_synthetic machine = tst_synthetic;
  machine.gpu_latency_seconds = 1e-3; /* so that a call which is not small is the CPU's */
  const struct tb_calibration kept = keep(&machine, 1);
  const struct tb_call call = {.symbol = TB_SYMBOL_cblas_sgemm, .m = 400, .n = 400, .k = 400, .alpha = {1}};
  const struct tb_decision first = decide(400);
  if (first.where != TB_CPU || !(first.cpu_seconds > 0)) return 1;
  for (int i = 0; i < 10; i++) tb_router_learn(&call, NULL, &first, TB_CPU, 2 * first.cpu_seconds, tb_clock_seconds());
  const double learned = decide(400).cpu_seconds;
  if (!(learned > 1.5 * first.cpu_seconds)) return 2;
  if (decide(8000).where != TB_GPU || tst_fake()->calls("cuLaunchKernel") > 0) return 3;
  if (tb_part_link() != kept.link_up_bytes_per_s) return 5; /* by which calls are planned */
  return decide(400).cpu_seconds > 1.5 * first.cpu_seconds ? 0 : 4;
}

/* The short way hears of it when the BLAS has other threads than it was measured with. */
static int hears_of_threads(void *unused) {
  (void)unused;
  static struct tb_model model;
  const struct tb_calibration kept = keep(&tst_synthetic, 4);
  tb_model_fit(&model, TB_S, &kept, tb_cpu_side_cores());
  const long long by_four = (long long)(tb_model_small_flops(&model) / 2);
  if (tb_cpu_side_threads() != 1 || !tb_model_set_threads(&model, 1)) return 1;
  const long long by_one = (long long)(tb_model_small_flops(&model) / 2);
  if (!(by_one < by_four)) return 2;
  decide(100);
  return tb_route_small_terms[TB_S] == by_one && tb_small.terms[TB_S] == (unsigned long long)by_one ? 0 : 3;
}

static void expect(int (*body)(void *)) {
  struct tst_output o;
  snprintf(folder, sizeof folder, "%s.d/tileblas", tst_temporary_file());
  char *cache = strdup(folder);
  assert_non_null(cache);
  *strrchr(cache, '/') = '\0';
  setenv("XDG_CACHE_HOME", cache, 1);
  tb_environment_read();
  tst_fork(&o, body, NULL);
  assert_int_equal(system(tst_format("rm -rf '%s'", cache)), 0);
  free(cache);
  if (o.status != 0 || o.err[0]) fail_msg("status %d\n%s%s", o.status, o.out, o.err);
  tst_output_destroy(&o);
}

static void the_measured_gpu(void **state) {
  (void)state;
  expect(keeps_what_was_learned);
}

static void other_threads(void **state) {
  (void)state;
  expect(hears_of_threads);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_measured_gpu), cmocka_unit_test(other_threads)};
  if (tst_setting("TB_TEST_FAKE_DIR")[0] == '\0') tst_skip("only the fake driver's GPU may be taken for another");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
