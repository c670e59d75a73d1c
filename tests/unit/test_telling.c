/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What TILEBLAS_VERBOSE and TILEBLAS_REPORT say, against the grammar that README promises: one line a call, in the
 * program's own words, with where it went and why; sums at exit, to stderr or appended to a file; and which of several
 * GPUs is used.
 *
 * Each case is a process of its own, which sets its environment before it first uses the library.
 * Seen to fail when: sizes of a row-major product are printed transposed, or the triangle or the side of a row-major
 * symm or trsm is that of the column-major call; a file is overwritten; a forbidden GPU is
 * used.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "process.h"
#include "product.h"
#include "report.h"
#include "rng.h"
#include "sided_call.h"
#include "tileblas.h"

#define NUMBER "[0-9]+\\.[0-9]{3}"
#define ON_GPU                                                                                             \
  "-> gpu0 [a-z0-9_]+ \\(TILEBLAS_ROUTE=gpu\\) up " NUMBER " ms compute " NUMBER " ms down " NUMBER " ms " \
  "total " NUMBER " ms " NUMBER " TFLOP/s"
#define ON_CPU(why) "-> cpu \\(" why "\\) total " NUMBER " ms " NUMBER " TFLOP/s"

struct telling {
  const char *symbol;
  struct tst_problem problem;
  const char *route;
  const char *call; /* the line as far as the arrow */
  const char *went; /* the rest; NULL: to the GPU if there is one */
};

static const struct telling tellings[] = {
    {"cblas_sgemm",
     {false, 'N', 'N', 5, 7, 9, 2.5f, 6, 10, -1, 8},
     "gpu",
     "cblas_sgemm NN m=5 n=7 k=9 lda=6 ldb=10 ldc=8 alpha=2\\.5 beta=-1",
     NULL},
    {"cblas_sgemm",
     {true, 'T', 'N', 5, 7, 9, 1, 6, 10, 0, 8},
     "gpu",
     "cblas_sgemm row-major TN m=5 n=7 k=9 lda=6 ldb=10 ldc=8 alpha=1 beta=0",
     NULL},
    {"sgemm_",
     {false, 'n', 'c', 5, 7, 9, 1, 5, 7, 1, 5},
     "gpu",
     "sgemm_ NT m=5 n=7 k=9 lda=5 ldb=7 ldc=5 alpha=1 beta=1",
     NULL},
    {"scipy_sgemm_64_",
     {false, 't', 'n', 5, 7, 9, 1, 9, 9, 1, 5},
     "gpu",
     "scipy_sgemm_64_ TN m=5 n=7 k=9 lda=9 ldb=9 ldc=5 alpha=1 beta=1",
     NULL},
    {"cblas_sgemm64_",
     {true, 'N', 'T', 5, 7, 9, 1, 9, 9, 1, 7},
     "cpu",
     "cblas_sgemm64_ row-major NT m=5 n=7 k=9 lda=9 ldb=9 ldc=7 alpha=1 beta=1",
     ON_CPU("TILEBLAS_ROUTE=cpu")},
    {"cblas_sgemm",
     {false, 'N', 'N', 5, 7, 9, 1, 5, 9, 1, 5},
     "auto",
     "cblas_sgemm NN m=5 n=7 k=9 lda=5 ldb=9 ldc=5 alpha=1 beta=1",
     ON_CPU("too small for a GPU")},
    {"cblas_sgemm",
     {false, 'N', 'N', 5, 7, 0, 1, 5, 1, 1, 5},
     "gpu",
     "cblas_sgemm NN m=5 n=7 k=0 lda=5 ldb=1 ldc=5 alpha=1 beta=1",
     ON_CPU("nothing to multiply")},
    {"sgemm_",
     {false, 'N', '/', 5, 7, 9, 1, 5, 9, 1, 5},
     "gpu",
     "sgemm_",
     "-> cpu \\(arguments that the BLAS refuses\\)"},
};

/* The program's own error handler, so that a refused call prints nothing else. */
void xerbla_(const char *name, const int *info, size_t length);
void xerbla_(const char *name, const int *info, size_t length) { (void)name, (void)info, (void)length; }

static void call(const struct telling *t) {
  static float a[200], b[200], c[200];
  const struct tst_symbol *symbol = tst_find_symbol(t->symbol);
  tst_call(symbol, tst_resolve(symbol), &t->problem, a, b, c);
}

static int one_call(void *argument) {
  const struct telling *t = argument;
  tileblas_option_set("TILEBLAS_ROUTE", t->route);
  tileblas_option_set("TILEBLAS_VERBOSE", "1");
  call(t);
  return 0;
}

