/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors of one routine of each shape on all kinds of data, of trsm the residual: ours, cuBLAS's and OpenBLAS's on the
 * same draws. Operands in ordinary memory; ours is what a call of this size forced to the GPU gives. See level3.h.
 */
#include "gpu.h"
#include "level3.h"
#include "peers/cublas_level3.h"
#include "sides.h"

#include <dlfcn.h>
#include <math.h>
#include <string.h>

enum who { OURS, CUBLAS, OPENBLAS, WHO_COUNT };
static const char *const names[WHO_COUNT] = {"TileBLAS", "cuBLAS", "OpenBLAS"};

/* Errors over the draws so far. */
struct tally {
  int draws;
  struct tb_error sum; /* but for max_u, the largest */
};

struct judge {
  const struct tb_level3_options *o;
  struct tb_gpu gpu;
  tb_cublas_handle cublas; /* NULL: peer missing */
  void *openblas;          /* the library */
  struct tb_level3 x;
  CUdeviceptr a, b, c;
};

static const char *const shapes[] = {"symm", "syrk", "syr2k", "trmm", "trsm"};

/* A times A where A is next to nothing is nothing; and where sums of A and of B are taken together, what is below the
 * smallest normal number is judged by units as large as B's. */
static bool says_something(const struct tb_level3 *x, enum tb_data_kind kind) {
  const bool subnormal = kind == TB_SUBNORMAL || kind == TB_SUBNORMAL_C;
  return !subnormal || (x->routine->form != TB_FORM_RANK_K && x->routine->form != TB_FORM_RANK_2K);
}

static void by_cublas(struct judge *j) {
  struct tb_level3 *const x = &j->x;
  const size_t bytes = (size_t)tb_type_bytes(x->type), c_bytes = (size_t)x->m * (size_t)x->n * bytes;
  tb_gpu_upload(&j->gpu, j->a, x->a, tb_extent_elems(tb_level3_a(x)) * bytes);
  tb_gpu_upload(&j->gpu, j->b, x->b, tb_extent_elems(tb_level3_b(x)) * bytes);
  tb_gpu_upload(&j->gpu, j->c, x->c, c_bytes);
  TB_NV(cublasSetMathMode(j->cublas, TB_MATH_PEDANTIC));
  TB_NV_GEMM(tb_nvidia_level3(j->cublas, x, (void *)j->a, (void *)j->b, (void *)j->c, true));
  tb_gpu_download(&j->gpu, x->c, j->c, c_bytes);
}

/* False: it has no such routine. */
static bool computed_by(struct judge *j, enum who who) {
  if (who == CUBLAS && j->cublas == NULL) return false;
  tb_level3_prepare_c(&j->x);
  if (who == CUBLAS) return by_cublas(j), true;
  tb_level3_function *const function = tb_level3_find(who == OURS ? RTLD_DEFAULT : j->openblas, &j->x);
  if (function != NULL) tb_level3_call(&j->x, function, j->x.a, j->x.b, j->x.c);
  return function != NULL;
}

static void note(struct tally *t, struct tb_error e) {
  t->draws++;
  if (!(e.max_u <= t->sum.max_u)) t->sum.max_u = e.max_u;
  t->sum.mean_u += e.mean_u, t->sum.bias_u += e.bias_u;
}

static void report(const struct judge *j, enum tb_data_kind kind, const struct tally *tally) {
  const struct tb_level3 *const x = &j->x;
  for (int who = 0; who < WHO_COUNT; who++) {
    const struct tally *const t = &tally[who];
    if (t->draws == 0) continue;
    const double mean_u = t->sum.mean_u / t->draws, bias_u = t->sum.bias_u / t->draws;
    printf("%c%-5s %-18s n=%-5d %-8s max %9.3f  mean %8.4f  bias %+8.4f u\n", tb_type_letter(x->type), x->routine->name,
           tb_data_kind_name[kind], x->m, names[who], t->sum.max_u, mean_u, bias_u);
    if (j->o->csv != NULL)
      fprintf(j->o->csv, "%c,%s,\"%s\",%d,%s,%.3f,%.4f,%.4f\n", tb_type_letter(x->type), x->routine->name,
              tb_data_kind_name[kind], x->m, names[who], t->sum.max_u, mean_u, bias_u);
  }
  fflush(stdout);
}

