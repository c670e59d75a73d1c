/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The last resort of the fallback, the plain loops and the check of arguments, for which no machine with a BLAS has a
 * use: the loops of every type against fp64, the check against the parameter numbers that netlib's sgemm.f and
 * cblas_sgemm.c report.
 *
 * Seen to fail when: a transposed operand is indexed untransposed; an argument is checked after a later one; of a
 * row-major call the parameter numbers 9 and 11 are exchanged; a conjugated operand is not; a quotient by a diagonal
 * that is more imaginary than real is conjugated.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>

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
    struct tb_call call;
    uint64_t rng = (uint64_t)i;
    tst_set_leading(&p, i % 3);
    tst_operands_create(&x, &p, i % 5 ? TST_SIGNED : TST_SPECIAL, &rng);
    tst_expect(&e, &p, &x);
    const struct tb_arguments said = {.layout = p.row_major ? TB_ROW_MAJOR : TB_COL_MAJOR,
                                      .transa = p.trans_a == 'N' ? TB_NO_TRANS : TB_TRANS,
                                      .transb = p.trans_b == 'N' ? TB_NO_TRANS : TB_TRANS,
                                      .m = p.m,
                                      .n = p.n,
                                      .k = p.k,
                                      .alpha = {p.alpha},
                                      .beta = {p.beta},
                                      .a = x.a.data,
                                      .b = x.b.data,
                                      .c = x.c.data,
                                      .lda = p.lda,
                                      .ldb = p.ldb,
                                      .ldc = p.ldc};
    assert_int_equal(tb_call_from(&call, TB_SYMBOL_cblas_sgemm, &said), 0);
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
    const struct tb_arguments said = {.layout = TB_COL_MAJOR,
                                      .transa = fortran[i].ta,
                                      .transb = fortran[i].tb,
                                      .m = fortran[i].m,
                                      .n = fortran[i].n,
                                      .k = fortran[i].k,
                                      .lda = fortran[i].lda,
                                      .ldb = fortran[i].ldb,
                                      .ldc = fortran[i].ldc};
    const int got = tb_arguments_refused(TB_SYMBOL_sgemm_, &said);
    if (got != fortran[i].number) fail_msg("row %zu: parameter %d, not %d", i, got, fortran[i].number);
  }
}

/* Of cblas_sgemm, by the numbers that netlib's cblas_sgemm.c reports: a row-major call's transposed product is checked
 * first to last, and what is wrong with it is named as the caller passed it. */
static const struct {
  int layout, ta, tb;
  int64_t m, n, k, lda, ldb, ldc;
  int number;
} cblas[] = {
    {TB_COL_MAJOR, 111, 111, 4, 5, 6, 4, 6, 4, 0},   {TB_ROW_MAJOR, 111, 111, 4, 5, 6, 6, 5, 5, 0},
    {TB_ROW_MAJOR, 112, 113, 4, 5, 6, 4, 6, 5, 0},   {100, 111, 111, 4, 5, 6, 4, 6, 4, 1},
    {TB_COL_MAJOR, 110, 114, 4, 5, 6, 4, 6, 4, 2},   {TB_ROW_MAJOR, 110, 114, 4, 5, 6, 6, 5, 5, 3},
    {TB_COL_MAJOR, 111, 114, 4, 5, 6, 4, 6, 4, 3},   {TB_ROW_MAJOR, 110, 111, 4, 5, 6, 6, 5, 5, 2},
    {TB_COL_MAJOR, 111, 111, -1, -1, 6, 4, 6, 4, 4}, {TB_ROW_MAJOR, 111, 111, -1, -1, 6, 6, 5, 5, 5},
    {TB_ROW_MAJOR, 111, 111, -1, 5, 6, 6, 5, 5, 4},  {TB_COL_MAJOR, 111, 111, 4, 5, -1, 4, 6, 4, 6},
    {TB_COL_MAJOR, 111, 111, 4, 5, 6, 3, 5, 3, 9},   {TB_ROW_MAJOR, 111, 111, 4, 5, 6, 5, 4, 4, 11},
    {TB_ROW_MAJOR, 111, 111, 4, 5, 6, 5, 5, 4, 9},   {TB_COL_MAJOR, 111, 112, 4, 5, 6, 4, 4, 3, 11},
    {TB_COL_MAJOR, 111, 111, 4, 5, 6, 4, 6, 3, 14},  {TB_ROW_MAJOR, 111, 111, 4, 5, 6, 6, 5, 4, 14},
};

