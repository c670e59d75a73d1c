/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tensor cores reach on this board when one large product follows another: our kernels on the tensor cores,
 * which compute three products of fp16 planes or six of bf16 planes for each product of fp32, beside one product of
 * fp16 and of bf16 words by cuBLAS, with the clock, the power and the reasons for the clock that the driver tells
 * meanwhile.
 *
 *   limits [--csv FILE] [--budget SECONDS] [N...]      squares of these sizes, by default 4096, 8192 and 16384
 *
 * Random data, all of one distribution but for ours on wide exponents. Each is measured behind a pause, for `budget`
 * seconds; medians of CUDA-event times (gpu.h). tensor_tflops counts every product of planes, so it compares ours with
 * cuBLAS's. Status 77: no GPU, or no cuBLAS.
 */
#include <dlfcn.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "work.h"

enum { PAUSE_US = 300000 };
/* Launches enqueued while the board is asked, so that it is busy for some milliseconds at least. */
#define ASKED_MS 30.0

/* ---- the board, by NVML: libnvidia-ml.so.1, which comes with the driver ---- */

struct board {
  bool there;
  void *device;
  int (*clock)(void *device, int which, unsigned *mhz);
  int (*power)(void *device, unsigned *milliwatts);
  int (*reasons)(void *device, unsigned long long *reasons);
};
enum { NVML_CLOCK_SM = 1 }; /* nvmlClockType_t */

struct state {
  unsigned sm_mhz, milliwatts;
  unsigned long long reasons; /* NVML's bits; 4: the power cap */
};

static struct board open_board(void) {
  struct board b = {0};
  void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (library == NULL) return b;
  int (*start)(void) = (int (*)(void))dlsym(library, "nvmlInit_v2");
  int (*handle)(unsigned, void **) = (int (*)(unsigned, void **))dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
  b.clock = (int (*)(void *, int, unsigned *))dlsym(library, "nvmlDeviceGetClockInfo");
  b.power = (int (*)(void *, unsigned *))dlsym(library, "nvmlDeviceGetPowerUsage");
  b.reasons = (int (*)(void *, unsigned long long *))dlsym(library, "nvmlDeviceGetCurrentClocksThrottleReasons");
  if (start == NULL || handle == NULL || b.clock == NULL || b.power == NULL || b.reasons == NULL) return b;
  b.there = start() == 0 && handle(0, &b.device) == 0;
  return b;
}

static struct state ask(const struct board *b) {
  struct state s = {0};
  if (!b->there) return s;
  if (b->clock(b->device, NVML_CLOCK_SM, &s.sm_mhz) != 0) s.sm_mhz = 0;
  if (b->power(b->device, &s.milliwatts) != 0) s.milliwatts = 0;
  if (b->reasons(b->device, &s.reasons) != 0) s.reasons = 0;
  return s;
}

/* ---- one way ---- */

struct session {
  struct tb_bench bench;
  struct board board;
  FILE *csv;
  double budget_s;
};

static void report(const struct session *s, const char *what, int n, int products, double us, const struct state *x) {
  const double tflops = 2e-6 * n * n * n / us;
  printf("%-34s %6d %10.1f us %7.2f TFLOP/s, x %d = %6.1f  %4u MHz %4.0f W reasons %#llx\n", what, n, us, tflops,
         products, tflops * products, x->sm_mhz, 1e-3 * x->milliwatts, x->reasons);
  fflush(stdout);
  if (s->csv != NULL)
    fprintf(s->csv, "\"%s\",%d,%.2f,%.3f,%d,%.2f,%u,%.0f,%#llx\n", what, n, us, tflops, products, tflops * products,
            x->sm_mhz, 1e-3 * x->milliwatts, x->reasons);
}

static void measure(const struct session *s, const char *what, int n, int products, void (*enqueue)(void *, long),
                    void *ctx) {
  usleep(PAUSE_US);
  const double us = tb_gpu_median_us(&s->bench.gpu, enqueue, ctx, s->budget_s);
  for (long i = 0; (double)i * us < ASKED_MS * 1e3; i++) enqueue(ctx, i);
  const struct state now = ask(&s->board);
  TB_GPU(cuStreamSynchronize(s->bench.gpu.stream));
  report(s, what, n, products, us, &now);
}

/* ---- ours ---- */

struct ours {
  const struct session *s;
  const struct tb_work *w;
  struct tb_sgemm_args args;
};

static void enqueue_ours(void *ctx, long i) {
  const struct ours *o = ctx;
  (void)i;
  tb_gpu_check(tb_kernels_launch(&o->s->bench.kernels, &o->w->choice, false, false, &o->args, o->s->bench.workspace,
                                 o->s->bench.gpu.stream),
               "tb_kernels_launch", __FILE__, __LINE__);
}

static void measure_ours(const struct session *s, int n, enum tb_data_kind kind, int products) {
  const struct tb_shape shape = {.m = n, .n = n, .k = n};
  struct tb_work w;
  struct tb_error error;
  char what[64];
  tb_work_open(&w, &s->bench, &shape, 1, kind, 0, 0);
  tb_work_set(&w, shape);
  tb_work_set_precision(&w, TB_PRECISION_FP32);
  if (w.choice.family != TB_FAMILY_EMULATED) {
    fprintf(stderr, "limits: %d cubed is not for the tensor cores here\n", n);
  } else if (!tb_work_check(&w, &error)) {
    exit(EXIT_FAILURE);
  } else {
    struct ours o = {s, &w, tb_work_arguments(&w)};
    snprintf(what, sizeof what, "ours %s", tb_data_kind_name[kind]);
    measure(s, what, n, products, enqueue_ours, &o);
  }
  tb_work_close(&w);
}

