/* SPDX-License-Identifier: BSD-3-Clause */
#include "complex_product.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rng.h"
#include "tileblas.h"

typedef void cblas_function(int, int, int, int64_t, int64_t, int64_t, const void *, const void *, int64_t, const void *,
                            int64_t, const void *, void *, int64_t);
typedef void fortran_function(const char *, const char *, const void *, const void *, const void *, const void *,
                              const void *, const void *, const void *, const void *, const void *, void *,
                              const void *);

#define SPELLINGS_OF(x, routine, cblas, fortran)                                                             \
  cblas(x, 32, cblas_##routine) cblas(x, 32, scipy_cblas_##routine) cblas(x, 64, cblas_##routine##64_)       \
      cblas(x, 64, cblas_##routine##_64) cblas(x, 64, scipy_cblas_##routine##64_) fortran(x, 32, routine##_) \
          fortran(x, 32, scipy_##routine##_) fortran(x, 64, routine##_64_) fortran(x, 64, routine##_64)      \
              fortran(x, 64, scipy_##routine##_64_)
#define SPELLINGS(x, cblas, fortran) SPELLINGS_OF(x, x##gemm, cblas, fortran) SPELLINGS_OF(x, x##gemm3m, cblas, fortran)
#define DECLARE_CBLAS(x, bits, name) extern cblas_function name;
#define DECLARE_FORTRAN(x, bits, name) extern fortran_function name;
SPELLINGS(c, DECLARE_CBLAS, DECLARE_FORTRAN)
SPELLINGS(z, DECLARE_CBLAS, DECLARE_FORTRAN)
#define ROW_CBLAS(x, bits, name) {#name, #x[0] == 'z', bits, name, NULL},
#define ROW_FORTRAN(x, bits, name) {#name, #x[0] == 'z', bits, NULL, name},
static const struct {
  const char *name;
  bool doubles;
  int bits;
  cblas_function *cblas;
  fortran_function *fortran;
} spellings[] = {SPELLINGS(c, ROW_CBLAS, ROW_FORTRAN) SPELLINGS(z, ROW_CBLAS, ROW_FORTRAN)};
_Static_assert(sizeof spellings / sizeof *spellings == COUNT, "as many as the header says");

/* ---- one product ---- */

bool doubles(const struct product *p) { return spellings[p->spelling].doubles; }
size_t bytes(const struct product *p) { return doubles(p) ? 2 * sizeof(double) : 2 * sizeof(float); }

void put_element(bool is_double, void *x, int64_t i, struct tst_number value) {
  if (is_double)
    ((double *)x)[2 * i] = (double)value.re, ((double *)x)[2 * i + 1] = (double)value.im;
  else
    ((float *)x)[2 * i] = (float)value.re, ((float *)x)[2 * i + 1] = (float)value.im;
}

struct tst_number element(bool is_double, const void *x, int64_t i) {
  if (is_double) return (struct tst_number){((const double *)x)[2 * i], ((const double *)x)[2 * i + 1]};
  return (struct tst_number){((const float *)x)[2 * i], ((const float *)x)[2 * i + 1]};
}

static long double number(bool whole, uint64_t *rng) {
  if (whole) return (long double)tst_random_below(rng, 9) - 4;
  return ((long double)tst_random_below(rng, 1 << 20) - (1 << 19)) * 0x1p-20L;
}

static void *numbers(const struct product *p, int64_t count, uint64_t *rng) {
  void *x = malloc((size_t)count * bytes(p));
  assert_non_null(x);
  for (int64_t i = 0; i < count; i++) {
    const long double re = number(p->whole, rng);
    put_element(doubles(p), x, i, (struct tst_number){re, number(p->whole, rng)});
  }
  return x;
}

bool stored_by_rows(const struct product *p, char trans) { return (trans != 'N') != p->row_major; }

void fill(struct product *p, int64_t longer, uint64_t *rng) {
  const int64_t a_rows = stored_by_rows(p, p->ta) ? p->k : p->m, a_columns = stored_by_rows(p, p->ta) ? p->m : p->k;
  const int64_t b_rows = stored_by_rows(p, p->tb) ? p->n : p->k, b_columns = stored_by_rows(p, p->tb) ? p->k : p->n;
  const int64_t c_rows = p->row_major ? p->n : p->m, c_columns = p->row_major ? p->m : p->n;
  p->lda = a_rows + longer, p->ldb = b_rows + longer / 2, p->ldc = c_rows + longer;
  p->a_count = p->lda * a_columns, p->b_count = p->ldb * b_columns, p->c_count = p->ldc * (c_columns + 1);
  p->a = numbers(p, p->a_count, rng), p->b = numbers(p, p->b_count, rng), p->c = numbers(p, p->c_count, rng);
  if (p->beta.re == 0 && p->beta.im == 0)
    for (int64_t i = 0; i < p->c_count; i++) put_element(doubles(p), p->c, i, (struct tst_number){NAN, INFINITY});
  p->before = malloc((size_t)p->c_count * bytes(p));
  assert_non_null(p->before);
  memcpy(p->before, p->c, (size_t)p->c_count * bytes(p));
}

struct product random_product(int spelling, int64_t most, uint64_t *rng) {
  static const struct tst_number scalars[] = {{1, 0}, {0, 0},  {-2, 0},
                                              {0, 1}, {3, -2}, {-0.0L, -0.0L}}; /* a zero of any sign reads nothing */
  struct product p = {.spelling = spelling,
                      .row_major = spellings[spelling].cblas != NULL && tst_random_below(rng, 2) == 1,
                      .whole = tst_random_below(rng, 2) == 1,
                      .ta = "NTC"[tst_random_below(rng, 3)],
                      .tb = "NTC"[tst_random_below(rng, 3)],
                      .m = 1 + tst_random_below(rng, most),
                      .n = 1 + tst_random_below(rng, most),
                      .k = 1 + tst_random_below(rng, most),
                      .alpha = scalars[tst_random_below(rng, 6)],
                      .beta = scalars[tst_random_below(rng, 6)]};
  fill(&p, tst_random_below(rng, 4), rng);
  return p;
}

void destroy(struct product *p) { free(p->a), free(p->b), free(p->c), free(p->before); }

static int cblas_of(char trans) { return trans == 'N' ? 111 : trans == 'T' ? 112 : 113; }

void call(const struct product *p, const void *a, const void *b, void *c) {
  const int64_t s[6] = {p->m, p->n, p->k, p->lda, p->ldb, p->ldc};
  const int32_t n[6] = {(int32_t)s[0], (int32_t)s[1], (int32_t)s[2], (int32_t)s[3], (int32_t)s[4], (int32_t)s[5]};
  const void *at[6];
  double alpha[2], beta[2];
  put_element(doubles(p), alpha, 0, p->alpha), put_element(doubles(p), beta, 0, p->beta);
  for (int i = 0; i < 6; i++) at[i] = spellings[p->spelling].bits == 64 ? (const void *)&s[i] : (const void *)&n[i];
  if (spellings[p->spelling].cblas != NULL)
    spellings[p->spelling].cblas(p->row_major ? 101 : 102, cblas_of(p->ta), cblas_of(p->tb), s[0], s[1], s[2], alpha, a,
                                 s[3], b, s[4], beta, c, s[5]);
  else
    spellings[p->spelling].fortran(&p->ta, &p->tb, at[0], at[1], at[2], alpha, a, at[3], b, at[4], beta, c, at[5]);
}

struct tst_number stored(const struct product *p, const void *x, char trans, int64_t row, int64_t column, int64_t ld) {
  struct tst_number e = element(doubles(p), x, stored_by_rows(p, trans) ? column + row * ld : row + column * ld);
  if (trans == 'C') e.im = -e.im;
  return e;
}

/* The factors of each element's terms, one behind another for every row and column of C. */
struct factors {
  struct tst_factors x, y;
};

static void create_factors(struct factors *f, const struct product *p) {
  f->x = tst_factors_make(p->m * p->k, true), f->y = tst_factors_make(p->n * p->k, true);
  for (int64_t l = 0; l < p->k; l++) {
    for (int64_t i = 0; i < p->m; i++) tst_factors_put(&f->x, i * p->k + l, stored(p, p->a, p->ta, i, l, p->lda));
    for (int64_t j = 0; j < p->n; j++) tst_factors_put(&f->y, j * p->k + l, stored(p, p->b, p->tb, l, j, p->ldb));
  }
}

/* Element (i, j) of the result; *size: of all that is added, by absolute values. */
static struct tst_number expected(const struct product *p, const struct factors *f, int64_t i, int64_t j, int64_t at,
                                  long double *size) {
  *size = 0;
  const struct tst_number sum =
      tst_times(p->alpha, tst_sum_of_terms(&f->x, i * p->k, &f->y, j * p->k, p->k, !doubles(p), size));
  *size *= tst_size_of(p->alpha);
  if (tst_size_of(p->beta) == 0) return sum;
  const struct tst_number c = element(doubles(p), p->before, at), kept = tst_times(p->beta, c);
  *size += tst_size_of(p->beta) * tst_size_of(c);
  return (struct tst_number){sum.re + kept.re, sum.im + kept.im};
}

void expect_right(const struct product *p, const void *c) {
  struct factors f;
  create_factors(&f, p);
  const int64_t rows = p->row_major ? p->n : p->m, columns = p->row_major ? p->m : p->n;
  const long double unit = doubles(p) ? 0x1p-53L : 0x1p-24L;
  for (int64_t at = 0; at < p->c_count; at++) {
    const int64_t row = at % p->ldc, column = at / p->ldc;
    if (row >= rows || column >= columns) {
      if (memcmp((const char *)c + at * bytes(p), (const char *)p->before + at * bytes(p), bytes(p)) != 0)
        fail_msg("%s wrote padding", spellings[p->spelling].name);
      continue;
    }
    long double size;
    const struct tst_number got = element(doubles(p), c, at);
    const struct tst_number want = expected(p, &f, p->row_major ? column : row, p->row_major ? row : column, at, &size);
    const long double most = p->whole ? 0 : (long double)(2 * p->k + 8) * unit * size;
    if (!(fabsl(got.re - want.re) <= most && fabsl(got.im - want.im) <= most))
      fail_msg("%s %c%c %d x %d x %d alpha %Lg %+Lgi beta %Lg %+Lgi: (%d, %d) is %.9Lg %+.9Lgi, not %.9Lg %+.9Lgi",
               spellings[p->spelling].name, p->ta, p->tb, (int)p->m, (int)p->n, (int)p->k, p->alpha.re, p->alpha.im,
               p->beta.re, p->beta.im, (int)row, (int)column, got.re, got.im, want.re, want.im);
  }
  tst_factors_free(&f.x), tst_factors_free(&f.y);
}

int64_t gpu_calls(void) {
  tileblas_stats stats;
  tileblas_stats_get(&stats);
  return (int64_t)stats.gpu_calls;
}

void set(const char *option, const char *value) { assert_int_equal(tileblas_option_set(option, value), 0); }
