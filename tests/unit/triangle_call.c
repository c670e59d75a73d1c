/* SPDX-License-Identifier: BSD-3-Clause */
#include "triangle_call.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "rng.h"

static const char *const routines[TST_TRIANGLE_ROUTINES] = {
    "sgemmt", "dgemmt", "cgemmt", "zgemmt", "sgemmtr", "dgemmtr", "cgemmtr", "zgemmtr", "ssyrk",  "dsyrk",
    "csyrk",  "zsyrk",  "cherk",  "zherk",  "ssyr2k",  "dsyr2k",  "csyr2k",  "zsyr2k",  "cher2k", "zher2k"};

void tst_triangle_find(int number, struct tst_typed_name *name) {
  tst_typed_find(name, routines, TST_TRIANGLE_ROUTINES, number);
  name->shape = strstr(name->routine, "gemmt")   ? GEMMT
                : strstr(name->routine, "syrk")  ? SYRK
                : strstr(name->routine, "herk")  ? HERK
                : strstr(name->routine, "syr2k") ? SYR2K
                                                 : HER2K;
}

static bool is_double(const struct tst_triangle_call *p) { return tst_typed_is_double(&p->name); }
static bool is_complex(const struct tst_triangle_call *p) { return tst_typed_is_complex(&p->name); }
static bool is_hermitian(const struct tst_triangle_call *p) { return p->name.shape == HERK || p->name.shape == HER2K; }
static bool is_of_rank_2k(const struct tst_triangle_call *p) {
  return p->name.shape == SYR2K || p->name.shape == HER2K;
}

/* ---- making ---- */

/* Whether stored element (row, line) of C is of the triangle. */
static bool is_inside(const struct tst_triangle_call *p, int64_t row, int64_t line) {
  const int64_t i = p->row_major ? line : row, j = p->row_major ? row : line;
  return toupper((unsigned char)p->uplo) == 'U' ? i <= j : i >= j;
}

static void poison_c(const struct tst_triangle_call *p) {
  for (int64_t line = 0; line < p->n; line++)
    for (int64_t row = 0; row < p->n; row++)
      for (int part = 0; part < 1 + is_complex(p); part++)
        if (!is_inside(p, row, line) || tst_is_zero(p->beta) || (is_hermitian(p) && row == line && part == 1))
          tst_typed_set(&p->name, p->c.data, row + line * p->ldc, part, NAN);
}

static bool along_k(const struct tst_triangle_call *p, char trans, bool of_b) {
  return ((toupper((unsigned char)trans) != 'N') != p->row_major) != of_b;
}

/* The parts of a complex one have nothing to do with each other: a real part of 1 does not make it 1. */
static void choose_scalar(double x[2], bool real, uint64_t *rng) {
  static const double scalars[] = {1, 0, -2.5, 0.75, -0.0};
  x[0] = scalars[tst_random_below(rng, 5)];
  x[1] = !real && tst_random_below(rng, 2) ? 0.375 : 0;
}

static void create(struct tst_triangle_call *p, int number, int64_t n, int64_t k, bool multiplies, uint64_t *rng) {
  *p = (struct tst_triangle_call){.n = n, .k = k};
  tst_triangle_find(number, &p->name);
  p->row_major = p->name.cblas && tst_random_below(rng, 2);
  p->uplo = tst_typed_letter(&p->name, "UL", rng);
  p->ta = tst_typed_letter(&p->name,
                           is_hermitian(p)                           ? "NC"
                           : p->name.shape != GEMMT && is_complex(p) ? "NT"
                                                                     : "NTC",
                           rng);
  p->tb = p->name.shape == GEMMT ? tst_typed_letter(&p->name, "NTC", rng) : p->ta;
  do choose_scalar(p->alpha, !is_complex(p) || p->name.shape == HERK, rng);
  while (multiplies && tst_is_zero(p->alpha));
  choose_scalar(p->beta, !is_complex(p) || is_hermitian(p), rng);
  const bool a_along = along_k(p, p->ta, false), b_along = along_k(p, p->tb, p->name.shape == GEMMT),
             unread = tst_is_zero(p->alpha);
  p->lda = (a_along ? p->k : p->n) + tst_random_below(rng, 4);
  p->ldb = (b_along ? p->k : p->n) + tst_random_below(rng, 4);
  p->ldc = p->n + tst_random_below(rng, 4);
  tst_typed_fill(&p->name, &p->a, a_along ? p->n : p->k, a_along ? p->k : p->n, p->lda, unread, rng);
  tst_typed_fill(&p->name, &p->b, b_along ? p->n : p->k, b_along ? p->k : p->n, p->ldb, unread, rng);
  tst_typed_fill(&p->name, &p->c, p->n, p->n, p->ldc, false, rng);
  poison_c(p);
  memcpy(p->c.before, p->c.data, p->c.bytes);
}

