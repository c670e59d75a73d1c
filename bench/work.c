/* SPDX-License-Identifier: BSD-3-Clause */
/* One product on rotating operands; see work.h. */
#include "work.h"

#include "select/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const int tb_peer_math[TB_PEER_COUNT] = {TB_MATH_PEDANTIC, TB_MATH_DEFAULT, TB_MATH_TF32};
const char *const tb_peer_name[TB_PEER_COUNT] = {"cuBLAS fp32 pedantic", "cuBLAS fp32", "cuBLAS tf32"};

void tb_bench_open(struct tb_bench *bench, bool cublas) {
  *bench = (struct tb_bench){.gpu = tb_gpu_open(0)};
  tb_gpu_check(tb_kernels_load(&bench->kernels, bench->gpu.device), "tb_kernels_load", __FILE__, __LINE__);
  size_t free_bytes, all_bytes;
  TB_GPU(cuMemGetInfo(&free_bytes, &all_bytes));
  const int64_t quarter = (int64_t)(free_bytes / 4), most = TB_BENCH_WORKSPACE_BYTES_MAX;
  bench->workspace_bytes = quarter < most ? quarter : most;
  bench->workspace = tb_gpu_alloc((size_t)bench->workspace_bytes);
  if (cublas && tb_nvidia_load()) {
    TB_NV(cublasCreate_v2(&bench->cublas));
    TB_NV(cublasSetStream_v2(bench->cublas, bench->gpu.stream));
  }
}

void tb_bench_close(struct tb_bench *bench) {
  if (bench->cublas) TB_NV(cublasDestroy_v2(bench->cublas));
  tb_gpu_free(bench->workspace);
  tb_kernels_unload(&bench->kernels);
  tb_gpu_close(&bench->gpu);
}

struct tb_product tb_bench_product(const struct tb_bench *bench, bool transpose_a, bool transpose_b,
                                   const struct tb_sgemm_args *args, enum tb_precision precision) {
  return (struct tb_product){.m = args->m,
                             .n = args->n,
                             .k = args->k,
                             .group_k = args->group_k,
                             .transpose_a = transpose_a,
                             .transpose_b = transpose_b,
                             .vectors = tb_kernels_vectors(transpose_a, transpose_b, args),
                             .emulated = precision != TB_PRECISION_IEEE,
                             .fast = precision == TB_PRECISION_FAST,
                             .workspace_bytes = bench->workspace_bytes};
}

/* A way of this family that the selector would consider, for it knows what else such a choice holds. */
static bool is_candidate(const struct tb_bench *bench, const struct tb_product *p, struct tb_choice *way) {
  struct tb_choice candidate[TB_CANDIDATES_MAX];
  const int count = tb_select_candidates(&bench->kernels.device, p, candidate);
  for (int i = 0; i < count; i++) {
    if (candidate[i].family != way->family || candidate[i].emulated.splits != way->emulated.splits) continue;
    *way = candidate[i];
    return true;
  }
  return false;
}

bool tb_bench_is_way(const struct tb_choice *x, const struct tb_choice *y) {
  if (x->family != y->family) return false;
  if (x->family == TB_FAMILY_SKINNY) return x->skinny.splits == y->skinny.splits;
  if (x->family == TB_FAMILY_EMULATED)
    return x->emulated.splits == y->emulated.splits && x->emulated.whole == y->emulated.whole;
  return x->fma.tile == y->fma.tile && x->fma.splits == y->fma.splits && x->fma.unit_k == y->fma.unit_k &&
         x->fma.pack_k == y->fma.pack_k && x->fma.whole_rows == y->fma.whole_rows &&
         x->fma.whole_columns == y->fma.whole_columns;
}