/* Integers have exact products; a solution of theirs is none of them. */
static bool is_right(const struct judge *j, enum tb_data_kind kind, double max_u) {
  const bool exact = kind == TB_INTEGER && j->x.routine->form != TB_FORM_TRSM;
  if (exact ? max_u == 0 : max_u <= tb_level3_bound_u(&j->x)) return true;
  fprintf(stderr, "WRONG RESULT: %c%s on %s: error %g u\n", tb_type_letter(j->x.type), j->x.routine->name,
          tb_data_kind_name[kind], max_u);
  return false;
}

static bool judge_routine(struct judge *j, const struct tb_level3_routine *routine, enum tb_type type, int n) {
  const struct tb_level3 memory = j->x;
  bool all_right = true;
  j->x = tb_level3_make(routine, type, "LLNN", n, n);
  j->x.a = memory.a, j->x.b = memory.b, j->x.c = memory.c;
  for (int kind = 0; kind < TB_DATA_KIND_COUNT; kind++) {
    struct tally tally[WHO_COUNT] = {{0, {0, 0, 0}}};
    if (!says_something(&j->x, (enum tb_data_kind)kind)) continue;
    for (int draw = 0; draw < j->o->draws; draw++) {
      tb_level3_fill(&j->x, (enum tb_data_kind)kind, (unsigned)draw);
      for (int who = 0; who < WHO_COUNT; who++)
        if (computed_by(j, (enum who)who)) note(&tally[who], tb_level3_error(&j->x));
    }
    report(j, (enum tb_data_kind)kind, tally);
    all_right &= is_right(j, (enum tb_data_kind)kind, tally[OURS].sum.max_u);
  }
  return all_right;
}

static bool judge_size(struct judge *j, enum tb_type type, int n) {
  bool all_right = true;
  const size_t bytes = (size_t)n * (size_t)n * (size_t)tb_type_bytes(type);
  tb_level3_alloc(&j->x, type, n, n);
  j->a = tb_gpu_alloc(bytes), j->b = tb_gpu_alloc(bytes), j->c = tb_gpu_alloc(bytes);
  for (int i = 0; i < TB_LEVEL3_ROUTINES; i++)
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
      if (strcmp(tb_level3_routines[i].name, shapes[s]) == 0 && tb_level3_wants(j->o, &tb_level3_routines[i], type))
        all_right &= judge_routine(j, &tb_level3_routines[i], type, n);
  tb_gpu_free(j->a), tb_gpu_free(j->b), tb_gpu_free(j->c);
  tb_level3_free(&j->x);
  return all_right;
}

bool tb_level3_errors(const struct tb_level3_options *o) {
  struct judge j = {.o = o, .gpu = tb_gpu_open(0), .openblas = dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_NOLOAD)};
  bool all_right = true;
  tb_sides_find(TB_S);
  tb_sides_route("gpu");
  if (o->peers && tb_nvidia_load()) {
    TB_NV(cublasCreate_v2(&j.cublas));
    TB_NV(cublasSetStream_v2(j.cublas, j.gpu.stream));
  }
  if (!o->peers) fprintf(stderr, "peer missing: cuBLAS, by --peers none\n");
  if (o->csv != NULL && o->fresh_csv) fputs("type,routine,kind,n,who,max_err_u,mean_err_u,bias_u\n", o->csv);
  for (const char *letter = o->types; *letter != '\0'; letter++)
    for (int i = 0; i < o->sizes; i++)
      all_right &= judge_size(&j, (enum tb_type)(strchr("sdcz", *letter) - "sdcz"), o->size[i]);
  if (j.cublas != NULL) TB_NV(cublasDestroy_v2(j.cublas));
  tb_gpu_close(&j.gpu);
  return all_right;
}
