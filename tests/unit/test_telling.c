/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What TILEBLAS_VERBOSE and TILEBLAS_REPORT say, against the grammar that README promises: one line a call, in the
 * program's own words, with where it went and why; sums at exit, to stderr or appended to a file; and which of several
 * GPUs is used.
 *
 * Each case is a process of its own, which sets its environment before it first uses the library.
 * Seen to fail when: sizes of a row-major product are printed transposed, or the triangle or the side of a row-major
 * symm, trsm, syrk or gemmt is that of the column-major call; a routine is described by another's letters or sizes; an
 * imaginary part is left out, or is the other scalar's; of a batch another group's product is told, or the CPU's line
 * is a GPU's; a file is overwritten; a forbidden GPU is used.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <complex.h>
#include <ctype.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batch_call.h"
#include "fake.h"
#include "process.h"
#include "product.h"
#include "report.h"
#include "rng.h"
#include "sided_call.h"
#include "tileblas.h"
#include "triangle_call.h"

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

/* ---- scalars ---- */

/* "2.5", of a complex number "2.5+0i"; each of which is another. */
static const char *scalar_text(char type, const double x[2]) {
  return strchr("sd", type) != NULL ? tst_format("%g", x[0]) : tst_format("%g%+gi", x[0], x[1]);
}

/* Takes a call's line from the front of the rest: it begins with this, and ends on the CPU. */
static void expect_next(const char **rest, const char *line) {
  const size_t length = strlen(line);
  if (strncmp(*rest, line, length) != 0 || strncmp(*rest + length, " -> cpu (TILEBLAS_ROUTE=cpu) total ", 35) != 0)
    fail_msg("%.*s\nis not of\n%s", (int)strcspn(*rest, "\n"), *rest, line);
  *rest += strcspn(*rest, "\n") + 1;
}

/* Without a GPU, each on a line. */
static void expect_lines(int (*calls)(void *), void *argument, const char *expected[], size_t count) {
  struct tst_output o;
  tst_fork(&o, calls, argument);
  assert_int_equal(o.status, 0);
  const char *rest = o.err;
  for (size_t i = 0; i < count; i++) expect_next(&rest, expected[i]);
  assert_string_equal(rest, "");
  tst_output_destroy(&o);
}

static void watch_the_cpu(void) {
  tileblas_option_set("TILEBLAS_ROUTE", "cpu");
  tileblas_option_set("TILEBLAS_VERBOSE", "1");
}

/* ---- products of every type ---- */

static const double scalars[2][2] = {{2.5, -0.5}, {-1, 3}}; /* alpha and beta */

static int one_of_each(void *unused) {
  static double a[400], b[400], c[400];
  watch_the_cpu();
  for (size_t i = 0; i < tst_symbol_count; i++) {
    const struct tst_symbol *const symbol = &tst_symbols[i];
    const bool rows = !tst_is_fortran(symbol) && i % 2;
    const struct tst_problem p = {.row_major = rows,
                                  .trans_a = "NTC"[i % 3],
                                  .trans_b = "NTC"[i / 3 % 3],
                                  .m = 3,
                                  .n = 4,
                                  .k = 5,
                                  .alpha = CMPLX(scalars[0][0], scalars[0][1]),
                                  .lda = 6,
                                  .ldb = 7,
                                  .beta = CMPLX(scalars[1][0], scalars[1][1]),
                                  .ldc = 8};
    tst_call(symbol, tst_resolve(symbol), &p, a, b, c);
  }
  return unused != NULL;
}

/* C is T where there is nothing to conjugate. */
static void types(void **state) {
  (void)state;
  const char **lines = calloc(tst_symbol_count, sizeof *lines);
  for (size_t i = 0; i < tst_symbol_count; i++) {
    const struct tst_symbol *const symbol = &tst_symbols[i];
    const char type = "sdcz"[symbol->type], *letters = symbol->type >= TST_C ? "NTC" : "NTT";
    lines[i] = tst_format("tileblas: %s%s %c%c m=3 n=4 k=5 lda=6 ldb=7 ldc=8 alpha=%s beta=%s", symbol->name,
                          !tst_is_fortran(symbol) && i % 2 ? " row-major" : "", letters[i % 3], letters[i / 3 % 3],
                          scalar_text(type, scalars[0]), scalar_text(type, scalars[1]));
  }
  expect_lines(one_of_each, NULL, lines, tst_symbol_count);
  free(lines);
}

