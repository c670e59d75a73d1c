/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Illegal arguments: the program's own handler is told the same routine and parameter number with TileBLAS as without,
 * on OpenBLAS and on netlib's BLAS; C is untouched; the process lives; and legal calls go on working, even after a
 * handler that leaves by longjmp.
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

/* The program alone and with TileBLAS must print the same. */
static void compare(const char *program, bool netlib, const char *argument, const char *route) {
  struct tst_output alone, ours;
  run_program(&alone, program, argument, netlib, NULL, NULL);
  run_program(&ours, program, argument, netlib, tst_setting("TB_TEST_LIBRARY"), route);
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

static void every_way(const char *program, bool netlib) {
  const char *const arguments[] = {NULL, "handler", "longjmp"};
  for (int i = 0; i < 3; i++) {
    compare(program, netlib, arguments[i], "auto");
    compare(program, netlib, arguments[i], "gpu");
  }
}

static void openblas(void **state) {
  (void)state;
  every_way(tst_setting("TB_TEST_XERBLA_OPENBLAS"), false);
}

static void netlib(void **state) {
  (void)state;
  if (access(netlib_folder(), F_OK) != 0) tst_skip("libblas3 is not installed");
  every_way(tst_setting("TB_TEST_XERBLA_NETLIB"), true);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(openblas), cmocka_unit_test(netlib)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
