/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which operands a GPU keeps: those that come back unchanged, from the third sight on and with a proof each time; what
 * has changed is given back, and the next copy waits for twice as many sights. Parts of what is kept are found where
 * they lie, and no byte outside them is read. A half of a square is kept as that half alone. Memory: within the limit,
 * and of a round that has no room for all what is there stays.
 *
 * Seen to fail when: the proof is skipped, or made of the sample alone; pages are protected behind the proof; the edges
 * of what is tracked are forgotten, or digested behind it; a part is taken for one of another pitch, or of cells that
 * it has in part; the oldest copy goes whatever comes, or another than the oldest; a copy goes that the call under way
 * has; a call that was left keeps what it had; files stay open; where all places have copies one is overwritten; a half
 * is taken for the other, or for a part of the whole; a question outlives the watch that it is about.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cache/cache.h"
#include "placed.h"
#include "rng.h"

#define PAGE ((size_t)4096)
#define MEMORY ((size_t)8 << 20)
#define NO_LIMIT (INT64_MAX / 2)
#define MIB ((int64_t)1 << 20)

static char *memory; /* of the program's matrices */
static struct tb_cache *cache;
static struct tb_pool *pool; /* NULL: the caller alone */
static bool tracks;          /* the kernel does */

static struct tb_stored matrix(size_t at, int64_t column_bytes, int64_t columns, int64_t pitch_bytes) {
  return (struct tb_stored){memory + at, column_bytes, columns, pitch_bytes, TB_STORED_ALL};
}

static void begin(bool may_track) {
  memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(memory != MAP_FAILED);
  uint64_t seed = 1;
  for (size_t i = 0; i < MEMORY; i += 8) memcpy(memory + i, &(uint64_t){tst_random(&seed)}, 8);
  struct tb_tracked pages = tb_track_pages((uintptr_t)memory, (uintptr_t)memory + PAGE);
  tracks = may_track && tb_track_begin(&pages, tb_track_pages((uintptr_t)memory, (uintptr_t)memory + MEMORY));
  tb_track_end(&pages);
  cache = tb_cache_open(may_track);
  assert_non_null(cache);
}

static void end(void) {
  tb_cache_close(cache, true);
  tb_track_close();
  munmap(memory, MEMORY);
}

/* As the pipeline does it, but that nothing goes up. */
static bool make(struct tb_kept *kept, int64_t limit_bytes) {
  if (!tb_cache_make(cache, 0, kept, NO_LIMIT, limit_bytes)) return false;
  for (int64_t i = 0; i < kept->cells.count; i++) {
    const struct tb_stored cell = tb_cell(&kept->stored, &kept->cells, i);
    kept->digests[i] = tb_hash_cell(&cell);
  }
  return true;
}

/* A call with one operand. */
static struct tb_cached call(struct tb_stored operand, int64_t limit_bytes) {
  struct tb_cached found;
  assert_true(tb_cache_enter());
  tb_cache_begin_call(cache, 0);
  struct tb_kept *const worth = tb_cache_look(cache, 0, &operand, pool, &found, NULL);
  if (worth != NULL && make(worth, limit_bytes)) found.proof = TB_KEPT_ANEW;
  tb_cache_leave();
  tb_cache_end_call(cache, 0);
  return found;
}

static enum tb_proof see(struct tb_stored operand) { return call(operand, NO_LIMIT).proof; }

/* From its first sight on, until the kernel is asked. */
static void keep(struct tb_stored operand) {
  assert_int_equal(see(operand), TB_NOT_KEPT);
  assert_int_equal(see(operand), TB_KEPT_ANEW);
  assert_int_equal(see(operand), TB_BY_HASH);
  assert_int_equal(see(operand), tracks ? TB_BY_TRACKING : TB_BY_HASH);
}

static void what_comes_back_is_kept(void **state) {
  (void)state;
  for (int may_track = 0; may_track < 2; may_track++) {
    begin(may_track);
    keep(matrix(0, 4096, 300, 4096));
    keep(matrix(3 * MIB + 40, 40000, 30, 40008));
    for (int i = 0; i < 5; i++) assert_int_equal(see(matrix(0, 4096, 300, 4096)), tracks ? TB_BY_TRACKING : TB_BY_HASH);
    end();
  }
}

/* ---- what has changed ---- */

/* A byte that is not among the samples, wherever it lies: at the ends, on their pages, in between. */
static void a_changed_byte_is_seen(void **state) {
  (void)state;
  const struct tb_stored shapes[] = {{NULL, 4096, 300, 4096, TB_STORED_ALL},
                                     {NULL, 4104, 300, 4200, TB_STORED_ALL},
                                     {NULL, 40, 30000, 40, TB_STORED_ALL}};
  for (int may_track = 0; may_track < 2; may_track++)
    for (int shape = 0; shape < 3; shape++)
      for (int where = 0; where < 6; where++) {
        begin(may_track);
        struct tb_stored s = shapes[shape];
        s.data = memory + 40;
        const size_t last = (size_t)tb_stored_span_bytes(&s) - 1;
        const size_t at[] = {0, PAGE - 41, PAGE - 40, last, last - (last + 40) % PAGE, last - (last + 40) % PAGE - 1};
        const size_t in_column = at[where] % (size_t)s.pitch_bytes;
        keep(s);
        memory[40 + at[where]] ^= 1;
        const enum tb_proof then = see(s);
        if (in_column >= (size_t)s.column_bytes)
          assert_int_equal(then, TB_BY_HASH); /* it is none of the elements */
        else
          assert_int_equal(then, TB_NOT_KEPT);
        end();
      }
}

/* What is written as it is made, or as it is proven, is seen the next time: pages are protected before the proof. */
static void written_between(void **state) {
  (void)state;
  for (int step = 0; step < 4; step++) {
    begin(true);
    const struct tb_stored s = matrix(40, 4096, 300, 4096);
    for (int i = 0; i <= step; i++) see(s);
    memory[40 + 4096 * 100 + 9] ^= 1;
    assert_true(see(s) < TB_BY_HASH || step == 0);
    end();
  }
}

