/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The gate of the GPUs by itself: who finds it how, when its owner left it, stood at the window, came again or ended
 * inside; and that nobody is cancelled there. What handlers do there is guest/test_jump.c's.
 *
 * Seen to fail when: a call that let signals in is thought to be at the window for ever; an owner that ended inside
 * leaves the gate closed; who tries takes a call's window at once; nobody may take it over, or its call does not see
 * it; a lane that becomes free lets nobody in; who wants a lane takes over one at the window, though others are free;
 * who has no place to wait in keeps the gate closed; who comes back does not wait for who has its lane;
 * of cancellation the state alone is held; a lane that a handler's call has had, and had a window in, counts as its
 * call's; one that was freed for nobody does not, or comes back without its room; a call comes back before it is seen
 * to what it left; who has lost a lane frees the next one's room; a child takes a lane of its own for the one that its
 * parent had.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "process/gate.h"
#include "process/guest.h"

/* What another thread finds that tries, and leaves at once if it got in. */
static void *try_once(void *found) {
  int lane;
  *(enum tb_gate *)found = tb_gate_try(false, &lane);
  if (*(enum tb_gate *)found != TB_GATE_CLOSED) tb_gate_leave(lane);
  return NULL;
}

static void *enter_and_end(void *found) {
  int lane;
  *(enum tb_gate *)found = tb_gate_enter(TB_ENTRY_ALONE, 0.05, &lane);
  return NULL;
}

static enum tb_gate of_another(void *(*body)(void *)) {
  pthread_t thread;
  enum tb_gate found;
  assert_int_equal(pthread_create(&thread, NULL, body, &found), 0);
  pthread_join(thread, NULL);
  return found;
}

static enum tb_gate enter_alone(void) {
  int lane = -1;
  const enum tb_gate found = tb_gate_enter(TB_ENTRY_ALONE, 1, &lane);
  assert_int_equal(lane, 0);
  return found;
}

static void one_at_a_time(void **state) {
  (void)state;
  assert_int_equal(enter_alone(), TB_GATE_CLEAN);
  assert_int_equal(of_another(try_once), TB_GATE_CLOSED);
  assert_int_equal(of_another(enter_and_end), TB_GATE_CLOSED);
  tb_gate_leave(0);
  assert_int_equal(of_another(try_once), TB_GATE_CLEAN);
}

/* A call that was at the window and nobody came: the gate is its own still, and behind it everybody's. */
static void nobody_came_to_the_window(void **state) {
  (void)state;
  for (int again = 0; again < 2; again++) {
    assert_int_equal(enter_alone(), TB_GATE_CLEAN);
    for (int window = 0; window < 3; window++) {
      assert_true(tb_gate_window(0));
      assert_int_equal(of_another(try_once), TB_GATE_CLOSED);
    }
    tb_gate_leave(0);
    assert_int_equal(of_another(try_once), TB_GATE_CLEAN);
  }
}

static double seconds_waited;

static void *enter_for_a_while(void *found) {
  int lane;
  const double begun = tb_clock_seconds();
  *(enum tb_gate *)found = tb_gate_enter(TB_ENTRY_ALONE, 0.2, &lane);
  seconds_waited = tb_clock_seconds() - begun;
  if (*(enum tb_gate *)found != TB_GATE_CLOSED) tb_gate_leave(lane);
  return NULL;
}

/* Who is inside and does not come back is waited for once, until somebody has moved. */
static void waited_for_once(void **state) {
  (void)state;
  for (int again = 0; again < 2; again++) {
    assert_int_equal(enter_alone(), TB_GATE_CLEAN);
    assert_int_equal(of_another(enter_for_a_while), TB_GATE_CLOSED);
    assert_true(seconds_waited >= 0.2);
    assert_int_equal(of_another(enter_for_a_while), TB_GATE_CLOSED);
    assert_true(seconds_waited < 0.1);
    tb_gate_leave(0);
    assert_int_equal(of_another(enter_for_a_while), TB_GATE_CLEAN);
  }
}

static enum tb_gate found_at_window[2];

