/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Number 3: one thread is in the constructor of a library that is being loaded, so that it has the loader's lock, and
 * waits for another thread or calls the BLAS; the other makes its first BLAS call meanwhile. Both go on. The fake
 * driver loads a library when it is started, as NVIDIA's does.
 *
 * Each case is a process of its own, with an alarm. Seen to fail when: our lock is held while the driver is loaded; a
 * thread waits without end for the one that opens the GPU; the CPU BLAS, or the one that TILEBLAS_FALLBACK names, is
 * looked for in the call.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "loaded.h"
#include "process.h"
#include "tileblas.h"

#define SECONDS_MAX 20

static atomic_bool in_constructor, called;
static void *cblas_sgemm_of_library; /* looked up before, for that waits for the loader */
static bool must_wait;               /* the constructor is to end after the other thread's call */
static bool driver_is_there;         /* but it has not been started: to start it waits for the loader, too */

static void multiply(uint64_t seed) {
  struct tst_problem p = {.trans_a = 'N', .trans_b = 'N', .m = 100, .n = 100, .k = 100, .alpha = 1};
  struct tst_operands x;
  struct tst_expected expected;
  tst_set_leading(&p, 0);
  tst_operands_create(&x, &p, TST_INTEGERS, &seed);
  tst_expect(&expected, &p, &x);
  tst_call(tst_find_symbol("cblas_sgemm"), cblas_sgemm_of_library, &p, x.a.data, x.b.data, x.c.data);
  const char *wrong = tst_verify(&p, &x, &expected);
  if (wrong) {
    printf("%s\n", wrong);
    _exit(1);
  }
  tst_expected_destroy(&expected);
  tst_operands_destroy(&x);
}

/* By the library that is being loaded. */
void loaded_constructor(void) {
  atomic_store(&in_constructor, true);
  if (must_wait)
    while (!atomic_load(&called)) usleep(1000);
  else
    usleep(300000); /* by then the other thread waits for the loader */
  multiply(1);
}

static void *first_call(void *unused) {
  (void)unused;
  while (!atomic_load(&in_constructor)) usleep(1000);
  multiply(2);
  atomic_store(&called, true);
  return NULL;
}

static int both_threads_go_on(void *unused) {
  (void)unused;
  pthread_t thread;
  alarm(SECONDS_MAX);
  cblas_sgemm_of_library = tst_resolve(tst_find_symbol("cblas_sgemm"));
  if (driver_is_there) { /* and is known to our library, which looks where operands lie */
    tileblas_option_set("TILEBLAS_ROUTE", "cpu");
    if (!dlopen("libcuda.so.1", RTLD_NOW)) return 1;
    multiply(3);
  }
  tileblas_option_set("TILEBLAS_ROUTE", must_wait ? "cpu" : "gpu"); /* no driver without the loader */
  if (pthread_create(&thread, NULL, first_call, NULL) != 0) return 1;
  void *library = dlopen(tst_format("%s/libloaded.so", tst_setting("TB_TEST_BUILD_DIR")), RTLD_NOW);
  if (!library) printf("%s\n", dlerror());
  pthread_join(thread, NULL);
  return library ? 0 : 1;
}

static void expect_success(bool waits, bool driver) {
  struct tst_output o;
  must_wait = waits;
  driver_is_there = driver;
  tst_fork(&o, both_threads_go_on, NULL);
  if (o.status != 0 || o.err[0] != '\0') print_error("status %d\n%s%s", o.status, o.out, o.err);
  assert_true(o.status == 0 && o.err[0] == '\0');
  tst_output_destroy(&o);
}

static void a_call_while_a_constructor_calls(void **state) {
  (void)state;
  expect_success(false, false);
}

static void a_call_while_the_driver_waits_for_a_constructor(void **state) {
  (void)state;
  expect_success(false, true);
}

/* Without a GPU nothing is needed of the loader. */
static void a_constructor_that_waits_for_a_call(void **state) {
  (void)state;
  expect_success(true, false);
}

static void the_same_with_a_cpu_blas_by_name(void **state) {
  (void)state;
  const char *const command[] = {"/proc/self/exe", "waits", NULL};
  const char *const environment[] = {"TILEBLAS_FALLBACK=libopenblas.so.0", NULL};
  struct tst_output o;
  tst_run(&o, command, environment);
  if (o.status != 0 || o.err[0] != '\0') fail_msg("status %d\n%s%s", o.status, o.out, o.err);
  tst_output_destroy(&o);
}

int main(int argc, char **argv) {
  (void)argv;
  must_wait = argc > 1;
  if (must_wait) return both_threads_go_on(NULL);
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_call_while_a_constructor_calls),
                                     cmocka_unit_test(a_call_while_the_driver_waits_for_a_constructor),
                                     cmocka_unit_test(a_constructor_that_waits_for_a_call),
                                     cmocka_unit_test(the_same_with_a_cpu_blas_by_name)};
  return cmocka_run_group_tests_name("loader", tests, NULL, NULL);
}
