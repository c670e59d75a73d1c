/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines that are told to leave the caches: their words stay what they are, and nothing behind the end is touched, for
 * which the process would end where nothing is mapped there. On a processor without the instructions the functions do
 * nothing, and the test says so.
 *
 * Seen to fail when: the line behind the last one is written back, or dropped.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pipeline/lines.h"

/* Memory of one page whose neighbour nobody may touch. */
static char *page_at_the_edge(size_t page_bytes) {
  char *memory = mmap(NULL, 2 * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(memory, MAP_FAILED);
  assert_int_equal(mprotect(memory + page_bytes, page_bytes, PROT_NONE), 0);
  memset(memory, 7, page_bytes);
  return memory;
}

static void nothing_behind_the_end(void **state) {
  (void)state;
  const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), lengths[] = {0, 1, 63, 64, 65, 1024, page_bytes};
  char *page = page_at_the_edge(page_bytes);
  if (!tb_lines_can_leave()) print_message("this processor lacks one of the instructions or both\n");
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    tb_lines_write_back(page + page_bytes - lengths[i], lengths[i]);
    tb_lines_drop(page + page_bytes - lengths[i], lengths[i]);
  }
  for (size_t i = 0; i < page_bytes; i++) assert_int_equal(page[i], 7);
  munmap(page, 2 * page_bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_behind_the_end)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
