/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Speed of the production kernels on resident data, beside cuBLAS in the same run, shape by shape.
 *
 *   kernels [--csv FILE] [--tile auto|each|NAME] [--short] [--shape NN:MxNxK]... [--budget SECONDS]
 *           [--rotate MIB] [--peers auto|none] [--accuracy N]
 *
 * Operands are random; each launch takes other copies of them, `rotate` MiB in all, so that the L2 cache starts cold.
 * Times are medians of CUDA-event times over batches (gpu.h). Each result is checked against fp64 on a sample of rows
 * and columns, and a wrong one ends the program with status 1. With --accuracy the five kinds of data are multiplied
 * for N x N results instead, and the errors written down beside cuBLAS's and OpenBLAS's.
 */
#include "kernels_bench.h"
#include "data.h"
#include "shapes.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const int tb_peer_math[TB_PEER_COUNT] = {TB_MATH_PEDANTIC, TB_MATH_DEFAULT, TB_MATH_TF32};
const char *const tb_peer_name[TB_PEER_COUNT] = {"cuBLAS fp32 pedantic", "cuBLAS fp32", "cuBLAS tf32"};

/* A long device buffer filled with a shorter pool of random values, again and again. */
struct arena {
  CUdeviceptr gpu;
  float *pool;
  size_t pool_len, len; /* floats */
};

struct options {
  const char *csv, *tile, *peers;
  struct tb_shape shape[TB_SHAPES_MAX];
  int shapes, short_list, accuracy;
  double budget_s;
  size_t rotate_bytes;
};

enum { BY_CUBLAS = -1 };

/* One product on rotating buffers, by one of our tiles or by cuBLAS. */
struct work {
  const struct tb_bench *bench;
  int tile; /* index in tb_tiles; BY_CUBLAS: cuBLAS in its current mode */
  struct tb_shape shape;
  CUdeviceptr a, b, c;
  size_t a_step, b_step, c_step; /* floats between copies */
  long copies;
};

static size_t round_up(size_t x) { return (x + 63) / 64 * 64; /* every copy starts as aligned as the first */ }

static void plan(struct work *w, struct tb_shape s, size_t rotate_bytes) {
  w->shape = s;
  w->a_step = round_up((size_t)s.m * (size_t)s.k);
  w->b_step = round_up((size_t)s.k * (size_t)s.n);
  w->c_step = round_up((size_t)s.m * (size_t)s.n);
  size_t copy_bytes = sizeof(float) * (w->a_step + w->b_step + w->c_step);
  w->copies = (long)(rotate_bytes / copy_bytes) + 1;
}

static void enqueue(void *ctx, long i) {
  const struct work *w = ctx;
  const struct tb_shape *s = &w->shape;
  size_t copy = (size_t)(i % w->copies);
  const float *a = (const float *)w->a + copy * w->a_step, *b = (const float *)w->b + copy * w->b_step;
  float *c = (float *)w->c + copy * w->c_step;
  int lda = s->ta ? s->k : s->m, ldb = s->tb ? s->n : s->k;
  if (w->tile != BY_CUBLAS) {
    struct tb_sgemm_args args = {.a = a,
                                 .b = b,
                                 .d = c,
                                 .lda = lda,
                                 .ldb = ldb,
                                 .ldd = s->m,
                                 .m = s->m,
                                 .n = s->n,
                                 .k = s->k,
                                 .alpha = 1,
                                 .first = 1,
                                 .last = 1};
    const struct tb_bench *bench = w->bench;
    tb_gpu_check(tb_kernels_launch(&bench->kernels, w->tile, s->ta, s->tb, &args, bench->gpu.stream),
                 "tb_kernels_launch", __FILE__, __LINE__);
  } else {
    const float one = 1, zero = 0;
    TB_NV(cublasSgemm_v2(w->bench->cublas, s->ta, s->tb, s->m, s->n, s->k, &one, a, lda, b, ldb, &zero, c, s->m));
  }
}

