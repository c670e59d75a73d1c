/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sums, the report made of them, and the one writer of messages.
 *
 * Seen to fail when: a route's row is added to the other's; a report of many symbols has but the first of them; a
 * failure is counted as a call; what was kept outlives a reset; a long message loses its newline; a message within a
 * message is not dropped; errno is changed.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "process.h"
#include "report.h"
#include "interface/stats.h"
#include "level3/pieces.h"

static char *report_text(void) {
  const char *path = tst_temporary_file();
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  tb_stats_report(fileno(file));
  fclose(file);
  return tst_read_file(path);
}

static void sums(void **state) {
  (void)state;
  tb_stats_reset();
  tb_stats_add(TB_SYMBOL_cblas_sgemm, TB_GPU, TB_STATUS_forced_gpu, 2e9, 1e6, 0.5);
  tb_stats_add(TB_SYMBOL_cblas_sgemm, TB_GPU, TB_STATUS_gpu_sooner, 3e9, 2e6, 0.25);
  tb_stats_add(TB_SYMBOL_sgemm_, TB_CPU, TB_STATUS_small, 100, 0, -1);
  tb_stats_add(TB_SYMBOL_sgemm_, TB_CPU, TB_STATUS_small, 100, 0, 0.125);
  tb_stats_add_failure();
  tileblas_stats s;
  tb_stats_get(&s);
  assert_int_equal(s.gpu_calls, 2);
  assert_int_equal(s.cpu_calls, 2);
  assert_int_equal(s.gpu_failures, 1);
  assert_true(s.gpu_flops == 5e9 && s.cpu_flops == 200 && s.gpu_bytes == 3e6);
  assert_true(fabs(s.gpu_seconds - 0.75) < 1e-6 && fabs(s.cpu_seconds - 0.125) < 1e-6);
}

/* Seen to fail when: the whole struct is written whatever the size, or what is behind the library's is left as it was.
 */
static void sizes(void **state) {
  sums(state);
  struct {
    tileblas_stats stats;
    unsigned char behind[24];
  } room;
  const uint64_t two = offsetof(tileblas_stats, gpu_failures), whole = sizeof room.stats;
  memset(&room, 0xee, sizeof room);
  assert_int_equal(tileblas_stats_get_sized(&room.stats, two), whole);
  assert_int_equal(room.stats.cpu_calls, 2);
  for (size_t i = two; i < sizeof room; i++) assert_int_equal(((unsigned char *)&room)[i], 0xee);

  memset(&room, 0xee, sizeof room);
  assert_int_equal(tileblas_stats_get_sized(&room.stats, whole + 16), whole);
  assert_int_equal(room.stats.gpu_failures, 1);
  for (int i = 0; i < 24; i++) assert_int_equal(room.behind[i], i < 16 ? 0 : 0xee);

  /* What a program of 0.1 calls: eight fields of eight bytes. */
  memset(&room, 0xee, sizeof room);
  (tileblas_stats_get)(&room.stats);
  assert_int_equal(room.stats.gpu_calls, 2);
  for (size_t i = 64; i < sizeof room; i++) assert_int_equal(((unsigned char *)&room)[i], 0xee);
}

/* Rows by route and reason, the symbols' counts, and no line over 120 columns or without the prefix. */
static void report(void **state) {
  (void)state;
  sums(state);
  char *text = report_text();
  assert_int_equal(tst_report_calls(text, "gpu", "TILEBLAS_ROUTE=gpu"), 1);
  assert_int_equal(tst_report_calls(text, "gpu", NULL), 2);
  assert_int_equal(tst_report_calls(text, "cpu", "too small for a GPU"), 2);
  assert_int_equal(tst_report_symbol(text, "cblas_sgemm"), 2);
  assert_int_equal(tst_report_symbol(text, "sgemm_"), 2);
  assert_int_equal(tst_report_symbol(text, "sgemm_64_"), 0);
  assert_non_null(strstr(text, tst_format("tileblas: report pid %ld\n", (long)getpid())));
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
    assert_memory_equal(line, "tileblas: ", 10);
    assert_in_range(strlen(line), 11, 130);
  }
  free(text);
}

/* The figures of the row that begins so, blanks aside: calls, GFLOP, MB, seconds, TFLOP/s. */
static void expect_figures(const char *text, const char *route, const char *why, const char *figures) {
  const char *row = strstr(text, tst_format("tileblas:   %-6s%-46s", route, why));
  if (row == NULL) fail_msg("no row of %s, %s in\n%s", route, why, text);
  row += strlen("tileblas:   ") + 6 + 46;
  for (const char *want = figures; *want != '\0'; want++, row++) {
    if (*want == ' ') row += strspn(row, " ") - 1;
    if (*want != *row) fail_msg("%s, %s: not %s in\n%s", route, why, figures, text);
  }
  assert_int_equal(*row, '\n');
}

