/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Launches every production kernel of kernels/fma/registry.def directly, with nothing of the offload in between, and
 * verifies every element. Small on purpose: compute-sanitizer, which slows a kernel a hundredfold, watches it on a real
 * GPU.
 *
 *   exercise [--quick [TILE]]     --quick: three shapes a tile, most by that tile alone; of one tile, if it is named
 *
 * Status 0: all right; 1: not; 77: no GPU.
 *
 * Sizes stand below, at and above each tile's edges, for each pair of transposes, with operands that take the vector
 * loads and operands that must take the scalar ones. Each problem is computed in every way there is: by each tile, with
 * k in one launch or in several (the flags `first` and `last`), and with k split over blocks. The first answer is
 * compared with fp64 and with plain loops in the order of summation that sgemm_args.h promises, the others with its
 * bits, for that order is the same for all; one whose products all underflow to -0 has a sum of 0, whoever computes it.
 * Operands are allocated to the byte; padding holds NaN, which must neither enter a result nor be overwritten.
 */
#include "../../bench/data.h"
#include "../../bench/gpu.h"
#include "../support/contract_order.h"
#include "select/kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct problem {
  int ta, tb, m, n, k;
  int scalar;    /* 1: leading dimensions and addresses that forbid 16-byte loads */
  int only_tile; /* -1: every tile computes it */
  int zeros;     /* 1: every product underflows to -0, and their sum is 0 */
};

/* One way to compute it. */
struct way {
  struct tb_choice choice;
  int parts; /* launches that k is cut into, at groups' ends */
};

static int unit_of(const struct tb_choice *c) { return c->family == TB_FAMILY_FMA ? c->fma.unit_k : TB_SGEMM_GROUP_K; }

/* k in so many parts, of units of a tile's way; the skinny kernels have units of their own. */
static void set_split(struct tb_choice *c, int splits, int unit_k) {
  if (c->family == TB_FAMILY_SKINNY)
    c->skinny.splits = splits;
  else
    c->fma.splits = splits, c->fma.unit_k = unit_k;
}