/* ---- triangles ---- */

/* Every spelling once, the same ones each time. */
static void for_each_triangle(void (*visit)(const struct tst_triangle_call *call, void *context), void *context) {
  uint64_t rng = 27;
  for (int number = 0; number < TST_TRIANGLE_NAMES; number++) {
    struct tst_triangle_call call;
    tst_triangle_create_sized(&call, number, 1 + number % 7, 1 + number % 5, &rng);
    visit(&call, context);
    tst_triangle_destroy(&call);
  }
}

static void make_triangle(const struct tst_triangle_call *call, void *unused) {
  (void)unused;
  tst_triangle_make(call);
}

static int triangle_calls(void *unused) {
  watch_the_cpu();
  for_each_triangle(make_triangle, unused);
  return 0;
}

static char told_trans(const struct tst_triangle_call *c, char trans) {
  const char letter = (char)toupper((unsigned char)trans);
  return letter == 'C' && strchr("sd", c->name.type) != NULL ? 'T' : letter;
}

/* What the routine has of letters and sizes. herk's scalars are real, and her2k's beta. */
static void expect_triangle(const struct tst_triangle_call *c, void *context) {
  const bool two = c->name.shape == GEMMT, has_b = two || c->name.shape == SYR2K || c->name.shape == HER2K;
  char letters[4] = {(char)toupper((unsigned char)c->uplo), told_trans(c, c->ta), 0, 0};
  if (two) letters[2] = told_trans(c, c->tb);
  const char *const ldb = has_b ? tst_format(" ldb=%ld", (long)c->ldb) : "";
  const char *const alpha = scalar_text(c->name.type, c->alpha), *const beta = scalar_text(c->name.type, c->beta);
  expect_next(context, tst_format("tileblas: %s%s %s n=%ld k=%ld lda=%ld%s ldc=%ld alpha=%s beta=%s", c->name.name,
                                  c->row_major ? " row-major" : "", letters, (long)c->n, (long)c->k, (long)c->lda, ldb,
                                  (long)c->ldc, alpha, beta));
}

static void triangles(void **state) {
  (void)state;
  struct tst_output o;
  tst_fork(&o, triangle_calls, NULL);
  assert_int_equal(o.status, 0);
  const char *rest = o.err;
  for_each_triangle(expect_triangle, &rest);
  assert_string_equal(rest, "");
  tst_output_destroy(&o);
}

/* ---- routines with a side ---- */

/* Every spelling once, the same ones each time. */
static void for_each_sided(void (*visit)(const struct tst_sided_call *call, void *context), void *context) {
  uint64_t rng = 26;
  for (int number = 0; number < TST_SIDED_NAMES; number++) {
    struct tst_sided_call call;
    tst_sided_create_sized(&call, number, 1 + number % 7, 1 + number % 5, &rng);
    if (call.name.function) visit(&call, context);
    tst_sided_destroy(&call);
  }
}

static void make_sided(const struct tst_sided_call *call, void *unused) {
  (void)unused;
  tst_sided_make(call);
}

