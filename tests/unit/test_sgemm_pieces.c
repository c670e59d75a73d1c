/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products larger than the device memory they may use are done in pieces, in m, n and k: the bits of the answer must be
 * those of the product done at once, and the memory must be kept to. The same bits, too, from call to call, with the
 * threads of a block in any order, and with the driver doing its work late, early or at random moments.
 *
 * Seen to fail when: the partial sums of a chunk of k are not carried to the next; beta is applied once a piece; a
 * staging buffer is filled again before its copy is done; the limit is ignored.
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

#include "check.h"
#include "fake.h"
#include "tileblas.h"

static const struct tst_fake *fake; /* NULL on a real GPU and without kernels */

static void set_limit(long long bytes) {
  char text[32];
  snprintf(text, sizeof text, "%lld", bytes);
  assert_int_equal(tileblas_option_set("TILEBLAS_MEMORY_LIMIT", text), 0);
}

static uint64_t launches(void) { return fake ? fake->get(FAKE_CUDA_LAUNCHES) : 0; }

static struct tst_problem problem(int variant, int64_t m, int64_t n, int64_t k) {
  struct tst_problem p = tst_variant(variant, m, n, k, -0.7f, 1.3f);
  tst_set_leading(&p, variant % 3);
  return p;
}

/* Calls and returns a copy of all of C's memory, to be freed; C is then as before. */
static char *bits_of_answer(const struct tst_problem *p, struct tst_operands *x) {
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm");
  tst_call(symbol, tst_resolve(symbol), p, x->a.data, x->b.data, x->c.data);
  char *copy = malloc(x->c.inner_bytes + 1);
  assert_non_null(copy);
  memcpy(copy, x->c.inner, x->c.inner_bytes);
  tst_matrix_restore(&x->c);
  return copy;
}

static void expect_same(const struct tst_problem *p, struct tst_operands *x, const char *bits, const char *what) {
  char *again = bits_of_answer(p, x);
  if (memcmp(bits, again, x->c.inner_bytes) != 0)
    fail_msg("%s: other bits with %s", tst_describe(tst_find_symbol("cblas_sgemm"), p), what);
  free(again);
}

/* `pieces`: the least number of launches that the limit must have forced. */
static void check_pieces(struct tst_problem p, long long limit, uint64_t pieces) {
  struct tst_operands x;
  uint64_t rng = 17;
  tst_operands_create(&x, &p, TST_SIGNED, &rng);
  set_limit(0);
  tst_check_operands(tst_find_symbol("cblas_sgemm"), &p, &x, false);
  tst_matrix_restore(&x.c);
  char *whole = bits_of_answer(&p, &x);

  set_limit(limit);
  uint64_t before = launches();
  char what[64];
  snprintf(what, sizeof what, "a limit of %lld bytes", limit);
  expect_same(&p, &x, whole, what);
  if (fake && launches() - before < pieces)
    fail_msg("%s: %llu launches with %s, not %llu", tst_describe(tst_find_symbol("cblas_sgemm"), &p),
             (unsigned long long)(launches() - before), what, (unsigned long long)pieces);
  free(whole);
  tst_operands_destroy(&x);
}

/* Blocks of C: op(A)'s rows, op(B)'s columns and C's tile must fit; k stays whole. */
static void pieces_in_m_and_n(void **state) {
  (void)state;
  for (int variant = 0; variant < 18; variant += 5) {
    check_pieces(problem(variant, 700, 40, 33), 160 << 10, 2);
    check_pieces(problem(variant, 40, 700, 33), 160 << 10, 2);
    check_pieces(problem(variant, 400, 390, 30), 256 << 10, 4);
  }
}

static void pieces_in_k(void **state) {
  (void)state;
  for (int variant = 0; variant < 18; variant += 5) {
    check_pieces(problem(variant, 60, 50, 2500), 400 << 10, 2);
    check_pieces(problem(variant, 33, 65, 2500), 200 << 10, 5);
  }
}

static void pieces_in_all_three(void **state) {
  (void)state;
  for (int variant = 0; variant < 18; variant += 7)
    check_pieces(problem(variant, 150, 140, 2100), 300 << 10, 2 * 2 * 3);
}

/* Tiles that share a panel, whose next chunk of k must not come up before both have used it. */
static void pieces_in_k_of_several_tiles(void **state) {
  (void)state;
  check_pieces(problem(0, 1100, 2, 1500), 4 << 20, 2 * 2);
  check_pieces(problem(6, 3, 1100, 1500), 4 << 20, 2 * 2);
}

/* C's tiles of a large block, with few enough operations to run on a CPU. */
static void more_tiles_than_staging(void **state) {
  (void)state;
  check_pieces(problem(0, 2100, 2, 3), 0, 1);
  check_pieces(problem(3, 2, 5000, 3), 0, 1);
  check_pieces(problem(4, 70001, 1, 1), 0, 1);
  check_pieces(problem(6, 1100, 1030, 2), 0, 1);
}

/* First, because the fake's peak counts from the start: no call may ever hold more device memory than it was allowed.
 */
static void the_limit_is_kept(void **state) {
  (void)state;
  const long long limits[] = {200 << 10, 300 << 10, 1 << 20};
  for (int i = 0; i < 3; i++) {
    struct tst_problem p = problem(i, 300, 200, 100);
    struct tst_operands x;
    uint64_t rng = 1;
    tst_operands_create(&x, &p, TST_INTEGERS, &rng);
    set_limit(limits[i]);
    tst_check_operands(tst_find_symbol("cblas_sgemm"), &p, &x, false);
    tst_operands_destroy(&x);
    if (fake && fake->get(FAKE_CUDA_PEAK_BYTES) > (uint64_t)limits[i])
      fail_msg("%llu bytes allocated, limit %lld", (unsigned long long)fake->get(FAKE_CUDA_PEAK_BYTES), limits[i]);
  }
}

/* A second call, and other orders in which threads, blocks and driver may do their work. */
static void same_bits_every_time(void **state) {
  (void)state;
  struct tst_problem p = problem(5, 130, 150, 90);
  struct tst_operands x;
  uint64_t rng = 23;
  tst_operands_create(&x, &p, TST_SIGNED, &rng);
  set_limit(200 << 10);
  char *first = bits_of_answer(&p, &x);
  expect_same(&p, &x, first, "a second call");
  for (uint64_t seed = 1; fake && seed <= 3; seed++) {
    fake->set_shuffle(seed);
    expect_same(&p, &x, first, "threads in another order");
    fake->set_shuffle(0);
    fake->set_order(FAKE_CUDA_RANDOM, seed);
    expect_same(&p, &x, first, "a driver that works at random moments");
    fake->set_order(FAKE_CUDA_EAGER, 0);
    expect_same(&p, &x, first, "a driver that works at once");
    fake->set_order(FAKE_CUDA_LAZY, 0);
  }
  free(first);
  tst_operands_destroy(&x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_limit_is_kept),
      cmocka_unit_test(pieces_in_m_and_n),
      cmocka_unit_test(pieces_in_k),
      cmocka_unit_test(pieces_in_all_three),
      cmocka_unit_test(pieces_in_k_of_several_tiles),
      cmocka_unit_test(more_tiles_than_staging),
      cmocka_unit_test(same_bits_every_time),
  };
  tst_check_setup();
  fake = tst_expect_gpu() ? tst_fake() : NULL;
  tileblas_option_set("TILEBLAS_CACHE", "off"); /* which would need fewer pieces; unit.kept_calls has both */
  return cmocka_run_group_tests(tests, NULL, NULL);
}
