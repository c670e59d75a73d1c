/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slots that a ring has earned, had beside calls: what happens when. The driver's function that pins stays inside for
 * as long as the test wants it to.
 *
 * Seen to fail when: a large call earns none, or a small one some; the first call orders behind it, or others before; a
 * further lane has half of them for ever; a call waits for what is being pinned, or takes it twice; who closes the GPU
 * waits, or what came then is not given back; a GPU that is closed loses its context under the thread that pins; a
 * refusal is forgotten, or never asked again; an order for which there is no room keeps its context; the child of a
 * fork waits for its parent's orders; the process ends while memory is being pinned.
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
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake.h"
#include "offload/keeper.h"
#include "offload/part.h"
#include "pipeline/lanes.h"
#include "pipeline/rounds.h"
#include "pipeline/widening.h"
#include "process.h"

#define GIB ((double)((int64_t)1 << 30))
#define PARTS ((TB_SLOTS - TB_SLOTS_FIRST) / TB_PIECE_SLOTS) /* in which a ring's slots come */

static const struct tst_fake *fake;
static struct tb_device gpu;

/* ---- a driver that pins as slowly as it is told ---- */

static __typeof__(tb_cuda.cuMemHostRegister) driver_pins;
static atomic_bool held;           /* nobody comes out */
static atomic_int entered, pinned; /* in this process */
static pthread_t main_thread;
static atomic_bool by_main;

static CUresult CUDAAPI pin_slowly(void *memory, size_t bytes, unsigned flags) {
  if (pthread_equal(pthread_self(), main_thread)) atomic_store(&by_main, true);
  atomic_fetch_add(&entered, 1);
  while (atomic_load(&held)) usleep(500);
  const CUresult result = driver_pins(memory, bytes, flags);
  atomic_fetch_add(&pinned, 1);
  return result;
}

/* Threads that are not to be had. */
static atomic_bool no_threads;
int __real_pthread_create(pthread_t *id, const pthread_attr_t *attributes, void *(*body)(void *), void *argument);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attributes, void *(*body)(void *), void *argument) {
  return atomic_load(&no_threads) ? EAGAIN : __real_pthread_create(id, attributes, body, argument);
}

static void open_gpu(void) {
  char detail[200];
  assert_int_equal(tb_device_open(&gpu, 0, false, detail, sizeof detail), TB_STATUS_ok);
  atomic_store(&entered, 0);
  atomic_store(&pinned, 0);
  atomic_store(&by_main, false);
  tb_cuda.cuMemHostRegister = pin_slowly;
}

/* A GPU that has had a call, which moved next to nothing. */
static void open_used_gpu(void) {
  open_gpu();
  tb_rounds_prepare_rings(&gpu, 1e-3, 1e-3, false);
}

static void close_gpu(void) {
  tb_device_close(&gpu);
  tb_cuda.cuMemHostRegister = driver_pins;
}

static void expect_nothing_left(void) {
  assert_true(tb_widening_settle());
  assert_int_equal(fake->get(FAKE_CUDA_PUSHED), 0);
  assert_int_equal(fake->audit(), 0);
}

/* A call that moves so much each way, as far as rings go; not a large one, and one. */
static void call_moves(struct tb_device *d, double bytes) { tb_rounds_prepare_rings(d, bytes, bytes, false); }
static void large_call(struct tb_device *d) { tb_rounds_prepare_rings(d, TB_LARGE_BYTES, TB_LARGE_BYTES, true); }

static void call_is_over(struct tb_device *d) { tb_part_tidy(d); }

static void wait_until_one_is_inside(void) {
  for (int i = 0; i < 10000 && atomic_load(&entered) == 0; i++) usleep(500);
  assert_int_equal(atomic_load(&entered), 1);
}

static void expect_slots(const struct tb_device *d, int slots) {
  assert_int_equal(d->up_ring.slots, slots);
  assert_int_equal(d->down_ring.slots, slots);
}

/* ---- what happens when ---- */

