/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the numbers of a complex product may be: infinities and NaNs in operands, C and scalars, what must not be read
 * at all, overflow, subnormals, zeros with a sign; the answer of the GPU, and where BLAS libraries agree the CPU's.
 *
 * What is expected is a chain of real sums (kernels/PRECISION.md, "Complex"): the four real products; alpha, where it
 * is real, times each part of the sum; another one times the sum in zgemm, by the textbook's formula, and in cgemm
 * times A before the product; beta times C by the formula again, but for 0 and 1. Operands are small whole numbers, of
 * which every sum is exact, so a part is the one expected or it is wrong. A zero's sign is compared where BLAS
 * libraries agree about it.
 *
 * Seen to fail when: a beta of 1 multiplies C, in the program's memory and on the GPU; beta = 0 reads C; the imaginary
 * part of a real alpha, 0, multiplies; that of another does not; a conjugated A or B is not; all of alpha multiplies A
 * before cgemm's product; subnormals are flushed where A is made real.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complex_product.h"
#include "placed.h"
#include "process.h"
#include "tileblas.h"

/* ---- what is expected ---- */

/* Element (i, j) of the result, `before` being C's. */
static struct tst_number chain(const struct product *p, int64_t i, int64_t j, struct tst_number before) {
  const bool real = p->alpha.im == 0;
  struct tst_number sum = {0, 0};
  for (int64_t l = 0; l < p->k && tst_size_of(p->alpha) != 0; l++) {
    const struct tst_number a = stored(p, p->a, p->ta, i, l, p->lda), y = stored(p, p->b, p->tb, l, j, p->ldb);
    const struct tst_number x = real || doubles(p) ? a : tst_times(p->alpha, a), xy = tst_times(x, y);
    sum.re += xy.re, sum.im += xy.im;
  }
  if (!real && doubles(p) && p->k > 0) sum = tst_times(p->alpha, sum);
  if (real && p->k > 0 && tst_size_of(p->alpha) != 0) sum.re *= p->alpha.re, sum.im *= p->alpha.re;
  if (p->beta.re == 0 && p->beta.im == 0) return sum;
  const struct tst_number kept = p->beta.re == 1 && p->beta.im == 0 ? before : tst_times(p->beta, before);
  return (struct tst_number){sum.re + kept.re, sum.im + kept.im};
}

static bool same(long double x, long double y) { return isnan(x) ? isnan(y) : x == y; }

static void expect_chain(const struct product *p, const void *c, const char *what) {
  for (int64_t j = 0; j < p->n; j++)
    for (int64_t i = 0; i < p->m; i++) {
      const int64_t at = i + j * p->ldc;
      const struct tst_number got = element(doubles(p), c, at),
                              want = chain(p, i, j, element(doubles(p), p->before, at));
      if (!(same(got.re, want.re) && same(got.im, want.im)))
        fail_msg("%s: %c %c%c k %d alpha %Lg %+Lgi beta %Lg %+Lgi: (%d, %d) is %Lg %+Lgi, not %Lg %+Lgi", what,
                 doubles(p) ? 'z' : 'c', p->ta, p->tb, (int)p->k, p->alpha.re, p->alpha.im, p->beta.re, p->beta.im,
                 (int)i, (int)j, got.re, got.im, want.re, want.im);
    }
}

/* What the CPU BLAS has as a number is that number here; it may have NaN where a chain does not, for its alpha. */
static void expect_no_more_nans(const struct product *p, const void *ours, const void *theirs) {
  for (int64_t j = 0; j < p->n; j++)
    for (int64_t i = 0; i < p->m; i++) {
      const struct tst_number got = element(doubles(p), ours, i + j * p->ldc);
      const struct tst_number want = element(doubles(p), theirs, i + j * p->ldc);
      if (!((isnan(want.re) || got.re == want.re) && (isnan(want.im) || got.im == want.im)))
        fail_msg("%c %c%c k %d alpha %Lg %+Lgi beta %Lg %+Lgi: %Lg %+Lgi, and the CPU BLAS's is %Lg %+Lgi",
                 doubles(p) ? 'z' : 'c', p->ta, p->tb, (int)p->k, p->alpha.re, p->alpha.im, p->beta.re, p->beta.im,
                 got.re, got.im, want.re, want.im);
    }
}

/* ---- products ---- */

enum { TYPES = 2, TRANSPOSES = 9 };

