/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who may go in to the GPUs beside whom, by itself: sizes, order, fairness, and those that wait no more. The gate that
 * goes by it is test_gate.c's.
 *
 * Seen to fail when: a call passes one that waits; nobody passes one that has just begun to wait; a call that is not
 * heard of keeps the others out; a large call goes in beside small ones that leave it too little room; of those that
 * wait another one than the first is woken.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "process/entry.h"

static struct tb_entry e;
static int threads[TB_ENTRY_WAITING + 1]; /* each stands for its address */

static int empty(void **state) {
  (void)state;
  e = (struct tb_entry){0};
  return 0;
}

/* Goes in if it may: to the lowest lane that is free, as the gate has it. */
static int go_in(int room, uint64_t ticket, double now) {
  if (!tb_entry_may(&e, room, ticket, now)) return -1;
  tb_entry_end_wait(&e, ticket);
  for (int lane = 0; lane < TB_LANES; lane++)
    if (e.room[lane] == 0) {
      e.room[lane] = room;
      return lane;
    }
  fail_msg("there is room, and no lane");
  return -1;
}

static void sizes(void **state) {
  (void)state;
  for (int lane = 0; lane < TB_LANES; lane++) assert_int_equal(go_in(1, 0, 0), lane);
  assert_int_equal(go_in(1, 0, 0), -1);
  e.room[2] = 0;
  assert_int_equal(go_in(TB_LANES / 2, 0, 0), -1);
  assert_int_equal(go_in(TB_ENTRY_ALONE, 0, 0), -1);
  e.room[1] = 0;
  assert_int_equal(go_in(TB_LANES / 2, 0, 0), 1);
  assert_int_equal(go_in(1, 0, 0), -1); /* lane 2 is free, but there is no room */
  empty(NULL);
  assert_int_equal(go_in(TB_ENTRY_ALONE, 0, 0), 0);
  assert_int_equal(go_in(1, 0, 0), -1);
}

/* A large call that waits is not passed by small ones for which there would be room; nor a small one by others. */
static void first_come_first_served(void **state) {
  (void)state;
  go_in(1, 0, 0);
  const uint64_t large = tb_entry_wait(&e, 0, TB_ENTRY_ALONE, &threads[0], 10);
  const uint64_t small = tb_entry_wait(&e, 0, 1, &threads[1], 10.001);
  assert_int_equal(tb_entry_wait(&e, large, TB_ENTRY_ALONE, &threads[0], 10.002), large);
  assert_int_equal(go_in(1, small, 10.003), -1);
  assert_int_equal(go_in(1, 0, 10.003), -1);
  assert_int_equal(tb_entry_next(&e, 10.003), -1);
  e.room[0] = 0;
  assert_int_equal(tb_entry_next(&e, 10.003), tb_entry_place(&e, large));
  assert_int_equal(go_in(1, small, 10.003), -1);
  assert_int_equal(go_in(TB_ENTRY_ALONE, large, 10.003), 0);
  assert_int_equal(tb_entry_next(&e, 10.003), -1);
  e.room[0] = 0;
  assert_int_equal(tb_entry_next(&e, 10.003), tb_entry_place(&e, small));
  assert_int_equal(go_in(1, small, 10.003), 0);
  assert_int_equal(e.waiting_count, 0);
}

static void passed_for_a_moment(void **state) {
  (void)state;
  for (int i = 0; i < TB_LANES; i++) go_in(1, 0, 0);
  const uint64_t waits = tb_entry_wait(&e, 0, 1, &threads[0], 10);
  e.room[3] = 0;
  assert_int_equal(go_in(1, 0, 10 + TB_ENTRY_PASS_SECONDS / 2), 3);
  e.room[3] = 0;
  assert_int_equal(go_in(1, 0, 10 + 2 * TB_ENTRY_PASS_SECONDS), -1);
  assert_int_equal(go_in(1, waits, 10 + 2 * TB_ENTRY_PASS_SECONDS), 3);
}

