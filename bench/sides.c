/* SPDX-License-Identifier: BSD-3-Clause */
#include "sides.h"

#include "data.h"
#include "tileblas.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tb_sgemm *tb_ours, *tb_openblas;
static __typeof__(tileblas_option_set) *option_set;
static __typeof__(tileblas_stats_get) *stats_get;

void tb_sides_find(void) {
  void *library = dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_NOLOAD);
  *(void **)&tb_ours = dlsym(RTLD_DEFAULT, "sgemm_");
  if (library) *(void **)&tb_openblas = dlsym(library, "sgemm_");
  *(void **)&option_set = dlsym(RTLD_DEFAULT, "tileblas_option_set");
  *(void **)&stats_get = dlsym(RTLD_DEFAULT, "tileblas_stats_get");
  if (tb_ours && tb_openblas && option_set && stats_get && tb_ours != tb_openblas) return;
  fprintf(stderr, "%s: run with libtileblas.so.0 preloaded, over OpenBLAS\n", program_invocation_short_name);
  exit(EXIT_FAILURE);
}

void tb_sides_route(const char *mode) { option_set("TILEBLAS_ROUTE", mode); }

uint64_t tb_sides_gpu_calls(void) {
  tileblas_stats stats;
  stats_get(&stats);
  return stats.gpu_calls;
}

/* ---- products ---- */

static int lda(const struct tb_problem *p) { return p->ta ? p->k : p->m; }
static int ldb(const struct tb_problem *p) { return p->tb ? p->n : p->k; }
static size_t c_elems(const struct tb_problem *p) { return (size_t)p->m * (size_t)p->n; }

struct tb_problem tb_problem_make(int ta, int tb, int m, int n, int k) {
  struct tb_problem p = {.ta = ta, .tb = tb, .m = m, .n = n, .k = k};
  const size_t a_elems = (size_t)m * (size_t)k, b_elems = (size_t)k * (size_t)n;
  p.a = tb_alloc(a_elems), p.b = tb_alloc(b_elems), p.c = tb_alloc(c_elems(&p));
  tb_data_fill(p.a, (size_t)m, (size_t)k, TB_UNIFORM, TB_OPERAND_A, 1);
  tb_data_fill(p.b, (size_t)k, (size_t)n, TB_UNIFORM, TB_OPERAND_B, 2);
  tb_problem_spoil(&p);
  return p;
}

void tb_problem_free(const struct tb_problem *p) {
  free(p->a);
  free(p->b);
  free(p->c);
}

void tb_problem_spoil(const struct tb_problem *p) { memset(p->c, 0xff, sizeof *p->c * c_elems(p)); }

void tb_problem_compute(const struct tb_problem *p, tb_sgemm *side) {
  const float one = 1, zero = 0;
  const int ld_a = lda(p), ld_b = ldb(p);
  side(p->ta ? "T" : "N", p->tb ? "T" : "N", &p->m, &p->n, &p->k, &one, p->a, &ld_a, p->b, &ld_b, &zero, p->c, &p->m);
}

int tb_problem_is_right(const struct tb_problem *p) {
  size_t row[TB_SAMPLE_MAX], col[TB_SAMPLE_MAX];
  const int rows = tb_sample((size_t)p->m, 1, row), cols = tb_sample((size_t)p->n, 2, col);
  float picked[TB_SAMPLE_MAX * TB_SAMPLE_MAX];
  for (int j = 0; j < cols; j++)
    for (int i = 0; i < rows; i++) picked[i + j * rows] = p->c[row[i] + col[j] * (size_t)p->m];
  for (size_t i = 0; i < c_elems(p); i++)
    if (isnan(p->c[i])) return 0;
  const struct tb_pool_view a = {p->a, 0, 0, (size_t)lda(p), p->ta}, b = {p->b, 0, 0, (size_t)ldb(p), p->tb};
  return tb_sample_error(a, b, (size_t)p->k, row, rows, col, cols, picked).max_u <= tb_error_bound_u((size_t)p->k);
}
