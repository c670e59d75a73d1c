/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What copies cost programs to which they are of no use: those that write an operand before each call or after a few,
 * be it the same bytes, in place or in memory that is mapped anew. Counted is what is done for copies, in bytes: that
 * go up to stay, that are digested, and that are write-protected, each page of which costs its writer a fault. All of
 * it together may be little more than one copy, however long the program runs; and no call is begun with a copy that
 * was written as a whole. Where two uses do pay, or many are made between writes, copies are used in every round.
 *
 * Seen to fail when: no page is asked about, or none of a fresh copy; its being written is no failure; what is written
 * is digested and watched again at once, or handed out; uses of parts pay for all; a page of what is tracked is
 * protected again, or speaks for the time before; memory that was given back counts as written, or what was written as
 * given back, or two uses are enough for that.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "cache/cache.h"
#include "cache/ranges.h"
#include "placed.h"
#include "rng.h"

#define PAGE ((int64_t)4096)
#define NO_LIMIT (INT64_MAX / 2)

/* One operand, of 300 pages, of which the first begins and the last ends within a page. */
enum { COLUMN_BYTES = 4096, COLUMNS = 300, BYTES = COLUMN_BYTES * COLUMNS, MEMORY = BYTES + 2 * 4096 };

static char *memory, *contents; /* where the operand is; and what it is to be */
static struct tb_cache *cache;
static bool tracks; /* the kernel does */

/* What was done, in bytes. */
static struct {
  int64_t made, hashed, saved, protected;
  int refuted; /* calls that were begun with a copy that was written */
} done;

/* The library's, too. */
int ioctl(int fd, unsigned long request, ...) {
  static int (*next)(int, unsigned long, void *);
  va_list rest;
  va_start(rest, request);
  void *const argument = va_arg(rest, void *);
  va_end(rest);
  if (next == NULL) next = (__typeof__(next))(uintptr_t)dlsym(RTLD_NEXT, "ioctl");
  if (request == UFFDIO_WRITEPROTECT) {
    const struct uffdio_writeprotect *const w = argument;
    if (w->mode & UFFDIO_WRITEPROTECT_MODE_WP) done.protected += (int64_t)w->range.len;
  }
  return next(fd, request, argument);
}

static struct tb_stored operand(void) { return (struct tb_stored){memory + 40, 4096, COLUMNS, 4096, TB_STORED_ALL}; }

static void map(bool anew) {
  void *const at = mmap(anew ? memory : NULL, MEMORY, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | (anew ? MAP_FIXED : 0), -1, 0);
  assert_true(at != MAP_FAILED);
  memory = at;
  memcpy(memory, contents, MEMORY);
}

static void begin(bool hash_pays) {
  uint64_t seed = 1;
  contents = malloc(MEMORY);
  for (size_t i = 0; i < MEMORY; i += 8) memcpy(contents + i, &(uint64_t){tst_random(&seed)}, 8);
  map(false);
  struct tb_tracked pages = tb_track_pages((uintptr_t)memory, (uintptr_t)memory + PAGE);
  tracks = tb_track_begin(&pages, tb_track_pages((uintptr_t)memory, (uintptr_t)memory + MEMORY));
  tb_track_end(&pages);
  cache = tb_cache_open(true);
  assert_non_null(cache);
  tb_cache_allow_hash(cache, hash_pays);
  memset(&done, 0, sizeof done);
}

static void end(void) {
  tb_cache_close(cache, true);
  tb_track_close();
  munmap(memory, MEMORY);
  free(contents);
}

static void fill(struct tb_kept *kept) {
  if (!kept->digested) memset(kept->digests, 0, (size_t)kept->cells.count * sizeof *kept->digests);
  if (!kept->digested) return;
  for (int64_t i = 0; i < kept->cells.count; i++) {
    const struct tb_stored cell = tb_cell(&kept->stored, &kept->cells, i);
    kept->digests[i] = tb_hash_cell(&cell);
  }
}