/* All slots are on their way while the GPU is opened, and are there for the first call that comes late enough. */
static void opened_for_a_large_call(void **state) {
  (void)state;
  char detail[200];
  atomic_store(&entered, 0);
  atomic_store(&held, true);
  tb_cuda.cuMemHostRegister = pin_slowly;
  assert_int_equal(tb_device_open(&gpu, 0, true, detail, sizeof detail), TB_STATUS_ok);
  expect_slots(&gpu, TB_SLOTS_FIRST);
  wait_until_one_is_inside(); /* before any call */
  atomic_store(&held, false);
  assert_true(tb_widening_settle());
  large_call(&gpu);
  expect_slots(&gpu, TB_SLOTS);
  call_is_over(&gpu);
  close_gpu();
  expect_nothing_left();
  fake->inject("cuStreamCreate", 2, 2, 0); /* it cannot be opened: out of memory */
  assert_int_equal(tb_device_open(&gpu, 0, true, detail, sizeof detail), TB_STATUS_not_now);
  assert_int_equal(fake->audit(), 0);
}

/* The call that earns them does not pin, nor the next one wait; the one behind has them, all different. */
static void beside_calls(void **state) {
  (void)state;
  open_used_gpu();
  const uint64_t contexts = fake->get(FAKE_CUDA_CONTEXTS);
  call_moves(&gpu, GIB - 1);
  call_is_over(&gpu);
  assert_true(tb_widening_settle());
  assert_int_equal(atomic_load(&entered), 0); /* not yet */
  atomic_store(&held, true);
  call_moves(&gpu, 1);
  expect_slots(&gpu, TB_SLOTS_FIRST);
  assert_int_equal(atomic_load(&entered), 0); /* not in the call */
  call_is_over(&gpu);
  wait_until_one_is_inside();
  for (int i = 0; i < 3; i++) { /* nor do calls order twice */
    call_moves(&gpu, 1);
    expect_slots(&gpu, TB_SLOTS_FIRST);
    call_is_over(&gpu);
  }
  atomic_store(&held, false);
  assert_true(tb_widening_settle());
  expect_slots(&gpu, TB_SLOTS_FIRST); /* until a call begins */
  assert_int_equal(fake->get(FAKE_CUDA_CONTEXTS), contexts);
  call_moves(&gpu, 1);
  expect_slots(&gpu, TB_SLOTS);
  call_is_over(&gpu);
  assert_true(tb_widening_settle());
  assert_int_equal(atomic_load(&pinned), 2 * PARTS);
  assert_false(atomic_load(&by_main));
  const struct tb_ring *const rings[] = {&gpu.up_ring, &gpu.down_ring};
  for (int r = 0; r < 2; r++)
    for (int i = 0; i < TB_SLOTS; i++) memset(tb_slot(rings[r], i), 16 * r + i, TB_SLOT_BYTES);
  for (int r = 0; r < 2; r++)
    for (int i = 0; i < TB_SLOTS; i++) assert_int_equal(*(unsigned char *)tb_slot(rings[r], i), 16 * r + i);
  close_gpu();
  expect_nothing_left();
}

/* A large call earns them alone: behind it, or in it if it is the first that the GPU has. */
static void for_large_calls(void **state) {
  (void)state;
  for (int first = 0; first < 2; first++) {
    if (first)
      open_gpu();
    else
      open_used_gpu();
    atomic_store(&held, true);
    large_call(&gpu);
    if (first)
      wait_until_one_is_inside();
    else
      assert_true(tb_widening_settle() && atomic_load(&entered) == 0);
    call_is_over(&gpu);
    wait_until_one_is_inside();
    expect_slots(&gpu, TB_SLOTS_FIRST);
    atomic_store(&held, false);
    assert_true(tb_widening_settle());
    call_moves(&gpu, 1);
    expect_slots(&gpu, TB_SLOTS);
    assert_int_equal(atomic_load(&pinned), 2 * PARTS);
    assert_false(atomic_load(&by_main));
    close_gpu();
    expect_nothing_left();
  }
}

/* Nor by the way by which little goes. */
static void for_large_ways(void **state) {
  (void)state;
  open_used_gpu();
  tb_rounds_prepare_rings(&gpu, 2 * TB_LARGE_BYTES, 1e6, true);
  call_is_over(&gpu);
  assert_true(tb_widening_settle());
  call_moves(&gpu, 1);
  assert_int_equal(gpu.up_ring.slots, TB_SLOTS);
  assert_int_equal(gpu.down_ring.slots, TB_SLOTS_FIRST);
  close_gpu();
  expect_nothing_left();
}

