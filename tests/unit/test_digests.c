/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Digests of matrices: a bit that is changed anywhere in the elements changes the digest of one cell, whatever the
 * shape, the alignment and the pitch; one between the columns changes none; and changes that would make up for each
 * other in a plain sum do not here. Equal bytes elsewhere in memory have equal digests. Of a triangle each byte of its
 * half is in one cell, and of the other half none is read.
 *
 * Seen to fail when: the last bytes of a column are left out; those of a cell of several columns; the pitch is taken
 * for the column; a cell begins a step late; the second sum has the first one's key; a triangle's cell, sample or edge
 * has some of the other half, or its cells are of several columns.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cache/hash.h"
#include "rng.h"
#include "sanitized.h"

struct shape {
  int64_t column_bytes, columns, pitch_bytes, lead; /* bytes ahead of the first element */
};

/* Columns of less than a cell and more, and of whole ones; last bytes of every number that elements have. */
static const struct shape shapes[] = {
    {4, 5000, 4, 0},      {4, 1000, 12, 4},     {20, 900, 20, 12},      {16, 1024, 16, 0},    {40, 2000, 64, 8},
    {1000, 50, 1004, 0},  {8184, 5, 8192, 8},   {16380, 3, 16384, 4},   {16384, 3, 16384, 0}, {16388, 3, 16400, 4},
    {40000, 3, 40008, 8}, {49152, 2, 49152, 4}, {100000, 1, 100000, 0}, {32772, 4, 65536, 0}, {8, 1, 8, 4}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

struct subject {
  char *memory;
  int64_t bytes; /* with what is between the columns */
  struct tb_stored stored;
  struct tb_cells cells;
  struct tb_digest *digests;
};

static void digest_all(struct subject *s) {
  s->cells = tb_cells_of(&s->stored);
  s->digests = malloc((size_t)s->cells.count * sizeof *s->digests);
  for (int64_t i = 0; i < s->cells.count; i++) {
    const struct tb_stored cell = tb_cell(&s->stored, &s->cells, i);
    s->digests[i] = tb_hash_cell(&cell);
  }
}

static struct subject make(const struct shape *shape, uint64_t seed) {
  struct subject s = {.bytes = (shape->columns - 1) * shape->pitch_bytes + shape->column_bytes};
  s.memory =
      malloc((size_t)(shape->lead + s.bytes)); /* ends where it ends: AddressSanitizer sees what is read behind */
  s.stored = (struct tb_stored){.data = s.memory + shape->lead,
                                .column_bytes = shape->column_bytes,
                                .columns = shape->columns,
                                .pitch_bytes = shape->pitch_bytes};
  for (int64_t i = 0; i < shape->lead + s.bytes; i++) s.memory[i] = (char)tst_random(&seed);
  digest_all(&s);
  return s;
}

static void drop(struct subject *s) {
  free(s->memory);
  free(s->digests);
}

/* Cells that are not what they were; from `first` on, `count` of them. */
static int64_t count_changed(const struct subject *s, int64_t first, int64_t count) {
  int64_t changed = 0;
  for (int64_t i = first; i < first + count && i < s->cells.count; i++) {
    const struct tb_stored cell = tb_cell(&s->stored, &s->cells, i);
    const struct tb_digest digest = tb_hash_cell(&cell);
    changed += !tb_digests_are_equal(&digest, &s->digests[i]);
  }
  return changed;
}

static bool is_element(const struct subject *s, int64_t byte) {
  return byte % s->stored.pitch_bytes < s->stored.column_bytes;
}

/* Bits of bytes at the ends of cells, steps and columns, and of some anywhere. */
static void every_bit_counts(void **state) {
  (void)state;
  for (int number = 0; number < SHAPES; number++) {
    struct subject s = make(&shapes[number], 1 + (uint64_t)number);
    char *const data = (char *)s.stored.data;
    uint64_t seed = 7;
    for (int64_t byte = 0; byte < s.bytes; byte++) {
      const int64_t in_column = byte % s.stored.pitch_bytes, in_cell = in_column % TB_CELL_BYTES;
      const bool edge = in_cell < 20 || in_cell > TB_CELL_BYTES - 20 || in_column > s.stored.column_bytes - 20;
      if (!edge && tst_random_below(&seed, 64) != 0) continue;
      if (edge && s.bytes > 20000 && tst_random_below(&seed, TST_UNLESS_SANITIZED(4, 16)) != 0) continue;
      const char bit = (char)(1 << tst_random_below(&seed, 8));
      const int64_t column = byte / s.stored.pitch_bytes;
      const int64_t cell = column / s.cells.columns_each * s.cells.in_column;
      data[byte] ^= bit;
      assert_int_equal(count_changed(&s, cell, s.cells.in_column), is_element(&s, byte));
      if (tst_random_below(&seed, 256) == 0)
        assert_int_equal(count_changed(&s, 0, s.cells.count), is_element(&s, byte));
      data[byte] ^= bit;
    }
    assert_int_equal(count_changed(&s, 0, s.cells.count), 0);
    drop(&s);
  }
}

/* Words, steps and columns that change places, numbers whose signs do, what is added here and taken away there. */
static void changes_do_not_cancel(void **state) {
  (void)state;
  const struct shape shape = {8000, 2, 8000, 0}; /* one cell */
  struct subject s = make(&shape, 3);
  char *const data = (char *)s.stored.data;
  char before[16000];
  uint64_t seed = 5;
  assert_int_equal(s.cells.count, 1);
  memcpy(before, data, sizeof before);
  for (int round = 0; round < TST_UNLESS_SANITIZED(4000, 400); round++) {
    const int64_t size = (int64_t)4 << tst_random_below(&seed, 5); /* to 64 bytes */
    const int64_t from = tst_random_below(&seed, 16000 / size) * size,
                  to = tst_random_below(&seed, 16000 / size) * size;
    if (from == to) continue;
    const int kind = (int)tst_random_below(&seed, 4);
    for (int64_t i = 0; i < size; i++) {
      if (kind == 0) data[to + i] = before[from + i], data[from + i] = before[to + i];
      if (kind == 1) data[from + i] = (char)(before[from + i] + 1), data[to + i] = (char)(before[to + i] - 1);
      if (kind == 2) data[from + i] = (char)~before[from + i], data[to + i] = (char)~before[to + i];
      if (kind == 3 && i % 4 == 3) data[from + i] ^= (char)0x80, data[to + i] ^= (char)0x80;
    }
    assert_int_equal(count_changed(&s, 0, 1), memcmp(before, data, sizeof before) != 0);
    memcpy(data, before, sizeof before);
  }
  drop(&s);
}

/* Each of the two sums tells by itself: one that is the other once more would be half a digest. */
static void both_sums_count(void **state) {
  (void)state;
  struct subject s = make(&shapes[8], 9);
  for (int64_t i = 0; i < s.cells.count; i++) {
    const uint64_t *w = s.digests[i].word;
    assert_true(w[0] != w[2] && w[1] != w[3]);
  }
  char *const data = (char *)s.stored.data;
  for (int64_t byte = 0; byte < 4096; byte++) {
    data[byte] ^= 1;
    const struct tb_stored cell = tb_cell(&s.stored, &s.cells, 0);
    const struct tb_digest digest = tb_hash_cell(&cell);
    data[byte] ^= 1;
    assert_true(digest.word[0] != s.digests[0].word[0] || digest.word[1] != s.digests[0].word[1]);
    assert_true(digest.word[2] != s.digests[0].word[2] || digest.word[3] != s.digests[0].word[3]);
  }
  drop(&s);
}

static void equal_bytes_are_equal_anywhere(void **state) {
  (void)state;
  for (int number = 0; number < SHAPES; number++) {
    struct subject s = make(&shapes[number], 11), t = make(&shapes[number], 12);
    char *const moved = malloc((size_t)t.bytes + 1);
    t.stored.data = moved + 1;
    for (int64_t column = 0; column < s.stored.columns; column++)
      memcpy(moved + 1 + column * s.stored.pitch_bytes, s.stored.data + column * s.stored.pitch_bytes,
             (size_t)s.stored.column_bytes);
    memcpy(t.digests, s.digests, (size_t)s.cells.count * sizeof *s.digests);
    assert_int_equal(count_changed(&t, 0, t.cells.count), 0);
    free(moved);
    drop(&s), drop(&t);
  }
}

/* What lies between two addresses, in as many columns as there are. */
static void between_addresses(void **state) {
  (void)state;
  for (int number = 0; number < SHAPES; number++) {
    struct subject s = make(&shapes[number], 13);
    char *const data = (char *)s.stored.data;
    const int64_t from = s.bytes / 3, to = s.bytes / 3 + (s.bytes < 5000 ? s.bytes / 3 : 4000);
    const uintptr_t start = (uintptr_t)data + (uintptr_t)from, end = (uintptr_t)data + (uintptr_t)to;
    const struct tb_digest before = tb_hash_between(&s.stored, start, end);
    for (int64_t byte = from - 30; byte < to + 30; byte++) {
      if (byte < 0 || byte >= s.bytes || (byte > from + 100 && byte < to - 100 && byte % 37 != 0)) continue;
      data[byte] ^= 4;
      const struct tb_digest now = tb_hash_between(&s.stored, start, end);
      data[byte] ^= 4;
      assert_int_equal(!tb_digests_are_equal(&before, &now), is_element(&s, byte) && byte >= from && byte < to);
    }
    drop(&s);
  }
}

/* A matrix that is filled anew is told from what it was by its sample, in any shape. */
static void samples(void **state) {
  (void)state;
  for (int number = 0; number < SHAPES; number++) {
    struct subject s = make(&shapes[number], 15);
    const struct tb_digest before = tb_hash_sample(&s.stored, TB_SAMPLE_LINES),
                           again = tb_hash_sample(&s.stored, TB_SAMPLE_LINES);
    assert_true(tb_digests_are_equal(&before, &again));
    for (int64_t byte = 0; byte < s.bytes; byte++) ((char *)s.stored.data)[byte]++;
    const struct tb_digest after = tb_hash_sample(&s.stored, TB_SAMPLE_LINES);
    assert_false(tb_digests_are_equal(&before, &after));
    drop(&s);
  }
}

/* ---- triangles ---- */

/* Columns that are one cell, and of two; elements of each size. */
static const struct shape squares[] = {{4 * 50, 50, 4 * 50, 0},
                                       {8 * 130, 130, 8 * 133, 8},
                                       {8 * 3, 3, 8 * 3, 0},
                                       {16 * 37, 37, 16 * 40, 4},
                                       {16 * 1030, 1030, 16 * 1031, 16}};
enum { SQUARES = sizeof squares / sizeof *squares };
static const enum tb_stored_part halves[] = {TB_STORED_UPPER, TB_STORED_LOWER};

static struct subject make_half(const struct shape *shape, enum tb_stored_part part, uint64_t seed) {
  struct subject s = make(shape, seed);
  free(s.digests);
  s.stored.part = part;
  digest_all(&s);
  return s;
}

static bool is_of_half(const struct subject *s, int64_t byte) {
  const int64_t column = byte / s->stored.pitch_bytes, in_column = byte % s->stored.pitch_bytes;
  const int64_t row = in_column / (s->stored.column_bytes / s->stored.columns);
  return is_element(s, byte) && (s->stored.part == TB_STORED_UPPER ? row <= column : row >= column);
}

/* Those of the stored half in one cell each, and no others. */
static void cells_of_halves(void **state) {
  (void)state;
  for (int i = 0; i < 2 * SQUARES; i++) {
    struct subject s = make_half(&squares[i / 2], halves[i % 2], 17);
    char *const cells = calloc((size_t)s.bytes, 1);
    int64_t wrong = 0, stored = 0;
    for (int64_t number = 0; number < s.cells.count; number++) {
      const struct tb_stored cell = tb_cell(&s.stored, &s.cells, number);
      assert_true(cell.column_bytes <= TB_CELL_BYTES);
      for (int64_t column = 0; column < cell.columns; column++)
        for (int64_t byte = 0; byte < cell.column_bytes; byte++)
          cells[cell.data - s.stored.data + column * cell.pitch_bytes + byte]++;
    }
    for (int64_t byte = 0; byte < s.bytes; byte++) {
      wrong += cells[byte] != is_of_half(&s, byte);
      stored += is_of_half(&s, byte);
    }
    assert_int_equal(wrong, 0);
    assert_int_equal(stored, tb_stored_bytes(&s.stored));
    free(cells);
    drop(&s);
  }
}

/* A bit of that half changes its cell's digest; one of the other half no digest, and no sample. */
static void bits_of_halves(void **state) {
  (void)state;
  for (int i = 0; i < 2 * SQUARES; i++) {
    struct subject s = make_half(&squares[i / 2], halves[i % 2], 19);
    char *const data = (char *)s.stored.data;
    const struct tb_digest before = tb_hash_sample(&s.stored, TB_SAMPLE_LINES);
    uint64_t seed = 7;
    for (int tries = 0; tries < TST_UNLESS_SANITIZED(3000, 300); tries++) {
      const int64_t column = tst_random_below(&seed, s.stored.columns), size = s.stored.column_bytes / s.stored.columns;
      const int64_t near = column * size - 2 * size + tst_random_below(&seed, 5 * size); /* beside the diagonal */
      const int64_t anywhere = tst_random_below(&seed, s.stored.pitch_bytes), in_column = tries % 2 ? near : anywhere;
      const int64_t byte = column * s.stored.pitch_bytes + in_column;
      if (in_column < 0 || in_column >= s.stored.pitch_bytes || byte >= s.bytes) continue;
      data[byte] ^= 8;
      const int64_t changed = count_changed(&s, column * s.cells.in_column, s.cells.in_column);
      const struct tb_digest sample = tb_hash_sample(&s.stored, TB_SAMPLE_LINES);
      data[byte] ^= 8;
      assert_int_equal(changed, is_of_half(&s, byte));
      if (!is_of_half(&s, byte)) assert_true(tb_digests_are_equal(&before, &sample));
    }
    for (int64_t byte = 0; byte < s.bytes; byte++) data[byte] = (char)(data[byte] + !is_of_half(&s, byte));
    const struct tb_digest again = tb_hash_sample(&s.stored, TB_SAMPLE_LINES);
    assert_true(tb_digests_are_equal(&before, &again));
    assert_int_equal(count_changed(&s, 0, s.cells.count), 0);
    for (int64_t byte = 0; byte < s.bytes; byte++) data[byte] = (char)(data[byte] + is_of_half(&s, byte));
    const struct tb_digest after = tb_hash_sample(&s.stored, TB_SAMPLE_LINES);
    assert_false(tb_digests_are_equal(&before, &after));
    drop(&s);
  }
}

/* What a page at its ends has of the half. */
static void halves_between_addresses(void **state) {
  (void)state;
  for (int i = 0; i < 2 * SQUARES; i++) {
    struct subject s = make_half(&squares[i / 2], halves[i % 2], 23);
    char *const data = (char *)s.stored.data;
    for (int end = 0; end < 2; end++) {
      const int64_t most = s.bytes < 5000 ? s.bytes / 3 : 4000;
      const int64_t from = end == 0 ? 0 : s.bytes - most, to = from + most;
      const uintptr_t start = (uintptr_t)data + (uintptr_t)from;
      const struct tb_digest before = tb_hash_between(&s.stored, start, start + (uintptr_t)most);
      for (int64_t byte = from - 30; byte < to + 30; byte++) {
        if (byte < 0 || byte >= s.bytes) continue;
        data[byte] ^= 4;
        const struct tb_digest now = tb_hash_between(&s.stored, start, start + (uintptr_t)most);
        data[byte] ^= 4;
        assert_int_equal(!tb_digests_are_equal(&before, &now), is_of_half(&s, byte) && byte >= from && byte < to);
      }
    }
    drop(&s);
  }
}

/* Whole pages of the other half that are no memory at all. */
static void nothing_of_the_other_half_is_read(void **state) {
  enum { PAGE = 4096, SIDE = 512, COLUMN = 2 * PAGE, BYTES = SIDE * COLUMN };
  (void)state;
  for (int half = 0; half < 2; half++) {
    char *const memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    const struct tb_stored s = {memory, COLUMN, SIDE, COLUMN, halves[half]};
    for (int column = 0; column < SIDE; column++) {
      const bool first = column >= SIDE / 2;
      if (first == (halves[half] == TB_STORED_LOWER))
        assert_int_equal(mprotect(memory + column * COLUMN + (first ? 0 : PAGE), PAGE, PROT_NONE), 0);
    }
    const struct tb_cells cells = tb_cells_of(&s);
    for (int64_t i = 0; i < cells.count; i++) {
      const struct tb_stored cell = tb_cell(&s, &cells, i);
      tb_hash_cell(&cell);
    }
    tb_hash_sample(&s, TB_SAMPLE_LINES);
    for (int page = 0; page < BYTES / PAGE; page += BYTES / PAGE / 64)
      tb_hash_between(&s, (uintptr_t)memory + (uintptr_t)(page * PAGE),
                      (uintptr_t)memory + (uintptr_t)((page + 1) * PAGE));
    munmap(memory, BYTES);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_bit_counts),         cmocka_unit_test(changes_do_not_cancel),
      cmocka_unit_test(both_sums_count),          cmocka_unit_test(equal_bytes_are_equal_anywhere),
      cmocka_unit_test(between_addresses),        cmocka_unit_test(samples),
      cmocka_unit_test(cells_of_halves),          cmocka_unit_test(bits_of_halves),
      cmocka_unit_test(halves_between_addresses), cmocka_unit_test(nothing_of_the_other_half_is_read),
  };
  if (!tb_hash_begin()) return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