/* Each sum in its column, and what operands that a GPU had kept saved; a reset leaves nothing of it. */
static void figures(void **state) {
  (void)state;
  tb_stats_reset();
  tb_stats_add(TB_SYMBOL_cblas_sgemm, TB_GPU, TB_STATUS_forced_gpu, 2e9, 1e6, 0.5);
  tb_stats_add(TB_SYMBOL_cblas_sgemm, TB_GPU, TB_STATUS_forced_gpu, 4e12, 3e6, 0.25);
  tb_stats_add(TB_SYMBOL_sgemm_, TB_GPU, TB_STATUS_resident, 5e9, 0, 0);
  tb_stats_add(TB_SYMBOL_sgemm_, TB_CPU, TB_STATUS_cpu_sooner, 7e9, 0, 2);
  tb_stats_add_kept(11e6, (enum tb_proof[]){TB_BY_TRACKING, TB_NOT_KEPT});
  tb_stats_add_kept(2.5e6, (enum tb_proof[]){TB_NOT_KEPT, TB_MENDED});
  for (int i = 0; i < 2; i++) tb_stats_add_kept(1e6, (enum tb_proof[]){TB_GROWN, TB_BY_HASH});
  for (int i = 0; i < 3; i++) tb_stats_add_failure();
  char *text = report_text();
  expect_figures(text, "gpu", "TILEBLAS_ROUTE=gpu", " 2 4002.000 4.000 0.750000 5.336");
  expect_figures(text, "gpu", "an operand lies on the GPU", " 1 5.000 0.000 0.000000 0.000");
  expect_figures(text, "cpu", "the CPU is predicted to finish sooner", " 1 7.000 0.000 2.000000 0.004");
  assert_non_null(strstr(text, "calls whose operands a GPU had kept: 4, of which 15.500 MB were not moved again\n"));
  assert_non_null(strstr(text, "of these, with pieces that went up again, for they had been written: 1\n"));
  assert_non_null(strstr(text, "of these, with the rest of an operand of which the beginning was there: 2\n"));
  assert_non_null(strstr(text, "calls during which a GPU failed: 3\n"));
  free(text);
  tb_stats_reset();
  tb_stats_add(TB_SYMBOL_sgemm_, TB_GPU, TB_STATUS_forced_gpu, 1e9, 0, 0);
  text = report_text();
  expect_figures(text, "gpu", "TILEBLAS_ROUTE=gpu", " 1 1.000 0.000 0.000000 0.000");
  assert_null(strstr(text, "cblas_sgemm="));
  assert_null(strstr(text, "kept"));
  assert_null(strstr(text, "failed"));
  free(text);
  tb_stats_add_kept(1e6, (enum tb_proof[]){TB_BY_HASH, TB_BY_HASH});
  text = report_text();
  assert_non_null(strstr(text, "calls whose operands a GPU had kept: 1, of which 1.000 MB were not moved again\n"));
  assert_null(strstr(text, "of these"));
  free(text);
}

/* What the pieces of a call come to: sums, what any of them had, and of names and reasons the first. */
static void pieces(void **state) {
  (void)state;
  const struct tb_outcome first = {.why = TB_STATUS_ok,
                                   .committed = true,
                                   .gpu_count = 2,
                                   .kernel = "one",
                                   .gpus = "0+1",
                                   .bytes = 1,
                                   .saved_bytes = 10,
                                   .seconds = 100,
                                   .up_ms = 1,
                                   .compute_ms = 20,
                                   .down_ms = 300};
  const struct tb_outcome failed = {.why = TB_STATUS_gpu_failed,
                                    .failed = true,
                                    .by_cpu = true,
                                    .gpu_count = 2,
                                    .kernel = "two",
                                    .gpus = "2",
                                    .bytes = 2,
                                    .saved_bytes = 20,
                                    .seconds = 200,
                                    .up_ms = 2,
                                    .compute_ms = 30,
                                    .down_ms = 400};
  const struct tb_outcome lost = {.why = TB_STATUS_gpu_lost, .failed = true, .lost = true, .gpu_count = 0};
  struct tb_outcome sum = {.why = TB_STATUS_ok, .gpu_count = 2};
  tb_pieces_add(&sum, &first);
  assert_true(sum.committed && !sum.failed && !sum.by_cpu && !sum.lost && sum.why == TB_STATUS_ok);
  tb_pieces_add(&sum, &failed);
  assert_true(sum.committed && sum.failed && sum.by_cpu && !sum.lost && sum.why == TB_STATUS_gpu_failed);
  assert_int_equal(sum.gpu_count, 2);
  tb_pieces_add(&sum, &lost);
  tb_pieces_add(&sum, &first);
  assert_true(sum.committed && sum.failed && sum.by_cpu && sum.lost && sum.why == TB_STATUS_gpu_failed);
  assert_int_equal(sum.gpu_count, 0); /* no measure of what so many take */
  assert_string_equal(sum.kernel, "one");
  assert_string_equal(sum.gpus, "0+1");
  assert_true(sum.bytes == 4 && sum.saved_bytes == 40 && sum.seconds == 400);
  assert_true(sum.up_ms == 4 && sum.compute_ms == 70 && sum.down_ms == 1000);
}

