/* SPDX-License-Identifier: BSD-3-Clause */
#include "product.h"

#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "rng.h"
#include "terms.h"

static char message[512];

static bool is_transposed(char letter) { return letter != 'N' && letter != 'n'; }

/* Rows and columns of the matrix as stored in column-major order. */
static void stored_shape(bool row_major, bool transposed, int64_t rows, int64_t cols, int64_t *len, int64_t *lines) {
  bool swapped = row_major != transposed;
  *len = swapped ? cols : rows;
  *lines = swapped ? rows : cols;
}

static void shapes(const struct tst_problem *p, int64_t len[3], int64_t lines[3]) {
  stored_shape(p->row_major, is_transposed(p->trans_a), p->m, p->k, &len[0], &lines[0]);
  stored_shape(p->row_major, is_transposed(p->trans_b), p->k, p->n, &len[1], &lines[1]);
  stored_shape(p->row_major, false, p->m, p->n, &len[2], &lines[2]);
}

void tst_set_leading(struct tst_problem *p, int64_t pad) {
  int64_t len[3], lines[3];
  shapes(p, len, lines);
  p->lda = (len[0] > 1 ? len[0] : 1) + pad;
  p->ldb = (len[1] > 1 ? len[1] : 1) + pad;
  p->ldc = (len[2] > 1 ? len[2] : 1) + pad;
}

struct tst_problem tst_variant(int variant, int64_t m, int64_t n, int64_t k, float alpha, float beta) {
  static const char letters[] = {'N', 'T', 'C'};
  struct tst_problem p = {.row_major = variant % 2,
                          .trans_a = letters[variant / 2 % 3],
                          .trans_b = letters[variant / 6 % 3],
                          .m = m,
                          .n = n,
                          .k = k,
                          .alpha = alpha,
                          .beta = beta};
  tst_set_leading(&p, 0);
  return p;
}

void tst_operands_create(struct tst_operands *x, const struct tst_problem *p, enum tst_values values, uint64_t *rng) {
  struct tst_matrix *matrices[3] = {&x->a, &x->b, &x->c};
  const int64_t ld[3] = {p->lda, p->ldb, p->ldc};
  int64_t len[3], lines[3];

  shapes(p, len, lines);
  for (int i = 0; i < 3; i++) {
    tst_matrix_create(matrices[i], lines[i], len[i], ld[i], tst_random_below(rng, 2) ? TST_FENCE_END : TST_FENCE_START);
    tst_matrix_fill(matrices[i], values, rng);
    tst_matrix_remember(matrices[i]);
  }
}

void tst_operands_destroy(struct tst_operands *x) {
  tst_matrix_destroy(&x->a);
  tst_matrix_destroy(&x->b);
  tst_matrix_destroy(&x->c);
}

/* Copies op(X), rows x cols, to fp64 with its columns (or, with by_rows, its rows) contiguous. */
static double *widen(const float *x, int64_t ld, bool line_is_row, int64_t rows, int64_t cols, bool by_rows) {
  double *wide = malloc(sizeof *wide * (size_t)(rows * cols + 1));
  if (!wide) abort();
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++)
      wide[by_rows ? i * cols + j : j * rows + i] = line_is_row ? x[i * ld + j] : x[j * ld + i];
  return wide;
}

static double gamma_of(double n) {
  const double u = 0x1p-24;
  return n * u / (1 - n * u);
}

static void expect_one(const struct tst_problem *p, const double *a, const double *b, double c, double *value,
                       double *bound) {
  const double underflow = 0x1p-149;
  double alpha = (float)p->alpha, beta = (float)p->beta, result = 0, error = 0, magnitude;
  const double sum = tst_sum_in_double(a, b, p->k, &magnitude);

  if (alpha != 0 && p->k != 0) {
    result += alpha * sum;
    error += gamma_of((double)p->k + 3) * fabs(alpha) * magnitude + ((double)p->k * fabs(alpha) + 1) * underflow;
  }
  if (beta != 0) {
    result += beta * c;
    error += gamma_of((double)p->k + 3) * fabs(beta * c) + underflow;
  }
  *value = result;
  *bound = error;
}