static void cblas_numbers(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cblas / sizeof cblas[0]; i++) {
    const struct tb_arguments said = {.layout = cblas[i].layout,
                                      .transa = cblas[i].ta,
                                      .transb = cblas[i].tb,
                                      .m = cblas[i].m,
                                      .n = cblas[i].n,
                                      .k = cblas[i].k,
                                      .lda = cblas[i].lda,
                                      .ldb = cblas[i].ldb,
                                      .ldc = cblas[i].ldc};
    const int got = tb_arguments_refused(TB_SYMBOL_cblas_sgemm, &said);
    if (got != cblas[i].number) fail_msg("row %zu: parameter %d, not %d", i, got, cblas[i].number);
  }
}

/* ---- every type ---- */

/* Element (row, column) of a matrix of small whole numbers: of one operand or the other, real or imaginary part. */
static double part_of(int operand, int64_t row, int64_t column, int imaginary) {
  return (double)((row * 5 + column * 3 + operand * 7 + imaginary * 4) % 9 - 4);
}

static void put(enum tb_type type, void *data, int64_t at, double re, double im) {
  const int parts = tb_type_is_complex(type) ? 2 : 1;
  for (int i = 0; i < parts; i++) {
    const double x = i == 0 ? re : im;
    if (tb_type_is_double(type))
      ((double *)data)[parts * at + i] = x;
    else
      ((float *)data)[parts * at + i] = (float)x;
  }
}

