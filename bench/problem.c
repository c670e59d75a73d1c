/* SPDX-License-Identifier: BSD-3-Clause */
#include "problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t c_elems(const struct tb_problem *p) { return (size_t)p->m * (size_t)p->n; }

struct tb_problem tb_problem_make(enum tb_type type, int ta, int tb, int m, int n, int k) {
  struct tb_problem p = {.type = type, .ta = ta, .tb = tb, .m = m, .n = n, .k = k};
  p.a = tb_alloc_type(type, (size_t)m * (size_t)k);
  p.b = tb_alloc_type(type, (size_t)k * (size_t)n);
  p.c = tb_alloc_type(type, c_elems(&p));
  tb_data_fill_type(type, p.a, (size_t)m, (size_t)k, TB_UNIFORM, TB_OPERAND_A, 1);
  tb_data_fill_type(type, p.b, (size_t)k, (size_t)n, TB_UNIFORM, TB_OPERAND_B, 2);
  tb_problem_spoil(&p);
  return p;
}

void tb_problem_free(const struct tb_problem *p) {
  free(p->a);
  free(p->b);
  free(p->c);
}

void tb_problem_spoil(const struct tb_problem *p) { memset(p->c, 0xff, (size_t)tb_type_bytes(p->type) * c_elems(p)); }

static bool has_nan(const struct tb_problem *p) {
  const size_t reals = c_elems(p) * (size_t)tb_type_parts(p->type);
  bool found = false;
  for (size_t i = 0; i < reals; i++)
    found |= tb_type_is_double(p->type) ? isnan(((const double *)p->c)[i]) : isnan(((const float *)p->c)[i]);
  return found;
}

struct tb_error tb_problem_error(const struct tb_problem *p) {
  size_t row[TB_SAMPLE_MAX], col[TB_SAMPLE_MAX], bytes = (size_t)tb_type_bytes(p->type);
  if (has_nan(p)) return (struct tb_error){NAN, NAN, NAN};
  const int rows = tb_sample((size_t)p->m, 1, row), cols = tb_sample((size_t)p->n, 2, col);
  char *picked = tb_alloc_type(p->type, (size_t)(rows * cols));
  for (int j = 0; j < cols; j++)
    for (int i = 0; i < rows; i++)
      memcpy(picked + (size_t)(i + j * rows) * bytes, (const char *)p->c + (row[i] + col[j] * (size_t)p->m) * bytes,
             bytes);
  const struct tb_pool_view a = {.data = p->a, .ld = (size_t)tb_problem_lda(p), .transposed = p->ta, .type = p->type};
  const struct tb_pool_view b = {.data = p->b, .ld = (size_t)tb_problem_ldb(p), .transposed = p->tb, .type = p->type};
  const struct tb_error error = tb_sample_error(a, b, (size_t)p->k, row, rows, col, cols, picked);
  free(picked);
  return error;
}

double tb_problem_bound_u(const struct tb_problem *p) {
  return tb_error_bound_u((size_t)p->k * (size_t)tb_type_parts(p->type));
}

bool tb_type_parse(const char *text, enum tb_type *type) {
  for (int t = 0; t < TB_TYPE_COUNT; t++) {
    *type = (enum tb_type)t;
    if (text[0] == tb_type_letter(*type) && text[1] == '\0') return true;
  }
  return false;
}
