/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of which the program wrote little: what goes up again is all that may have changed, wherever it was written,
 * and few cells beside it; the next write to the same page shows; a page that was given back is one of those. What is
 * at the ends, in others' pages, is compared; much, or many places, a mapping in the midst, a half, a part whose rest
 * may be gone, or somebody who writes without a fault are no cases for it. Others that watch the same pages, on this
 * GPU or on another, have no proof of what happened before. Who has the copy, be it the same call, keeps it as it is.
 *
 * The test has a copy of its own, of what the library says is to go up. Seen to fail when: the pages are not protected
 * again, or behind their way up; the last page of a run, or its last cell, is left out; cells are counted without the
 * columns before them; the ends are not compared; nobody looks for who writes without a fault; a part is mended, or a
 * half; others still watch; what was to go up is forgotten, or packed planes are not; a bound is another; a call that
 * has the copy is overlooked; a copy that was left is used; the sample is an older one; a small one is mended for ever.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "copies.h"
#include "fake.h"
#include "placed.h"
#include "process.h"
#include "rng.h"
#include "sanitized.h"

#define FEW_OF 64 /* mend.c */
#define ASKED_FIRST 16

/* It is mended by at most so many cells, and then what it was before. */
static void expect_mended(struct tb_stored s, int64_t cells_most) {
  assert_int_equal(see(s), TB_MENDED);
  if (cells_brought_up > cells_most) fail_msg("%d cells went up again", (int)cells_brought_up);
  expect_copy(s);
  assert_int_equal(see(s), TB_BY_TRACKING);
}

/* ---- what goes up again ---- */

/* Cells of several columns, and one, and columns of several; with memory between them, of which nothing is; one column
 * that is longer than a slot. */