static int sights_until_kept(struct tb_stored operand) {
  for (int sights = 1; sights < 1000; sights++)
    if (see(operand) == TB_KEPT_ANEW) return sights;
  return 0;
}

/* A copy that is of no use costs: the more, the longer until the next. One that was of use does not. */
static void patience_grows(void **state) {
  (void)state;
  begin(true);
  const struct tb_stored s = matrix(40, 4096, 300, 4096);
  assert_int_equal(sights_until_kept(s), 2);
  for (int sights = 4; sights <= 32; sights *= 2) {
    memory[40 + 4096 * 100 + 9]++;
    assert_int_equal(see(s), TB_NOT_KEPT);
    assert_int_equal(sights_until_kept(s), sights - 1);
  }
  for (int i = 0; i < 3; i++) assert_true(tb_proof_is_kept(see(s)));
  memory[40 + 4096 * 100 + 9]++;
  assert_int_equal(see(s), TB_NOT_KEPT);
  assert_int_equal(sights_until_kept(s), 1);
  end();
}

static int proofs_until_tracked(struct tb_stored operand) {
  for (int proofs = 1; proofs < 1000; proofs++)
    if (see(operand) == TB_BY_TRACKING) return proofs;
  return 0;
}

/* Writes to what is between the columns cost the copy nothing, but faults to the program. */
static void patience_with_the_kernel_grows(void **state) {
  (void)state;
  begin(true);
  const struct tb_stored s = matrix(0, 4096, 200, 5000);
  keep(s);
  for (int proofs = 2; tracks && proofs <= 16; proofs *= 2) {
    memory[4100] ^= 1;
    assert_int_equal(see(s), TB_BY_HASH);
    assert_int_equal(proofs_until_tracked(s), proofs);
  }
  for (int i = 0; tracks && i < 40; i++) assert_int_equal(see(s), TB_BY_TRACKING);
  memory[4100] ^= 1;
  assert_int_equal(see(s), TB_BY_HASH);
  if (tracks) assert_int_equal(proofs_until_tracked(s), 1 + 1);
  end();
}

/* ---- proofs that wait ---- */

static struct tb_cached call_later(struct tb_stored operand, struct tb_question *question) {
  struct tb_cached found;
  assert_true(tb_cache_enter());
  tb_cache_begin_call(cache, 0);
  tb_cache_look(cache, 0, &operand, pool, &found, question);
  tb_cache_leave();
  return found;
}

static bool answer(struct tb_question *question) {
  tb_question_ask(question, pool);
  while (!tb_question_is_asked(question, pool)) tb_pool_help(pool);
  assert_true(tb_cache_enter());
  const bool clean = tb_kept_answer(question);
  tb_cache_leave();
  tb_cache_end_call(cache, 0);
  return clean;
}

/* The copy is handed out; what is written before the question is asked makes the answer no, and then the copy is none
 * any more. */
static void a_proof_may_wait(void **state) {
  (void)state;
  const size_t places[] = {40, 41 + 2048, 40 + 4096 * 100, 40 + 4096 * 299 + 4095};
  for (int threads = 1; threads <= 3; threads += 2)
    for (size_t place = 0; place < sizeof places / sizeof places[0]; place++) {
      begin(true);
      struct tb_question question;
      const struct tb_stored s = matrix(40, 4096, 300, 4096);
      pool = tb_pool_open(threads, false);
      keep(s);
      for (int i = 0; tracks && i < 3; i++) {
        assert_int_equal(call_later(s, &question).proof, TB_BY_TRACKING);
        assert_non_null(question.kept);
        assert_true(answer(&question));
      }
      if (tracks) {
        assert_int_equal(call_later(s, &question).proof, TB_BY_TRACKING);
        memory[places[place]] ^= 1;
        assert_false(answer(&question));
        assert_int_equal(see(s), TB_NOT_KEPT);
        assert_int_equal(tb_cache_bytes(cache), 0);
      }
      tb_pool_close(pool);
      pool = NULL;
      end();
    }
}

/* Only what is watched: else it is proven at once. */
static void no_other_proof_waits(void **state) {
  (void)state;
  begin(false);
  struct tb_question question;
  const struct tb_stored s = matrix(40, 4096, 300, 4096);
  keep(s);
  assert_int_equal(call_later(s, &question).proof, TB_BY_HASH);
  assert_null(question.kept);
  tb_cache_end_call(cache, 0);
  memory[40 + 4096 * 100] ^= 1;
  assert_int_equal(call_later(s, &question).proof, TB_NOT_KEPT);
  assert_null(question.kept);
  end();
}

/* Another call's look has the pages watched anew behind a write: that they are clean says nothing of the time before.
 */
static void watched_anew_is_not_proven(void **state) {
  (void)state;
  begin(true);
  struct tb_question question;
  const struct tb_stored s = matrix(40, 4096, 300, 4096);
  keep(s);
  if (tracks) {
    assert_int_equal(call_later(s, &question).proof, TB_BY_TRACKING);
    ((volatile char *)memory)[40 + 4096 * 100] ^= 0; /* the same byte, so that the hash finds nothing */
    struct tb_cached found = {.proof = TB_NOT_KEPT};
    for (int i = 0; i < 10 && found.proof != TB_BY_TRACKING; i++) {
      assert_true(tb_cache_enter());
      tb_cache_begin_call(cache, 1);
      tb_cache_look(cache, 1, &s, pool, &found, NULL);
      tb_cache_leave();
      assert_true(tb_proof_is_kept(found.proof));
      tb_cache_end_call(cache, 1);
    }
    assert_int_equal(found.proof, TB_BY_TRACKING);
    assert_false(answer(&question));
    assert_int_equal(see(s), TB_BY_TRACKING); /* which is no reason to give up what the other has */
  }
  end();
}

