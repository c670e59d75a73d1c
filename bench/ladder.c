/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs the teaching ladder (kernels/teaching) step by step, and after it the production kernels, from the smallest tile
 * to the largest, and cuBLAS: what each idea is worth on this GPU.
 *
 *   ladder [--size M N K] [--reps N] [--fatbin FILE] [--csv FILE] [--peers auto|none]
 *
 * For each step: floating-point operations per byte that it reads from global memory, TFLOP/s, share of the GPU's
 * nominal peak, and times the step before; in the CSV also the roofline, which is the peak or what the memory's nominal
 * bandwidth would allow at that many operations per byte. A step that takes only multiples of its tile gets M, N and K
 * rounded up to them. Each result is compared with fp64 before it is timed; operands stay on the GPU and in the same
 * place.
 * Status 1: a wrong result or a failure; 77: no GPU.
 */
#include "../kernels/teaching/ladder.h"
#include "work.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef TB_LADDER_FATBIN
#error "TB_LADDER_FATBIN names the ladder's fat binary as the build made it"
#endif

struct options {
  int m, n, k, reps;
  const char *fatbin, *csv, *peers;
};

struct problem {
  int m, n, k;
};

/* Everything the steps share: operands large enough for the largest problem, on both sides. */
struct bench {
  struct tb_bench production; /* and cuBLAS */
  struct tb_gpu gpu;          /* production's */
  CUmodule module;            /* the ladder's */
  CUevent begin, end;
  float *a, *b, *c; /* row-major, without padding */
  CUdeviceptr da, db, dc;
  double peak_tflops;
  int reps;
  FILE *csv; /* NULL: none */
};

struct result {
  const char *title, *name; /* for people; of the kernel */
  struct problem problem;
  double intensity; /* flop/byte; 0: nobody knows */
  double tflops, error_u, bound_u;
};

static _Noreturn void usage(void) {
  fprintf(stderr, "usage: ladder [--size M N K] [--reps N] [--fatbin FILE] [--csv FILE] [--peers auto|none]\n");
  exit(2);
}

static int positive(const char *text) {
  char *end;
  long value = text ? strtol(text, &end, 10) : 0;
  if (value < 1 || value > 1 << 30 || *end) usage();
  return (int)value;
}

static struct options parse(int argc, char **argv) {
  struct options o = {.m = 4096, .n = 4096, .k = 4096, .reps = 11, .fatbin = TB_LADDER_FATBIN, .peers = "auto"};
  for (int i = 1; i < argc; i++) {
    /* argv[argc] is NULL, and each text is looked at before the next, so a missing value ends in usage(). */
    if (strcmp(argv[i], "--size") == 0) {
      o.m = positive(argv[++i]);
      o.n = positive(argv[++i]);
      o.k = positive(argv[++i]);
    } else if (strcmp(argv[i], "--reps") == 0) {
      o.reps = positive(argv[++i]);
    } else if (strcmp(argv[i], "--fatbin") == 0 && i + 1 < argc) {
      o.fatbin = argv[++i];
    } else if (strcmp(argv[i], "--csv") == 0 && i + 1 < argc) {
      o.csv = argv[++i];
    } else if (strcmp(argv[i], "--peers") == 0 && i + 1 < argc) {
      o.peers = argv[++i];
      if (strcmp(o.peers, "auto") && strcmp(o.peers, "none")) usage();
    } else {
      usage();
    }
  }
  return o;
}

static int round_up(int x, int step) { return (x + step - 1) / step * step; }

/* The step's problem: the one asked for, or the next larger one that the step takes. */
static struct problem problem_for(const struct tb_ladder_step *s, const struct options *o) {
  if (s->sizes == TB_SIZES_ANY) return (struct problem){o->m, o->n, o->k};
  return (struct problem){round_up(o->m, s->tile_m), round_up(o->n, s->tile_n), round_up(o->k, s->tile_k)};
}