/* One ring's are being pinned, the other's not yet; or all are there, and no call has come for them. */
static void closed_meanwhile(void **state) {
  (void)state;
  for (int there = 0; there < 2; there++) {
    open_used_gpu();
    atomic_store(&held, !there);
    large_call(&gpu);
    call_is_over(&gpu);
    if (there)
      assert_true(tb_widening_settle());
    else
      wait_until_one_is_inside();
    tb_device_close(&gpu); /* which does not wait */
    assert_int_equal(atomic_load(&pinned), there ? 2 * PARTS : 0);
    assert_int_equal(fake->get(FAKE_CUDA_CONTEXTS), there ? 0 : 1);
    atomic_store(&held, false);
    close_gpu();
    expect_nothing_left();
    assert_int_equal(atomic_load(&pinned), there ? 2 * PARTS : 1); /* what nobody wants is not pinned */
  }
}

/* Opened anew while what the one before had ordered is still being pinned: that is nothing of the new one's. */
static void opened_anew_meanwhile(void **state) {
  (void)state;
  open_used_gpu();
  atomic_store(&held, true);
  large_call(&gpu);
  call_is_over(&gpu);
  wait_until_one_is_inside();
  close_gpu();
  open_used_gpu();
  call_moves(&gpu, 1);
  atomic_store(&held, false);
  assert_true(tb_widening_settle());
  call_moves(&gpu, 1);
  expect_slots(&gpu, TB_SLOTS_FIRST);
  close_gpu();
  expect_nothing_left();
}

/* Refused by the driver, or no thread is to be had: slots as before, earned anew, and then they come. */
static void refused_at_first(void **state) {
  (void)state;
  static const char *const functions[] = {"cuMemHostRegister", "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent", ""};
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    open_used_gpu();
    large_call(&gpu);
    if (functions[i][0] != '\0') assert_int_equal(fake->inject(functions[i], 0, CUDA_ERROR_OUT_OF_MEMORY, 0), 0);
    if (functions[i][0] == '\0') tb_widening_end(); /* so that a thread is wanted */
    atomic_store(&no_threads, functions[i][0] == '\0');
    call_is_over(&gpu);
    assert_true(tb_widening_settle());
    fake->clear_failures();
    atomic_store(&no_threads, false);
    large_call(&gpu);
    expect_slots(&gpu, TB_SLOTS_FIRST);
    call_is_over(&gpu);
    assert_true(tb_widening_settle());
    call_moves(&gpu, TB_WIDENING_PATIENCE_BYTES - 2 * TB_LARGE_BYTES);
    call_is_over(&gpu);
    assert_true(tb_widening_settle());
    assert_int_equal(atomic_load(&pinned), functions[i] == functions[0] ? 2 : 0); /* not asked for again so soon */
    call_moves(&gpu, TB_LARGE_BYTES);
    large_call(&gpu);
    call_is_over(&gpu);
    assert_true(tb_widening_settle());
    call_moves(&gpu, 1);
    expect_slots(&gpu, TB_SLOTS);
    close_gpu();
    expect_nothing_left();
  }
}

/* The third part is refused: those before it are given back, and all come later. */
static void refused_midway(void **state) {
  (void)state;
  open_used_gpu();
  large_call(&gpu);
  assert_int_equal(fake->inject("cuMemHostRegister", 3, CUDA_ERROR_OUT_OF_MEMORY, 0), 0);
  call_is_over(&gpu);
  assert_true(tb_widening_settle());
  const int freed = (int)fake->calls("cuMemHostUnregister");
  fake->clear_failures();
  call_moves(&gpu, 1);
  assert_int_equal(gpu.up_ring.slots + gpu.down_ring.slots, TB_SLOTS_FIRST + TB_SLOTS);
  call_moves(&gpu, TB_WIDENING_PATIENCE_BYTES);
  call_is_over(&gpu);
  large_call(&gpu);
  call_is_over(&gpu);
  assert_true(tb_widening_settle());
  call_moves(&gpu, 1);
  expect_slots(&gpu, TB_SLOTS);
  assert_true(freed >= 2);
  close_gpu();
  expect_nothing_left();
}

