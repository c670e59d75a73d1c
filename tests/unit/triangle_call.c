/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "triangle_call.h"

#include <ctype.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rng.h"
#include "terms.h"

static const char *const routines[TST_TRIANGLE_ROUTINES] = {
    "sgemmt", "dgemmt", "cgemmt", "zgemmt", "sgemmtr", "dgemmtr", "cgemmtr", "zgemmtr", "ssyrk",  "dsyrk",
    "csyrk",  "zsyrk",  "cherk",  "zherk",  "ssyr2k",  "dsyr2k",  "csyr2k",  "zsyr2k",  "cher2k", "zher2k"};

static const struct {
  const char *format;
  bool cblas, wide;
} spellings[] = {{"cblas_%s", true, false},   {"%s_", false, false},   {"scipy_cblas_%s", true, false},
                 {"cblas_%s64_", true, true}, {"%s_64_", false, true}, {"scipy_cblas_%s64_", true, true},
                 {"cblas_%s_64", true, true}, {"%s_64", false, true},  {"scipy_%s_64_", false, true},
                 {"scipy_%s_", false, false}};
enum { SPELLINGS = sizeof spellings / sizeof *spellings };
_Static_assert(SPELLINGS *TST_TRIANGLE_ROUTINES == TST_TRIANGLE_NAMES, "as many names as the header says");

void tst_triangle_find(int number, struct tst_triangle_name *name) {
  const char *routine = routines[number % TST_TRIANGLE_ROUTINES];
  const int spelling = number / TST_TRIANGLE_ROUTINES % SPELLINGS;
  snprintf(name->name, sizeof name->name, spellings[spelling].format, routine);
  name->type = routine[0];
  name->shape = strstr(routine, "gemmt")   ? GEMMT
                : strstr(routine, "syrk")  ? SYRK
                : strstr(routine, "herk")  ? HERK
                : strstr(routine, "syr2k") ? SYR2K
                                           : HER2K;
  name->cblas = spellings[spelling].cblas;
  name->wide = spellings[spelling].wide;
  name->function = dlsym(RTLD_DEFAULT, name->name);
  if (name->function == NULL) {
    fprintf(stderr, "no symbol %s\n", name->name);
    abort();
  }
}

static bool is_double(const struct tst_triangle_call *p) { return p->name.type == 'd' || p->name.type == 'z'; }
static bool is_complex(const struct tst_triangle_call *p) { return p->name.type == 'c' || p->name.type == 'z'; }
static bool is_hermitian(const struct tst_triangle_call *p) { return p->name.shape == HERK || p->name.shape == HER2K; }
static bool is_of_rank_2k(const struct tst_triangle_call *p) {
  return p->name.shape == SYR2K || p->name.shape == HER2K;
}
static size_t element_bytes(const struct tst_triangle_call *p) {
  return (is_double(p) ? sizeof(double) : sizeof(float)) << is_complex(p);
}

