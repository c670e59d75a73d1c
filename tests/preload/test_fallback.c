/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who answers a call that stays on the CPU: the BLAS that would have answered without TileBLAS, wherever the program
 * got it from, and never TileBLAS itself. The stub libraries define one name each and say so when they are called;
 * `caller` is a program without any BLAS that opens them in different ways.
 *
 * Seen to fail when: privately loaded libraries are not searched (private_library); TILEBLAS_FALLBACK is ignored, or
 * what it was at load goes on for ever; a second copy of the library is taken for somebody's BLAS (the call never comes
 * back); cgemm_ stands in for cgemm3m_ after OpenBLAS was opened, or where there is a cgemm3m_; the width of cgemm3m_'s
 * integers is not asked of the cgemm_ that stands in; small calls give addresses of 32-bit integers to a BLAS with
 * 64-bit ones that TILEBLAS_FALLBACK names; the files that are tried where there is no BLAS change places.
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

static const char *stub(const char *name) {
  return tst_format("%s/libstub_%s.so", tst_setting("TB_TEST_BUILD_DIR"), name);
}

/*
 * Runs caller with TileBLAS and the libraries of `more` (":path" or "") preloaded. The call through `symbol` must be
 * right, TileBLAS must have seen it once, and the library `stub_name` (NULL: no stub) must have answered it once.
 * Returns stderr, to be freed.
 */
static char *expect(const char *more, const char *extra_env, const char *open, const char *symbol,
                    const char *stub_name) {
  const char *program = tst_setting("TB_TEST_CALLER");
  const char *preload = tst_format("LD_PRELOAD=%s%s", tst_setting("TB_TEST_LIBRARY"), more);
  const char *const argv[] = {program, open ? open : symbol, open ? symbol : NULL, NULL};
  const char *const env[] = {preload, "TILEBLAS_REPORT=1", extra_env, NULL};
  struct tst_output o;
  tst_run(&o, argv, env);
  if (o.status != 0 || tst_count_lines(o.out, tst_format("%s ok", symbol)) != 1)
    fail_msg("%s: status %d\n%s%s", symbol, o.status, o.out, o.err);
  assert_int_equal(tst_report_symbol(o.err, symbol), 1);
  assert_int_equal(tst_report_calls(o.err, "cpu", NULL), 1);
  if (tst_count_lines(o.out, "stub ") != (stub_name != NULL)) fail_msg("another stub answered %s:\n%s", symbol, o.out);
  if (stub_name && tst_count_lines(o.out, tst_format("stub %s\n", stub_name)) != 1)
    fail_msg("%s was not answered by %s:\n%s", symbol, stub_name, o.out);
  free(o.out);
  return o.err;
}

/* As Python loads the BLAS inside a wheel: no other library of the process can see the name. */
static void private_library(void **state) {
  (void)state;
  const char *const names[] = {"scipy_cblas_sgemm64_", "scipy_sgemm_", "scipy_sgemm_64_", "cblas_sgemm"};
  for (int i = 0; i < 4; i++) free(expect("", NULL, tst_format("local:%s", stub(names[i])), names[i], names[i]));
}

/* The next definition in the program's own search order comes before any private one. */
static void next_definition(void **state) {
  (void)state;
  free(expect(tst_format(":%s", stub("cblas_sgemm")), NULL, NULL, "cblas_sgemm", "cblas_sgemm"));
  free(expect(tst_format(":%s", stub("sgemm_")), NULL, "local:libopenblas.so.0", "sgemm_", "sgemm_"));
  free(expect("", NULL, tst_format("global:%s", stub("sgemm_64_")), "sgemm_64_", "sgemm_64_"));
}

static void tileblas_fallback_wins(void **state) {
  (void)state;
  const char *override = tst_format("TILEBLAS_FALLBACK=%s", stub("cblas_sgemm"));
  char *err = expect(":libopenblas.so.0", override, NULL, "cblas_sgemm", "cblas_sgemm");
  assert_int_equal(tst_count_lines(err, "warning"), 0);
  free(err);
}