static const struct tb_stored shapes[] = {
    {NULL, 4096, 300, 4096, TB_STORED_ALL},     {NULL, 4104, 300, 4200, TB_STORED_ALL},
    {NULL, 40, 30000, 40, TB_STORED_ALL},       {NULL, 40, 30000, 72, TB_STORED_ALL},
    {NULL, 12000, 100, 20000, TB_STORED_ALL},   {NULL, 16384, 90, 16384, TB_STORED_ALL},
    {NULL, 16400, 100, 16480, TB_STORED_ALL},   {NULL, 60000, 30, 100000, TB_STORED_ALL},
    {NULL, 5000008, 1, 5000008, TB_STORED_ALL}, {NULL, 2500000, 2, 2500040, TB_STORED_ALL}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* The cells that so many pages side by side have, in part, at most. */
static int64_t cells_of_pages(struct tb_stored s, int64_t pages) {
  const struct tb_cells cells = tb_cells_of(&s);
  const int64_t bytes = pages * (int64_t)PAGE;
  if (cells.in_column > 1) return bytes / TB_CELL_BYTES + bytes / s.pitch_bytes + 3;
  return bytes / (cells.columns_each * s.pitch_bytes) + 2;
}

/* The next byte that is an element's. */
static size_t element_from(struct tb_stored s, size_t at) {
  const size_t row = at % (size_t)s.pitch_bytes;
  return row < (size_t)s.column_bytes ? at : at - row + (size_t)s.pitch_bytes;
}

/* The first and the last byte of pages that are watched, next to a page's border, and anywhere. */
static void one_byte(void **state) {
  (void)state;
  for (int shape = 0; shape < SHAPES; shape++) {
    struct tb_stored s = shapes[shape];
    begin((size_t)tb_stored_span_bytes(&s) + PAGE);
    s.data = memory + 40;
    keep(s);
    const size_t behind = ((size_t)tb_stored_span_bytes(&s) + 40) / PAGE * PAGE; /* the pages that are watched */
    uint64_t seed = (uint64_t)shape;
    for (int i = 0; i < TST_UNLESS_SANITIZED(40, 12); i++) {
      const size_t page = PAGE + PAGE * (size_t)tst_random_below(&seed, (int64_t)(behind / PAGE - 1));
      size_t at = page + (i % 3 == 0 ? 0 : i % 3 == 1 ? PAGE - 1 : (size_t)tst_random_below(&seed, (int64_t)PAGE));
      if (i == 0) at = PAGE;
      if (i == 1) at = behind - 1;
      if (i % 4 != 3) at = 40 + element_from(s, at - 40);
      if (at >= behind) at = behind - 1; /* of the memory between, perhaps */
      memory[at] ^= 1;
      expect_mended(s, cells_of_pages(s, 1));
      memory[at] ^= 2; /* the same page again */
      expect_mended(s, cells_of_pages(s, 1));
    }
    end();
  }
}

/* Of every page in turn all of it, so that no byte of it may be another cell's. */
static void whole_pages(void **state) {
  (void)state;
  for (int shape = 0; shape < SHAPES; shape++) {
    struct tb_stored s = shapes[shape];
    begin((size_t)tb_stored_span_bytes(&s) + PAGE);
    s.data = memory + 40;
    keep(s);
    const size_t behind = ((size_t)tb_stored_span_bytes(&s) + 40) / PAGE * PAGE;
    for (size_t at = PAGE; at < behind; at += PAGE * TST_UNLESS_SANITIZED(3, 17)) {
      const size_t bytes = at + 2 * PAGE <= behind ? 2 * PAGE : PAGE;
      for (size_t i = 0; i < bytes; i++) memory[at + i] ^= 5;
      expect_mended(s, cells_of_pages(s, 2));
    }
    end();
  }
}

/* Of several places all goes up, of cells that two have in part each once. */
static void several_places(void **state) {
  (void)state;
  const struct tb_stored of[] = {{NULL, 8192, 1500, 8192, TB_STORED_ALL}, {NULL, 100000, 120, 100040, TB_STORED_ALL}};
  for (int shape = 0; shape < 2; shape++) {
    struct tb_stored s = of[shape];
    begin((size_t)tb_stored_span_bytes(&s));
    s.data = memory;
    keep(s);
    for (size_t i = 0; i < 20; i++) memory[(7 + 2 * i) * PAGE + i] ^= 1; /* every other page */
    for (size_t i = 0; i < 10; i++) memory[(1000 + 100 * i) * PAGE + i] ^= 1;
    expect_mended(s, cells_of_pages(s, 40) + (shape == 0 ? 10 : 20));
    end();
  }
}

/* ---- how much ---- */

/* One page in 64, and not one more; then nothing is said of the copy but that it is none. */
static void few_pages(void **state) {
  (void)state;
  for (int more = 0; more < 2; more++) {
    const struct tb_stored shape = {NULL, 4096, 640, 4096, TB_STORED_ALL};
    begin(641 * PAGE);
    struct tb_stored s = shape;
    s.data = memory;
    keep(s);
    for (size_t i = 0; i < 640 / FEW_OF + (size_t)more; i++) memory[(13 + 30 * i) * PAGE] ^= 1;
    if (more)
      assert_int_equal(see(s), TB_NOT_KEPT);
    else
      expect_mended(s, 2 * 640 / FEW_OF);
    assert_int_equal(tb_cache_bytes(cache) > 0, !more);
    end();
  }
}

/* In so many places as are told at once, and not in one more. */
static void few_places(void **state) {
  (void)state;
  for (int more = 0; more < 2; more++) {
    begin(0);                                                   /* zeros will do */
    const struct tb_stored s = matrix(0, 1 << 20, 40, 1 << 20); /* of which 160 pages are few */
    memset(memory, 1, (size_t)tb_stored_span_bytes(&s));
    keep(s);
    for (size_t i = 0; i < TB_TRACK_RUNS_MOST + (size_t)more; i++) memory[(60 * i + 9) * PAGE] ^= 1;
    if (more)
      assert_int_equal(see(s), TB_NOT_KEPT);
    else
      expect_mended(s, 2 * TB_TRACK_RUNS_MOST);
    end();
  }
}

/* What lies in others' pages is compared. It has no bearing on others' bytes there. */
static void the_ends(void **state) {
  (void)state;
  for (int where = 0; where < 4; where++)
    for (int page_too = 0; page_too < 2; page_too++) {
      const struct tb_stored shape = {NULL, 4104, 300, 4200, TB_STORED_ALL};
      begin(320 * PAGE);
      struct tb_stored s = shape;
      s.data = memory + 40;
      const size_t end_at = 40 + (size_t)tb_stored_span_bytes(&s);
      const size_t at[] = {40, end_at - 1, 39, end_at};
      keep(s);
      memory[at[where]] ^= 1;
      if (page_too) memory[40 + 100 * 4200] ^= 1;
      if (where < 2)
        assert_int_equal(see(s), TB_NOT_KEPT);
      else if (page_too)
        expect_mended(s, 3);
      else
        assert_int_equal(see(s), TB_BY_TRACKING);
      end();
    }
}

/* ---- as it is mended ---- */

/* By somebody else, before the pages are protected: it goes up. And as soon as they are: it may, and shows in the next
 * call in any case. */
static void written_meanwhile(void **state) {
  (void)state;
  const struct tb_stored shape = {NULL, 4096, 300, 4096, TB_STORED_ALL};
  for (int behind = 0; behind < 2; behind++)
    for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
      begin(301 * PAGE);
      struct tb_stored s = shape;
      s.data = memory;
      keep(s);
      char *const byte = memory + (elsewhere ? 200 : 150) * PAGE + 77;
      memory[150 * PAGE] ^= 1;
      *(behind ? &written_behind : &written_before) = byte;
      assert_int_equal(see(s), TB_MENDED);
      assert_true(written_before == NULL && written_behind == NULL); /* it was protected again */
      if (!elsewhere) expect_copy(s);
      assert_int_equal(see(s), elsewhere || behind ? TB_MENDED : TB_BY_TRACKING);
      expect_copy(s);
      end();
    }
}

