/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What CUDA is asked about beside calls: as many pages as there are, each once; and its answers go for the watch under
 * which they were asked alone.
 *
 * Nor does a copy wait for them in vain: what was rewritten goes, and of two that have pages of each other's one is
 * used. Of a part its own bytes alone are looked at, for what else there was may be gone. A thread that asks beside a
 * product stops for a window, goes on behind it, and keeps no call from its end.
 *
 * Seen to fail when: an answer goes for a later watch of the same pages; one call's answers are asked for again by the
 * next; a copy that waits for them is given back, or is used; a watch that was lost is begun anew each time; for a part
 * of what waits all of it is looked at, or its ends; who finds the cache taken goes on; a thread asks through a window,
 * or one that copies for other calls is waited for until there is nothing to be copied.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"

#include "cache/cache.h"
#include "other_copies.h"
#include "pipeline/keep.h"
#include "placed.h"
#include "process.h"
#include "rng.h"

#define PAGE 4096
/* 20 MiB, of which 8 are asked about in a look. */
#define PAGES 5120
#define PAGES_AT_ONCE 2048
#define PAGES_OF_A_TURN 64
#define NO_LIMIT (INT64_MAX / 2)

static char *memory;
static struct tb_cache *cache;
static struct tb_stored operand;

/* False: the kernel does not say who writes. */
static bool begin(void) {
  memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(memory != MAP_FAILED);
  uint64_t seed = 1;
  for (size_t i = 0; i < PAGES * PAGE; i += 8) memcpy(memory + i, &(uint64_t){tst_random(&seed)}, 8);
  operand = (struct tb_stored){memory, PAGE, PAGES, PAGE, TB_STORED_ALL};
  cache = tb_cache_open(true);
  assert_non_null(cache);
  tb_cache_allow_hash(cache, false);
  return tb_kept_may_be_watched();
}

static void end(void) {
  tb_cache_close(cache, true);
  munmap(memory, PAGES * PAGE);
}

/* A call of a GPU that copies what goes up; what there is to be asked is left. */
static struct tb_cached call_with(struct tb_stored operand, bool asks_later) {
  struct tb_cached found;
  assert_true(tb_cache_enter());
  tb_cache_begin_call(cache, 0);
  if (asks_later) tb_cache_allow_asking(cache);
  struct tb_kept *const worth = tb_cache_look(cache, 0, &operand, NULL, &found, NULL);
  if (worth != NULL && tb_cache_make(cache, 0, worth, NO_LIMIT, NO_LIMIT)) {
    for (int64_t i = 0; i < worth->cells.count; i++) {
      const struct tb_stored cell = tb_cell(&worth->stored, &worth->cells, i);
      worth->digests[i] = tb_hash_cell(&cell);
    }
    found.proof = TB_KEPT_ANEW;
  }
  tb_cache_leave();
  tb_cache_end_call(cache, 0);
  return found;
}

static struct tb_cached call(bool asks_later) { return call_with(operand, asks_later); }

/* The third call, at which the kernel begins to watch. */
static struct tb_kept *watch(void) {
  struct tb_cached found = call(true);
  assert_int_equal(found.proof, TB_NOT_KEPT);
  assert_int_equal(call(true).proof, TB_KEPT_ANEW);
  found = call(true);
  assert_int_equal(found.proof, TB_NOT_KEPT);
  assert_non_null(found.unasked);
  return found.unasked;
}

static void note(struct tb_asking *asking) {
  assert_true(tb_cache_enter());
  tb_asking_note(asking);
  tb_cache_leave();
}

/* Of so many turns, or until there is nothing to be asked. Returns how many there were. */
static int ask(struct tb_kept *kept, int most) {
  struct tb_asking asking;
  int turns = 0;
  for (tb_asking_begin(&asking, kept); asking.kept != NULL && turns < most; turns++) {
    tb_asking_go_on(&asking);
    note(&asking);
  }
  return turns;
}