static struct arena fill_arena(const struct tb_gpu *gpu, size_t len, unsigned seed) {
  enum { POOL = 16777213 }; /* 64 MiB, and a prime, so that no row of a matrix repeats another */
  struct arena x = {tb_gpu_alloc(len * sizeof(float)), NULL, len < POOL ? len : POOL, len};
  x.pool = tb_alloc(x.pool_len);
  tb_data_fill(x.pool, x.pool_len, 1, TB_UNIFORM, TB_OPERAND_A, seed);
  for (size_t at = 0; at < len; at += x.pool_len) {
    size_t part = len - at < x.pool_len ? len - at : x.pool_len;
    tb_gpu_upload(gpu, x.gpu + at * sizeof(float), x.pool, part * sizeof(float));
  }
  return x;
}

/* Runs one launch into a poisoned C and compares a sample of it with fp64. */
static struct tb_error check(struct work *w, const struct arena *a, const struct arena *b) {
  const struct tb_shape *s = &w->shape;
  size_t row[TB_SAMPLE_MAX], col[TB_SAMPLE_MAX], m = (size_t)s->m;
  int rows = tb_sample(m, 3, row), cols = tb_sample((size_t)s->n, 4, col);
  float *column = tb_alloc(m), picked[TB_SAMPLE_MAX * TB_SAMPLE_MAX];
  memset(column, 0xff, m * sizeof *column); /* NaN */
  for (int j = 0; j < cols; j++) {
    tb_gpu_upload(&w->bench->gpu, w->c + col[j] * m * sizeof(float), column, m * sizeof(float));
  }
  enqueue(w, 0);
  for (int j = 0; j < cols; j++) {
    tb_gpu_download(&w->bench->gpu, column, w->c + col[j] * m * sizeof(float), m * sizeof(float));
    for (int i = 0; i < rows; i++) picked[i + j * rows] = column[row[i]];
  }
  free(column);
  struct tb_pool_view view_a = {a->pool, 0, a->pool_len, (size_t)(s->ta ? s->k : s->m), s->ta};
  struct tb_pool_view view_b = {b->pool, 0, b->pool_len, (size_t)(s->tb ? s->n : s->k), s->tb};
  return tb_sample_error(view_a, view_b, (size_t)s->k, row, rows, col, cols, picked);
}

struct row {
  double us, peer_us[TB_PEER_COUNT]; /* 0: not measured */
  struct tb_error error;
};

static double fp32_peer_us(const struct row *r) {
  return fmin(r->peer_us[TB_PEER_PEDANTIC], r->peer_us[TB_PEER_DEFAULT]);
}

static void print_row(FILE *csv, const struct work *w, const struct row *r) {
  const struct tb_shape *s = &w->shape;
  double tflops = 2e-6 * s->m * s->n * s->k / r->us, peer = fp32_peer_us(r);
  printf("%c%c %6d %6d %6d  %-8s %10.1f us %7.2f TFLOP/s", "NT"[s->ta], "NT"[s->tb], s -> m, s -> n, s -> k,
         tb_tiles[w->tile].name, r->us, tflops);
  if (peer > 0) printf("  cuBLAS %10.1f us  ratio %.3f", peer, peer / r->us);
  printf("  error %.2f u\n", r->error.max_u);
  fflush(stdout);
  if (!csv) return;
  fprintf(csv, "ieee,%c,%c,%d,%d,%d,%.2f,%.3f,", "NT"[s->ta], "NT"[s->tb], s -> m, s -> n, s -> k, r -> us, tflops);
  if (peer > 0)
    fprintf(csv, "%.2f,%.4f,", peer, peer / r->us);
  else
    fprintf(csv, ",,");
  fprintf(csv, "%.3f,%.4f,%.4f,%s", r->error.max_u, r->error.mean_u, r->error.bias_u, tb_tiles[w->tile].name);
  for (int p = 0; p < TB_PEER_COUNT; p++) {
    if (peer > 0)
      fprintf(csv, ",%.2f", r->peer_us[p]);
    else
      fprintf(csv, ",");
  }
  fprintf(csv, "\n");
  fflush(csv);
}

