/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How an operand is cut into pieces for the slots: every word once, where the kernels expect it, whether a column is
 * shorter than a slot or longer.
 *
 * Seen to fail when: behind a column that is longer than a slot the next one does not start at its first row.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/integers.h"
#include "plan/layout.h"
#include "pipeline/staging.h"

static void every_word_once(void **state) {
  (void)state;
  static const int64_t shapes[][2] = {
      {1, 1}, {100, 7}, {TB_SLOT_ELEMS, 2}, {TB_SLOT_ELEMS + 1, 3}, {2 * TB_SLOT_ELEMS + 77, 2}};
  static const float source[1]; /* nobody reads it */
  float slot[1];
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const int64_t rows = shapes[i][0], columns = shapes[i][1], ld = tb_leading(rows);
    struct tb_upload u = {.source = source, .source_ld = rows, .target_ld = ld, .rows = rows, .columns = columns};
    int64_t next = 0; /* word of the operand, which has no gaps here */
    for (bool last = false; !last;) {
      struct tb_copy copy;
      struct tb_piece piece;
      last = tb_upload_cut(&u, TB_SLOT_ELEMS, slot, &copy, &piece);
      assert_int_equal(copy.from - source, next);
      assert_int_equal(piece.target / sizeof(float), next / rows * ld + next % rows);
      assert_true(copy.rows > 0 && copy.columns > 0 && copy.rows * copy.columns <= TB_SLOT_ELEMS);
      next += copy.rows * copy.columns;
      assert_true(next <= rows * columns);
    }
    assert_int_equal(next, rows * columns);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_word_once)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