/* None is left out for want of room, and no line is longer for it. */
static void every_symbol(void **state) {
  (void)state;
  tb_stats_reset();
  for (int s = 0; s < TB_SYMBOL_COUNT; s++)
    for (int i = 0; i <= s; i++) tb_stats_add((enum tb_symbol)s, TB_CPU, TB_STATUS_small, 1, 0, 0);
  char *text = report_text();
  for (int s = 0; s < TB_SYMBOL_COUNT; s++) assert_int_equal(tst_report_symbol(text, tb_symbols[s].name), s + 1);
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) assert_in_range(strlen(line), 11, 130);
  free(text);
}

/* Every reason has a text, no two the same, that the report's column holds: columns are two blanks apart. */
static void every_reason(void **state) {
  (void)state;
  tb_stats_reset();
  for (int s = 0; s < TB_STATUS_COUNT; s++)
    tb_stats_add(TB_SYMBOL_sgemm_64, s % 2 ? TB_GPU : TB_CPU, (enum tb_status)s, 1, 1, 1);
  char *text = report_text();
  for (int s = 0; s < TB_STATUS_COUNT; s++)
    assert_int_equal(tst_report_calls(text, s % 2 ? "gpu" : "cpu", tb_status_text((enum tb_status)s)), 1);
  free(text);
  assert_non_null(tb_status_text((enum tb_status)9999));
}

static void nothing_to_report(void **state) {
  (void)state;
  tb_stats_reset();
  char *text = report_text();
  assert_string_equal(text, "");
  free(text);
}

/* ---- messages ---- */

static int say_much(void *argument) {
  (void)argument;
  char long_text[5000];
  memset(long_text, 'x', sizeof long_text);
  long_text[sizeof long_text - 1] = '\0';
  errno = 77;
  tb_say("%s", long_text);
  tb_say("%d and %s", 5, "text");
  tb_warn("careful");
  return errno == 77 ? 0 : 1;
}

static void whole_lines_with_prefix(void **state) {
  (void)state;
  struct tst_output o;
  tst_fork(&o, say_much, NULL);
  assert_int_equal(o.status, 0);
  assert_string_equal(o.out, "");
  assert_int_equal(tst_count_lines(o.err, "tileblas: "), 3);
  assert_int_equal(tst_count_lines(o.err, "\n"), 3); /* the long one was cut, but ended */
  assert_non_null(strstr(o.err, "x\ntileblas: 5 and text\ntileblas: warning: careful\n"));
  tst_output_destroy(&o);
}

static int warn_often(void *argument) {
  (void)argument;
  for (int i = 0; i < 10 * TB_WARNINGS_MAX; i++) tb_warn("number %d", i);
  return 0;
}

static void warnings_end(void **state) {
  (void)state;
  struct tst_output o;
  tst_fork(&o, warn_often, NULL);
  assert_int_equal(tst_count_lines(o.err, "warning: number"), TB_WARNINGS_MAX);
  assert_int_equal(tst_count_lines(o.err, "\n"), TB_WARNINGS_MAX + 1);
  tst_output_destroy(&o);
}

static int say_to_nobody(void *argument) {
  (void)argument;
  close(STDERR_FILENO);
  errno = 77;
  tb_warn("nobody reads this");
  return errno == 77 ? 0 : 1;
}

/* A closed stderr is no reason to stop; the file that next gets its number would be another matter, and is the
 * program's. */
static void closed_stderr(void **state) {
  (void)state;
  struct tst_output o;
  tst_fork(&o, say_to_nobody, NULL);
  assert_int_equal(o.status, 0);
  tst_output_destroy(&o);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums),
      cmocka_unit_test(sizes),
      cmocka_unit_test(report),
      cmocka_unit_test(figures),
      cmocka_unit_test(pieces),
      cmocka_unit_test(every_symbol),
      cmocka_unit_test(every_reason),
      cmocka_unit_test(nothing_to_report),
      cmocka_unit_test(whole_lines_with_prefix),
      cmocka_unit_test(warnings_end),
      cmocka_unit_test(closed_stderr),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
