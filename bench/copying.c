/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the copying threads get done among the program's spinning threads, without a GPU: rounds of copies as a call
 * makes them. 1.14 MiB a thread are copied in eight pieces, two under way at a time; nothing happens for a
 * fifth of a millisecond, as if a GPU computed; then they are copied back. Between two rounds the caller works for 2
 * ms: a thread that wants more than half of a core on which another one spins does not get it.
 *
 *   copying [--csv FILE [--label WORD]] [--rounds N] [--threads N] [--between SECONDS] [--offering]
 *
 * TILEBLAS_BIND says how the threads keep to cores. Status 1: a copy is wrong.
 */
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "data.h"
#include "pipeline/copy.h"
#include "process/busy.h"
#include "spinners.h"

enum { PIECES = 8, UNDER_WAY = 2, PIECE_ROWS = 512, COLUMNS_A_THREAD = 73 };
#define COMPUTE_SECONDS 200e-6

static int piece_columns;
static struct tb_pool *pool;
static float *here, *staged, *back;

/* As a call's thread waits that minds the link. */
static void await_copy(struct tb_copy *copy) {
  while (!tb_copy_done(pool, copy)) tb_busy_offer_core();
}

static void copy_pieces(float *to, const float *from, enum tb_stores stores) {
  struct tb_copy copy[PIECES];
  const size_t piece = (size_t)PIECE_ROWS * (size_t)piece_columns;
  for (int i = 0; i < PIECES + UNDER_WAY; i++) {
    if (i >= UNDER_WAY) await_copy(&copy[i - UNDER_WAY]);
    if (i >= PIECES) continue;
    copy[i] = (struct tb_copy){.type = TB_S,
                               .stores = stores,
                               .to = to + (size_t)i * piece,
                               .to_ld = PIECE_ROWS,
                               .from = from + (size_t)i * piece,
                               .from_ld = PIECE_ROWS,
                               .rows = PIECE_ROWS,
                               .columns = piece_columns};
    tb_copy_start(pool, &copy[i]);
  }
}

static double round_seconds(void *unused) {
  (void)unused;
  const double begun = tb_now_s();
  copy_pieces(staged, here, TB_STORES_STREAMED);
  for (const double since = tb_now_s(); tb_now_s() - since < COMPUTE_SECONDS;) tb_busy_offer_core();
  copy_pieces(back, staged, TB_STORES_CACHED);
  tb_pool_rest_if_busy();
  return tb_now_s() - begun;
}

int main(int argc, char **argv) {
  static const struct option options[] = {
      {"csv", 1, 0, 'c'},     {"label", 1, 0, 'l'},    {"rounds", 1, 0, 'r'}, {"threads", 1, 0, 't'},
      {"between", 1, 0, 'b'}, {"offering", 0, 0, 'o'}, {0, 0, 0, 0}};
  struct tb_among among = {.rounds = 300, .between_s = 2e-3, .round_seconds = round_seconds};
  const char *path = NULL, *label = "-";
  int threads = tb_cores() < 14 ? tb_cores() : 14, counts[4];
  double quiet = 0;
  for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    if (o == '?') return 2;
    if (o == 'c') path = optarg;
    if (o == 'l') label = optarg;
    if (o == 'r') among.rounds = atoi(optarg);
    if (o == 't') threads = atoi(optarg);
    if (o == 'b') among.between_s = atof(optarg);
    if (o == 'o') among.offering = true;
  }
  if (among.rounds < 1 || among.rounds > TB_ROUNDS_MAX || threads < 1) return 2;
  tb_options_load();
  piece_columns = COLUMNS_A_THREAD * threads;
  const size_t count = (size_t)PIECES * PIECE_ROWS * (size_t)piece_columns;
  here = tb_alloc(count), staged = tb_alloc(count), back = tb_alloc(count);
  tb_data_fill(here, count, 1, TB_UNIFORM, TB_OPERAND_A, 1);
  FILE *csv = path ? fopen(path, "a") : NULL;
  if (path && !csv) return perror(path), EXIT_FAILURE;
  if (csv && ftell(csv) == 0) fprintf(csv, "label," TB_AMONG_COLUMNS "\n");
  pool = tb_pool_open(threads, true);
  const int length = tb_spinner_counts(counts);
  for (int i = 0; i < length; i++) {
    among.spinners = counts[i];
    tb_among_measure(&among);
    if (i == 0) quiet = among.median_s;
    if (csv) fprintf(csv, "%s,", label);
    tb_among_print(&among, quiet, csv);
  }
  tb_pool_close(pool);
  if (csv && fclose(csv) != 0) return perror(path), EXIT_FAILURE;
  return memcmp(here, back, count * sizeof *here) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
