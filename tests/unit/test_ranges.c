/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which memory the program has chosen: random ranges kept and forgotten, beside a map of every byte. Seen to fail when:
 * a range that touches or covers others is not joined with them; what is left of one on either side of a hole is lost;
 * a matrix counts that begins or ends outside; a full table loses what it had.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "cache/ranges.h"
#include "rng.h"

enum { BYTES = 200, RANGES = 4096 };
static const uintptr_t start = 4096;

/* Two columns, or one: what is between them is the matrix's, too. */
static bool has(int64_t from, int64_t to, bool two) {
  const int64_t bytes = to - from, column = two ? bytes / 3 : bytes;
  const struct tb_stored matrix = {.data = (const char *)(start + (uintptr_t)from),
                                   .column_bytes = column,
                                   .columns = two ? 2 : 1,
                                   .pitch_bytes = bytes - column};
  return tb_ranges_have(&matrix);
}

static void as_a_map_has_it(void **state) {
  (void)state;
  bool map[BYTES] = {false};
  uint64_t seed = 7;
  for (int step = 0; step < 20000; step++) {
    const int64_t from = tst_random_below(&seed, BYTES), to = from + 1 + tst_random_below(&seed, BYTES - from);
    const bool keeps = tst_random_below(&seed, 2) == 0, is_short = tst_random_below(&seed, 3) != 0;
    const int64_t end = is_short && to > from + 12 ? from + 12 : to;
    assert_true((keeps ? tb_ranges_keep : tb_ranges_forget)(start + (uintptr_t)from, start + (uintptr_t)end));
    memset(&map[from], keeps, (size_t)(end - from));
    for (int i = 0; i < 8; i++) {
      const int64_t a = tst_random_below(&seed, BYTES), b = a + 1 + tst_random_below(&seed, i < 6 ? 6 : BYTES);
      const bool is_all = b <= BYTES && memchr(&map[a], false, (size_t)(b - a)) == NULL;
      if (has(a, b, i % 2 == 1) != is_all) fail_msg("step %d: [%d, %d)", step, (int)a, (int)b);
    }
  }
  assert_true(tb_ranges_forget(start, start + BYTES));
  assert_false(has(0, 1, false));
}

static void up_to_a_number(void **state) {
  (void)state;
  for (uintptr_t i = 0; i < RANGES; i++) assert_true(tb_ranges_keep(start + 4 * i, start + 4 * i + 3));
  assert_false(tb_ranges_keep(1, 2));
  assert_false(tb_ranges_forget(start + 1, start + 2)); /* would be one more */
  for (int64_t i = 0; i < RANGES; i++) assert_true(has(4 * i, 4 * i + 3, false) && !has(4 * i, 4 * i + 4, false));
  assert_true(tb_ranges_keep(start + 3, start + 4)); /* joins two */
  assert_true(has(0, 7, false) && tb_ranges_keep(1, 2));
  assert_true(tb_ranges_forget(0, start + 4 * RANGES));
  assert_false(has(4, 5, false));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(as_a_map_has_it), cmocka_unit_test(up_to_a_number)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
