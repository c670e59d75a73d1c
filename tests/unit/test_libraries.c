/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Visits to the loaded libraries that signals come into: a handler visits, too, forks, or leaves by a jump, behind
 * which other threads, and forks, go on.
 *
 * Seen to fail when: a handler waits for the visit, or the fork, that it came into; a jump out of one keeps the others
 * waiting, or each of them for a while; a fork that takes long counts as one.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "process/libraries.h"

static int count(struct dl_phdr_info *info, size_t size, void *counted) {
  (void)info, (void)size;
  ++*(int *)counted;
  return 0;
}

static int raise_once(struct dl_phdr_info *info, size_t size, void *counted) {
  (void)info, (void)size;
  if (++*(int *)counted == 1) raise(SIGUSR1);
  return 0;
}

static int counted_by_handler;
static bool forked;

static void visit_and_fork(int number) {
  (void)number;
  tb_libraries_visit(count, &counted_by_handler);
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = 1;
  forked = child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static void *visit(void *counted) {
  tb_libraries_visit(count, counted);
  return NULL;
}

static int counted_by_another(void) {
  pthread_t thread;
  int counted = 0;
  assert_int_equal(pthread_create(&thread, NULL, visit, &counted), 0);
  pthread_join(thread, NULL);
  return counted;
}

static void visited_by_a_handler(void **state) {
  int counted = 0;
  (void)state;
  signal(SIGUSR1, visit_and_fork);
  tb_libraries_visit(raise_once, &counted);
  assert_true(forked);
  assert_true(counted > 1);
  assert_int_equal(counted_by_handler, counted);
  assert_int_equal(counted_by_another(), counted);
}

static atomic_int counted_meanwhile;

static void *visit_meanwhile(void *unused) {
  int counted = 0;
  tb_libraries_visit(count, &counted);
  atomic_store(&counted_meanwhile, counted);
  return unused;
}

/* Who visits waits for a fork that takes long, and does not give up; a handler that comes in it visits, and forks. */
static void waits_for_a_slow_fork(void **state) {
  pthread_t thread;
  (void)state;
  signal(SIGUSR1, visit_and_fork);
  counted_by_handler = 0, forked = false;
  tb_libraries_before_fork();
  assert_int_equal(pthread_create(&thread, NULL, visit_meanwhile, NULL), 0);
  raise(SIGUSR1);
  usleep(1500000);
  assert_int_equal(atomic_load(&counted_meanwhile), 0);
  tb_libraries_after_fork();
  pthread_join(thread, NULL);
  assert_true(forked && counted_by_handler > 1);
  assert_int_equal(atomic_load(&counted_meanwhile), counted_by_handler);
}

static sigjmp_buf back;

static void jump_out(int number) {
  (void)number;
  siglongjmp(back, 1);
}

/* Others wait for a second, once, and are told that they have seen nothing. */
static void left_by_a_jump(void **state) {
  int counted = 0;
  (void)state;
  signal(SIGUSR1, jump_out);
  if (sigsetjmp(back, 1) == 0) tb_libraries_visit(raise_once, &counted);
  assert_int_equal(counted, 1);
  counted = 0;
  tb_libraries_visit(count, &counted);
  assert_true(counted > 1);
  assert_int_equal(counted_by_another(), 0);
  const double begun = tb_clock_seconds();
  for (int i = 0; i < 3; i++) assert_int_equal(counted_by_another(), 0);
  tb_libraries_before_fork();
  tb_libraries_after_fork();
  assert_true(tb_clock_seconds() - begun < 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(visited_by_a_handler), cmocka_unit_test(waits_for_a_slow_fork),
                                     cmocka_unit_test(left_by_a_jump)};
  pthread_atfork(tb_libraries_before_fork, tb_libraries_after_fork, tb_libraries_after_fork);
  alarm(20);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