static void *try_for_good(void *found) {
  int lane;
  *(enum tb_gate *)found = tb_gate_try(true, &lane);
  if (*(enum tb_gate *)found != TB_GATE_CLOSED) tb_gate_leave(lane);
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
  assert_int_equal(enter_alone(), TB_GATE_CLEAN);
  raise(SIGUSR1); /* waits for the window */
  assert_false(tb_gate_window(0));
  tb_gate_leave(0);
  tb_guest_leave(&guest);
  assert_int_equal(found_at_window[0], TB_GATE_CLOSED);
  assert_int_equal(found_at_window[1], TB_GATE_ABANDONED);
  assert_int_equal(of_another(try_once), TB_GATE_CLEAN);
}

/* Cancelled in the midst, which a thread of this type ends at. Its type is looked at, too: not every C library looks at
 * the state when the signal comes. */
static struct {
  sem_t inside, cancelled;
  atomic_bool held;
} victim;

static void *cancelled_inside(void *opaque) {
  struct tb_guest guest;
  int type = PTHREAD_CANCEL_ASYNCHRONOUS;
  pthread_setcanceltype(type, NULL);
  tb_guest_enter(&guest);
  pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
  sem_post(&victim.inside);
  while (sem_wait(&victim.cancelled) != 0) continue;
  atomic_store(&victim.held, type == PTHREAD_CANCEL_DEFERRED);
  tb_guest_leave(&guest);
  pthread_testcancel();
  return opaque;
}

static void held_whatever_the_type(void **state) {
  (void)state;
  pthread_t thread;
  void *result;
  sem_init(&victim.inside, 0, 0);
  sem_init(&victim.cancelled, 0, 0);
  assert_int_equal(pthread_create(&thread, NULL, cancelled_inside, NULL), 0);
  sem_wait(&victim.inside);
  pthread_cancel(thread);
  sem_post(&victim.cancelled);
  pthread_join(thread, &result);
  assert_true(victim.held);
  assert_ptr_equal(result, PTHREAD_CANCELED); /* at once behind the call, or where it asks: by the C library */
}

/* Returns when the thread has got so far. */
static void begin_until(sem_t *reached, pthread_t *thread, void *(*body)(void *)) {
  sem_init(reached, 0, 0);
  assert_int_equal(pthread_create(thread, NULL, body, NULL), 0);
  sem_wait(reached);
}

/* Who has taken it over at the window and is inside still, for a while or for good. */
static struct holder {
  pthread_t thread;
  sem_t inside;
  bool ends_inside;
  atomic_bool gone;
  enum tb_gate found;
} holder;

static void *hold(void *unused) {
  int lane;
  holder.found = tb_gate_try(true, &lane);
  sem_post(&holder.inside);
  usleep(20000);
  holder.gone = true;
  if (!holder.ends_inside) tb_gate_leave(lane);
  return unused;
}

static void let_one_hold_it(int number) {
  (void)number;
  begin_until(&holder.inside, &holder.thread, hold);
}

/* The call that comes back waits for it, and sees that the lane is no longer its own; behind it the gate is
 * everybody's. */
static void taken_over_and_not_yet_left(void **state) {
  (void)state;
  struct tb_guest guest;
  signal(SIGUSR1, let_one_hold_it);
  for (int ends = 0; ends < 2; ends++) {
    holder.ends_inside = ends, holder.gone = false;
    tb_guest_enter(&guest);
    assert_int_equal(enter_alone(), TB_GATE_CLEAN);
    raise(SIGUSR1);
    assert_false(tb_gate_window(0));
    assert_true(holder.gone);
    assert_int_equal(holder.found, TB_GATE_ABANDONED);
    tb_gate_leave(0);
    tb_guest_leave(&guest);
    pthread_join(holder.thread, NULL);
    for (int i = 0; i < 2; i++) assert_int_equal(of_another(try_once), TB_GATE_CLEAN);
  }
}