static void each_page_once(void **state) {
  const int turns = (PAGES - PAGES_AT_ONCE) / PAGES_OF_A_TURN;
  (void)state;
  if (!begin()) TST_LEAVE_OUT("the kernel does not say who writes");
  struct tb_kept *const kept = watch();
  assert_int_equal(ask(kept, turns / 2), turns / 2); /* one call's */
  assert_int_equal(ask(kept, turns), turns - turns / 2);
  const struct tb_cached found = call(true);
  assert_int_equal(found.proof, TB_BY_HASH);
  assert_null(found.unasked);
  assert_int_equal(call(true).proof, TB_BY_TRACKING);
  end();
}

/* By the next look, if nobody asks meanwhile; and at once by a call that does not ask. */
static void without_turns(void **state) {
  (void)state;
  if (!begin()) TST_LEAVE_OUT("the kernel does not say who writes");
  assert_non_null(watch());
  assert_int_equal(call(true).proof, TB_NOT_KEPT);
  assert_int_equal(call(true).proof, TB_BY_HASH);
  assert_int_equal(call(true).proof, TB_BY_TRACKING);
  end();
  begin();
  call(true), call(true);
  const struct tb_cached found = call(false);
  assert_int_equal(found.proof, TB_BY_HASH);
  assert_null(found.unasked);
  end();
}

/* The copy gives way to another of the same bytes, which is watched anew: what was asked before says nothing of it. */
static void answers_of_an_earlier_watch(void **state) {
  struct tb_asking asking;
  (void)state;
  if (!begin()) TST_LEAVE_OUT("the kernel does not say who writes");
  struct tb_kept *kept = watch();
  assert_true(tb_asking_begin(&asking, kept));
  while (asking.at < asking.end) tb_asking_go_on(&asking);
  memset(memory, 1, (size_t)PAGES * PAGE);
  for (int calls = 0; (kept = call(true).unasked) == NULL || kept->tracked.number == asking.number;)
    assert_true(++calls < 100);
  note(&asking);
  assert_null(asking.kept);
  assert_int_equal(ask(kept, PAGES), (PAGES - PAGES_AT_ONCE) / PAGES_OF_A_TURN);
  end();
}

static void what_is_rewritten_goes(void **state) {
  (void)state;
  if (!begin()) TST_LEAVE_OUT("the kernel does not say who writes");
  watch();
  memset(memory, 1, (size_t)PAGES * PAGE);
  assert_int_equal(call(true).proof, TB_NOT_KEPT);
  assert_int_equal(tb_cache_bytes(cache), 0);
  end();
}

/* The upper and the lower half of a matrix of long columns: none has all pages of the other. */
static void two_halves(void **state) {
  (void)state;
  if (!begin()) TST_LEAVE_OUT("the kernel does not say who writes");
  struct tb_stored half[2];
  int used[2] = {0, 0};
  for (int i = 0; i < 2; i++)
    half[i] = (struct tb_stored){memory + i * 32 * PAGE, 32 * PAGE, PAGES / 64, 64 * PAGE, TB_STORED_ALL};
  for (int calls = 0; calls < 60; calls++)
    for (int i = 0; i < 2; i++) {
      const struct tb_cached found = call_with(half[i], true);
      if (found.unasked != NULL) ask(found.unasked, PAGES);
      used[i] += tb_proof_is_kept(found.proof);
    }
  assert_true(used[0] + used[1] > 40);
  end();
}

/* Columns by their digests each time, and rows, of which there are none, when all of it has been looked at. */
static void parts_of_what_waits(void **state) {
  (void)state;
  if (!begin()) TST_LEAVE_OUT("the kernel does not say who writes");
  ask(watch(), PAGES);
  struct tb_stored columns = operand, rows = operand;
  columns.columns = PAGES / 4;
  rows.data += 512, rows.column_bytes = 1024;
  assert_int_equal(call_with(rows, true).proof, TB_NOT_KEPT);
  for (int i = 0; i < 2; i++) assert_int_equal(call_with(columns, true).proof, TB_BY_HASH);
  assert_int_equal(call(true).proof, TB_BY_HASH);
  assert_int_equal(call_with(rows, true).proof, TB_BY_TRACKING);
  assert_int_equal(call_with(columns, true).proof, TB_BY_TRACKING);
  end();
}