static double get(enum tb_type type, const void *data, int64_t at, int imaginary) {
  const int64_t i = tb_type_is_complex(type) ? 2 * at + imaginary : at;
  if (imaginary && !tb_type_is_complex(type)) return 0;
  return tb_type_is_double(type) ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

enum { SIDE = 7, LD = 9 };

/* op(X)'s element, conjugated where that means anything. */
static void element(enum tb_type type, int operand, char trans, int64_t i, int64_t j, double *re, double *im) {
  const int64_t row = trans == 'N' ? i : j, column = trans == 'N' ? j : i;
  *re = part_of(operand, row, column, 0);
  *im = tb_type_is_complex(type) ? part_of(operand, row, column, 1) : 0;
  if (trans == 'C') *im = -*im;
}

static union tb_scalar scalar(enum tb_type type, double re, double im) {
  union tb_scalar x = {.z = {0, 0}};
  put(type, &x, 0, re, im);
  return x;
}

/* Small whole numbers: the sums are exact, in whatever order they are added, and of each type the same. */
static void expect_product(enum tb_type type, char ta, char tb, double beta) {
  static double a[2 * LD * SIDE], b[2 * LD * SIDE], c[2 * LD * SIDE];
  for (int64_t at = 0; at < LD * SIDE; at++) {
    put(type, a, at, part_of(0, at % LD, at / LD, 0), part_of(0, at % LD, at / LD, 1));
    put(type, b, at, part_of(1, at % LD, at / LD, 0), part_of(1, at % LD, at / LD, 1));
    put(type, c, at, part_of(2, at % LD, at / LD, 0), part_of(2, at % LD, at / LD, 1));
  }
  const struct tb_view of_a = {a, LD, ta != 'N', ta == 'C' && tb_type_is_complex(type), .type = type};
  const struct tb_view of_b = {b, LD, tb != 'N', tb == 'C' && tb_type_is_complex(type), .type = type};
  const struct tb_call call = {.type = type,
                               .m = 5,
                               .n = 6,
                               .k = SIDE,
                               .a = of_a,
                               .b = of_b,
                               .c = c,
                               .ldc = LD,
                               .alpha = scalar(type, 2, -1),
                               .beta = scalar(type, beta, beta)};
  const double alpha_im = tb_type_is_complex(type) ? -1 : 0, beta_im = tb_type_is_complex(type) ? beta : 0;
  tb_reference_gemm(&call);
  for (int64_t j = 0; j < SIDE; j++)
    for (int64_t i = 0; i < LD; i++) {
      const double old_re = part_of(2, i, j, 0), old_im = tb_type_is_complex(type) ? part_of(2, i, j, 1) : 0;
      double re = 0, im = 0, want[2] = {old_re, old_im};
      for (int64_t k = 0; k < call.k; k++) {
        double x[2], y[2];
        element(type, 0, ta, i, k, &x[0], &x[1]);
        element(type, 1, tb, k, j, &y[0], &y[1]);
        re += x[0] * y[0] - x[1] * y[1], im += x[0] * y[1] + x[1] * y[0];
      }
      if (i < call.m && j < call.n) {
        want[0] = 2 * re - alpha_im * im + beta * old_re - beta_im * old_im;
        want[1] = 2 * im + alpha_im * re + beta * old_im + beta_im * old_re;
      }
      for (int part = 0; part < 2; part++)
        if (get(type, c, i + j * LD, part) != want[part])
          fail_msg("%cgemm %c%c: part %d of (%d, %d) is %g, not %g", tb_type_letter(type), ta, tb, part, (int)i, (int)j,
                   get(type, c, i + j * LD, part), want[part]);
    }
}

static void every_type(void **state) {
  (void)state;
  for (enum tb_type type = TB_S; type < TB_TYPE_COUNT; type++)
    for (int which = 0; which < 18; which++)
      expect_product(type, "NTC"[which % 3], "NTC"[which / 3 % 3], which / 9 * 3);
}

/* ---- quotients ---- */

/* Quotients of a complex solve by a diagonal in every direction, so long or so short that its square is no number: what
 * comes out, times the diagonal, is what went in. */
static void expect_quotient(enum tb_type type, double length, double re, double im) {
  double a[2] = {0}, x[2] = {0};
  put(type, a, 0, length * re, length * im);
  put(type, x, 0, 3 * length, -5 * length);
  const struct tb_call call = {.type = type,
                               .m = 1,
                               .n = 1,
                               .k = 1,
                               .a = {a, 1, .type = type, .structure = TB_TRIANGULAR, .uplo = TB_UPPER},
                               .c = x,
                               .ldc = 1,
                               .alpha = scalar(type, 1, 0),
                               .recipe = TB_TRIANGULAR_SOLVE};
  tb_reference_triangular(&call);
  const double q[2] = {get(type, x, 0, 0), get(type, x, 0, 1)};
  const double back[2] = {q[0] * re - q[1] * im, q[0] * im + q[1] * re}, want[2] = {3, -5};
  for (int part = 0; part < 2; part++) {
    const double error = fabs(back[part] - want[part]);
    if (!(error <= 64 * (tb_type_is_double(type) ? DBL_EPSILON : (double)FLT_EPSILON)))
      fail_msg("%c by %g (%g, %g): part %d comes back as %g", tb_type_letter(type), length, re, im, part, back[part]);
  }
}

static void quotients(void **state) {
  (void)state;
  static const double directions[][2] = {{1, 0},  {0, 1},   {-1, 0}, {0, -1}, {2, 1},    {1, 2},   {-1, 2},
                                         {1, -2}, {-1, -2}, {-2, 1}, {1, 1},  {0.01, 1}, {1, 0.01}};
  for (int i = 0; i < (int)(sizeof directions / sizeof *directions); i++)
    for (int size = -1; size <= 1; size++) {
      expect_quotient(TB_C, ldexp(1, 100 * size), directions[i][0], directions[i][1]);
      expect_quotient(TB_Z, ldexp(1, 900 * size), directions[i][0], directions[i][1]);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(loops),      cmocka_unit_test(fortran_numbers), cmocka_unit_test(cblas_numbers),
      cmocka_unit_test(every_type), cmocka_unit_test(quotients),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