static int sided_calls(void *unused) {
  watch_the_cpu();
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
  const char *const alpha = scalar_text(c->name.type, c->alpha);
  const char *const beta = triangular ? "" : tst_format(" beta=%s", scalar_text(c->name.type, c->beta));
  expect_next(rest, tst_format("tileblas: %s%s %s m=%ld n=%ld lda=%ld ldb=%ld%s alpha=%s%s", c->name.name,
                               c->row_major ? " row-major" : "", letters, (long)c->m, (long)c->n, (long)c->lda, ldb,
                               ldc, alpha, beta));
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

/* ---- batches ---- */

static const struct batch_group batch_groups[] = {{0, 1, 8, 8, 8, 0, {1, 0}, {0, 0}, 0},
                                                  {1, 2, 3, 4, 5, 0, {1, 0}, {0, 0}, 4},
                                                  {2, 0, 6, 7, 8, 0, {1, 0}, {0, 0}, 3}};
static const char *const batch_letters[] = {"NT", "TC", "CN"};

struct told_batch {
  const char *symbol;
  enum tst_type type;
  bool row_major, strided;
  int group, groups; /* from this one on, so many */
  const char *way;
};

static const struct told_batch told_batches[] = {
    {"cblas_sgemm_batch", TST_S, false, false, 0, 3, "cpu"},
    {"cblas_zgemm_batch", TST_Z, true, false, 0, 3, "cpu"},
    {"dgemm_batch_", TST_D, false, false, 1, 2, "cpu"},
    {"cgemm_batch_64_", TST_C, false, false, 1, 1, "cpu"},
    {"cblas_cgemm_batch_strided", TST_C, true, true, 2, 1, "cpu"},
    {"cblas_sgemm_batch_strided", TST_S, true, true, 1, 1, "gpu"},
    {"cblas_cgemm_batch64_", TST_C, true, false, 0, 3, "gpu"},
};

/* And before it one that is refused, for a product of which C has less than no rows, and one of nothing. */
static int make_batch(void *argument) {
  const struct told_batch *const t = argument;
  const struct batch_group refused = {0, 0, -1, 3, 3, 3, {1, 0}, {0, 0}, 0};
  struct batch_call none = {.type = TST_S, .group = &refused, .groups = 1}, empty = none, call = none;
  tileblas_option_set("TILEBLAS_ROUTE", t->way);
  call.type = t->type, call.row_major = t->row_major, call.group = &batch_groups[t->group], call.groups = t->groups;
  empty.group = &batch_groups[0];
  batch_create(&call, 5);
  tileblas_option_set("TILEBLAS_VERBOSE", "1");
  batch_run(&none, "cblas_sgemm_batch");
  batch_run(&empty, "sgemm_batch_");
  (t->strided ? batch_run_strided(&call, t->symbol, 0) : batch_run(&call, t->symbol));
  tileblas_option_set("TILEBLAS_VERBOSE", "0");
  const bool right = batch_is_right(&call);
  batch_destroy(&call);
  return right ? 0 : 1;
}

static char batch_letter(const struct told_batch *t, char letter) {
  return letter == 'C' && t->type < TST_C ? 'T' : letter;
}

/* The batch as it was made, and the first product that it has. */
static void batches(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof told_batches / sizeof *told_batches; i++) {
    const struct told_batch *const t = &told_batches[i];
    const int first = t->group > 0 ? t->group : 1;
    const struct batch_group *const g = &batch_groups[first];
    const char *const letters = batch_letters[first];
    const bool by_gpu = strcmp(t->way, "gpu") == 0 && expect_gpu();
    long products = 0;
    for (int at = t->group; at < t->group + t->groups; at++) products += (long)batch_groups[at].count;
    const char *const call =
        tst_format("tileblas: %s%s groups=%d products=%ld, the first %c%c m=%ld n=%ld k=%ld", t->symbol,
                   t->row_major ? " row-major" : "", t->groups, products, batch_letter(t, letters[0]),
                   batch_letter(t, letters[1]), (long)g->m, (long)g->n, (long)g->k);
    const char *const went = by_gpu                       ? ON_GPU
                             : strcmp(t->way, "gpu") == 0 ? ON_CPU("this build has no GPU kernels")
                                                          : ON_CPU("TILEBLAS_ROUTE=cpu");
    struct tst_output o;
    tst_fork(&o, make_batch, (void *)t);
    if (o.status != 0) fail_msg("%s: status %d\n%s%s", t->symbol, o.status, o.out, o.err);
    expect_line(o.err, tst_format("^tileblas: cblas_sgemm_batch -> cpu \\(arguments that the BLAS refuses\\)\n"
                                  "tileblas: sgemm_batch_ groups=1 products=0 %s\n%s %s\n$",
                                  ON_CPU("nothing to multiply"), call, went));
    tst_output_destroy(&o);
  }
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
      cmocka_unit_test(verbose_lines),
      cmocka_unit_test(types),
      cmocka_unit_test(triangles),
      cmocka_unit_test(sides_and_triangles),
      cmocka_unit_test(batches),
      cmocka_unit_test(report_on_stderr),
      cmocka_unit_test(report_appended_to_a_file),
      cmocka_unit_test(choices),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
