/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies that stay packed, as the cache has them: memory for planes is had at a copy's fourth use, where there is much
 * of it, and for one call that has the copy alone; they are packed when that call says so, for calls that would pack
 * alike. Others' uses have them replaced, if there are some in a row and there is room. They go with the copy, before
 * any copy, and when a result is written anew, and are counted as long as they are there.
 *
 * Seen to fail when: planes come sooner, or later; what is packed otherwise is taken for the same, by any part of the
 * key; planes count as packed before the call is over; two calls pack at once; they are given to others that come in
 * turns, or never; they are lost for what has no room; a call that reads them loses them; a copy makes way for them, or
 * before them; they outlive the copy, or the result; their bytes are not counted, or counted for ever; those of what
 * the program chose stay though nobody calls; a call that wants memory frees what another one reads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "cache/ranges.h"
#include "fake.h"
#include "placed.h"
#include "process.h"
#include "rng.h"

#define MIB ((int64_t)1 << 20)
#define MEMORY (16 * MIB)
#define NO_LIMIT (INT64_MAX / 2)
#define PLANES (2 * MIB)
#define OF_K 7

static char *memory; /* of the program's matrices */
static struct tb_cache *cache;

/* As stored: so many columns of a KiB. */
static struct tb_stored matrix(int64_t at) { return (struct tb_stored){memory + at, 1024, 1500, 1024, TB_STORED_ALL}; }

static const struct tb_planes_shape usual = {
    .of_b = false, .along_k = true, .sides = 1500, .k = 256, .panel_sides = 512, .span_k = 128};

static int begin(void **state) {
  (void)state;
  uint64_t seed = 1;
  memory = malloc((size_t)MEMORY);
  for (int64_t i = 0; i < MEMORY; i += 8) memcpy(memory + i, &(uint64_t){tst_random(&seed)}, 8);
  cache = tb_cache_open(false);
  if (cache == NULL) return 1;
  tb_cache_allow_results(cache, true);
  return 0;
}

static uint64_t device_bytes(void) { return tst_fake()->get(FAKE_CUDA_ALLOCATED_BYTES); }

static int end(void **state) {
  (void)state;
  tb_cache_close(cache, true);
  free(memory);
  return device_bytes() == 0 ? 0 : 1;
}

/* ---- calls ---- */

/* A call begins that has this operand. Its copy, or NULL: it has none. */
static struct tb_kept *look_within(int user, struct tb_stored operand, int64_t limit_bytes) {
  struct tb_cached found;
  assert_true(tb_cache_enter());
  tb_cache_begin_call(cache, user);
  tb_cache_allow_hash(cache, true);
  struct tb_kept *const worth = tb_cache_look(cache, user, &operand, NULL, &found, NULL);
  if (worth != NULL && tb_cache_make(cache, user, worth, NO_LIMIT, limit_bytes)) {
    for (int64_t i = 0; i < worth->cells.count; i++) {
      const struct tb_stored cell = tb_cell(&worth->stored, &worth->cells, i);
      worth->digests[i] = tb_hash_cell(&cell);
    }
    found.proof = TB_KEPT_ANEW;
  }
  tb_cache_leave();
  return found.proof == TB_NOT_KEPT ? NULL : found.kept != NULL ? found.kept : worth;
}

static struct tb_kept *look(int user, struct tb_stored operand) { return look_within(user, operand, NO_LIMIT); }

static struct tb_planes ask_within(int user, struct tb_kept *kept, struct tb_planes_shape shape, int64_t free_bytes,
                                   int64_t limit_bytes) {
  const struct tb_planes packed = tb_cache_packed_planes(kept, &shape, PLANES);
  if (packed.at != 0) return packed;
  assert_true(tb_cache_enter());
  const struct tb_planes planes = tb_cache_planes(cache, user, kept, &shape, PLANES, free_bytes, limit_bytes);
  tb_cache_leave();
  return planes;
}