/* A larger operand has the pages watched anew, behind a write, as its own: that they are clean says nothing of a
 * question about the smaller one that was taken before. */
static void a_question_lapses(void **state) {
  (void)state;
  begin(true);
  struct tb_question question;
  const struct tb_stored inner = matrix(100 * PAGE, 4096, 256, 4096), outer = matrix(0, 4096, 600, 4096);
  keep(inner);
  if (tracks) {
    assert_int_equal(call_later(inner, &question).proof, TB_BY_TRACKING);
    memory[200 * PAGE + 9] ^= 1;
    struct tb_cached found = {.proof = TB_NOT_KEPT};
    for (int i = 0; i < 4; i++) {
      assert_true(tb_cache_enter());
      tb_cache_begin_call(cache, 1);
      struct tb_kept *const worth = tb_cache_look(cache, 1, &outer, pool, &found, NULL);
      if (worth != NULL) assert_true(make(worth, NO_LIMIT));
      tb_cache_leave();
      tb_cache_end_call(cache, 1);
    }
    assert_int_equal(found.proof, TB_BY_TRACKING);
    assert_false(answer(&question));
    assert_int_equal(see(inner), TB_NOT_KEPT);
  }
  end();
}

/* ---- two GPUs ---- */

/* A call of two GPUs with one operand: whether each has it, and how it is proven. */
static void see_on_both(struct tb_stored operand, struct tb_cache *const both[2], enum tb_proof proofs[2]) {
  struct tb_cached found[2];
  assert_true(tb_cache_enter());
  for (int gpu = 0; gpu < 2; gpu++) {
    tb_cache_begin_call(both[gpu], 0);
    tb_cache_compare(both[gpu], gpu == 1 && tb_proof_is_kept(found[0].proof) ? &found[0] : NULL);
    struct tb_kept *const worth = tb_cache_look(both[gpu], 0, &operand, pool, &found[gpu], NULL);
    cache = both[gpu];
    if (worth != NULL && make(worth, NO_LIMIT)) found[gpu].proof = TB_KEPT_ANEW;
    proofs[gpu] = found[gpu].proof;
  }
  tb_cache_leave();
  for (int gpu = 0; gpu < 2; gpu++) tb_cache_end_call(both[gpu], 0);
  cache = both[0];
}

/* A byte is written between calls, wherever it lies, and the first GPU has its copy anew, by calls of its own. The
 * second one's is what was there before: no proof of the first one's goes for it. */
static void one_proof_for_two(void **state) {
  static const size_t places[] = {40, 41, 40 + 4096 * 100 + 9, 40 + 4096 * 299 + 4095};
  (void)state;
  for (int may_track = 0; may_track < 2; may_track++)
    for (int hash_pays = !may_track; hash_pays < 2; hash_pays++)
      for (size_t place = 0; place < sizeof places / sizeof *places; place++) {
        begin(may_track);
        if (may_track && !tracks) continue;
        struct tb_cache *const both[2] = {cache, tb_cache_open(may_track)};
        const struct tb_stored s = matrix(40, 4096, 300, 4096);
        enum tb_proof proofs[2];
        for (int gpu = 0; gpu < 2; gpu++) tb_cache_allow_hash(both[gpu], hash_pays);
        for (int i = 0; i < 6; i++) see_on_both(s, both, proofs);
        for (int gpu = 0; gpu < 2; gpu++) assert_int_equal(proofs[gpu], may_track ? TB_BY_TRACKING : TB_BY_HASH);
        memory[places[place]] ^= 1;
        for (int i = 0; i < 12; i++) see(s);
        assert_true(tb_proof_is_kept(see(s)));
        see_on_both(s, both, proofs);
        assert_true(tb_proof_is_kept(proofs[0]));
        assert_int_equal(proofs[1], TB_NOT_KEPT);
        for (int i = 0; i < 12; i++) see_on_both(s, both, proofs);
        for (int gpu = 0; gpu < 2; gpu++) assert_true(tb_proof_is_kept(proofs[gpu]));
        memory[places[place]] ^= 1;
        see_on_both(s, both, proofs);
        for (int gpu = 0; gpu < 2; gpu++) assert_int_equal(proofs[gpu], TB_NOT_KEPT);
        tb_cache_close(both[1], true);
        end();
      }
}

/* ---- glances ---- */

/* A byte of one of the sample's lines that a glance has not. */
static size_t place_of_sample_alone(struct tb_stored s, int lines_of_glance) {
  for (size_t at = 0; at < (size_t)tb_stored_bytes(&s); at += 16) {
    const struct tb_digest glance = tb_hash_sample(&s, lines_of_glance), sample = tb_hash_sample(&s, TB_SAMPLE_LINES);
    ((char *)memory)[s.data - memory + (ptrdiff_t)at] ^= 1;
    const struct tb_digest g = tb_hash_sample(&s, lines_of_glance), x = tb_hash_sample(&s, TB_SAMPLE_LINES);
    ((char *)memory)[s.data - memory + (ptrdiff_t)at] ^= 1;
    if (tb_digests_are_equal(&glance, &g) && !tb_digests_are_equal(&sample, &x)) return at;
  }
  fail_msg("every line of the sample is one of a glance");
  return 0;
}

/* What was rewritten is looked at again in full only when a glance finds it as it was: its copy is made one sight
 * later. What a glance does not see a sample does. */
