/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The gate of the GPUs by itself: who finds it how, when its owner left it, stood at the window, came again or ended
 * inside. What handlers do there is guest/test_jump.c's.
 *
 * Seen to fail when: a call that let signals in is thought to be at the window for ever; an owner that ended inside
 * leaves the gate closed; who tries takes a call's window at once; nobody may take it over, or its call does not see
 * it.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "process/gate.h"
#include "process/guest.h"

/* What another thread finds that tries, and leaves at once if it got in. */
static void *try_once(void *found) {
  *(enum tb_gate *)found = tb_gate_try(false);
  if (*(enum tb_gate *)found != TB_GATE_CLOSED) tb_gate_leave();
  return NULL;
}

static void *enter_and_end(void *found) {
  *(enum tb_gate *)found = tb_gate_enter(0.05);
  return NULL;
}

static enum tb_gate of_another(void *(*body)(void *)) {
  pthread_t thread;
  enum tb_gate found;
  assert_int_equal(pthread_create(&thread, NULL, body, &found), 0);
  pthread_join(thread, NULL);
  return found;
}

static void one_at_a_time(void **state) {
  (void)state;
  assert_int_equal(tb_gate_enter(1), TB_GATE_CLEAN);
  assert_int_equal(of_another(try_once), TB_GATE_CLOSED);
  assert_int_equal(of_another(enter_and_end), TB_GATE_CLOSED);
  tb_gate_leave();
  assert_int_equal(of_another(try_once), TB_GATE_CLEAN);
}

/* A call that was at the window and nobody came: the gate is its own still, and behind it everybody's. */
static void nobody_came_to_the_window(void **state) {
  (void)state;
  for (int again = 0; again < 2; again++) {
    assert_int_equal(tb_gate_enter(1), TB_GATE_CLEAN);
    for (int window = 0; window < 3; window++) {
      assert_true(tb_gate_window());
      assert_int_equal(of_another(try_once), TB_GATE_CLOSED);
    }
    tb_gate_leave();
    assert_int_equal(of_another(try_once), TB_GATE_CLEAN);
  }
}

static enum tb_gate found_at_window[2];

static void *try_for_good(void *found) {
  *(enum tb_gate *)found = tb_gate_try(true);
  if (*(enum tb_gate *)found != TB_GATE_CLOSED) tb_gate_leave();
  return NULL;
}

static void let_others_try(int number) {
  (void)number;
  found_at_window[0] = of_another(try_once);
  found_at_window[1] = of_another(try_for_good);
}

/* While a handler runs at the window, who can come again another time does; who cannot takes the GPUs, and the call
 * that comes back sees that they are no longer its own. */
static void others_at_the_window(void **state) {
  (void)state;
  struct tb_guest guest;
  signal(SIGUSR1, let_others_try);
  tb_guest_enter(&guest);
  assert_int_equal(tb_gate_enter(1), TB_GATE_CLEAN);
  raise(SIGUSR1); /* waits for the window */
  assert_false(tb_gate_window());
  tb_gate_leave();
  tb_guest_leave(&guest);
  assert_int_equal(found_at_window[0], TB_GATE_CLOSED);
  assert_int_equal(found_at_window[1], TB_GATE_ABANDONED);
  assert_int_equal(of_another(try_once), TB_GATE_CLEAN);
}

/* A thread that comes while it is inside has left its call in the midst; so has one that ended. */
static void left_in_the_midst(void **state) {
  (void)state;
  assert_int_equal(tb_gate_enter(1), TB_GATE_CLEAN);
  assert_int_equal(tb_gate_enter(1), TB_GATE_BROKEN);
  tb_gate_leave();
  assert_int_equal(of_another(enter_and_end), TB_GATE_CLEAN);
  assert_int_equal(of_another(try_once), TB_GATE_BROKEN);
  assert_int_equal(tb_gate_enter(1), TB_GATE_CLEAN);
  tb_gate_leave();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_at_a_time),
      cmocka_unit_test(nobody_came_to_the_window),
      cmocka_unit_test(others_at_the_window),
      cmocka_unit_test(left_in_the_midst),
  };
  alarm(20);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