static struct tb_planes ask(int user, struct tb_kept *kept, struct tb_planes_shape shape) {
  return ask_within(user, kept, shape, NO_LIMIT, NO_LIMIT);
}

enum outcome { NONE, TO_PACK, PACKED };

static enum outcome outcome_of(struct tb_planes planes) {
  return planes.at == 0 ? NONE : planes.packed ? PACKED : TO_PACK;
}

/* A call with one operand, which is packed by it, or not. */
static enum outcome call(struct tb_stored operand, struct tb_planes_shape shape) {
  struct tb_kept *const kept = look(0, operand);
  if (kept == NULL) return NONE;
  const struct tb_planes planes = ask(0, kept, shape);
  if (planes.at != 0 && !planes.packed) tb_cache_finish_planes(kept);
  tb_cache_end_call(cache, 0);
  return outcome_of(planes);
}

/* Of an operand that is seen for the first time: it is seen, copied, and used three times. */
static void use_until_planes(struct tb_stored operand) {
  for (int i = 0; i < 5; i++) assert_int_equal(call(operand, usual), NONE);
}

static void have_planes(struct tb_stored operand) {
  use_until_planes(operand);
  assert_int_equal(call(operand, usual), TO_PACK);
  assert_int_equal(call(operand, usual), PACKED);
}

/* ---- cases ---- */

/* One that the program has chosen was written, and is worth a copy at once. */
static void write_what_was_chosen(void) {
  const uintptr_t start = (uintptr_t)memory;
  assert_true(tb_ranges_keep(start, start + (uintptr_t)MEMORY));
  for (int i = 0; i < 6; i++) call(matrix(0), usual);
  memset(memory, 1, (size_t)MEMORY / 2);
}

static void forget_what_was_chosen(void) {
  const uintptr_t start = (uintptr_t)memory;
  assert_true(tb_ranges_forget(start, start + (uintptr_t)MEMORY));
}

/* To where a cell ends: it has a place of its own. */
static struct tb_stored part_of_matrix(void) {
  struct tb_stored part = matrix(0);
  part.columns -= 108;
  return part;
}

static void look_and_make_nothing(void) {
  const struct tb_stored operand = matrix(0);
  struct tb_cached found;
  assert_true(tb_cache_enter());
  tb_cache_begin_call(cache, 0);
  tb_cache_allow_hash(cache, true);
  assert_non_null(tb_cache_look(cache, 0, &operand, NULL, &found, NULL));
  tb_cache_leave();
}

/* What takes a copy's place when that was written has its memory, and that of its planes, which are packed at once; of
 * other sizes it has its own. */
static void memory_of_what_was_written(void **state) {
  (void)state;
  write_what_was_chosen();
  const uint64_t all = device_bytes(), had = tst_fake()->calls("cuMemAlloc");
  assert_int_equal(call(matrix(0), usual), TO_PACK);
  assert_int_equal(call(matrix(0), usual), PACKED);
  assert_int_equal(device_bytes(), all);
  assert_int_equal(tb_cache_bytes(cache), all);
  assert_int_equal(tst_fake()->calls("cuMemAlloc"), had);
  memset(memory, 2, (size_t)MEMORY / 2);
  assert_int_equal(call(part_of_matrix(), usual), NONE);
  assert_int_equal(tb_cache_bytes(cache), device_bytes());
  assert_true(device_bytes() < all);
  forget_what_was_chosen();
}

/* Where no copy is made, though it would be worth one, the next call gives it back, or who wants memory, a time without
 * calls, or the end. */
