/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the router makes of measurements that an earlier process kept, here of a synthetic machine: what it learns lasts
 * when the GPU is found to be the one that was measured, and the short way of small calls hears of the BLAS's threads.
 * And what it makes of an operand that may stay on the GPU. Only decisions are asked for. Each case is a process of its
 * own.
 *
 * Seen to fail when: the model is fitted again to the figures that it has; a change of threads is not published; nobody
 * tells the GPUs the link's rate; no call goes to the GPU for an operand that may stay there, or one goes that is
 * short, that would wait for others', or while nothing is kept; a call beside others teaches what it takes alone, or
 * nothing; a child waits for its parent's calls; the link is measured before it is done.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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
#include "tileblas.h"

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

/* ---- an operand that may stay ---- */

/* A of 16 MB takes four times as long on its way up as the CPU takes for the call; B is next to nothing. */
enum { STAY_ROWS = 2048, STAY_COLUMNS = 2048, FEW = 12 };

static const struct tst_synthetic slow_way_up = {.cpu_call_seconds = 0.4e-6,
                                                 .cpu_flops_per_s = 2e11,
                                                 .cpu_half_side = 10,
                                                 .cpu_bytes_per_s = 60e9,
                                                 .gpu_latency_seconds = 45e-6,
                                                 .gpu_flops_per_s = 45e12,
                                                 .copy_bytes_per_s = 5e9};

static float *stays_there; /* A, or B */

static struct tb_call call_of(bool b_stays, int64_t columns) {
  struct tb_call call = {.symbol = TB_SYMBOL_cblas_sgemm, .k = columns, .alpha = {1}};
  call.m = b_stays ? FEW : STAY_ROWS, call.n = b_stays ? STAY_ROWS : FEW;
  call.a = (struct tb_view){.data = stays_there, .ld = call.m};
  call.b = (struct tb_view){.data = stays_there, .ld = call.k};
  return call;
}

static struct tb_decision decide_call(const struct tb_call *call) {
  return tb_router_decide(call, NULL, TB_ROUTE_AUTO);
}

static bool is_left_to_the_cpu(const struct tb_decision *d) {
  return d->where == TB_CPU && d->stays == TB_NONE_STAYS && d->place == 0;
}

/* So many calls in a row stay on the CPU. */
static bool all_stay(const struct tb_call *call, int calls) {
  for (int i = 0; i < calls; i++) {
    const struct tb_decision d = decide_call(call);
    if (!is_left_to_the_cpu(&d)) return false;
  }
  return true;
}

/* It goes there when what its calls would have gained comes to a few ways up, and not before: nothing is kept, it is
 * short, or others are there. */
static int goes_for_what_stays(void *of_b) {
  const bool b_stays = of_b != NULL;
  stays_there = calloc(STAY_ROWS * STAY_COLUMNS, sizeof *stays_there);
  keep(&slow_way_up, 1);
  tileblas_option_set("TILEBLAS_CACHE", "1G");
  struct tb_call call = call_of(b_stays, STAY_COLUMNS);
  struct tb_decision d = decide_call(&call);
  const struct tb_decision first = d;
  int calls = 1;
  if (d.why != TB_STATUS_cpu_sooner || !(d.gpu_seconds > 2 * d.cpu_seconds) || !(d.cpu_seconds > 200e-6)) return 1;
  while (d.where == TB_CPU && calls < 100) d = decide_call(&call), calls++;
  /* Four ways up, each of three times a call on the CPU or more, by calls that gain less than they take there. */
  if (d.where != TB_GPU || d.why != TB_STATUS_stays || calls < 12 || calls > 40) return 2;
  if (d.stays != (b_stays ? TB_B_STAYS : TB_A_STAYS) || d.clear) return 3;
  if (!(d.gpu_seconds < 0.5 * d.cpu_seconds) || d.cpu_seconds != first.cpu_seconds) return 4;
  if (d.place != 1 || d.joined == 0 || d.found_seconds != 0 || d.wait_seconds != 0 || !(d.expected > 0)) return 5;
  /* While it is there the next one would wait. */
  const struct tb_decision next = decide_call(&call);
  if (!(next.wait_seconds > 0) || !is_left_to_the_cpu(&next)) return 6;
  if (next.wait_seconds > d.expected * d.gpu_seconds * 1.01) return 7; /* for what it takes with the copy */
  tb_router_leave(&d);
  d = decide_call(&call);
  if (d.why != TB_STATUS_stays || d.place != 1) return 8;
  tb_router_leave(&d);
  tileblas_option_set("TILEBLAS_CACHE", "off");
  if (!all_stay(&call, 3)) return 9;
  tileblas_option_set("TILEBLAS_CACHE", "1G");
  d = decide_call(&call);
  if (d.why != TB_STATUS_stays) return 10;
  tb_router_leave(&d);
  return 0;
}

