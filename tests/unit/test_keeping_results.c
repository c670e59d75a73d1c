/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which results a GPU keeps, and when they may be used: those of a kind that was an operand twice; whole ones alone; of
 * their own bytes, whatever the program's memory had when they were committed. When the kernel is to watch one, what is
 * written as that begins is seen. A result that is about to be written anew is watched no more.
 *
 * Seen to fail when: a copy is found before it is whole; pages are protected behind the digest; they stay protected
 * while a result is committed; a copy is taken over that a call has.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cache/cache.h"
#include "placed.h"
#include "rng.h"

#define MEMORY ((size_t)8 << 20)
#define NO_LIMIT (INT64_MAX / 2)
#define OF_K 7

static char *memory; /* of the program's matrices */
static struct tb_cache *cache;
static bool tracks; /* the kernel does */

static char *written_before_watch; /* a byte that somebody writes when pages are about to be protected; NULL: nobody */

int ioctl(int file, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void *const argument = va_arg(arguments, void *);
  va_end(arguments);
  const struct uffdio_writeprotect *const range = argument;
  if (request == UFFDIO_WRITEPROTECT && range->mode != 0 && written_before_watch != NULL) {
    *written_before_watch ^= 1;
    written_before_watch = NULL;
  }
  return (int)syscall(SYS_ioctl, file, request, argument);
}

static struct tb_stored matrix(size_t at) { return (struct tb_stored){memory + at, 4096, 300, 4096, TB_STORED_ALL}; }

static void rewrite(struct tb_stored c, uint64_t seed) {
  for (int64_t i = 0; i < c.columns * c.pitch_bytes; i += 8)
    memcpy((char *)(uintptr_t)c.data + i, &(uint64_t){tst_random(&seed)}, 8);
}

static void begin(void) {
  memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(memory != MAP_FAILED);
  memset(memory, 1, MEMORY);
  struct tb_tracked pages = tb_track_pages((uintptr_t)memory, (uintptr_t)memory + 4096);
  tracks = tb_track_begin(&pages, tb_track_pages((uintptr_t)memory, (uintptr_t)memory + MEMORY));
  tb_track_end(&pages);
  cache = tb_cache_open(true);
  assert_non_null(cache);
  tb_cache_allow_results(cache, true);
}

static void end(void) {
  tb_cache_close(cache, true);
  tb_track_close();
  munmap(memory, MEMORY);
}

/* ---- calls ---- */

/* A call begins that makes C. */
static struct tb_kept *begin_making(int user, struct tb_stored c) {
  assert_true(tb_cache_enter());
  tb_cache_begin_call(cache, user);
  struct tb_kept *kept = tb_cache_begin_result(cache, &c, OF_K);
  if (kept != NULL && !tb_cache_make_result(cache, user, kept, NO_LIMIT, NO_LIMIT)) kept = NULL;
  tb_cache_leave();
  return kept;
}

static void end_making(int user, struct tb_stored c, struct tb_kept *kept) {
  if (kept != NULL) tb_cache_finish_result(kept);
  assert_true(tb_cache_enter());
  if (kept == NULL) tb_cache_end_result(cache, &c);
  tb_cache_leave();
  tb_cache_end_call(cache, user);
}

/* As the GPU does, of the copy that has C's bytes now. */
static void digest(struct tb_kept *kept) {
  for (int64_t i = 0; kept != NULL && i < kept->cells.count; i++) {
    const struct tb_stored cell = tb_cell(&kept->stored, &kept->cells, i);
    kept->digests[i] = tb_hash_cell(&cell);
  }
}

static bool make(struct tb_stored c, uint64_t seed) {
  struct tb_kept *const kept = begin_making(0, c);
  rewrite(c, seed);
  digest(kept);
  end_making(0, c, kept);
  return kept != NULL;
}

/* A call that has it as an operand, and asks before it commits. */
static enum tb_proof use(int user, struct tb_stored operand) {
  struct tb_cached found;
  struct tb_question question = {.kept = NULL};
  assert_true(tb_cache_enter());
  tb_cache_begin_call(cache, user);
  tb_cache_look(cache, user, &operand, NULL, &found, &question);
  if (question.kept != NULL) {
    tb_question_ask(&question, NULL);
    if (!tb_kept_answer(&question)) found.proof = TB_NOT_KEPT;
  }
  tb_cache_leave();
  tb_cache_end_call(cache, user);
  return found.proof;
}

/* Until results of this kind are kept. */
static void learn(struct tb_stored c) {
  for (uint64_t i = 0; i < 2; i++) {
    assert_false(make(c, 10 + i));
    assert_int_equal(use(0, c), TB_NOT_KEPT);
  }
  assert_true(make(c, 12));
  assert_int_equal(use(0, c), TB_BY_HASH);
}

/* ---- cases ---- */

static void a_chain_is_kept(void **state) {
  (void)state;
  begin();
  const struct tb_stored c = matrix(40);
  learn(c);
  for (uint64_t i = 0; i < 5; i++) {
    assert_true(make(c, i));
    assert_int_equal(use(0, c), TB_BY_HASH);
    memory[40 + 4096 * 100 + 9] ^= 1;
    assert_int_equal(use(0, c), TB_NOT_KEPT);
    memory[40 + 4096 * 100 + 9] ^= 1;
    if (i == 2) break; /* patience */
    while (!make(c, i)) use(0, c);
  }
  end();
}

