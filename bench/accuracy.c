/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The error of C on all kinds of data and for growing k: ours, cuBLAS's and OpenBLAS's beside each other, over the same
 * draws. The exact product and |A||B| come from OpenBLAS's dgemm. See kernels_bench.h.
 *
 * Ours are: ieee, as the library chooses; and fp32 and fast on the tensor cores, also where the library would find the
 * other kernels quicker. What it then answers is either this row or that of ieee, whatever the shape.
 */
#include "kernels_bench.h"
#include "select/order.h"
#include "emulated/emulated_args.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int depths[] = {64, 256, 1024, 4096, 16384};
enum { DEPTHS = sizeof depths / sizeof depths[0], DEPTHS_SHORT = 2 };
/* Of each kind of data and depth so many A and B are drawn: the largest error of one draw is a matter of chance. */
enum { DRAWS = 4, DRAWS_SHORT = 1 };
enum { COL_MAJOR = 102, NO_TRANS = 111 }; /* as cblas.h numbers them */

typedef void blas_sgemm(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *,
                        int);
typedef void blas_dgemm(int, int, int, int, int, int, double, const double *, int, const double *, int, double,
                        double *, int);

/* One of ours; fp32 comes last, for it is compared with the others. */
struct method {
  const char *name;
  enum tb_precision precision;
};
static const struct method methods[] = {
    {"TileBLAS fast", TB_PRECISION_FAST}, {"TileBLAS ieee", TB_PRECISION_IEEE}, {"TileBLAS fp32", TB_PRECISION_FP32}};
enum { METHODS = sizeof methods / sizeof methods[0] };

/* Of an fp32 answer's tiles: how many have the bits of ieee, and how many others those of fast; total 0: not known. */
struct tiles {
  int as_ieee, as_fast, total;
};

/* Errors of one way to compute C, over the draws so far. */
struct tally {
  const char *who;
  char way[64];
  int draws;
  struct tb_error sum; /* but for max_u, the largest */
  struct tiles tiles;
};
enum { TALLIES = METHODS + TB_PEER_COUNT + 1 };