/* The operand begins and ends within pages. What is gone of it, its midst too, and the part that is left. */
static void expect_of_the_rest(int64_t gone, int64_t end_of_gone, int64_t first, enum tb_proof proof) {
  for (int asked = 0; asked < 2; asked++) {
    if (!begin()) TST_LEAVE_OUT("the kernel does not say who writes");
    operand.data += 40, operand.columns--;
    struct tb_kept *const kept = watch();
    if (asked) ask(kept, PAGES);
    munmap(memory + gone * PAGE, (size_t)(end_of_gone - gone) * PAGE);
    struct tb_stored part = operand;
    part.data += first * PAGE, part.columns = PAGES / 4 - 4;
    assert_int_equal(call_with(part, true).proof, proof);
    end();
  }
}

static void what_is_gone_is_not_read(void **state) {
  (void)state;
  expect_of_the_rest(0, PAGES / 2 + 8, 3 * PAGES / 4, TB_NOT_KEPT);
  expect_of_the_rest(PAGES / 2 - 8, PAGES, 0, TB_NOT_KEPT);
  expect_of_the_rest(3 * PAGES / 4, PAGES, 0, TB_BY_HASH);
  expect_of_the_rest(0, PAGES / 4, PAGES / 2, TB_BY_HASH);
}

/* What was written before the kernel watched, elsewhere than in the part. */
static void a_part_is_not_all(void **state) {
  (void)state;
  if (!begin()) TST_LEAVE_OUT("the kernel does not say who writes");
  call(true), call(true);
  memory[3 * PAGES / 4 * PAGE + 9] ^= 1;
  struct tb_kept *const kept = call(true).unasked;
  assert_non_null(kept);
  ask(kept, PAGES);
  struct tb_stored part = operand;
  part.columns = PAGES / 4;
  call_with(part, true);
  assert_false(tb_proof_is_kept(call(true).proof));
  end();
}

/* Else nobody would look whether the GPU hangs. */
static void beside_another_call(void **state) {
  struct tb_keep keep = {.doubt = TB_ALL_PROVEN};
  int turns = 0;
  (void)state;
  if (!begin()) TST_LEAVE_OUT("the kernel does not say who writes");
  struct tb_kept *const kept = watch();
  assert_true(tb_asking_begin(&keep.later.asking[1], kept));
  assert_true(tb_cache_enter());
  for (; tb_keep_ask(&keep); turns++) assert_true(turns < PAGES);
  tb_cache_leave();
  assert_int_equal(turns, (PAGES - PAGES_AT_ONCE) / PAGES_OF_A_TURN);
  assert_true(kept->asked_end < kept->tracked.end);
  assert_false(tb_keep_ask(&keep));
  assert_true(kept->asked_end == kept->tracked.end);
  end();
}

/* CUDA has a page: it is found, and the copy goes. */
static void cudas(void **state) {
  (void)state;
  if (!begin()) TST_LEAVE_OUT("the kernel does not say who writes");
  tst_cuda_register(memory + (PAGES - 1) * PAGE, PAGE);
  struct tb_kept *const kept = watch();
  ask(kept, PAGES);
  assert_int_equal(call(true).proof, TB_NOT_KEPT);
  assert_int_equal(tb_cache_bytes(cache), 0);
  tst_cuda_unregister(memory + (PAGES - 1) * PAGE);
  end();
}

/* A call that does not ask CUDA beside its product asks about all pages beside the digest, however soon that is done.
 */
static void cudas_page_of_a_call_that_does_not_ask(void **state) {
  (void)state;
  if (!begin()) TST_LEAVE_OUT("the kernel does not say who writes");
  tst_cuda_register(memory + (PAGES - 1) * PAGE, PAGE);
  call(true), call(true);
  assert_int_equal(call(false).proof, TB_NOT_KEPT);
  assert_int_equal(tb_cache_bytes(cache), 0);
  tst_cuda_unregister(memory + (PAGES - 1) * PAGE);
  end();
}