struct context {
  struct tb_gpu gpu;
  struct tb_kernels kernels;
  long problems, ways, failures;
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

static void fill_with(struct matrix *x, float value) {
  for (size_t j = 0; j < x->cols; j++)
    for (size_t i = 0; i < x->rows; i++) x->host[x->skip + j * x->ld + i] = value;
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

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Products of a group: what the thin kernels have, where they may compute it; else less or more, to have many of them
 * in a short k: whole chunks; a last one that is short; and a short one alone. */
static int group_of(const struct problem *p) {
  static const int group_k[] = {2 * TB_SGEMM_CHUNK_K, 5 * TB_SGEMM_CHUNK_K,
                                2 * TB_SGEMM_CHUNK_K + 3 * TB_SGEMM_GROUP_STEP_K, 3 * TB_SGEMM_GROUP_STEP_K};
  return tb_skinny_takes(p->m, p->n) ? TB_SGEMM_GROUP_K : group_k[(p->m + p->k) % 4];
}

/* The launches that make up one product. */
static void launch(const struct context *ctx, const struct problem *p, const struct way *way, const struct matrix *a,
                   const struct matrix *b, const struct matrix *d) {
  for (int part = 0; part < way->parts; part++) {
    int begin = part * group_of(p), end = part == way->parts - 1 ? p->k : begin + group_of(p);
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
                                 .group_k = group_of(p),
                                 .alpha = alpha,
                                 .first = part == 0,
                                 .last = part == way->parts - 1};
    int64_t workspace_bytes = tb_workspace_bytes(args.m, args.n, args.k, &way->choice);
    CUdeviceptr workspace = workspace_bytes > 0 ? tb_gpu_alloc((size_t)workspace_bytes) : 0;
    tb_gpu_check(tb_kernels_launch(&ctx->kernels, &way->choice, p->ta, p->tb, &args, workspace, ctx->gpu.stream),
                 "tb_kernels_launch", __FILE__, __LINE__);
    TB_GPU(cuStreamSynchronize(ctx->gpu.stream));
    if (workspace_bytes > 0) tb_gpu_free(workspace);
  }
}

/* Computes D anew in one way; d->host gets all of its memory, padding included. */
static void compute(const struct context *ctx, const struct problem *p, const struct way *way, const struct matrix *a,
                    const struct matrix *b, struct matrix *d) {
  memset(d->host, 0xff, d->len * sizeof(float)); /* NaN */
  tb_gpu_upload(&ctx->gpu, d->gpu, d->host, d->len * sizeof(float));
  launch(ctx, p, way, a, b, d);
  tb_gpu_download(&ctx->gpu, d->host, d->gpu, d->len * sizeof(float));
}

/* Whether every stored element has the bits of a sum that is 0, and no padding was written. */
static int all_zero(const struct matrix *d) {
  const float zero = alpha * 0;
  int same = 1;
  for (size_t i = 0; i < d->len; i++) {
    const int stored = i >= d->skip && (i - d->skip) % d->ld < d->rows;
    same = same && (stored ? memcmp(&d->host[i], &zero, sizeof zero) == 0 : isnan(d->host[i]));
  }
  return same;
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

/* Whether every stored element has the bits of those loops. */
static int in_order(const struct problem *p, const struct matrix *a, const struct matrix *b, const struct matrix *d) {
  float *c = tb_alloc((size_t)p->m * (size_t)p->n);
  const struct tst_contract product = {.transpose_a = p->ta,
                                       .transpose_b = p->tb,
                                       .m = p->m,
                                       .n = p->n,
                                       .k = p->k,
                                       .alpha = alpha,
                                       .a = a->host + a->skip,
                                       .b = b->host + b->skip,
                                       .lda = (int64_t)a->ld,
                                       .ldb = (int64_t)b->ld,
                                       .ldd = p->m,
                                       .group_k = group_of(p),
                                       .first = true,
                                       .last = true};
  tst_contract_product(&product, c);
  int same = 1;
  for (size_t j = 0; j < d->cols; j++)
    same = same && memcmp(d->host + d->skip + j * d->ld, c + j * d->rows, d->rows * sizeof *c) == 0;
  free(c);
  return same;
}

static void fail(struct context *ctx, const struct problem *p, const struct way *way, const char *what) {
  char choice[64];
  tb_choice_describe(&way->choice, choice, sizeof choice);
  ctx->failures++;
  printf("FAILED: %c%c m=%d n=%d k=%d, %s loads, %s in units of %d, %d launches: %s\n", "NT"[p->ta], "NT"[p->tb],
         p -> m, p -> n, p -> k, p -> scalar ? "scalar" : "vector", choice, unit_of(&way->choice), way->parts, what);
}

enum { WAYS_MAX = 12 };

/* What a packed tile has besides: k packed part by part, and split for what lies behind its first tiles only. */
static int list_packed_ways(struct tb_choice kernel, int k, int group, struct way *way) {
  int ways = 0;
  set_split(&kernel, 1, group);
  if (k > group) {
    way[ways++] = (struct way){kernel, 1};
    way[0].choice.fma.pack_k = group;
  }
  const int unit = group % TB_SGEMM_CHUNK_K == 0 ? TB_SGEMM_CHUNK_K : group;
  for (int lines = 0; lines < 2 && k > unit; lines++) {
    struct tb_choice c = kernel;
    set_split(&c, 2, unit);
    c.fma.whole_rows = lines, c.fma.whole_columns = !lines;
    way[ways++] = (struct way){c, 1};
  }
  return ways;
}

/* The ways that one kernel has for this k; returns how many. The thin kernels know themselves how often to split. */
static int list_ways(struct tb_choice kernel, int k, int group, struct way way[WAYS_MAX]) {
  enum { CHUNK = TB_SGEMM_CHUNK_K, MANY = 1000 };
  const int splits[][2] = {{1, group}, {2, group}, {3, CHUNK}, {MANY, CHUNK}, {MANY, group}};
  const int kinds = kernel.family == TB_FAMILY_SKINNY ? 2 : sizeof splits / sizeof splits[0];
  int ways = 0;
  for (int s = 0; s < kinds; s++) {
    struct tb_choice c = kernel;
    const int split = splits[s][0], unit = splits[s][1];
    set_split(&c, split, unit);
    if (group % unit != 0 || (split > 1 && ceil_div(k, unit) < 2)) continue;
    way[ways++] = (struct way){c, 1};
    for (int parts = 2; parts <= 4 - split && parts <= ceil_div(k, group); parts++)
      way[ways++] = (struct way){c, parts};
  }
  return kernel.family == TB_FAMILY_FMA && kernel.fma.pack_k > 0 ? ways + list_packed_ways(kernel, k, group, way + ways)
                                                                 : ways;
}

/* The first way is compared with fp64, the others with the first: each has the same bits. */
static void run_way(struct context *ctx, const struct problem *p, const struct way *way, const struct matrix *a,
                    const struct matrix *b, struct matrix *d, float **first) {
  compute(ctx, p, way, a, b, d);
  ctx->ways++;
  if (*first) {
    if (memcmp(*first, d->host, d->len * sizeof(float)) != 0) fail(ctx, p, way, "other bits than the first way");
    return;
  }
  if (p->zeros) {
    if (!all_zero(d)) fail(ctx, p, way, "not alpha * 0 everywhere");
  } else {
    struct tb_error e = judge(p, a, b, d);
    char what[128];
    snprintf(what, sizeof what, "error %g u, at most %g is right", e.max_u, tb_error_bound_u((size_t)p->k));
    if (!(e.max_u <= tb_error_bound_u((size_t)p->k))) fail(ctx, p, way, what);
    if (!in_order(p, a, b, d)) fail(ctx, p, way, "other bits than the order of summation gives");
  }
  *first = tb_alloc(d->len);
  memcpy(*first, d->host, d->len * sizeof(float));
}

/* Every way that this k allows, on every tile, and by the thin kernels if they take it. */
static void run_ways(struct context *ctx, const struct problem *p, const struct matrix *a, const struct matrix *b,
                     struct matrix *d) {
  float *first = NULL;
  for (int tile = 0; tile <= TB_TILE_COUNT; tile++) {
    struct tb_choice kernel = {.family = TB_FAMILY_SKINNY};
    if (tile < TB_TILE_COUNT) {
      kernel = (struct tb_choice){.family = TB_FAMILY_FMA,
                                  .fma = {.tile = tile, .pack_k = tb_tiles[tile].packed ? p->k : 0}};
      if (ctx->kernels.device.blocks_per_sm[tile] == 0 || (p->only_tile >= 0 && p->only_tile != tile)) continue;
    } else if (!tb_skinny_takes(p->m, p->n)) {
      continue;
    }
    struct way way[WAYS_MAX];
    int ways = list_ways(kernel, p->k, group_of(p), way);
    for (int w = 0; w < ways; w++) run_way(ctx, p, &way[w], a, b, d, &first);
  }
  free(first);
}

static void run(struct context *ctx, const struct problem *p) {
  struct matrix a = make_matrix(p, (size_t)(p->ta ? p->k : p->m), (size_t)(p->ta ? p->m : p->k));
  struct matrix b = make_matrix(p, (size_t)(p->tb ? p->n : p->k), (size_t)(p->tb ? p->k : p->n));
  struct matrix d = make_matrix(p, (size_t)p->m, (size_t)p->n);
  if (p->zeros) {
    fill_with(&a, 0x1p-100f), fill_with(&b, -0x1p-100f);
  } else {
    fill(&a, 1), fill(&b, 2);
  }
  tb_gpu_upload(&ctx->gpu, a.gpu, a.host, a.len * sizeof(float));
  tb_gpu_upload(&ctx->gpu, b.gpu, b.host, b.len * sizeof(float));
  run_ways(ctx, p, &a, &b, &d);
  ctx->problems++;
  destroy(&a);
  destroy(&b);
  destroy(&d);
}

/* A shape in both alignments; `only_tile` as in struct problem. */
static void run_shape(struct context *ctx, const int shape[3], int ta, int tb, int only_tile) {
  for (int scalar = 0; scalar < 2; scalar++) {
    struct problem p = {ta, tb, shape[0], shape[1], shape[2], scalar, only_tile, 0};
    run(ctx, &p);
  }
}

/* k in whole steps of every tile, and not; by all kernels, the thin ones with them, for the sign of a zero. */
static void run_zeros(struct context *ctx, int ta, int tb) {
  static const int depths[] = {16, 19, TB_SGEMM_GROUP_K + TB_SGEMM_CHUNK_K + 3};
  for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++) {
    struct problem p = {ta, tb, 37, 7, depths[i], (int)i % 2, -1, 1};
    run(ctx, &p);
  }
}

/* Shapes that stand at the edges of one tile, of the chunks and of the groups of k; the others compute them too. */
static void run_shapes(struct context *ctx, const struct tb_tile *t, int ta, int tb) {
  const int chunk = TB_SGEMM_CHUNK_K, group = TB_SGEMM_GROUP_K;
  const int shape[][3] = {
      {t->block_m + 1, t->block_n + 1, 2 * group + chunk + t->block_k + 5},
      {t->block_m, t->block_n, t->block_k},
      {t->block_m - 1, 2 * t->block_n + 3, 3 * t->block_k + 5},
      {2 * t->block_m + 3, t->block_n - 1, chunk + 1},
      {1, 1, 3},
      {1, t->block_n + 5, 3 * group},
      {t->block_m + 5, 1, t->block_k - 1},
      {7, 5, group - 1},
      {2 * t->block_m, 2 * t->block_n, 2 * t->block_k},
  };
  for (size_t s = 0; s < sizeof shape / sizeof shape[0]; s++) run_shape(ctx, shape[s], ta, tb, -1);
}

/*
 * The same edges with as little work as will meet them, for the CPU that plays the GPU takes its time: a long k in
 * every way, once by all tiles, unless only one is wanted; the tile's edges in both directions; and a k of less than a
 * step.
 */
static void run_shapes_quickly(struct context *ctx, const struct tb_tile *t, int ta, int tb, int one_tile) {
  const int chunk = TB_SGEMM_CHUNK_K, tile = (int)(t - tb_tiles);
  const int groups_k = (ta == tb ? 2 : 1) * TB_SGEMM_GROUP_K; /* from three groups on their order shows */
  /* By all the thin kernels' groups; by one tile more and shorter ones. */
  const bool by_all = one_tile < 0 && tile == 0;
  const int all_ways[3] = {37, by_all ? 5 : 9, by_all ? groups_k + chunk + t->block_k + 5 : 4 * chunk + t->block_k + 5};
  const int edges[3] = {2 * t->block_m + 3, t->block_n + 1, chunk + 1};
  const int short_k[3] = {5, t->block_n + 5, t->block_k - 1};
  run_shape(ctx, all_ways, ta, tb, by_all ? -1 : tile);
  run_shape(ctx, edges, ta, tb, tile);
  run_shape(ctx, short_k, ta, tb, tile);
}

/* Of the tile that is named; -1: there is none of that name. */
static int tile_number(const char *name) {
  int tile = TB_TILE_COUNT - 1;
  while (tile >= 0 && strcmp(tb_tiles[tile].name, name) != 0) tile--;
  return tile;
}

/* The sign of a zero is no question for a sanitizer, under which this would take half a minute. */
#if defined(__SANITIZE_ADDRESS__)
static const int zero_variants = 1;
#else
static const int zero_variants = 4;
#endif

int main(int argc, char **argv) {
  const int quick = argc >= 2 && strcmp(argv[1], "--quick") == 0;
  const int one_tile = argc == 3 && quick ? tile_number(argv[2]) : -1;
  if (argc > 3 || (argc >= 2 && !quick) || (argc == 3 && one_tile < 0)) {
    fprintf(stderr, "usage: exercise [--quick [TILE]]\n");
    return 2;
  }
  struct context ctx = {.gpu = tb_gpu_open(0)};
  tb_gpu_check(tb_kernels_load(&ctx.kernels, ctx.gpu.device), "tb_kernels_load", __FILE__, __LINE__);
  ctx.kernels.device.sm_count = 1;
  printf("%s\n", ctx.gpu.name);
  for (int variant = 0; variant < zero_variants && one_tile < 0; variant++) run_zeros(&ctx, variant >> 1, variant & 1);
  for (int tile = 0; tile < TB_TILE_COUNT; tile++) {
    if (one_tile >= 0 && tile != one_tile) continue;
    if (ctx.kernels.device.blocks_per_sm[tile] == 0) printf("tile %s: this GPU cannot run it\n", tb_tiles[tile].name);
    for (int variant = 0; variant < 4; variant++)
      if (quick)
        run_shapes_quickly(&ctx, &tb_tiles[tile], variant >> 1, variant & 1, one_tile);
      else
        run_shapes(&ctx, &tb_tiles[tile], variant >> 1, variant & 1);
  }
  tb_kernels_unload(&ctx.kernels);
  tb_gpu_close(&ctx.gpu);
  printf("exercise: %ld problems in %ld ways, %ld failed\n", ctx.problems, ctx.ways, ctx.failures);
  return ctx.ways > 0 && ctx.failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