void tst_expect(struct tst_expected *e, const struct tst_problem *p, const struct tst_operands *x) {
  bool a_by_row = p->row_major != is_transposed(p->trans_a), b_by_row = p->row_major != is_transposed(p->trans_b);
  double *a = widen(tst_matrix_before(&x->a), p->lda, a_by_row, p->m, p->k, true);
  double *b = widen(tst_matrix_before(&x->b), p->ldb, b_by_row, p->k, p->n, false);
  double *c = widen(tst_matrix_before(&x->c), p->ldc, p->row_major, p->m, p->n, false);

  e->value = malloc(sizeof *e->value * (size_t)(p->m * p->n + 1));
  e->bound = malloc(sizeof *e->bound * (size_t)(p->m * p->n + 1));
  if (!e->value || !e->bound) abort();
  for (int64_t j = 0; j < p->n; j++)
    for (int64_t i = 0; i < p->m; i++)
      expect_one(p, a + i * p->k, b + j * p->k, c[j * p->m + i], &e->value[j * p->m + i], &e->bound[j * p->m + i]);
  free(a);
  free(b);
  free(c);
}

void tst_expected_destroy(struct tst_expected *e) {
  free(e->value);
  free(e->bound);
}

static bool agrees(double got, double value, double bound) {
  if (isnan(value)) return isnan(got);
  if (isinf(value)) return got == value;
  return fabs(got - value) <= bound; /* false for a NaN */
}

static int64_t c_offset(const struct tst_problem *p, int64_t i, int64_t j) {
  return p->row_major ? i * p->ldc + j : j * p->ldc + i;
}

const char *tst_verify(const struct tst_problem *p, const struct tst_operands *x, const struct tst_expected *e) {
  int64_t where;
  if (!tst_matrix_unchanged(&x->a, true, &where) || !tst_matrix_unchanged(&x->b, true, &where)) {
    snprintf(message, sizeof message, "an input was written, %lld elements from its start", (long long)where);
    return message;
  }
  if (!tst_matrix_unchanged(&x->c, false, &where)) {
    snprintf(message, sizeof message, "C's padding was written, %lld elements from C", (long long)where);
    return message;
  }
  for (int64_t j = 0; j < p->n; j++)
    for (int64_t i = 0; i < p->m; i++) {
      double got = x->c.data[c_offset(p, i, j)], value = e->value[j * p->m + i], bound = e->bound[j * p->m + i];
      if (!agrees(got, value, bound)) {
        snprintf(message, sizeof message, "C(%lld,%lld) = %.9g, exact %.17g, error %.3g, bound %.3g", (long long)i,
                 (long long)j, got, value, fabs(got - value), bound);
        return message;
      }
    }
  return NULL;
}

const char *tst_verify_against(const struct tst_problem *p, const struct tst_operands *x, const struct tst_expected *e,
                               const float *other_c, const char *other_name) {
  for (int64_t j = 0; j < p->n; j++)
    for (int64_t i = 0; i < p->m; i++) {
      double got = x->c.data[c_offset(p, i, j)], other = other_c[c_offset(p, i, j)];
      if (!agrees(got, other, 2 * e->bound[j * p->m + i])) {
        snprintf(message, sizeof message, "C(%lld,%lld) = %.9g, %s has %.9g, bound of both %.3g", (long long)i,
                 (long long)j, got, other_name, other, 2 * e->bound[j * p->m + i]);
        return message;
      }
    }
  return NULL;
}

enum { SCALAR_TEXT = 40 };

/* Complex ones as (real,imaginary). */
static const char *scalar_text(enum tst_type type, double complex x, char text[SCALAR_TEXT]) {
  if (tst_parts(type) == 2)
    snprintf(text, SCALAR_TEXT, "(%g,%g)", creal(x), cimag(x));
  else
    snprintf(text, SCALAR_TEXT, "%g", creal(x));
  return text;
}

const char *tst_describe(const struct tst_symbol *symbol, const struct tst_problem *p) {
  static char line[320];
  char alpha[SCALAR_TEXT], beta[SCALAR_TEXT];
  snprintf(line, sizeof line, "%s %s %c%c m=%lld n=%lld k=%lld lda=%lld ldb=%lld ldc=%lld alpha=%s beta=%s",
           symbol->name, p->row_major ? "row-major" : "column-major", p->trans_a, p->trans_b, (long long)p->m,
           (long long)p->n, (long long)p->k, (long long)p->lda, (long long)p->ldb, (long long)p->ldc,
           scalar_text(symbol->type, p->alpha, alpha), scalar_text(symbol->type, p->beta, beta));
  return line;
}
