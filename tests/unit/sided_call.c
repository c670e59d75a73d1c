/* SPDX-License-Identifier: BSD-3-Clause */
#include "sided_call.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "rng.h"

static const char *const routines[TST_SIDED_ROUTINES] = {"ssymm", "dsymm", "csymm", "zsymm", "chemm", "zhemm", "strmm",
                                                         "dtrmm", "ctrmm", "ztrmm", "strsm", "dtrsm", "ctrsm", "ztrsm"};

void tst_sided_find(int number, struct tst_typed_name *name) {
  tst_typed_find(name, routines, TST_SIDED_ROUTINES, number);
  const char *const letters = name->routine;
  name->shape = letters[1] == 's' ? SYMM : letters[1] == 'h' ? HEMM : letters[3] == 'm' ? TRMM : TRSM;
}

static bool is_double(const struct tst_sided_call *p) { return tst_typed_is_double(&p->name); }
static bool is_complex(const struct tst_sided_call *p) { return tst_typed_is_complex(&p->name); }
static bool is_triangular(const struct tst_sided_call *p) { return p->name.shape >= TRMM; }
static char upper(char letter) { return (char)toupper((unsigned char)letter); }

int64_t tst_sided_order(const struct tst_sided_call *p) { return upper(p->side) == 'L' ? p->m : p->n; }

/* ---- elements ---- */

static int64_t place_of(const struct tst_sided_call *p, int64_t i, int64_t j, int64_t ld) {
  return p->row_major ? j + i * ld : i + j * ld;
}

static struct tst_number element(const struct tst_sided_call *p, const void *data, int64_t i, int64_t j, int64_t ld) {
  return tst_typed_number(&p->name, data, place_of(p, i, j, ld));
}

static bool is_stored(const struct tst_sided_call *p, int64_t i, int64_t j) {
  return upper(p->uplo) == 'U' ? i <= j : i >= j;
}

static bool is_unit(const struct tst_sided_call *p) { return is_triangular(p) && upper(p->diag) == 'U'; }

/* Element (i, j) of A as it is meant. */
static struct tst_number meant(const struct tst_sided_call *p, int64_t i, int64_t j) {
  const char trans = is_triangular(p) ? upper(p->trans) : 'N';
  const int64_t row = trans == 'N' ? i : j, column = trans == 'N' ? j : i;
  const bool stored = is_stored(p, row, column);
  if (is_triangular(p) && !stored) return (struct tst_number){0, 0};
  if (is_unit(p) && i == j) return (struct tst_number){1, 0};
  struct tst_number x =
      stored ? element(p, p->a.data, row, column, p->lda) : element(p, p->a.data, column, row, p->lda);
  if (trans == 'C' || (p->name.shape == HEMM && !stored)) x.im = -x.im;
  if (p->name.shape == HEMM && i == j) x.im = 0;
  return x;
}

/* ---- making ---- */

static void fill(const struct tst_sided_call *p, struct tst_typed_memory *x, int64_t rows, int64_t columns, int64_t ld,
                 bool poisoned, uint64_t *rng) {
  tst_typed_fill(&p->name, x, p->row_major ? rows : columns, p->row_major ? columns : rows, ld, poisoned, rng);
}

/* What of A is not read; and a triangle that is to be solved with is kept from growth. */
static void shape_a(const struct tst_sided_call *p) {
  const int64_t order = tst_sided_order(p);
  for (int64_t i = 0; i < order; i++)
    for (int64_t j = 0; j < order; j++)
      for (int part = 0; part < 1 + is_complex(p); part++) {
        const int64_t at = place_of(p, i, j, p->lda);
        const double x = tst_typed_get(&p->name, p->a.data, at, part);
        if (!is_stored(p, i, j) || (is_unit(p) && i == j) || (p->name.shape == HEMM && i == j && part == 1))
          tst_typed_set(&p->name, p->a.data, at, part, NAN);
        else if (p->name.shape == TRSM)
          tst_typed_set(&p->name, p->a.data, at, part, i == j ? x + 2 * (part == 0) : x / (double)order);
      }
}