/* What the driver may still have stays mapped: this one says that it failed. */
static void kept_by_the_driver(void **state) {
  (void)state;
  open_used_gpu();
  large_call(&gpu);
  call_is_over(&gpu);
  assert_true(tb_widening_settle());
  call_moves(&gpu, 1);
  void *const part = tb_slot(&gpu.up_ring, TB_SLOTS_FIRST);
  const uint32_t bit = 1u << TB_SLOTS_FIRST;
  assert_true(gpu.up_ring.registered & bit);
  assert_int_equal(tb_device_enter(&gpu), CUDA_SUCCESS);
  assert_int_equal(fake->inject("cuMemHostUnregister", 1, CUDA_ERROR_UNKNOWN, 0), 0);
  tb_widening_give_back(part);
  fake->clear_failures();
  assert_int_equal(msync(part, TB_PIECE_SLOTS * TB_SLOT_BYTES, MS_ASYNC), 0);
  munmap(part, TB_PIECE_SLOTS * TB_SLOT_BYTES);
  gpu.up_ring.registered &= ~bit, gpu.up_ring.allocated &= ~bit;
  tb_device_leave();
  close_gpu();
  expect_nothing_left();
}

/* More rings at once than may wait: the one that finds no room is as it was, keeps no context, and orders again. */
static void no_room_for_an_order(void **state) {
  enum { RINGS = 33 }; /* of which 32 may wait */
  static struct tb_ring rings[RINGS];
  (void)state;
  open_gpu();
  const uint64_t contexts = fake->get(FAKE_CUDA_CONTEXTS);
  atomic_store(&held, true);
  for (int i = 0; i < RINGS; i++) {
    rings[i] = (struct tb_ring){.slots = 2, .earned_slots = 4};
    tb_widening_order(&rings[i], gpu.handle, gpu.context);
    assert_int_equal(rings[i].ordered, i < RINGS - 1);
  }
  assert_int_equal(rings[RINGS - 1].earned_slots, 4);
  atomic_store(&held, false);
  assert_true(tb_widening_settle());
  assert_int_equal(atomic_load(&pinned), RINGS - 1);
  for (int i = 0; i < RINGS - 1; i++) {
    tb_widening_take(&rings[i]);
    assert_int_equal(rings[i].slots, 4);
  }
  tb_widening_order(&rings[RINGS - 1], gpu.handle, gpu.context);
  assert_true(rings[RINGS - 1].ordered && tb_widening_settle());
  tb_widening_take(&rings[RINGS - 1]);
  assert_int_equal(rings[RINGS - 1].slots, 4);
  assert_int_equal(fake->get(FAKE_CUDA_CONTEXTS), contexts);
  assert_int_equal(tb_device_enter(&gpu), CUDA_SUCCESS);
  for (int i = 0; i < RINGS; i++) tb_widening_give_back(rings[i].slot[2]);
  tb_device_leave();
  close_gpu();
  expect_nothing_left();
}

/* A further lane has few slots; behind its first larger call as many as a ring has at first, and then all. */
static void in_a_lane(void **state) {
  (void)state;
  static struct tb_lanes lanes;
  open_gpu();
  tb_lanes_begin(&lanes, &gpu);
  struct tb_device *const d = tb_lanes_device(&lanes, 1);
  assert_non_null(d);
  call_moves(d, (double)(TB_SLOTS_SMALL * TB_SLOT_BYTES));
  call_is_over(d);
  assert_true(tb_widening_settle());
  call_moves(d, (double)(TB_SLOTS_SMALL * TB_SLOT_BYTES + 1));
  expect_slots(d, TB_SLOTS_SMALL);
  call_is_over(d);
  assert_true(tb_widening_settle());
  large_call(d);
  expect_slots(d, TB_SLOTS_FIRST);
  call_is_over(d);
  assert_true(tb_widening_settle());
  call_moves(d, 1);
  expect_slots(d, TB_SLOTS);
  assert_true(tb_lanes_close(&lanes));
  tb_lanes_end(&lanes);
  close_gpu();
  expect_nothing_left();
}

/* ---- ends ---- */

/* With the parent's order under way: the child waits for none, and calls no driver. */
static int child_of_a_fork(void *unused) {
  (void)unused;
  alarm(60);
  tb_keeper_after_fork();
  if (!tb_widening_settle()) return 2;
  call_moves(&gpu, 1);
  if (gpu.up_ring.slots != TB_SLOTS_FIRST || gpu.up_ring.ordered) return 3;
  return atomic_load(&entered) == 1 ? 0 : 4;
}