/* The one that is named last, not the one that the environment named when TileBLAS was loaded. */
static void tileblas_fallback_changes(void **state) {
  (void)state;
  const char *override = tst_format("TILEBLAS_FALLBACK=%s", stub("cblas_sgemm"));
  free(expect(":libopenblas.so.0", override, "fallback:libopenblas.so.0", "cblas_sgemm", NULL));
  const char *set = tst_format("fallback:%s", stub("cblas_sgemm"));
  free(expect(":libopenblas.so.0", "TILEBLAS_FALLBACK=libopenblas.so.0", set, "cblas_sgemm", "cblas_sgemm"));
}

/* A 64-bit call whose numbers fit 32 bits may be answered by a 32-bit BLAS, and either convention may stand for the
 * other. */
static void wide_call_on_a_32_bit_blas(void **state) {
  (void)state;
  const char *override = tst_format("TILEBLAS_FALLBACK=%s", stub("cblas_sgemm"));
  const char *const names[] = {"cblas_sgemm64_", "cblas_sgemm_64", "scipy_cblas_sgemm64_", "sgemm_64_", "scipy_sgemm_"};
  for (int i = 0; i < 5; i++) free(expect("", override, NULL, names[i], "cblas_sgemm"));
  override = tst_format("TILEBLAS_FALLBACK=%s", stub("sgemm_"));
  for (int i = 0; i < 5; i++) free(expect("", override, NULL, names[i], "sgemm_"));
}

/* A BLAS that has 64-bit integers under the plain name can read what it is given. */
static void wide_blas_under_a_plain_name(void **state) {
  (void)state;
  free(expect(tst_format(":%s", stub("wide")), NULL, NULL, "sgemm_", "sgemm_"));
}

/* It may be named for a program whose own BLAS has 32-bit ones: small calls, too, are then given to it as it reads
 * them.
 */
static void wide_blas_for_a_narrow_program(void **state) {
  (void)state;
  const char *const argv[] = {tst_setting("TB_TEST_CALLER"), "times:4", "sgemm_", NULL};
  const char *const env[] = {tst_format("LD_PRELOAD=%s:libopenblas.so.0", tst_setting("TB_TEST_LIBRARY")),
                             tst_format("TILEBLAS_FALLBACK=%s", stub("wide_told")), NULL};
  struct tst_output o;
  tst_run(&o, argv, env);
  if (o.status != 0 || tst_count_lines(o.out, "sgemm_ ok") != 4 || tst_count_lines(o.out, "stub sgemm_") != 4)
    fail_msg("status %d\n%s%s", o.status, o.out, o.err);
  tst_output_destroy(&o);
}

/* Where the BLAS has no routine that multiplies three times, as the reference has none, the one that multiplies four
 * times answers: before OpenBLAS is opened, which has both. */
static void another_routine_stands_in(void **state) {
  (void)state;
  const char *preloaded = tst_format(":%s", stub("cgemm_")), *local = tst_format("local:%s", stub("cgemm_"));
  char *err = expect(preloaded, NULL, NULL, "cgemm3m_", "cgemm_");
  if (!strstr(err, "libstub_cgemm_.so (cgemm_)")) fail_msg("the report names another symbol\n%s", err);
  free(err);
  free(expect("", NULL, local, "cgemm3m_", "cgemm_"));
  free(expect("", NULL, tst_format("local:%s", stub("cblas_cgemm")), "cblas_cgemm3m", "cblas_cgemm"));
  const char *const names[] = {"cgemm3m_",      "cgemm3m_64_",      "scipy_cgemm3m_64_",
                               "cblas_cgemm3m", "cblas_cgemm3m_64", "scipy_cblas_cgemm3m64_"};
  for (int i = 0; i < 6; i++) {
    err = expect("", tst_format("TILEBLAS_FALLBACK=%s", stub("cgemm_")), NULL, names[i], "cgemm_");
    assert_int_equal(tst_count_lines(err, "warning"), 0);
    free(err);
    free(expect("", tst_format("TILEBLAS_FALLBACK=%s", stub("cblas_cgemm")), NULL, names[i], "cblas_cgemm"));
  }
}