/* To look at an operand costs too much of a call that the CPU has done in less than 200 us. */
static int goes_not_for_a_short_call(void *unused) {
  (void)unused;
  struct tst_synthetic quick = slow_way_up;
  quick.cpu_flops_per_s = 2e12, quick.cpu_bytes_per_s = 40e9, quick.copy_bytes_per_s = 10e9;
  stays_there = calloc(STAY_ROWS * STAY_COLUMNS, sizeof *stays_there);
  keep(&quick, 1);
  tileblas_option_set("TILEBLAS_CACHE", "1G");
  struct tb_call call = call_of(false, 700);
  call.n = 2 * FEW;
  const struct tb_decision d = decide_call(&call);
  if (d.why != TB_STATUS_cpu_sooner || !(d.cpu_seconds < 200e-6) || !(d.gpu_seconds > 400e-6)) return 1;
  if (!all_stay(&call, 200)) return 2;
  call.k = STAY_COLUMNS; /* three times as long */
  for (int i = 0; i < 200; i++)
    if (decide_call(&call).why == TB_STATUS_stays) return 0;
  return 3;
}

/* What lies on the GPU, or is pinned, goes where it goes without that. */
static int goes_not_for_what_is_pinned(void *unused) {
  (void)unused;
  const struct tb_places pinned = {.b = {.place = TB_PINNED}};
  stays_there = calloc(STAY_ROWS * STAY_COLUMNS, sizeof *stays_there);
  keep(&slow_way_up, 1);
  tileblas_option_set("TILEBLAS_CACHE", "1G");
  const struct tb_call call = call_of(false, STAY_COLUMNS);
  for (int i = 0; i < 100; i++) {
    const struct tb_decision d = tb_router_decide(&call, &pinned, TB_ROUTE_AUTO);
    if (!is_left_to_the_cpu(&d)) return 1;
  }
  struct tb_call mirrored = call; /* nor does what cannot stay */
  mirrored.a.structure = TB_SYMMETRIC, mirrored.k = mirrored.m;
  if (decide_call(&mirrored).why != TB_STATUS_cpu_sooner) return 2;
  return all_stay(&mirrored, 100) ? 0 : 3;
}

/* ---- calls of several threads ---- */

/* What a call took on the GPU that others joined, or that found others there, is not its time alone; it says how long
 * the next ones wait. */
static int learns_with_care_beside_others(void *unused) {
  (void)unused;
  keep(&tst_synthetic, 1);
  const struct tb_call call = {.symbol = TB_SYMBOL_cblas_sgemm, .m = 3000, .n = 3000, .k = 3000, .alpha = {1}};
  struct tb_decision next = decide(3000); /* finds out that it is the GPU that was measured */
  tb_router_leave(&next);
  struct tb_decision first = decide(3000), second = decide(3000);
  if (first.where != TB_GPU || first.place != 1 || first.found_seconds != 0 || first.wait_seconds != 0) return 1;
  if (second.where != TB_GPU || second.place != 2 || second.joined != first.joined + 1 || !(second.wait_seconds > 0))
    return 2;
  const double alone = first.gpu_seconds, share = second.wait_seconds / alone;
  if (second.found_seconds != alone || second.gpu_seconds < alone + 0.99 * second.wait_seconds) return 3;
  tb_router_leave(&second);
  for (int i = 0; i < 10; i++) tb_router_learn(&call, NULL, &first, TB_GPU, 5 * alone, tb_clock_seconds());
  tb_router_leave(&first);
  next = decide(3000);
  if (next.gpu_seconds != alone || next.wait_seconds != 0) return 4; /* of the first nothing was learned */
  tb_router_leave(&next);
  /* The second waited twice as long as was expected, and a tenth of that is believed each time. */
  for (int i = 0; i < 50; i++)
    tb_router_learn(&call, NULL, &second, TB_GPU, alone + 2 * share * alone, tb_clock_seconds());
  first = decide(3000), second = decide(3000);
  if (first.gpu_seconds != alone || !(second.wait_seconds > 1.9 * share * alone)) return 5;
  if (!(second.wait_seconds < 2.1 * share * alone)) return 7;
  tb_router_leave(&first), tb_router_leave(&second);
  /* One that had it for itself says what it takes; twice is the most that is believed at once. */
  first = decide(3000);
  for (int i = 0; i < 10; i++) tb_router_learn(&call, NULL, &first, TB_GPU, 1.3 * alone, tb_clock_seconds());
  tb_router_leave(&first);
  return decide(3000).gpu_seconds > 1.05 * alone ? 0 : 6;
}