static bool expect_gpu(void) { return strcmp(tst_setting("TB_TEST_EXPECT"), "gpu") == 0; }

static void expect_line(const char *text, const char *pattern) {
  regex_t regex;
  assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
  int found = regexec(&regex, text, 0, NULL, 0);
  regfree(&regex);
  if (found != 0) fail_msg("%s\ndoes not match\n%s", text, pattern);
}

static void verbose_lines(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof tellings / sizeof tellings[0]; i++) {
    const struct telling *t = &tellings[i];
    const char *went = t->went ? t->went : expect_gpu() ? ON_GPU : ON_CPU("this build has no GPU kernels");
    struct tst_output o;
    tst_fork(&o, one_call, (void *)t);
    assert_int_equal(o.status, 0);
    assert_int_equal(tst_count_lines(o.err, "\n"), 1);
    expect_line(o.err, tst_format("^tileblas: %s %s\n$", t->call, went));
    tst_output_destroy(&o);
  }
}

/* ---- routines with a side ---- */

/* Every spelling once, the same ones each time. */
static void for_each_sided(void (*visit)(const struct tst_sided_call *call, void *context), void *context) {
  uint64_t rng = 26;
  for (int number = 0; number < TST_SIDED_NAMES; number++) {
    struct tst_sided_call call;
    tst_sided_create(&call, number, 9, &rng);
    if (call.name.function) visit(&call, context);
    tst_sided_destroy(&call);
  }
}

static void make_sided(const struct tst_sided_call *call, void *unused) {
  (void)unused;
  tst_sided_make(call);
}

static int sided_calls(void *unused) {
  tileblas_option_set("TILEBLAS_ROUTE", "cpu");
  tileblas_option_set("TILEBLAS_VERBOSE", "1");
  for_each_sided(make_sided, unused);
  return 0;
}

/* Takes the line of a call from the front of the rest. */
static void expect_sided(const struct tst_sided_call *c, void *context) {
  const char **const rest = context;
  const bool triangular = c->name.shape == TRMM || c->name.shape == TRSM, real = strchr("sd", c->name.type) != NULL;
  const char trans = (char)toupper((unsigned char)c->trans);
  char letters[5] = {(char)toupper((unsigned char)c->side), (char)toupper((unsigned char)c->uplo), 0, 0, 0};
  if (triangular) letters[2] = real && trans == 'C' ? 'T' : trans, letters[3] = (char)toupper((unsigned char)c->diag);
  const long ldb = (long)(triangular ? c->ldc : c->ldb);
  const char *const ldc = triangular ? "" : tst_format(" ldc=%ld", (long)c->ldc);
  const char *const line =
      tst_format("tileblas: %s%s %s m=%ld n=%ld lda=%ld ldb=%ld%s alpha=", c->name.name,
                 c->row_major ? " row-major" : "", letters, (long)c->m, (long)c->n, (long)c->lda, ldb, ldc);
  if (strncmp(*rest, line, strlen(line)) != 0)
    fail_msg("%.*s\ndoes not begin with\n%s", (int)strcspn(*rest, "\n"), *rest, line);
  *rest += strcspn(*rest, "\n") + 1;
}

static void sides_and_triangles(void **state) {
  (void)state;
  struct tst_output o;
  tst_fork(&o, sided_calls, NULL);
  assert_int_equal(o.status, 0);
  const char *rest = o.err;
  for_each_sided(expect_sided, &rest);
  assert_string_equal(rest, "");
  tst_output_destroy(&o);
}

/* ---- the report at exit ---- */

static int some_calls(void *report) {
  tileblas_option_set("TILEBLAS_REPORT", report);
  tileblas_option_set("TILEBLAS_ROUTE", "cpu");
  for (int i = 0; i < 4; i++) call(&tellings[0]);
  call(&tellings[2]);
  return 0;
}

static void report_on_stderr(void **state) {
  (void)state;
  struct tst_output o;
  tst_fork(&o, some_calls, "1");
  assert_int_equal(tst_report_calls(o.err, "cpu", "TILEBLAS_ROUTE=cpu"), 5);
  assert_int_equal(tst_report_symbol(o.err, "cblas_sgemm"), 4);
  assert_int_equal(tst_report_symbol(o.err, "sgemm_"), 1);
  expect_line(o.err, "tileblas: cpu: [^\n]*openblas[^\n]*\n");
  tst_output_destroy(&o);
}

