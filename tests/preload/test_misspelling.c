/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a user reads after a misspelling: exactly the lines of golden/NAME.txt on stderr, once, however many calls and
 * threads; the answers are right all the same. And silence where nothing is wrong.
 *
 * Seen to fail when: a warning's wording changes; a warning is printed once a call; an unknown variable is ignored.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process.h"

/* One setting of the environment and the golden file for it; several spellings may share one file's wording. */
static const struct {
  const char *setting, *golden;
} wrong[] =
    {
        {"TILEBLAS_ROUTE=gup", "route"},
        {"TILEBLAS_RUOTE=gpu", "unknown"},
        {"TILEBLAS_=1", "empty_name"},
        {"TILEBLAS_VERBOSE=maybe", "verbose"},
        {"TILEBLAS_PRECISION=tf32", "precision"},
        {"TILEBLAS_MEMORY_LIMIT=12Q", "memory_suffix"},
        {"TILEBLAS_MEMORY_LIMIT=-1", "memory_negative"},
        {"TILEBLAS_MEMORY_LIMIT=9999999999G", "memory_overflow"},
        {"TILEBLAS_MEMORY_LIMIT=G", "memory_no_number"},
        {"TILEBLAS_FALLBACK=/nonexistent/libblas.so", "fallback"},
        {"TILEBLAS_REPORT=/nonexistent/folder/report", "report"},
},
  right[] = {
      {"TILEBLAS_ROUTE=CPU", NULL},
      {"TILEBLAS_ROUTE=", NULL},
      {"TILEBLAS_VERBOSE=off", NULL},
      {"TILEBLAS_MEMORY_LIMIT=512MiB", NULL},
      {"TILEBLAS_MEMORY_LIMIT=2g", NULL},
      {"TILEBLAS_MEMORY_LIMIT=0", NULL},
      {"TILEBLAS_PRECISION=ieee", NULL},
      {"TILEBLAS_REPORT=0", NULL},
      {"TILEBLAS=gpu", NULL}, /* somebody else's variable: ours start with TILEBLAS_ */
};

/* The caller's stderr with one setting, after 8 threads have made 3 calls each; to be freed. */
static char *stderr_with(const char *setting) {
  const char *const argv[] = {
      tst_setting("TB_TEST_LINKED_CALLER"), "threads:8", "times:3", "cblas_sgemm", "sgemm_", NULL};
  const char *const env[] = {setting, NULL};
  struct tst_output o;
  tst_run(&o, argv, env);
  if (o.status != 0 || tst_count_lines(o.out, " ok") != 48) fail_msg("%s: %s%s", setting, o.out, o.err);
  free(o.out);
  return o.err;
}

static void misspelled(void **state) {
  (void)state;
  int failures = 0;
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    char path[512];
    snprintf(path, sizeof path, "%s/golden/%s.txt", tst_setting("TB_TEST_SOURCE_DIR"), wrong[i].golden);
    char *expected = tst_read_file(path), *got = stderr_with(wrong[i].setting);
    if (strcmp(expected, got) != 0) {
      print_error("%s printed\n%s%s has\n%s", wrong[i].setting, got, path, expected);
      failures++;
    }
    free(expected), free(got);
  }
  assert_int_equal(failures, 0);
}

static void nothing_to_say(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
    char *got = stderr_with(right[i].setting);
    if (got[0]) fail_msg("%s printed\n%s", right[i].setting, got);
    free(got);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(misspelled), cmocka_unit_test(nothing_to_say)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