static void memory_of_a_look_alone(void **state) {
  (void)state;
  write_what_was_chosen();
  const uint64_t all = device_bytes();
  look_and_make_nothing();
  assert_int_equal(device_bytes(), all);
  assert_true(tb_cache_enter());
  tb_cache_begin_call(cache, 0);
  tb_cache_leave();
  assert_int_equal(device_bytes(), 0);
  assert_int_equal(tb_cache_bytes(cache), 0);
  for (int what = 0; what < 3; what++) {
    for (int i = 0; i < 6; i++) call(matrix(0), usual);
    memset(memory, 2 + what, (size_t)MEMORY / 2);
    look_and_make_nothing();
    assert_int_equal(device_bytes(), all);
    if (what == 0) assert_true(tb_cache_give_back_one(cache));
    if (what == 1) tb_cache_rest(cache);
    if (what < 2) assert_int_equal(device_bytes(), 0);
  }
  forget_what_was_chosen();
}

/* What is too small for another one is free for it; and above a limit it is not taken over. */
static void memory_within_limits(void **state) {
  (void)state;
  write_what_was_chosen();
  const uint64_t all = device_bytes();
  const struct tb_stored less = part_of_matrix();
  struct tb_cached found;
  assert_true(tb_cache_enter());
  tb_cache_begin_call(cache, 0);
  tb_cache_allow_hash(cache, true);
  struct tb_kept *worth = tb_cache_look(cache, 0, &less, NULL, &found, NULL);
  assert_non_null(worth);
  assert_true(tb_cache_make(cache, 0, worth, 0, NO_LIMIT)); /* nothing is free beside it */
  tb_cache_leave();
  assert_true(device_bytes() < all);
  tb_cache_end_call(cache, 0);
  tb_cache_give_back(cache);
  for (int i = 0; i < 6; i++) call(matrix(0), usual);
  assert_int_equal(device_bytes(), all);
  memset(memory, 2, (size_t)MEMORY / 2);
  assert_non_null(look_within(0, matrix(0), (int64_t)all - 1));
  assert_int_equal(device_bytes(), all - (uint64_t)PLANES);
  tb_cache_end_call(cache, 0);
  forget_what_was_chosen();
}

/* Where nothing takes its place it is given back at once. */
static void memory_that_is_not_wanted(void **state) {
  (void)state;
  have_planes(matrix(0));
  memset(memory, 1, (size_t)MEMORY / 2);
  assert_null(look(0, matrix(0)));
  assert_int_equal(device_bytes(), 0);
  assert_int_equal(tb_cache_bytes(cache), 0);
}

/* When nobody calls, what the program has chosen stays, but not twice; the next call packs it again. */
static void at_rest_a_chosen_copy_alone_stays(void **state) {
  (void)state;
  const uintptr_t start = (uintptr_t)memory;
  assert_true(tb_ranges_keep(start, start + (uintptr_t)MEMORY));
  for (int i = 0; i < 5; i++) call(matrix(0), usual);
  assert_int_equal(call(matrix(0), usual), PACKED);
  const uint64_t all = device_bytes();
  tb_cache_rest(cache);
  assert_int_equal(device_bytes(), all - (uint64_t)PLANES);
  assert_int_equal(tb_cache_bytes(cache), device_bytes());
  assert_int_equal(call(matrix(0), usual), TO_PACK);
  assert_int_equal(call(matrix(0), usual), PACKED);
  assert_true(tb_ranges_forget(start, start + (uintptr_t)MEMORY));
}

static void from_the_fourth_use_on(void **state) {
  (void)state;
  use_until_planes(matrix(0));
  const uint64_t copy = device_bytes();
  assert_int_equal(tb_cache_bytes(cache), copy);
  assert_int_equal(call(matrix(0), usual), TO_PACK);
  assert_int_equal(device_bytes(), copy + (uint64_t)PLANES);
  assert_int_equal(tb_cache_bytes(cache), copy + (uint64_t)PLANES);
  for (int i = 0; i < 5; i++) assert_int_equal(call(matrix(0), usual), PACKED);
  assert_int_equal(device_bytes(), copy + (uint64_t)PLANES);
}

