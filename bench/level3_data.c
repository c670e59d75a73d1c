/* SPDX-License-Identifier: BSD-3-Clause */
/* The operands of a routine of level 3, and the error of its result; see level3.h. */
#include "level3.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t larger(int a, int b) { return (size_t)(a > b ? a : b); }
static size_t bytes_of(const struct tb_level3 *x) { return (size_t)tb_type_bytes(x->type); }

void tb_level3_alloc(struct tb_level3 *x, enum tb_type type, int order, int sides) {
  const size_t most = (size_t)order * larger(order, sides);
  x->a = tb_alloc_type(type, most), x->b = tb_alloc_type(type, most), x->c = tb_alloc_type(type, most);
}

void tb_level3_free(struct tb_level3 *x) { free(x->a), free(x->b), free(x->c); }

static double part_at(const struct tb_level3 *x, const void *matrix, size_t number) {
  return tb_type_is_double(x->type) ? ((const double *)matrix)[number] : (double)((const float *)matrix)[number];
}
static void put_part(const struct tb_level3 *x, void *matrix, size_t number, double value) {
  if (tb_type_is_double(x->type))
    ((double *)matrix)[number] = value;
  else
    ((float *)matrix)[number] = (float)value;
}

/* ---- operands ---- */

/* The terms of a part of an element of C. */
static size_t terms(const struct tb_level3 *x) {
  return (size_t)x->k * (size_t)tb_type_parts(x->type) * (x->routine->form == TB_FORM_RANK_2K ? 2 : 1);
}

/* The sum of so many products is exact. */
static void reduce_integers(const struct tb_level3 *x, void *matrix, size_t elems) {
  const double most = floor(sqrt((tb_type_is_double(x->type) ? 0x1p53 : 0x1p24) / (double)terms(x)));
  for (size_t i = 0; i < elems * (size_t)tb_type_parts(x->type); i++)
    put_part(x, matrix, i, fmod(part_at(x, matrix, i), most + 1));
}

/* A B that the routine reads transposed: what runs along k is drawn as that of any B. */
static void fill_transposed(const struct tb_level3 *x, struct tb_extent b, enum tb_data_kind kind, unsigned seed) {
  const size_t rows = (size_t)b.rows, columns = (size_t)b.columns, bytes = bytes_of(x);
  char *drawn = tb_alloc_type(x->type, rows * columns), *to = x->b;
  tb_data_fill_type(x->type, drawn, columns, rows, kind, TB_OPERAND_B, seed);
  for (size_t j = 0; j < columns; j++)
    for (size_t i = 0; i < rows; i++) memcpy(to + (i + j * rows) * bytes, drawn + (j + i * columns) * bytes, bytes);
  free(drawn);
}

/* Adds the sizes of the triangle's elements beside the diagonal to the sums of their rows and of their columns. */
static void add_sizes(const struct tb_level3 *x, double *row_sum, double *column_sum) {
  const size_t order = (size_t)x->k, parts = (size_t)tb_type_parts(x->type);
  for (size_t j = 0; j < order; j++)
    for (size_t i = x->upper ? 0 : j + 1; i < (x->upper ? j : order); i++)
      for (size_t part = 0; part < parts; part++) {
        const double size = fabs(part_at(x, x->a, (i + j * order) * parts + part));
        row_sum[i] += size, column_sum[j] += size;
      }
}

static void dominate(const struct tb_level3 *x) {
  const size_t order = (size_t)x->k, parts = (size_t)tb_type_parts(x->type);
  if (x->unit) { /* ones dominate what is this small */
    const double scale = ldexp(1, -(int)ceil(log2((double)order)));
    for (size_t i = 0; i < order * order * parts; i++) put_part(x, x->a, i, scale * part_at(x, x->a, i));
    return;
  }
  double *row_sum = calloc(2 * order, sizeof *row_sum), *column_sum = row_sum + order;
  if (row_sum == NULL) perror("level3"), exit(EXIT_FAILURE);
  add_sizes(x, row_sum, column_sum);
  double *const factor = (double *)tb_alloc_type(TB_D, order);
  tb_data_fill_type(TB_D, factor, order, 1, TB_UNIFORM, TB_OPERAND_A, 5);
  for (size_t i = 0; i < order; i++)
    put_part(x, x->a, i * (order + 1) * parts, 2 * fmax(1, fmax(row_sum[i], column_sum[i])) * (1 + factor[i] / 8));
  free(factor);
  free(row_sum);
}

void tb_level3_fill(const struct tb_level3 *x, enum tb_data_kind kind, unsigned draw) {
  const struct tb_extent a = tb_level3_a(x), b = tb_level3_b(x);
  const enum tb_form form = x->routine->form;
  tb_data_fill_type(x->type, x->a, (size_t)a.rows, (size_t)a.columns, kind, TB_OPERAND_A, 1 + 2 * draw);
  if (kind != TB_UNIFORM && (form == TB_FORM_GEMMT || form == TB_FORM_RANK_2K))
    fill_transposed(x, b, kind, 2 + 2 * draw);
  else
    tb_data_fill_type(x->type, x->b, (size_t)b.rows, (size_t)b.columns, kind, TB_OPERAND_B, 2 + 2 * draw);
  if (kind == TB_INTEGER) {
    reduce_integers(x, x->a, tb_extent_elems(a));
    reduce_integers(x, x->b, tb_extent_elems(b));
  }
  if (form == TB_FORM_TRSM) dominate(x);
}