/* Number i of each type with each pair of transposes: whole numbers, padded, with no special one yet. */
static struct product make(int i, int64_t k, struct tst_number alpha, struct tst_number beta) {
  uint64_t rng = (uint64_t)i + 1;
  struct product p = {.spelling = i % TYPES ? Z_CBLAS : C_CBLAS,
                      .whole = true,
                      .ta = "NTC"[i / TYPES % 3],
                      .tb = "NTC"[i / TYPES / 3 % 3],
                      .m = 7,
                      .n = 5,
                      .k = k,
                      .alpha = alpha,
                      .beta = beta};
  fill(&p, 3, &rng);
  return p;
}

/* Element (row, column) of op(A) or op(B). */
static void put_a(const struct product *p, int64_t row, int64_t column, struct tst_number x) {
  put_element(doubles(p), p->a, stored_by_rows(p, p->ta) ? column + row * p->lda : row + column * p->lda, x);
}
static void put_b(const struct product *p, int64_t row, int64_t column, struct tst_number x) {
  put_element(doubles(p), p->b, stored_by_rows(p, p->tb) ? column + row * p->ldb : row + column * p->ldb, x);
}

static void put_c(const struct product *p, struct tst_number x) {
  for (int64_t i = 0; i < p->c_count; i++) put_element(doubles(p), p->c, i, x);
  memcpy(p->before, p->c, (size_t)p->c_count * bytes(p));
}

static void check(struct product *p, const char *what) {
  call(p, p->a, p->b, p->c);
  expect_chain(p, p->c, what);
  destroy(p);
}

/* The same, and the CPU BLAS's answer beside it. */
static void check_both(struct product *p, const char *what) {
  void *const theirs = malloc((size_t)p->c_count * bytes(p));
  assert_non_null(theirs);
  memcpy(theirs, p->before, (size_t)p->c_count * bytes(p));
  set("TILEBLAS_ROUTE", "cpu");
  call(p, p->a, p->b, theirs);
  set("TILEBLAS_ROUTE", "gpu");
  call(p, p->a, p->b, p->c);
  expect_no_more_nans(p, p->c, theirs);
  expect_chain(p, p->c, what);
  free(theirs);
  destroy(p);
}

/* ---- tests ---- */

static const struct tst_number specials[] = {{INFINITY, 1}, {1, INFINITY}, {-INFINITY, INFINITY}, {NAN, 1}, {1, NAN}};
enum { SPECIALS = sizeof specials / sizeof *specials };

static void in_the_operands(void **state) {
  (void)state;
  const struct tst_number alphas[] = {{1, 0}, {-2, 0}, {2, -0.0L}, {0, 1}, {2, -1}};
  const int64_t begun = gpu_calls();
  for (int i = 0; i < TYPES * TRANSPOSES; i++)
    for (int s = 0; s < SPECIALS; s++)
      for (int a = 0; a < 5; a++) {
        struct product p = make(i, 6, alphas[a], (struct tst_number){0, 0});
        put_a(&p, 2, 3, specials[s]);
        check(&p, "A");
        p = make(i, 6, alphas[a], (struct tst_number){a, 1});
        put_b(&p, 3, 1, specials[s]);
        check(&p, "B");
      }
  assert_int_equal(gpu_calls() - begun, 2 * TYPES * TRANSPOSES * SPECIALS * 5);
}

/* In the program's memory, which the CPU commits. */
static void in_c(void **state) {
  (void)state;
  const struct tst_number betas[] = {{1, 0}, {1, -0.0L}, {2, 0}, {0, 1}, {0, 0}, {-0.0L, -0.0L}};
  for (int i = 0; i < TYPES * TRANSPOSES; i++)
    for (int s = 0; s < SPECIALS; s++)
      for (int b = 0; b < 6; b++)
        for (int a = 0; a < 3; a++) {
          struct product p = make(i, a == 2 ? 0 : 6, (struct tst_number){a != 0, 0}, betas[b]);
          put_c(&p, specials[s]);
          check_both(&p, "C");
        }
}