/* A thread that comes while it is inside has left its call in the midst; so has one that ended. */
static void left_in_the_midst(void **state) {
  (void)state;
  assert_int_equal(enter_alone(), TB_GATE_CLEAN);
  assert_int_equal(enter_alone(), TB_GATE_BROKEN);
  tb_gate_leave(0);
  assert_int_equal(of_another(enter_and_end), TB_GATE_CLEAN);
  assert_int_equal(of_another(try_once), TB_GATE_BROKEN);
  assert_int_equal(enter_alone(), TB_GATE_CLEAN);
  tb_gate_leave(0);
}

/* ---- beside others ---- */

/* A small call in a thread of its own: what it found, and its lane; it leaves when it is told to, or not at all. */
struct small_call {
  pthread_t thread;
  enum tb_gate found;
  int lane;
  sem_t inside, leave;
  bool ends_inside;
  double entered; /* when */
};

static void *small_main(void *argument) {
  struct small_call *const x = argument;
  x->found = tb_gate_enter(1, 1, &x->lane);
  sem_post(&x->inside);
  sem_wait(&x->leave);
  if (x->found != TB_GATE_CLOSED && !x->ends_inside) tb_gate_leave(x->lane);
  return NULL;
}

static void begin_small(struct small_call *x) {
  sem_init(&x->inside, 0, 0);
  sem_init(&x->leave, 0, 0);
  assert_int_equal(pthread_create(&x->thread, NULL, small_main, x), 0);
}

static void end_small(struct small_call *x) {
  sem_post(&x->leave);
  pthread_join(x->thread, NULL);
}

static void lanes_for_small_calls(void **state) {
  (void)state;
  struct small_call call[TB_LANES + 1] = {{0}};
  int lane;
  for (int i = 0; i < TB_LANES; i++) {
    begin_small(&call[i]);
    sem_wait(&call[i].inside);
    assert_int_equal(call[i].found, TB_GATE_CLEAN);
    assert_int_equal(call[i].lane, i);
  }
  assert_int_equal(tb_gate_enter(1, 0.02, &lane), TB_GATE_CLOSED);
  assert_int_equal(of_another(try_once), TB_GATE_CLOSED);
  begin_small(&call[TB_LANES]);
  usleep(10000);
  assert_int_equal(sem_trywait(&call[TB_LANES].inside), -1);
  end_small(&call[2]); /* which lets it in */
  sem_wait(&call[TB_LANES].inside);
  assert_int_equal(call[TB_LANES].lane, 2);
  for (int i = 0; i <= TB_LANES; i++)
    if (i != 2) end_small(&call[i]);
  assert_int_equal(of_another(try_once), TB_GATE_CLEAN);
}

/* Who waits is woken, and need not look for itself, which it does every 2 ms; on a busy machine not each comes at once.
 */
static void *enter_and_look(void *argument) {
  struct small_call *const x = argument;
  sem_post(&x->inside);
  x->found = tb_gate_enter(TB_ENTRY_ALONE, 1, &x->lane);
  x->entered = tb_clock_seconds();
  tb_gate_leave(x->lane);
  return NULL;
}

static void woken_when_it_is_left(void **state) {
  (void)state;
  int soon = 0;
  for (int i = 0; i < 40; i++) {
    struct small_call x = {0};
    sem_init(&x.inside, 0, 0);
    assert_int_equal(enter_alone(), TB_GATE_CLEAN);
    assert_int_equal(pthread_create(&x.thread, NULL, enter_and_look, &x), 0);
    sem_wait(&x.inside);
    usleep(300);
    const double left = tb_clock_seconds();
    tb_gate_leave(0);
    pthread_join(x.thread, NULL);
    assert_int_equal(x.found, TB_GATE_CLEAN);
    soon += x.entered - left < 1e-3;
  }
  if (soon < 8) fail_msg("%d of 40 came within a millisecond", soon);
}

/* More calls than there are places to wait in: those without one come in as well, when there is room. */
enum { CROWD = TB_ENTRY_WAITING + 16 };

static void *crowd_main(void *found) {
  int lane;
  *(enum tb_gate *)found = tb_gate_enter(TB_ENTRY_ALONE, 10, &lane);
  if (*(enum tb_gate *)found != TB_GATE_CLOSED) tb_gate_leave(lane);
  return NULL;
}