/* Number `part` of element `at`. */
static double get(const struct tst_triangle_call *p, const void *data, int64_t at, int part) {
  const int64_t i = is_complex(p) ? 2 * at + part : at;
  return is_double(p) ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

static void set(const struct tst_triangle_call *p, void *data, int64_t at, int part, double x) {
  const int64_t i = is_complex(p) ? 2 * at + part : at;
  if (is_double(p))
    ((double *)data)[i] = x;
  else
    ((float *)data)[i] = (float)x;
}

/* ---- making ---- */

/* Numbers where `len` of `ld` are the operand's, NaN in the padding; a column more than there are is padding, too. */
static void fill(const struct tst_triangle_call *p, struct tst_triangle_memory *x, int64_t lines, int64_t len,
                 int64_t ld, bool poisoned, uint64_t *rng) {
  x->bytes = (size_t)((lines + 1) * ld) * element_bytes(p);
  x->data = malloc(x->bytes), x->before = malloc(x->bytes);
  if (x->data == NULL || x->before == NULL) abort();
  for (int64_t at = 0; at < (lines + 1) * ld; at++)
    for (int part = 0; part < 1 + is_complex(p); part++) {
      const double number = ((double)tst_random_below(rng, 1 << 20) - (1 << 19)) * 0x1p-20;
      set(p, x->data, at, part, poisoned || at % ld >= len || at / ld >= lines ? NAN : number);
    }
}

/* Whether stored element (row, line) of C is of the triangle. */
static bool is_inside(const struct tst_triangle_call *p, int64_t row, int64_t line) {
  const int64_t i = p->row_major ? line : row, j = p->row_major ? row : line;
  return toupper((unsigned char)p->uplo) == 'U' ? i <= j : i >= j;
}

static bool is_zero(const double x[2]) { return x[0] == 0 && x[1] == 0; }

static void poison_c(const struct tst_triangle_call *p) {
  for (int64_t line = 0; line < p->n; line++)
    for (int64_t row = 0; row < p->n; row++)
      for (int part = 0; part < 1 + is_complex(p); part++)
        if (!is_inside(p, row, line) || is_zero(p->beta) || (is_hermitian(p) && row == line && part == 1))
          set(p, p->c.data, row + line * p->ldc, part, NAN);
}

static bool along_k(const struct tst_triangle_call *p, char trans, bool of_b) {
  return ((toupper((unsigned char)trans) != 'N') != p->row_major) != of_b;
}

static char any_of(const char *letters, const struct tst_triangle_call *p, uint64_t *rng) {
  const char letter = letters[tst_random_below(rng, (int64_t)strlen(letters))];
  return !p->name.cblas && tst_random_below(rng, 2) ? (char)tolower((unsigned char)letter) : letter;
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
  p->uplo = any_of("UL", p, rng);
  p->ta = any_of(is_hermitian(p) ? "NC" : p->name.shape != GEMMT && is_complex(p) ? "NT" : "NTC", p, rng);
  p->tb = p->name.shape == GEMMT ? any_of("NTC", p, rng) : p->ta;
  do choose_scalar(p->alpha, !is_complex(p) || p->name.shape == HERK, rng);
  while (multiplies && is_zero(p->alpha));
  choose_scalar(p->beta, !is_complex(p) || is_hermitian(p), rng);
  const bool a_along = along_k(p, p->ta, false), b_along = along_k(p, p->tb, p->name.shape == GEMMT),
             unread = is_zero(p->alpha);
  p->lda = (a_along ? p->k : p->n) + tst_random_below(rng, 4);
  p->ldb = (b_along ? p->k : p->n) + tst_random_below(rng, 4);
  p->ldc = p->n + tst_random_below(rng, 4);
  fill(p, &p->a, a_along ? p->n : p->k, a_along ? p->k : p->n, p->lda, unread, rng);
  fill(p, &p->b, b_along ? p->n : p->k, b_along ? p->k : p->n, p->ldb, unread, rng);
  fill(p, &p->c, p->n, p->n, p->ldc, false, rng);
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
  struct tst_triangle_memory *const all[] = {&p->a, &p->b, &p->c};
  for (int i = 0; i < 3; i++) free(all[i]->data), free(all[i]->before);
}

void tst_triangle_restore(struct tst_triangle_call *p) { memcpy(p->c.data, p->c.before, p->c.bytes); }

/* ---- calling ---- */

union scalar {
  float s[2];
  double d[2];
};

static union scalar scalar_of(const struct tst_triangle_call *p, const double x[2]) {
  return is_double(p) ? (union scalar){.d = {x[0], x[1]}} : (union scalar){.s = {(float)x[0], (float)x[1]}};
}

/* Integers are passed with 64 bits, of which a function of 32 looks at the lower half: so that this half alone is
 * right, the upper one is none of the number. */
static int64_t passed(const struct tst_triangle_call *p, int64_t x) {
  return p->name.wide ? x : (int64_t)((uint64_t)x & UINT32_MAX) | (int64_t)0x5a5a5a5a << 32;
}

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
  const union scalar x = scalar_of(p, p->alpha), y = scalar_of(p, p->beta);
  const int layout = p->row_major ? 101 : 102, uplo = said(p->uplo), ta = said(p->ta), tb = said(p->tb);
  const integer n = passed(p, p->n), k = passed(p, p->k), lda = passed(p, p->lda), ldb = passed(p, p->ldb);
  const integer ldc = passed(p, p->ldc);
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
  const union scalar x = scalar_of(p, p->alpha), y = scalar_of(p, p->beta);
  const integer s[] = {passed(p, p->n), passed(p, p->k), passed(p, p->lda), passed(p, p->ldb), passed(p, p->ldc)};
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
  struct tst_triangle_memory *const all[] = {&p->a, &p->b, &p->c};
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
  struct tst_number x = {get(p, data, at, 0), is_complex(p) ? get(p, data, at, 1) : 0};
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

static struct tst_number of_parts(const double x[2]) { return (struct tst_number){x[0], x[1]}; }

/* alpha times the sum of an element's terms; their size is added to *size. */
static struct tst_number product_of(const struct tst_triangle_call *p, const struct factors *f, bool again, int64_t i,
                                    int64_t j, long double *size) {
  struct tst_number alpha = of_parts(p->alpha);
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
  for (int again = 0; again < 1 + is_of_rank_2k(p) && !is_zero(p->alpha); again++) {
    const struct tst_number product = product_of(p, f, again, i, j, &size);
    sum.re += product.re, sum.im += product.im;
  }
  if (!is_zero(p->beta)) {
    kept.re = get(p, p->c.before, at, 0);
    if (is_complex(p) && !(is_hermitian(p) && i == j)) kept.im = get(p, p->c.before, at, 1);
    size += tst_size_of(of_parts(p->beta)) * tst_size_of(kept);
    kept = tst_times(of_parts(p->beta), kept);
  }
  *bound = (long double)((is_of_rank_2k(p) ? 4 : 2) * p->k + 10) * (is_double(p) ? 0x1p-53L : 0x1p-24L) * size;
  return (struct tst_number){sum.re + kept.re, is_hermitian(p) && i == j ? 0 : sum.im + kept.im};
}

static bool is_as_it_was(const struct tst_triangle_call *p, int64_t at) {
  const size_t size = element_bytes(p), offset = (size_t)at * size;
  return memcmp((char *)p->c.data + offset, (char *)p->c.before + offset, size) == 0;
}

static bool is_right(const struct tst_triangle_call *p, const struct factors *f, int64_t row, int64_t line) {
  long double bound;
  const int64_t at = row + line * p->ldc;
  const struct tst_number want = expected(p, f, row, line, &bound);
  const long double re = get(p, p->c.data, at, 0), im = is_complex(p) ? get(p, p->c.data, at, 1) : 0;
  if (is_hermitian(p) && row == line && im != 0) return false;
  return fabsl(re - want.re) <= bound && fabsl(im - want.im) <= bound;
}

static const char *first_wrong(const struct tst_triangle_call *p, const struct factors *f) {
  static _Thread_local char text[200];
  /* The reference returns at once, and leaves a Hermitian diagonal as it is. */
  const bool nothing = is_zero(p->alpha) && p->beta[0] == 1 && p->beta[1] == 0;
  for (int64_t at = 0; at < (p->n + 1) * p->ldc; at++) {
    const int64_t row = at % p->ldc, line = at / p->ldc;
    const bool ours = row < p->n && line < p->n && is_inside(p, row, line) && !nothing;
    if (ours ? is_right(p, f, row, line) : is_as_it_was(p, at)) continue;
    snprintf(text, sizeof text, "%s%s %c%c%c n=%d k=%d alpha %g%+gi beta %g%+gi: (%d, %d) is %s: %.9g%+.9gi",
             p->name.name, p->row_major ? " row-major" : "", p->uplo, p->ta, p->tb, (int)p->n, (int)p->k, p->alpha[0],
             p->alpha[1], p->beta[0], p->beta[1], (int)row, (int)line, ours ? "wrong" : "overwritten",
             get(p, p->c.data, at, 0), is_complex(p) ? get(p, p->c.data, at, 1) : 0);
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