/* A call that does not come to its end leaves them to the next one. */
static void packed_when_the_call_says_so(void **state) {
  (void)state;
  use_until_planes(matrix(0));
  for (int i = 0; i < 3; i++) {
    struct tb_kept *const kept = look(0, matrix(0));
    assert_int_equal(outcome_of(ask(0, kept, usual)), TO_PACK);
    tb_cache_end_call(cache, 0);
  }
  assert_int_equal(call(matrix(0), usual), TO_PACK);
  assert_int_equal(call(matrix(0), usual), PACKED);
}

static struct tb_planes_shape other_shape(int part) {
  struct tb_planes_shape x = usual;
  if (part == 0) x.of_b = !x.of_b;
  if (part == 1) x.along_k = !x.along_k;
  if (part == 2) x.sides--;
  if (part == 3) x.k--;
  if (part == 4) x.panel_sides /= 2;
  if (part == 5) x.span_k /= 2;
  return x;
}

static void for_who_packs_alike(void **state) {
  (void)state;
  have_planes(matrix(0));
  const uint64_t bytes = device_bytes();
  for (int part = 0; part < 6; part++) {
    struct tb_planes_shape shape = other_shape(part);
    for (int i = 0; i < 3; i++) assert_int_equal(call(matrix(0), shape), NONE);
    assert_int_equal(call(matrix(0), usual), PACKED); /* and the others count anew */
    for (int i = 0; i < 3; i++) assert_int_equal(call(matrix(0), shape), NONE);
    assert_int_equal(call(matrix(0), shape), TO_PACK);
    assert_int_equal(call(matrix(0), shape), PACKED);
    for (int i = 0; i < 3; i++) assert_int_equal(call(matrix(0), usual), NONE);
    assert_int_equal(call(matrix(0), usual), TO_PACK);
  }
  assert_int_equal(device_bytes(), bytes);
  struct tb_kept *const kept = look(0, matrix(0));
  assert_int_equal(tb_cache_packed_planes(kept, &usual, PLANES / 2).at, 0);
  assert_true(tb_cache_enter());
  const struct tb_planes smaller = tb_cache_planes(cache, 0, kept, &usual, PLANES / 2, NO_LIMIT, NO_LIMIT);
  tb_cache_leave();
  assert_int_equal(smaller.at, 0);
}

/* Beside a call that has the copy they are neither made nor packed, nor replaced. */
static void one_call_packs(void **state) {
  (void)state;
  use_until_planes(matrix(0));
  struct tb_kept *const kept = look(1, matrix(0));
  const uint64_t copy = device_bytes();
  assert_int_equal(call(matrix(0), usual), NONE);
  assert_int_equal(device_bytes(), copy);
  tb_cache_end_call(cache, 1);
  assert_ptr_equal(look(0, matrix(0)), kept);
  assert_int_equal(outcome_of(ask(0, kept, usual)), TO_PACK);
  assert_ptr_equal(look(1, matrix(0)), kept);
  assert_int_equal(outcome_of(ask(1, kept, usual)), NONE);
  tb_cache_finish_planes(kept);
  tb_cache_end_call(cache, 0);
  assert_true(tb_cache_enter()); /* somebody else looks */
  assert_true(tb_cache_packed_planes(kept, &usual, PLANES).packed);
  tb_cache_leave();
  for (int i = 0; i < 8; i++) assert_int_equal(call(matrix(0), other_shape(0)), NONE);
  assert_int_equal(call(matrix(0), usual), PACKED);
  tb_cache_end_call(cache, 1);
}