static void more_than_there_are_places(void **state) {
  (void)state;
  static pthread_t thread[CROWD];
  static enum tb_gate found[CROWD];
  assert_int_equal(enter_alone(), TB_GATE_CLEAN);
  for (int i = 0; i < CROWD; i++) assert_int_equal(pthread_create(&thread[i], NULL, crowd_main, &found[i]), 0);
  usleep(20000);
  tb_gate_leave(0);
  for (int i = 0; i < CROWD; i++) {
    pthread_join(thread[i], NULL);
    assert_int_equal(found[i], TB_GATE_CLEAN);
  }
  assert_int_equal(of_another(try_once), TB_GATE_CLEAN);
}

/* In a lane, as alone: a thread that ended inside is found by the next call, in the lane where it was; the others are
 * not disturbed. */
/* Of two one leaves: the other may do so soon, and is waited for. */
static void one_of_two_has_left(void **state) {
  (void)state;
  struct small_call call[2] = {{0}};
  for (int i = 0; i < 2; i++) {
    begin_small(&call[i]);
    sem_wait(&call[i].inside);
  }
  for (int left = 0; left < 2; left++) {
    assert_int_equal(of_another(enter_for_a_while), TB_GATE_CLOSED);
    assert_true(seconds_waited >= 0.2);
    end_small(&call[left]);
  }
  assert_int_equal(of_another(enter_for_a_while), TB_GATE_CLEAN);
}

static void ended_in_a_lane(void **state) {
  (void)state;
  struct small_call call[3] = {{.found = TB_GATE_CLOSED}, {.ends_inside = true}};
  for (int i = 0; i < 2; i++) {
    begin_small(&call[i]);
    sem_wait(&call[i].inside);
  }
  end_small(&call[1]);
  begin_small(&call[2]);
  sem_wait(&call[2].inside);
  assert_int_equal(call[2].found, TB_GATE_BROKEN);
  assert_int_equal(call[2].lane, 1);
  end_small(&call[2]);
  end_small(&call[0]);
  assert_int_equal(of_another(try_once), TB_GATE_CLEAN);
}

static enum tb_gate alone_at_window;
static struct small_call beside_window;

static void let_others_in(int number) {
  (void)number;
  begin_small(&beside_window);
  sem_wait(&beside_window.inside);
  end_small(&beside_window);
  usleep(1.5e6 * TB_GATE_PATIENCE_SECONDS);
  alone_at_window = of_another(try_once);
}

/* A window in a lane: small calls have lanes of their own meanwhile, and need not take it over; who wants to be alone
 * does when the handler takes its time, and sees to what is in the streams. */
static void window_in_a_lane(void **state) {
  (void)state;
  struct tb_guest guest;
  int lane;
  signal(SIGUSR1, let_others_in);
  tb_guest_enter(&guest);
  assert_int_equal(tb_gate_enter(1, 1, &lane), TB_GATE_CLEAN);
  assert_int_equal(lane, 0);
  raise(SIGUSR1);
  assert_false(tb_gate_window(lane));
  tb_gate_leave(lane);
  tb_guest_leave(&guest);
  assert_int_equal(beside_window.found, TB_GATE_CLEAN);
  assert_int_equal(beside_window.lane, 1);
  assert_int_equal(alone_at_window, TB_GATE_ABANDONED);
  assert_int_equal(of_another(try_once), TB_GATE_CLEAN);
}

/* Its own thread has left it, which comes again: at once, though there are other lanes. */
static sigjmp_buf jump;
static void leave_for_good(int number) {
  (void)number;
  siglongjmp(jump, 1);
}

static void left_a_lane_by_the_window(void **state) {
  (void)state;
  static int lane;
  static struct tb_guest guest;
  signal(SIGUSR1, leave_for_good);
  if (sigsetjmp(jump, 1) == 0) {
    tb_guest_enter(&guest);
    assert_int_equal(tb_gate_enter(1, 1, &lane), TB_GATE_CLEAN);
    raise(SIGUSR1);
    tb_gate_window(lane);
    fail_msg("no handler ran");
  }
  tb_thread.guest = NULL;
  assert_int_equal(tb_gate_enter(1, 1, &lane), TB_GATE_ABANDONED);
  assert_int_equal(lane, 0);
  tb_gate_leave(lane);
  assert_int_equal(tb_gate_enter(1, 1, &lane), TB_GATE_CLEAN);
  tb_gate_leave(lane);
}

