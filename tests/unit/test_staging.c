/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How an operand is cut into pieces for the slots: every element once, of each type, where the kernels expect it,
 * whether a column is shorter than a slot or longer; and in as few pieces as can be, which are alike, of any size that
 * the first ones of a call leave.
 *
 * Seen to fail when: behind a column that is longer than a slot the next one does not start at its first row; a last
 * piece has what full ones leave, of a column maybe, up or down; there is a piece more than need be; a column that is
 * longer than the first pieces is none of them; the ends of lines behind short columns are left, or what is behind the
 * last one is written.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/integers.h"
#include "plan/layout.h"
#include "pipeline/staging.h"

static void expect_once(enum tb_type type, int64_t rows, int64_t columns) {
  static const double source[1]; /* nobody reads it */
  double slot[1];
  const int64_t ld = tb_leading(type, rows), size = tb_type_bytes(type), most = tb_slot_elems(type);
  struct tb_upload u = {.type = type, .source = source, .source_ld = rows};
  u.target_ld = ld, u.rows = rows, u.columns = columns;
  int64_t next = 0; /* element of the operand, which has no gaps here */
  for (bool last = false; !last;) {
    struct tb_copy copy;
    struct tb_piece piece;
    last = tb_upload_cut(&u, most, slot, &copy, &piece);
    assert_int_equal((const char *)copy.from - (const char *)source, next * size);
    assert_int_equal(piece.target, (next / rows * ld + next % rows) * size);
    assert_int_equal(piece.bytes, ((copy.columns - 1) * ld + copy.rows) * size);
    assert_true(copy.rows > 0 && copy.columns > 0 && tb_copy_bytes(&copy) <= TB_SLOT_BYTES);
    next += copy.rows * copy.columns;
    assert_true(next <= rows * columns);
  }
  assert_int_equal(next, rows * columns);
}

/* Of a few long columns each thread has some rows, and the last one alone their ends. */
static void ends_of_shared_columns(void) {
  enum { ROWS = 65500, COLUMNS = 3, LD = 65504 };
  static float from[COLUMNS * ROWS], to[COLUMNS * LD] __attribute__((aligned(64)));
  struct tb_pool *const pool = tb_pool_open(4, true);
  for (int i = 0; i < COLUMNS * ROWS; i++) from[i] = (float)(i + 1);
  struct tb_upload u = {.type = TB_S, .source = from, .source_ld = ROWS, .rows = ROWS, .columns = COLUMNS};
  struct tb_copy copy;
  struct tb_piece piece;
  u.target_ld = tb_leading(TB_S, ROWS);
  assert_int_equal(u.target_ld, LD);
  assert_true(tb_upload_cut(&u, tb_slot_elems(TB_S), to, &copy, &piece));
  copy.stores = TB_STORES_STREAMED;
  for (int round = 0; round < 50; round++) {
    for (int j = 0; j < COLUMNS * LD; j++) to[j] = -1;
    tb_copy_start(pool, &copy);
    tb_copy_wait(pool, &copy);
    for (int j = 0; j < COLUMNS * LD; j++)
      if (j % LD < ROWS) assert_true(to[j] == from[j / LD * ROWS + j % LD]);
  }
  tb_pool_close(pool);
}

/* Behind short columns there are zeros to where the next one begins, so that lines are written whole; nothing behind
 * these, nor behind columns of a slot and more, nor where there is a triangle. */
static void ends_of_lines(void **state) {
  (void)state;
  enum { COLUMNS = 7, LD_MOST = 1100 };
  static float from[COLUMNS * LD_MOST], to[COLUMNS * LD_MOST] __attribute__((aligned(64)));
  const int64_t lengths[] = {1, 3, 18, 33, 74, 100, 127, 129, 1001, 1024};
  for (int i = 0; i < COLUMNS * LD_MOST; i++) from[i] = (float)(i + 1);
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    const int64_t rows = lengths[i], ld = tb_leading(TB_S, rows);
    struct tb_upload u = {.type = TB_S, .source = from, .source_ld = rows, .rows = rows, .columns = COLUMNS};
    struct tb_copy copy;
    struct tb_piece piece;
    u.target_ld = ld;
    assert_true(tb_upload_cut(&u, tb_slot_elems(TB_S), to, &copy, &piece));
    assert_int_equal(copy.pad, ld - rows);
    for (int j = 0; j < COLUMNS * LD_MOST; j++) to[j] = -1;
    copy.stores = TB_STORES_STREAMED;
    tb_copy_start(NULL, &copy);
    for (int64_t j = 0; j < COLUMNS * LD_MOST; j++) {
      const int64_t row = j % ld, column = j / ld;
      assert_true(to[j] == (column >= COLUMNS ? -1 : row < rows ? from[column * rows + row] : 0));
    }
  }
  struct tb_upload u = {.type = TB_S, .source = from, .source_ld = 74, .rows = 74, .columns = COLUMNS};
  struct tb_copy copy;
  struct tb_piece piece;
  u.target_ld = 80;
  u.stored = (struct tb_region){.of = TB_LOWER_TRIANGLE};
  tb_upload_cut(&u, tb_slot_elems(TB_S), to, &copy, &piece);
  assert_int_equal(copy.pad, 0);
  u = (struct tb_upload){.type = TB_S, .source = from, .source_ld = 1, .columns = 1};
  u.rows = u.source_ld = tb_slot_elems(TB_S) + 1, u.target_ld = tb_leading(TB_S, u.rows);
  tb_upload_cut(&u, tb_slot_elems(TB_S), to, &copy, &piece);
  assert_int_equal(copy.pad, 0);
  ends_of_shared_columns();
}