/* It has all of its bytes, and those of the result before, and is not whole yet. */
static void not_before_it_is_whole(void **state) {
  (void)state;
  begin();
  const struct tb_stored c = matrix(40);
  learn(c);
  assert_true(make(c, 5));
  struct tb_kept *const kept = begin_making(0, c);
  assert_non_null(kept);
  digest(kept);
  assert_int_equal(use(1, c), TB_NOT_KEPT);
  struct tb_stored part = c;
  part.columns = 200;
  assert_int_equal(use(1, part), TB_NOT_KEPT);
  assert_null(begin_making(1, c)); /* nor written by another */
  tb_cache_end_call(cache, 1);
  end_making(0, c, kept);
  assert_int_equal(use(1, c), TB_BY_HASH);
  assert_int_equal(use(1, part), TB_BY_HASH);
  end();
}

/* A call failed, or was left: the next one has neither the copy nor its memory's bytes. */
static void never_whole(void **state) {
  (void)state;
  begin();
  const struct tb_stored c = matrix(40);
  learn(c);
  assert_true(make(c, 5));
  assert_non_null(begin_making(0, c));
  tb_cache_end_call(cache, 0);
  assert_int_equal(use(0, c), TB_NOT_KEPT);
  assert_int_equal(tb_cache_bytes(cache), 0);
  assert_int_equal(use(0, c), TB_NOT_KEPT);
  end();
}

/* Another thread writes to C while it is committed: what is proven is the copy. */
static void written_as_it_is_committed(void **state) {
  (void)state;
  begin();
  const struct tb_stored c = matrix(40);
  learn(c);
  struct tb_kept *const kept = begin_making(0, c);
  rewrite(c, 20);
  digest(kept);
  memory[40 + 4096 * 200 + 9] ^= 1;
  end_making(0, c, kept);
  assert_int_equal(use(0, c), TB_NOT_KEPT);
  end();
}

/* From the second proof on the kernel watches; what is written just before is seen by the digest, and then by it. */
static void watched_in_time(void **state) {
  (void)state;
  begin();
  const struct tb_stored c = matrix(40);
  learn(c);
  if (tracks) {
    assert_int_equal(use(0, c), TB_BY_HASH); /* and watched */
    assert_int_equal(use(0, c), TB_BY_TRACKING);
    assert_int_equal(use(0, c), TB_BY_TRACKING);
    memory[40 + 4096 * 100 + 9] ^= 1;
    assert_int_equal(use(0, c), TB_NOT_KEPT);
    struct tb_kept *kept = NULL;
    for (uint64_t i = 0; i < 100 && kept == NULL; i++) {
      kept = begin_making(0, c);
      rewrite(c, i);
      digest(kept);
      end_making(0, c, kept);
      assert_true(use(0, c) == TB_BY_HASH || kept == NULL);
    }
    while (use(0, c) == TB_BY_HASH && kept->tracked.number == 0) continue;
    assert_int_not_equal(kept->tracked.number, 0);
    tb_kept_forget_pages(kept);
    written_before_watch = memory + 40 + 4096 * 200 + 9;
    assert_int_equal(use(0, c), TB_NOT_KEPT);
    assert_null(written_before_watch);
    assert_int_equal(use(0, c), TB_NOT_KEPT);
  }
  end();
}

static void committed_unwatched(void **state) {
  (void)state;
  begin();
  const struct tb_stored c = matrix(40);
  learn(c);
  if (tracks) {
    assert_int_equal(use(0, c), TB_BY_HASH);
    assert_int_equal(use(0, c), TB_BY_TRACKING);
    struct tb_kept *const kept = begin_making(0, c);
    assert_non_null(kept);
    assert_int_equal(kept->tracked.number, 0);
    end_making(0, c, NULL);
  }
  end();
}

/* A result elsewhere has the memory of an older one, but not of one that a call has. */
static void memory_is_taken_over(void **state) {
  (void)state;
  for (int held = 0; held < 2; held++) {
    begin();
    const struct tb_stored c = matrix(0), elsewhere = matrix(4096 * 310);
    struct tb_cached found;
    struct tb_question question = {.kept = NULL};
    learn(c);
    const int64_t one = tb_cache_bytes(cache);
    assert_true(tb_cache_enter());
    tb_cache_begin_call(cache, 1);
    tb_cache_look(cache, 1, &c, NULL, &found, &question);
    assert_true(tb_proof_is_kept(found.proof));
    if (!held) tb_cache_end_call(cache, 1);
    tb_cache_begin_call(cache, 0);
    struct tb_kept *const kept = tb_cache_begin_result(cache, &elsewhere, OF_K);
    assert_non_null(kept);
    assert_true(tb_cache_make_result(cache, 0, kept, 0, one) == !held);
    assert_int_equal(tb_cache_bytes(cache), one);
    tb_cache_leave();
    tb_cache_end_call(cache, 0);
    tb_cache_end_call(cache, 1);
    end();
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_chain_is_kept),      cmocka_unit_test(not_before_it_is_whole),
      cmocka_unit_test(never_whole),          cmocka_unit_test(written_as_it_is_committed),
      cmocka_unit_test(watched_in_time),      cmocka_unit_test(committed_unwatched),
      cmocka_unit_test(memory_is_taken_over),
  };
  if (!tb_cuda_load()) return 1;
  tst_cuda_begin(0);
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  tst_cuda_end(0);
  return failed;
}
