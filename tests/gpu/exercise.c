/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Launches every production kernel of kernels/registry.def directly, with nothing of the offload in between, and
 * verifies every element. Small on purpose: compute-sanitizer, which slows a kernel a hundredfold, watches it on a real
 * GPU.
 *
 *   exercise [--quick]        --quick: a third of the shapes; status 0: all right, 1: not, 77: no GPU
 *
 * For each tile and each pair of transposes: sizes below, at and above the tile's edges; operands that take the vector
 * loads and operands that must take the scalar ones; the sum in one launch, in two and in three (the flags `first` and
 * `last`). Operands are allocated to the byte; padding holds NaN, which must neither enter a result nor be overwritten;
 * two launches of the same work must give the same bits.
 */
#include "../../bench/data.h"
#include "../../bench/gpu.h"
#include "kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARTS = 3 };

struct problem {
  int tile, ta, tb, m, n, k;
  int scalar; /* 1: leading dimensions and addresses that forbid 16-byte loads */
  int parts;  /* launches that the sum over k is cut into */
};

struct context {
  struct tb_gpu gpu;
  struct tb_kernels kernels;
  long cases, failures;
};

/* A column-major matrix on both sides. The first `skip` floats are only there to misalign it. */
struct matrix {
  float *host;
  CUdeviceptr gpu;
  size_t rows, cols, ld, skip, len;
};

static const float alpha = -0.5f; /* a power of two, so that scaling rounds nothing */

static struct matrix make_matrix(const struct problem *p, size_t rows, size_t cols) {
  struct matrix x = {.rows = rows, .cols = cols, .skip = p->scalar ? 1 : 0};
  x.ld = p->scalar ? rows + (rows % 2 ? 2 : 1) : (rows + 3) / 4 * 4 + 4; /* odd, or a multiple of four; always padded */
  x.len = x.skip + x.ld * (cols - 1) + rows;
  x.host = tb_alloc(x.len);
  x.gpu = tb_gpu_alloc(x.len * sizeof(float));
  memset(x.host, 0xff, x.len * sizeof(float)); /* NaN */
  return x;
}

static void fill(struct matrix *x, unsigned seed) {
  float *packed = tb_alloc(x->rows * x->cols);
  tb_data_fill(packed, x->rows, x->cols, TB_UNIFORM, TB_OPERAND_A, seed);
  for (size_t j = 0; j < x->cols; j++) {
    memcpy(x->host + x->skip + j * x->ld, packed + j * x->rows, x->rows * sizeof(float));
  }
  free(packed);
}

static void destroy(struct matrix *x) {
  free(x->host);
  tb_gpu_free(x->gpu);
}

static float at(const struct matrix *x, int transposed, size_t i, size_t j) {
  return x->host[x->skip + (transposed ? j + i * x->ld : i + j * x->ld)];
}

/* The launches that make up one product: [0, k) cut into `parts` pieces of about the same length. */
static void launch(const struct context *ctx, const struct problem *p, const struct matrix *a, const struct matrix *b,
                   const struct matrix *d) {
  for (int part = 0; part < p->parts; part++) {
    int begin = p->k * part / p->parts, end = p->k * (part + 1) / p->parts;
    size_t a_at = a->skip + (size_t)begin * (p->ta ? 1 : a->ld), b_at = b->skip + (size_t)begin * (p->tb ? b->ld : 1);
    struct tb_sgemm_args args = {.a = (const float *)a->gpu + a_at,
                                 .b = (const float *)b->gpu + b_at,
                                 .d = (float *)d->gpu + d->skip,
                                 .lda = (int64_t)a->ld,
                                 .ldb = (int64_t)b->ld,
                                 .ldd = (int64_t)d->ld,
                                 .m = p->m,
                                 .n = p->n,
                                 .k = end - begin,
                                 .alpha = alpha,
                                 .first = part == 0,
                                 .last = part == p->parts - 1};
    tb_gpu_check(tb_kernels_launch(&ctx->kernels, p->tile, p->ta, p->tb, &args, ctx->gpu.stream), "tb_kernels_launch",
                 __FILE__, __LINE__);
  }
}

/* Errors of the stored elements against fp64; infinite where the padding was written. */
static struct tb_error judge(const struct problem *p, const struct matrix *a, const struct matrix *b,
                             const struct matrix *d) {
  size_t m = (size_t)p->m, n = (size_t)p->n, k = (size_t)p->k;
  float *c = tb_alloc(m * n);
  double *exact = calloc(2 * m * n, sizeof *exact), *magnitude = exact + m * n;
  if (!exact) exit(EXIT_FAILURE);
  for (size_t j = 0; j < n; j++) {
    for (size_t i = 0; i < m; i++) {
      for (size_t q = 0; q < k; q++) {
        double term = (double)at(a, p->ta, i, q) * at(b, p->tb, q, j);
        exact[i + j * m] += term;
        magnitude[i + j * m] += fabs(term);
      }
      c[i + j * m] = at(d, 0, i, j) / alpha;
    }
  }
  struct tb_error e = tb_full_error(c, exact, magnitude, m * n);
  for (size_t i = 0; i < d->len; i++) {
    size_t row = i < d->skip ? m : (i - d->skip) % d->ld;
    if (row >= m && !isnan(d->host[i])) e.max_u = INFINITY;
  }
  free(c);
  free(exact);
  return e;
}