/* Processes of one job append to one file, and say nothing on stderr. */
static void report_appended_to_a_file(void **state) {
  (void)state;
  char path[64];
  strcpy(path, tst_temporary_file());
  for (int i = 0; i < 3; i++) {
    struct tst_output o;
    tst_fork(&o, some_calls, path);
    assert_string_equal(o.err, "");
    tst_output_destroy(&o);
  }
  char *text = tst_read_file(path);
  assert_int_equal(tst_count_lines(text, "tileblas: report pid "), 3);
  assert_int_equal(tst_report_calls(text, "cpu", NULL), 15);
  free(text);
}

/* ---- which GPUs ---- */

/* The environment of a call on a machine with three, and what its verbose line and the report's have of it. */
struct choice {
  const char *environment[2]; /* "NAME=value" */
  const char *line, *report;
};

/* In a process of its own, for the environment is read when the library is loaded. */
static int call_wide(void) {
  /* Three pieces by columns; TILEBLAS_SHARE decides whether one GPU computes it. */
  const struct telling wide = {"cblas_sgemm", {false, 'N', 'N', 2, 300, 3, 1, 2, 3, 1, 2}, "gpu", NULL, NULL};
  static float a[6], b[900], c[600];
  const struct tst_symbol *symbol = tst_find_symbol(wide.symbol);
  tst_call(symbol, tst_resolve(symbol), &wide.problem, a, b, c);
  return 0;
}

static void choices(void **state) {
  (void)state;
  static const struct choice cases[] = {
      {{"TILEBLAS_DEVICES="}, "-> gpu0 ", "gpu: GPU 0, [^;]*\n"},
      {{"TILEBLAS_DEVICES=2"}, "-> gpu2 ", "gpu: GPU 2, [^;]*\n"},
      {{"TILEBLAS_DEVICES=2,0"}, "-> gpu2 ", "gpu: GPU 2, [^;]*\n"},
      {{"TILEBLAS_DEVICES=7,1"}, "-> gpu1 ", "gpu: GPU 1, [^;]*\n"},
      {{"TILEBLAS_DEVICES= 1 , 2"}, "-> gpu1 ", "gpu: GPU 1, [^;]*\n"},
      {{"TILEBLAS_DEVICES=7"}, "-> cpu ", "gpu: no GPU that may be used: TILEBLAS_DEVICES=7 names none of the 3 GPUs"},
      {{"TILEBLAS_SHARE=always"}, "-> gpu0\\+1\\+2 ", "gpu: GPU 0, [^;]*; GPU 1, [^;]*; GPU 2, [^;]*\n"},
      {{"TILEBLAS_SHARE=always", "TILEBLAS_DEVICES=2,0"}, "-> gpu2\\+0 ", "gpu: GPU 2, [^;]*; GPU 0, [^;]*\n"},
      {{"TILEBLAS_SHARE=always", "TILEBLAS_DEVICES=1"}, "-> gpu1 ", "gpu: GPU 1, [^;]*\n"},
      {{"TILEBLAS_SHARE=never"}, "-> gpu0 ", "gpu: GPU 0, [^;]*\n"},
      /* Under MPI each process has its own. */
      {{"TILEBLAS_SHARE=always", "OMPI_COMM_WORLD_LOCAL_RANK=1"},
       "-> gpu1 ",
       "gpu: GPU 1, [^;]*, taken as local rank 1 \\(OMPI_COMM_WORLD_LOCAL_RANK\\)\n"},
      {{"SLURM_LOCALID=5"}, "-> gpu2 ", "gpu: GPU 2, [^;]*, taken as local rank 5 \\(SLURM_LOCALID\\)\n"},
      {{"SLURM_LOCALID=1", "TILEBLAS_DEVICES=0"}, "-> gpu0 ", "gpu: GPU 0, [^;]*CUDA [0-9.]+\n"},
  };
  if (!expect_gpu() || tst_setting("TB_TEST_FAKE_DIR")[0] == '\0') return; /* nothing to choose from */
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct tst_output o;
    const char *const command[] = {"/proc/self/exe", "wide", NULL}, *const *const e = cases[i].environment;
    const char *const environment[] = {
        "FAKE_CUDA_DEVICES=3", "TILEBLAS_REPORT=1", "TILEBLAS_ROUTE=gpu", "TILEBLAS_VERBOSE=1", e[0], e[1], NULL};
    tst_run(&o, command, environment);
    expect_line(o.err, cases[i].line);
    expect_line(o.err, cases[i].report);
    tst_output_destroy(&o);
  }
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "wide") == 0) return call_wide();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(verbose_lines),    cmocka_unit_test(sides_and_triangles),
      cmocka_unit_test(report_on_stderr), cmocka_unit_test(report_appended_to_a_file),
      cmocka_unit_test(choices),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
