/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a process may do around a call and get away with: cancel the thread that makes it, own a handler for faults in
 * the memory that it hands over, and load a library that calls BLAS while it is being loaded. Each in a child that is
 * the first to use the library, with a time limit.
 *
 * Seen to fail when: a thread is cancelled where a message is written, with a lock in its hands; the copying threads
 * block the signals of faults; the CPU BLAS is searched for with a lock held.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "abi.h"
#include "fake.h"
#include "process.h"
#include "tileblas.h"

#define TIME_LIMIT_S 60

atomic_int tst_loading; /* calls_at_load.c: 0: not yet, 1: in its constructor, 2: and its call was right */

/* C = A B, n x n with k = 1, all ones; through cblas_sgemm. */
static bool product_is_right(int64_t n, float *c) {
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm");
  const struct tst_problem p = {
      .trans_a = 'N', .trans_b = 'N', .m = n, .n = n, .k = 1, .alpha = 1, .lda = n, .ldb = 1, .ldc = n};
  float *ones = malloc((size_t)n * sizeof *ones);
  if (!ones) abort();
  for (int64_t i = 0; i < n; i++) ones[i] = 1;
  tst_call(symbol, tst_resolve(symbol), &p, ones, ones, c);
  free(ones);
  tileblas_stats stats;
  tileblas_stats_get(&stats);
  if (stats.gpu_calls + stats.cpu_calls == 0) return false; /* somebody else answered */
  for (int64_t i = 0; i < n * n; i++)
    if (!(c[i] == 1)) return false;
  return true;
}

static void expect_output(struct tst_output *o, size_t lines) {
  if (o->status != 0 || tst_count_lines(o->err, "tileblas: ") != lines)
    fail_msg("status %d\n%s%s", o->status, o->out, o->err);
  tst_output_destroy(o);
}

static void expect_success(int (*body)(void *), size_t lines) {
  struct tst_output o;
  tst_fork(&o, body, NULL);
  expect_output(&o, lines);
}

/* ---- cancelled ---- */

static void *cancelled_while_it_calls(void *right) {
  float c[64];
  pthread_cancel(pthread_self()); /* takes effect at the next cancellation point; BLAS has none */
  *(bool *)right = product_is_right(8, c);
  return NULL;
}

static int cancel(void) {
  alarm(TIME_LIMIT_S);
  const struct tst_fake *fake = tst_fake();
  if (fake && fake->inject("cuLaunchKernel", 1, 999, 0) != 0) return 2;
  pthread_t id;
  bool right = false;
  float c[64];
  if (pthread_create(&id, NULL, cancelled_while_it_calls, &right) != 0) return 3;
  pthread_join(id, NULL);
  if (!right) return 4;
  return product_is_right(8, c) ? 0 : 5;
}

static void a_cancelled_thread_ends_its_call(void **state) {
  (void)state;
  struct tst_output o;
  const char *const command[] = {"/proc/self/exe", "cancel", NULL};
  /* The first message; the failing launch makes the second. The environment is read when the library is loaded. */
  const char *const environment[] = {"TILEBLAS_NONSENSE=1", NULL};
  tst_run(&o, command, environment);
  expect_output(&o, 1 + (tst_fake() && tst_setting("TB_TEST_EXPECT")[0] == 'g'));
}

/* ---- memory with a handler behind it ---- */

#define SIDE 1024
static float *guarded;

static void open_the_page(int signal_number, siginfo_t *info, void *context) {
  (void)signal_number, (void)context;
  uintptr_t page = (uintptr_t)info->si_addr & ~(uintptr_t)4095;
  if (page < (uintptr_t)guarded || page >= (uintptr_t)(guarded + SIDE * SIDE)) _exit(9);
  mprotect((void *)page, 4096, PROT_READ | PROT_WRITE);
}

static int guard(void *unused) {
  (void)unused;
  alarm(TIME_LIMIT_S);
  const size_t bytes = SIDE * SIDE * sizeof *guarded;
  guarded = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (guarded == MAP_FAILED) return 2;
  struct sigaction action = {.sa_sigaction = open_the_page, .sa_flags = SA_SIGINFO};
  if (sigaction(SIGSEGV, &action, NULL) != 0) return 3;
  for (int round = 0; round < 5; round++) { /* so that every copying thread meets a closed page */
    if (mprotect(guarded, bytes, PROT_NONE) != 0) return 4;
    if (!product_is_right(SIDE, guarded)) return 5;
  }
  return 0;
}

static void faults_in_the_programs_memory_are_its_own(void **state) {
  (void)state;
  expect_success(guard, 0);
}

/* ---- loading ---- */

static void *load(void *unused) {
  (void)unused;
  return dlopen(tst_format("%s/libcalls_at_load.so", tst_setting("TB_TEST_BUILD_DIR")), RTLD_NOW);
}

/* The first call of this thread meets a loader that is held by a constructor, which makes its own first call. */
static int call_during_load(void *unused) {
  (void)unused;
  alarm(TIME_LIMIT_S);
  tileblas_option_set("TILEBLAS_ROUTE", "cpu");
  pthread_t id;
  void *module;
  float c[64];
  if (pthread_create(&id, NULL, load, NULL) != 0) return 2;
  while (!tst_loading) usleep(1000);
  if (!product_is_right(8, c)) return 3;
  pthread_join(id, &module);
  return module == NULL ? 4 : tst_loading == 2 ? 0 : 5;
}

static void a_constructor_may_call(void **state) {
  (void)state;
  expect_success(call_during_load, 0);
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "cancel") == 0) return cancel();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_cancelled_thread_ends_its_call),
      cmocka_unit_test(faults_in_the_programs_memory_are_its_own),
      cmocka_unit_test(a_constructor_may_call),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