static void poison_c(const struct tst_sided_call *p) {
  for (int64_t i = 0; i < p->m; i++)
    for (int64_t j = 0; j < p->n; j++)
      for (int part = 0; part < 1 + is_complex(p); part++)
        tst_typed_set(&p->name, p->c.data, place_of(p, i, j, p->ldc), part, NAN);
}

static void choose_scalar(double x[2], bool real, uint64_t *rng) {
  static const double scalars[] = {1, 0, -2.5, 0.75, -0.0};
  const int64_t which = tst_random_below(rng, 5);
  x[0] = scalars[which];
  x[1] = !real && which > 1 && tst_random_below(rng, 2) ? 0.375 : 0;
}

/* letters: of the side, the triangle, the transpose and the diagonal, or NULL. */
static void create(struct tst_sided_call *p, int number, const char *letters, int64_t m, int64_t n, bool multiplies,
                   uint64_t *rng) {
  *p = (struct tst_sided_call){.m = m, .n = n};
  tst_sided_find(number, &p->name);
  p->row_major = p->name.cblas && tst_random_below(rng, 2);
  p->side = tst_typed_letter(&p->name, "LR", rng);
  p->uplo = tst_typed_letter(&p->name, "UL", rng);
  p->trans = tst_typed_letter(&p->name, "NTC", rng);
  p->diag = tst_typed_letter(&p->name, "NU", rng);
  if (letters != NULL) p->side = letters[0], p->uplo = letters[1], p->trans = letters[2], p->diag = letters[3];
  do choose_scalar(p->alpha, !is_complex(p), rng);
  while (multiplies && tst_is_zero(p->alpha));
  if (!is_triangular(p)) choose_scalar(p->beta, !is_complex(p), rng);
  const int64_t order = tst_sided_order(p), line = p->row_major ? n : m;
  p->lda = order + tst_random_below(rng, 4);
  p->ldc = line + tst_random_below(rng, 4);
  p->ldb = is_triangular(p) ? p->ldc : line + tst_random_below(rng, 4);
  fill(p, &p->a, order, order, p->lda, tst_is_zero(p->alpha), rng);
  shape_a(p);
  if (!is_triangular(p)) fill(p, &p->b, m, n, p->ldb, tst_is_zero(p->alpha), rng);
  fill(p, &p->c, m, n, p->ldc, false, rng);
  if (is_triangular(p) ? tst_is_zero(p->alpha) : tst_is_zero(p->beta)) poison_c(p);
  struct tst_typed_memory *const all[] = {&p->a, &p->b, &p->c};
  tst_typed_keep(all);
}

void tst_sided_create(struct tst_sided_call *p, int number, int64_t most, uint64_t *rng) {
  const int64_t m = 1 + tst_random_below(rng, most);
  create(p, number, NULL, m, 1 + tst_random_below(rng, most), false, rng);
}

void tst_sided_create_sized(struct tst_sided_call *p, int number, int64_t m, int64_t n, uint64_t *rng) {
  create(p, number, NULL, m, n, true, rng);
}

void tst_sided_create_as(struct tst_sided_call *p, int number, const char *letters, int64_t order, int64_t other,
                         uint64_t *rng) {
  const bool left = letters[0] == 'L';
  create(p, number, letters, left ? order : other, left ? other : order, true, rng);
}

void tst_sided_destroy(struct tst_sided_call *p) {
  struct tst_typed_memory *const all[] = {&p->a, &p->b, &p->c};
  tst_typed_free(all);
}

void tst_sided_restore(struct tst_sided_call *p) { memcpy(p->c.data, p->c.before, p->c.bytes); }

/* ---- calling ---- */

typedef int64_t integer;
#define CBLAS_SYMM(scalar)                                                                                         \
  (void (*)(int, int, int, integer, integer, scalar, const void *, integer, const void *, integer, scalar, void *, \
            integer))
#define CBLAS_TRMM(scalar) \
  (void (*)(int, int, int, int, int, integer, integer, scalar, const void *, integer, void *, integer))

/* By cblas.h's numbers, from the first letter's on; '+' is the number behind, and any other letter 0. */
static int said(char letter, const char letters[2], int first) {
  return letter == letters[0] ? first : letter == letters[1] ? first + 1 : letter == '+' ? first + 2 : 0;
}