static void a_glance_is_no_sample(void **state) {
  (void)state;
  begin(true);
  const struct tb_stored s = matrix(0, 4096, 300, 4096);
  assert_int_equal(see(s), TB_NOT_KEPT);
  memset(memory, 7, 300 * 4096);
  assert_int_equal(see(s), TB_NOT_KEPT);
  assert_int_equal(see(s), TB_NOT_KEPT);
  assert_int_equal(see(s), TB_KEPT_ANEW);
  const struct tb_stored other = matrix((size_t)(4 * MIB), 4096, 300, 4096);
  const size_t at = (size_t)(4 * MIB) + place_of_sample_alone(other, 4);
  assert_int_equal(see(other), TB_NOT_KEPT);
  for (int i = 0; i < 5; i++) {
    memory[at] ^= 1;
    assert_int_equal(see(other), TB_NOT_KEPT);
  }
  assert_int_equal(see(other), TB_KEPT_ANEW);
  end();
}

/* Where columns are far apart, most of the pages are others'. */
static void far_columns_are_not_tracked(void **state) {
  (void)state;
  begin(true);
  const struct tb_stored s = matrix(0, 4096, 300, 3 * 4096);
  assert_int_equal(sights_until_kept(s), 2);
  for (int i = 0; i < 5; i++) assert_int_equal(see(s), TB_BY_HASH);
  end();
}

/* What a ring may write to is looked at, byte by byte, and watched again when the ring is gone. */
static void pinned_operands_are_looked_at(void **state) {
  (void)state;
  char parameters[256] = {0};
  begin(true);
  const struct tb_stored s = matrix(40, 4096, 300, 4096);
  const int ring = (int)syscall(SYS_io_uring_setup, 1, parameters);
  assert_int_equal(sights_until_kept(s), 2);
  for (int i = 0; i < 5 && ring >= 0; i++) assert_int_equal(see(s), TB_BY_HASH);
  if (ring >= 0) close(ring);
  if (tracks) assert_in_range(proofs_until_tracked(s), 1, 100);
  end();
}