bool tb_bench_complete(const struct tb_bench *bench, const struct tb_product *p, struct tb_choice *way) {
  if (way->family == TB_FAMILY_EMULATED) return is_candidate(bench, p, way);
  if (way->family == TB_FAMILY_SKINNY) return tb_skinny_takes(p->m, p->n);
  struct tb_fma_way *fma = &way->fma;
  fma->pack_k = tb_fma_pack_k(p, fma->tile);
  if (tb_tiles[fma->tile].packed && fma->pack_k == 0) return false;
  fma->unit_k = (int)p->group_k;
  /* Split between groups, or between chunks where there are too few groups. */
  if (tb_split_k_of(p->k, fma).splits < fma->splits && p->group_k % TB_SGEMM_CHUNK_K == 0)
    fma->unit_k = TB_SGEMM_CHUNK_K;
  return tb_workspace_bytes(p->m, p->n, p->k, way) <= bench->workspace_bytes;
}

static size_t round_up(size_t x) { return (x + 63) / 64 * 64; /* every copy starts as aligned as the first */ }

static int lda(const struct tb_work *w) { return (w->shape.ta ? w->shape.k : w->shape.m) + w->pad; }
static int ldb(const struct tb_work *w) { return (w->shape.tb ? w->shape.n : w->shape.k) + w->pad; }
static int ldc(const struct tb_work *w) { return w->shape.m + w->pad; }

static void lay_out(struct tb_work *w, struct tb_shape s) {
  w->shape = s;
  w->a_step = round_up((size_t)lda(w) * (size_t)(s.ta ? s.m : s.k));
  w->b_step = round_up((size_t)ldb(w) * (size_t)(s.tb ? s.k : s.n));
  w->c_step = round_up((size_t)ldc(w) * (size_t)s.n);
  size_t copy_bytes = sizeof(float) * (w->a_step + w->b_step + w->c_step);
  w->copies = (long)(w->rotate_bytes / copy_bytes) + 1;
}