/* A routine's own symbol comes first: the one that is asked for, and in a library that is searched any other, too. */
static void nobody_stands_in_needlessly(void **state) {
  (void)state;
  const char *both = tst_format(":%s:%s", stub("cgemm_"), stub("cgemm3m_"));
  free(expect(both, NULL, NULL, "cgemm3m_", "cgemm3m_"));
  free(expect(tst_format(":%s", stub("cgemm_")), NULL, tst_format("local:%s", stub("cgemm3m_")), "cgemm3m_",
              "cgemm3m_"));
  const char *beside = tst_format("TILEBLAS_FALLBACK=%s", stub("cblas_cgemm3m"));
  free(expect("", beside, NULL, "cgemm3m_", "cblas_cgemm3m"));
  free(expect("", NULL, NULL, "zgemm3m_", NULL)); /* OpenBLAS has it */
}

/* A plain name's callers have the integers of the BLAS that they would have had. */
static void a_wide_blas_stands_in(void **state) {
  (void)state;
  free(expect(tst_format(":%s", stub("wide_cgemm_")), NULL, "wide:1", "cgemm3m_", "cgemm_"));
}

/* netlib's, and the one with 64-bit integers; the report names the symbol that has answered. */
static void the_reference_blas(void **state) {
  (void)state;
  static const struct {
    const char *library, *open, *symbol, *answers;
  } cases[] = {{"blas/libblas.so.3", NULL, "cgemm3m_", "(cgemm_)"},
               {"blas/libblas.so.3", NULL, "cblas_zgemm3m", "(cblas_zgemm)"},
               {"blas64/libblas64.so.3", "wide:1", "zgemm3m_", "(zgemm_)"},
               {"blas64/libblas64.so.3", "wide:1", "cblas_cgemm3m", "(cblas_cgemm)"}};
  for (int i = 0; i < 4; i++) {
    const char *library = tst_format("/usr/lib/x86_64-linux-gnu/%s", cases[i].library);
    if (access(library, F_OK) != 0) TST_LEAVE_OUT("%s is not installed", library);
    char *err = expect(tst_format(":%s", library), NULL, cases[i].open, cases[i].symbol, NULL);
    if (!strstr(err, tst_format("%s %s\n", library, cases[i].answers))) fail_msg("another answered:\n%s", err);
    free(err);
  }
}

/* With no BLAS in the process at all OpenBLAS is opened, whatever the name. */
static void openblas_is_opened(void **state) {
  (void)state;
  const char *const names[] = {"cblas_sgemm", "sgemm_", "sgemm_64", "scipy_cblas_sgemm", "scipy_sgemm_64_"};
  for (int i = 0; i < 5; i++) {
    char *err = expect("", NULL, NULL, names[i], NULL);
    if (!strstr(err, "openblas")) fail_msg("%s: the report names no OpenBLAS\n%s", names[i], err);
    free(err);
  }
}

/* The files that are tried, in their order, each a stub of another name; those that are missing are libraries without a
 * product. */
static const struct {
  const char *file, *stub;
} tried[] = {{"libopenblas64_.so.0", "sgemm_64_"},
             {"libopenblas64.so.0", "scipy_sgemm_64_"},
             {"libopenblas.so.0", "cblas_sgemm"},
             {"libblas.so.3", "sgemm_"}};
enum { TRIED = sizeof tried / sizeof *tried };

static const char *folder_without(const char *folder, int missing) {
  for (int i = 0; i < TRIED; i++) {
    const char *const link = tst_format("%s/%s", folder, tried[i].file);
    unlink(link);
    assert_int_equal(symlink(stub(i < missing ? "cgemm_" : tried[i].stub), link), 0);
  }
  const char *const others = getenv("LD_LIBRARY_PATH");
  return tst_format("LD_LIBRARY_PATH=%s%s%s", folder, others ? ":" : "", others ? others : "");
}

/* Of several that are installed the first one of the list is opened: for 64-bit names one with 64-bit integers, if
 * there is any, and for plain names none of those. */
