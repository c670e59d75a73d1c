/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Real programs that know nothing of TileBLAS, started with LD_PRELOAD (or, one of them, linked with it). Each checks
 * its own products against a wider type and says how many it made, a line "products ROUTINE N" for each routine. The
 * report must say that TileBLAS answered each of them, through the symbol that this program uses, and forced, by a GPU.
 *
 *   test_clients CLIENT SPELLING ROUTE PROGRAM [ARGUMENT...]
 *     SPELLING   of the symbols that the client uses, with * for the routine: scipy_cblas_*64_
 *     ROUTE      gpu or auto
 *
 * The machine's own GPU is used when TB_TEST_FAKE_DIR is empty. Exit status 77 when the client is not installed.
 * Seen to fail when: the symbol is not exported; forced products are counted for the CPU, of one type, too;
 * conjugation, alpha or its imaginary part is forgotten; operands or C of doubles pass through a float.
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

static const char *client_name, *spelling, *route;
static const char *const *command;

/* The client's symbol for a routine. */
static const char *symbol_of(const char *routine) {
  const char *star = strchr(spelling, '*');
  return tst_format("%.*s%s%s", (int)(star - spelling), spelling, routine, star + 1);
}

/* Compares each line of what the client said with the report; the sum of the products. */
static unsigned long long check_symbols(const char *said, const char *report) {
  unsigned long long sum = 0;
  for (const char *line = strstr(said, "products "); line; line = strstr(line + 1, "products ")) {
    char routine[16];
    unsigned long long products;
    if (sscanf(line, "products %15s %llu", routine, &products) != 2 || products == 0) fail_msg("it said: %s", line);
    const unsigned long long calls = tst_report_symbol(report, symbol_of(routine));
    if (calls < products)
      fail_msg("%llu products, but %llu calls of %s\n%s", products, calls, symbol_of(routine), report);
    sum += products;
  }
  return sum;
}

static void client(void **state) {
  (void)state;
  const char *report_path = tst_temporary_file();
  bool linked = strcmp(client_name, "linked") == 0; /* has the library without a preload */
  const char *preload = linked ? "LD_PRELOAD" : tst_format("LD_PRELOAD=%s", tst_setting("TB_TEST_LIBRARY"));
  const char *forced = tst_format("TILEBLAS_ROUTE=%s", route);
  const char *report = tst_format("TILEBLAS_REPORT=%s", report_path);
  const char *fake = tst_setting("TB_TEST_FAKE_DIR");
  const char *driver = fake[0] ? tst_format("LD_LIBRARY_PATH=%s", fake) : NULL; /* last: NULL ends the list */
  const char *const env[] = {preload, forced, report, driver, NULL};
  struct tst_output o;
  tst_run(&o, command, env);

  if (o.status == 77) tst_skip("%s", o.out);
  if (o.status != 0) fail_msg("status %d\nstdout: %s\nstderr: %s", o.status, o.out, o.err);
  if (strstr(o.err, "tileblas: warning")) fail_msg("%s", o.err);

  char *text = tst_read_file(report_path);
  unsigned long long products = check_symbols(o.out, text);
  const unsigned long long gpu = tst_report_calls(text, "gpu", NULL);
  const unsigned long long empty = tst_report_calls(text, "cpu", "nothing to multiply"); /* of a LAPACK's first block */
  const unsigned long long cpu = tst_report_calls(text, "cpu", NULL) - empty;
  bool expect_gpu = strcmp(route, "gpu") == 0 && strcmp(tst_setting("TB_TEST_EXPECT"), "gpu") == 0;
  if (products == 0) fail_msg("no products: %s", o.out);
  if (expect_gpu ? cpu != 0 : gpu != 0)
    fail_msg("%llu products, %llu by the GPU, %llu by the CPU\n%s", products, gpu, cpu, text);
  printf("%llu products; %llu calls answered by a GPU, %llu by the CPU\n", products, gpu, cpu);
  free(text);
  tst_output_destroy(&o);
}

int main(int argc, char **argv) {
  if (argc < 5 || !strchr(argv[2], '*')) return 2;
  client_name = argv[1], spelling = argv[2], route = argv[3], command = (const char *const *)argv + 4;
  if (access(command[0], X_OK) != 0)
    tst_skip("%s needs %s, which is not installed or was not built", client_name, command[0]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(client)};
  return cmocka_run_group_tests_name(client_name, tests, NULL, NULL);
}
