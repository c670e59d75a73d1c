/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trmm and trsm on the GPU, from the exported functions: every side, triangle, transpose and diagonal in sizes around
 * those of the blocks on the diagonal; B in several blocks; little memory, so that triangles are halved and B's blocks
 * are narrow; operands on the GPU; Inf and NaN; triangles that let a solution grow.
 *
 * Seen to fail when: a block on the diagonal takes its rows for another's; the unit diagonal is read; an update is
 * added to the wrong half; the columns of a partly filled block are not all stored; a panel of A is replaced before it
 * was read; blocks come down in another order than they were computed in, or by columns that are longer than a slot;
 * signals wait for the end of a call, or what is committed as they come is not counted; an update of which the driver
 * has taken some is made once more.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake.h"
#include "placed.h"
#include "process.h"
#include "rng.h"
#include "sanitized.h"
#include "sided_call.h"
#include "tileblas.h"

/* trmm and trsm of each type; a number of theirs in this spelling. */
enum { TRIANGULAR = TST_SIDED_ROUTINES - TST_SIDED_MIRRORED, CBLAS = 0, FORTRAN = 1 };
static int number_of(int routine, int spelling) {
  return spelling * TST_SIDED_ROUTINES + TST_SIDED_MIRRORED + routine % TRIANGULAR;
}

static int64_t gpu_calls(void) {
  tileblas_stats stats;
  tileblas_stats_get(&stats);
  return (int64_t)stats.gpu_calls;
}

static void set_option(const char *name, const char *value) {
  if (tileblas_option_set(name, value) != 0) fail_msg("%s=%s is refused", name, value);
}

static void expect_right(const struct tst_sided_call *call) {
  const char *wrong = tst_sided_wrong(call);
  if (wrong != NULL) fail_msg("%s", wrong);
}

static bool is_variant(const struct tst_sided_call *call, int variant) {
  return (call->side & ~32) == "LR"[variant % 2] && (call->uplo & ~32) == "UL"[variant / 2 % 2] &&
         (call->diag & ~32) == "NU"[variant / 4 % 2] && (call->trans & ~32) == "NTC"[variant / 8 % 3];
}

/* A call of a routine in a variant: side, triangle, transpose, diagonal. A small one tells what the numbers give. */
static void create_variant(struct tst_sided_call *call, int routine, int variant, int64_t m, int64_t n, uint64_t *rng) {
  for (bool found = false; !found; tst_random(rng)) {
    uint64_t ahead = *rng;
    tst_sided_create_sized(call, number_of(routine, FORTRAN), 1, 1, &ahead);
    found = is_variant(call, variant);
    tst_sided_destroy(call);
    if (!found) continue;
    tst_sided_create_sized(call, number_of(routine, FORTRAN), m, n, rng);
    call->side = (char)(call->side & ~32), call->uplo = (char)(call->uplo & ~32);
    call->trans = (char)(call->trans & ~32), call->diag = (char)(call->diag & ~32);
  }
}
enum { VARIANTS = 24 };

/* ---- what there is ---- */

/* Beside a warp's rows, and the leaves' sizes and halves. */
static const int64_t orders[] = {1, 7, 8, 9, 63, 64, 65, 127, 129, 136, 270};
enum { ORDERS = sizeof orders / sizeof *orders };

static void variants(int step) {
  uint64_t rng = 1;
  const int64_t begun = gpu_calls();
  for (int i = 0; i < VARIANTS * TRIANGULAR; i += step) {
    struct tst_sided_call call;
    const int64_t order = orders[i * 7 % ORDERS], other = 1 + tst_random_below(&rng, 40);
    const bool right = i / TRIANGULAR % 2;
    create_variant(&call, i, i / TRIANGULAR, right ? other : order, right ? order : other, &rng);
    tst_sided_make(&call);
    expect_right(&call);
    tst_sided_destroy(&call);
  }
  assert_int_equal(gpu_calls() - begun, (VARIANTS * TRIANGULAR + step - 1) / step);
}

static void every_variant(void **state) {
  (void)state;
  variants(1);
}

static void some_variants(void **state) {
  (void)state;
  set_option("TILEBLAS_ROUTE", "gpu");
  variants(5);
}

static void every_spelling(void **state) {
  (void)state;
  uint64_t rng = 2;
  for (int i = 0; i < TST_SIDED_NAMES; i++) {
    struct tst_sided_call call;
    if (i % TST_SIDED_ROUTINES < TST_SIDED_MIRRORED) continue;
    tst_sided_create(&call, i, 70, &rng);
    tst_sided_make(&call);
    expect_right(&call);
    tst_sided_destroy(&call);
  }
}

/* ---- in pieces ---- */

/* What the call gives, which is right; the call is as before. To be freed. */
static void *made_whole(struct tst_sided_call *call) {
  void *const whole = malloc(call->c.bytes);
  assert_non_null(whole);
  tst_sided_make(call);
  expect_right(call);
  memcpy(whole, call->c.data, call->c.bytes);
  tst_sided_restore(call);
  return whole;
}

/* So wide that B has several blocks; and with so little memory that they are narrower, or A is cut. The bits are the
 * same as long as A is whole. */