/* ---- C ---- */

static void prepare_columns(void *ctx, size_t begin, size_t end) {
  const struct tb_level3 *const x = ctx;
  const size_t column_bytes = (size_t)x->m * bytes_of(x);
  if (tb_level3_in_place(x))
    memcpy((char *)x->c + begin * column_bytes, (const char *)x->b + begin * column_bytes,
           (end - begin) * column_bytes);
  else
    memset((char *)x->c + begin * column_bytes, 0xff, (end - begin) * column_bytes); /* NaN */
}

void tb_level3_prepare_c(const struct tb_level3 *x) {
  struct tb_level3 copy = *x;
  tb_parallel((size_t)x->n, prepare_columns, &copy);
}

struct nan_search {
  const struct tb_level3 *x;
  size_t found; /* by any thread, which all write the same */
};

static void search_columns(void *ctx, size_t begin, size_t end) {
  struct nan_search *const s = ctx;
  const struct tb_region region = {tb_level3_region(s->x), false, 0};
  const size_t parts = (size_t)tb_type_parts(s->x->type), m = (size_t)s->x->m;
  for (size_t j = begin; j < end; j++) {
    const struct tb_region_rows rows = tb_region_rows(region, s->x->m, (int64_t)j);
    for (size_t i = (j * m + (size_t)rows.first) * parts; i < (j * m + (size_t)rows.end) * parts; i++)
      if (isnan(part_at(s->x, s->x->c, i))) __atomic_store_n(&s->found, 1, __ATOMIC_RELAXED);
  }
}

static bool has_nan(const struct tb_level3 *x) {
  struct nan_search s = {x, 0};
  tb_parallel((size_t)x->n, search_columns, &s);
  return s.found > 0;
}

/* ---- its error ---- */

/* An operand as it lies, transposed, or conjugated and transposed. */
static struct tb_pool_view view_of(const struct tb_level3 *x, const void *data, int ld, bool transposed) {
  const bool conjugated = transposed && (x->trans == 'C' || x->routine->hermitian);
  return (struct tb_pool_view){
      .data = data, .ld = (size_t)ld, .transposed = transposed, .type = x->type, .conjugated = conjugated};
}

/* What is multiplied, and the result of that. */
struct product {
  struct tb_pool_view a, b, a_again, b_again;
  size_t k;
  const void *c;
};

static struct product rank_product(const struct tb_level3 *x) {
  const bool transposed = x->trans != 'N', one = x->routine->form == TB_FORM_RANK_K;
  const int ld = tb_level3_a(x).rows;
  struct product p = {.a = view_of(x, x->a, ld, transposed),
                      .b = view_of(x, one ? x->a : x->b, ld, !transposed),
                      .a_again = view_of(x, x->b, ld, transposed),
                      .b_again = view_of(x, x->a, ld, !transposed),
                      .k = (size_t)x->k,
                      .c = x->c};
  if (x->routine->form == TB_FORM_RANK_2K) p.a.then_at = p.b.then_at = p.k, p.k *= 2;
  return p;
}

static struct product triangle_product(const struct tb_level3 *x) {
  const enum tb_form form = x->routine->form;
  struct tb_pool_view a = view_of(x, x->a, x->k, x->trans != 'N');
  struct tb_pool_view b = view_of(x, form == TB_FORM_TRSM ? x->c : x->b, x->m, false);
  a.structure = form != TB_FORM_SYMM    ? TB_POOL_TRIANGULAR
                : x->routine->hermitian ? TB_POOL_HERMITIAN
                                        : TB_POOL_SYMMETRIC;
  a.upper = x->upper, a.unit = x->unit;
  const void *const c = form == TB_FORM_TRSM ? x->b : x->c;
  return (struct product){.a = x->right ? b : a, .b = x->right ? a : b, .k = (size_t)x->k, .c = c};
}

static struct product product_of(const struct tb_level3 *x) {
  switch (x->routine->form) {
    case TB_FORM_GEMM:
      return (struct product){
          .a = view_of(x, x->a, x->m, false), .b = view_of(x, x->b, x->k, false), .k = (size_t)x->k, .c = x->c};
    case TB_FORM_SYMM:
    case TB_FORM_TRMM:
    case TB_FORM_TRSM:
      return triangle_product(x);
    default:
      return rank_product(x);
  }
}

struct tb_error tb_level3_error(const struct tb_level3 *x) {
  if (has_nan(x)) return (struct tb_error){NAN, NAN, NAN};
  struct product p = product_of(x);
  if (p.a.then_at > 0) p.a.then = &p.a_again, p.b.then = &p.b_again;
  size_t row[TB_SAMPLE_MAX], col[TB_SAMPLE_MAX], bytes = bytes_of(x);
  const int rows = tb_sample((size_t)x->m, 1, row), cols = tb_sample((size_t)x->n, 2, col);
  char *picked = tb_alloc_type(x->type, (size_t)(rows * cols));
  for (int j = 0; j < cols; j++)
    for (int i = 0; i < rows; i++)
      memcpy(picked + (size_t)(i + j * rows) * bytes, (const char *)p.c + (row[i] + col[j] * (size_t)x->m) * bytes,
             bytes);
  const struct tb_error error = tb_sample_error_in(tb_level3_region(x), p.a, p.b, p.k, row, rows, col, cols, picked);
  free(picked);
  return error;
}

double tb_level3_bound_u(const struct tb_level3 *x) { return tb_error_bound_u(terms(x)); }