static void make_cblas(const struct tst_sided_call *p, const void *a, const void *b, void *c) {
  const union tst_scalar x = tst_typed_scalar(&p->name, p->alpha), y = tst_typed_scalar(&p->name, p->beta);
  const int layout = p->row_major ? 101 : 102, side = said(p->side, "LR", 141), uplo = said(p->uplo, "UL", 121);
  const int diag = said(p->diag, "NU", 131);
  const int trans = p->trans == 'N' ? 111 : p->trans == 'T' ? 112 : p->trans == 'C' ? 113 : 0;
  const integer m = tst_typed_passed(&p->name, p->m), n = tst_typed_passed(&p->name, p->n),
                lda = tst_typed_passed(&p->name, p->lda), ldb = tst_typed_passed(&p->name, p->ldb);
  const integer ldc = tst_typed_passed(&p->name, p->ldc);
  void *const f = p->name.function;
#define CALL(alpha, beta, scalar)                                                                          \
  (is_triangular(p) ? (CBLAS_TRMM(scalar) f)(layout, side, uplo, trans, diag, m, n, alpha, a, lda, c, ldc) \
                    : (CBLAS_SYMM(scalar) f)(layout, side, uplo, m, n, alpha, a, lda, b, ldb, beta, c, ldc))
  if (is_complex(p))
    CALL(&x, &y, const void *);
  else if (is_double(p))
    CALL(x.d[0], y.d[0], double);
  else
    CALL(x.s[0], y.s[0], float);
#undef CALL
}

static void make_fortran(const struct tst_sided_call *p, const void *a, const void *b, void *c) {
  const union tst_scalar x = tst_typed_scalar(&p->name, p->alpha), y = tst_typed_scalar(&p->name, p->beta);
  const integer s[] = {tst_typed_passed(&p->name, p->m), tst_typed_passed(&p->name, p->n),
                       tst_typed_passed(&p->name, p->lda), tst_typed_passed(&p->name, p->ldb),
                       tst_typed_passed(&p->name, p->ldc)};
  if (is_triangular(p))
    ((void (*)(const char *, const char *, const char *, const char *, const integer *, const integer *, const void *,
               const void *, const integer *, void *, const integer *, size_t, size_t, size_t,
               size_t))p->name.function)(&p->side, &p->uplo, &p->trans, &p->diag, &s[0], &s[1], &x, a, &s[2], c, &s[4],
                                         1, 1, 1, 1);
  else
    ((void (*)(const char *, const char *, const integer *, const integer *, const void *, const void *,
               const integer *, const void *, const integer *, const void *, void *, const integer *, size_t,
               size_t))p->name.function)(&p->side, &p->uplo, &s[0], &s[1], &x, a, &s[2], b, &s[3], &y, c, &s[4], 1, 1);
}

void tst_sided_make_on(const struct tst_sided_call *p, const void *a, const void *b, void *c) {
  if (p->name.cblas)
    make_cblas(p, a, b, c);
  else
    make_fortran(p, a, b, c);
}

void tst_sided_make(const struct tst_sided_call *p) { tst_sided_make_on(p, p->a.data, p->b.data, p->c.data); }

/* ---- verifying ---- */

/* What an element's terms are made of: A as it is meant, and the X that it is multiplied with; one behind another for
 * each row of the product, or each column, of the left factor or the right one. */
struct factors {
  struct tst_factors a, x;
};

static void create_factors(struct factors *f, const struct tst_sided_call *p) {
  const int64_t order = tst_sided_order(p), others = p->m + p->n - order;
  const bool left = upper(p->side) == 'L', of_c = is_triangular(p);
  const void *const x = p->name.shape == TRSM ? p->c.data : of_c ? p->c.before : p->b.data;
  const int64_t ld = of_c ? p->ldc : p->ldb;
  f->a = tst_factors_make(order * order, is_complex(p)), f->x = tst_factors_make(others * order, is_complex(p));
  for (int64_t i = 0; i < order; i++)
    for (int64_t l = 0; l < order; l++) tst_factors_put(&f->a, i * order + l, left ? meant(p, i, l) : meant(p, l, i));
  for (int64_t j = 0; j < others; j++)
    for (int64_t l = 0; l < order; l++)
      tst_factors_put(&f->x, j * order + l, left ? element(p, x, l, j, ld) : element(p, x, j, l, ld));
}