static void several_blocks(void **state) {
  (void)state;
  uint64_t rng = 3;
  for (int i = 0; i < 2 * TRIANGULAR; i++) {
    struct tst_sided_call call;
    const bool right = i / TRIANGULAR == 1;
    const int64_t order = i % 4 == 0 ? 140 : 70;
    create_variant(&call, i, 2 * (i * 5 % 12) + right, right ? 1300 : order, right ? order : 1300, &rng);
    void *const whole = made_whole(&call);
    set_option("TILEBLAS_MEMORY_LIMIT", "700K");
    tst_sided_make(&call);
    set_option("TILEBLAS_MEMORY_LIMIT", "0");
    assert_memory_equal(whole, call.c.data, call.c.bytes);
    free(whole);
    tst_sided_destroy(&call);
  }
}

static void little_memory(void **state) {
  (void)state;
  static const char *const limits[] = {"25K", "60K", "130K", "300K"};
  uint64_t rng = 4;
  for (int i = 0; i < 2 * VARIANTS; i += TST_UNLESS_SANITIZED(1, 3)) {
    struct tst_sided_call call;
    const int64_t order = 70 + tst_random_below(&rng, 130), other = 1 + tst_random_below(&rng, 60);
    create_variant(&call, i * 5, i % VARIANTS, i % 2 ? other : order, i % 2 ? order : other, &rng);
    set_option("TILEBLAS_MEMORY_LIMIT", limits[i % 4]);
    tst_sided_make(&call);
    set_option("TILEBLAS_MEMORY_LIMIT", "0");
    expect_right(&call);
    tst_sided_destroy(&call);
  }
}

/* ---- numbers ---- */

static double *real_part(const struct tst_sided_call *call, void *data, int64_t i, int64_t j, int64_t ld) {
  const int64_t at = call->row_major ? j + i * ld : i + j * ld;
  return (double *)data + (call->name.type == 'z' ? 2 * at : at);
}

/* Multiplies a number of an operand, in single or double precision. */
static void scale(const struct tst_sided_call *call, void *data, size_t number, double by) {
  if (call->name.type == 's' || call->name.type == 'c')
    ((float *)data)[number] *= (float)by;
  else
    ((double *)data)[number] *= by;
}

/* Of a diagonal that is no reciprocal of anything, and of elements of B beside it that give a number. */
static void make_grow(struct tst_sided_call *call, double diagonal, bool extreme, double of_b) {
  const size_t parts = call->name.type == 'c' || call->name.type == 'z' ? 2 : 1;
  const size_t bytes = call->name.type == 's' || call->name.type == 'c' ? sizeof(float) : sizeof(double);
  for (int64_t x = 0; x < 70; x++)
    for (int64_t y = 0; y < 70; y++)
      for (size_t part = 0; part < parts; part++)
        if (x != y || call->diag == 'N')
          scale(call, call->a.data, (size_t)(x + y * call->lda) * parts + part, x == y ? diagonal : extreme ? 0 : 60);
  memcpy(call->a.before, call->a.data, call->a.bytes);
  for (size_t at = 0; at < call->c.bytes / bytes; at++) scale(call, call->c.data, at, of_b);
  memcpy(call->c.before, call->c.data, call->c.bytes);
}

/* Solutions grow by a thousand from row to row, or become as small, or the diagonal would overflow if it were inverted
 * or squared. */
static void triangles_that_let_grow(void **state) {
  (void)state;
  uint64_t rng = 5;
  static const double diagonals[] = {0x1p-10, 0x1p10, 0x1p-1000, 0x1p1000, 0x1p-400};
  static const double single_diagonals[] = {0x1p-4, 0x1p10, 0x1p-60, 0x1p100, 0x1p-41};
  for (int i = 0; i < 4 * VARIANTS; i += TST_UNLESS_SANITIZED(1, 3)) {
    struct tst_sided_call call;
    create_variant(&call, 4 + i % 4, i % VARIANTS, 70, 70, &rng); /* strsm, dtrsm, ctrsm, ztrsm */
    assert_true(call.name.shape == TRSM);
    const bool single = i % 2 == 0, extreme = i % 5 >= 2;
    const double diagonal = single ? single_diagonals[i % 5] : diagonals[i % 5], small = single ? 0x1p-20 : 0x1p-300;
    make_grow(&call, diagonal, extreme, !extreme ? 1 : sqrt(diagonal) * (diagonal < 1 ? small : 1));
    tst_sided_make(&call);
    expect_right(&call);
    tst_sided_destroy(&call);
  }
}

/* In a line of B that stands for itself what is not finite stays there, and a zero of the other triangle lets none
 * through to rows that do not need it. */