struct judge {
  const struct tb_bench *bench;
  const struct tb_choice *forced;
  FILE *csv;
  blas_sgemm *sgemm;
  blas_dgemm *dgemm;
  int n, k;
  enum tb_data_kind kind;
  float *a, *b, *c, *fast, *ieee; /* the last two: C in that precision, ieee by groups of TB_SGEMM_GROUP_K */
  double *wide_a, *wide_b, *exact, *magnitude;
  CUdeviceptr gpu_a, gpu_b, gpu_c;
  struct tally tally[TALLIES];
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

struct widening {
  double *to;
  const float *from;
  bool magnitude;
};

static void widen_part(void *ctx, size_t begin, size_t end) {
  const struct widening *w = ctx;
  for (size_t i = begin; i < end; i++) w->to[i] = w->magnitude ? fabs((double)w->from[i]) : w->from[i];
}

static void widen(double *to, const float *from, size_t count, bool magnitude) {
  struct widening w = {to, from, magnitude};
  tb_parallel(count, widen_part, &w);
}

/* Draws A and B, computes the exact product and |A||B|, and puts A and B on the GPU. */
static void prepare(struct judge *j, unsigned draw) {
  int n = j->n, k = j->k;
  size_t operand = (size_t)n * (size_t)k;
  tb_data_fill(j->a, (size_t)n, (size_t)k, j->kind, TB_OPERAND_A, 11 + 2 * draw);
  tb_data_fill(j->b, (size_t)k, (size_t)n, j->kind, TB_OPERAND_B, 12 + 2 * draw);
  for (int magnitude = 0; magnitude < 2; magnitude++) {
    widen(j->wide_a, j->a, operand, magnitude == 1);
    widen(j->wide_b, j->b, operand, magnitude == 1);
    j->dgemm(COL_MAJOR, NO_TRANS, NO_TRANS, n, n, k, 1, j->wide_a, n, j->wide_b, k, 0,
             magnitude ? j->magnitude : j->exact, n);
  }
  tb_gpu_upload(&j->bench->gpu, j->gpu_a, j->a, operand * sizeof(float));
  tb_gpu_upload(&j->bench->gpu, j->gpu_b, j->b, operand * sizeof(float));
}

static size_t result_bytes(const struct judge *j) { return sizeof(float) * (size_t)j->n * (size_t)j->n; }

static void poison(struct judge *j, int on_gpu) {
  memset(j->c, 0xff, result_bytes(j)); /* NaN */
  if (on_gpu) tb_gpu_upload(&j->bench->gpu, j->gpu_c, j->c, result_bytes(j));
}

static const struct tiles unknown = {0, 0, 0};

/* Adds the error of C to a tally; returns it. */
static double note(struct judge *j, int at, const char *who, const char *way, struct tiles tiles) {
  const struct tb_error e = tb_full_error(j->c, j->exact, j->magnitude, (size_t)j->n * (size_t)j->n);
  struct tally *t = &j->tally[at];
  t->who = who;
  snprintf(t->way, sizeof t->way, "%s", way);
  t->draws++;
  t->sum.max_u = e.max_u > t->sum.max_u || isnan(e.max_u) ? e.max_u : t->sum.max_u;
  t->sum.mean_u += e.mean_u, t->sum.bias_u += e.bias_u;
  t->tiles.as_ieee += tiles.as_ieee, t->tiles.as_fast += tiles.as_fast, t->tiles.total += tiles.total;
  return e.max_u;
}

static void report(const struct judge *j) {
  for (const struct tally *t = j->tally; t < j->tally + TALLIES; t++) {
    if (t->draws == 0) continue;
    const double mean_u = t->sum.mean_u / t->draws, bias_u = t->sum.bias_u / t->draws;
    char share[32] = ",";
    if (t->tiles.total > 0)
      snprintf(share, sizeof share, "%.3f,%.3f", (double)t->tiles.as_ieee / t->tiles.total,
               (double)t->tiles.as_fast / t->tiles.total);
    printf("%-18s k=%-6d %-20s %-12s %-11s max %9.3f  mean %8.4f  bias %+8.4f u\n", tb_data_kind_name[j->kind], j->k,
           t->who, t->way, t->tiles.total > 0 ? share : "", t->sum.max_u, mean_u, bias_u);
    if (j->csv) {
      fprintf(j->csv, "\"%s\",%d,%d,%s,%s,%s,%.3f,%.4f,%.4f\n", tb_data_kind_name[j->kind], j->n, j->k, t->who, t->way,
              share, t->sum.max_u, mean_u, bias_u);
    }
  }
}

static bool same_tile(const struct judge *j, const float *other, size_t row, size_t col) {
  const size_t n = (size_t)j->n, rows = n - row < TB_EMULATED_TILE_M ? n - row : TB_EMULATED_TILE_M;
  for (size_t c = col; c < n && c < col + TB_EMULATED_TILE_N; c++) {
    if (memcmp(j->c + row + c * n, other + row + c * n, rows * sizeof(float)) != 0) return false;
  }
  return true;
}

/* From what the tensor cores' kernels have computed each tile: the operands themselves, as ieee does; what fast
 * takes, fp16 planes where words have room in them; else bf16 planes. Where all are exact it cannot be told. */
static struct tiles compare_tiles(const struct judge *j) {
  struct tiles tiles = {0, 0, 0};
  for (size_t col = 0; col < (size_t)j->n; col += TB_EMULATED_TILE_N) {
    for (size_t row = 0; row < (size_t)j->n; row += TB_EMULATED_TILE_M) {
      const bool as_ieee = same_tile(j, j->ieee, row, col);
      tiles.as_ieee += as_ieee;
      tiles.as_fast += !as_ieee && same_tile(j, j->fast, row, col);
      tiles.total++;
    }
  }
  return tiles;
}

/* How C is computed: as forced, on the tensor cores if the precision allows it and they are there, or as chosen. */
static struct tb_choice choose_way(const struct judge *j, const struct tb_sgemm_args *args,
                                   enum tb_precision precision) {
  struct tb_product product = tb_bench_product(j->bench, false, false, args, precision);
  struct tb_choice way = *j->forced, split = {.family = TB_FAMILY_EMULATED, .emulated = {.splits = 1}};
  if (way.family != TB_FAMILY_NONE && tb_bench_complete(j->bench, &product, &way)) return way;
  if (tb_bench_complete(j->bench, &product, &split)) return split;
  return tb_kernels_choose(&j->bench->kernels, false, false, args, j->bench->workspace_bytes, precision);
}

/* Integers have exact results; fast promises finite ones; else what a right one can have. NaN is wrong. */
static bool is_right(const struct judge *j, enum tb_precision precision, double max_u) {
  if (j->kind == TB_INTEGER) return max_u == 0;
  if (precision == TB_PRECISION_FAST) return isfinite(max_u);
  return max_u <= tb_error_bound_u((size_t)j->k);
}

/* C in this precision, by groups of so many products where FMAs compute it. Returns how. */
static struct tb_choice compute(struct judge *j, enum tb_precision precision, int64_t group_k) {
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
                               .group_k = (int32_t)group_k,
                               .alpha = 1,
                               .first = 1,
                               .last = 1};
  const struct tb_choice choice = choose_way(j, &args, precision);
  poison(j, 1);
  tb_gpu_check(tb_kernels_launch(&j->bench->kernels, &choice, false, false, &args, j->bench->workspace, gpu->stream),
               "tb_kernels_launch", __FILE__, __LINE__);
  tb_gpu_download(gpu, j->c, j->gpu_c, result_bytes(j));
  return choice;
}