/* Nothing makes way for them: neither copies nor, unless there is room, others' planes of the same copy. */
static void where_there_is_room(void **state) {
  (void)state;
  use_until_planes(matrix(0));
  const int64_t copy = tb_cache_bytes(cache);
  for (int i = 0; i < 2; i++) {
    struct tb_kept *const kept = look(0, matrix(0));
    assert_int_equal(outcome_of(ask_within(0, kept, usual, 4 * PLANES - 1, NO_LIMIT)), NONE);
    assert_int_equal(outcome_of(ask_within(0, kept, usual, NO_LIMIT, copy + PLANES - 1)), NONE);
    assert_int_equal(tb_cache_bytes(cache), copy);
    if (i == 1) assert_int_equal(outcome_of(ask_within(0, kept, usual, 4 * PLANES, copy + PLANES)), TO_PACK);
    if (i == 1) tb_cache_finish_planes(kept);
  }
  for (int i = 0; i < 9; i++) {
    struct tb_kept *const kept = look(0, matrix(0));
    assert_int_equal(outcome_of(ask_within(0, kept, other_shape(0), NO_LIMIT, copy + PLANES - 1)), NONE);
    assert_int_equal(outcome_of(ask_within(0, kept, other_shape(0), 3 * PLANES - 1, NO_LIMIT)), NONE);
    tb_cache_end_call(cache, 0);
  }
  assert_int_equal(call(matrix(0), usual), PACKED);
  assert_int_equal(tb_cache_bytes(cache), device_bytes());
}