static void what_is_not_finite_stays(void **state) {
  (void)state;
  uint64_t rng = 6;
  static const int routines[] = {5, 1, 3}; /* dtrsm, dtrmm, ztrmm */
  for (int i = 0; i < 3 * VARIANTS; i += TST_UNLESS_SANITIZED(1, 5)) {
    struct tst_sided_call call;
    create_variant(&call, routines[i / VARIANTS], i % VARIANTS, i % 2 ? 40 : 150, i % 2 ? 150 : 40, &rng);
    const bool left = call.side == 'L', lower = (call.uplo == 'L') != (call.trans != 'N');
    const int64_t row = i % 3 == 2 ? 70 : 125, line = 33;
    *real_part(&call, call.c.data, left ? row : line, left ? line : row, call.ldc) = i % 3 ? INFINITY : NAN;
    memcpy(call.c.before, call.c.data, call.c.bytes);
    call.alpha[0] = 1, call.alpha[1] = 0; /* of a complex product with Inf both parts may be NaN */
    tst_sided_make(&call);
    for (int64_t x = 0; x < 150; x++)
      for (int64_t y = 0; y < 40; y++) { /* x: along A */
        const double c = *real_part(&call, call.c.data, left ? x : y, left ? y : x, call.ldc);
        const bool reached = y == line && ((lower == left) ? x >= row : x <= row);
        if ((reached && x == row) == !!isfinite(c) && (x == row || !reached))
          fail_msg("%s %c%c%c%c: (%d, %d) is %g", call.name.name, call.side, call.uplo, call.trans, call.diag, (int)x,
                   (int)y, c);
        const bool stays = i < VARIANTS || call.diag == 'U'; /* divided, or multiplied by nothing */
        if (y == line && x == row && stays && i % 3 && !isinf(c)) fail_msg("%s: infinity became %g", call.name.name, c);
        const double im = *(real_part(&call, call.c.data, left ? x : y, left ? y : x, call.ldc) + 1);
        if (y == line && x == row && i >= 2 * VARIANTS && call.diag == 'U' && !isfinite(im))
          fail_msg("%s: beside it is %g", call.name.name, im);
      }
    tst_sided_destroy(&call);
  }
}

/* ---- solves at the ends of what there are numbers for ---- */

enum { COL_MAJOR = 102, LEFT = 141, UPPER = 121, LOWER = 122, NO_TRANS = 111, NON_UNIT = 131 };
extern void cblas_strsm(int layout, int side, int uplo, int trans, int diag, int m, int n, float alpha, const float *a,
                        int lda, float *b, int ldb);
extern void cblas_dtrsm(int layout, int side, int uplo, int trans, int diag, int m, int n, double alpha,
                        const double *a, int lda, double *b, int ldb);
enum { SOLVED = 77, SOLVED_SIDES = 37 };

/* The column of a triangle's row in the order in which rows are solved. */
static int solved_at(bool lower, int place) { return lower ? place : SOLVED - 1 - place; }

/* A quotient that is finite as a double and no number as a float: from there on the column is as the reference has it,
 * and no other column knows of it. */
static void floats_overflow(void **state) {
  (void)state;
  static float a[SOLVED * SOLVED], b[SOLVED * SOLVED_SIDES];
  enum { LINE = 21 };
  uint64_t rng = 21;
  for (int variant = 0; variant < 6; variant++) {
    const bool lower = variant % 2;
    const int place = (int[]){0, 19, 47}[variant / 2], row = solved_at(lower, place);
    for (int i = 0; i < SOLVED * SOLVED; i++) a[i] = (float)(1 + tst_random_below(&rng, 1 << 20)) * 0x1p-25f;
    for (int i = 0; i < SOLVED; i++) a[i + row * SOLVED] *= 0x1p-60f, a[i + i * SOLVED] = 1;
    for (int i = 0; i < SOLVED * SOLVED_SIDES; i++) b[i] = (float)(1 + tst_random_below(&rng, 1 << 20)) * 0x1p-20f;
    a[row + row * SOLVED] = 0x1p-70f;
    for (int j = 0; j < SOLVED_SIDES; j++) b[row + j * SOLVED] *= j == LINE ? 0x1p80f : 0x1p-60f;
    cblas_strsm(COL_MAJOR, LEFT, lower ? LOWER : UPPER, NO_TRANS, NON_UNIT, SOLVED, SOLVED_SIDES, 1, a, SOLVED, b,
                SOLVED);
    for (int j = 0; j < SOLVED_SIDES; j++)
      for (int i = 0; i < SOLVED; i++) {
        const float x = b[solved_at(lower, i) + j * SOLVED];
        if (!isfinite(x) != (j == LINE && i >= place)) fail_msg("variant %d: (%d, %d) is %g", variant, i, j, (double)x);
      }
  }
}

