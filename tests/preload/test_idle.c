/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A preloaded library must not be noticed by a program that has no use for it: no output, no time, no driver, no
 * further libraries, and no symbol but those on the list.
 *
 * Seen to fail when: an internal function is exported; the driver is opened when the library is loaded; a banner is
 * printed.
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
#include <time.h>

#include "process.h"
#include "abi.h"

static char preload[512];

/* Runs with the library preloaded; status 0 is demanded. */
static struct tst_output run(const char *const *argv) {
  const char *const env[] = {preload, NULL};
  struct tst_output o;
  tst_run(&o, argv, env);
  if (o.status != 0) fail_msg("%s: status %d\n%s", argv[0], o.status, o.err);
  return o;
}

static void nothing_is_printed(void **state) {
  (void)state;
  const char *const argv[] = {"/bin/true", NULL};
  struct tst_output o = run(argv);
  assert_string_equal(o.out, "");
  assert_string_equal(o.err, "");
  tst_output_destroy(&o);
}

/* Small products are for the CPU: nobody needs to know whether there is a driver. The caller would name the fake as
 * loaded. */
static void small_products_open_no_driver(void **state) {
  (void)state;
  const char *const argv[] = {
      tst_setting("TB_TEST_CALLER"), "times:100", "cblas_sgemm", "times:1", "sgemm_64_", "loaded:libcuda",
      "loaded:libtileblas",          NULL};
  struct tst_output o = run(argv);
  assert_int_equal(tst_count_lines(o.out, " ok"), 101);
  assert_int_equal(tst_count_lines(o.out, "not loaded libcuda"), 1);
  assert_int_equal(tst_count_lines(o.out, "not loaded libtileblas"), 0);
  assert_string_equal(o.err, "");
  tst_output_destroy(&o);
}

static double seconds_of_true(const char *setting) {
  const char *const argv[] = {"/bin/true", NULL}, *const env[] = {setting, NULL};
  double least = 1e9;
  for (int i = 0; i < 40; i++) {
    struct timespec t0, t1;
    struct tst_output o;
    clock_gettime(CLOCK_MONOTONIC, &t0);
    tst_run(&o, argv, env);
    clock_gettime(CLOCK_MONOTONIC, &t1);
    tst_output_destroy(&o);
    double seconds = (double)(t1.tv_sec - t0.tv_sec) + 1e-9 * (double)(t1.tv_nsec - t0.tv_nsec);
    if (seconds < least) least = seconds;
  }
  return least;
}

/* The least of 40 runs each way. NVBLAS takes 64 ms; mapping one small library takes a fraction of one. */
static void nothing_is_paid(void **state) {
  (void)state;
  double without = seconds_of_true("LD_PRELOAD"), with = seconds_of_true(preload);
  printf("/bin/true: %.2f ms without the preload, %.2f ms with it\n", 1e3 * without, 1e3 * with);
  if (!(with - without < 3e-3)) fail_msg("preloading costs %.2f ms", 1e3 * (with - without));
}

/* ldd: libc and libm alone, beside the loader and the kernel's page. */
static void needs_libc_and_libm_alone(void **state) {
  (void)state;
  const char *const argv[] = {"ldd", tst_setting("TB_TEST_LIBRARY"), NULL};
  struct tst_output o;
  tst_run(&o, argv, NULL);
  assert_int_equal(o.status, 0);
  for (char *line = strtok(o.out, "\n"); line; line = strtok(NULL, "\n"))
    if (!strstr(line, "linux-vdso.so") && !strstr(line, "libc.so.6") && !strstr(line, "libm.so.6") &&
        !strstr(line, "/ld-linux"))
      fail_msg("the library needs %s", line);
  tst_output_destroy(&o);
}

/* Routines that are no products, each by as many names as those. */
static const char *const others[] = {"sgemmt",
                                     "dgemmt",
                                     "cgemmt",
                                     "zgemmt",
                                     "sgemmtr",
                                     "dgemmtr",
                                     "cgemmtr",
                                     "zgemmtr",
                                     "ssyrk",
                                     "dsyrk",
                                     "csyrk",
                                     "zsyrk",
                                     "cherk",
                                     "zherk",
                                     "ssyr2k",
                                     "dsyr2k",
                                     "csyr2k",
                                     "zsyr2k",
                                     "cher2k",
                                     "zher2k",
                                     "ssymm",
                                     "dsymm",
                                     "csymm",
                                     "zsymm",
                                     "chemm",
                                     "zhemm",
                                     "strmm",
                                     "dtrmm",
                                     "ctrmm",
                                     "ztrmm",
                                     "strsm",
                                     "dtrsm",
                                     "ctrsm",
                                     "ztrsm",
                                     "sgemm_batch",
                                     "dgemm_batch",
                                     "cgemm_batch",
                                     "zgemm_batch",
                                     "sgemm_batch_strided",
                                     "dgemm_batch_strided",
                                     "cgemm_batch_strided",
                                     "zgemm_batch_strided"};
enum { OTHERS = sizeof others / sizeof *others };

/* sgemm's name `s`, of another routine. */
static bool is_other(const char *name, size_t s, const char *routine) {
  char spelled[64];
  const char *const sgemm = strstr(tst_symbols[s].name, "sgemm");
  assert_non_null(sgemm);
  snprintf(spelled, sizeof spelled, "%.*s%s%s", (int)(sgemm - tst_symbols[s].name), tst_symbols[s].name, routine,
           sgemm + strlen("sgemm"));
  return strcmp(spelled, name) == 0;
}

static bool is_promised(const char *name) {
  for (size_t s = 0; s < tst_symbol_count; s++)
    if (strcmp(tst_symbols[s].name, name) == 0) return true;
  for (size_t i = 0; i < OTHERS * TST_SPELLINGS; i++)
    if (is_other(name, i % TST_SPELLINGS, others[i / TST_SPELLINGS])) return true;
  return strncmp(name, "tileblas_", strlen("tileblas_")) == 0;
}

static void exports_what_is_promised(void **state) {
  (void)state;
  const char *const argv[] = {"nm", "-D", "--defined-only", "--format=posix", tst_setting("TB_TEST_LIBRARY"), NULL};
  struct tst_output o;
  tst_run(&o, argv, NULL);
  assert_int_equal(o.status, 0);
  size_t promised = 0;
  for (char *line = strtok(o.out, "\n"); line; line = strtok(NULL, "\n")) {
    line[strcspn(line, " ")] = '\0';
    if (!is_promised(line)) fail_msg("%s is exported", line);
    promised += strncmp(line, "tileblas_", strlen("tileblas_")) != 0;
  }
  assert_int_equal(promised, tst_symbol_count + OTHERS * TST_SPELLINGS);
  tst_output_destroy(&o);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_printed),       cmocka_unit_test(small_products_open_no_driver),
      cmocka_unit_test(nothing_is_paid),          cmocka_unit_test(needs_libc_and_libm_alone),
      cmocka_unit_test(exports_what_is_promised),
  };
  snprintf(preload, sizeof preload, "LD_PRELOAD=%s", tst_setting("TB_TEST_LIBRARY"));
  return cmocka_run_group_tests(tests, NULL, NULL);
}