/* Given back by the program: zeros, from then on. Mapped anew: the kernel says no more. */
static void pages_that_are_others(void **state) {
  (void)state;
  const struct tb_stored shape = {NULL, 4096, 300, 4096, TB_STORED_ALL};
  begin(301 * PAGE);
  struct tb_stored s = shape;
  s.data = memory;
  keep(s);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(madvise(memory + 100 * PAGE, 2 * PAGE, MADV_DONTNEED), 0);
    expect_mended(s, 2);
    assert_int_equal(copy[100 * PAGE + 5], 0);
    memory[100 * PAGE + 5] = 1;
    expect_mended(s, 2);
  }
  void *const place = memory + 200 * PAGE;
  assert_true(mmap(place, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == place);
  assert_int_equal(see(s), TB_NOT_KEPT);
  end();
}

/* Of a huge page, which the kernel splits for it, and would make whole again. */
static void huge_pages(void **state) {
  (void)state;
  enum { HUGE_BYTES = 2 << 20, COLLAPSE = 25 /* MADV_COLLAPSE */ };
  begin(0);
  madvise(memory, MEMORY, MADV_HUGEPAGE);
  fill(16 << 20);
  char *const whole = memory + HUGE_BYTES - (uintptr_t)memory % HUGE_BYTES;
  const struct tb_stored s = matrix((size_t)(whole - memory), 16384, 512, 16384);
  keep(s);
  for (size_t i = 0; i < 4; i++) {
    whole[(i * 200 + 5) * PAGE] ^= 1, whole[(i * 200 + 7) * PAGE] ^= 1;
    if (i % 2) madvise(whole, 4 * HUGE_BYTES, COLLAPSE);
    expect_mended(s, 2);
  }
  end();
}

/* Between the columns nothing need be mapped. */
static void a_hole_between_columns(void **state) {
  (void)state;
  begin(5 * 60 * PAGE);
  const struct tb_stored s = matrix(0, 3 * (int64_t)PAGE, 60, 5 * (int64_t)PAGE);
  keep(s);
  memory[5 * 30 * PAGE + 3 * PAGE] ^= 1;
  munmap(memory + 5 * 30 * PAGE + 4 * PAGE, PAGE);
  assert_int_equal(see(s), TB_NOT_KEPT);
  end();
}

/* Who may write without a fault. What is digested in each call is proven so. */
static void not_beside_a_ring(void **state) {
  (void)state;
  char parameters[256] = {0};
  for (int hash_pays = 0; hash_pays < 2; hash_pays++) {
    begin(301 * PAGE);
    const struct tb_stored s = matrix(0, 4096, 300, 4096);
    tb_cache_allow_hash(cache, hash_pays);
    keep(s);
    const int ring = (int)syscall(SYS_io_uring_setup, 1, parameters);
    if (ring < 0) TST_LEAVE_OUT("there are no rings");
    memory[150 * PAGE] ^= 1;
    assert_int_equal(see(s), TB_NOT_KEPT);
    close(ring);
    end();
  }
}

/* What the program registers with CUDA takes a fault a page, as the driver pins it. So that one of the pages that were
 * written is asked about, and no other: it takes as long as to bring it up. */
static void registered_meanwhile(void **state) {
  (void)state;
  for (int which = 0; which < 3; which++) {
    begin(301 * PAGE);
    const struct tb_stored s = matrix(0, 4096, 300, 4096);
    char *const places[] = {memory + 99 * PAGE, memory + 200 * PAGE};
    keep(s);
    for (int i = 0; i < 2; i++) *places[i] ^= 1;
    if (which < 2) tst_cuda_register(places[which], PAGE);
    const uint64_t before = tst_fake() == NULL ? 0 : tst_fake()->calls("cuPointerGetAttributes");
    assert_int_equal(see(s), which < 2 ? TB_NOT_KEPT : TB_MENDED);
    if (tst_fake() != NULL) assert_in_range(tst_fake()->calls("cuPointerGetAttributes") - before, 1, 2);
    if (which < 2) tst_cuda_unregister(places[which]);
    end();
  }
}