static struct bench open_bench(const struct options *o) {
  struct bench b = {.reps = o->reps};
  tb_bench_open(&b.production, strcmp(o->peers, "none") != 0);
  b.gpu = b.production.gpu;
  int clock_khz;
  TB_GPU(cuDeviceGetAttribute(&clock_khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, b.gpu.device));
  b.peak_tflops = 2e-6 * b.production.kernels.device.fma_per_us * b.gpu.sm_count;
  b.module = tb_gpu_load(o->fatbin);
  TB_GPU(cuEventCreate(&b.begin, CU_EVENT_DEFAULT));
  TB_GPU(cuEventCreate(&b.end, CU_EVENT_DEFAULT));

  struct problem most = {0, 0, 0};
  for (int i = 0; i < TB_LADDER_STEPS; i++) {
    struct problem p = problem_for(&tb_ladder[i], o);
    most.m = p.m > most.m ? p.m : most.m;
    most.n = p.n > most.n ? p.n : most.n;
    most.k = p.k > most.k ? p.k : most.k;
  }
  size_t a_elems = (size_t)most.m * most.k, b_elems = (size_t)most.k * most.n, c_elems = (size_t)most.m * most.n;
  b.a = tb_alloc(a_elems);
  b.b = tb_alloc(b_elems);
  b.c = tb_alloc(c_elems);
  tb_data_fill(b.a, most.m, most.k, TB_UNIFORM, TB_OPERAND_A, 1);
  tb_data_fill(b.b, most.k, most.n, TB_UNIFORM, TB_OPERAND_B, 2);
  b.da = tb_gpu_alloc(a_elems * sizeof(float));
  b.db = tb_gpu_alloc(b_elems * sizeof(float));
  b.dc = tb_gpu_alloc(c_elems * sizeof(float));
  tb_gpu_upload(&b.gpu, b.da, b.a, a_elems * sizeof(float));
  tb_gpu_upload(&b.gpu, b.db, b.b, b_elems * sizeof(float));
  printf("%s, %d SMs at %.0f MHz: nominal peak %.1f TFLOP/s in fp32\n", b.gpu.name, b.gpu.sm_count, clock_khz / 1e3,
         b.peak_tflops);
  return b;
}

static void close_bench(struct bench *b) {
  tb_gpu_free(b->da);
  tb_gpu_free(b->db);
  tb_gpu_free(b->dc);
  TB_GPU(cuEventDestroy(b->begin));
  TB_GPU(cuEventDestroy(b->end));
  TB_GPU(cuModuleUnload(b->module));
  tb_bench_close(&b->production);
  free(b->a);
  free(b->b);
  free(b->c);
}

static void launch(struct bench *b, const struct tb_ladder_step *s, CUfunction f, struct problem p) {
  int per_sm;
  unsigned grid_x, grid_y;
  TB_GPU(cuOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, f, s->block_x * s->block_y, 0));
  tb_ladder_grid_size(s, p.m, p.n, (int64_t)per_sm * b->gpu.sm_count, &grid_x, &grid_y);
  void *arguments[] = {&b->da, &b->db, &b->dc, &p.m, &p.n, &p.k};
  TB_GPU(cuLaunchKernel(f, grid_x, grid_y, 1, (unsigned)s->block_x, (unsigned)s->block_y, 1, 0, b->gpu.stream,
                        arguments, NULL));
}

/*
 * Largest error of some thousand elements in units of 2^-24 |A||B|, see data.h; infinity when any element of C was not
 * written. Row-major C = A B is column-major C^T = B^T A^T, so the operands change places.
 */
static double error_u(struct bench *b, const struct tb_ladder_step *s, CUfunction f, struct problem p) {
  size_t m = (size_t)p.m, n = (size_t)p.n, k = (size_t)p.k, elems = m * n;
  for (size_t i = 0; i < elems; i++) b->c[i] = NAN;
  tb_gpu_upload(&b->gpu, b->dc, b->c, elems * sizeof(float));
  launch(b, s, f, p);
  tb_gpu_download(&b->gpu, b->c, b->dc, elems * sizeof(float));
  for (size_t i = 0; i < elems; i++)
    if (isnan(b->c[i])) return INFINITY;

  size_t row[TB_SAMPLE_MAX], col[TB_SAMPLE_MAX];
  int rows = tb_sample(m, 3, row), cols = tb_sample(n, 4, col);
  static float sample[TB_SAMPLE_MAX * TB_SAMPLE_MAX];
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < cols; j++) sample[j + i * cols] = b->c[row[i] * n + col[j]];
  struct tb_pool_view bt = {.data = b->b, .ld = n}, at = {.data = b->a, .ld = k};
  return tb_sample_error(bt, at, k, col, cols, row, rows, sample).max_u;
}