/* Memory that another mapping has, too, is never left to the kernel: a write there is no fault here. */
static void shared_memory_is_looked_at(void **state) {
  (void)state;
  begin(true);
  const int file = memfd_create("operands", MFD_CLOEXEC);
  assert_true(file >= 0 && write(file, memory, MEMORY) == (ssize_t)MEMORY);
  assert_true(mmap(memory, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == memory);
  char *const elsewhere = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  assert_true(elsewhere != MAP_FAILED);
  const struct tb_stored s = matrix(40, 4096, 300, 4096);
  assert_int_equal(sights_until_kept(s), 2);
  for (int i = 0; i < 5; i++) assert_int_equal(see(s), TB_BY_HASH);
  elsewhere[40 + 4096 * 100 + 9] ^= 1;
  assert_int_equal(see(s), TB_NOT_KEPT);
  munmap(elsewhere, MEMORY);
  close(file);
  end();
}

/* Where a digest in each call is not worth it: what is watched is used; written to, it is not digested but forgotten,
 * and kept again after twice as many sights, for it was not used often. */
static void only_what_is_watched(void **state) {
  (void)state;
  begin(true);
  tb_cache_allow_hash(cache, false);
  const struct tb_stored s = matrix(40, 4096, 300, 4096);
  if (tracks) {
    keep(s);
    memory[40 + 4096 * 100 + 9] ^= 1;
    assert_int_equal(see(s), TB_NOT_KEPT);
    for (int i = 0; i < 2; i++) assert_int_equal(see(s), TB_NOT_KEPT);
    assert_int_equal(see(s), TB_KEPT_ANEW);
    memory[40 + 4096 * 100 + 9] ^= 1; /* not in the sample; seen by the one digest, ahead of the watching */
    assert_int_equal(see(s), TB_NOT_KEPT);
  } else {
    for (int i = 0; i < 20; i++) assert_int_equal(see(s), TB_NOT_KEPT);
  }
  end();
}

/* Nor is that kept which cannot be watched, for a ring may write to it, but for one try. */
static void nothing_that_cannot_be_watched(void **state) {
  (void)state;
  char parameters[256] = {0};
  begin(true);
  tb_cache_allow_hash(cache, false);
  const struct tb_stored s = matrix(40, 4096, 300, 4096);
  const int ring = (int)syscall(SYS_io_uring_setup, 1, parameters);
  int made = 0;
  for (int i = 0; i < 200 && ring >= 0; i++) {
    const enum tb_proof proof = see(s);
    assert_true(proof == TB_NOT_KEPT || proof == TB_KEPT_ANEW);
    made += proof == TB_KEPT_ANEW;
  }
  assert_in_range(made, 0, 1);
  if (ring >= 0) close(ring);
  end();
}

/* Whoever looks at which cell: the last of them is as good as the first. */
static void by_several_threads(void **state) {
  (void)state;
  pool = tb_pool_open(4, false);
  for (int may_track = 0; may_track < 2; may_track++) {
    begin(may_track);
    const struct tb_stored s = matrix(40, 20000, 300, 20008);
    keep(s);
    for (int round = 0; round < 6; round++) {
      const size_t at = 40 + (size_t)(round % 2 ? 299 - round : round) * 20008 + 19999;
      assert_true(tb_proof_is_kept(see(s)));
      memory[at] ^= 1;
      assert_int_equal(see(s), TB_NOT_KEPT);
      memory[at] ^= 1;
      while (!tb_proof_is_kept(see(s))) continue;
      for (int i = 0; i < 3; i++) see(s);
    }
    end();
  }
  tb_pool_close(pool);
  pool = NULL;
}

/* New values at an old address, as of a program's temporaries: nothing is ever made of them. */
static void temporaries_are_left_alone(void **state) {
  (void)state;
  begin(true);
  for (int i = 0; i < 50; i++) {
    memset(memory, i, 2 << 20);
    assert_int_equal(see(matrix(0, 4096, 300, 4096)), TB_NOT_KEPT);
  }
  assert_int_equal(tb_cache_bytes(cache), 0);
  end();
}

/* Matrices at a new place each time, used twice: copies of some are made, then of none; until copies are used again. */
static void many_are_used_twice(void **state) {
  (void)state;
  begin(true);
  int made = 0;
  for (int i = 0; i < 100; i++) {
    const struct tb_stored s = matrix((size_t)i * 64, 4096, 256, 4096);
    assert_int_equal(see(s), TB_NOT_KEPT);
    made += see(s) == TB_KEPT_ANEW;
  }
  assert_in_range(made, 6, 12);
  const struct tb_stored patient = matrix((size_t)(2 * MIB), 4096, 256, 4096);
  assert_int_equal(sights_until_kept(patient), 4);
  for (int i = 0; i < 6; i++) see(matrix((size_t)i * 64, 4096, 256, 4096)); /* those that have copies */
  assert_int_equal(sights_until_kept(matrix((size_t)(4 * MIB), 4096, 256, 4096)), 2);
  end();
}

/* ---- parts ---- */

static void parts_are_found(void **state) {
  (void)state;
  for (int may_track = 0; may_track < 2; may_track++) {
    begin(may_track);
    const struct tb_stored whole = matrix(80, 16400, 100, 16480);
    keep(whole);
    const CUdeviceptr start = call(whole, NO_LIMIT).address;
    const int64_t pitch = call(whole, NO_LIMIT).pitch_bytes;
    assert_true(pitch >= 16400 && pitch % 128 == 0);
    for (int first = 0; first < 100; first += 33) { /* whole columns */
      const struct tb_cached part = call(matrix(80 + (size_t)first * 16480, 16400, 67 - first / 2, 16480), NO_LIMIT);
      assert_int_equal(part.proof, first + 67 - first / 2 > 100 ? TB_NOT_KEPT : tracks ? TB_BY_TRACKING : TB_BY_HASH);
      if (part.proof != TB_NOT_KEPT) assert_true(part.address == start + (CUdeviceptr)(first * pitch));
    }
    const struct tb_cached rows = call(matrix(80 + 2 * 16480 + 800, 8000, 90, 16480), NO_LIMIT);
    assert_int_equal(rows.proof, tracks ? TB_BY_TRACKING : TB_NOT_KEPT);
    if (tracks) assert_true(rows.address == start + (CUdeviceptr)(2 * pitch + 800));
    assert_int_equal(see(matrix(80, 16400, 50, 2 * 16480)), TB_NOT_KEPT); /* every other column */
    assert_int_equal(see(matrix(80 + 800, 16400, 70, 16480)), TB_NOT_KEPT);
    assert_int_equal(see(matrix(80, 16400, 100, 16484)), TB_NOT_KEPT); /* nor the same but for the pitch */
    end();
  }
}

/* Several short columns are a cell: parts begin and end with cells, or where the whole ends. */
static void parts_are_whole_cells(void **state) {
  (void)state;
  begin(false);
  const struct tb_stored whole = matrix(0, 4096, 402, 4096); /* four to a cell */
  keep(whole);
  assert_int_equal(see(matrix(8 * 4096, 4096, 300, 4096)), TB_BY_HASH);
  assert_int_equal(see(matrix(8 * 4096, 4096, 394, 4096)), TB_BY_HASH);
  assert_int_equal(see(matrix(8 * 4096, 4096, 393, 4096)), TB_NOT_KEPT);
  assert_int_equal(see(matrix(9 * 4096, 4096, 291, 4096)), TB_NOT_KEPT);
  assert_int_equal(see(whole), TB_BY_HASH); /* which costs the copy nothing */
  end();
}

/* What is not the call's own may be gone. */
static void nothing_else_is_read(void **state) {
  (void)state;
  for (int may_track = 0; may_track < 2; may_track++) {
    begin(may_track);
    keep(matrix(40, 16384, 100, 16384));
    munmap(memory, 16 * PAGE);
    munmap(memory + 160 * PAGE, MEMORY - 160 * PAGE);
    const struct tb_stored part = matrix(40 + 4 * 16384, 16384, 35, 16384);
    assert_int_equal(see(part), tracks ? TB_BY_TRACKING : TB_BY_HASH);
    memory[40 + 4 * 16384] ^= 1;
    assert_int_equal(see(part), TB_NOT_KEPT);
    end();
  }
}

/* Two that share pages: the second's protection must not hide what was written before from the first. */
static void neighbours(void **state) {
  (void)state;
  begin(true);
  const struct tb_stored first = matrix(0, 4096, 300, 4096), second = matrix(200 * PAGE + 8, 4096, 300, 4096);
  keep(first);
  see(second), see(second);
  memory[250 * PAGE + 8] ^= 1; /* of both */
  assert_int_equal(see(second), TB_NOT_KEPT);
  for (int i = 0; i < 5; i++) see(second);
  assert_int_equal(see(first), TB_NOT_KEPT);
  end();
}

/* The same where all pages of the first are the second's, so that they are protected again. */
static void one_within_another(void **state) {
  (void)state;
  begin(true);
  const struct tb_stored inner = matrix(100 * PAGE, 4096, 256, 4096), outer = matrix(0, 4096, 600, 4096);
  keep(inner);
  memory[200 * PAGE + 9] ^= 1;
  keep(outer);
  assert_int_equal(see(inner), TB_NOT_KEPT);
  end();
}

/* ---- halves ---- */

enum { SIDE = 1024, COLUMN = 4 * SIDE }; /* of a square of floats */

static struct tb_stored half(size_t at, enum tb_stored_part part) {
  return (struct tb_stored){memory + at, COLUMN, SIDE, COLUMN, part};
}

static size_t element_at(size_t row, size_t column) { return 4 * row + COLUMN * column; }

/* Not as the other half, nor the whole, nor a part, nor a part of the whole as a half. */
static void a_half_is_no_other(void **state) {
  static const enum tb_stored_part parts[] = {TB_STORED_UPPER, TB_STORED_LOWER, TB_STORED_ALL};
  (void)state;
  for (int may_track = 0; may_track < 2; may_track++)
    for (int kept = 0; kept < 3; kept++) {
      begin(may_track);
      keep(half(40, parts[kept]));
      for (int other = 0; other < 3; other++)
        if (other != kept) assert_int_equal(see(half(40, parts[other])), TB_NOT_KEPT);
      const struct tb_stored columns = matrix(40, COLUMN, SIDE / 2, COLUMN);
      assert_int_equal(see(columns) == TB_NOT_KEPT, parts[kept] != TB_STORED_ALL);
      struct tb_stored corner = half(40, TB_STORED_UPPER);
      corner.columns = SIDE / 2, corner.column_bytes = COLUMN / 2;
      assert_int_equal(see(corner), TB_NOT_KEPT);
      assert_true(tb_proof_is_kept(see(half(40, parts[kept]))));
      end();
    }
}

/* An element of the stored half, wherever it lies, is seen; one of the other half is not, which costs the kernel's word
 * where it is on a page that is watched. */
static void a_write_in_a_half(void **state) {
  static const struct {
    size_t row, column;
    bool is_watched; /* its page is the operand's alone */
  } at[] = {{0, 0, false},
            {0, 1, true},
            {1, 0, false},
            {500, 501, true},
            {501, 500, true},
            {SIDE - 1, 0, true},
            {SIDE - 1, SIDE / 2, true},
            {0, SIDE - 1, true},
            {SIDE / 2, SIDE - 1, true},
            {SIDE - 3, SIDE - 1, false},
            {SIDE - 1, SIDE - 1, false}};
  (void)state;
  for (int may_track = 0; may_track < 2; may_track++)
    for (int lower = 0; lower < 2; lower++)
      for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        const bool stored = lower ? at[i].row >= at[i].column : at[i].row <= at[i].column;
        begin(may_track);
        const struct tb_stored s = half(40, lower ? TB_STORED_LOWER : TB_STORED_UPPER);
        keep(s);
        memory[40 + element_at(at[i].row, at[i].column)] ^= 1;
        const enum tb_proof then = see(s);
        assert_int_equal(then, stored ? TB_NOT_KEPT : tracks && !at[i].is_watched ? TB_BY_TRACKING : TB_BY_HASH);
        end();
      }
}