/* Elements of A that the reciprocal of their column's diagonal would make infinite, or nothing. */
static void elements_that_cannot_be_divided(void **state) {
  (void)state;
  static double a[SOLVED * SOLVED], b[SOLVED * SOLVED_SIDES], x[SOLVED * SOLVED_SIDES];
  static const struct {
    double diagonal, beside, of_b, of_rest;
  } cases[] = {{0x1p-250, 0x1p800, 0x1p-590, 1}, {0x1p299, 0x1p-780, 0x1p590, 0x1p-489}};
  uint64_t rng = 22;
  for (int variant = 0; variant < 4; variant++) {
    const bool lower = variant % 2;
    const int row = solved_at(lower, 35);
    for (int i = 0; i < SOLVED * SOLVED; i++) a[i] = ((double)tst_random_below(&rng, 1 << 30) * 0x1p-30 - 0.5) / 16;
    for (int i = 0; i < SOLVED * SOLVED_SIDES; i++)
      b[i] = ((double)tst_random_below(&rng, 1 << 30) * 0x1p-30 - 0.5) * cases[variant / 2].of_rest;
    for (int i = 0; i < SOLVED; i++) a[i + row * SOLVED] *= cases[variant / 2].beside, a[i + i * SOLVED] = 1;
    a[row + row * SOLVED] = cases[variant / 2].diagonal;
    for (int i = 0; i < SOLVED; i++)
      if (i != row) a[row + i * SOLVED] = 0; /* what comes before is nothing beside such numbers */
    for (int j = 0; j < SOLVED_SIDES; j++)
      b[row + j * SOLVED] = b[row + j * SOLVED] / cases[variant / 2].of_rest * cases[variant / 2].of_b;
    memcpy(x, b, sizeof b);
    cblas_dtrsm(COL_MAJOR, LEFT, lower ? LOWER : UPPER, NO_TRANS, NON_UNIT, SOLVED, SOLVED_SIDES, 1, a, SOLVED, x,
                SOLVED);
    for (int j = 0; j < SOLVED_SIDES; j++)
      for (int i = 0; i < SOLVED; i++) { /* the bound of PRECISION.md */
        long double sum = -b[i + j * SOLVED], size = 0;
        for (int k = lower ? 0 : i; k <= (lower ? i : SOLVED - 1); k++) {
          const long double term = (long double)a[i + k * SOLVED] * x[k + j * SOLVED];
          sum += term, size += fabsl(term);
        }
        if (!(fabsl(sum) <= (SOLVED + 2) * 0x1p-53L * size))
          fail_msg("variant %d: row %d of column %d is off by %Lg of %Lg", variant, i, j, sum, size);
      }
  }
}

/* Numerators of which the upper half has no bit: the quotient is rounded once, as any other. */
static void smallest_numerators(void **state) {
  (void)state;
  static double a[SOLVED * SOLVED], b[SOLVED * SOLVED_SIDES], x[SOLVED * SOLVED_SIDES];
  uint64_t rng = 23;
  for (int i = 0; i < SOLVED; i++)
    a[i + i * SOLVED] = (1 + (double)tst_random_below(&rng, 1 << 30) * 0x1p-30) * ldexp(1, -20 - i);
  for (int i = 0; i < SOLVED * SOLVED_SIDES; i++) x[i] = b[i] = (double)tst_random_below(&rng, 1 << 30) * 0x1p-1074;
  cblas_dtrsm(COL_MAJOR, LEFT, LOWER, NO_TRANS, NON_UNIT, SOLVED, SOLVED_SIDES, 1, a, SOLVED, x, SOLVED);
  for (int i = 0; i < SOLVED * SOLVED_SIDES; i++) {
    const int row = i % SOLVED;
    if (x[i] != b[i] / a[row + row * SOLVED]) fail_msg("%a / %a is %a", b[i], a[row + row * SOLVED], x[i]);
  }
}

/* A column with infinity in it leaves the others their bits, whichever way it is solved itself. */
static void solved_beside_infinity(void **state) {
  (void)state;
  enum { LINE = 21 };
  static double a[SOLVED * SOLVED], b[2][SOLVED * SOLVED_SIDES];
  static float a_single[SOLVED * SOLVED], b_single[2][SOLVED * SOLVED_SIDES];
  uint64_t rng = 23;
  for (int i = 0; i < SOLVED * SOLVED; i++) {
    a[i] = i % (SOLVED + 1) == 0 ? 3 : ((double)tst_random_below(&rng, 1 << 30) * 0x1p-30 - 0.5) / 16;
    a_single[i] = (float)a[i];
  }
  for (int i = 0; i < SOLVED * SOLVED_SIDES; i++) {
    b[0][i] = b[1][i] = (double)tst_random_below(&rng, 1 << 30) * 0x1p-30 - 0.5;
    b_single[0][i] = b_single[1][i] = (float)b[0][i];
  }
  b[1][LINE * SOLVED + 30] = INFINITY, b_single[1][LINE * SOLVED + 30] = INFINITY;
  for (int run = 0; run < 2; run++) {
    cblas_dtrsm(COL_MAJOR, LEFT, LOWER, NO_TRANS, NON_UNIT, SOLVED, SOLVED_SIDES, 1, a, SOLVED, b[run], SOLVED);
    cblas_strsm(COL_MAJOR, LEFT, LOWER, NO_TRANS, NON_UNIT, SOLVED, SOLVED_SIDES, 1, a_single, SOLVED, b_single[run],
                SOLVED);
  }
  for (int j = 0; j < SOLVED_SIDES; j++) {
    const size_t at = (size_t)j * SOLVED;
    if (j == LINE) continue;
    assert_memory_equal(b[0] + at, b[1] + at, SOLVED * sizeof **b);
    assert_memory_equal(b_single[0] + at, b_single[1] + at, SOLVED * sizeof **b_single);
  }
  assert_true(isinf(b[1][LINE * SOLVED + 30]) && isinf(b_single[1][LINE * SOLVED + 30]));
}

/* ---- bits ---- */

extern void cblas_dtrmm(int layout, int side, int uplo, int trans, int diag, int m, int n, double alpha,
                        const double *a, int lda, double *b, int ldb);
