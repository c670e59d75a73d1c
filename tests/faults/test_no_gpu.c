/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Machines on which no GPU can answer: no driver, a file that is no driver, a driver too old, no device, devices that
 * the user ruled out, no memory. Forced or not, the answer is right, the process is quiet, and verbose line and report
 * say why.
 *
 * Seen to fail when: a failed dlopen is not remembered as such; an ordinal beyond the devices is used.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process.h"
#include "report.h"

static char no_driver[512], old_driver[512];

/* Forced products under a setting must come from the CPU, for `reason`, with at most so many warnings. */
static void expect_cpu(const char *setting, size_t warnings, const char *reason) {
  const char *const argv[] = {tst_setting("TB_TEST_LINKED_CALLER"), "times:3", "cblas_sgemm", "sgemm_", NULL};
  const char *const env[] = {"TILEBLAS_ROUTE=gpu", "TILEBLAS_VERBOSE=1", "TILEBLAS_REPORT=1", setting, NULL};
  struct tst_output o;
  if (strcmp(tst_setting("TB_TEST_EXPECT"), "gpu") != 0) reason = "this build has no GPU kernels";
  tst_run(&o, argv, env);
  if (o.status != 0 || tst_count_lines(o.out, " ok") != 6) fail_msg("status %d\n%s%s", o.status, o.out, o.err);
  char verbose[128];
  snprintf(verbose, sizeof verbose, "-> cpu (%s)", reason);
  if (tst_count_lines(o.err, verbose) != 6) fail_msg("not six lines with \"%s\":\n%s", verbose, o.err);
  if (tst_report_calls(o.err, "cpu", reason) != 6) fail_msg("no row of six calls because: %s\n%s", reason, o.err);
  if (tst_count_lines(o.err, "warning") > warnings) fail_msg("%s", o.err);
  tst_output_destroy(&o);
}

static void no_driver_library(void **state) {
  (void)state;
  expect_cpu(no_driver, 0, "no CUDA driver on this machine");
}

static void driver_without_our_functions(void **state) {
  (void)state;
  expect_cpu(old_driver, 0, "no CUDA driver on this machine");
}

/* False on a machine's own driver. */
static bool on_fake(void) { return tst_setting("TB_TEST_FAKE_DIR")[0] != 0; }

static void no_device(void **state) {
  (void)state;
  expect_cpu(on_fake() ? "FAKE_CUDA_DEVICES=0" : "CUDA_VISIBLE_DEVICES=", 0, "no GPU that may be used");
}

static void no_device_allowed(void **state) {
  (void)state;
  expect_cpu("TILEBLAS_DEVICES=7", 0, "no GPU that may be used");
  expect_cpu("TILEBLAS_DEVICES=-", 0, "no GPU that may be used");
}

/* Not even the smallest pieces fit: by the user's limit, or by what the GPU has. */
static void no_memory(void **state) {
  (void)state;
  expect_cpu("TILEBLAS_MEMORY_LIMIT=1", 1, "not enough GPU memory");
  if (on_fake()) expect_cpu("FAKE_CUDA_MEMORY=300", 1, "not enough GPU memory");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_driver_library), cmocka_unit_test(driver_without_our_functions),
      cmocka_unit_test(no_device),         cmocka_unit_test(no_device_allowed),
      cmocka_unit_test(no_memory),
  };
  /* A folder with a libcuda.so.1 that is no library: the loader stops there, even on a machine that has a driver. */
  snprintf(no_driver, sizeof no_driver, "LD_LIBRARY_PATH=%s/no_driver", tst_setting("TB_TEST_BUILD_DIR"));
  snprintf(old_driver, sizeof old_driver, "LD_LIBRARY_PATH=%s/old_driver", tst_setting("TB_TEST_BUILD_DIR"));
  return cmocka_run_group_tests(tests, NULL, NULL);
}