static void refused(void **state) {
  (void)state;
  begin(301 * PAGE);
  const struct tb_stored s = matrix(0, 4096, 300, 4096);
  keep(s);
  memory[150 * PAGE] ^= 1;
  protects_nothing = true;
  assert_int_equal(see(s), TB_NOT_KEPT);
  protects_nothing = false;
  end();
}

/* ---- as the watch begins ---- */

/* Seen twice: there is a copy, which nobody watches yet. */
static void have_copied(struct tb_stored s) {
  assert_int_equal(see(s), TB_NOT_KEPT);
  assert_int_equal(see(s), TB_KEPT_ANEW);
}

/* The next byte of an element, backwards from the last, by which no sample tells that it was written. */
static size_t unsampled_from(struct tb_stored s, size_t at, bool backwards) {
  const size_t start = (size_t)(s.data - memory);
  for (;; at = backwards ? at - 1 : element_from(s, at + 1)) {
    const struct tb_digest before = tb_hash_sample(&s, TB_SAMPLE_LINES);
    memory[start + at] ^= 1;
    const struct tb_digest now = tb_hash_sample(&s, TB_SAMPLE_LINES);
    memory[start + at] ^= 1;
    if (tb_digests_are_equal(&before, &now)) return at;
  }
}

/* All bytes are looked at then, at the ends, too. So that a cell is one of 64 there are as many. */
static void found_as_the_watch_begins(void **state) {
  (void)state;
  for (int hash_pays = 0; hash_pays < 2; hash_pays++)
    for (int shape = 0; shape < SHAPES; shape++)
      for (int where = 0; where < 4; where++) {
        struct tb_stored s = shapes[shape];
        if (tb_cells_of(&s).count < FEW_OF) continue;
        begin((size_t)tb_stored_span_bytes(&s) + PAGE);
        tb_cache_allow_hash(cache, hash_pays);
        s.data = memory + 40;
        const size_t last = (size_t)tb_stored_span_bytes(&s) - 1;
        const size_t places[] = {0, last, element_from(s, last / 3), element_from(s, PAGE)};
        const size_t at = unsampled_from(s, places[where], where == 1);
        have_copied(s);
        memory[40 + at] ^= 1;
        expect_mended(s, 1);
        struct tb_question question = {.kept = NULL};
        enter(0);
        look(0, s, &question);
        assert_null(question.kept); /* it is asked about first */
        tb_cache_leave();
        tb_cache_end_call(cache, 0);
        end();
      }
}

/* Of one in 64 cells, in so many places as are told at once; and where it is written meanwhile. */
static void few_cells(void **state) {
  (void)state;
  for (int more = 0; more < 2; more++) {
    begin(640 * 4 * PAGE);
    const struct tb_stored s = matrix(0, 16384, 640, 16384);
    have_copied(s);
    for (size_t i = 0; i < 10 + (size_t)more; i++) /* the first two beside each other */
      memory[(i < 2 ? 60 + i : 60 * i) * 16384 + 9000] ^= 1;
    if (more)
      assert_int_equal(see(s), TB_NOT_KEPT);
    else
      expect_mended(s, 10);
    end();
  }
}

/* Where there are more cells than that in so many places. */
static void few_places_of_cells(void **state) {
  (void)state;
  begin(0); /* zeros will do */
  const struct tb_stored s = matrix(0, 8208, (TB_TRACK_RUNS_MOST + 2) * FEW_OF, 8208);
  for (int more = 0; more < 2; more++) {
    have_copied(s);
    for (size_t i = 0; i < TB_TRACK_RUNS_MOST + (size_t)more; i++) memory[8208 * (60 * i + 3) + 4000] ^= 1;
    if (more)
      assert_int_equal(see(s), TB_NOT_KEPT);
    else
      expect_mended(s, TB_TRACK_RUNS_MOST);
    end();
    if (!more) begin(0);
  }
}

/* Before pages are protected, and as soon as they are: the first time that they are. */
static void written_as_the_watch_begins(void **state) {
  (void)state;
  for (int behind = 0; behind < 2; behind++) {
    begin(0);
    tb_cache_allow_hash(cache, true); /* no page is asked about */
    const struct tb_stored s = matrix(0, 16384, 100, 16384);
    fill((size_t)tb_stored_span_bytes(&s));
    have_copied(s);
    *(behind ? &written_behind : &written_before) = memory + 150 * PAGE + 77;
    assert_int_equal(see(s), TB_MENDED);
    assert_true(written_before == NULL && written_behind == NULL);
    expect_copy(s);
    assert_int_equal(see(s), behind ? TB_MENDED : TB_BY_TRACKING);
    expect_copy(s);
    end();
  }
}