extern void cblas_dgemm(int layout, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                        const double *b, int ldb, double beta, double *c, int ldc);

/* In doubles they are those of the product with the other triangle's zeros written down. */
static void expect_bits_of_a_product(int order, int sides, bool lower, bool transposed, bool unit) {
  const size_t square = (size_t)order * (size_t)order, rest = (size_t)order * (size_t)sides;
  double *const a = malloc(square * sizeof *a), *const full = malloc(square * sizeof *full);
  double *const b = malloc(rest * sizeof *b), *const c = malloc(rest * sizeof *c);
  uint64_t rng = 9;
  for (size_t i = 0; i < square; i++) a[i] = full[i] = (double)tst_random_below(&rng, 1 << 30) * 0x1p-30 - 0.5;
  for (size_t i = 0; i < rest; i++) b[i] = (double)tst_random_below(&rng, 1 << 30) * 0x1p-30 - 0.5;
  for (int j = 0; j < order; j++)
    for (int i = 0; i < order; i++) {
      if (lower ? i < j : i > j) a[i + j * order] = NAN, full[i + j * order] = 0;
      if (i == j && unit) full[i + j * order] = 1;
    }
  const int64_t begun = gpu_calls();
  cblas_dgemm(102, transposed ? 112 : 111, 111, order, sides, order, 1, full, order, b, order, 0, c, order);
  cblas_dtrmm(102, 141, lower ? 122 : 121, transposed ? 112 : 111, unit ? 132 : 131, order, sides, 1, a, order, b,
              order);
  assert_int_equal(gpu_calls() - begun, 2);
  assert_memory_equal(b, c, rest * sizeof *b);
  free(a), free(full), free(b), free(c);
}

/* In several groups of k, of which a tile of an upper triangle's lower rows begins within one. */
static void bits_of_a_product(void **state) {
  (void)state;
  for (int variant = 0; variant < 8; variant++)
    expect_bits_of_a_product(301, 10, variant & 1, variant & 2, variant & 4);
}

/* A column that is not finite leaves its neighbours their bits. */
static void bits_beside_what_is_not_finite(void **state) {
  (void)state;
  enum { ORDER = 301, SIDES = 10, SPOILT = 3 };
  static double a[ORDER * ORDER], b[ORDER * SIDES], c[ORDER * SIDES];
  uint64_t rng = 11;
  for (int variant = 0; variant < 4; variant++) {
    const int uplo = variant & 1 ? 122 : 121, diag = variant & 2 ? 132 : 131;
    for (int i = 0; i < ORDER * ORDER; i++) a[i] = (double)tst_random_below(&rng, 1 << 30) * 0x1p-30 - 0.5;
    for (int i = 0; i < ORDER * SIDES; i++) b[i] = c[i] = (double)tst_random_below(&rng, 1 << 30) * 0x1p-30 - 0.5;
    c[SPOILT * ORDER + 150] = INFINITY;
    cblas_dtrmm(102, 141, uplo, 111, diag, ORDER, SIDES, 1, a, ORDER, b, ORDER);
    cblas_dtrmm(102, 141, uplo, 111, diag, ORDER, SIDES, 1, a, ORDER, c, ORDER);
    assert_memory_equal(b, c, SPOILT * ORDER * sizeof *b);
    assert_memory_equal(b + (SPOILT + 1) * ORDER, c + (SPOILT + 1) * ORDER, (SIDES - SPOILT - 1) * ORDER * sizeof *b);
    assert_false(isfinite(c[SPOILT * ORDER + 150]));
  }
}

/* On a GPU with few SMs the tiles are large, and have parts of several panels of A. */
static void bits_by_large_tiles(void **state) {
  (void)state;
  set_option("TILEBLAS_ROUTE", "gpu");
  for (int variant = 0; variant < 4; variant++) expect_bits_of_a_product(390, 128, variant & 1, variant & 2, false);
}

/* ---- signals ---- */

static struct {
  const struct tst_sided_call *call;
  const void *whole;  /* what C comes to */
  bool multiplies;    /* the handler, by the GPU, whose slots and memory the call has */
  atomic_int handled; /* before all of C was there */
  atomic_bool under_way, wrong;
} interrupted;

static void handle(int number) {
  static float x[2][300 * 2], c[300 * 300];
  const struct tst_symbol *const symbol = tst_find_symbol("cblas_sgemm");
  const struct tst_problem p = {
      .trans_a = 'N', .trans_b = 'N', .m = 300, .n = 300, .k = 2, .lda = 300, .ldb = 2, .ldc = 300, .alpha = 1};
  (void)number;
  if (memcmp(interrupted.call->c.data, interrupted.whole, interrupted.call->c.bytes) == 0) return;
  if (atomic_fetch_add(&interrupted.handled, 1) > 2 || !interrupted.multiplies) return;
  for (int i = 0; i < 300 * 2; i++) x[0][i] = x[1][i] = 1;
  tst_call(symbol, tst_resolve(symbol), &p, x[0], x[1], c);
  for (int i = 0; i < 300 * 300; i++)
    if (c[i] != 2) atomic_store(&interrupted.wrong, true);
}

