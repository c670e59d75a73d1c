/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The error of C on five kinds of data and for growing k: ours, cuBLAS's and OpenBLAS's beside each other. The exact
 * product and |A||B| come from OpenBLAS's dgemm. See kernels_bench.h.
 */
#include "kernels_bench.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int depths[] = {256, 1024, 4096, 16384};
enum { DEPTHS = sizeof depths / sizeof depths[0] };
enum { COL_MAJOR = 102, NO_TRANS = 111 }; /* as cblas.h numbers them */

typedef void blas_sgemm(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *,
                        int);
typedef void blas_dgemm(int, int, int, int, int, int, double, const double *, int, const double *, int, double,
                        double *, int);

struct judge {
  const struct tb_bench *bench;
  const struct tb_choice *forced;
  FILE *csv;
  blas_sgemm *sgemm;
  blas_dgemm *dgemm;
  int n, k;
  enum tb_data_kind kind;
  float *a, *b, *c;
  double *wide_a, *wide_b, *exact, *magnitude;
  CUdeviceptr gpu_a, gpu_b, gpu_c;
};

static void open_openblas(struct judge *j) {
  void *lib = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  j->sgemm = lib ? (blas_sgemm *)dlsym(lib, "cblas_sgemm") : NULL;
  j->dgemm = lib ? (blas_dgemm *)dlsym(lib, "cblas_dgemm") : NULL;
  if (!j->sgemm || !j->dgemm) {
    fprintf(stderr, "--accuracy needs OpenBLAS for the exact product: %s\n", dlerror());
    exit(EXIT_FAILURE);
  }
}

static void widen(double *to, const float *from, size_t count, int magnitude) {
  for (size_t i = 0; i < count; i++) to[i] = magnitude ? fabs((double)from[i]) : from[i];
}

/* Draws A and B, computes the exact product and |A||B|, and puts A and B on the GPU. */
static void prepare(struct judge *j) {
  int n = j->n, k = j->k;
  size_t operand = (size_t)n * (size_t)k;
  tb_data_fill(j->a, (size_t)n, (size_t)k, j->kind, TB_OPERAND_A, 11);
  tb_data_fill(j->b, (size_t)k, (size_t)n, j->kind, TB_OPERAND_B, 12);
  for (int magnitude = 0; magnitude < 2; magnitude++) {
    widen(j->wide_a, j->a, operand, magnitude);
    widen(j->wide_b, j->b, operand, magnitude);
    j->dgemm(COL_MAJOR, NO_TRANS, NO_TRANS, n, n, k, 1, j->wide_a, n, j->wide_b, k, 0,
             magnitude ? j->magnitude : j->exact, n);
  }
  tb_gpu_upload(&j->bench->gpu, j->gpu_a, j->a, operand * sizeof(float));
  tb_gpu_upload(&j->bench->gpu, j->gpu_b, j->b, operand * sizeof(float));
}

static void poison(struct judge *j, int on_gpu) {
  size_t bytes = sizeof(float) * (size_t)j->n * (size_t)j->n;
  memset(j->c, 0xff, bytes); /* NaN */
  if (on_gpu) tb_gpu_upload(&j->bench->gpu, j->gpu_c, j->c, bytes);
}

static double report(struct judge *j, const char *who) {
  struct tb_error e = tb_full_error(j->c, j->exact, j->magnitude, (size_t)j->n * (size_t)j->n);
  printf("%-16s k=%-6d %-22s max %9.3f  mean %8.4f  bias %+8.4f u\n", tb_data_kind_name[j->kind], j->k, who, e.max_u,
         e.mean_u, e.bias_u);
  if (j->csv) {
    fprintf(j->csv, "\"%s\",%d,%d,%s,%.3f,%.4f,%.4f\n", tb_data_kind_name[j->kind], j->n, j->k, who, e.max_u, e.mean_u,
            e.bias_u);
  }
  return e.max_u;
}