/* Where the question waits, likewise. */
static void a_half_may_wait(void **state) {
  (void)state;
  for (int lower = 0; lower < 2; lower++)
    for (int in_lower = 0; in_lower < 2; in_lower++) {
      begin(true);
      struct tb_question question;
      const struct tb_stored s = half(40, lower ? TB_STORED_LOWER : TB_STORED_UPPER);
      keep(s);
      if (tracks) {
        assert_int_equal(call_later(s, &question).proof, TB_BY_TRACKING);
        assert_true(answer(&question));
        assert_int_equal(call_later(s, &question).proof, TB_BY_TRACKING);
        memory[40 + (in_lower ? element_at(700, 300) : element_at(300, 700))] ^= 1;
        assert_false(answer(&question)); /* the page is written, whatever it has */
        assert_int_equal(see(s), lower == in_lower ? TB_NOT_KEPT : TB_BY_HASH);
      }
      end();
    }
}

/* Beside each other: what is written in one costs the other nothing but the kernel's word; on the diagonal, which is
 * both's, it is a change of both. */
static void both_halves(void **state) {
  (void)state;
  for (int may_track = 0; may_track < 2; may_track++)
    for (int where = 0; where < 3; where++) {
      static const size_t row[] = {300, 700, 500}, column[] = {700, 300, 500};
      begin(may_track);
      const struct tb_stored upper = half(40, TB_STORED_UPPER), lower = half(40, TB_STORED_LOWER);
      for (int sight = 0; sight < 6; sight++) {
        const enum tb_proof proofs[] = {see(upper), see(lower)};
        for (int i = 0; i < 2 && sight >= 2; i++) assert_true(tb_proof_is_kept(proofs[i]));
      }
      assert_true(call(upper, NO_LIMIT).address != call(lower, NO_LIMIT).address);
      memory[40 + element_at(row[where], column[where])] ^= 1;
      assert_int_equal(tb_proof_is_kept(see(upper)), where == 1);
      assert_int_equal(tb_proof_is_kept(see(lower)), where == 0);
      end();
    }
}

/* Where nothing but the kernel's word counts: it watches both at once. */
static void both_halves_are_watched(void **state) {
  (void)state;
  begin(true);
  tb_cache_allow_hash(cache, false);
  const struct tb_stored upper = half(40, TB_STORED_UPPER), lower = half(40, TB_STORED_LOWER);
  for (int sight = 1; tracks && sight <= 6; sight++) {
    const enum tb_proof proofs[] = {see(upper), see(lower)};
    for (int i = 0; i < 2 && sight >= 4; i++) assert_int_equal(proofs[i], TB_BY_TRACKING);
  }
  memory[40 + element_at(700, 300)] ^= 1; /* on a page that both have */
  assert_int_equal(see(upper), TB_NOT_KEPT);
  assert_int_equal(see(lower), TB_NOT_KEPT);
  end();
}

/* ---- memory ---- */

#define ONE_BYTES ((int64_t)4096 * 256)

static struct tb_stored numbered(int number) { return matrix((size_t)number * (size_t)ONE_BYTES, 4096, 256, 4096); }

static void what_is_there_stays(void **state) {
  (void)state;
  begin(false);
  for (int round = 0; round < 12; round++) /* five, and room for three */
    for (int number = 0; number < 5; number++) {
      const enum tb_proof proof = call(numbered(number), 3 * ONE_BYTES).proof;
      if (round > 1) assert_int_equal(proof, number < 3 ? TB_BY_HASH : TB_NOT_KEPT);
      assert_true(tb_cache_bytes(cache) <= 3 * ONE_BYTES);
    }
  for (int round = 0; round < 60; round++) /* then others alone */
    for (int number = 4; number < 7; number++) call(numbered(number), 3 * ONE_BYTES);
  for (int number = 4; number < 7; number++) assert_int_equal(call(numbered(number), 3 * ONE_BYTES).proof, TB_BY_HASH);
  end();
}

