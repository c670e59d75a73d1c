/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies that have the beginning of an operand: what they lack goes up, all of it and few cells beside it, be it a
 * matrix that has got more columns or a window that moves on. A write behind that shows wherever it is: to what was
 * there, to what has come, in the page in which the one ends and the other begins, and to both ends. So does one while
 * the pages begin to be watched. Of no use is a copy that has less than half, other columns, a half of a matrix, a
 * result, or one that another call has; nor one of which the beginning has changed, or where somebody may write without
 * a fault. Who looked at a smaller matrix before has seen the larger one. A program whose matrices are rewritten where
 * they have grown has few copies that grow.
 *
 * Seen to fail when: the pages that have come are not watched, or behind their way up; the page between, or a cell that
 * has got more columns, does not go up again; the end behind is the old one's, or before it is digested anew; what had
 * to be mended, too, is forgotten; the beginning is not proven; the memory that it had stays; what was known of the
 * larger one is forgotten; nothing is learnt from copies that grew in vain; others still watch the pages that have
 * come.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/integers.h"
#include "copies.h"
#include "fake.h"
#include "process.h"

/* ---- what goes up ---- */

/* Cells of several columns, and one, and columns of several; with memory between them, of which nothing is. */
static const struct tb_stored shapes[] = {
    {NULL, 4096, 600, 4096, TB_STORED_ALL},   {NULL, 4104, 600, 4200, TB_STORED_ALL},
    {NULL, 40, 60000, 40, TB_STORED_ALL},     {NULL, 40, 60000, 72, TB_STORED_ALL},
    {NULL, 12000, 200, 20000, TB_STORED_ALL}, {NULL, 16384, 180, 16384, TB_STORED_ALL},
    {NULL, 16400, 200, 16480, TB_STORED_ALL}, {NULL, 60000, 60, 100000, TB_STORED_ALL}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static struct tb_stored columns_of(struct tb_stored s, int64_t first, int64_t count) {
  s.data += first * s.pitch_bytes, s.columns = count;
  return s;
}

/* Of a shape, where the first page is not its own. */
static struct tb_stored begin_with(int shape) {
  struct tb_stored s = shapes[shape];
  begin((size_t)tb_stored_span_bytes(&s) + 2 * PAGE);
  s.data = memory + 40;
  return s;
}

/* Cells that so many columns have, and those of a page, at most. */
static int64_t cells_of_columns(struct tb_stored s, int64_t columns) {
  const struct tb_cells cells = tb_cells_of(&s);
  const int64_t page = (int64_t)PAGE / s.pitch_bytes / cells.columns_each + cells.in_column + 2;
  return tb_ceil_div(columns, cells.columns_each) * cells.in_column + page;
}

/* The copy has so many of its columns. */
static void expect_grown(struct tb_stored s, int64_t had) {
  assert_int_equal(see(s), TB_GROWN);
  const int64_t most = cells_of_columns(s, s.columns - had);
  if (cells_brought_up > most) fail_msg("%d cells instead of %d went up", (int)cells_brought_up, (int)most);
  expect_copy(s);
}

static void the_rest_alone(void **state) {
  (void)state;
  for (int shape = 0; shape < SHAPES; shape++) {
    const struct tb_stored s = begin_with(shape);
    const int64_t had[] = {s.columns / 3, s.columns / 2 + 1, s.columns / 2 + 2, s.columns - 1, s.columns};
    keep(columns_of(s, 0, had[0]));
    for (int i = 1; i < 5; i++) {
      const struct tb_stored more = columns_of(s, 0, had[i]);
      expect_grown(more, had[i - 1]);
      assert_int_equal(see(more), TB_BY_TRACKING);
      assert_int_equal(see(columns_of(s, 0, had[0])), TB_BY_TRACKING);
    }
    assert_int_equal(see(columns_of(s, 3, s.columns / 2)), TB_BY_TRACKING);
    end();
  }
}

/* Of which the copy has what lies behind its own beginning, too. */
static void a_window_that_moves_on(void **state) {
  (void)state;
  for (int shape = 0; shape < SHAPES; shape++) {
    const struct tb_stored s = begin_with(shape);
    const int64_t window = s.columns / 2, step = window / 3;
    keep(columns_of(s, 0, window));
    for (int64_t first = step; first + window <= s.columns; first += step) {
      expect_grown(columns_of(s, first, window), window - step);
      assert_int_equal(see(columns_of(s, first, window)), TB_BY_TRACKING);
    }
    expect_copy(columns_of(s, 0, window));
    end();
  }
}

/* A program may give back what it has used up. */
static void what_a_window_has_left_is_not_read(void **state) {
  (void)state;
  const struct tb_stored s = begin_with(0);
  keep(columns_of(s, 0, 300));
  munmap(memory, 90 * PAGE);
  expect_grown(columns_of(s, 100, 300), 200);
  assert_int_equal(see(columns_of(s, 100, 300)), TB_BY_TRACKING);
  munmap(memory + 90 * PAGE, 90 * PAGE);
  expect_grown(columns_of(s, 200, 300), 200);
  end();
}

/* ---- a write behind that ---- */

/* Places of elements: at both ends, in the page between what was there and what has come, and in either. */
enum { PLACES = 8 };
static const char *place_in(struct tb_stored s, int64_t had, int place) {
  const struct tb_stored before = columns_of(s, 0, had);
  const char *const places[PLACES] = {s.data,
                                      s.data + had / 2 * s.pitch_bytes,
                                      (const char *)tb_stored_end(&before) - 1,
                                      s.data + had * s.pitch_bytes,
                                      s.data + had * s.pitch_bytes + s.column_bytes - 1,
                                      s.data + (had + s.columns) / 2 * s.pitch_bytes,
                                      s.data + (s.columns - 1) * s.pitch_bytes,
                                      (const char *)tb_stored_end(&s) - 1};
  return places[place];
}

static void a_write_shows(void **state) {
  (void)state;
  for (int shape = 0; shape < SHAPES; shape++)
    for (int place = 0; place < PLACES; place++)
      for (int hash = 0; hash < 2; hash++) {
        const struct tb_stored s = begin_with(shape);
        const int64_t had = s.columns * 2 / 3;
        keep(columns_of(s, 0, had));
        expect_grown(s, had);
        memory[place_in(s, had, place) - memory] ^= 1;
        tb_cache_allow_hash(cache, hash);
        const enum tb_proof proof = see(s);
        if (proof != TB_NOT_KEPT && proof != TB_MENDED) fail_msg("shape %d, place %d: %d", shape, place, (int)proof);
        if (proof == TB_MENDED) expect_copy(s);
        end();
      }
}

/* By somebody else, before the pages are protected: it goes up. And as soon as they are: it shows in the next call. */
static void written_meanwhile(void **state) {
  (void)state;
  for (int shape = 0; shape < SHAPES; shape++)
    for (int place = 2; place < PLACES - 1; place++)
      for (int behind = 0; behind < 2; behind++) {
        const struct tb_stored s = begin_with(shape);
        const int64_t had = s.columns * 2 / 3;
        keep(columns_of(s, 0, had));
        char *const byte = memory + (place_in(s, had, place) - memory);
        const bool is_watched = (uintptr_t)byte < tb_track_pages(tb_stored_start(&s), tb_stored_end(&s)).end;
        *(behind ? &written_behind : &written_before) = byte;
        assert_int_equal(see(s), TB_GROWN);
        assert_true(written_before == NULL && written_behind == NULL);
        expect_copy(s); /* what went up is what was there then */
        assert_int_equal(see(s), behind && is_watched ? TB_MENDED : TB_BY_TRACKING);
        expect_copy(s);
        end();
      }
}

/* What was written of the beginning goes up with the rest. */
static void mended_too(void **state) {
  (void)state;
  for (int shape = 0; shape < SHAPES; shape++) {
    const struct tb_stored s = begin_with(shape);
    const int64_t had = s.columns * 2 / 3;
    keep(columns_of(s, 0, had));
    memory[place_in(s, had, 1) - memory] ^= 1;
    memory[PAGE + PAGE / 2] ^= 1;
    assert_int_equal(see(s), TB_GROWN);
    expect_copy(s);
    assert_int_equal(see(s), TB_BY_TRACKING);
    end();
  }
}

/* In as many places as are told at once: there is one run for the last of them and for the rest. */
static void mended_in_many_places(void **state) {
  (void)state;
  begin(0);
  const struct tb_stored s = matrix(0, 1 << 20, 60, 1 << 20);
  memset(memory, 1, (size_t)tb_stored_span_bytes(&s));
  keep(columns_of(s, 0, 40));
  for (size_t i = 0; i < TB_TRACK_RUNS_MOST; i++) memory[(60 * i + 9) * PAGE] ^= 1;
  assert_int_equal(see(s), TB_GROWN);
  expect_copy(s);
  assert_int_equal(see(s), TB_BY_TRACKING);
  end();
}

/* ---- by digests ---- */

/* Where the kernel is not asked, for there is a ring. */
static void by_digests(void **state) {
  (void)state;
  char parameters[256] = {0};
  const int ring = (int)syscall(SYS_io_uring_setup, 1, parameters);
  if (ring < 0) TST_LEAVE_OUT("there are no rings");
  for (int shape = 0; shape < SHAPES; shape++)
    for (int place = -1; place < PLACES; place++) {
      const struct tb_stored s = begin_with(shape);
      const int64_t had = s.columns * 2 / 3;
      tb_cache_allow_hash(cache, true);
      for (int i = 0; i < 3; i++) see(columns_of(s, 0, had));
      expect_grown(s, had);
      if (place >= 0) memory[place_in(s, had, place) - memory] ^= 1;
      assert_int_equal(see(s), place >= 0 ? TB_NOT_KEPT : TB_BY_HASH);
      end();
    }
  close(ring);
}

/* ---- what does not grow ---- */

static void expect_not_grown(struct tb_stored s) {
  const enum tb_proof proof = see(s);
  if (proof != TB_NOT_KEPT) fail_msg("%d columns: %d", (int)s.columns, (int)proof);
}

static void other_columns(void **state) {
  (void)state;
  for (int i = 0; i < 8; i++) {
    begin(8192 * 620);
    const struct tb_stored s = matrix(8192, 4096, 300, 8192);
    struct tb_stored other = s;
    keep(s);
    other.columns += 10;
    if (i == 0) other.columns = 2 * s.columns + 1; /* of which it has less than half */
    if (i == 1) other.data += 64;                  /* across its columns */
    if (i == 2) other.data -= s.pitch_bytes;       /* from before it on */
    if (i == 3) other.column_bytes -= 8;
    if (i == 4) other.column_bytes += 8;
    if (i == 5) other.pitch_bytes = 4096;
    if (i == 6) other.data += 301 * s.pitch_bytes; /* a column further on */
    if (i == 7) other.columns = 512, other.part = TB_STORED_UPPER;
    expect_not_grown(other);
    end();
  }
}

static void half_of_it(void **state) {
  (void)state;
  begin(601 * PAGE);
  keep(matrix(0, 4096, 300, 4096));
  expect_grown(matrix(0, 4096, 600, 4096), 300);
  end();
}

/* One of a half; of a call that may not mend; or a copy that another call has, or this one. */
static void not_for_others(void **state) {
  (void)state;
  enum { A_HALF, NOT_ALLOWED, ANOTHERS, THE_CALLS_OWN };
  for (int why = A_HALF; why <= THE_CALLS_OWN; why++) {
    begin(401 * PAGE);
    struct tb_stored s = matrix(0, 4096, 300, 4096), more = matrix(0, 4096, 400, 4096);
    if (why == A_HALF) s = matrix(0, 4096, 512, 4096), s.part = TB_STORED_UPPER, more.columns = 600, fill(601 * PAGE);
    keep(s);
    enter(why == ANOTHERS ? 1 : 0);
    if (why >= ANOTHERS) assert_int_equal(look(why == ANOTHERS, s, NULL).proof, TB_BY_TRACKING);
    if (why == ANOTHERS) tb_cache_leave(), enter(0);
    if (why == NOT_ALLOWED) tb_cache_begin_call(cache, 0);
    assert_int_equal(look(0, more, NULL).proof, TB_NOT_KEPT);
    tb_cache_leave();
    tb_cache_end_call(cache, 0), tb_cache_end_call(cache, 1);
    if (why != A_HALF) assert_int_equal(see(s), TB_BY_TRACKING);
    end();
  }
}

/* Its beginning has changed, in many places or in its last page, which is another's, too: the copy goes. */
static void not_if_it_has_changed(void **state) {
  (void)state;
  for (int end_alone = 0; end_alone < 2; end_alone++) {
    const struct tb_stored s = begin_with(1);
    keep(columns_of(s, 0, 400));
    for (size_t i = 1; !end_alone && i < 200; i++) memory[i * 2 * PAGE] ^= 1;
    if (end_alone) memory[place_in(s, 400, 2) - memory] ^= 1;
    expect_not_grown(s);
    assert_int_equal(tb_cache_bytes(cache), 0);
    end();
  }
}

/* The kernel does not protect the pages that have come, or somebody may write there unseen: the copy is not watched any
 * more, and gone in the next call. */
static void not_watched(void **state) {
  (void)state;
  char parameters[256] = {0};
  enum { REFUSED, A_RING, A_FILE };
  for (int why = REFUSED; why <= A_FILE; why++) {
    const struct tb_stored s = begin_with(0);
    keep(columns_of(s, 0, 400));
    const int ring = why == A_RING ? (int)syscall(SYS_io_uring_setup, 1, parameters) : -1;
    if (why == A_RING && ring < 0) TST_LEAVE_OUT("there are no rings");
    protects_nothing = why == REFUSED;
    void *const place = memory + 500 * PAGE;
    if (why == A_FILE)
      assert_true(mmap(place, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == place);
    const struct tb_cached found = call(s);
    assert_int_equal(found.proof, TB_GROWN);
    assert_false(tb_track_holds(&found.kept->tracked));
    expect_copy(s);
    assert_int_equal(see(s), TB_NOT_KEPT);
    assert_int_equal(tb_cache_bytes(cache), 0);
    protects_nothing = false;
    if (ring >= 0) close(ring);
    end();
  }
}

/* ---- who watches the same pages ---- */

/* Another operand has the pages that come: it is watched as before where nobody wrote to them, and else not any more,
 * for they are protected anew. */
static void others_in_the_pages(void **state) {
  (void)state;
  for (int written = 0; written < 3; written++) {
    begin(701 * PAGE);
    const struct tb_stored s = matrix(0, 4096, 600, 4096), other = matrix(380 * PAGE, 8192, 155, 8192);
    struct tb_kept *const theirs = keep(other);
    keep(columns_of(s, 0, 380));
    if (written == 1) memory[500 * PAGE] ^= 1; /* in what both have */
    if (written == 2) memory[650 * PAGE] ^= 1; /* in theirs alone */
    assert_int_equal(see(s), TB_GROWN);
    expect_copy(s);
    assert_int_equal(tb_track_holds(&theirs->tracked), written != 1);
    assert_int_equal(see(s), TB_BY_TRACKING);
    const enum tb_proof proof = see(other);
    assert_int_equal(proof, written == 0 ? TB_BY_TRACKING : written == 1 ? TB_NOT_KEPT : TB_MENDED);
    memory[510 * PAGE] ^= 1;
    assert_int_equal(see(s), TB_MENDED);
    expect_copy(s);
    end();
  }
}

/* ---- memory ---- */

static uint64_t allocated(void) { return tst_fake() == NULL ? 0 : tst_fake()->get(FAKE_CUDA_ALLOCATED_BYTES); }

/* What it had is given back; and it has room for what comes next, where there is some. */
static void memory_on_the_gpu(void **state) {
  (void)state;
  if (tst_fake() == NULL) TST_LEAVE_OUT("a real driver does not count");
  const struct tb_stored s = begin_with(0);
  const uint64_t others = allocated();
  keep(columns_of(s, 0, 300));
  assert_int_equal(allocated() - others, 300 * 4096);
  expect_grown(columns_of(s, 0, 400), 300);
  const int64_t bytes = tb_cache_bytes(cache);
  assert_int_equal(bytes, 500 * 4096);
  assert_int_equal(allocated() - others, bytes);
  expect_grown(columns_of(s, 0, 500), 400);
  assert_int_equal(tb_cache_bytes(cache), bytes);
  expect_grown(columns_of(s, 0, 501), 500);
  assert_int_equal(allocated() - others, tb_cache_bytes(cache));
  assert_true(tb_cache_bytes(cache) > bytes);
  tb_cache_give_back(cache);
  assert_int_equal(allocated(), others);
  assert_int_equal(tb_cache_bytes(cache), 0);
  end();
}

/* Inside: a call looks for a matrix of which there is a beginning, with so much memory. */
static bool grow_within(struct tb_stored more, int64_t free_bytes, int64_t limit, struct tb_cached *found,
                        struct tb_outgrown *old) {
  assert_null(tb_cache_look(cache, 0, &more, NULL, found, NULL));
  assert_true(found->grows);
  return tb_cache_grow(cache, found->kept, &more, free_bytes, limit, old);
}

/* With room for all alone, which others have to make, and with none: the copy is what it was, and is not tried again.
 */
static void little_memory(void **state) {
  (void)state;
  for (int none = 0; none < 2; none++) {
    const struct tb_stored s = begin_with(0), more = columns_of(s, 0, 400);
    const int64_t column = 4096, limit = (300 + 400 - none) * column;
    struct tb_outgrown old;
    struct tb_cached found;
    const uint64_t before = allocated();
    keep(columns_of(s, 0, 300));
    enter(0);
    assert_int_equal(grow_within(more, NO_LIMIT, limit, &found, &old), !none);
    assert_int_equal(tb_cache_bytes(cache), (none ? 300 : 700) * column);
    tb_cache_end_outgrown(cache, &old);
    if (!none) tb_cache_drop(cache, found.kept); /* what was to go up has not */
    tb_cache_leave();
    tb_cache_end_call(cache, 0);
    if (none) assert_int_equal(see(columns_of(s, 0, 300)), TB_BY_TRACKING);
    if (none) assert_int_equal(see(more), TB_NOT_KEPT);
    tb_cache_give_back(cache);
    assert_int_equal(tb_cache_bytes(cache), 0);
    assert_int_equal(allocated(), before);
    end();
  }
}

/* Free memory is in pieces that are too small for what may come, or for what has come, too: then it is as it was. */
static void memory_in_pieces(void **state) {
  (void)state;
  if (tst_fake() == NULL) TST_LEAVE_OUT("a real driver has the memory");
  for (int failures = 1; failures <= 2; failures++) {
    const struct tb_stored s = begin_with(0);
    struct tb_outgrown old;
    struct tb_cached found;
    keep(columns_of(s, 0, 300));
    enter(0);
    for (int i = 1; i <= failures; i++) tst_fake()->inject("cuMemAlloc", (unsigned long)i, CUDA_ERROR_OUT_OF_MEMORY, 0);
    assert_int_equal(grow_within(columns_of(s, 0, 400), NO_LIMIT, NO_LIMIT, &found, &old), failures == 1);
    assert_int_equal(tb_cache_bytes(cache), (failures == 1 ? 300 + 400 : 300) * 4096);
    tb_cache_end_outgrown(cache, &old);
    if (failures == 1) tb_cache_drop(cache, found.kept); /* what was to go up has not */
    tb_cache_leave();
    tb_cache_end_call(cache, 0);
    if (failures == 2) assert_int_equal(see(columns_of(s, 0, 300)), TB_BY_TRACKING);
    end();
  }
}

/* One that has not grown may make way for the product. */
static void left_as_it_was(void **state) {
  (void)state;
  const struct tb_stored s = begin_with(0);
  struct tb_outgrown old;
  struct tb_cached found;
  keep(columns_of(s, 0, 300));
  enter(0);
  assert_false(grow_within(columns_of(s, 0, 400), NO_LIMIT, 600 * 4096, &found, &old));
  tb_cache_leave_operand(cache, 0, found.kept);
  tb_cache_leave();
  assert_true(tb_cache_give_back_one(cache));
  assert_int_equal(tb_cache_bytes(cache), 0);
  tb_cache_end_call(cache, 0);
  end();
}

/* An older copy makes way for what has come, and not for what may come. */
static void others_make_way(void **state) {
  (void)state;
  for (int much = 0; much < 2; much++) {
    begin(1000 * PAGE);
    const struct tb_stored s = matrix(0, 4096, 600, 4096), other = matrix(700 * PAGE, 4096, 280, 4096);
    const int64_t column = 4096, limit = (280 + 300 + 400 + (much ? 0 : 99)) * column;
    struct tb_outgrown old;
    struct tb_cached found;
    keep(other);
    keep(columns_of(s, 0, 300));
    see(columns_of(s, 0, 300));
    enter(0);
    assert_true(grow_within(columns_of(s, 0, much ? 401 : 400), NO_LIMIT, limit, &found, &old));
    tb_cache_end_outgrown(cache, &old);
    tb_cache_drop(cache, found.kept);
    tb_cache_leave();
    tb_cache_end_call(cache, 0);
    assert_int_equal(see(other), much ? TB_NOT_KEPT : TB_BY_TRACKING);
    end();
  }
}

/* ---- when ---- */

/* A matrix that is never seen twice as it was is copied at its second sight, too, and grows from then on. */
static void seen_while_it_grows(void **state) {
  (void)state;
  begin(MEMORY);
  const struct tb_stored s = matrix(0, 4096, 16384, 4096);
  enum tb_proof proof[6];
  for (int i = 0; i < 6; i++) {
    proof[i] = see(columns_of(s, 0, 9000 + 1000 * i));
    if (proof[i] != TB_NOT_KEPT) expect_copy(columns_of(s, 0, 9000 + 1000 * i));
  }
  assert_int_equal(proof[0], TB_NOT_KEPT);
  assert_int_equal(proof[1], TB_KEPT_ANEW);
  for (int i = 2; i < 6; i++) assert_int_equal(proof[i], TB_GROWN);
  end();
}

/* Not if what it was has changed meanwhile. */
static void rewritten_while_it_grows(void **state) {
  (void)state;
  const struct tb_stored s = begin_with(0);
  for (int i = 0; i < 6; i++) {
    for (size_t at = 0; at < 610 * PAGE; at++) memory[at] ^= (char)(1 << i);
    assert_int_equal(see(columns_of(s, 0, 300 + 50 * i)), TB_NOT_KEPT);
  }
  end();
}

/* Two matrices by turns, of which one is the other's beginning; the rest of that one is written each time, be it with
 * the same bytes. The larger one waits ever longer. */
static void grown_in_vain(void **state) {
  (void)state;
  for (int same = 0; same < 2; same++) {
    const struct tb_stored s = begin_with(0);
    int grown = 0, used = 0;
    keep(columns_of(s, 0, 400));
    for (int round = 0; round < 200; round++) {
      used += tb_proof_is_kept(see(columns_of(s, 0, 400)));
      for (size_t at = 450 * PAGE; at < 590 * PAGE; at++)
        *(volatile char *)&memory[at] ^= (char)(same ? 0 : round % 7 + 1);
      grown += see(s) == TB_GROWN;
    }
    if (grown < 1 || grown > 12) fail_msg("it has grown %d times", grown);
    if (used < 150) fail_msg("the beginning was used %d times", used);
    end();
  }
}

/* Of ever other matrices that have the same beginning some grow, and then none does. */
static void others_grown_in_vain(void **state) {
  (void)state;
  const struct tb_stored s = begin_with(0);
  int grown = 0;
  keep(columns_of(s, 0, 400));
  for (int round = 0; round < 150; round++) {
    see(columns_of(s, 0, 400));
    for (size_t at = 410 * PAGE; at < 590 * PAGE; at++) memory[at] ^= (char)(round % 7 + 1);
    grown += see(columns_of(s, 0, 430 + round)) == TB_GROWN;
  }
  if (grown < 1 || grown > 16) fail_msg("it has grown %d times", grown);
  end();
}

/* Memory that is given back, and has other memory in its place, is not written: nobody takes a fault. */
static void mapped_anew(void **state) {
  (void)state;
  const struct tb_stored s = begin_with(0);
  for (int round = 0; round < 12; round++) {
    void *const at = mmap(memory, 610 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    assert_true(at == memory);
    memset(memory, round + 1, 610 * PAGE);
    for (int i = 0; i < 16 && see(columns_of(s, 0, 400)) != TB_BY_TRACKING; i++) continue;
    const struct tb_stored more = columns_of(s, 0, 420 + 10 * round); /* another one each time */
    assert_int_equal(see(more), TB_GROWN);
    expect_copy(more);
    for (int i = 0; i < 6; i++) assert_int_equal(see(more), TB_BY_TRACKING);
  }
  end();
}

/* A buffer that is written anew, and then used by more and more of its columns, others in each round. */
static void a_buffer(void **state) {
  (void)state;
  const struct tb_stored s = begin_with(0);
  const uint64_t before = pages_protected;
  for (int round = 0; round < 200; round++) {
    for (size_t at = 0; at < 610 * PAGE; at += 8) memory[at + (size_t)round % 8] ^= 1;
    for (int i = 0; i < 6; i++) see(columns_of(s, 0, 280 + round % 37 + 50 * i));
  }
  const int pages = (int)(pages_protected - before);
  if (pages > 4 * 600) fail_msg("%d pages were protected", pages);
  end();
}

/* A small matrix that grows with each call is not worth it for long, nor are copies of all of it. When it has grown it
 * is. */
static void small_ones(void **state) {
  (void)state;
  const struct tb_stored s = begin_with(0);
  int grown = 0, made = 0;
  for (int columns = 300; columns < 500; columns++) {
    const enum tb_proof proof = see(columns_of(s, 0, columns));
    grown += proof == TB_GROWN, made += proof == TB_KEPT_ANEW;
  }
  if (grown < 1 || grown > 8 || made > 2) fail_msg("%d have grown, %d were made", grown, made);
  enum tb_proof proof = TB_NOT_KEPT;
  for (int i = 0; i < 4 && proof == TB_NOT_KEPT; i++) proof = see(columns_of(s, 0, 499));
  assert_int_equal(proof, TB_GROWN);
  assert_int_equal(see(columns_of(s, 0, 499)), TB_BY_TRACKING);
  end();
}

/* A large one is; also behind others that were not, but not as often then, and no copies of what it was are left. */
static void large_ones(void **state) {
  (void)state;
  for (int behind_others = 0; behind_others < 2; behind_others++) {
    begin(MEMORY);
    const struct tb_stored s = matrix(0, 4096, 16384, 4096), others = matrix(17000 * PAGE, 4096, 600, 4096);
    for (int round = 0; behind_others && round < 40; round++) {
      if (round == 0) keep(columns_of(others, 0, 400));
      see(columns_of(others, 0, 400));
      for (size_t at = 17410 * PAGE; at < 17590 * PAGE; at++) memory[at] ^= (char)(round % 7 + 1);
      see(columns_of(others, 0, 430 + round));
    }
    int grown = 0;
    keep(columns_of(s, 0, 9000));
    for (int i = 1; i <= 40; i++) grown += see(columns_of(s, 0, 9000 + i * 100)) == TB_GROWN;
    assert_int_equal(grown, behind_others ? 20 : 40);
    assert_true(tb_cache_bytes(cache) < 2 * 16384 * 4096);
    end();
  }
}

/* A copy of which uses have made up for what it has got makes up for others that have not. */
static void it_pays_again(void **state) {
  (void)state;
  begin(1300 * PAGE);
  const struct tb_stored s = matrix(0, 4096, 600, 4096), other = matrix(650 * PAGE, 4096, 600, 4096);
  int grown[2] = {0, 0};
  keep(columns_of(s, 0, 400));
  for (int part = 0; part < 2; part++) {
    for (int round = 0; round < 40; round++) {
      see(columns_of(s, 0, 400));
      for (size_t at = 410 * PAGE; at < 590 * PAGE; at++) memory[at] ^= (char)(round % 7 + 1);
      grown[part] += see(columns_of(s, 0, 430 + part * 40 + round)) == TB_GROWN;
    }
    keep(columns_of(other, 0, 400));
    for (int i = 0; i < 4; i++) see(other);
    for (int i = 0; i < 40; i++) assert_int_equal(see(other), TB_BY_TRACKING);
  }
  if (grown[0] != 8 || grown[1] != 4) fail_msg("it has grown %d and %d times", grown[0], grown[1]);
  end();
}

/* In memory between columns nobody is to take a fault, where there is much of it. */
static void columns_that_are_far_apart(void **state) {
  (void)state;
  begin(4 << 20);
  const struct tb_stored s = matrix(0, 2 << 20, 2, 20 << 20);
  memset(memory + (20 << 20), 1, 2 << 20);
  keep(columns_of(s, 0, 1));
  const uint64_t before = pages_protected;
  assert_int_equal(see(s), TB_GROWN);
  expect_copy(s);
  assert_int_equal(pages_protected, before);
  end();
}

/* Of a window what lies before it is nobody's question, be it in a page of others. */
static void before_a_window(void **state) {
  (void)state;
  const struct tb_stored s = begin_with(1);
  keep(columns_of(s, 0, 400));
  memory[s.data - memory] ^= 1;
  expect_grown(columns_of(s, 100, 350), 300);
  assert_int_equal(see(columns_of(s, 100, 350)), TB_BY_TRACKING);
  assert_int_not_equal(see(columns_of(s, 0, 400)), TB_BY_TRACKING);
  end();
}

/* While CUDA is asked about a copy, of which a digest in each call proves it: it is watched from the first call to the
 * last, each page once. */
static void while_cuda_is_asked(void **state) {
  (void)state;
  begin(MEMORY);
  const struct tb_stored s = matrix(0, 4096, 16384, 4096);
  tb_cache_allow_hash(cache, true);
  uint64_t before = 0;
  for (int i = 0; i < 12; i++) {
    const struct tb_stored more = columns_of(s, 0, 9000 + i * 100);
    enter(0);
    tb_cache_allow_asking(cache);
    const struct tb_cached found = look(0, more, NULL);
    tb_cache_leave();
    tb_cache_end_call(cache, 0);
    if (i == 1) before = pages_protected;
    if (i > 1) assert_int_equal(found.proof, TB_GROWN);
    if (i > 1) assert_true(found.kept->unasked == (found.unasked != NULL));
    if (i > 0) expect_copy(more);
    if (i == 11) assert_false(found.kept->unasked);
  }
  assert_int_equal(pages_protected - before, 9000 + 11 * 100);
  assert_int_equal(see(columns_of(s, 0, 9000 + 11 * 100)), TB_BY_TRACKING);
  end();
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_rest_alone),
                                     cmocka_unit_test(a_window_that_moves_on),
                                     cmocka_unit_test(what_a_window_has_left_is_not_read),
                                     cmocka_unit_test(a_write_shows),
                                     cmocka_unit_test(written_meanwhile),
                                     cmocka_unit_test(mended_too),
                                     cmocka_unit_test(mended_in_many_places),
                                     cmocka_unit_test(by_digests),
                                     cmocka_unit_test(other_columns),
                                     cmocka_unit_test(half_of_it),
                                     cmocka_unit_test(not_for_others),
                                     cmocka_unit_test(not_if_it_has_changed),
                                     cmocka_unit_test(not_watched),
                                     cmocka_unit_test(others_in_the_pages),
                                     cmocka_unit_test(memory_on_the_gpu),
                                     cmocka_unit_test(little_memory),
                                     cmocka_unit_test(memory_in_pieces),
                                     cmocka_unit_test(others_make_way),
                                     cmocka_unit_test(left_as_it_was),
                                     cmocka_unit_test(mapped_anew),
                                     cmocka_unit_test(seen_while_it_grows),
                                     cmocka_unit_test(rewritten_while_it_grows),
                                     cmocka_unit_test(grown_in_vain),
                                     cmocka_unit_test(others_grown_in_vain),
                                     cmocka_unit_test(a_buffer),
                                     cmocka_unit_test(small_ones),
                                     cmocka_unit_test(large_ones),
                                     cmocka_unit_test(it_pays_again),
                                     cmocka_unit_test(columns_that_are_far_apart),
                                     cmocka_unit_test(before_a_window),
                                     cmocka_unit_test(while_cuda_is_asked)};
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  if (!begin_group()) return 1;
  return tst_result(end_group(cmocka_run_group_tests(tests, NULL, NULL)));
}