/* A call with the operand, as the pipeline does it. */
static enum tb_proof use_part(struct tb_stored s) {
  struct tb_cached found;
  struct tb_question question = {.kept = NULL};
  assert_true(tb_cache_enter());
  tb_cache_begin_call(cache, 0);
  struct tb_kept *const worth = tb_cache_look(cache, 0, &s, NULL, &found, &question);
  if (worth != NULL && tb_cache_make(cache, 0, worth, NO_LIMIT, NO_LIMIT)) {
    fill(worth);
    found.proof = TB_KEPT_ANEW;
    done.made += BYTES;
  }
  if (question.kept != NULL) {
    tb_question_ask(&question, NULL);
    if (!tb_kept_answer(&question)) {
      done.refuted++;
      assert_null(tb_cache_look(cache, 0, &s, NULL, &found, NULL)); /* and is begun anew */
    }
  }
  tb_cache_leave();
  tb_cache_end_call(cache, 0);
  if (found.proof == TB_BY_HASH) done.hashed += BYTES;
  if (tb_proof_is_kept(found.proof)) done.saved += BYTES;
  return found.proof;
}

static enum tb_proof use(void) { return use_part(operand()); }

/* How a program writes to its operand. */
enum writing { SAME_BYTES, MAPPED_ANEW, OTHER_BYTES, WRITINGS, ONE_BYTE = WRITINGS };
static const char *const writing_names[] = {"the same bytes", "the same bytes, mapped anew", "other bytes",
                                            "one byte, the same"};

static void rewrite(enum writing writing) {
  if (writing == OTHER_BYTES)
    for (int64_t i = 0; i < MEMORY; i++) contents[i]++;
  if (writing == ONE_BYTE)
    ((volatile char *)memory)[20 * PAGE] = contents[20 * PAGE];
  else if (writing == MAPPED_ANEW)
    map(true);
  else
    memcpy(memory, contents, MEMORY);
}

static void run_rounds(int rounds, int uses, enum writing writing) {
  for (int round = 0; round < rounds; round++) {
    rewrite(writing);
    for (int i = 0; i < uses; i++) use();
  }
}

static void tell(const char *what, int uses) {
  print_message("%s, %d uses: made %.1f, digested %.1f, protected %.2f, saved %.1f copies, %d refuted\n", what, uses,
                (double)done.made / BYTES, (double)done.hashed / BYTES, (double)done.protected / BYTES,
                (double)done.saved / BYTES, done.refuted);
}

/* Once, or twice as by a network's way forward and back: one copy is made in vain, and no more. */
static void what_is_written_costs_one_copy(void **state) {
  (void)state;
  for (int writing = 0; writing < WRITINGS; writing++)
    for (int uses = 1; uses <= 2; uses++) {
      begin(false);
      if (tracks) {
        run_rounds(1000, uses, (enum writing)writing);
        tell(writing_names[writing], uses);
        assert_in_range(done.made, 0, BYTES);
        assert_int_equal(done.hashed, 0);
        assert_in_range(done.protected, 0, 16 * PAGE); /* each after twice as many sights as the one before */
        assert_int_equal(done.refuted, 0);
        assert_int_equal(tb_cache_bytes(cache), 0);
      }
      end();
    }
}

/* Where that is told by no sample, and no page that is asked about: the kernel's word is believed once a copy, and the
 * copies are fewer and fewer. */
static void a_hidden_write_costs_few_copies(void **state) {
  (void)state;
  for (int uses = 1; uses <= 2; uses++) {
    begin(false);
    if (tracks) {
      run_rounds(1000, uses, ONE_BYTE);
      tell(writing_names[ONE_BYTE], uses);
      assert_in_range(done.made, 0, 10 * BYTES);
      assert_in_range(done.hashed, 0, 10 * BYTES);
      assert_in_range(done.protected, 0, 10 * (BYTES + PAGE));
      assert_in_range(done.refuted, 0, 10);
    }
    end();
  }
}

/* Of memory that is given back before others of the same place and size are written, as an array that is made for each
 * fit is: nobody takes a fault for its having been watched, so few uses pay. When they have, what comes there next is
 * watched at once, and copied at its first sight, so that nothing is digested. */
