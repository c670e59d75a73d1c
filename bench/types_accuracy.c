/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The errors of dgemm, cgemm and zgemm on all kinds of data and for growing k: ours, cuBLAS's and OpenBLAS's beside
 * each other, over the same draws, in a sample of rows and columns. See typed.h; accuracy.c has sgemm's.
 */
#include "typed.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int depths[] = {64, 256, 1024, 4096, 16384};
enum { DEPTHS = sizeof depths / sizeof depths[0], DEPTHS_SHORT = 2 };
/* Of each kind of data and depth so many A and B are drawn: the largest error of one draw is a matter of chance. */
enum { DRAWS = 4, DRAWS_SHORT = 1 };

typedef void fortran_gemm(const char *, const char *, const int *, const int *, const int *, const void *, const void *,
                          const int *, const void *, const int *, const void *, void *, const int *);

/* Errors of one way to compute C, over the draws so far. */
struct tally {
  const char *who;
  char way[64];
  int draws;
  struct tb_error sum; /* but for max_u, the largest */
};
enum { OURS_IEEE, OURS, CUBLAS, CUBLAS_3M, OPENBLAS, TALLIES };
static const char *const names[TALLIES] = {"TileBLAS ieee", "TileBLAS", "cuBLAS", "cuBLAS 3m", "OpenBLAS"};

struct judge {
  struct tb_typed work;
  FILE *csv;
  fortran_gemm *openblas; /* NULL: peer missing */
  void *c;                /* the host's */
  enum tb_data_kind kind;
  struct tally tally[TALLIES];
};

static void note(struct judge *j, int who, const char *way, struct tb_error e) {
  struct tally *t = &j->tally[who];
  t->who = names[who];
  snprintf(t->way, sizeof t->way, "%s", way);
  t->draws++;
  if (e.max_u > t->sum.max_u || isnan(e.max_u)) t->sum.max_u = e.max_u;
  t->sum.mean_u += e.mean_u, t->sum.bias_u += e.bias_u;
}

/* Integers have exact results. */
static bool judge_ours(struct judge *j, int who, enum tb_precision precision) {
  struct tb_typed *w = &j->work;
  char way[64];
  tb_typed_set(w, w->shape, precision);
  tb_typed_way(w, way, sizeof way);
  const struct tb_error e = tb_typed_error(w);
  note(j, who, way, e);
  const bool right = j->kind == TB_INTEGER ? e.max_u == 0 : e.max_u <= tb_typed_bound_u(w);
  if (!right) fprintf(stderr, "WRONG RESULT: %s by %s: error %g u\n", names[who], way, e.max_u);
  return right;
}

static void judge_peers(struct judge *j) {
  struct tb_typed *w = &j->work;
  const struct tb_shape *s = &w->shape;
  for (int by = TB_TYPED_CUBLAS; w->bench->cublas && by < TB_TYPED_BY_COUNT; by++) {
    if (by == TB_TYPED_CUBLAS_3M && !tb_type_is_complex(w->type)) continue;
    w->by = (enum tb_typed_by)by;
    TB_NV(cublasSetMathMode(w->bench->cublas, TB_MATH_PEDANTIC));
    note(j, by == TB_TYPED_CUBLAS ? CUBLAS : CUBLAS_3M, "", tb_typed_error(w));
  }
  w->by = TB_TYPED_OURS;
  if (!j->openblas) return;
  memset(j->c, 0xff, (size_t)s->m * (size_t)s->n * (size_t)tb_type_bytes(w->type)); /* NaN */
  j->openblas("N", "N", &s->m, &s->n, &s->k, tb_one(w->type), w->a.pool, &s->m, w->b.pool, &s->k, tb_zero(w->type),
              j->c, &s->m);
  note(j, OPENBLAS, "", tb_typed_error_of(w, j->c));
}

static void report(const struct judge *j) {
  const struct tb_typed *w = &j->work;
  for (const struct tally *t = j->tally; t < j->tally + TALLIES; t++) {
    if (t->draws == 0) continue;
    const double mean_u = t->sum.mean_u / t->draws, bias_u = t->sum.bias_u / t->draws;
    printf("%c %-18s k=%-6d %-14s %-12s max %9.3f  mean %8.4f  bias %+8.4f u\n", tb_type_letter(w->type),
           tb_data_kind_name[j->kind], w->shape.k, t->who, t->way, t->sum.max_u, mean_u, bias_u);
    if (j->csv)
      fprintf(j->csv, "%c,\"%s\",%d,%d,%s,%s,%.3f,%.4f,%.4f\n", tb_type_letter(w->type), tb_data_kind_name[j->kind],
              w->shape.n, w->shape.k, t->who, t->way, t->sum.max_u, mean_u, bias_u);
  }
  fflush(stdout);
}

static fortran_gemm *find_openblas(enum tb_type type) {
  const char symbol[] = {tb_type_letter(type), 'g', 'e', 'm', 'm', '_', '\0'};
  void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  fortran_gemm *found = library ? (fortran_gemm *)dlsym(library, symbol) : NULL;
  if (!found) fprintf(stderr, "peer missing: OpenBLAS: %s\n", dlerror());
  return found;
}

static bool judge_depth(struct judge *j, struct tb_shape shape, bool short_list) {
  bool all_right = true;
  memset(j->tally, 0, sizeof j->tally);
  for (unsigned draw = 0; draw < (short_list ? DRAWS_SHORT : DRAWS); draw++) {
    tb_typed_set(&j->work, shape, TB_PRECISION_FP32);
    tb_typed_fill(&j->work, j->kind, draw);
    if (j->work.type == TB_C) all_right &= judge_ours(j, OURS_IEEE, TB_PRECISION_IEEE);
    all_right &= judge_ours(j, OURS, TB_PRECISION_FP32);
    judge_peers(j);
  }
  report(j);
  return all_right;
}

bool tb_typed_accuracy(struct tb_bench *bench, enum tb_type type, int n, bool short_list, FILE *csv) {
  struct judge j = {.csv = csv, .openblas = find_openblas(type)};
  const int last = short_list ? DEPTHS_SHORT : DEPTHS;
  const struct tb_shape deepest = {0, 0, n, n, depths[last - 1]};
  bool all_right = true;
  tb_typed_open(&j.work, bench, type, &deepest, 1, TB_UNIFORM, 0);
  j.c = tb_alloc_type(type, (size_t)n * (size_t)n);
  for (int kind = 0; kind < TB_DATA_KIND_COUNT; kind++) {
    j.kind = (enum tb_data_kind)kind;
    for (int d = 0; d < last; d++) all_right &= judge_depth(&j, (struct tb_shape){0, 0, n, n, depths[d]}, short_list);
  }
  free(j.c);
  tb_typed_close(&j.work);
  return all_right;
}