/* A call of the CPU's is alone there, whoever is on the GPU: what it takes is put by until the GPU can be tried. */
static int tries_the_gpu(void *unused) {
  (void)unused;
  struct tst_synthetic machine = tst_synthetic;
  machine.gpu_latency_seconds = 1e-3;
  keep(&machine, 1);
  const struct tb_call call = {.symbol = TB_SYMBOL_cblas_sgemm, .m = 400, .n = 400, .k = 400, .alpha = {1}};
  struct tb_decision of_gpu = decide(8000);
  tb_router_leave(&of_gpu);
  for (int i = 0; i < 3000; i++) {
    const struct tb_decision d = decide(400);
    if (d.why == TB_STATUS_tried) return i > 500 && d.where == TB_GPU ? 0 : 1;
    if (d.where != TB_CPU) return 2;
    tb_router_learn(&call, NULL, &d, TB_CPU, d.cpu_seconds, tb_clock_seconds());
  }
  return 3;
}

/* Eight slots go up and come down, and what that takes is measured to its end: a rate is one that memory has. */
static int measures_the_link(void *unused) {
  (void)unused;
  const double most = 1e12, bytes = 8 * (double)TB_SLOT_BYTES;
  const struct tst_fake *const fake = tst_fake();
  double up = 0, down = 0;
  tb_run_initialise();
  if (tb_offload_measure_link(&up, &down) || up != 0 || down != 0) return 1; /* no GPU is open */
  struct tb_gpu_identity gpu;
  if (!tb_offload_open(&gpu)) return 2;
  const uint64_t before[] = {fake->get(FAKE_CUDA_BYTES_UP), fake->get(FAKE_CUDA_BYTES_DOWN)};
  const double begun = tb_clock_seconds();
  if (!tb_offload_measure_link(&up, &down)) return 3;
  const double seconds = tb_clock_seconds() - begun;
  if ((double)(fake->get(FAKE_CUDA_BYTES_UP) - before[0]) != bytes) return 4;
  if ((double)(fake->get(FAKE_CUDA_BYTES_DOWN) - before[1]) != bytes) return 5;
  if (!(up < most && down < most && bytes / up + bytes / down <= seconds)) return 6;
  return fake->current() == NULL && fake->get(FAKE_CUDA_MISUSES) == 0 ? 0 : 7;
}

/* In the child of a fork nobody waits for the parent's calls. */
static int child_waits_for_nobody(void *unused) {
  (void)unused;
  static const struct tb_call call = {.symbol = TB_SYMBOL_cblas_sgemm, .m = 9000, .n = 9000, .k = 9000, .alpha = {1}};
  tileblas_option_set("TILEBLAS_CALIBRATION", "off");
  tst_fake();
  tb_run_initialise();
  const struct tb_decision of_parent = decide_call(&call); /* nobody has called the driver */
  if (of_parent.where != TB_GPU || of_parent.place != 1) return 1;
  if (!(decide_call(&call).wait_seconds > 0)) return 2;
  const pid_t child = fork();
  if (child == 0) {
    const struct tb_decision d = decide_call(&call);
    _exit(d.where == TB_GPU && d.place == 1 && d.wait_seconds == 0 ? 0 : 1);
  }
  int status;
  return waitpid(child, &status, 0) == child && status == 0 ? 0 : 3;
}

/* ---- cases ---- */

static void expect_of(int (*body)(void *), void *argument) {
  struct tst_output o;
  snprintf(folder, sizeof folder, "%s.d/tileblas", tst_temporary_file());
  char *cache = strdup(folder);
  assert_non_null(cache);
  *strrchr(cache, '/') = '\0';
  setenv("XDG_CACHE_HOME", cache, 1);
  tb_environment_read();
  tst_fork(&o, body, argument);
  assert_int_equal(system(tst_format("rm -rf '%s'", cache)), 0);
  free(cache);
  if (o.status != 0 || o.err[0]) fail_msg("status %d\n%s%s", o.status, o.out, o.err);
  tst_output_destroy(&o);
}

static void expect(int (*body)(void *)) { expect_of(body, NULL); }

static void the_measured_gpu(void **state) {
  (void)state;
  expect(keeps_what_was_learned);
}

static void other_threads(void **state) {
  (void)state;
  expect(hears_of_threads);
}

static void what_may_stay(void **state) {
  (void)state;
  expect_of(goes_for_what_stays, NULL);
  expect_of(goes_for_what_stays, (void *)1);
  expect(goes_not_for_a_short_call);
  expect(goes_not_for_what_is_pinned);
}

static void several_threads(void **state) {
  (void)state;
  expect(learns_with_care_beside_others);
  expect(tries_the_gpu);
  expect(measures_the_link);
  expect(child_waits_for_nobody);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_measured_gpu), cmocka_unit_test(other_threads),
                                     cmocka_unit_test(what_may_stay), cmocka_unit_test(several_threads)};
  if (tst_setting("TB_TEST_FAKE_DIR")[0] == '\0') tst_skip("only the fake driver's GPU may be taken for another");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