void tst_triangle_create(struct tst_triangle_call *p, int number, int64_t most_n, int64_t most_k, uint64_t *rng) {
  const int64_t n = 1 + tst_random_below(rng, most_n);
  create(p, number, n, 1 + tst_random_below(rng, most_k), false, rng);
}

void tst_triangle_create_sized(struct tst_triangle_call *p, int number, int64_t n, int64_t k, uint64_t *rng) {
  create(p, number, n, k, true, rng);
}

void tst_triangle_destroy(struct tst_triangle_call *p) {
  struct tst_typed_memory *const all[] = {&p->a, &p->b, &p->c};
  tst_typed_free(all);
}

void tst_triangle_restore(struct tst_triangle_call *p) { memcpy(p->c.data, p->c.before, p->c.bytes); }

/* ---- calling ---- */

typedef int64_t integer;
#define CBLAS_GEMMT(scalar)                                                                                     \
  (void (*)(int, int, int, int, integer, integer, scalar, const void *, integer, const void *, integer, scalar, \
            void *, integer))
#define CBLAS_SYRK(scalar) \
  (void (*)(int, int, int, integer, integer, scalar, const void *, integer, scalar, void *, integer))
#define CBLAS_SYR2K(scalar, real)                                                                                \
  (void (*)(int, int, int, integer, integer, scalar, const void *, integer, const void *, integer, real, void *, \
            integer))

static int said(char letter) {
  static const int number[128] = {['N'] = 111, ['T'] = 112, ['C'] = 113, ['U'] = 121, ['L'] = 122, ['+'] = 123};
  return number[(int)letter];
}

static void make_cblas(const struct tst_triangle_call *p, const void *a, const void *b, void *c) {
  const union tst_scalar x = tst_typed_scalar(&p->name, p->alpha), y = tst_typed_scalar(&p->name, p->beta);
  const int layout = p->row_major ? 101 : 102, uplo = said(p->uplo), ta = said(p->ta), tb = said(p->tb);
  const integer n = tst_typed_passed(&p->name, p->n), k = tst_typed_passed(&p->name, p->k),
                lda = tst_typed_passed(&p->name, p->lda), ldb = tst_typed_passed(&p->name, p->ldb);
  const integer ldc = tst_typed_passed(&p->name, p->ldc);
  void *const f = p->name.function;
#define CALL(alpha, beta, scalar)                                                                                        \
  (p->name.shape == GEMMT ? (CBLAS_GEMMT(scalar) f)(layout, uplo, ta, tb, n, k, alpha, a, lda, b, ldb, beta, c, ldc)     \
   : is_of_rank_2k(p)     ? (CBLAS_SYR2K(scalar, scalar) f)(layout, uplo, ta, n, k, alpha, a, lda, b, ldb, beta, c, ldc) \
                          : (CBLAS_SYRK(scalar) f)(layout, uplo, ta, n, k, alpha, a, lda, beta, c, ldc))
  if (p->name.shape == HER2K && is_double(p))
    (CBLAS_SYR2K(const void *, double) f)(layout, uplo, ta, n, k, &x, a, lda, b, ldb, y.d[0], c, ldc);
  else if (p->name.shape == HER2K)
    (CBLAS_SYR2K(const void *, float) f)(layout, uplo, ta, n, k, &x, a, lda, b, ldb, y.s[0], c, ldc);
  else if (is_complex(p) && p->name.shape != HERK)
    CALL(&x, &y, const void *);
  else if (is_double(p))
    CALL(x.d[0], y.d[0], double);
  else
    CALL(x.s[0], y.s[0], float);
#undef CALL
}