static int measure(struct work *w, const struct arena *a, const struct arena *b, struct row *r, double budget_s) {
  r->error = check(w, a, b);
  if (!(r->error.max_u <= tb_error_bound_u((size_t)w->shape.k))) {
    fprintf(stderr, "WRONG RESULT: tile %s %c%c %dx%dx%d: error %g u, a right one has at most %g\n",
            tb_tiles[w->tile].name, "NT"[w->shape.ta], "NT"[w->shape.tb], w -> shape.m, w->shape.n, w->shape.k,
            r->error.max_u, tb_error_bound_u((size_t)w->shape.k));
    return 0;
  }
  r->us = tb_gpu_median_us(&w->bench->gpu, enqueue, w, budget_s);
  return 1;
}

static void measure_peers(struct work *w, struct row *r, double budget_s) {
  for (int p = 0; p < TB_PEER_COUNT; p++) {
    TB_NV(cublasSetMathMode(w->bench->cublas, tb_peer_math[p]));
    r->peer_us[p] = tb_gpu_median_us(&w->bench->gpu, enqueue, w, budget_s);
  }
}

/* Ratios summed up as the geometric mean and the worst. */
static void print_summary(const double *ratio, int count) {
  double log_sum = 0, worst = INFINITY;
  for (int i = 0; i < count; i++) {
    log_sum += log(ratio[i]);
    worst = fmin(worst, ratio[i]);
  }
  if (count)
    printf("cuBLAS fp32 time over ours: geometric mean %.3f, worst %.3f, of %d\n", exp(log_sum / count), worst, count);
}

static int bench_speed(const struct tb_bench *bench, const struct options *o) {
  struct work w = {.bench = bench};
  size_t a_len = 0, b_len = 0, c_len = 0;
  for (int i = 0; i < o->shapes; i++) {
    plan(&w, o->shape[i], o->rotate_bytes);
    a_len = fmax(a_len, w.a_step * (size_t)w.copies);
    b_len = fmax(b_len, w.b_step * (size_t)w.copies);
    c_len = fmax(c_len, w.c_step * (size_t)w.copies);
  }
  struct arena a = fill_arena(&bench->gpu, a_len, 1), b = fill_arena(&bench->gpu, b_len, 2);
  w.a = a.gpu, w.b = b.gpu, w.c = tb_gpu_alloc(c_len * sizeof(float));
  int all_right = 1, ratios = 0, each = strcmp(o->tile, "each") == 0;
  double ratio[TB_SHAPES_MAX * TB_TILE_COUNT];
  for (int i = 0; i < o->shapes; i++) {
    struct row r = {0};
    plan(&w, o->shape[i], o->rotate_bytes);
    w.tile = BY_CUBLAS;
    if (bench->cublas) measure_peers(&w, &r, o->budget_s);
    int one = tb_bench_tile(bench, w.shape.m, w.shape.n);
    for (int t = 0; t < TB_TILE_COUNT; t++) {
      if (each ? bench->kernels.blocks_per_sm[t] == 0 : t != one) continue;
      w.tile = t;
      int right = measure(&w, &a, &b, &r, o->budget_s);
      all_right &= right;
      if (!right) continue;
      print_row(bench->csv, &w, &r);
      if (bench->cublas) ratio[ratios++] = fp32_peer_us(&r) / r.us;
    }
  }
  print_summary(ratio, ratios);
  tb_gpu_free(a.gpu);
  tb_gpu_free(b.gpu);
  tb_gpu_free(w.c);
  free(a.pool);
  free(b.pool);
  return all_right;
}

int tb_bench_tile(const struct tb_bench *bench, int m, int n) {
  if (bench->forced >= 0) return bench->forced;
  return tb_kernels_choose(bench->kernels.blocks_per_sm, bench->gpu.sm_count, m, n);
}

static _Noreturn void usage(void) {
  fprintf(stderr,
          "usage: kernels [--csv FILE] [--tile auto|each|NAME] [--short] [--shape NN:MxNxK]... [--budget SECONDS]\n"
          "               [--rotate MIB] [--peers auto|none] [--accuracy N]\n");
  exit(2);
}

