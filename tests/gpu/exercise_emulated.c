/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Launches the kernels on the tensor cores directly and verifies every element; the counterpart of exercise.c, for
 * compute-sanitizer as well.
 *
 *   exercise_emulated [--quick]
 *
 * Status 0: all right; 1: not; 77: no GPU, or none with these kernels.
 *
 * Each problem is computed with k in one span and in several, and each span of it whole and split into every number of
 * parts, for all tiles or all but the first, whose bits must be the same; and is compared with fp64. Data that fp16
 * planes hold, data that needs bf16 planes, and data for which some tiles have to be computed in plain fp32: there, Inf
 * and NaN must stand where the operands put them. Operands are allocated to the byte; padding holds NaN, which must
 * neither enter a result nor be overwritten.
 */
#include "../../bench/gpu.h"
#include "select/kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum data { ORDINARY, WIDE, GRADED, TINY, HUGE_WORDS, WILD, DATA_KINDS };
static const char *const data_name[] = {"ordinary", "wide", "graded", "tiny", "huge", "wild"};

struct problem {
  int ta, tb, m, n, k;
  enum data data;
};

struct matrix {
  float *host;
  CUdeviceptr gpu;
  size_t rows, cols, ld, len; /* as stored */
};

static struct tb_gpu gpu;
static struct tb_kernels kernels;
static const float alpha = -0.5f; /* a power of two, so that scaling rounds nothing */
static unsigned long long state = 1;

static double uniform(void) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return (double)(state >> 11) * 0x1p-53;
}

/* An element of op(A) (side a row) or op(B) (side a column). */
static float element(const struct problem *p, int of_b, int side, int k) {
  const double u = uniform() - 0.5, sign = of_b ? -1 : 1;
  switch (p->data) {
    case WIDE:
      return (float)(u * exp2(60 * uniform() - 30));
    case GRADED:
      return (float)(u * exp2(sign * 40.0 * k / p->k));
    case TINY: /* subnormals against words that bring the products back */
      return (float)(u * (of_b ? 0x1p20 : 0x1p-128));
    case HUGE_WORDS: /* sums up to 2^126 */
      return (float)(u * (of_b ? 0x1p-8 : 0x1.fp127));
    case WILD:
      if (side == 3 && k == 1) return of_b ? NAN : INFINITY;
      if (side == 2) return (float)(u * 0x1p100); /* overflows where both meet */
      return (float)u;
    default:
      return (float)u;
  }
}

/* `along_k`: stored columns run along k. */
static struct matrix make_matrix(const struct problem *p, int of_b, int sides, int along_k, int scalar) {
  struct matrix x = {.rows = (size_t)(along_k ? p->k : sides), .cols = (size_t)(along_k ? sides : p->k)};
  x.ld = (x.rows + 3) / 4 * 4 + (scalar ? 1 : 4);
  x.len = x.ld * (x.cols - 1) + x.rows;
  x.host = malloc(x.len * sizeof(float));
  if (x.host == NULL) exit(1);
  memset(x.host, 0xff, x.len * sizeof(float)); /* NaN */
  for (int side = 0; side < sides; side++)
    for (int k = 0; k < p->k; k++)
      x.host[along_k ? (size_t)side * x.ld + (size_t)k : (size_t)k * x.ld + (size_t)side] = element(p, of_b, side, k);
  x.gpu = tb_gpu_alloc(x.len * sizeof(float));
  tb_gpu_upload(&gpu, x.gpu, x.host, x.len * sizeof(float));
  return x;
}

static void destroy(struct matrix *x) {
  free(x->host);
  tb_gpu_free(x->gpu);
}

static float word(const struct matrix *x, int along_k, int side, int k) {
  return x->host[along_k ? (size_t)side * x->ld + (size_t)k : (size_t)k * x->ld + (size_t)side];
}

static void compute(const struct problem *p, int span_k, int splits, int whole, const struct matrix *a,
                    const struct matrix *b, struct matrix *d) {
  memset(d->host, 0xff, d->len * sizeof(float));
  tb_gpu_upload(&gpu, d->gpu, d->host, d->len * sizeof(float));
  const struct tb_choice choice = {.family = TB_FAMILY_EMULATED,
                                   .emulated = {.splits = splits, .whole = whole, .span_k = span_k}};
  const struct tb_sgemm_args args = {.a = (const float *)a->gpu,
                                     .b = (const float *)b->gpu,
                                     .d = (float *)d->gpu,
                                     .lda = (int64_t)a->ld,
                                     .ldb = (int64_t)b->ld,
                                     .ldd = (int64_t)d->ld,
                                     .m = p->m,
                                     .n = p->n,
                                     .k = p->k,
                                     .alpha = alpha,
                                     .first = 1,
                                     .last = 1};
  const size_t bytes = (size_t)tb_workspace_bytes(p->m, p->n, p->k, &choice);
  const CUdeviceptr workspace = tb_gpu_alloc(bytes);
  tb_gpu_check(tb_kernels_launch(&kernels, &choice, p->ta, p->tb, &args, workspace, gpu.stream), "tb_kernels_launch",
               __FILE__, __LINE__);
  TB_GPU(cuStreamSynchronize(gpu.stream));
  tb_gpu_free(workspace);
  tb_gpu_download(&gpu, d->host, d->gpu, d->len * sizeof(float));
}

static int is_nan_bits(float x) {
  unsigned bits;
  memcpy(&bits, &x, sizeof bits);
  return bits == 0xffffffffu;
}

