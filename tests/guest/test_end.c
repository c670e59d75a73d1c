/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Number 14: at the end of a process nothing is torn down, for what the program left on the GPU may run for ever; the
 * library that is unloaded gives all of it back (faults.dlopen). TILEBLAS_IDLE gives a GPU back that is not used.
 * Threads of ours are no real-time threads.
 *
 * Each case is a process of its own. Seen to fail when: memory is freed at exit; the context is kept though idle;
 * threads inherit their creator's policy.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake.h"
#include "cuda_program.h"
#include "process.h"
#include "tileblas.h"

static bool multiply(void) {
  struct guest_product product;
  guest_product_make(&product, 300, TST_PAGEABLE, 1);
  guest_product_call(&product);
  return guest_product_is_right(&product);
}

static int end_while_the_gpu_hangs(void *unused) {
  (void)unused;
  const struct tst_fake *fake = tst_fake();
  alarm(20);
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  const bool right = multiply() && guest_gpu_calls() == 1;
  fake->set_order(FAKE_CUDA_HANGING, 0);
  return right ? 0 : 1;
}

static int an_idle_gpu(void *unused) {
  (void)unused;
  const struct tst_fake *fake = tst_fake();
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  tileblas_option_set("TILEBLAS_IDLE", "1");
  bool right = true;
  for (uint64_t round = 1; round <= 2; round++) {
    right = right && multiply() && guest_gpu_calls() == round && fake->get(FAKE_CUDA_CONTEXTS) == 1;
    for (int i = 0; i < 50 && fake->get(FAKE_CUDA_CONTEXTS) > 0; i++) usleep(100000);
    right = right && fake->get(FAKE_CUDA_CONTEXTS) == 0 && fake->get(FAKE_CUDA_ABANDONED) == 0;
  }
  return right ? 0 : 1;
}

/* Of all threads but this one. */
static int count_threads(int policy) {
  int count = 0;
  DIR *folder = opendir("/proc/self/task");
  for (const struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
    const pid_t thread = atoi(entry->d_name);
    if (thread > 0 && thread != gettid() && sched_getscheduler(thread) == policy) count++;
  }
  if (folder) closedir(folder);
  return count;
}

static int a_real_time_thread(void *unused) {
  (void)unused;
  const struct sched_param parameters = {.sched_priority = 1};
  if (sched_setscheduler(0, SCHED_FIFO, &parameters) != 0) {
    printf("skipped: no right to real-time policies (%s)\n", strerror(errno));
    return 77;
  }
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  const bool right = multiply() && guest_gpu_calls() == 1;
  printf("%d ordinary threads, %d others\n", count_threads(SCHED_OTHER), count_threads(SCHED_FIFO));
  return right && count_threads(SCHED_OTHER) > 0 && count_threads(SCHED_FIFO) == 0 ? 0 : 1;
}

static void expect_success(int (*body)(void *)) {
  struct tst_output o;
  tst_fork(&o, body, NULL);
  if (o.status != 0 || o.err[0] != '\0') print_error("status %d\n%s%s", o.status, o.out, o.err);
  assert_true(o.status == 0 && o.err[0] == '\0');
  tst_output_destroy(&o);
}

static void a_process_ends_while_the_gpu_is_in_use(void **state) {
  (void)state;
  expect_success(end_while_the_gpu_hangs);
}

static void an_idle_gpu_is_given_back(void **state) {
  (void)state;
  expect_success(an_idle_gpu);
}

static void threads_are_ordinary(void **state) {
  (void)state;
  expect_success(a_real_time_thread);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_process_ends_while_the_gpu_is_in_use),
                                     cmocka_unit_test(an_idle_gpu_is_given_back),
                                     cmocka_unit_test(threads_are_ordinary)};
  if (tst_setting("TB_TEST_FAKE_DIR")[0] == '\0') tst_skip("it asks the fake driver what is left");
  return cmocka_run_group_tests_name("end", tests, NULL, NULL);
}
