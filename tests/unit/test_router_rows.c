/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that follow one of their shape and are not weighed themselves (router.h): so many and no more, none that
 * somebody observes, and none that differs from the one before in any field that counts towards a shape. Only decisions
 * are asked for. And what is small, for each type. Each case is a process of its own.
 *
 * Seen to fail when: a call follows one of another m, n, k or transpose, or one that was not clear, or without end; the
 * first call of a shape takes another's followers for its own; a complex multiplication and addition counts as two
 * operations where small calls are told from others.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "process.h"
#include "route/cpu_side.h"
#include "route/learn.h"
#include "route/model.h"
#include "route/route.h"
#include "route/router.h"
#include "interface/run.h"
#include "tileblas.h"

#define FOLLOWERS 7 /* as router.c has it */

/* Its operands are never touched. */
static const struct tb_call usual = {.symbol = TB_SYMBOL_cblas_sgemm, .m = 100, .n = 100, .k = 100, .alpha = {1}};

static struct tb_decision decide(const struct tb_call *call, bool observed) {
  struct tb_decision d;
  if (observed || !tb_router_follows(call, TB_ROUTE_AUTO, &d)) d = tb_router_decide(call, NULL, TB_ROUTE_AUTO);
  /* As run.c does it: a call takes 30 us, unless nobody looks. */
  if (!d.follows) tb_router_learn(call, NULL, &d, TB_CPU, 30e-6, tb_clock_seconds());
  return d;
}

static bool follows(const struct tb_decision *d) {
  return d->follows && d->where == TB_CPU && d->why == TB_STATUS_cpu_sooner && d->cpu_seconds == 0 && d->at == 0;
}

/* A GPU of which nothing is known but that it takes 150 us for anything: a shape of 30 us is clearly the CPU's once its
 * time is known. Returns when the latest of its calls was weighed and others may follow it. */
static bool settle_on(const struct tb_call *call) {
  struct tb_decision d;
  for (int i = 0; i < 50; i++) d = decide(call, false);
  for (int i = 0; i < 50 && d.follows; i++) d = decide(call, false);
  return !d.follows && d.cpu_seconds > 0 && d.at > 0 && d.clear && d.followers == FOLLOWERS;
}

static void begin(void) {
  tileblas_option_set("TILEBLAS_CALIBRATION", "off");
  alarm(60);
  tb_run_initialise();
}

static int rows_of_calls(void *unused) {
  (void)unused;
  begin();
  struct tb_decision d;
  if (!settle_on(&usual)) return 1;
  for (int row = 0; row < 3; row++) {
    for (int i = 0; i < FOLLOWERS; i++) {
      d = decide(&usual, false);
      if (!follows(&d)) return 2;
    }
    d = decide(&usual, false);
    if (d.follows || d.followers != FOLLOWERS) return 3;
  }
  d = decide(&usual, true); /* not when somebody looks, who then has none behind him */
  if (d.follows || d.followers != 0) return 4;
  d = decide(&usual, false);
  return follows(&d) ? 0 : 5;
}

/* The same call in another field that counts towards its shape. */
static struct tb_call changed(int field) {
  struct tb_call call = usual;
  if (field == 0) call.m++;
  if (field == 1) call.n++;
  if (field == 2) call.k++;
  if (field == 3) call.a.transposed = true;
  if (field == 4) call.b.transposed = true;
  return call;
}
enum { FIELDS = 5 };

/* From whichever of the two, the other one is weighed, counts no followers that were not its own, and is learned from;
 * so is the first one when it comes back, though its own time is known. */
static int another_field(void *number) {
  begin();
  const struct tb_call other = changed((int)(intptr_t)number / 2);
  const bool back = (intptr_t)number % 2;
  const struct tb_call *first = back ? &other : &usual, *second = back ? &usual : &other;
  if (!settle_on(second) || !settle_on(first)) return 1;
  for (int i = 0; i < 3; i++) {
    struct tb_decision d = decide(first, false);
    if (!follows(&d)) return 2;
  }
  struct tb_decision d = decide(second, false);
  if (d.follows || d.followers != 0 || !(d.cpu_seconds > 0)) return 3;
  d = decide(first, false);
  if (d.follows || d.followers != 0 || !(d.cpu_seconds > 0)) return 4;
  d = decide(first, false);
  return follows(&d) ? 0 : 5;
}

/* Where the operands lie, alpha, beta and leading dimensions are no part of a shape: such calls follow. */
static int what_is_no_shape(void *unused) {
  (void)unused;
  begin();
  static float memory[2];
  if (!settle_on(&usual)) return 1;
  struct tb_call call = usual;
  call.alpha.s = 3, call.beta.s = 2, call.a.ld = 300, call.b.ld = 400, call.ldc = 500;
  call.a.data = memory, call.b.data = memory + 1, call.c = memory;
  const struct tb_decision d = decide(&call, false);
  return follows(&d) ? 0 : 2;
}

/* Another thread's calls are a row of their own. */
/* What is published as small is what the type's model says, in its own operations. */
static int small_by_the_model(void *unused) {
  static const enum tb_symbol symbols[] = {TB_SYMBOL_cblas_sgemm, TB_SYMBOL_cblas_dgemm, TB_SYMBOL_cblas_cgemm,
                                           TB_SYMBOL_cblas_zgemm};
  static struct tb_model model;
  (void)unused;
  begin();
  for (int type = 0; type < TB_TYPE_COUNT; type++) {
    struct tb_call call = usual;
    struct tb_cpu_side side;
    call.symbol = symbols[type], call.type = (enum tb_type)type;
    call.alpha = tb_scalar_of(call.type, 1);
    decide(&call, true);
    tb_cpu_side_look(&side, call.symbol);
    tb_model_assume(&model, call.type, side.cores);
    tb_model_set_threads(&model, tb_cpu_side_threads()); /* as the CPU BLAS says that it has */
    const double wanted = tb_model_small_flops(&model), published = tb_route_small_flops(call.type);
    if (published > wanted || published < wanted - tb_type_flops(call.type)) return 1 + type;
  }
  return 0;
}

static void *decide_once(void *decision) {
  *(struct tb_decision *)decision = decide(&usual, false);
  return NULL;
}

static int another_thread(void *unused) {
  (void)unused;
  begin();
  pthread_t thread;
  struct tb_decision d;
  if (!settle_on(&usual)) return 1;
  pthread_create(&thread, NULL, decide_once, &d);
  pthread_join(thread, NULL);
  if (d.follows) return 2;
  d = decide(&usual, false);
  return follows(&d) ? 0 : 3;
}

static void expect(int (*body)(void *), void *argument) {
  struct tst_output o;
  tst_fork(&o, body, argument);
  if (o.status != 0 || o.err[0]) fail_msg("case %d: status %d\n%s", (int)(intptr_t)argument, o.status, o.err);
  tst_output_destroy(&o);
}

static void calls_that_follow(void **state) {
  (void)state;
  expect(rows_of_calls, NULL);
  expect(what_is_no_shape, NULL);
  expect(another_thread, NULL);
}

static void calls_of_another_shape(void **state) {
  (void)state;
  for (intptr_t number = 0; number < 2 * FIELDS; number++) expect(another_field, (void *)number);
}

static void small_calls_of_every_type(void **state) {
  (void)state;
  expect(small_by_the_model, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(calls_that_follow), cmocka_unit_test(calls_of_another_shape),
                                     cmocka_unit_test(small_calls_of_every_type)};
  if (tst_setting("TB_TEST_FAKE_DIR")[0] == '\0') tst_skip("only the fake driver's GPU is known to be there");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
