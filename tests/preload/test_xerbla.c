/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Illegal arguments: the program's own handler is told the same routine and parameter number with TileBLAS as without;
 * C is untouched; the process lives; and legal calls go on working, even after a handler that leaves by longjmp.
 *
 *   test_xerbla openblas   a program linked with OpenBLAS, TileBLAS preloaded
 *   test_xerbla netlib     the same with netlib's BLAS
 *   test_xerbla linked     a program linked with TileBLAS, which opens OpenBLAS
 *
 * Seen to fail when: the leading dimension of a transposed operand is checked against the wrong size; the depth of
 * fallback calls is not restored after a longjmp; sizes are narrowed before they are checked.
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
#include <unistd.h>

#include "process.h"
#include "report.h"

/* Where Debian has netlib's BLAS, unless TB_TEST_NETLIB names another folder. */
static const char *netlib_folder(void) {
  const char *folder = getenv("TB_TEST_NETLIB");
  return folder ? folder : "/usr/lib/x86_64-linux-gnu/blas";
}

static void run_program(struct tst_output *o, const char *program, const char *argument, bool netlib,
                        const char *preload, const char *route) {
  char folders[4096], library[512], routed[64];
  const char *inherited = getenv("LD_LIBRARY_PATH"); /* with the fake driver's folder, where it is to be used */
  if (!inherited) inherited = "";
  snprintf(folders, sizeof folders, "LD_LIBRARY_PATH=%s%s%s", inherited, netlib && inherited[0] ? ":" : "",
           netlib ? netlib_folder() : "");
  snprintf(library, sizeof library, preload ? "LD_PRELOAD=%s" : "LD_PRELOAD", preload);
  snprintf(routed, sizeof routed, route ? "TILEBLAS_ROUTE=%s" : "TILEBLAS_ROUTE", route);
  const char *const argv[] = {program, argument, argument ? "legal" : NULL, NULL};
  const char *const env[] = {folders, library, routed, "TILEBLAS_REPORT=1", NULL};
  tst_run(o, argv, env);
  if (o->status != 0) fail_msg("%s %s: status %d\n%s", program, argument ? argument : "", o->status, o->err);
}

/* What `reference` prints alone, `program` must print with TileBLAS. */
static void compare(const char *reference, const char *program, bool netlib, const char *preload, const char *argument,
                    const char *route) {
  struct tst_output alone, ours;
  run_program(&alone, reference, argument, netlib, NULL, NULL);
  run_program(&ours, program, argument, netlib, preload, route);
  assert_true(tst_count_lines(alone.out, "parameter ") >= 45);
  if (strcmp(alone.out, ours.out) != 0) fail_msg("alone:\n%swith TileBLAS:\n%s", alone.out, ours.out);
  assert_null(strstr(ours.out, "wrong"));
  assert_null(strstr(ours.out, "changed"));
  unsigned long long legal = argument ? tst_count_lines(ours.out, ":") : 0;
  unsigned long long gpu = tst_report_calls(ours.err, "gpu", NULL);
  bool forced = strcmp(route, "gpu") == 0 && strcmp(tst_setting("TB_TEST_EXPECT"), "gpu") == 0;
  assert_int_equal(gpu, forced ? legal : 0);
  assert_true(tst_report_symbol(ours.err, "sgemm_") >= 16);
  assert_true(tst_report_symbol(ours.err, "cblas_sgemm") >= 33);
  tst_output_destroy(&alone);
  tst_output_destroy(&ours);
}

static const char *mode;

static void every_illegal_argument(void **state) {
  (void)state;
  const bool netlib = strcmp(mode, "netlib") == 0, linked = strcmp(mode, "linked") == 0;
  const char *reference = tst_setting(netlib ? "TB_TEST_XERBLA_NETLIB" : "TB_TEST_XERBLA_OPENBLAS");
  const char *program = linked ? tst_setting("TB_TEST_XERBLA_LINKED") : reference;
  const char *preload = linked ? NULL : tst_setting("TB_TEST_LIBRARY");
  const char *const arguments[] = {NULL, "handler", "longjmp"};
  for (int i = 0; i < 3; i++) {
    compare(reference, program, netlib, preload, arguments[i], "auto");
    compare(reference, program, netlib, preload, arguments[i], "gpu");
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_illegal_argument)};
  if (argc != 2) return 2;
  mode = argv[1];
  if (strcmp(mode, "netlib") == 0 && access(netlib_folder(), F_OK) != 0) tst_skip("Debian's libblas3 is not installed");
  return cmocka_run_group_tests_name(mode, tests, NULL, NULL);
}