/* Nor without a call's word, of a half, or where it cannot be watched. */
static void not_as_the_watch_begins(void **state) {
  (void)state;
  char parameters[256] = {0};
  enum { UNASKED, A_HALF, A_RING };
  for (int why = UNASKED; why <= A_RING; why++) {
    begin(1025 * PAGE);
    tb_cache_allow_hash(cache, true);
    struct tb_stored s = matrix(0, 4096, 1024, 4096);
    if (why == A_HALF) s.part = TB_STORED_LOWER;
    const int ring = why == A_RING ? (int)syscall(SYS_io_uring_setup, 1, parameters) : -1;
    if (why == A_RING && ring < 0) TST_LEAVE_OUT("there are no rings");
    have_copied(s);
    memory[500 * PAGE + 3000] ^= 1;
    struct tb_cached found;
    assert_true(tb_cache_enter());
    tb_cache_begin_call(cache, 0);
    if (why != UNASKED) tb_cache_allow_mending(cache);
    tb_cache_look(cache, 0, &s, NULL, &found, NULL);
    tb_cache_leave();
    tb_cache_end_call(cache, 0);
    assert_int_equal(found.proof, TB_NOT_KEPT);
    if (ring >= 0) close(ring);
    end();
  }
}

/* ---- what is not mended ---- */

/* Not until a call says that it does; a half never is. */
static void not_unasked(void **state) {
  (void)state;
  for (int half = 0; half < 2; half++) {
    begin(301 * PAGE);
    struct tb_stored s = matrix(0, 4096, half ? 1024 : 300, 4096);
    if (half) s.part = TB_STORED_UPPER, fill(1025 * PAGE);
    const struct tb_stored *const operand = &s;
    for (int i = 0; i < 8 && see(s) != TB_BY_TRACKING; i++) continue;
    assert_int_equal(see(s), TB_BY_TRACKING);
    memory[250 * PAGE] ^= 1;
    struct tb_cached found;
    enter(0);
    if (!half) tb_cache_begin_call(cache, 0);
    tb_cache_look(cache, 0, operand, NULL, &found, NULL);
    tb_cache_leave();
    tb_cache_end_call(cache, 0);
    assert_int_equal(found.proof, TB_NOT_KEPT);
    end();
  }
}

/* A part of what is kept, of which the rest may be gone: the question waits, or does not, or is none, for the page in
 * the part's midst was written. */
static void no_part(void **state) {
  (void)state;
  enum { WAITS, DOES_NOT, IS_NONE };
  for (int kind = WAITS; kind <= IS_NONE; kind++)
    for (int rest_is_gone = 0; rest_is_gone < 2; rest_is_gone++) {
      begin(402 * PAGE);
      const struct tb_stored s = matrix(40, 16384, 100, 16384), part = matrix(40 + 4 * 16384, 16384, 35, 16384);
      struct tb_question question = {.kept = NULL};
      keep(s);
      if (rest_is_gone) {
        munmap(memory, 16 * PAGE);
        munmap(memory + 160 * PAGE, MEMORY - 160 * PAGE);
      }
      memory[(kind == IS_NONE ? (16 + 157) / 2 : 21) * PAGE] ^= 1;
      enter(0);
      const struct tb_cached found = look(0, part, kind == WAITS ? &question : NULL);
      if (kind == WAITS) {
        assert_non_null(question.kept);
        tb_question_ask(&question, NULL);
        assert_false(tb_kept_answer(&question));
        assert_false(tb_track_holds(&found.kept->tracked));
      } else {
        assert_int_equal(found.proof, TB_NOT_KEPT);
      }
      tb_cache_leave();
      tb_cache_end_call(cache, 0);
      end();
    }
}

/* Another call has it, or this one as a part, which was proven: it is not what it was, and stays while they last. */
static void not_what_a_call_has(void **state) {
  (void)state;
  for (int other = 0; other < 2; other++) {
    begin(401 * PAGE);
    const struct tb_stored s = matrix(0, 16384, 100, 16384), part = matrix(0, 16384, 35, 16384);
    keep(s);
    enter(other);
    assert_int_equal(look(other, part, NULL).proof, TB_BY_TRACKING);
    if (other) tb_cache_leave(), enter(0);
    memory[300 * PAGE] ^= 1;
    assert_int_equal(look(0, s, NULL).proof, TB_NOT_KEPT);
    assert_true(tb_cache_bytes(cache) > 0);
    tb_cache_leave();
    tb_cache_end_call(cache, 0), tb_cache_end_call(cache, other);
    assert_int_equal(see(s), TB_NOT_KEPT);
    assert_int_equal(tb_cache_bytes(cache), 0);
    end();
  }
}