static struct tb_arena fill_arena(const struct tb_gpu *gpu, size_t len, enum tb_data_kind kind, unsigned seed) {
  enum { POOL = 16777213 }; /* 64 MiB, and a prime, so that no row of a matrix repeats another */
  struct tb_arena x = {tb_gpu_alloc(len * sizeof(float)), NULL, len < POOL ? len : POOL, len};
  x.pool = tb_alloc(x.pool_len);
  tb_data_fill(x.pool, x.pool_len, 1, kind, TB_OPERAND_A, seed);
  for (size_t at = 0; at < len; at += x.pool_len) {
    size_t part = len - at < x.pool_len ? len - at : x.pool_len;
    tb_gpu_upload(gpu, x.gpu + at * sizeof(float), x.pool, part * sizeof(float));
  }
  return x;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

void tb_work_open(struct tb_work *w, const struct tb_bench *bench, const struct tb_shape *shape, int shapes,
                  enum tb_data_kind kind, size_t rotate_bytes, int pad) {
  *w = (struct tb_work){.bench = bench, .rotate_bytes = rotate_bytes, .pad = pad};
  size_t a_len = 0, b_len = 0, c_len = 0;
  for (int i = 0; i < shapes; i++) {
    lay_out(w, shape[i]);
    a_len = larger(a_len, w->a_step * (size_t)w->copies);
    b_len = larger(b_len, w->b_step * (size_t)w->copies);
    c_len = larger(c_len, w->c_step * (size_t)w->copies);
  }
  w->a = fill_arena(&bench->gpu, a_len, kind, 1);
  w->b = fill_arena(&bench->gpu, b_len, kind, 2);
  w->c = tb_gpu_alloc(c_len * sizeof(float));
}

void tb_work_close(struct tb_work *w) {
  tb_gpu_free(w->a.gpu);
  tb_gpu_free(w->b.gpu);
  tb_gpu_free(w->c);
  free(w->a.pool);
  free(w->b.pool);
}

static struct tb_sgemm_args arguments(const struct tb_work *w, size_t copy) {
  const struct tb_shape *s = &w->shape;
  return (struct tb_sgemm_args){.a = (const float *)w->a.gpu + copy * w->a_step,
                                .b = (const float *)w->b.gpu + copy * w->b_step,
                                .d = (float *)w->c + copy * w->c_step,
                                .lda = lda(w),
                                .ldb = ldb(w),
                                .ldd = ldc(w),
                                .m = s->m,
                                .n = s->n,
                                .k = s->k,
                                .group_k = (int32_t)(w->group_k > 0 ? w->group_k : tb_group_k(s->m, s->n, s->k)),
                                .alpha = 1,
                                .first = 1,
                                .last = 1};
}

void tb_work_set(struct tb_work *w, struct tb_shape shape) {
  lay_out(w, shape);
  w->by_cublas = false;
  tb_work_set_precision(w, w->precision);
}

void tb_work_set_precision(struct tb_work *w, enum tb_precision precision) {
  struct tb_sgemm_args args = arguments(w, 0);
  w->precision = precision;
  w->choice =
      tb_kernels_choose(&w->bench->kernels, w->shape.ta, w->shape.tb, &args, w->bench->workspace_bytes, precision);
}

struct tb_sgemm_args tb_work_arguments(const struct tb_work *w) {
  return arguments(w, 0);
}

struct tb_product tb_work_product(const struct tb_work *w) {
  struct tb_sgemm_args args = arguments(w, 0);
  return tb_bench_product(w->bench, w->shape.ta, w->shape.tb, &args, w->precision);
}

static void enqueue(void *ctx, long i) {
  const struct tb_work *w = ctx;
  const struct tb_shape *s = &w->shape;
  const struct tb_bench *bench = w->bench;
  struct tb_sgemm_args args = arguments(w, (size_t)(i % w->copies));
  if (!w->by_cublas) {
    tb_gpu_check(
        tb_kernels_launch(&bench->kernels, &w->choice, s->ta, s->tb, &args, bench->workspace, bench->gpu.stream),
        "tb_kernels_launch", __FILE__, __LINE__);
  } else {
    const float one = 1, zero = 0;
    TB_NV(cublasSgemm_v2(bench->cublas, s->ta, s->tb, s->m, s->n, s->k, &one, args.a, (int)args.lda, args.b,
                         (int)args.ldb, &zero, args.d, (int)args.ldd));
  }
}

static struct tb_error sample_error(struct tb_work *w) {
  const struct tb_shape *s = &w->shape;
  size_t row[TB_SAMPLE_MAX], col[TB_SAMPLE_MAX], m = (size_t)s->m;
  int rows = tb_sample(m, 3, row), cols = tb_sample((size_t)s->n, 4, col);
  float *column = tb_alloc(m), picked[TB_SAMPLE_MAX * TB_SAMPLE_MAX];
  memset(column, 0xff, m * sizeof *column); /* NaN */
  for (int j = 0; j < cols; j++)
    tb_gpu_upload(&w->bench->gpu, w->c + col[j] * (size_t)ldc(w) * sizeof(float), column, m * sizeof(float));
  enqueue(w, 0);
  for (int j = 0; j < cols; j++) {
    tb_gpu_download(&w->bench->gpu, column, w->c + col[j] * (size_t)ldc(w) * sizeof(float), m * sizeof(float));
    for (int i = 0; i < rows; i++) picked[i + j * rows] = column[row[i]];
  }
  free(column);
  struct tb_pool_view view_a = {.data = w->a.pool, .wrap = w->a.pool_len, .ld = (size_t)lda(w), .transposed = s->ta};
  struct tb_pool_view view_b = {.data = w->b.pool, .wrap = w->b.pool_len, .ld = (size_t)ldb(w), .transposed = s->tb};
  return tb_sample_error(view_a, view_b, (size_t)s->k, row, rows, col, cols, picked);
}

bool tb_work_check(struct tb_work *w, struct tb_error *error) {
  *error = sample_error(w);
  double bound_u = tb_error_bound_u((size_t)w->shape.k);
  if (error->max_u <= bound_u) return true;
  char way[64] = "cuBLAS";
  if (!w->by_cublas) tb_choice_describe(&w->choice, way, sizeof way);
  fprintf(stderr, "WRONG RESULT: %s %c%c %dx%dx%d: error %g u, a right one has at most %g\n", way, "NT"[w->shape.ta],
          "NT"[w->shape.tb], w -> shape.m, w->shape.n, w->shape.k, error->max_u, bound_u);
  return false;
}

double tb_work_median_us(struct tb_work *w, double budget_s) {
  return tb_gpu_median_us(&w->bench->gpu, enqueue, w, budget_s);
}