/* ---- what comes back to a window ---- */

/* A call of the handler's, in which a signal waits, too. */
static bool inner_window;
static void nothing(int number) { (void)number; }

static void multiply_and_let_signals_in(int number) {
  struct tb_guest guest;
  int lane;
  (void)number;
  tb_guest_enter(&guest);
  assert_int_equal(tb_gate_enter(TB_ENTRY_ALONE, 1, &lane), TB_GATE_ABANDONED);
  raise(SIGUSR2);
  inner_window = tb_gate_window(lane);
  tb_gate_leave(lane);
  tb_guest_leave(&guest);
}

static void its_handlers_call_has_a_window_too(void **state) {
  (void)state;
  struct tb_guest guest;
  signal(SIGUSR1, multiply_and_let_signals_in);
  signal(SIGUSR2, nothing);
  tb_guest_enter(&guest);
  assert_int_equal(enter_alone(), TB_GATE_CLEAN);
  raise(SIGUSR1);
  assert_false(tb_gate_window(0)); /* the handler's call has had it, and its window was this thread's, too */
  tb_gate_leave(0);
  tb_guest_leave(&guest);
  assert_true(inner_window);
  assert_int_equal(of_another(try_once), TB_GATE_CLEAN);
}

static struct small_call beside;
static enum tb_gate waited_in_vain;

static void let_one_wait(int number) {
  (void)number;
  usleep(1.5e6 * TB_GATE_PATIENCE_SECONDS);
  waited_in_vain = of_another(enter_and_end);
}

static void *want_all_but_one(void *found) {
  int lane;
  *(enum tb_gate *)found = tb_gate_enter(TB_LANES - 1, 0.02, &lane);
  return NULL;
}

/* Its lane was freed for one who wants to be alone and who did not come in, for another was inside: it is the call's
 * again, with its room. */
static void freed_and_had_by_nobody(void **state) {
  (void)state;
  struct tb_guest guest;
  int lane;
  signal(SIGUSR1, let_one_wait);
  begin_small(&beside);
  sem_wait(&beside.inside);
  tb_guest_enter(&guest);
  assert_int_equal(tb_gate_enter(1, 1, &lane), TB_GATE_CLEAN);
  assert_int_equal(lane, 1);
  raise(SIGUSR1);
  assert_true(tb_gate_window(lane));
  assert_int_equal(waited_in_vain, TB_GATE_CLOSED);
  assert_int_equal(of_another(want_all_but_one), TB_GATE_CLOSED);
  tb_gate_leave(lane);
  tb_guest_leave(&guest);
  end_small(&beside);
  assert_int_equal(of_another(try_once), TB_GATE_CLEAN);
}

/* One who is alone, in lane 0, and takes its time to see to what was left in another lane. */
static struct alone {
  pthread_t thread;
  enum tb_gate found;
  atomic_bool settled;
  sem_t inside, leave;
} alone;

static void *settle_slowly(void *unused) {
  int lane;
  alone.found = tb_gate_enter(TB_ENTRY_ALONE, 1, &lane);
  sem_post(&alone.inside);
  usleep(30000);
  alone.settled = true;
  tb_gate_settled();
  sem_wait(&alone.leave);
  tb_gate_leave(lane);
  return unused;
}

static void let_one_settle(int number) {
  (void)number;
  end_small(&beside);
  usleep(1.5e6 * TB_GATE_PATIENCE_SECONDS);
  begin_until(&alone.inside, &alone.thread, settle_slowly);
}