static void the_nearest_is_opened(void **state) {
  (void)state;
  char folder[] = "/tmp/tileblas-fallback-XXXXXX";
  assert_non_null(mkdtemp(folder));
  for (int missing = 0; missing <= TRIED; missing++) {
    const char *const answers = missing < TRIED ? tried[missing].stub : NULL;
    const char *const narrow = missing < 2 ? tried[2].stub : answers;
    const char *const path = folder_without(folder, missing);
    const char *const wide_names[] = {"sgemm_64", "cblas_sgemm64_"}, *const narrow_names[] = {"sgemm_", "cblas_sgemm"};
    for (int i = 0; i < 2; i++) {
      char *err = expect("", path, NULL, wide_names[i], answers);
      if (!answers && !strstr(err, "no CPU BLAS found")) fail_msg("another answered:\n%s", err);
      free(err);
      free(expect("", path, NULL, narrow_names[i], narrow));
    }
  }
  for (int i = 0; i < TRIED; i++) unlink(tst_format("%s/%s", folder, tried[i].file));
  rmdir(folder);
}

/* One warning that names the variable and the path, then as if it were not set. */
static void tileblas_fallback_wrong(void **state) {
  (void)state;
  const char *const wrong[] = {"/nonexistent/libblas.so", "/etc/passwd", "libm.so.6"};
  for (int i = 0; i < 3; i++) {
    char *err = expect("", tst_format("TILEBLAS_FALLBACK=%s", wrong[i]), NULL, "cblas_sgemm", NULL);
    assert_int_equal(tst_count_lines(err, "warning"), 1);
    assert_int_equal(tst_count_lines(err, tst_format("warning: TILEBLAS_FALLBACK=%s", wrong[i])), 1);
    free(err);
  }
}

/* TileBLAS as its own fallback, twice in the process, under another name, and both linked and preloaded. */
static void never_itself(void **state) {
  (void)state;
  const char *library = tst_setting("TB_TEST_LIBRARY"), *folder = tst_setting("TB_TEST_BUILD_DIR");
  const char *copy = tst_format("%s/libanother_name.so", folder);
  const char *const cp[] = {"cp", "-L", library, copy, NULL};
  struct tst_output o;
  tst_run(&o, cp, NULL);
  assert_int_equal(o.status, 0);
  tst_output_destroy(&o);

  char *err = expect("", tst_format("TILEBLAS_FALLBACK=%s", library), NULL, "sgemm_", NULL);
  assert_int_equal(tst_count_lines(err, "warning: TILEBLAS_FALLBACK="), 1);
  free(err);
  free(expect(tst_format(":%s", copy), NULL, NULL, "cblas_sgemm", NULL));
  free(expect(tst_format(":%s", copy), NULL, NULL, "scipy_sgemm_64_", NULL));
  free(expect("", NULL, tst_format("local:%s", copy), "cblas_sgemm64_", NULL));
  free(expect(tst_format(":%s:%s", copy, stub("sgemm_")), NULL, NULL, "sgemm_", "sgemm_"));
}

static void linked_and_preloaded(void **state) {
  (void)state;
  setenv("TB_TEST_CALLER", tst_setting("TB_TEST_LINKED_CALLER"), 1);
  free(expect("", NULL, NULL, "cblas_sgemm", NULL));
  free(expect("", NULL, NULL, "sgemm_64", NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(private_library),
      cmocka_unit_test(next_definition),
      cmocka_unit_test(tileblas_fallback_wins),
      cmocka_unit_test(tileblas_fallback_changes),
      cmocka_unit_test(wide_call_on_a_32_bit_blas),
      cmocka_unit_test(openblas_is_opened),
      cmocka_unit_test(the_nearest_is_opened),
      cmocka_unit_test(tileblas_fallback_wrong),
      cmocka_unit_test(never_itself),
      cmocka_unit_test(linked_and_preloaded),
      cmocka_unit_test(wide_blas_under_a_plain_name),
      cmocka_unit_test(wide_blas_for_a_narrow_program),
      cmocka_unit_test(another_routine_stands_in),
      cmocka_unit_test(nobody_stands_in_needlessly),
      cmocka_unit_test(a_wide_blas_stands_in),
      cmocka_unit_test(the_reference_blas),
  };
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