static void memory_is_given_back(void **state) {
  (void)state;
  begin(true);
  for (int number = 0; number < 3; number++) see(numbered(number)), see(numbered(number));
  tb_cache_begin_call(cache, 0);
  struct tb_cached found;
  const struct tb_stored one = numbered(0);
  tb_cache_look(cache, 0, &one, NULL, &found, NULL);
  assert_int_equal(found.proof, TB_BY_HASH);
  assert_true(tb_cache_give_back_one(cache) && tb_cache_bytes(cache) == 2 * ONE_BYTES);
  assert_true(tb_cache_give_back_one(cache) && tb_cache_bytes(cache) == ONE_BYTES);
  assert_false(tb_cache_give_back_one(cache)); /* the call under way has it */
  tb_cache_end_call(cache, 0);
  tb_cache_give_back(cache);
  assert_int_equal(tb_cache_bytes(cache), 0);
  assert_false(tb_cache_give_back_one(NULL));
  end();
}

/* Two calls at once, of which one was left by a jump. What they have stays, even if it is not what it was. */
static void several_users(void **state) {
  (void)state;
  begin(true);
  const struct tb_stored one = numbered(0), other = numbered(1);
  struct tb_cached found;
  see(one), see(one), see(other), see(other);
  for (int user = 1; user < 3; user++) {
    tb_cache_begin_call(cache, user);
    tb_cache_look(cache, user, &one, NULL, &found, NULL);
    assert_int_equal(found.proof, user == 1 || !tracks ? TB_BY_HASH : TB_BY_TRACKING);
  }
  tb_cache_end_call(cache, 1);
  assert_true(tb_cache_give_back_one(cache));
  assert_false(tb_cache_give_back_one(cache));
  memory[100] ^= 1;
  assert_int_equal(see(one), TB_NOT_KEPT);
  assert_int_equal(tb_cache_bytes(cache), ONE_BYTES);
  tb_cache_begin_call(cache, 2); /* the next one of who has not ended the first */
  tb_cache_end_call(cache, 2);
  assert_int_equal(see(one), TB_NOT_KEPT);
  assert_int_equal(tb_cache_bytes(cache), 0);
  end();
}

/* A call's second copy does not take the place of its first. */
static void both_of_a_call(void **state) {
  (void)state;
  begin(false);
  const struct tb_stored a = numbered(0), b = numbered(1);
  for (int sight = 0; sight < 2; sight++) {
    struct tb_cached found;
    tb_cache_begin_call(cache, 0);
    struct tb_kept *const first = tb_cache_look(cache, 0, &a, NULL, &found, NULL);
    if (first != NULL) assert_true(make(first, ONE_BYTES));
    assert_false(tb_cache_give_back_one(cache)); /* nor does anything else */
    struct tb_kept *const second = tb_cache_look(cache, 0, &b, NULL, &found, NULL);
    if (second != NULL) assert_false(make(second, ONE_BYTES));
    assert_int_equal(first != NULL && second != NULL, sight == 1);
    tb_cache_end_call(cache, 0);
  }
  assert_int_equal(see(a), TB_BY_HASH);
  assert_int_equal(tb_cache_bytes(cache), ONE_BYTES);
  end();
}

/* Of three the one goes that no call has had for longest; where the device has no memory, too, which it then has. */
static void the_eldest_goes(void **state) {
  (void)state;
  for (int limited = 0; limited < 2; limited++) {
    static const int order[] = {2, 1, 0, 2, 0}; /* 1 was had before the others */
    struct tb_cached found;
    begin(false);
    for (int i = 0; i < 4; i++)
      for (int number = 0; number < 3; number++) see(numbered(number));
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) assert_int_equal(see(numbered(order[i])), TB_BY_HASH);
    const struct tb_stored another = numbered(4);
    struct tb_kept *worth = NULL;
    for (int sight = 0; sight < 2; sight++) {
      tb_cache_begin_call(cache, 0);
      worth = tb_cache_look(cache, 0, &another, NULL, &found, NULL);
      if (sight == 0) assert_null(worth);
    }
    assert_non_null(worth);
    if (limited)
      assert_true(tb_cache_make(cache, 0, worth, NO_LIMIT, 3 * ONE_BYTES));
    else
      assert_true(tb_cache_make(cache, 0, worth, 0, NO_LIMIT));
    tb_cache_end_call(cache, 0);
    assert_int_equal(tb_cache_bytes(cache), 3 * ONE_BYTES);
    assert_int_equal(see(numbered(0)), TB_BY_HASH);
    assert_int_equal(see(numbered(2)), TB_BY_HASH);
    assert_int_equal(see(numbered(1)), TB_NOT_KEPT);
    end();
  }
}

/* Who begins a call anew has nothing of the one that it left, however many that had. */
static void a_call_that_was_left(void **state) {
  (void)state;
  begin(false);
  for (int number = 0; number < 3; number++) see(numbered(number)), see(numbered(number));
  for (int number = 0; number < 3; number++) {
    const struct tb_stored one = numbered(number);
    struct tb_cached found;
    if (number < 2) tb_cache_begin_call(cache, 2);
    tb_cache_look(cache, 2, &one, NULL, &found, NULL);
    assert_int_equal(found.proof, TB_BY_HASH);
  }
  assert_true(tb_cache_give_back_one(cache)); /* the first one's */
  assert_false(tb_cache_give_back_one(cache));
  tb_cache_end_call(cache, 2);
  tb_cache_end_call(NULL, 2);
  assert_true(tb_cache_give_back_one(cache) && tb_cache_give_back_one(cache));
  end();
}