enum { USES_THAT_PAY = 6 };
static void few_uses_pay_where_it_is_given_back(void **state) {
  (void)state;
  for (int uses = USES_THAT_PAY; uses < 2 * USES_THAT_PAY; uses++) {
    begin(false);
    if (tracks) {
      run_rounds(50, uses, MAPPED_ANEW);
      tell(writing_names[MAPPED_ANEW], uses);
      assert_int_equal(done.saved, ((int64_t)50 * (uses - 1) - 1) * BYTES);
      assert_int_equal(done.made, (int64_t)50 * BYTES);
      assert_int_equal(done.hashed, BYTES);
      assert_in_range(done.protected, 0, 50 * (BYTES + 2 * PAGE));
      assert_int_equal(done.refuted, 0);
    }
    end();
  }
}

/* What is taken for such an array, and is written instead: the copy that was made at its first sight is none any more,
 * nobody takes its bytes for digested, and the next one comes as late as any. */
static void what_is_written_does_not_return(void **state) {
  (void)state;
  for (int hash_pays = 0; hash_pays < 2; hash_pays++) {
    begin(hash_pays);
    if (tracks) {
      for (int round = 0; round < 2; round++) {
        for (int64_t i = 0; i < MEMORY; i++) contents[i]++;
        map(true);
        for (int i = 0; i < USES_THAT_PAY + 2; i++) use();
      }
      for (int64_t i = 0; i < MEMORY; i++) contents[i]++;
      map(true);
      assert_int_equal(use(), TB_KEPT_ANEW);
      assert_int_equal(use(), TB_BY_TRACKING);
      memory[150 * PAGE] ^= 1, memory[151 * PAGE] ^= 1;
      assert_int_equal(use(), TB_NOT_KEPT);
      for (int sight = 2; sight < 4; sight++) assert_int_equal(use(), TB_NOT_KEPT);
      assert_int_equal(use(), TB_KEPT_ANEW);
      assert_int_equal(use(), TB_BY_HASH);
    }
    end();
  }
}

/* With more uses between writes copies pay, or the attempts come to an end: what they cost, where a page that its
 * writer takes a fault at counts as 20, is what was saved and no more than a few attempts beside. */
static void attempts_come_to_an_end(void **state) {
  static const int uses[] = {3, 4, 5, 7, 10, 20};
  (void)state;
  for (int writing = 0; writing < WRITINGS; writing++)
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
      begin(false);
      if (tracks && !(writing == MAPPED_ANEW && uses[i] >= USES_THAT_PAY)) {
        run_rounds(100, uses[i], (enum writing)writing);
        tell(writing_names[writing], uses[i]);
        assert_in_range(done.made, 0, 4 * BYTES);
        assert_in_range(done.protected, 0, 4 * BYTES + 16 * PAGE);
        assert_int_equal(done.refuted, 0);
        const int64_t before = done.made + done.hashed + done.protected + done.refuted;
        run_rounds(20, uses[i], (enum writing)writing);
        assert_in_range(done.made + done.hashed + done.protected + done.refuted - before, 0, PAGE);
      }
      end();
    }
}

/* Unchanged for many calls, it is kept in each round. */
static void many_uses_pay(void **state) {
  (void)state;
  for (int writing = 0; writing < WRITINGS; writing++) {
    begin(false);
    if (tracks) {
      run_rounds(20, 60, (enum writing)writing);
      tell(writing_names[writing], 60);
      assert_in_range(done.saved, (int64_t)20 * 57 * BYTES, (int64_t)20 * 60 * BYTES);
    }
    end();
  }
}

/* Where all bytes may be looked at two uses pay, and where the program has chosen the operand, whose copies are made at
 * its first sight: they are made in every round. */
static void two_uses_may_pay(void **state) {
  (void)state;
  for (int chosen = 0; chosen < 2; chosen++) {
    begin(!chosen);
    const struct tb_stored s = operand();
    const uintptr_t start = (uintptr_t)s.data;
    if (chosen) assert_true(tb_ranges_keep(start, start + BYTES));
    run_rounds(50, chosen ? 3 : 4, OTHER_BYTES);
    tell(chosen ? "chosen" : "by the hash", chosen ? 3 : 4);
    assert_int_equal(done.saved, (int64_t)50 * 2 * BYTES);
    assert_int_equal(done.made, (int64_t)50 * BYTES);
    if (chosen) assert_true(tb_ranges_forget(start, start + BYTES));
    end();
  }
}