/* Element (i, j) of A X or X A; the size of its terms is added to *size. */
static struct tst_number product_of(const struct tst_sided_call *p, const struct factors *f, int64_t i, int64_t j,
                                    long double *size) {
  const int64_t order = tst_sided_order(p);
  const bool left = upper(p->side) == 'L';
  return tst_sum_of_terms(&f->a, (left ? i : j) * order, &f->x, (left ? j : i) * order, order, !is_double(p), size);
}

/* How far an element of C, or of a residual, is off: of the largest that it may be. */
static bool is_right(const struct tst_sided_call *p, const struct factors *f, int64_t i, int64_t j) {
  const long double unit = is_double(p) ? 0x1p-53L : 0x1p-24L;
  const struct tst_number alpha = tst_number_of(p->alpha), c = element(p, p->c.data, i, j, p->ldc);
  const bool empty = tst_is_zero(p->alpha), solves = p->name.shape == TRSM;
  long double size = 0;
  struct tst_number want = {0, 0}, got = c;
  if (solves && !empty) {
    got = product_of(p, f, i, j, &size);
    const struct tst_number b = element(p, p->c.before, i, j, p->ldc);
    want = tst_times(alpha, b);
    size += tst_size_of(alpha) * tst_size_of(b);
  } else if (!empty) {
    want = tst_times(alpha, product_of(p, f, i, j, &size));
    size *= tst_size_of(alpha);
  }
  if (!tst_is_zero(p->beta)) {
    const struct tst_number kept = element(p, p->c.before, i, j, p->ldc),
                            part = tst_times(tst_number_of(p->beta), kept);
    want.re += part.re, want.im += part.im;
    size += tst_size_of(tst_number_of(p->beta)) * tst_size_of(kept);
  }
  const long double bound = (long double)(2 * tst_sided_order(p) + 10) * unit * size;
  return fabsl(got.re - want.re) <= bound && fabsl(got.im - want.im) <= bound;
}

static const char *where(const struct tst_sided_call *p, const char *what, int64_t i, int64_t j) {
  static _Thread_local char text[240];
  snprintf(text, sizeof text, "%s%s %c%c%c%c m=%d n=%d lda=%d ldb=%d ldc=%d alpha=%g%+gi beta=%g%+gi: (%d, %d) %s",
           p->name.name, p->row_major ? " row-major" : "", p->side, p->uplo, p->trans, p->diag, (int)p->m, (int)p->n,
           (int)p->lda, (int)p->ldb, (int)p->ldc, p->alpha[0], p->alpha[1], p->beta[0], p->beta[1], (int)i, (int)j,
           what);
  return text;
}

static const char *first_wrong(const struct tst_sided_call *p, const struct factors *f) {
  const int64_t len = p->row_major ? p->n : p->m, lines = p->row_major ? p->m : p->n;
  for (int64_t at = 0; at < (lines + 1) * p->ldc; at++) {
    const int64_t row = at % p->ldc, line = at / p->ldc, i = p->row_major ? line : row, j = p->row_major ? row : line;
    if (row < len && line < lines) {
      if (!is_right(p, f, i, j)) return where(p, "is wrong", i, j);
    } else if (!tst_typed_is_as_it_was(&p->name, &p->c, at)) {
      return where(p, "is padding, and was written", i, j);
    }
  }
  if (memcmp(p->a.data, p->a.before, p->a.bytes) != 0) return where(p, "A was written", 0, 0);
  return p->b.data != NULL && memcmp(p->b.data, p->b.before, p->b.bytes) != 0 ? where(p, "B was written", 0, 0) : NULL;
}

const char *tst_sided_wrong(const struct tst_sided_call *p) {
  struct factors f;
  create_factors(&f, p);
  const char *const wrong = first_wrong(p, &f);
  tst_factors_free(&f.a), tst_factors_free(&f.x);
  return wrong;
}