static void forked_meanwhile(void **state) {
  (void)state;
  struct tst_output o;
  open_gpu();
  atomic_store(&held, true);
  large_call(&gpu);
  call_is_over(&gpu);
  wait_until_one_is_inside();
  tst_fork(&o, child_of_a_fork, NULL);
  atomic_store(&held, false);
  if (o.status != 0) fail_msg("the child's status %d\n%s%s", o.status, o.out, o.err);
  tst_output_destroy(&o);
  assert_true(tb_widening_settle());
  call_moves(&gpu, 1);
  expect_slots(&gpu, TB_SLOTS);
  close_gpu();
  expect_nothing_left();
}

static void *let_go_soon(void *unused) {
  usleep(100000);
  atomic_store(&held, false);
  return unused;
}

static int threads_here(void) {
  DIR *const tasks = opendir("/proc/self/task");
  int count = -2; /* two entries are none */
  assert_non_null(tasks);
  while (readdir(tasks) != NULL) count++;
  closedir(tasks);
  return count;
}

/* The library leaves the process: the thread ends when the driver lets it go, and not before. */
static void unloaded_meanwhile(void **state) {
  (void)state;
  pthread_t thread;
  open_gpu();
  atomic_store(&held, true);
  large_call(&gpu);
  call_is_over(&gpu);
  wait_until_one_is_inside();
  const int threads = threads_here();
  assert_int_equal(pthread_create(&thread, NULL, let_go_soon, NULL), 0);
  tb_widening_end();
  assert_false(atomic_load(&held));
  assert_int_equal(atomic_load(&pinned), 2 * PARTS);
  pthread_join(thread, NULL);
  for (int i = 0; i < 2000 && threads_here() >= threads; i++) usleep(1000); /* the kernel may be behind */
  assert_int_equal(threads_here(), threads - 1);
  close_gpu();
  expect_nothing_left();
}

/* What runs behind the library's own handler finds all pinned. The fake driver is not started before the fork. */
static void look_at_the_end(void) { _exit(atomic_load(&pinned) == 2 * PARTS ? 0 : 5); }

static int ending_process(void *unused) {
  pthread_t thread;
  (void)unused;
  alarm(60);
  main_thread = pthread_self();
  if (atexit(look_at_the_end) != 0 || !tb_cuda_load() || tb_cuda.cuInit(0) != CUDA_SUCCESS) return 2;
  driver_pins = tb_cuda.cuMemHostRegister;
  open_gpu();
  tb_keeper_begin();
  atomic_store(&held, true);
  large_call(&gpu);
  call_is_over(&gpu);
  wait_until_one_is_inside();
  return pthread_create(&thread, NULL, let_go_soon, NULL) == 0 && pthread_detach(thread) == 0 ? 0 : 3;
}

static void the_process_ends_meanwhile(void **state) {
  (void)state;
  struct tst_output o;
  tst_fork(&o, ending_process, NULL);
  if (o.status != 0) fail_msg("the child's status %d\n%s%s", o.status, o.out, o.err);
  tst_output_destroy(&o);
}

/* What a case that has failed leaves behind would make the others fail, slowly. */
static int end_case(void **state) {
  (void)state;
  atomic_store(&held, false);
  atomic_store(&no_threads, false);
  fake->clear_failures();
  const bool settled = tb_widening_settle();
  close_gpu();
  return settled ? 0 : -1;
}

static int start_driver(void **state) {
  (void)state;
  main_thread = pthread_self();
  if (!tb_cuda_load() || tb_cuda.cuInit(0) != CUDA_SUCCESS) return -1;
  driver_pins = tb_cuda.cuMemHostRegister;
  return 0;
}

#define CASE(name) cmocka_unit_test_teardown(name, end_case)

int main(void) {
  const struct CMUnitTest before[] = {cmocka_unit_test(the_process_ends_meanwhile)};
  const struct CMUnitTest tests[] = {CASE(opened_for_a_large_call), CASE(beside_calls),     CASE(for_large_calls),
                                     CASE(for_large_ways),          CASE(closed_meanwhile), CASE(opened_anew_meanwhile),
                                     CASE(refused_at_first),        CASE(refused_midway),   CASE(kept_by_the_driver),
                                     CASE(no_room_for_an_order),    CASE(in_a_lane),        CASE(forked_meanwhile),
                                     CASE(unloaded_meanwhile)};
  fake = tst_fake();
  if (!fake) tst_skip("a real driver pins as it likes");
  const int failed = cmocka_run_group_tests(before, NULL, NULL);
  return tst_result(failed + cmocka_run_group_tests(tests, start_driver, NULL));
}