/* ---- by a thread, beside a product ---- */

#define PATIENCE_SECONDS 20

static struct tb_device device;
static atomic_int pages_asked;
static __typeof__(tb_cuda.cuPointerGetAttributes) driver_asks;

/* As a slow driver: 3 s for all pages, in which the test has its turn on a busy machine, too; and at last as it is. */
static atomic_bool hurries;
static CUresult ask_slowly(unsigned count, CUpointer_attribute *attributes, void **values, CUdeviceptr pointer) {
  if (!atomic_load(&hurries)) usleep(1000);
  const CUresult result = driver_asks(count, attributes, values, pointer);
  atomic_fetch_add(&pages_asked, 1);
  return result;
}

static void await_pages_asked(int count) {
  for (const double begun = tb_clock_seconds(); atomic_load(&pages_asked) < count; usleep(100))
    assert_true(tb_clock_seconds() < begun + PATIENCE_SECONDS);
}

/* A's copy comes to be, and a thread asks about it. */
static void begin_product(struct tb_keep *keep) {
  keep->coming[TB_OF_A] = watch();
  device = (struct tb_device){.pool = tb_pool_open(3, false), .patience_seconds = PATIENCE_SECONDS};
  assert_non_null(device.pool);
  driver_asks = tb_cuda.cuPointerGetAttributes;
  tb_cuda.cuPointerGetAttributes = ask_slowly;
  atomic_store(&pages_asked, 0), atomic_store(&hurries, false);
  tb_keep_begin_asker(keep, &device);
}

static void end_product(void) {
  tb_cuda.cuPointerGetAttributes = driver_asks;
  tb_pool_close(device.pool);
  end();
}

static void not_in_a_window(void **state) {
  struct tb_keep keep = {.doubt = TB_ALL_PROVEN};
  (void)state;
  if (!begin()) TST_LEAVE_OUT("the kernel does not say who writes");
  begin_product(&keep);
  await_pages_asked(1);
  tb_keep_pause_asker(&keep);
  const int before = atomic_load(&pages_asked);
  usleep(30000);
  assert_int_equal(atomic_load(&pages_asked), before);
  assert_true(before < PAGES - PAGES_AT_ONCE);
  atomic_store(&hurries, true);
  tb_keep_begin_asker(&keep, &device);
  await_pages_asked(PAGES - PAGES_AT_ONCE);
  tb_keep_pause_asker(&keep);
  assert_int_equal(atomic_load(&pages_asked), PAGES - PAGES_AT_ONCE);
  end_product();
}

/* Who asks helps with them, until the product is over. */
static void not_behind_others_copies(void **state) {
  struct tb_keep keep = {.doubt = TB_ALL_PROVEN};
  (void)state;
  if (!begin()) TST_LEAVE_OUT("the kernel does not say who writes");
  begin_product(&keep);
  await_pages_asked(1);
  tst_other_copies_begin(device.pool);
  tst_other_copies_await();
  await_pages_asked(PAGES_OF_A_TURN); /* from here on who asks copies, too */
  assert_int_equal(tb_keep_end_coming(&keep, &device), CUDA_SUCCESS);
  assert_true(tst_other_copies_end());
  end_product();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_page_once),
      cmocka_unit_test(without_turns),
      cmocka_unit_test(answers_of_an_earlier_watch),
      cmocka_unit_test(what_is_rewritten_goes),
      cmocka_unit_test(two_halves),
      cmocka_unit_test(parts_of_what_waits),
      cmocka_unit_test(what_is_gone_is_not_read),
      cmocka_unit_test(a_part_is_not_all),
      cmocka_unit_test(beside_another_call),
      cmocka_unit_test(cudas),
      cmocka_unit_test(cudas_page_of_a_call_that_does_not_ask),
      cmocka_unit_test(not_in_a_window),
      cmocka_unit_test(not_behind_others_copies),
  };
  if (!tb_cuda_load()) return 1;
  tst_cuda_begin(0);
  const int result = tst_result(cmocka_run_group_tests(tests, NULL, NULL));
  tst_cuda_end(0);
  return result;
}