/* On the GPU, where a kernel commits. */
static int in_c_on_the_gpu(void *unused) {
  (void)unused;
  tst_cuda_begin(0);
  if (tileblas_option_set("TILEBLAS_ROUTE", "gpu") != 0) return 1;
  for (int i = 0; i < TYPES * 3; i++)
    for (int s = 0; s < SPECIALS; s++)
      for (int b = 0; b < 6; b++) {
        struct product p =
            make(i, 6, (struct tst_number){b % 2, 0}, (struct tst_number){b < 2 ? 1 : b - 3, b < 2 ? -0.0L : 0});
        put_c(&p, specials[s]);
        void *const c = tst_cuda_allocate(TST_DEVICE, (size_t)p.c_count * bytes(&p));
        tst_cuda_write(TST_DEVICE, c, p.c, (size_t)p.c_count * bytes(&p));
        call(&p, p.a, p.b, c);
        if (!tst_cuda_read(TST_DEVICE, p.c, c, (size_t)p.c_count * bytes(&p))) return 2;
        expect_chain(&p, p.c, "C on the GPU");
        tst_cuda_free(TST_DEVICE, c);
        destroy(&p);
      }
  tst_cuda_end(0);
  return 0;
}

static void in_c_of_the_gpu(void **state) {
  (void)state;
  tst_in_a_process(in_c_on_the_gpu, NULL, "C on the GPU");
}

/* With k = 0 alpha multiplies nothing. */
static void in_the_scalars(void **state) {
  (void)state;
  const struct tst_number scalars[] = {{NAN, 0}, {1, NAN}, {NAN, NAN}, {INFINITY, 0}, {0, -INFINITY}, {INFINITY, 2}};
  for (int i = 0; i < TYPES * TRANSPOSES; i++)
    for (int s = 0; s < 6; s++)
      for (int64_t k = 0; k <= 6; k += 6) {
        struct product p = make(i, k, scalars[s], (struct tst_number){s % 2, 0});
        check(&p, "alpha");
        p = make(i, k, (struct tst_number){1, 0}, scalars[s]);
        check(&p, "beta");
      }
}

/* NaN everywhere in what is not read. */
static void unread(void **state) {
  (void)state;
  for (int i = 0; i < TYPES * TRANSPOSES; i++) {
    struct product p = make(i, 6, (struct tst_number){0, -0.0L}, (struct tst_number){2, 1});
    for (int64_t x = 0; x < p.a_count; x++) put_element(doubles(&p), p.a, x, (struct tst_number){NAN, NAN});
    for (int64_t x = 0; x < p.b_count; x++) put_element(doubles(&p), p.b, x, (struct tst_number){NAN, NAN});
    check_both(&p, "alpha 0");
    p = make(i, 6, (struct tst_number){1, 2}, (struct tst_number){-0.0L, 0});
    put_c(&p, (struct tst_number){NAN, NAN});
    check_both(&p, "beta 0");
  }
}

/* NaN of one row of A comes through there, and from nowhere else. */
static void one_row(void **state) {
  (void)state;
  for (int i = 0; i < TYPES * TRANSPOSES; i++) {
    struct product p = make(i, 33, (struct tst_number){1, 0}, (struct tst_number){0, 0});
    put_a(&p, 4, 5, (struct tst_number){NAN, 1});
    call(&p, p.a, p.b, p.c);
    for (int64_t j = 0; j < p.n; j++)
      for (int64_t row = 0; row < p.m; row++) {
        const struct tst_number got = element(doubles(&p), p.c, row + j * p.ldc);
        assert_int_equal(isnan(got.re) && isnan(got.im), row == 4);
      }
    destroy(&p);
  }
}

/* ---- sizes of numbers ---- */

/* a, b and alpha, in parts that are powers of two or 0, and what a b alpha is: exponents of cgemm and of zgemm. */
struct single {
  struct tst_number a, b, alpha, result;
};

static void expect_single(int spelling, const struct single *s) {
  uint64_t rng = 1;
  struct product p = {.spelling = spelling, .ta = 'N', .tb = 'N', .m = 3, .n = 3, .k = 1, .alpha = s->alpha};
  fill(&p, 0, &rng);
  for (int64_t i = 0; i < 3; i++) put_a(&p, i, 0, s->a), put_b(&p, 0, i, s->b);
  call(&p, p.a, p.b, p.c);
  const struct tst_number got = element(doubles(&p), p.c, 0);
  if (!(same(got.re, s->result.re) && same(got.im, s->result.im)))
    fail_msg("%c: (%La, %La) (%La, %La) alpha (%La, %La) is (%La, %La), not (%La, %La)", doubles(&p) ? 'z' : 'c',
             s->a.re, s->a.im, s->b.re, s->b.im, s->alpha.re, s->alpha.im, got.re, got.im, s->result.re, s->result.im);
  destroy(&p);
}

/* 2^e, of cgemm's and of zgemm's exponents. */
#define BIG (big[type])
#define LEAST (least[type])