static void parse(struct options *o, int argc, char **argv) {
  static const struct option option[] = {{"csv", 1, 0, 'c'},   {"tile", 1, 0, 't'},     {"short", 0, 0, 's'},
                                         {"shape", 1, 0, 'S'}, {"budget", 1, 0, 'b'},   {"rotate", 1, 0, 'r'},
                                         {"peers", 1, 0, 'p'}, {"accuracy", 1, 0, 'a'}, {0, 0, 0, 0}};
  *o = (struct options){.tile = "auto", .peers = "auto", .budget_s = 0.1, .rotate_bytes = (size_t)256 << 20};
  for (int c; (c = getopt_long(argc, argv, "", option, NULL)) != -1;) {
    if (c == 'c')
      o->csv = optarg;
    else if (c == 't')
      o->tile = optarg;
    else if (c == 's')
      o->short_list = 1;
    else if (c == 'b')
      o->budget_s = atof(optarg);
    else if (c == 'r')
      o->rotate_bytes = (size_t)atol(optarg) << 20;
    else if (c == 'p')
      o->peers = optarg;
    else if (c == 'a')
      o->accuracy = atoi(optarg);
    else if (c != 'S' || o->shapes == TB_SHAPES_MAX || !tb_shape_parse(optarg, &o->shape[o->shapes++]))
      usage();
  }
  if (optind != argc || (strcmp(o->peers, "auto") && strcmp(o->peers, "none"))) usage();
  if (o->shapes == 0) o->shapes = tb_shapes(o->shape, o->short_list);
}

static int forced_tile(const char *name) {
  for (int t = 0; t < TB_TILE_COUNT; t++) {
    if (strcmp(tb_tiles[t].name, name) == 0) return t;
  }
  if (strcmp(name, "auto") && strcmp(name, "each")) {
    fprintf(stderr, "kernels: no tile is called %s\n", name);
    exit(2);
  }
  return -1;
}

static void open_cublas(struct tb_bench *bench, const char *peers) {
  if (strcmp(peers, "none") == 0)
    fprintf(stderr, "peer missing: cuBLAS, by --peers none\n");
  else if (tb_nvidia_load()) {
    TB_NV(cublasCreate_v2(&bench->cublas));
    TB_NV(cublasSetStream_v2(bench->cublas, bench->gpu.stream));
  }
}

static FILE *open_csv(const struct options *o) {
  if (!o->csv) return NULL;
  FILE *f = fopen(o->csv, "w");
  if (!f) {
    perror(o->csv);
    exit(EXIT_FAILURE);
  }
  fputs(o->accuracy ? "kind,n,k,who,max_err_u,mean_err_u,bias_u\n"
                    : "precision,ta,tb,m,n,k,us,tflops,cublas_us,ratio,max_err_u,mean_err_u,bias_u,tile,"
                      "cublas_pedantic_us,cublas_default_us,cublas_tf32_us\n",
        f);
  return f;
}

int main(int argc, char **argv) {
  struct options o;
  parse(&o, argc, argv);
  struct tb_bench bench = {.forced = forced_tile(o.tile)};
  bench.gpu = tb_gpu_open(0);
  tb_gpu_check(tb_kernels_load(&bench.kernels, &bench.module), "tb_kernels_load", __FILE__, __LINE__);
  open_cublas(&bench, o.peers);
  bench.csv = open_csv(&o);
  printf("%s, %d SMs\n", bench.gpu.name, bench.gpu.sm_count);
  int all_right = o.accuracy ? tb_bench_accuracy(&bench, o.accuracy) : bench_speed(&bench, &o);
  if (bench.csv && fclose(bench.csv)) {
    perror(o.csv);
    return EXIT_FAILURE;
  }
  if (bench.cublas) TB_NV(cublasDestroy_v2(bench.cublas));
  TB_GPU(cuModuleUnload(bench.module));
  tb_gpu_close(&bench.gpu);
  return all_right ? EXIT_SUCCESS : EXIT_FAILURE;
}
