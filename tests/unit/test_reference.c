/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The last resort of the fallback, the plain loops and the check of arguments, for which no machine with a BLAS has a
 * use: the loops against fp64, the check against the parameter numbers that netlib's sgemm.f and cblas_sgemm.c report.
 *
 * Seen to fail when: a transposed operand is indexed untransposed; an argument is checked after a later one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "blas/call.h"
#include "product.h"
#include "cpu/reference.h"
#include "rng.h"

static void loops(void **state) {
  (void)state;
  const float scalars[] = {0, 1, -1, 2.5f};
  for (int i = 0; i < 2 * 9 * 16; i++) {
    struct tst_problem p = {.row_major = i % 2,
                            .trans_a = "NTC"[i / 2 % 3],
                            .trans_b = "NTC"[i / 6 % 3],
                            .m = 5,
                            .n = 7,
                            .k = i % 11,
                            .alpha = scalars[i / 18 % 4],
                            .beta = scalars[i / 72]};
    struct tst_operands x;
    struct tst_expected e;
    struct tb_gemm call = {.symbol = TB_SYMBOL_cblas_sgemm};
    uint64_t rng = (uint64_t)i;
    tst_set_leading(&p, i % 3);
    tst_operands_create(&x, &p, i % 5 ? TST_SIGNED : TST_SPECIAL, &rng);
    tst_expect(&e, &p, &x);
    assert_true(tb_gemm_from_cblas(&call, p.row_major ? 101 : 102, 111 + (p.trans_a != 'N'), 111 + (p.trans_b != 'N'),
                                   p.m, p.n, p.k, p.alpha, x.a.data, p.lda, x.b.data, p.ldb, p.beta, x.c.data, p.ldc));
    tb_reference_gemm(&call);
    const char *what = tst_verify(&p, &x, &e);
    if (what) fail_msg("%s: %s", tst_describe(tst_find_symbol("cblas_sgemm"), &p), what);
    tst_expected_destroy(&e);
    tst_operands_destroy(&x);
  }
}

/* Arguments of sgemm_ and the number that the reference reports; 0: legal. */
static const struct {
  char ta, tb;
  int64_t m, n, k, lda, ldb, ldc;
  int number;
} fortran[] = {
    {'N', 'N', 4, 5, 6, 4, 6, 4, 0},    {'t', 'c', 4, 5, 6, 6, 5, 4, 0},  {'N', 'N', 0, 0, 0, 1, 1, 1, 0},
    {'/', '/', -1, -1, -1, 0, 0, 0, 1}, {'N', 'X', -1, 5, 6, 4, 6, 4, 2}, {'N', 'N', -1, -1, 6, 4, 6, 0, 3},
    {'N', 'N', 4, -1, -1, 4, 6, 4, 4},  {'N', 'N', 4, 5, -1, 3, 6, 4, 5}, {'N', 'N', 4, 5, 6, 3, 5, 4, 8},
    {'T', 'N', 4, 5, 6, 5, 6, 4, 8},    {'N', 'N', 4, 5, 6, 4, 5, 3, 10}, {'N', 'T', 4, 5, 6, 4, 4, 4, 10},
    {'N', 'N', 4, 5, 6, 4, 6, 3, 13},   {'N', 'N', 0, 5, 6, 0, 6, 1, 8},  {'N', 'N', 0, 5, 6, 1, 6, 0, 13},
    {'N', 'N', 4, 0, 0, 4, 0, 4, 10},
};

static void fortran_numbers(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof fortran / sizeof fortran[0]; i++) {
    int got = tb_reference_check(fortran[i].ta, fortran[i].tb, fortran[i].m, fortran[i].n, fortran[i].k, fortran[i].lda,
                                 fortran[i].ldb, fortran[i].ldc);
    if (got != fortran[i].number) fail_msg("row %zu: parameter %d, not %d", i, got, fortran[i].number);
  }
}

/* The product's own check of a call must accept and refuse just what the reference does. */
static void acceptance_agrees(void **state) {
  (void)state;
  uint64_t rng = 9;
  int refused = 0;
  for (int i = 0; i < 200000; i++) {
    char ta = "NTCntc/"[tst_random_below(&rng, 7)], tb = "NTCntcX"[tst_random_below(&rng, 7)];
    int64_t v[6];
    for (int j = 0; j < 6; j++) v[j] = tst_random_below(&rng, 6) - (j < 3 ? 1 : 0);
    struct tb_gemm call = {.symbol = TB_SYMBOL_sgemm_};
    bool accepted = tb_gemm_from_fortran(&call, ta, tb, v[0], v[1], v[2], 1, NULL, v[3], NULL, v[4], 0, NULL, v[5]);
    int number = tb_reference_check(ta, tb, v[0], v[1], v[2], v[3], v[4], v[5]);
    if (accepted != (number == 0)) fail_msg("%c%c: accepted %d, parameter %d", ta, tb, accepted, number);
    refused += !accepted;
  }
  assert_in_range(refused, 10000, 190000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(loops),
      cmocka_unit_test(fortran_numbers),
      cmocka_unit_test(acceptance_agrees),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
