/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Real programs that know nothing of TileBLAS, started with LD_PRELOAD (or, one of them, linked with it). Each checks
 * its own products against float64 and says how many it made; the report must say that TileBLAS answered each of them,
 * through the symbol that this program uses.
 *
 *   test_clients CLIENT SYMBOL ROUTE PROGRAM [ARGUMENT...]
 *     SYMBOL   through which the client's products come; calls through it must be at least its products
 *     ROUTE    gpu or auto
 *
 * The machine's own GPU is used when TB_TEST_FAKE_DIR is empty. Exit status 77 when the client is not installed.
 * Seen to fail when: the symbol is not exported; forced products are counted for the CPU.
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

static const char *client_name, *symbol, *route;
static const char *const *command;

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

  unsigned long long products = 0;
  const char *hit = strstr(o.out, "products ");
  if (hit) products = strtoull(hit + strlen("products "), NULL, 10);
  if (o.status == 77) tst_skip("%s", o.out);
  if (o.status != 0 || products == 0) fail_msg("status %d\nstdout: %s\nstderr: %s", o.status, o.out, o.err);
  if (strstr(o.err, "tileblas: warning")) fail_msg("%s", o.err);

  char *text = tst_read_file(report_path);
  unsigned long long calls = tst_report_symbol(text, symbol);
  unsigned long long gpu = tst_report_calls(text, "gpu", NULL);
  bool expect_gpu = strcmp(route, "gpu") == 0 && strcmp(tst_setting("TB_TEST_EXPECT"), "gpu") == 0;
  if (calls < products) fail_msg("%llu products, but %llu calls of %s\n%s", products, calls, symbol, text);
  if (expect_gpu ? gpu < products : gpu != 0) fail_msg("%llu products, %llu by the GPU\n%s", products, gpu, text);
  printf("%llu products; %llu calls of %s, %llu answered by a GPU\n", products, calls, symbol, gpu);
  free(text);
  tst_output_destroy(&o);
}

int main(int argc, char **argv) {
  if (argc < 5) return 2;
  client_name = argv[1], symbol = argv[2], route = argv[3], command = (const char *const *)argv + 4;
  if (access(command[0], X_OK) != 0) tst_skip("%s needs %s, which is not installed", client_name, command[0]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(client)};
  return cmocka_run_group_tests_name(client_name, tests, NULL, NULL);
}