/* A call that was left as it brought them up: the copy is nobody's, and goes when that call is over. */
static void a_call_that_was_left(void **state) {
  (void)state;
  for (int shrinks = 0; shrinks < 2; shrinks++) {
    begin(401 * PAGE);
    const struct tb_stored s = matrix(0, 16384, 100, 16384), part = matrix(0, 16384, 35, 16384);
    struct tb_cached found;
    keep(s);
    memory[300 * PAGE] ^= 1;
    enter(3);
    tb_cache_look(cache, 3, &s, NULL, &found, NULL);
    assert_int_equal(found.proof, TB_MENDED);
    tb_cache_leave();
    assert_int_equal(see(s), TB_NOT_KEPT); /* whose pages are clean */
    assert_int_equal(see(part), TB_NOT_KEPT);
    assert_true(tb_cache_bytes(cache) > 0);
    if (shrinks) tb_cache_end_call(cache, 3);
    if (shrinks) assert_int_equal(see(s), TB_NOT_KEPT);
    if (shrinks) assert_int_equal(tb_cache_bytes(cache), 0);
    end();
  }
}

/* It failed: what was to go up is forgotten with the copy, whose place has another's then. */
static void a_copy_that_was_not_mended(void **state) {
  (void)state;
  begin(301 * PAGE);
  const struct tb_stored s = matrix(0, 4096, 300, 4096);
  struct tb_cached found;
  keep(s);
  memory[150 * PAGE] ^= 1;
  enter(0);
  tb_cache_look(cache, 0, &s, NULL, &found, NULL);
  assert_int_equal(found.proof, TB_MENDED);
  tb_cache_drop(cache, found.kept);
  tb_cache_leave();
  tb_cache_end_call(cache, 0);
  assert_int_equal(tb_cache_bytes(cache), 0);
  keep(s);
  expect_copy(s);
  end();
}

/* A copy that becomes a result's has nothing that is to go up, and what is packed is what was there before. */
static void nothing_is_left(void **state) {
  (void)state;
  struct tb_digest digests[2];
  for (int result = 0; result < 2; result++) {
    struct tb_kept kept = {.digests = digests, .cells = {.count = 2}, .stale = calloc(1, sizeof(struct tb_stale))};
    atomic_store(&kept.planes.packed, true);
    result ? tb_kept_begin_result(&kept) : tb_kept_end_mending(&kept);
    assert_null(kept.stale);
    assert_false(atomic_load(&kept.planes.packed));
  }
}

/* ---- others that watch the same pages ---- */

/* All of one's are another's: whichever is mended, what was written shows in the other. */
static void one_within_another(void **state) {
  (void)state;
  for (int outer_first = 0; outer_first < 2; outer_first++)
    for (int common = 0; common < 2; common++) {
      begin(601 * PAGE);
      const struct tb_stored inner = matrix(100 * PAGE, 4096, 256, 4096), outer = matrix(0, 8192, 300, 8192);
      const struct tb_stored first = outer_first ? outer : inner, second = outer_first ? inner : outer;
      keep(outer), keep(inner);
      assert_int_equal(see(outer), TB_BY_TRACKING); /* both are watched */
      memory[(common ? 200 : 400) * PAGE + 9] ^= 1;
      const bool is_its = common || outer_first;
      assert_int_equal(see(first), is_its ? TB_MENDED : TB_BY_TRACKING);
      expect_copy(first);
      assert_int_equal(see(second), !common && outer_first ? TB_BY_TRACKING : !common ? TB_MENDED : TB_NOT_KEPT);
      assert_int_equal(see(first), TB_BY_TRACKING);
      end();
    }
}

/* The question was taken before another operand was mended, by which all pages are as if nothing was. */
static void a_question_lapses(void **state) {
  (void)state;
  begin(601 * PAGE);
  const struct tb_stored inner = matrix(100 * PAGE, 4096, 256, 4096), outer = matrix(0, 8192, 300, 8192);
  struct tb_question question = {.kept = NULL};
  keep(outer), keep(inner);
  enter(1);
  assert_int_equal(look(1, inner, &question).proof, TB_BY_TRACKING);
  tb_cache_leave();
  assert_non_null(question.kept);
  memory[200 * PAGE + 9] ^= 1;
  assert_int_equal(see(outer), TB_MENDED);
  tb_question_ask(&question, NULL);
  assert_false(tb_kept_answer(&question));
  tb_cache_end_call(cache, 1);
  assert_int_equal(see(inner), TB_NOT_KEPT);
  end();
}