/* Ours; returns 0 when the result is wrong. */
static int judge_ours(struct judge *j, int at) {
  const struct method *method = &methods[at];
  const struct tb_choice choice = compute(j, method->precision, tb_group_k(j->n, j->n, j->k));
  char way[64];
  tb_choice_describe(&choice, way, sizeof way);
  struct tiles tiles = unknown;
  if (method->precision == TB_PRECISION_FP32 && choice.family == TB_FAMILY_EMULATED) tiles = compare_tiles(j);
  double max = note(j, at, method->name, way, tiles);
  bool right = is_right(j, method->precision, max);
  if (!right) fprintf(stderr, "WRONG RESULT: %s by %s: error %g u\n", method->name, way, max);
  if (method->precision == TB_PRECISION_FAST) memcpy(j->fast, j->c, result_bytes(j));
  if (method->precision == TB_PRECISION_IEEE) { /* in the groups of tiles that are computed again */
    compute(j, TB_PRECISION_IEEE, TB_SGEMM_GROUP_K);
    memcpy(j->ieee, j->c, result_bytes(j));
  }
  return right;
}

static void judge_peers(struct judge *j) {
  const float one = 1, zero = 0;
  for (int p = 0; j->bench->cublas && p < TB_PEER_COUNT; p++) {
    poison(j, 1);
    TB_NV(cublasSetMathMode(j->bench->cublas, tb_peer_math[p]));
    TB_NV(cublasSgemm_v2(j->bench->cublas, TB_OP_N, TB_OP_N, j->n, j->n, j->k, &one, (const float *)j->gpu_a, j->n,
                         (const float *)j->gpu_b, j->k, &zero, (float *)j->gpu_c, j->n));
    tb_gpu_download(&j->bench->gpu, j->c, j->gpu_c, result_bytes(j));
    note(j, METHODS + p, tb_peer_name[p], "", unknown);
  }
  poison(j, 0);
  j->sgemm(COL_MAJOR, NO_TRANS, NO_TRANS, j->n, j->n, j->k, 1, j->a, j->n, j->b, j->k, 0, j->c, j->n);
  note(j, METHODS + TB_PEER_COUNT, "OpenBLAS sgemm", "", unknown);
}

static double *fp64(size_t count) { return (double *)tb_alloc(2 * count); }

int tb_bench_accuracy(const struct tb_bench *bench, int n, bool short_list, const struct tb_choice *forced, FILE *csv) {
  struct judge j = {.bench = bench, .forced = forced, .csv = csv, .n = n};
  const int last = short_list ? DEPTHS_SHORT : DEPTHS;
  open_openblas(&j);
  size_t operand = (size_t)n * (size_t)depths[last - 1], result = (size_t)n * (size_t)n;
  j.a = tb_alloc(operand), j.b = tb_alloc(operand), j.c = tb_alloc(result), j.fast = tb_alloc(result),
  j.ieee = tb_alloc(result);
  j.wide_a = fp64(operand), j.wide_b = fp64(operand), j.exact = fp64(result), j.magnitude = fp64(result);
  j.gpu_a = tb_gpu_alloc(operand * sizeof(float));
  j.gpu_b = tb_gpu_alloc(operand * sizeof(float));
  j.gpu_c = tb_gpu_alloc(result * sizeof(float));
  int all_right = 1;
  for (int kind = 0; kind < TB_DATA_KIND_COUNT; kind++) {
    for (int d = 0; d < last; d++) {
      j.kind = (enum tb_data_kind)kind;
      j.k = depths[d];
      memset(j.tally, 0, sizeof j.tally);
      for (unsigned draw = 0; draw < (short_list ? DRAWS_SHORT : DRAWS); draw++) {
        prepare(&j, draw);
        for (int m = 0; m < METHODS; m++) all_right &= judge_ours(&j, m);
        judge_peers(&j);
      }
      report(&j);
    }
  }
  tb_gpu_free(j.gpu_a);
  tb_gpu_free(j.gpu_b);
  tb_gpu_free(j.gpu_c);
  free(j.a), free(j.b), free(j.c), free(j.fast), free(j.ieee);
  free(j.wide_a), free(j.wide_b), free(j.exact), free(j.magnitude);
  return all_right;
}