/* ---- cuBLAS ---- */

enum half { FP16 = 2, BF16 = 14 };                            /* cudaDataType_t */
enum { FP32 = 0, COMPUTE_FP32 = 68, ALGORITHM_DEFAULT = -1 }; /* and cublasComputeType_t, cublasGemmAlgo_t */

/* Towards zero; of fp16 no subnormals. */
static uint16_t half_of(float x, enum half type) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (type == BF16) return (uint16_t)(bits >> 16);
  const int exponent = (int)(bits >> 23 & 0xff) - 127 + 15;
  if (exponent <= 0) return 0;
  return (uint16_t)(bits >> 16 & 0x8000) | (uint16_t)(exponent << 10) | (uint16_t)(bits >> 13 & 0x3ff);
}

/* `len` words uniform in (-.5, .5), a shorter pool again and again. */
static CUdeviceptr random_halves(const struct tb_gpu *gpu, size_t len, enum half type, unsigned seed) {
  enum { POOL = 4194301 }; /* a prime, so that no row of a matrix repeats another */
  float *wide = tb_alloc(POOL);
  uint16_t *pool = malloc(POOL * sizeof *pool);
  if (pool == NULL) exit(EXIT_FAILURE);
  tb_data_fill(wide, POOL, 1, TB_UNIFORM, TB_OPERAND_A, seed);
  for (size_t i = 0; i < POOL; i++) pool[i] = half_of(wide[i], type);
  const CUdeviceptr words = tb_gpu_alloc(len * sizeof *pool);
  for (size_t at = 0; at < len; at += POOL)
    tb_gpu_upload(gpu, words + at * sizeof *pool, pool, (len - at < POOL ? len - at : POOL) * sizeof *pool);
  free(pool), free(wide);
  return words;
}

struct theirs {
  const struct session *s;
  int n;
  enum half type;
  CUdeviceptr a, b, c;
};

static void enqueue_theirs(void *ctx, long i) {
  const struct theirs *t = ctx;
  const float one = 1, zero = 0;
  (void)i;
  TB_NV(cublasGemmEx(t->s->bench.cublas, TB_OP_N, TB_OP_N, t->n, t->n, t->n, &one, (const void *)t->a, t->type, t->n,
                     (const void *)t->b, t->type, t->n, &zero, (void *)t->c, FP32, t->n, COMPUTE_FP32,
                     ALGORITHM_DEFAULT));
}

static void measure_theirs(const struct session *s, int n, enum half type) {
  const size_t words = (size_t)n * (size_t)n;
  struct theirs t = {.s = s, .n = n, .type = type};
  t.a = random_halves(&s->bench.gpu, words, type, 1);
  t.b = random_halves(&s->bench.gpu, words, type, 2);
  t.c = tb_gpu_alloc(words * sizeof(float));
  measure(s, type == FP16 ? "cuBLAS fp16 words" : "cuBLAS bf16 words", n, 1, enqueue_theirs, &t);
  tb_gpu_free(t.a), tb_gpu_free(t.b), tb_gpu_free(t.c);
}

/* ---- */

static _Noreturn void usage(void) {
  fputs("usage: limits [--csv FILE] [--budget SECONDS] [N...]\n", stderr);
  exit(2);
}

int main(int argc, char **argv) {
  static const struct option option[] = {{"csv", 1, 0, 'c'}, {"budget", 1, 0, 'b'}, {0, 0, 0, 0}};
  static const int usual[] = {4096, 8192, 16384};
  struct session s = {.budget_s = 0.4};
  const char *csv = NULL;
  for (int c; (c = getopt_long(argc, argv, "", option, NULL)) != -1;) {
    if (c == 'c')
      csv = optarg;
    else if (c == 'b')
      s.budget_s = atof(optarg);
    else
      usage();
  }
  tb_bench_open(&s.bench, true);
  if (s.bench.cublas == NULL) return TB_PEER_MISSING;
  s.board = open_board();
  if (csv != NULL && (s.csv = fopen(csv, "w")) == NULL) {
    perror(csv);
    return EXIT_FAILURE;
  }
  if (s.csv != NULL) fputs("what,n,us,tflops,products,tensor_tflops,sm_mhz,watts,clock_reasons\n", s.csv);
  const int sizes = optind < argc ? argc - optind : (int)(sizeof usual / sizeof usual[0]);
  for (int i = 0; i < sizes; i++) {
    const int n = optind < argc ? atoi(argv[optind + i]) : usual[i];
    if (n < 1) usage();
    measure_ours(&s, n, TB_UNIFORM, 3);
    measure_theirs(&s, n, FP16);
    measure_ours(&s, n, TB_WIDE, 6);
    measure_theirs(&s, n, BF16);
  }
  if (s.csv != NULL && fclose(s.csv) != 0) {
    perror(csv);
    return EXIT_FAILURE;
  }
  tb_bench_close(&s.bench);
  return EXIT_SUCCESS;
}