static void make_fortran(const struct tst_triangle_call *p, const void *a, const void *b, void *c) {
  const union tst_scalar x = tst_typed_scalar(&p->name, p->alpha), y = tst_typed_scalar(&p->name, p->beta);
  const integer s[] = {tst_typed_passed(&p->name, p->n), tst_typed_passed(&p->name, p->k),
                       tst_typed_passed(&p->name, p->lda), tst_typed_passed(&p->name, p->ldb),
                       tst_typed_passed(&p->name, p->ldc)};
  if (p->name.shape == GEMMT)
    ((void (*)(const char *, const char *, const char *, const integer *, const integer *, const void *, const void *,
               const integer *, const void *, const integer *, const void *, void *, const integer *, size_t, size_t,
               size_t))p->name.function)(&p->uplo, &p->ta, &p->tb, &s[0], &s[1], &x, a, &s[2], b, &s[3], &y, c, &s[4],
                                         1, 1, 1);
  else if (is_of_rank_2k(p))
    ((void (*)(const char *, const char *, const integer *, const integer *, const void *, const void *,
               const integer *, const void *, const integer *, const void *, void *, const integer *, size_t,
               size_t))p->name.function)(&p->uplo, &p->ta, &s[0], &s[1], &x, a, &s[2], b, &s[3], &y, c, &s[4], 1, 1);
  else
    ((void (*)(const char *, const char *, const integer *, const integer *, const void *, const void *,
               const integer *, const void *, void *, const integer *, size_t, size_t))p->name.function)(
        &p->uplo, &p->ta, &s[0], &s[1], &x, a, &s[2], &y, c, &s[4], 1, 1);
}

void tst_triangle_make_on(const struct tst_triangle_call *p, const void *a, const void *b, void *c) {
  if (p->name.cblas)
    make_cblas(p, a, b, c);
  else
    make_fortran(p, a, b, c);
}

void tst_triangle_make(const struct tst_triangle_call *p) { tst_triangle_make_on(p, p->a.data, p->b.data, p->c.data); }

bool tst_triangle_make_placed(struct tst_triangle_call *p, enum tst_kind kind) {
  struct tst_typed_memory *const all[] = {&p->a, &p->b, &p->c};
  void *there[3];
  for (int x = 0; x < 3; x++) {
    there[x] = tst_cuda_allocate(kind, all[x]->bytes);
    tst_cuda_write(kind, there[x], all[x]->data, all[x]->bytes);
  }
  tst_triangle_make_on(p, there[0], there[1], there[2]);
  const bool came = tst_cuda_read(kind, p->c.data, there[2], p->c.bytes);
  for (int x = 0; x < 3; x++) tst_cuda_free(kind, there[x]);
  return came;
}

/* ---- verifying ---- */

/* Element (side, l) of op(X), X being A or B; or (l, side), of a B that is the product's second operand. */
static struct tst_number stored(const struct tst_triangle_call *p, bool of_b, bool second, int64_t side, int64_t l) {
  const char trans = (char)toupper((unsigned char)(of_b ? p->tb : p->ta));
  const bool along = along_k(p, trans, second);
  const int64_t ld = of_b ? p->ldb : p->lda, at = along ? l + side * ld : side + l * ld;
  const void *data = of_b ? p->b.data : p->a.data;
  struct tst_number x = tst_typed_number(&p->name, data, at);
  if (trans == 'C') x.im = -x.im;
  return x;
}

/* Of X^T, or for a Hermitian C of X^H. */
static struct tst_number turned(const struct tst_triangle_call *p, bool of_b, int64_t side, int64_t l) {
  struct tst_number x = stored(p, of_b, false, side, l);
  if (is_hermitian(p)) x.im = -x.im;
  return x;
}

/* The factors of each element's terms, one behind another for every row and column of C; again: of what syr2k adds with
 * A and B in each other's places. */
struct factors {
  struct tst_factors x[2], y[2];
};

static void create_factors(struct factors *f, const struct tst_triangle_call *p) {
  for (int again = 0; again < 2; again++) {
    const bool wanted = again == 0 || is_of_rank_2k(p);
    f->x[again] = wanted ? tst_factors_make(p->n * p->k, is_complex(p)) : (struct tst_factors){NULL};
    f->y[again] = wanted ? tst_factors_make(p->n * p->k, is_complex(p)) : (struct tst_factors){NULL};
    for (int64_t i = 0; wanted && i < p->n; i++)
      for (int64_t l = 0; l < p->k; l++) {
        tst_factors_put(&f->x[again], i * p->k + l, stored(p, again, false, i, l));
        tst_factors_put(&f->y[again], i * p->k + l,
                        p->name.shape == GEMMT ? stored(p, true, true, i, l)
                                               : turned(p, is_of_rank_2k(p) && !again, i, l));
      }
  }
}