/* From the first commit on: others are on their way then. */
static void *send_signals(void *thread) {
  const struct tst_typed_memory *const c = &interrupted.call->c;
  while (atomic_load(&interrupted.under_way) && memcmp(c->data, c->before, c->bytes) == 0) usleep(50);
  for (int i = 0; i < 20 && atomic_load(&interrupted.under_way); i++) {
    pthread_kill(*(pthread_t *)thread, SIGUSR1);
    usleep(500);
  }
  return NULL;
}

static void make_with_signals(struct tst_sided_call *call, const void *whole, bool multiplies) {
  struct sigaction action = {.sa_handler = handle}, before;
  pthread_t self = pthread_self(), sender;
  interrupted.call = call;
  interrupted.whole = whole;
  interrupted.multiplies = multiplies;
  atomic_store(&interrupted.handled, 0);
  atomic_store(&interrupted.under_way, true);
  sigaction(SIGUSR1, &action, &before);
  assert_int_equal(pthread_create(&sender, NULL, send_signals, &self), 0);
  tst_sided_make(call);
  atomic_store(&interrupted.under_way, false);
  pthread_join(sender, NULL);
  sigaction(SIGUSR1, &before, NULL);
}

/* They come in while a call is under way, and it goes on behind them on the GPU, as if there had been none; where a
 * handler calls itself, what is not committed yet is computed otherwise, and nothing twice. */
static void signals_come_in(void **state) {
  (void)state;
  uint64_t rng = 9;
  for (int i = 0; i < 4; i++) {
    struct tst_sided_call call;
    const bool right = i % 2, multiplies = i / 2;
    create_variant(&call, right ? 1 : 5, 2 * (i * 5 % 12) + right, right ? 1500 : 150, right ? 150 : 1500,
                   &rng); /* dtrmm, dtrsm */
    void *const whole = made_whole(&call);
    tileblas_stats before, after;
    tileblas_stats_get(&before);
    make_with_signals(&call, whole, multiplies);
    tileblas_stats_get(&after);
    expect_right(&call);
    assert_false(atomic_load(&interrupted.wrong));
    if (tst_fake() != NULL) assert_true(atomic_load(&interrupted.handled) > 0);
    if (!multiplies) assert_memory_equal(whole, call.c.data, call.c.bytes);
    if (!multiplies) assert_int_equal(after.gpu_failures, before.gpu_failures);
    free(whole);
    tst_sided_destroy(&call);
  }
}

/* ---- on the GPU's memory ---- */

struct kinds {
  enum tst_kind a, c;
  bool by_cpu; /* TILEBLAS_ROUTE=cpu: by copies in the host's memory, with leading dimensions of their own */
  bool later;  /* what lies on the GPU is only on its way there, in the program's own default stream */
};

/* What is copied there by and by, and comes from. */
static void *source[2];
static int sources;

static void *placed(enum tst_kind kind, bool later, struct tst_typed_memory *x) {
  if (kind == TST_PAGEABLE) return x->data;
  void *const there = tst_cuda_allocate(kind, x->bytes);
  if (later)
    source[sources++] = tst_cuda_write_later(there, x->data, x->bytes);
  else
    tst_cuda_write(kind, there, x->data, x->bytes);
  return there;
}

/* Also those with alpha = 0, which are the CPU's elsewhere. */
static int in_memory_of(void *what) {
  const struct kinds *kinds = what;
  uint64_t rng = 7;
  tst_cuda_begin(0);
  set_option("TILEBLAS_ROUTE", kinds->by_cpu ? "cpu" : "gpu");
  if (kinds->later && tst_fake() != NULL) tst_fake()->set_order(FAKE_CUDA_LAZY, 0);
  for (int i = 0; i < 2 * VARIANTS; i++) {
    struct tst_sided_call call;
    if (i % 8 == 3)
      tst_sided_create(&call, number_of(i, CBLAS), 70, &rng);
    else if (i == 10 || i == 21) /* more than one block */
      create_variant(&call, i, i % 2, i % 2 ? 8300 : 40, i % 2 ? 40 : 8300, &rng);
    else
      create_variant(&call, i, i % VARIANTS, i % 2 ? 20 : 140, i % 2 ? 140 : 20, &rng);
    void *const a = placed(kinds->a, kinds->later, &call.a), *const c = placed(kinds->c, kinds->later, &call.c);
    tst_sided_make_on(&call, a, NULL, c);
    if (kinds->c != TST_PAGEABLE && !tst_cuda_read(kinds->c, call.c.data, c, call.c.bytes)) return 1;
    expect_right(&call);
    if (kinds->later && kinds->a == TST_DEVICE && !tst_cuda_read(kinds->a, call.a.before, a, call.a.bytes)) return 1;
    while (sources > 0) tst_cuda_free(TST_DEVICE, source[--sources]); /* for which somebody has waited now */
    if (kinds->a != TST_PAGEABLE) tst_cuda_free(kinds->a, a);
    if (kinds->c != TST_PAGEABLE) tst_cuda_free(kinds->c, c);
    tst_sided_destroy(&call);
  }
  tst_cuda_end(0);
  return (kinds->by_cpu ? gpu_calls() == 0 : gpu_calls() >= VARIANTS) ? 0 : 2;
}

