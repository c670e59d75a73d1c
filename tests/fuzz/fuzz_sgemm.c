/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random calls over everything at once: symbol, layout, transposes and their case, shapes, leading dimensions, alpha
 * and beta, values, memory limit, and the order in which threads, blocks and driver work.
 *
 *   fuzz_sgemm [CALLS [SEED]]     300 and 1 unless given; a failure prints the seed of its call
 *
 * Seen to fail when: any of the faults that the other tests name is put into the library, with a few thousand calls.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "fake.h"
#include "rng.h"
#include "tileblas.h"

/* Of n, m, k: the fake computes on a CPU. */
#define PRODUCT_MAX 2000000

static long calls = 300;
static uint64_t seed = 1;
static uint64_t current; /* seed of the call under way, 0: none */
static const struct tst_fake *fake;

/* Small sizes, sizes about the tiles' edges, and now and then a large one. */
static int64_t random_size(uint64_t *rng) {
  const int64_t edges[] = {16, 32, 64, 128, 256};
  switch (tst_random_below(rng, 8)) {
    case 0:
      return tst_random_below(rng, 3);
    case 1:
    case 2:
      return 1 + tst_random_below(rng, 40);
    case 3:
    case 4:
      return edges[tst_random_below(rng, 5)] + tst_random_below(rng, 5) - 2;
    case 5:
    case 6:
      return 1 + tst_random_below(rng, 200);
    default:
      return 1 + tst_random_below(rng, 2500);
  }
}

static float random_scalar(uint64_t *rng) {
  const float scalars[] = {0, 1, 1, -1, 2, -0.5f};
  return scalars[tst_random_below(rng, 6)];
}

static const struct tst_symbol *random_problem(struct tst_problem *p, uint64_t *rng) {
  const struct tst_symbol *symbol = &tst_symbols[tst_random_below(rng, TST_SPELLINGS)];
  const bool fortran = tst_is_fortran(symbol);
  *p = (struct tst_problem){.row_major = !fortran && tst_random_below(rng, 2)};
  p->trans_a = "NTCntc"[tst_random_below(rng, fortran ? 6 : 3)];
  p->trans_b = "NTCntc"[tst_random_below(rng, fortran ? 6 : 3)];
  do {
    p->m = random_size(rng), p->n = random_size(rng), p->k = random_size(rng);
  } while (p->m * p->n * p->k > PRODUCT_MAX);
  p->alpha = random_scalar(rng), p->beta = random_scalar(rng);
  tst_set_leading(p, 0);
  p->lda += tst_random_below(rng, 2) * tst_random_below(rng, 70);
  p->ldb += tst_random_below(rng, 2) * tst_random_below(rng, 70);
  p->ldc += tst_random_below(rng, 2) * tst_random_below(rng, 70);
  return symbol;
}

/* Half of the calls without a limit; the rest with room for the least pieces (128 x 128 of C, 256 of k) or a good part
 * more. */
static void random_limit(uint64_t *rng) {
  char text[32] = "0";
  if (tst_random_below(rng, 2))
    snprintf(text, sizeof text, "%lld", (long long)(340 + tst_random_below(rng, 900)) << 10);
  assert_int_equal(tileblas_option_set("TILEBLAS_MEMORY_LIMIT", text), 0);
}

static void random_driver(uint64_t *rng) {
  if (!fake) return;
  fake->set_shuffle(tst_random_below(rng, 3) ? 0 : tst_random(rng));
  fake->set_order((enum fake_cuda_order)tst_random_below(rng, 4), tst_random(rng));
}

static void random_calls(void **state) {
  (void)state;
  const enum tst_values values[] = {TST_INTEGERS, TST_INTEGERS, TST_SIGNED, TST_POSITIVE, TST_SPECIAL};
  for (long i = 0; i < calls; i++) {
    uint64_t rng = seed + (uint64_t)i;
    struct tst_problem p;
    const struct tst_symbol *symbol = random_problem(&p, &rng);
    random_limit(&rng);
    random_driver(&rng);
    current = seed + (uint64_t)i;
    tst_check(symbol, &p, values[tst_random_below(&rng, 5)], rng);
  }
  current = 0;
  if (fake) assert_int_equal(fake->get(FAKE_CUDA_MISUSES), 0);
}

/* After a failure: the line by which its call can be repeated alone. */
static int tell_seed(void **state) {
  (void)state;
  if (current != 0) print_error("repeat this call with: fuzz_sgemm 1 %llu\n", (unsigned long long)current);
  return 0;
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(random_calls, tell_seed)};
  if (argc > 1) calls = atol(argv[1]);
  if (argc > 2) seed = strtoull(argv[2], NULL, 10);
  tst_check_setup();
  fake = tst_expect_gpu() ? tst_fake() : NULL;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