/* A call of two GPUs. One of them has mended its copy by calls of its own. */
static void two_gpus(void **state) {
  (void)state;
  begin(301 * PAGE);
  const struct tb_stored s = matrix(0, 4096, 300, 4096);
  struct tb_cache *const both[2] = {cache, tb_cache_open(true)};
  struct tb_cached found[2];
  tb_cache_allow_hash(both[1], false);
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 8 - 7 * round; i++) {
      assert_true(tb_cache_enter());
      for (int gpu = 0; gpu < 2; gpu++) {
        cache = both[gpu];
        tb_cache_begin_call(cache, 0);
        tb_cache_compare(cache, gpu == 1 && tb_proof_is_kept(found[0].proof) ? &found[0] : NULL);
        found[gpu] = look(0, s, NULL);
      }
      tb_cache_leave();
      for (int gpu = 0; gpu < 2; gpu++) tb_cache_end_call(both[gpu], 0);
    }
    cache = both[0];
    assert_int_equal(found[0].proof, TB_BY_TRACKING);
    assert_int_equal(found[1].proof, round == 0 ? TB_BY_TRACKING : TB_NOT_KEPT);
    if (round == 0) {
      memory[150 * PAGE] ^= 1;
      expect_mended(s, 2);
    }
  }
  tb_cache_close(both[1], true);
  end();
}

/* ---- when it is asked ---- */

/* Beside the call, until that was in vain; then before it, for a while. */
static void asked_first(void **state) {
  (void)state;
  begin(301 * PAGE);
  const struct tb_stored s = matrix(0, 4096, 300, 4096);
  keep(s);
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < ASKED_FIRST + 2; i++) {
      struct tb_question question = {.kept = NULL};
      const bool first = round > 0 && i < ASKED_FIRST, in_vain = round == 0 && i == ASKED_FIRST + 1;
      enter(0);
      const struct tb_cached found = look(0, s, &question);
      assert_int_equal(found.proof, TB_BY_TRACKING);
      assert_int_equal(question.kept == NULL, first);
      if (in_vain) memory[100 * PAGE] ^= 1;
      if (!first) tb_question_ask(&question, NULL);
      if (!first) assert_int_equal(tb_kept_answer(&question), !in_vain);
      tb_cache_leave();
      tb_cache_end_call(cache, 0);
    }
    if (round == 0) assert_int_equal(see(s), TB_MENDED);
  }
  end();
}

/* What was written is too much: the answer ends the watch. */
/* So often in a row what is small, where nothing is written between it does not count; what is large for ever. */
static void not_for_long(void **state) {
  (void)state;
  enum { MENDS_MOST = 4, LARGE_BYTES = 32 << 20 };
  const struct tb_stored small = matrix(0, 8192, 300, 8192), large = matrix(0, 16384, LARGE_BYTES / 16384, 16384);
  begin(LARGE_BYTES);
  keep(small);
  for (size_t i = 0; i < 3 * MENDS_MOST; i++) memory[i * PAGE + 9] ^= 1, expect_mended(small, 2);
  for (size_t i = 0; i < MENDS_MOST; i++) memory[i * PAGE + 9] ^= 1, assert_int_equal(see(small), TB_MENDED);
  memory[9] ^= 1;
  assert_int_equal(see(small), TB_NOT_KEPT);
  keep(large);
  for (size_t i = 0; i < 2 * MENDS_MOST; i++) memory[i * PAGE + 9] ^= 1, assert_int_equal(see(large), TB_MENDED);
  expect_copy(large);
  end();
}

static void an_answer_ends_the_watch(void **state) {
  (void)state;
  for (int many = 0; many < 2; many++) {
    begin(301 * PAGE);
    const struct tb_stored s = matrix(0, 4096, 300, 4096);
    struct tb_question question = {.kept = NULL};
    const struct tb_kept *const kept = keep(s);
    enter(0);
    assert_int_equal(look(0, s, &question).proof, TB_BY_TRACKING);
    for (size_t i = 0; i < (many ? 20U : 2U); i++) memory[3 * i * PAGE] ^= 1;
    tb_question_ask(&question, NULL);
    assert_false(tb_kept_answer(&question));
    assert_int_equal(tb_track_holds(&kept->tracked), !many);
    tb_cache_leave();
    tb_cache_end_call(cache, 0);
    assert_int_equal(see(s), many ? TB_NOT_KEPT : TB_MENDED);
    end();
  }
}

