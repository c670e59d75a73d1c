/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every call is counted once, whatever way it goes: a random program of several threads keeps account of its own calls,
 * and the report's symbols, its rows by route and reason, and tileblas_stats must agree with it, before and after a
 * reset. The CPU BLAS is the echo (echo_blas.h) that the argument names: some symbols are answered through another's
 * ABI.
 *
 * Seen to fail when: the symbols' line misses small calls that were forced to the CPU; a refused call counts for
 * another symbol; a reset forgets small calls' operations.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "process.h"
#include "report.h"
#include "rng.h"
#include "tileblas.h"

enum { THREADS = 4, ROUNDS = 12, CALLS = 400 };

/* What a call is by the reference's rules and README's table of reasons. */
enum reason { REFUSED, TRIVIAL, SMALL, FORCED, REASONS };
static const char *const texts[REASONS] = {"arguments that the BLAS refuses", "nothing to multiply",
                                           "too small for a GPU", "TILEBLAS_ROUTE=cpu"};

struct account {
  unsigned long long symbol[TST_SPELLINGS], reason[REASONS];
  double flops;
};

struct program {
  uint64_t seed;
  bool forced;
  struct account account;
};

/* Small ones mostly, short way or long; forced, ones of any size. */
static void random_call(struct program *program, uint64_t *rng) {
  static float a[1], b[1], c[1];
  const size_t s = (size_t)tst_random_below(rng, TST_SPELLINGS);
  const int64_t most = program->forced && tst_random_below(rng, 4) == 0 ? 1000 : 20;
  const int kind = (int)tst_random_below(rng, 8);
  struct tst_problem p = {.trans_a = "NTC"[tst_random_below(rng, 3)], .trans_b = "NTC"[tst_random_below(rng, 3)]};
  p.m = 1 + tst_random_below(rng, most), p.n = 1 + tst_random_below(rng, most), p.k = 1 + tst_random_below(rng, most);
  p.row_major = !tst_is_fortran(&tst_symbols[s]) && tst_random_below(rng, 2);
  p.alpha = 1, p.lda = p.ldb = p.ldc = 1000;
  if (kind == 0) p.alpha = 0;
  if (kind == 1) p.k = 0;
  if (kind == 2) p.m = -1;
  if (kind == 3) p.ldc = 0;
  const enum reason reason = kind == 2 || kind == 3 ? REFUSED : kind < 2 ? TRIVIAL : program->forced ? FORCED : SMALL;
  program->account.symbol[s]++;
  program->account.reason[reason]++;
  if (reason >= SMALL) program->account.flops += 2.0 * (double)p.m * (double)p.n * (double)p.k;
  tst_call(&tst_symbols[s], tst_resolve(&tst_symbols[s]), &p, a, b, c);
}

static void *run(void *argument) {
  struct program *program = argument;
  uint64_t rng = program->seed;
  for (int i = 0; i < CALLS; i++) random_call(program, &rng);
  return NULL;
}

static void add(struct account *sum, const struct account *one) {
  for (int s = 0; s < TST_SPELLINGS; s++) sum->symbol[s] += one->symbol[s];
  for (int r = 0; r < REASONS; r++) sum->reason[r] += one->reason[r];
  sum->flops += one->flops;
}

static void compare(const struct account *account, int round) {
  unsigned long long all = 0;
  char *text = tst_report_read(tileblas_report);
  for (size_t s = 0; s < TST_SPELLINGS; s++) {
    const unsigned long long said = tst_report_symbol(text, tst_symbols[s].name);
    if (said != account->symbol[s])
      fail_msg("round %d: %s=%llu, not %llu", round, tst_symbols[s].name, said, account->symbol[s]);
  }
  for (int r = 0; r < REASONS; r++) {
    const unsigned long long said = tst_report_calls(text, "cpu", texts[r]);
    if (said != account->reason[r])
      fail_msg("round %d: %llu calls \"%s\", not %llu", round, said, texts[r], account->reason[r]);
    all += account->reason[r];
  }
  assert_int_equal(tst_report_calls(text, "cpu", NULL), all);
  assert_int_equal(tst_report_calls(text, "gpu", NULL), 0);
  free(text);
  tileblas_stats stats;
  tileblas_stats_get(&stats);
  assert_int_equal(stats.cpu_calls, all);
  assert_int_equal(stats.gpu_calls + stats.gpu_failures, 0);
  if (!(stats.cpu_flops == account->flops)) fail_msg("%g operations, not %g", stats.cpu_flops, account->flops);
}

static void a_random_program(void **state) {
  (void)state;
  static const char *const routes[] = {"auto", "cpu"};
  struct account account = {{0}, {0}, 0};
  tileblas_stats_reset();
  for (int round = 0; round < ROUNDS; round++) {
    struct program programs[THREADS];
    pthread_t ids[THREADS];
    const bool forced = round % 2, observed = round % 3 == 2;
    assert_int_equal(tileblas_option_set("TILEBLAS_ROUTE", routes[forced]), 0);
    assert_int_equal(tileblas_option_set("TILEBLAS_REPORT", observed ? "0" : ""), 0);
    for (int t = 0; t < THREADS; t++) {
      programs[t] = (struct program){.seed = (uint64_t)(round * THREADS + t), .forced = forced};
      pthread_create(&ids[t], NULL, run, &programs[t]);
    }
    for (int t = 0; t < THREADS; t++) {
      pthread_join(ids[t], NULL);
      add(&account, &programs[t].account);
    }
    compare(&account, round);
    if (round % 4 == 3) {
      tileblas_stats_reset();
      account = (struct account){{0}, {0}, 0};
    }
  }
  assert_int_equal(tileblas_option_set("TILEBLAS_REPORT", ""), 0);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_random_program)};
  if (argc != 2) return 2;
  tileblas_option_set("TILEBLAS_FALLBACK", tst_format("%s/lib%s.so", tst_setting("TB_TEST_BUILD_DIR"), argv[1]));
  return cmocka_run_group_tests(tests, NULL, NULL);
}
