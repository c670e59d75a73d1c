/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls from a thread whose stack has no room for the work: products and batches, on either side, are right, added to C
 * once and counted once. A thread of ours does what wants room; where none is to be had, the caller does. What a
 * failing GPU leaves the CPU computes there by the caller's rounding.
 *
 * Each case is a process of its own. Seen to fail when: what the other thread has answered is asked of the CPU, too, or
 * what it left to the CPU is not; the caller's floating point stays behind; no thread, and nothing is computed.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "batch_call.h"
#include "fake.h"
#include "process.h"
#include "tileblas.h"

#define STACK_BYTES ((size_t)448 << 10) /* less than the work wants (process/stack.h) */
#define CUDA_ERROR_UNKNOWN 999

/* ---- threads that the library starts ---- */

static _Thread_local bool watching;
static atomic_int started;
static atomic_bool refused;

/* In place of the C library's. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *context) {
  static __typeof__(&pthread_create) real;
  if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
  if (watching) started++;
  return watching && refused ? EAGAIN : real(thread, attributes, body, context);
}

/* ---- calls ---- */

enum { SIDE = 40 };
static float a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE];

static bool product(bool watched) {
  const struct tst_problem p = {0, 'N', 'N', SIDE, SIDE, SIDE, 1, SIDE, SIDE, 1, SIDE};
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm");
  bool right = true;
  for (int i = 0; i < SIDE * SIDE; i++) a[i] = 1, b[i] = 2, c[i] = 3;
  watching = watched;
  tst_call(symbol, tst_resolve(symbol), &p, a, b, c);
  watching = false;
  for (int i = 0; i < SIDE * SIDE; i++) right &= c[i] == 2 * SIDE + 3;
  return right;
}

static bool batch(void) {
  static const struct batch_group groups[] = {{0, 1, 9, 6, 5, 1, {1, 0}, {1, 0}, 6},
                                              {1, 0, 4, 8, 7, 0, {2, 0}, {1, 0}, 3}};
  struct batch_call call = {.type = TST_S, .whole = true, .group = groups, .groups = 2};
  batch_create(&call, 3);
  tileblas_stats_reset(); /* of its products alone */
  watching = true;
  batch_run(&call, "cblas_sgemm_batch");
  watching = false;
  const bool right = batch_is_right(&call);
  batch_destroy(&call);
  return right;
}

struct stack_case {
  const char *route;
  bool is_batch, refused;
  int threads; /* that are asked for, at the least */
};

static void *on_a_small_stack(void *argument) {
  const struct stack_case *x = argument;
  if (tst_fake() == NULL && strcmp(x->route, "gpu") == 0)
    product(false); /* a real driver starts threads when it opens a GPU */
  for (int again = 0; again < 2; again++) {
    tileblas_stats stats;
    tileblas_stats_reset();
    started = 0;
    if (!(x->is_batch ? batch() : product(true))) return (void *)1;
    tileblas_stats_get(&stats);
    const bool gpu = strcmp(x->route, "gpu") == 0 && strcmp(tst_setting("TB_TEST_EXPECT"), "gpu") == 0;
    if (stats.gpu_calls != gpu || stats.cpu_calls != !gpu) return (void *)2;
    if (started < x->threads) return (void *)3;
  }
  return NULL;
}

static void *in_a_thread(void *(*body)(void *), void *argument) {
  pthread_attr_t attributes;
  pthread_t id;
  void *result;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  if (pthread_create(&id, &attributes, body, argument) != 0) return (void *)9;
  pthread_join(id, &result);
  return result;
}

static int one_case(void *argument) {
  const struct stack_case *x = argument;
  refused = x->refused;
  tileblas_option_set("TILEBLAS_ROUTE", x->route);
  return (int)(intptr_t)in_a_thread(on_a_small_stack, argument);
}

static void calls(void **state) {
  (void)state;
  static const struct stack_case cases[] = {{"gpu", false, false, 1}, {"gpu", true, false, 1}, {"cpu", false, false, 0},
                                            {"cpu", true, false, 1},  {"gpu", false, true, 1}, {"gpu", true, true, 1},
                                            {"cpu", true, true, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct tst_output o;
    tst_fork(&o, one_case, (void *)&cases[i]);
    if (o.status != 0 || o.err[0] != '\0') fail_msg("case %zu: status %d\n%s%s", i, o.status, o.out, o.err);
    tst_output_destroy(&o);
  }
}

/* ---- floating point ---- */

/* 0.1 * 0.1, rounded as the thread has it. */
static float tenth_of_a_tenth(const char *route) {
  const struct tst_problem p = {0, 'N', 'N', 1, 1, 1, 1, 1, 1, 0, 1};
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm");
  const float x = 0.1f;
  float y = 0;
  tileblas_option_set("TILEBLAS_ROUTE", route);
  tst_call(symbol, tst_resolve(symbol), &p, &x, &x, &y);
  return y;
}

static void *rounded_by_the_caller(void *way) {
  fesetround(*(int *)way);
  const float said = tenth_of_a_tenth("cpu");
  return tenth_of_a_tenth("gpu") == said && fegetround() == *(int *)way ? NULL : (void *)1;
}

static int a_failing_gpu(void *way) {
  const struct tst_fake *fake = tst_fake();
  if (fake != NULL) fake->inject("cuLaunchKernel", 0, CUDA_ERROR_UNKNOWN, 0);
  return (int)(intptr_t)in_a_thread(rounded_by_the_caller, way);
}

/* Of the two directions one is not that to the nearest. */
static void the_callers_rounding(void **state) {
  (void)state;
  if (tst_fake() == NULL) TST_LEAVE_OUT("a real driver fails on no command");
  static int ways[] = {FE_UPWARD, FE_DOWNWARD};
  for (int i = 0; i < 2; i++) {
    struct tst_output o;
    tst_fork(&o, a_failing_gpu, &ways[i]);
    if (o.status != 0) fail_msg("way %d: status %d\n%s%s", i, o.status, o.out, o.err);
    tst_output_destroy(&o);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(calls), cmocka_unit_test(the_callers_rounding)};
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