/* What the driver refuses is no failure, and tried again. */
static void memory_that_cannot_be_had(void **state) {
  (void)state;
  use_until_planes(matrix(0));
  tst_fake()->inject("cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY, 0);
  assert_int_equal(call(matrix(0), usual), NONE);
  assert_null(tb_cuda_failed_call);
  assert_int_equal(tb_cache_bytes(cache), device_bytes());
  assert_int_equal(call(matrix(0), usual), TO_PACK);
}

/* ---- given back ---- */

static void before_any_copy(void **state) {
  (void)state;
  have_planes(matrix(0));
  for (int i = 0; i < 3; i++) assert_int_equal(call(matrix(4 * MIB), usual), NONE);
  const uint64_t all = device_bytes(), copy = (all - (uint64_t)PLANES) / 2;
  assert_true(tb_cache_give_back_one(cache)); /* though the other copy was used longest ago */
  assert_int_equal(device_bytes(), all - (uint64_t)PLANES);
  assert_int_equal(call(matrix(0), usual), TO_PACK);
  /* Another operand wants room. */
  struct tb_kept *made = NULL;
  for (int i = 0; i < 2; i++) {
    made = look_within(0, matrix(8 * MIB), (int64_t)all);
    tb_cache_end_call(cache, 0);
  }
  assert_non_null(made);
  assert_int_equal(device_bytes(), 3 * copy);
  assert_int_equal(tb_cache_bytes(cache), 3 * copy);
  for (int i = 0; i < 3; i++) assert_non_null(look(0, matrix(4 * MIB * i)));
  tb_cache_end_call(cache, 0);
  tb_cache_give_back(cache);
  assert_int_equal(device_bytes(), 0);
  assert_int_equal(tb_cache_bytes(cache), 0);
}

static void not_from_a_call_that_has_them(void **state) {
  (void)state;
  have_planes(matrix(0));
  struct tb_kept *const kept = look(1, matrix(0));
  const uint64_t all = device_bytes();
  assert_int_equal(outcome_of(ask(1, kept, usual)), PACKED);
  assert_false(tb_cache_give_back_one(cache));
  assert_int_equal(device_bytes(), all);
  tb_cache_end_call(cache, 1);
  assert_true(tb_cache_give_back_one(cache));
  assert_int_equal(device_bytes(), all - (uint64_t)PLANES);
}

/* The call's memory is short: its own go, and the copy stays; but not while another call may read them. */
static void for_the_call_that_has_the_copy(void **state) {
  (void)state;
  have_planes(matrix(0));
  struct tb_kept *const kept = look(0, matrix(0));
  const uint64_t all = device_bytes();
  assert_ptr_equal(look(1, matrix(0)), kept);
  assert_true(tb_cache_enter());
  assert_false(tb_cache_drop_planes(cache, 0, kept));
  tb_cache_leave();
  assert_int_equal(device_bytes(), all);
  tb_cache_end_call(cache, 1);
  assert_true(tb_cache_enter());
  assert_true(tb_cache_drop_planes(cache, 0, kept));
  assert_false(tb_cache_drop_planes(cache, 0, kept));
  tb_cache_leave();
  assert_int_equal(device_bytes(), all - (uint64_t)PLANES);
  assert_int_equal(tb_cache_bytes(cache), device_bytes());
  tb_cache_end_call(cache, 0);
  assert_int_equal(call(matrix(0), usual), TO_PACK);
}

static void with_the_copy(void **state) {
  (void)state;
  have_planes(matrix(0));
  memory[700000] ^= 1;
  assert_null(look(0, matrix(0)));
  assert_int_equal(device_bytes(), 0);
  assert_int_equal(tb_cache_bytes(cache), 0);
  for (int i = 0; i < 4; i++) assert_int_equal(call(matrix(0), usual), NONE);
  assert_int_equal(call(matrix(0), usual), TO_PACK);
}

/* ---- results ---- */

static bool make_result(struct tb_stored c, uint64_t seed) {
  assert_true(tb_cache_enter());
  tb_cache_begin_call(cache, 0);
  struct tb_kept *kept = tb_cache_begin_result(cache, &c, OF_K);
  if (kept != NULL && !tb_cache_make_result(cache, 0, kept, NO_LIMIT, NO_LIMIT)) kept = NULL;
  tb_cache_leave();
  for (int64_t i = 0; i < c.columns * c.pitch_bytes; i += 8)
    memcpy((char *)(uintptr_t)c.data + i, &(uint64_t){tst_random(&seed)}, 8);
  for (int64_t i = 0; kept != NULL && i < kept->cells.count; i++) {
    const struct tb_stored cell = tb_cell(&kept->stored, &kept->cells, i);
    kept->digests[i] = tb_hash_cell(&cell);
  }
  if (kept != NULL) tb_cache_finish_result(kept);
  assert_true(tb_cache_enter());
  if (kept == NULL) tb_cache_end_result(cache, &c);
  tb_cache_leave();
  tb_cache_end_call(cache, 0);
  return kept != NULL;
}

/* Where the copy stays, and is written anew. */
static void of_a_result_anew(void **state) {
  (void)state;
  for (uint64_t i = 0; i < 2; i++) {
    make_result(matrix(0), i);
    assert_int_equal(call(matrix(0), usual), NONE);
  }
  uint64_t copy = 0;
  for (uint64_t round = 0; round < 3; round++) {
    assert_true(make_result(matrix(0), 10 + round));
    if (round == 0) copy = device_bytes();
    assert_int_equal(device_bytes(), copy);
    assert_int_equal(tb_cache_bytes(cache), copy);
    for (int i = 0; i < 3; i++) assert_int_equal(call(matrix(0), usual), NONE);
    assert_int_equal(call(matrix(0), usual), TO_PACK);
    assert_int_equal(call(matrix(0), usual), PACKED);
  }
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
  const struct CMUnitTest tests[] = {CASE(memory_of_what_was_written),
                                     CASE(memory_that_is_not_wanted),
                                     CASE(memory_of_a_look_alone),
                                     CASE(memory_within_limits),
                                     CASE(at_rest_a_chosen_copy_alone_stays),
                                     CASE(from_the_fourth_use_on),
                                     CASE(packed_when_the_call_says_so),
                                     CASE(for_who_packs_alike),
                                     CASE(one_call_packs),
                                     CASE(where_there_is_room),
                                     CASE(memory_that_cannot_be_had),
                                     CASE(before_any_copy),
                                     CASE(not_from_a_call_that_has_them),
                                     CASE(for_the_call_that_has_the_copy),
                                     CASE(with_the_copy),
                                     CASE(of_a_result_anew)};
  if (tst_fake() == NULL) tst_skip("a real driver does not count");
  if (!tb_cuda_load()) return 1;
  tst_cuda_begin(0);
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  tst_cuda_end(0);
  return failed;
}