/* Median milliseconds of `reps` launches, after one that warms up. */
static double median_ms(struct bench *b, const struct tb_ladder_step *s, CUfunction f, struct problem p) {
  double *ms = malloc((size_t)b->reps * sizeof *ms);
  if (!ms) {
    perror("ladder");
    exit(EXIT_FAILURE);
  }
  launch(b, s, f, p);
  for (int i = 0; i < b->reps; i++) {
    float elapsed;
    TB_GPU(cuEventRecord(b->begin, b->gpu.stream));
    launch(b, s, f, p);
    TB_GPU(cuEventRecord(b->end, b->gpu.stream));
    TB_GPU(cuStreamSynchronize(b->gpu.stream));
    TB_GPU(cuEventElapsedTime(&elapsed, b->begin, b->end));
    ms[i] = elapsed;
  }
  double median = tb_median(ms, b->reps);
  free(ms);
  return median;
}

static struct result run_step(struct bench *b, const struct tb_ladder_step *s, struct problem p) {
  CUfunction f = tb_gpu_function(b->module, s->name);
  struct result r = {s->title, s->name, p, tb_ladder_intensity(s), 0, 0, tb_error_bound_u((size_t)p.k)};
  r.error_u = error_u(b, s, f, p);
  r.tflops = 2.0 * p.m * p.n * p.k / median_ms(b, s, f, p) / 1e9;
  return r;
}

static FILE *open_csv(const char *path) {
  if (!path) return NULL;
  FILE *csv = fopen(path, "w");
  if (!csv) {
    perror(path);
    exit(EXIT_FAILURE);
  }
  fprintf(csv, "step,kernel,m,n,k,flop_per_byte,tflops,share_of_nominal_peak,times_step_before,max_error_u,gpu,"
               "peak_tflops,roofline_tflops\n");
  return csv;
}

static void write_csv(const struct bench *b, const struct result *r, const char *before) {
  const struct problem *p = &r->problem;
  double roof = r->intensity * b->production.kernels.device.bytes_per_us * 1e-6;
  fprintf(b->csv, "\"%s\",%s,%d,%d,%d,", r->title, r->name, p->m, p->n, p->k);
  if (r->intensity > 0) fprintf(b->csv, "%g", r->intensity);
  fprintf(b->csv, ",%g,%g,%s,%g,\"%s\",%g,", r->tflops, r->tflops / b->peak_tflops, before, r->error_u, b->gpu.name,
          b->peak_tflops);
  if (r->intensity > 0) fprintf(b->csv, "%g", fmin(roof, b->peak_tflops));
  fprintf(b->csv, "\n");
}

/* One line of the table and of the CSV. Returns whether the result was right. */
static int print_step(const struct bench *b, const struct result *r, double tflops_before) {
  int right = r->error_u <= r->bound_u;
  char before[32] = "", intensity[32] = "";
  if (tflops_before > 0) snprintf(before, sizeof before, "%.2f", r->tflops / tflops_before);
  if (r->intensity > 0) snprintf(intensity, sizeof intensity, "%.2f", r->intensity);
  printf("%-30s %5dx%5dx%5d %10s %9.2f %8.1f%% %14s%s\n", r->title, r->problem.m, r->problem.n, r->problem.k, intensity,
         r->tflops, 100 * r->tflops / b->peak_tflops, before, right ? "" : "  WRONG");
  if (!right)
    printf("  %s: error %g, at most %g is right, in units of 2^-24 |A||B|\n", r->name, r->error_u, r->bound_u);
  if (b->csv) write_csv(b, r, before);
  fflush(stdout);
  return right;
}