static void operands_on_the_gpu(void **state) {
  (void)state;
  static const struct kinds all[] = {{TST_DEVICE, TST_DEVICE, false, false},   {TST_PAGEABLE, TST_DEVICE, false, false},
                                     {TST_DEVICE, TST_PAGEABLE, false, false}, {TST_MANAGED, TST_MANAGED, false, false},
                                     {TST_PINNED, TST_PINNED, false, false},   {TST_DEVICE, TST_DEVICE, true, false},
                                     {TST_PAGEABLE, TST_DEVICE, true, false},  {TST_DEVICE, TST_PAGEABLE, true, false},
                                     {TST_DEVICE, TST_DEVICE, false, true},    {TST_PAGEABLE, TST_DEVICE, false, true},
                                     {TST_DEVICE, TST_PAGEABLE, false, true},  {TST_PAGEABLE, TST_DEVICE, true, true}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    struct tst_output o;
    tst_fork(&o, in_memory_of, (void *)&all[i]);
    if (o.status != 0) fail_msg("kinds %zu: status %d\n%s%s", i, o.status, o.out, o.err);
    tst_output_destroy(&o);
  }
}

/* Where B lies, too, blocks are narrow when memory is short, for the products that are made apart: more of them than
 * streams.
 */
static int narrow_blocks_where_b_lies(void *unused) {
  (void)unused;
  uint64_t rng = 10;
  tst_cuda_begin(0);
  set_option("TILEBLAS_ROUTE", "gpu");
  for (int i = 0; i < 8; i++) {
    struct tst_sided_call call;
    create_variant(&call, i % 2 ? 3 : 1, 2 * i, 100, 1160, &rng); /* ztrmm, dtrmm, on the left */
    call.alpha[0] = -0.5, call.alpha[1] = 0;
    void *const there = placed(TST_DEVICE, false, &call.c), *const a = placed(TST_DEVICE, false, &call.a);
    set_option("TILEBLAS_MEMORY_LIMIT", i % 2 ? "1300K" : "700K");
    tst_sided_make_on(&call, a, NULL, there);
    set_option("TILEBLAS_MEMORY_LIMIT", "0");
    if (!tst_cuda_read(TST_DEVICE, call.c.data, there, call.c.bytes)) return 2;
    expect_right(&call);
    tst_cuda_free(TST_DEVICE, a);
    tst_cuda_free(TST_DEVICE, there);
    tst_sided_destroy(&call);
  }
  tst_cuda_end(0);
  return gpu_calls() == 8 ? 0 : 3;
}

/* However B is cut: in blocks that go by slots, and whole where it lies. */
static int the_same_bits_anywhere(void *unused) {
  (void)unused;
  uint64_t rng = 8;
  tst_cuda_begin(0);
  set_option("TILEBLAS_ROUTE", "gpu");
  for (int i = 0; i < 8; i++) {
    /* ctrsm, ctrmm, dtrsm, ztrsm; those with A as it is stored, where it is aligned, and turned; and of several panels
     * where it lies */
    static const int routine[] = {6, 2, 5, 5, 7, 7, 5, 5};
    const int order = i < 6 ? 280 : 600, sides = i < 6 ? 1160 : 40;
    struct tst_sided_call call;
    create_variant(&call, routine[i], i, i % 2 ? sides : order, i % 2 ? order : sides, &rng);
    void *const there = placed(TST_DEVICE, false, &call.c), *const a = placed(TST_DEVICE, false, &call.a);
    tst_sided_make(&call);
    expect_right(&call);
    void *const first = malloc(call.c.bytes);
    if (first == NULL) return 1;
    memcpy(first, call.c.data, call.c.bytes);
    tst_sided_make_on(&call, a, NULL, there);
    if (!tst_cuda_read(TST_DEVICE, call.c.data, there, call.c.bytes)) return 2;
    if (memcmp(first, call.c.data, call.c.bytes) != 0) return 3;
    tst_cuda_free(TST_DEVICE, a);
    tst_cuda_free(TST_DEVICE, there);
    free(first);
    tst_sided_destroy(&call);
  }
  tst_cuda_end(0);
  return gpu_calls() == 16 ? 0 : 4;
}

/* ctrsm where B lies, of two leaves and an update, with one of that one's launches refused. 0: B is right; TOLD: it is
 * not; else what went wrong. */
enum { TOLD = 10, CTRSM = 6, ON_THE_LEFT = 0, OUT_OF_MEMORY = 2 };
static int one_launch_refused(void *number) {
  uint64_t rng = 11;
  struct tst_sided_call call;
  tst_cuda_begin(0);
  set_option("TILEBLAS_ROUTE", "gpu");
  create_variant(&call, CTRSM, ON_THE_LEFT, 280, 1160, &rng);
  void *const there = placed(TST_DEVICE, false, &call.c), *const a = placed(TST_DEVICE, false, &call.a);
  tst_fake()->inject("cuLaunchKernelEx", *(const unsigned *)number, OUT_OF_MEMORY, 0);
  tst_sided_make_on(&call, a, NULL, there);
  const uint64_t failures = tst_fake()->get(FAKE_CUDA_FAILURES);
  tst_fake()->clear_failures();
  if (!tst_cuda_read(TST_DEVICE, call.c.data, there, call.c.bytes)) return 2;
  tst_cuda_free(TST_DEVICE, a);
  tst_cuda_free(TST_DEVICE, there);
  tst_cuda_end(0);
  const bool right = tst_sided_wrong(&call) == NULL;
  tst_sided_destroy(&call);
  return failures != 1 ? 3 : right ? 0 : TOLD;
}