static void every_element_once(void **state) {
  (void)state;
  for (enum tb_type type = TB_S; type < TB_TYPE_COUNT; type++) {
    const int64_t most = tb_slot_elems(type);
    const int64_t shapes[][2] = {{1, 1}, {100, 7}, {most, 2}, {most + 1, 3}, {2 * most + 77, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) expect_once(type, shapes[i][0], shapes[i][1]);
  }
}

/* Pieces of one size limit, in columns. */
struct pieces {
  int64_t count, least, most;
};

/* What is left of an upload; in all, or only what is cut at most `count_most` pieces. */
static struct pieces cut_pieces(struct tb_upload *u, int64_t most, int64_t count_most) {
  struct pieces pieces = {0, INT64_MAX, 0};
  for (bool last = false; !last && pieces.count < count_most; pieces.count++) {
    char slot[1];
    struct tb_copy copy;
    struct tb_piece piece;
    last = tb_upload_cut(u, most, slot, &copy, &piece);
    assert_true(copy.rows == u->rows && pieces.count < u->columns);
    pieces.least = tb_min(pieces.least, copy.columns);
    pieces.most = tb_max(pieces.most, copy.columns);
  }
  return pieces;
}

/* The rest of an upload of whole columns: as few pieces as have room for it, of which two differ by a column. */
static void expect_even(struct tb_upload *u, int64_t most) {
  const int64_t left = u->columns - u->column, columns = tb_max(most / u->target_ld, 1);
  const struct pieces pieces = cut_pieces(u, most, INT64_MAX);
  assert_int_equal(pieces.count, tb_ceil_div(left, columns));
  assert_true(pieces.most <= columns && pieces.least >= 1 && pieces.most - pieces.least <= 1);
  assert_int_equal(u->column, u->columns);
}

/* From the start; and behind the small pieces with which a call begins. */
static void even_pieces(void **state) {
  (void)state;
  const int64_t rows[] = {1, 100, 768, 70000, 150000}, columns[] = {1, 2, 31, 4096, 4099};
  for (enum tb_type type = TB_S; type < TB_TYPE_COUNT; type++)
    for (int i = 0; i < 5 * 5 * 2 * 2; i++) {
      const int64_t most = (1 + i % 2) * tb_slot_elems(type), m = rows[i / 4 % 5];
      struct tb_upload u = {.type = type, .source = &most, .source_ld = m};
      u.target_ld = tb_leading(type, m), u.rows = m, u.columns = columns[i / 20];
      if (u.target_ld > tb_slot_elems(type)) continue;
      for (int64_t first = most / 8; i / 2 % 2 && first < most && u.column < u.columns; first *= 2)
        cut_pieces(&u, first, 1);
      if (u.column < u.columns) expect_even(&u, most);
    }
}

/* Down, where a tile's columns come in whole pieces; in the end of a call each is what there may be. */
static void even_pieces_down(void **state) {
  (void)state;
  const int64_t ld = 768, most = TB_SLOT_BYTES / (int64_t)sizeof(float), columns = most / ld;
  for (int64_t all = 1; all < 5 * columns; all += 7) {
    const int64_t pieces = tb_ceil_div(all, columns);
    int64_t count = 0, least = all;
    for (int64_t left = all; left > 0; count++) {
      const int64_t next = tb_download_columns(ld, most, left, true);
      assert_true(next <= columns && next <= left);
      least = tb_min(least, next);
      left -= next;
    }
    assert_int_equal(count, pieces);
    assert_true(least >= all / pieces);
    assert_int_equal(tb_download_columns(ld, most, all, false), tb_min(all, columns));
  }
  assert_int_equal(tb_download_columns(2 * most, most, 3, true), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_element_once), cmocka_unit_test(even_pieces),
                                     cmocka_unit_test(even_pieces_down), cmocka_unit_test(ends_of_lines)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