/* Where digests count, too: behind much that was written it is as any copy, told by the lines that it has now. */
static void sampled_anew(void **state) {
  (void)state;
  begin(0);
  tb_cache_allow_hash(cache, true);
  const struct tb_stored s = matrix(0, 4096, 300, 5000);
  fill((size_t)tb_stored_span_bytes(&s));
  const struct tb_digest before = tb_hash_sample(&s, TB_SAMPLE_LINES);
  keep(s);
  memory[0] ^= 1;
  const struct tb_digest now = tb_hash_sample(&s, TB_SAMPLE_LINES);
  assert_false(tb_digests_are_equal(&before, &now));
  expect_mended(s, 4);
  for (size_t column = 0; column < 299; column++) memory[column * 5000 + 4500] ^= 1; /* no element */
  for (int i = 0; i < 2; i++) assert_int_equal(see(s), TB_BY_HASH);
  end();
}

/* ---- the kernel's word ---- */

static void runs_of_pages(void **state) {
  (void)state;
  enum { PAGES = 64 };
  begin(PAGES * PAGE);
  struct tb_tracked pages = tb_track_pages((uintptr_t)memory, (uintptr_t)memory + PAGES * PAGE), run[4];
  assert_true(tb_track_begin(&pages, tb_track_pages((uintptr_t)memory, (uintptr_t)memory + MEMORY)));
  assert_int_equal(tb_track_find_written(pages, run, 4), 0);
  static const int written[] = {0, 30, 31, 32, PAGES - 1};
  for (size_t i = 0; i < sizeof written / sizeof *written; i++) memory[(size_t)written[i] * PAGE] ^= 1;
  assert_int_equal(tb_track_find_written(pages, run, 4), 3);
  static const int first[] = {0, 30, PAGES - 1}, behind[] = {1, 33, PAGES};
  for (int i = 0; i < 3; i++) {
    assert_int_equal((run[i].start - pages.start) / PAGE, first[i]);
    assert_int_equal((run[i].end - pages.start) / PAGE, behind[i]);
  }
  assert_int_equal(tb_track_find_written(pages, run, 3), 3);
  assert_int_equal(tb_track_find_written(pages, run, 2), -1);
  for (int i = 0; i < 3; i++) assert_true(tb_track_renew(&pages, run[i]));
  assert_int_equal(tb_track_find_written(pages, run, 4), 0);
  for (size_t i = 0; i < PAGES; i++) memory[i * PAGE] ^= 1;
  assert_int_equal(tb_track_find_written(pages, run, 4), -1);
  tb_track_end(&pages);
  tb_track_close();
  assert_int_equal(tb_track_find_written(pages, run, 4), -1);
  end();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs_of_pages),
      cmocka_unit_test(one_byte),
      cmocka_unit_test(whole_pages),
      cmocka_unit_test(several_places),
      cmocka_unit_test(few_pages),
      cmocka_unit_test(few_places),
      cmocka_unit_test(the_ends),
      cmocka_unit_test(written_meanwhile),
      cmocka_unit_test(pages_that_are_others),
      cmocka_unit_test(huge_pages),
      cmocka_unit_test(a_hole_between_columns),
      cmocka_unit_test(not_beside_a_ring),
      cmocka_unit_test(registered_meanwhile),
      cmocka_unit_test(refused),
      cmocka_unit_test(found_as_the_watch_begins),
      cmocka_unit_test(few_cells),
      cmocka_unit_test(few_places_of_cells),
      cmocka_unit_test(written_as_the_watch_begins),
      cmocka_unit_test(not_as_the_watch_begins),
      cmocka_unit_test(not_unasked),
      cmocka_unit_test(no_part),
      cmocka_unit_test(not_what_a_call_has),
      cmocka_unit_test(a_call_that_was_left),
      cmocka_unit_test(a_copy_that_was_not_mended),
      cmocka_unit_test(nothing_is_left),
      cmocka_unit_test(one_within_another),
      cmocka_unit_test(a_question_lapses),
      cmocka_unit_test(two_gpus),
      cmocka_unit_test(asked_first),
      cmocka_unit_test(not_for_long),
      cmocka_unit_test(an_answer_ends_the_watch),
      cmocka_unit_test(sampled_anew),
  };
  if (!begin_group()) return 1;
  return tst_result(end_group(cmocka_run_group_tests(tests, NULL, NULL)));
}