/* The teaching kernels. *before: TFLOP/s of the last one. */
static int run_ladder(struct bench *b, const struct options *o, double *before) {
  int all_right = 1;
  for (int i = 0; i < TB_LADDER_STEPS; i++) {
    const struct tb_ladder_step *s = &tb_ladder[i];
    struct problem p = problem_for(s, o);
    if (!tb_ladder_takes(s, p.m, p.n, p.k)) {
      printf("%-30s %5dx%5dx%5d  its grid would be larger than CUDA allows; step 05 is for that\n", s->title, p.m, p.n,
             p.k);
      continue;
    }
    struct result r = run_step(b, s, p);
    all_right &= print_step(b, &r, *before);
    *before = r.tflops;
  }
  return all_right;
}

/* The product at hand, by one of the production kernels or by cuBLAS. */
static int run_work(const struct bench *b, struct tb_work *w, struct result r, double *before) {
  const double budget_s = 0.05 * b->reps;
  struct tb_error error;
  r.bound_u = tb_error_bound_u((size_t)w->shape.k);
  tb_work_check(w, &error);
  r.error_u = error.max_u;
  r.problem = (struct problem){w->shape.m, w->shape.n, w->shape.k};
  r.tflops = 2e-6 * w->shape.m * w->shape.n * w->shape.k / tb_work_median_us(w, budget_s);
  int right = print_step(b, &r, *before);
  *before = r.tflops;
  return right;
}

/* What the ladder leads to: the production kernels without a split of k, smallest tile first, and cuBLAS in fp32. */
static int run_production(const struct bench *b, const struct options *o, double before) {
  int all_right = 1;
  struct tb_shape shape = {0, 0, o->m, o->n, o->k};
  struct tb_work w;
  tb_work_open(&w, &b->production, &shape, 1, TB_UNIFORM, 0, 0);
  tb_work_set(&w, shape);
  for (int tile = TB_TILE_COUNT - 1; tile >= 0; tile--) {
    const struct tb_tile *t = &tb_tiles[tile];
    if (b->production.kernels.device.blocks_per_sm[tile] == 0) continue;
    char title[48], name[48];
    snprintf(title, sizeof title, "production %s", t->name);
    snprintf(name, sizeof name, "tb_sgemm_%s", t->name);
    struct tb_product product = tb_work_product(&w);
    w.choice = (struct tb_choice){
        .family = TB_FAMILY_FMA,
        .fma = {.tile = tile, .splits = 1, .unit_k = (int)product.group_k, .pack_k = tb_fma_pack_k(&product, tile)}};
    double intensity = 2.0 * t->block_m * t->block_n / (4.0 * (t->block_m + t->block_n)); /* as tb_ladder_intensity */
    all_right &= run_work(b, &w, (struct result){.title = title, .name = name, .intensity = intensity}, &before);
  }
  w.by_cublas = true;
  if (b->production.cublas) {
    TB_NV(cublasSetMathMode(b->production.cublas, tb_peer_math[TB_PEER_PEDANTIC]));
    all_right &= run_work(b, &w, (struct result){.title = "cuBLAS fp32", .name = "cublasSgemm"}, &before);
  }
  tb_work_close(&w);
  return all_right;
}

int main(int argc, char **argv) {
  struct options o = parse(argc, argv);
  struct bench b = open_bench(&o);
  b.csv = open_csv(o.csv);
  printf("C = A B, operands on the GPU, median of %d launches or more; the teaching kernels row-major\n\n", o.reps);
  printf("%-30s %17s %10s %9s %9s %14s\n", "step", "m x n x k", "flop/byte", "TFLOP/s", "of peak", "x step before");
  double before = 0;
  int all_right = run_ladder(&b, &o, &before);
  all_right &= run_production(&b, &o, before);
  if (b.csv && fclose(b.csv) != 0) {
    perror(o.csv);
    return EXIT_FAILURE;
  }
  close_bench(&b);
  return all_right ? EXIT_SUCCESS : EXIT_FAILURE;
}