static void destroy_factors(struct factors *f) {
  for (int again = 0; again < 2; again++) tst_factors_free(&f->x[again]), tst_factors_free(&f->y[again]);
}

/* alpha times the sum of an element's terms; their size is added to *size. */
static struct tst_number product_of(const struct tst_triangle_call *p, const struct factors *f, bool again, int64_t i,
                                    int64_t j, long double *size) {
  struct tst_number alpha = tst_number_of(p->alpha);
  long double of_terms = 0;
  if (again && is_hermitian(p)) alpha.im = -alpha.im;
  const struct tst_number sum =
      tst_sum_of_terms(&f->x[again], i * p->k, &f->y[again], j * p->k, p->k, !is_double(p), &of_terms);
  *size += of_terms * tst_size_of(alpha);
  return tst_times(alpha, sum);
}

/* What stored element (row, line) must be, and how far off it may be: 2 k terms of a chain, twice of a rank 2k, and
 * what alpha and beta add. */
static struct tst_number expected(const struct tst_triangle_call *p, const struct factors *f, int64_t row, int64_t line,
                                  long double *bound) {
  const int64_t i = p->row_major ? line : row, j = p->row_major ? row : line, at = row + line * p->ldc;
  struct tst_number sum = {0, 0}, kept = {0, 0};
  long double size = 0;
  for (int again = 0; again < 1 + is_of_rank_2k(p) && !tst_is_zero(p->alpha); again++) {
    const struct tst_number product = product_of(p, f, again, i, j, &size);
    sum.re += product.re, sum.im += product.im;
  }
  if (!tst_is_zero(p->beta)) {
    kept.re = tst_typed_get(&p->name, p->c.before, at, 0);
    if (is_complex(p) && !(is_hermitian(p) && i == j)) kept.im = tst_typed_get(&p->name, p->c.before, at, 1);
    size += tst_size_of(tst_number_of(p->beta)) * tst_size_of(kept);
    kept = tst_times(tst_number_of(p->beta), kept);
  }
  *bound = (long double)((is_of_rank_2k(p) ? 4 : 2) * p->k + 10) * (is_double(p) ? 0x1p-53L : 0x1p-24L) * size;
  return (struct tst_number){sum.re + kept.re, is_hermitian(p) && i == j ? 0 : sum.im + kept.im};
}

static bool is_right(const struct tst_triangle_call *p, const struct factors *f, int64_t row, int64_t line) {
  long double bound;
  const int64_t at = row + line * p->ldc;
  const struct tst_number want = expected(p, f, row, line, &bound);
  const long double re = tst_typed_get(&p->name, p->c.data, at, 0),
                    im = is_complex(p) ? tst_typed_get(&p->name, p->c.data, at, 1) : 0;
  if (is_hermitian(p) && row == line && im != 0) return false;
  return fabsl(re - want.re) <= bound && fabsl(im - want.im) <= bound;
}

static const char *first_wrong(const struct tst_triangle_call *p, const struct factors *f) {
  static _Thread_local char text[200];
  /* The reference returns at once, and leaves a Hermitian diagonal as it is. */
  const bool nothing = tst_is_zero(p->alpha) && p->beta[0] == 1 && p->beta[1] == 0;
  for (int64_t at = 0; at < (p->n + 1) * p->ldc; at++) {
    const int64_t row = at % p->ldc, line = at / p->ldc;
    const bool ours = row < p->n && line < p->n && is_inside(p, row, line) && !nothing;
    if (ours ? is_right(p, f, row, line) : tst_typed_is_as_it_was(&p->name, &p->c, at)) continue;
    snprintf(text, sizeof text, "%s%s %c%c%c n=%d k=%d alpha %g%+gi beta %g%+gi: (%d, %d) is %s: %.9g%+.9gi",
             p->name.name, p->row_major ? " row-major" : "", p->uplo, p->ta, p->tb, (int)p->n, (int)p->k, p->alpha[0],
             p->alpha[1], p->beta[0], p->beta[1], (int)row, (int)line, ours ? "wrong" : "overwritten",
             tst_typed_get(&p->name, p->c.data, at, 0), is_complex(p) ? tst_typed_get(&p->name, p->c.data, at, 1) : 0);
    return text;
  }
  return NULL;
}

const char *tst_triangle_wrong(const struct tst_triangle_call *p) {
  struct factors f;
  create_factors(&f, p);
  const char *const wrong = first_wrong(p, &f);
  destroy_factors(&f);
  return wrong;
}