/* Ours; returns 0 when the result is wrong. */
static int judge_tile(struct judge *j) {
  const struct tb_gpu *gpu = &j->bench->gpu;
  struct tb_sgemm_args args = {.a = (const float *)j->gpu_a,
                               .b = (const float *)j->gpu_b,
                               .d = (float *)j->gpu_c,
                               .lda = j->n,
                               .ldb = j->k,
                               .ldd = j->n,
                               .m = j->n,
                               .n = j->n,
                               .k = j->k,
                               .alpha = 1,
                               .first = 1,
                               .last = 1};
  struct tb_choice choice = *j->forced;
  if (choice.family == TB_FAMILY_NONE)
    choice = tb_kernels_choose(&j->bench->kernels, false, false, &args, j->bench->workspace_bytes);
  poison(j, 1);
  tb_gpu_check(tb_kernels_launch(&j->bench->kernels, &choice, false, false, &args, j->bench->workspace, gpu->stream),
               "tb_kernels_launch", __FILE__, __LINE__);
  tb_gpu_download(gpu, j->c, j->gpu_c, sizeof(float) * (size_t)j->n * (size_t)j->n);
  char way[64], who[80];
  tb_choice_describe(&choice, way, sizeof way);
  snprintf(who, sizeof who, "TileBLAS %s", way);
  double bound = tb_error_bound_u((size_t)j->k), max = report(j, who);
  if (!(max <= bound)) fprintf(stderr, "WRONG RESULT: %s: error %g u, a right one has at most %g\n", who, max, bound);
  return max <= bound;
}

static void judge_peers(struct judge *j) {
  const float one = 1, zero = 0;
  for (int p = 0; j->bench->cublas && p < TB_PEER_COUNT; p++) {
    poison(j, 1);
    TB_NV(cublasSetMathMode(j->bench->cublas, tb_peer_math[p]));
    TB_NV(cublasSgemm_v2(j->bench->cublas, TB_OP_N, TB_OP_N, j->n, j->n, j->k, &one, (const float *)j->gpu_a, j->n,
                         (const float *)j->gpu_b, j->k, &zero, (float *)j->gpu_c, j->n));
    tb_gpu_download(&j->bench->gpu, j->c, j->gpu_c, sizeof(float) * (size_t)j->n * (size_t)j->n);
    report(j, tb_peer_name[p]);
  }
  poison(j, 0);
  j->sgemm(COL_MAJOR, NO_TRANS, NO_TRANS, j->n, j->n, j->k, 1, j->a, j->n, j->b, j->k, 0, j->c, j->n);
  report(j, "OpenBLAS sgemm");
}

static double *fp64(size_t count) { return (double *)tb_alloc(2 * count); }

int tb_bench_accuracy(const struct tb_bench *bench, int n, const struct tb_choice *forced, FILE *csv) {
  struct judge j = {.bench = bench, .forced = forced, .csv = csv, .n = n};
  open_openblas(&j);
  size_t operand = (size_t)n * (size_t)depths[DEPTHS - 1], result = (size_t)n * (size_t)n;
  j.a = tb_alloc(operand), j.b = tb_alloc(operand), j.c = tb_alloc(result);
  j.wide_a = fp64(operand), j.wide_b = fp64(operand), j.exact = fp64(result), j.magnitude = fp64(result);
  j.gpu_a = tb_gpu_alloc(operand * sizeof(float));
  j.gpu_b = tb_gpu_alloc(operand * sizeof(float));
  j.gpu_c = tb_gpu_alloc(result * sizeof(float));
  int all_right = 1;
  for (int kind = 0; kind < TB_DATA_KIND_COUNT; kind++) {
    for (int d = 0; d < DEPTHS; d++) {
      j.kind = (enum tb_data_kind)kind;
      j.k = depths[d];
      prepare(&j);
      all_right &= judge_tile(&j);
      judge_peers(&j);
    }
  }
  tb_gpu_free(j.gpu_a);
  tb_gpu_free(j.gpu_b);
  tb_gpu_free(j.gpu_c);
  free(j.a), free(j.b), free(j.c);
  free(j.wide_a), free(j.wide_b), free(j.exact), free(j.magnitude);
  return all_right;
}