/* Whether one element is right; *worst collects the error over |A||B| in 2^-24. */
static int is_right(const struct problem *p, const struct matrix *a, const struct matrix *b, int i, int j, float got,
                    double *worst) {
  double sum = 0, size = 0; /* in fp64: not finite only where an operand is not */
  for (int k = 0; k < p->k; k++) {
    const float x = word(a, p->ta, i, k), y = word(b, !p->tb, j, k);
    sum += (double)x * y;
    size += fabs((double)x * y);
  }
  sum *= alpha, size *= fabs((double)alpha);
  if (!isfinite(sum)) return isnan(sum) ? isnan(got) : got == (float)sum;
  if (size > 0x1p127) return !isfinite(got) || fabs(sum) < 0x1p128; /* which partial sums overflow is the order's */
  const double error = fabs((double)got - sum) / (size + 0x1p-149) * 0x1p24;
  if (!(error <= *worst)) *worst = error;
  /* An instruction cuts each of 16 products off at 2^-25 of the largest: 8 units, if all are as large but one. A plain
   * chain's error has a variance of up to k k / 2 roundings; ours must stay below a good part of it. And a result below
   * 2^-126 has its own rounding, too. */
  return error <= 8 + sqrt((double)p->k) / 4 + 0x1p-126 / size;
}

static int verify(const struct problem *p, int span_k, const struct matrix *a, const struct matrix *b,
                  const struct matrix *d) {
  double worst = 0;
  long wrong = 0;
  for (int j = 0; j < p->n; j++)
    for (int i = 0; i < p->m; i++)
      if (!is_right(p, a, b, i, j, d->host[(size_t)j * d->ld + (size_t)i], &worst)) {
        if (wrong++ == 0)
          printf("  first wrong: (%d, %d) is %g\n", i, j, (double)d->host[(size_t)j * d->ld + (size_t)i]);
      }
  for (int j = 0; j + 1 < p->n; j++)
    for (size_t i = (size_t)p->m; i < d->ld; i++) wrong += !is_nan_bits(d->host[(size_t)j * d->ld + i]);
  printf("%c%c %4d %4d %5d in spans of %5d %-8s worst error %.3g%s\n", p->ta ? 'T' : 'N', p->tb ? 'T' : 'N', p->m, p->n,
         p->k, span_k, data_name[p->data], worst, wrong > 0 ? "  WRONG" : "");
  return wrong == 0;
}

static int run_in_spans(const struct problem *p, int span_k, const struct matrix *a, const struct matrix *b,
                        struct matrix *d) {
  float *const whole = malloc(d->len * sizeof(float));
  if (whole == NULL) exit(1);
  compute(p, span_k, 1, 0, a, b, d);
  int right = verify(p, span_k, a, b, d);
  memcpy(whole, d->host, d->len * sizeof(float));
  for (int splits = 2; splits <= (span_k + TB_EMULATED_GROUP_K - 1) / TB_EMULATED_GROUP_K; splits++) {
    compute(p, span_k, splits, p->m > TB_EMULATED_TILE_M, a, b, d);
    if (memcmp(whole, d->host, d->len * sizeof(float)) == 0) continue;
    printf("  k in %d parts: other bits\n", splits);
    right = 0;
  }
  free(whole);
  return right;
}

static int run(const struct problem *p) {
  const int scalar = (p->m + p->n + p->k) % 2;
  struct matrix a = make_matrix(p, 0, p->m, p->ta, scalar), b = make_matrix(p, 1, p->n, !p->tb, scalar);
  struct matrix d = {.rows = (size_t)p->m, .cols = (size_t)p->n, .ld = (size_t)p->m + 3};
  d.len = d.ld * (d.cols - 1) + d.rows;
  d.host = malloc(d.len * sizeof(float));
  if (d.host == NULL) exit(1);
  d.gpu = tb_gpu_alloc(d.len * sizeof(float));
  int right = 1;
  for (int spans = 1; spans <= (p->k + TB_EMULATED_GROUP_K - 1) / TB_EMULATED_GROUP_K; spans *= 2)
    right &= run_in_spans(p, spans == 1 ? p->k : ((p->k - 1) / (spans * TB_EMULATED_GROUP_K) + 1) * TB_EMULATED_GROUP_K,
                          &a, &b, &d);
  destroy(&a), destroy(&b), destroy(&d);
  return right;
}

int main(int argc, char **argv) {
  const int quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
  gpu = tb_gpu_open(0); /* ends with status 77 where there is none */
  tb_gpu_check(tb_kernels_load(&kernels, gpu.device), "tb_kernels_load", __FILE__, __LINE__);
  if (!kernels.emulated.there) return 77;
  static const int sizes[][3] = {{1, 1, 1},      {128, 192, 32},   {129, 193, 33}, {130, 200, 1024},
                                 {61, 70, 1025}, {300, 200, 2100}, {257, 385, 65}, {8, 8, 4000}};
  const int count = quick ? 5 : (int)(sizeof sizes / sizeof sizes[0]);
  int failures = 0;
  for (int s = 0; s < count; s++)
    for (int data = 0; data < DATA_KINDS; data++)
      for (int t = 0; t < 4; t++) {
        if ((quick || data != ORDINARY) && t != (s + data) % 4) continue;
        const struct problem p = {t >> 1, t & 1, sizes[s][0], sizes[s][1], sizes[s][2], (enum data)data};
        failures += !run(&p);
      }
  printf("%s: %d wrong\n", failures == 0 ? "right" : "WRONG", failures);
  tb_kernels_unload(&kernels);
  tb_gpu_close(&gpu);
  return failures > 0;
}