/* The call has lost its lane, and comes back when nothing of it is under way any more, not before. */
static void comes_back_when_it_is_settled(void **state) {
  (void)state;
  struct tb_guest guest;
  int lane;
  sem_init(&alone.leave, 0, 0);
  alone.settled = false;
  signal(SIGUSR1, let_one_settle);
  begin_small(&beside);
  sem_wait(&beside.inside);
  tb_guest_enter(&guest);
  assert_int_equal(tb_gate_enter(1, 1, &lane), TB_GATE_CLEAN);
  assert_int_equal(lane, 1);
  raise(SIGUSR1);
  assert_false(tb_gate_window(lane));
  assert_true(alone.settled);
  assert_int_equal(alone.found, TB_GATE_ABANDONED);
  tb_gate_leave(lane);
  tb_guest_leave(&guest);
  sem_post(&alone.leave);
  pthread_join(alone.thread, NULL);
  assert_int_equal(of_another(try_once), TB_GATE_CLEAN);
}

/* Who has taken it over is at a window itself. */
static struct {
  pthread_t thread;
  sem_t at_window;
  bool ours;
} next_one;

static void stay_a_while(int number) {
  (void)number;
  sem_post(&next_one.at_window);
  usleep(0.6e6 * TB_GATE_PATIENCE_SECONDS);
}

static void *take_over_and_open_a_window(void *unused) {
  struct tb_guest guest;
  int lane;
  tb_guest_enter(&guest);
  tb_gate_try(true, &lane);
  pthread_kill(pthread_self(), SIGUSR2);
  next_one.ours = tb_gate_window(lane);
  tb_gate_leave(lane);
  tb_guest_leave(&guest);
  return unused;
}

static void let_next_one_in(int number) {
  (void)number;
  begin_until(&next_one.at_window, &next_one.thread, take_over_and_open_a_window);
}

/* A call alone, whose lane such a handler gives away at the window. */
static void lose_the_window_to(void (*handler)(int number)) {
  struct tb_guest guest;
  signal(SIGUSR1, handler);
  tb_guest_enter(&guest);
  assert_int_equal(enter_alone(), TB_GATE_CLEAN);
  raise(SIGUSR1);
  assert_false(tb_gate_window(0));
  tb_gate_leave(0);
  tb_guest_leave(&guest);
}

/* The call that has lost the lane leaves it, and does not take the other's room with it. */
static void leaves_the_next_ones_room(void **state) {
  (void)state;
  signal(SIGUSR2, stay_a_while);
  lose_the_window_to(let_next_one_in);
  assert_int_equal(of_another(try_once), TB_GATE_CLOSED);
  pthread_join(next_one.thread, NULL);
  assert_true(next_one.ours);
  assert_int_equal(of_another(try_once), TB_GATE_CLEAN);
}

/* As the child of a fork by the handler does, which multiplies there. */
static void fork_and_multiply(int number) {
  struct tb_guest guest;
  (void)number;
  tb_gate_after_fork();
  tb_guest_enter(&guest);
  assert_int_equal(enter_alone(), TB_GATE_CLEAN);
  tb_gate_leave(0);
  tb_guest_leave(&guest);
}

static void forked_at_the_window(void **state) {
  (void)state;
  tb_gate_after_fork(); /* no lane has been anybody's since */
  lose_the_window_to(fork_and_multiply);
  assert_int_equal(of_another(try_once), TB_GATE_CLEAN);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_at_a_time),
      cmocka_unit_test(waited_for_once),
      cmocka_unit_test(nobody_came_to_the_window),
      cmocka_unit_test(others_at_the_window),
      cmocka_unit_test(held_whatever_the_type),
      cmocka_unit_test(left_in_the_midst),
      cmocka_unit_test(taken_over_and_not_yet_left),
      cmocka_unit_test(more_than_there_are_places),
      cmocka_unit_test(woken_when_it_is_left),
      cmocka_unit_test(lanes_for_small_calls),
      cmocka_unit_test(one_of_two_has_left),
      cmocka_unit_test(ended_in_a_lane),
      cmocka_unit_test(window_in_a_lane),
      cmocka_unit_test(left_a_lane_by_the_window),
      cmocka_unit_test(its_handlers_call_has_a_window_too),
      cmocka_unit_test(freed_and_had_by_nobody),
      cmocka_unit_test(comes_back_when_it_is_settled),
      cmocka_unit_test(leaves_the_next_ones_room),
      cmocka_unit_test(forked_at_the_window),
  };
  alarm(20);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