/* Of a copy small parts alone are used: it did not pay, and the next one waits. */
static void parts_count_as_what_they_are(void **state) {
  (void)state;
  begin(false);
  struct tb_stored part = operand();
  part.columns = 40;
  for (int i = 0; i < 3; i++) use();
  for (int i = 0; tracks && i < 100; i++) assert_int_equal(use_part(part), TB_BY_TRACKING);
  rewrite(OTHER_BYTES);
  for (int sight = 1; tracks && sight < 4; sight++) assert_int_equal(use(), TB_NOT_KEPT);
  if (tracks) assert_int_equal(use(), TB_KEPT_ANEW);
  end();
}

/* A page in the midst of another operand, which the kernel watches, is not protected again: a write that came before
 * would not show. */
static void a_probe_hides_nothing(void **state) {
  (void)state;
  begin(false);
  const struct tb_stored s = operand();
  struct tb_kept inner = {.stored = {memory + 100 * PAGE, 4096, 64, 4096, TB_STORED_ALL}};
  tb_kept_begin_probe(&inner);
  for (int i = 0; i < 4; i++) use();
  if (tracks) {
    assert_int_equal(use(), TB_BY_TRACKING);
    memory[132 * PAGE + 9] ^= 1;
    assert_false(tb_kept_probe_is_written(&inner)); /* it speaks of the operand around */
    memory[132 * PAGE + 9] ^= 1;
    for (int i = 0; i < 20 && use() != TB_BY_TRACKING; i++) continue;
    assert_int_equal(use(), TB_BY_TRACKING);
    memory[132 * PAGE + 9] ^= 1;
    tb_kept_begin_probe(&inner);
    assert_false(tb_kept_probe_is_written(&inner)); /* nobody can tell */
    assert_int_equal(use(), TB_NOT_KEPT);
    tb_kept_begin_probe(&inner);
    assert_false(tb_kept_probe_is_written(&inner));
    memory[132 * PAGE + 9] ^= 1;
    assert_true(tb_kept_probe_is_written(&inner));
    tb_probe_end(&inner.probe);
    assert_false(tb_kept_probe_is_written(&inner));
    assert_int_equal(s.data - memory, 40);
  }
  end();
}

/* More pages than are asked about at once: of the older ones nobody can tell. */
static void many_probes(void **state) {
  enum { PROBES = 100 };
  static struct tb_kept kept[PROBES];
  (void)state;
  begin(false);
  for (int i = 0; i < PROBES; i++) {
    kept[i] = (struct tb_kept){.stored = {memory + i * 2 * PAGE, 4096, 2, 4096, TB_STORED_ALL}};
    tb_kept_begin_probe(&kept[i]);
  }
  memset(memory, 1, MEMORY);
  int told = 0;
  for (int i = 0; i < PROBES; i++) told += tb_kept_probe_is_written(&kept[i]);
  assert_int_equal(told, tracks ? 64 : 0);
  for (int i = 0; tracks && i < PROBES; i++) assert_int_equal(tb_kept_probe_is_written(&kept[i]), i >= PROBES - 64);
  for (int i = 0; i < PROBES; i++) tb_probe_end(&kept[i].probe);
  end();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_written_costs_one_copy),
      cmocka_unit_test(a_hidden_write_costs_few_copies),
      cmocka_unit_test(few_uses_pay_where_it_is_given_back),
      cmocka_unit_test(what_is_written_does_not_return),
      cmocka_unit_test(attempts_come_to_an_end),
      cmocka_unit_test(many_uses_pay),
      cmocka_unit_test(two_uses_may_pay),
      cmocka_unit_test(parts_count_as_what_they_are),
      cmocka_unit_test(a_probe_hides_nothing),
      cmocka_unit_test(many_probes),
  };
  if (!tb_cuda_load()) return 1;
  tst_cuda_begin(0);
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  tst_cuda_end(0);
  return failed;
}