/* The first three pack and begin to write to B. With one of the others refused nobody knows what B is, and that is
 * said; with one of those the CPU has computed it. */
static void an_update_refused_in_its_midst(void **state) {
  enum { LAUNCHES = 6, UNTIL_IT_WRITES = 3 };
  (void)state;
  if (tst_fake() == NULL) TST_LEAVE_OUT("a real driver refuses no launch");
  for (unsigned number = 1; number <= LAUNCHES; number++) {
    struct tst_output o;
    tst_fork(&o, one_launch_refused, &number);
    const bool told = strstr(o.err, "a product is not computed") != NULL;
    if (o.status != (told ? TOLD : 0) || told != (number > UNTIL_IT_WRITES))
      fail_msg("launch %u: status %d\n%s%s", number, o.status, o.out, o.err);
    tst_output_destroy(&o);
  }
}

static void on_tensor_cores(void **state) {
  (void)state;
  struct tst_output o;
  set_option("TILEBLAS_VERBOSE", "1");
  tst_fork(&o, narrow_blocks_where_b_lies, NULL);
  if (o.status != 0) fail_msg("narrow blocks: status %d\n%s%s", o.status, o.out, o.err);
  tst_output_destroy(&o);
  tst_fork(&o, the_same_bits_anywhere, NULL);
  const size_t emulated = tst_count_lines(o.err, " emulated ");
  if (o.status != 0) fail_msg("status %d\n%s%s", o.status, o.out, o.err);
  tst_output_destroy(&o);
  if (tst_fake() != NULL) assert_int_equal(emulated, 4);
}

/* A block of a tall B comes down by columns, through slots of 2 MiB: more blocks than are wished. */
static void columns_longer_than_a_slot(void **state) {
  enum { ZTRSM = 7, ON_THE_RIGHT = 1, SLOT_ELEMS = (2 << 20) / 16, BLOCKS_WISHED = 6 };
  uint64_t rng = 9;
  struct tst_sided_call call;
  (void)state;
  if (TST_SANITIZED) return; /* it takes minutes */
  const int64_t begun = gpu_calls();
  create_variant(&call, ZTRSM, ON_THE_RIGHT, BLOCKS_WISHED * SLOT_ELEMS + 5000, 2, &rng);
  tst_sided_make(&call);
  expect_right(&call);
  tst_sided_destroy(&call);
  assert_int_equal(gpu_calls() - begun, 1);
}

/*
 *   test_triangular [--quick|solves|tensor|few]
 *     --quick  some variants alone: for orders of warps, the race detector and compute-sanitizer
 *     solves   and solves of numbers that are not harmless: for other kinds of GPUs
 *     tensor   on a GPU so small that products of the test's size are for the tensor cores
 */
int main(int argc, char **argv) {
  const struct CMUnitTest quick[] = {cmocka_unit_test(some_variants)};
  const struct CMUnitTest tensor[] = {cmocka_unit_test(on_tensor_cores),
                                      cmocka_unit_test(an_update_refused_in_its_midst)};
  const struct CMUnitTest solves[] = {
      cmocka_unit_test(some_variants),       cmocka_unit_test(triangles_that_let_grow),
      cmocka_unit_test(floats_overflow),     cmocka_unit_test(elements_that_cannot_be_divided),
      cmocka_unit_test(smallest_numerators), cmocka_unit_test(solved_beside_infinity),
  };
  const struct CMUnitTest few[] = {cmocka_unit_test(bits_by_large_tiles)};
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(operands_on_the_gpu),
      cmocka_unit_test(every_variant),
      cmocka_unit_test(every_spelling),
      cmocka_unit_test(several_blocks),
      cmocka_unit_test(little_memory),
      cmocka_unit_test(signals_come_in),
      cmocka_unit_test(triangles_that_let_grow),
      cmocka_unit_test(floats_overflow),
      cmocka_unit_test(elements_that_cannot_be_divided),
      cmocka_unit_test(smallest_numerators),
      cmocka_unit_test(solved_beside_infinity),
      cmocka_unit_test(bits_of_a_product),
      cmocka_unit_test(bits_beside_what_is_not_finite),
      cmocka_unit_test(what_is_not_finite_stays),
      cmocka_unit_test(columns_longer_than_a_slot),
  };
  if (argc > 1 && strcmp(argv[1], "tensor") == 0) return tst_result(cmocka_run_group_tests(tensor, NULL, NULL));
  if (argc > 1 && strcmp(argv[1], "solves") == 0) return tst_result(cmocka_run_group_tests(solves, NULL, NULL));
  if (argc > 1 && strcmp(argv[1], "few") == 0) return tst_result(cmocka_run_group_tests(few, NULL, NULL));
  if (argc > 1) return tst_result(cmocka_run_group_tests(quick, NULL, NULL));
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