static void run(struct context *ctx, const struct problem *p) {
  struct matrix a = make_matrix(p, (size_t)(p->ta ? p->k : p->m), (size_t)(p->ta ? p->m : p->k));
  struct matrix b = make_matrix(p, (size_t)(p->tb ? p->n : p->k), (size_t)(p->tb ? p->k : p->n));
  struct matrix d = make_matrix(p, (size_t)p->m, (size_t)p->n);
  fill(&a, 1);
  fill(&b, 2);
  tb_gpu_upload(&ctx->gpu, a.gpu, a.host, a.len * sizeof(float));
  tb_gpu_upload(&ctx->gpu, b.gpu, b.host, b.len * sizeof(float));
  float *again = tb_alloc(d.len);
  memcpy(again, d.host, d.len * sizeof(float));
  tb_gpu_upload(&ctx->gpu, d.gpu, d.host, d.len * sizeof(float));
  launch(ctx, p, &a, &b, &d);
  tb_gpu_download(&ctx->gpu, d.host, d.gpu, d.len * sizeof(float));
  tb_gpu_upload(&ctx->gpu, d.gpu, again, d.len * sizeof(float));
  launch(ctx, p, &a, &b, &d);
  tb_gpu_download(&ctx->gpu, again, d.gpu, d.len * sizeof(float));

  struct tb_error e = judge(p, &a, &b, &d);
  int same = memcmp(again, d.host, d.len * sizeof(float)) == 0;
  ctx->cases++;
  if (!(e.max_u <= tb_error_bound_u((size_t)p->k)) || !same) {
    ctx->failures++;
    printf("FAILED: tile %s %c%c m=%d n=%d k=%d %s loads, %d launches: error %g u (at most %g)%s\n",
           tb_tiles[p->tile].name, "NT"[p->ta], "NT"[p->tb], p -> m, p -> n, p -> k, p -> scalar ? "scalar" : "vector",
           p->parts, e.max_u, tb_error_bound_u((size_t)p->k), same ? "" : ", and other bits the second time");
  }
  free(again);
  destroy(&a);
  destroy(&b);
  destroy(&d);
}

static void run_tile(struct context *ctx, int tile, int ta, int tb, int quick) {
  const struct tb_tile *t = &tb_tiles[tile];
  const int shape[][3] = {
      {t->block_m + 1, t->block_n + 1, 2 * t->block_k + 1},
      {t->block_m, t->block_n, t->block_k},
      {t->block_m - 1, 2 * t->block_n + 3, 3 * t->block_k + 5},
      {2 * t->block_m + 3, t->block_n - 1, t->block_k - 1},
      {1, 1, 3},
      {1, t->block_n + 5, t->block_k + 1},
      {t->block_m + 5, 1, 4 * t->block_k},
      {7, 5, 5 * t->block_k + 3},
      {2 * t->block_m, 2 * t->block_n, 2 * t->block_k},
  };
  int shapes = sizeof shape / sizeof shape[0];
  for (int s = 0; s < shapes; s += quick ? 3 : 1) {
    for (int scalar = 0; scalar < 2; scalar++) {
      for (int parts = 1; parts <= MAX_PARTS; parts++) {
        struct problem p = {tile, ta, tb, shape[s][0], shape[s][1], shape[s][2], scalar, parts};
        if (parts <= p.k) run(ctx, &p);
      }
    }
  }
}

int main(int argc, char **argv) {
  int quick = argc == 2 && strcmp(argv[1], "--quick") == 0;
  if (argc != 1 && !quick) {
    fprintf(stderr, "usage: exercise [--quick]\n");
    return 2;
  }
  struct context ctx = {.gpu = tb_gpu_open(0)};
  CUmodule module;
  tb_gpu_check(tb_kernels_load(&ctx.kernels, &module), "tb_kernels_load", __FILE__, __LINE__);
  printf("%s\n", ctx.gpu.name);
  for (int tile = 0; tile < TB_TILE_COUNT; tile++) {
    if (ctx.kernels.blocks_per_sm[tile] == 0) {
      printf("tile %s: this GPU cannot run it\n", tb_tiles[tile].name);
      continue;
    }
    for (int variant = 0; variant < 4; variant++) run_tile(&ctx, tile, variant >> 1, variant & 1, quick);
  }
  TB_GPU(cuModuleUnload(module));
  tb_gpu_close(&ctx.gpu);
  printf("exercise: %ld cases, %ld failed\n", ctx.cases, ctx.failures);
  return ctx.cases > 0 && ctx.failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