/* It comes back to its place if that is still there, and to the end if not. */
static void not_heard_of(void **state) {
  (void)state;
  go_in(TB_ENTRY_ALONE, 0, 0);
  const uint64_t silent = tb_entry_wait(&e, 0, 1, &threads[0], 10);
  const uint64_t other = tb_entry_wait(&e, 0, 1, &threads[1], 10);
  const double later = 10 + 1.5 * TB_ENTRY_PATIENCE_SECONDS;
  tb_entry_wait(&e, other, 1, &threads[1], later);
  e.room[0] = 0;
  assert_int_equal(tb_entry_next(&e, later), tb_entry_place(&e, other));
  assert_true(tb_entry_may(&e, 1, other, later));
  assert_int_equal(tb_entry_wait(&e, silent, 1, &threads[0], later), silent);
  assert_false(tb_entry_may(&e, 1, other, later));
  for (int i = 0; i < TB_ENTRY_WAITING; i++) tb_entry_wait(&e, 0, 1, &threads[2], 20);
  assert_true(tb_entry_wait(&e, silent, 1, &threads[0], 20.01) == 0); /* all places are taken by others */
  assert_int_equal(tb_entry_place(&e, silent), -1);
  assert_int_equal(tb_entry_place(&e, 0), -1);
  tb_entry_forget(&e, &threads[2]);
  assert_int_equal(e.waiting_count, 0);
  assert_true(tb_entry_wait(&e, silent, 1, &threads[0], 20.02) > other);
}

static void more_than_there_are_places(void **state) {
  (void)state;
  go_in(TB_ENTRY_ALONE, 0, 0);
  for (int i = 0; i < TB_ENTRY_WAITING; i++) assert_true(tb_entry_wait(&e, 0, 1, &threads[i], 10) > 0);
  assert_true(tb_entry_wait(&e, 0, 1, &threads[TB_ENTRY_WAITING], 10) == 0);
  tb_entry_end_wait(&e, 0);
  assert_int_equal(e.waiting_count, TB_ENTRY_WAITING);
  tb_entry_forget(&e, &threads[5]);
  assert_int_equal(e.waiting_count, TB_ENTRY_WAITING - 1);
  assert_true(tb_entry_wait(&e, 0, 1, &threads[5], 10) > 0);
}

/* Small calls without end from four threads, and large ones from two, in which each thread calls again as soon as its
 * call is over: nobody is left behind. */
static void nobody_starves(void **state) {
  (void)state;
  enum { THREADS = 6 };
  const int room[THREADS] = {1, 1, 1, 1, TB_LANES / 2, TB_ENTRY_ALONE};
  const double seconds[THREADS] = {1e-4, 1e-4, 1e-4, 1e-4, 3e-3, 5e-3};
  double until[THREADS] = {0};
  uint64_t ticket[THREADS] = {0};
  int lane[THREADS], calls[THREADS] = {0};
  for (int i = 0; i < THREADS; i++) lane[i] = -1;
  for (double now = 1; now < 3; now += 5e-5)
    for (int i = 0; i < THREADS; i++) {
      if (lane[i] >= 0 && now >= until[i]) e.room[lane[i]] = 0, lane[i] = -1;
      if (lane[i] >= 0) continue;
      if ((lane[i] = go_in(room[i], ticket[i], now)) >= 0)
        calls[i]++, until[i] = now + seconds[i], ticket[i] = 0;
      else
        ticket[i] = tb_entry_wait(&e, ticket[i], room[i], &threads[i], now);
    }
  for (int i = 0; i < THREADS; i++) assert_true(calls[i] > 150);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(sizes, empty),
      cmocka_unit_test_setup(first_come_first_served, empty),
      cmocka_unit_test_setup(passed_for_a_moment, empty),
      cmocka_unit_test_setup(not_heard_of, empty),
      cmocka_unit_test_setup(more_than_there_are_places, empty),
      cmocka_unit_test_setup(nobody_starves, empty),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
