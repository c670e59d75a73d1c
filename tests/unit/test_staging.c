/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How an operand is cut into pieces for the slots: every element once, of each type, where the kernels expect it,
 * whether a column is shorter than a slot or longer.
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

static void every_element_once(void **state) {
  (void)state;
  for (enum tb_type type = TB_S; type < TB_TYPE_COUNT; type++) {
    const int64_t most = tb_slot_elems(type);
    const int64_t shapes[][2] = {{1, 1}, {100, 7}, {most, 2}, {most + 1, 3}, {2 * most + 77, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) expect_once(type, shapes[i][0], shapes[i][1]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_element_once)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