static void large_and_small(void **state) {
  (void)state;
  const long double big[] = {0x1p100L, 0x1p800L}, least[] = {0x1p-149L, 0x1p-1074L};
  for (int type = 0; type < TYPES; type++) {
    const struct single singles[] = {
        /* Overflow of one part leaves the other alone. */
        {{BIG, 0}, {BIG, 1}, {1, 0}, {INFINITY, BIG}},
        {{0, BIG}, {1, BIG}, {1, 0}, {-INFINITY, BIG}},
        {{BIG, 0}, {0, -1}, {BIG, 0}, {0, -INFINITY}},
        /* Subnormals: kept, made, rounded to even among them. */
        {{LEAST, 3 * LEAST}, {1, 0}, {1, 0}, {LEAST, 3 * LEAST}},
        {{LEAST, 3 * LEAST}, {0, 1}, {1, 0}, {-3 * LEAST, LEAST}},
        {{1 / BIG, 0}, {0, BIG * LEAST}, {1, 0}, {0, LEAST}},
        {{LEAST, 3 * LEAST}, {0.5L, 0}, {1, 0}, {0, 2 * LEAST}},
        {{LEAST, 3 * LEAST}, {1, 0}, {BIG, 0}, {BIG * LEAST, 3 * BIG * LEAST}},
        {{LEAST, 3 * LEAST}, {1, 0}, {0, BIG}, {-3 * BIG * LEAST, BIG * LEAST}},
        /* An alpha that is not real: what it is multiplied by first neither overflows nor loses bits. */
        {{BIG, 0}, {1 / BIG, 0}, {BIG, BIG}, {BIG, BIG}},
        {{1 / BIG, 0}, {BIG, 0}, {BIG, -BIG}, {BIG, -BIG}},
        {{0, BIG}, {1 / BIG, 0}, {0, BIG}, {-BIG, 0}},
        {{1.25L / BIG, 0}, {BIG, 0}, {1 / BIG, 1.5L / BIG}, {1.25L / BIG, 1.875L / BIG}},
        {{1, 0}, {1, 0}, {LEAST, 2 * LEAST}, {LEAST, 2 * LEAST}},
        {{1, 1}, {1, 0}, {BIG, LEAST}, {BIG, BIG}},
    };
    for (size_t i = 0; i < sizeof singles / sizeof *singles; i++) expect_single(type ? Z_CBLAS : C_CBLAS, &singles[i]);
  }
}

/* The sign of a zero where all BLAS libraries give the same one. */
static void zeros(void **state) {
  (void)state;
  const struct {
    struct tst_number alpha, beta, a, b, c;
    bool minus[2];
  } cases[] = {
      {{0, 0}, {1, 0}, {1, 1}, {1, 1}, {-0.0L, -0.0L}, {true, true}}, /* C stays as it is */
      {{0, 0}, {-1, 0}, {1, 1}, {1, 1}, {0, 0}, {true, false}},
      {{1, 0}, {0, 0}, {-0.0L, -0.0L}, {1, 0}, {0, 0}, {false, false}}, /* a sum begins with +0 */
  };
  for (size_t i = 0; i < TYPES * sizeof cases / sizeof *cases; i++) {
    struct product p = make((int)i % TYPES, 4, cases[i / TYPES].alpha, cases[i / TYPES].beta);
    for (int64_t x = 0; x < p.a_count; x++) put_element(doubles(&p), p.a, x, cases[i / TYPES].a);
    for (int64_t x = 0; x < p.b_count; x++) put_element(doubles(&p), p.b, x, cases[i / TYPES].b);
    put_c(&p, cases[i / TYPES].c);
    call(&p, p.a, p.b, p.c);
    const struct tst_number got = element(doubles(&p), p.c, 0);
    assert_true(got.re == 0 && got.im == 0);
    assert_int_equal(signbit(got.re) != 0, cases[i / TYPES].minus[0]);
    assert_int_equal(signbit(got.im) != 0, cases[i / TYPES].minus[1]);
    destroy(&p);
  }
}

static int on_the_gpu(void **state) {
  (void)state;
  return tileblas_option_set("TILEBLAS_ROUTE", "gpu");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(in_c_of_the_gpu), /* first: the child has a GPU of its own */
      cmocka_unit_test(in_the_operands), cmocka_unit_test(in_c),    cmocka_unit_test(in_the_scalars),
      cmocka_unit_test(unread),          cmocka_unit_test(one_row), cmocka_unit_test(large_and_small),
      cmocka_unit_test(zeros),
  };
  return cmocka_run_group_tests(tests, on_the_gpu, NULL);
}