static int count_files(void) {
  int count = 0;
  for (int fd = 0; fd < 256; fd++) count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

/* What the kernel is asked by is closed with the last GPU's cache, and not before. */
static void files_are_closed(void **state) {
  (void)state;
  begin(true);
  tb_track_close();
  const int files = count_files();
  struct tb_cache *const other = tb_cache_open(true);
  keep(numbered(0));
  assert_int_equal(count_files(), files + (tracks ? 2 : 0));
  tb_cache_close(other, true);
  assert_int_equal(see(numbered(0)), tracks ? TB_BY_TRACKING : TB_BY_HASH);
  tb_cache_close(cache, true);
  assert_int_equal(count_files(), files);
  tb_cache_close(NULL, true);
  munmap(memory, MEMORY);
}

/* Where nobody can watch, and digests do not pay, nothing is kept. */
static void nothing_without_a_watch(void **state) {
  (void)state;
  begin(false);
  tb_cache_allow_hash(cache, false);
  for (int i = 0; i < 40; i++) assert_int_equal(see(numbered(0)), TB_NOT_KEPT);
  assert_int_equal(tb_cache_bytes(cache), 0);
  end();
}

/* Who would have to wait for somebody's proof does without. */
static void one_looks_at_a_time(void **state) {
  (void)state;
  assert_true(tb_cache_enter());
  assert_false(tb_cache_enter());
  tb_cache_leave();
  assert_true(tb_cache_enter());
  tb_cache_leave();
}

static void no_room(void **state) {
  (void)state;
  begin(true);
  for (int i = 0; i < 6; i++) assert_int_equal(call(numbered(0), ONE_BYTES - 1).proof, TB_NOT_KEPT);
  assert_int_equal(tb_cache_bytes(cache), 0);
  assert_int_equal(call(numbered(1), 0).proof, TB_NOT_KEPT);
  end();
}

/* More operands than there are places for. */
static void many_operands(void **state) {
  (void)state;
  begin(true);
  keep(numbered(0));
  for (int i = 0; i < 5000; i++) see(matrix((size_t)(2 * MIB) + (size_t)i * 8, 4096, 256, 4096));
  assert_int_equal(see(numbered(0)), tracks ? TB_BY_TRACKING : TB_BY_HASH);
  end();
}

/* All places have copies: they stay, and what comes next waits until one is given back. */
static void no_place_left(void **state) {
  enum { PLACES = 1024, APART = 4096 };
  (void)state;
  begin(false);
  for (int i = 0; i < PLACES; i++)
    for (int sights = 0; sights < 4; sights++) see(matrix((size_t)i * APART, 256, 2, 256));
  const int64_t bytes = tb_cache_bytes(cache);
  assert_int_equal(bytes, PLACES * 512);
  const struct tb_stored another = matrix((size_t)PLACES * APART, 256, 2, 256);
  for (int sights = 0; sights < 8; sights++) assert_int_equal(see(another), TB_NOT_KEPT);
  assert_int_equal(tb_cache_bytes(cache), bytes);
  for (int i = 0; i < PLACES; i++) assert_int_equal(see(matrix((size_t)i * APART, 256, 2, 256)), TB_BY_HASH);
  assert_true(tb_cache_give_back_one(cache));
  for (int sights = 0; sights < 4; sights++) see(another);
  assert_int_equal(see(another), TB_BY_HASH);
  assert_int_equal(tb_cache_bytes(cache), bytes);
  end();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_comes_back_is_kept),
      cmocka_unit_test(a_changed_byte_is_seen),
      cmocka_unit_test(written_between),
      cmocka_unit_test(patience_grows),
      cmocka_unit_test(patience_with_the_kernel_grows),
      cmocka_unit_test(a_proof_may_wait),
      cmocka_unit_test(no_other_proof_waits),
      cmocka_unit_test(watched_anew_is_not_proven),
      cmocka_unit_test(a_question_lapses),
      cmocka_unit_test(one_proof_for_two),
      cmocka_unit_test(a_glance_is_no_sample),
      cmocka_unit_test(far_columns_are_not_tracked),
      cmocka_unit_test(pinned_operands_are_looked_at),
      cmocka_unit_test(shared_memory_is_looked_at),
      cmocka_unit_test(by_several_threads),
      cmocka_unit_test(temporaries_are_left_alone),
      cmocka_unit_test(many_are_used_twice),
      cmocka_unit_test(parts_are_found),
      cmocka_unit_test(parts_are_whole_cells),
      cmocka_unit_test(nothing_else_is_read),
      cmocka_unit_test(neighbours),
      cmocka_unit_test(one_within_another),
      cmocka_unit_test(a_half_is_no_other),
      cmocka_unit_test(a_write_in_a_half),
      cmocka_unit_test(a_half_may_wait),
      cmocka_unit_test(both_halves),
      cmocka_unit_test(both_halves_are_watched),
      cmocka_unit_test(what_is_there_stays),
      cmocka_unit_test(only_what_is_watched),
      cmocka_unit_test(nothing_that_cannot_be_watched),
      cmocka_unit_test(memory_is_given_back),
      cmocka_unit_test(several_users),
      cmocka_unit_test(both_of_a_call),
      cmocka_unit_test(the_eldest_goes),
      cmocka_unit_test(a_call_that_was_left),
      cmocka_unit_test(files_are_closed),
      cmocka_unit_test(nothing_without_a_watch),
      cmocka_unit_test(one_looks_at_a_time),
      cmocka_unit_test(no_room),
      cmocka_unit_test(many_operands),
      cmocka_unit_test(no_place_left),
  };
  if (!tb_cuda_load()) return 1;
  tst_cuda_begin(0);
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  tst_cuda_end(0);
  return failed;
}
