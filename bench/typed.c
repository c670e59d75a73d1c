/* SPDX-License-Identifier: BSD-3-Clause */
#include "typed.h"

#include "select/order.h"

#include <stdlib.h>
#include <string.h>

static size_t bytes_of(const struct tb_typed *w) { return (size_t)tb_type_bytes(w->type); }

static size_t round_up(size_t x) { return (x + 63) / 64 * 64; /* every copy starts as aligned as the first */ }
static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static int lda(const struct tb_typed *w) { return w->shape.ta ? w->shape.k : w->shape.m; }
static int ldb(const struct tb_typed *w) { return w->shape.tb ? w->shape.n : w->shape.k; }

static size_t a_elems(const struct tb_shape *s) { return (size_t)s->m * (size_t)s->k; }
static size_t b_elems(const struct tb_shape *s) { return (size_t)s->k * (size_t)s->n; }

static void lay_out(struct tb_typed *w, struct tb_shape s) {
  w->shape = s;
  w->a_step = round_up(a_elems(&s));
  w->b_step = round_up(b_elems(&s));
  w->c_step = round_up((size_t)s.m * (size_t)s.n);
  w->copies = (long)(w->rotate_bytes / (bytes_of(w) * (w->a_step + w->b_step + w->c_step))) + 1;
}

static void upload_pool(const struct tb_typed *w, const struct tb_typed_arena *x) {
  const size_t bytes = bytes_of(w);
  for (size_t at = 0; at < x->len; at += x->pool_len) {
    const size_t part = x->len - at < x->pool_len ? x->len - at : x->pool_len;
    tb_gpu_upload(&w->bench->gpu, x->gpu + at * bytes, x->pool, part * bytes);
  }
}

static struct tb_typed_arena make_arena(const struct tb_typed *w, size_t len, enum tb_data_kind kind, unsigned seed) {
  enum { POOL = 8388593 }; /* 64 MiB of doubles, and a prime, so that no row of a matrix repeats another */
  struct tb_typed_arena x = {tb_gpu_alloc(len * bytes_of(w)), NULL, w->rotate_bytes > 0 && len > POOL ? POOL : len,
                             len};
  x.pool = tb_alloc_type(w->type, x.pool_len);
  tb_data_fill_type(w->type, x.pool, x.pool_len, 1, kind, TB_OPERAND_A, seed);
  upload_pool(w, &x);
  return x;
}

/* An A that is made real in four times its reals, a transposed B in as many. */
static CUdeviceptr real_buffer(const struct tb_typed *w, size_t elems, size_t times) {
  return tb_is_made_real(w->type) ? tb_gpu_alloc(elems * bytes_of(w) * times) : 0;
}

void tb_typed_open(struct tb_typed *w, struct tb_bench *bench, enum tb_type type, const struct tb_shape *shape,
                   int shapes, enum tb_data_kind kind, size_t rotate_bytes) {
  *w = (struct tb_typed){.bench = bench, .type = type, .rotate_bytes = rotate_bytes};
  tb_gpu_check(tb_kernels_ready(&bench->kernels, type), "tb_kernels_ready", __FILE__, __LINE__);
  size_t a_len = 0, b_len = 0, c_len = 0, a_most = 0, b_most = 0;
  for (int i = 0; i < shapes; i++) {
    lay_out(w, shape[i]);
    a_len = larger(a_len, w->a_step * (size_t)w->copies);
    b_len = larger(b_len, w->b_step * (size_t)w->copies);
    c_len = larger(c_len, w->c_step * (size_t)w->copies);
    a_most = larger(a_most, w->a_step), b_most = larger(b_most, w->b_step);
  }
  w->a = make_arena(w, a_len, kind, 1);
  w->b = make_arena(w, b_len, kind, 2);
  w->c = tb_gpu_alloc(c_len * bytes_of(w));
  w->real_a = real_buffer(w, a_most, 2);
  w->real_b = real_buffer(w, b_most, 1);
}

void tb_typed_close(struct tb_typed *w) {
  tb_gpu_free(w->a.gpu);
  tb_gpu_free(w->b.gpu);
  tb_gpu_free(w->c);
  if (w->real_a) tb_gpu_free(w->real_a);
  if (w->real_b) tb_gpu_free(w->real_b);
  free(w->a.pool);
  free(w->b.pool);
}

/* ---- as the pipeline does it ---- */

static int parts_of(const struct tb_typed *w) { return tb_kernel_parts(w->type); }

static int64_t group_k(const struct tb_typed *w) {
  const struct tb_call call = {.type = w->type, .m = w->shape.m, .n = w->shape.n, .k = w->shape.k};
  return tb_gemm_group_k(&call) * parts_of(w);
}

/* tb_part_choose and what its plan makes of that, for operands that are taken in place and as a whole. */
static struct tb_choice choose(const struct tb_typed *w) {
  const bool emulated = w->type == TB_C && w->precision != TB_PRECISION_IEEE;
  struct tb_product product = {.type = tb_kernel_type(w->type),
                               .m = parts_of(w) * (int64_t)w->shape.m,
                               .n = w->shape.n,
                               .k = parts_of(w) * (int64_t)w->shape.k,
                               .group_k = group_k(w),
                               .transpose_a = w->shape.ta,
                               .transpose_b = w->shape.tb,
                               .vectors = true,
                               .emulated = emulated,
                               .workspace_bytes = w->bench->workspace_bytes};
  const struct tb_choice choice = tb_select(&w->bench->kernels.device, &product);
  if (choice.family == TB_FAMILY_EMULATED || !tb_is_made_real(w->type)) return choice;
  product.emulated = false;
  product.as_stored = true;
  return tb_select(&w->bench->kernels.device, &product);
}

void tb_typed_set(struct tb_typed *w, struct tb_shape shape, enum tb_precision precision) {
  lay_out(w, shape);
  w->precision = precision;
  w->by = TB_TYPED_OURS;
  w->choice = choose(w);
}

static void expand_a(const struct tb_typed *w, CUdeviceptr a) {
  const struct tb_shape *s = &w->shape;
  struct tb_complex_expand_args args = {.from = (const void *)a,
                                        .to = (void *)w->real_a,
                                        .from_ld = lda(w),
                                        .to_ld = 2 * (int64_t)lda(w),
                                        .rows = lda(w),
                                        .columns = s->ta ? s->m : s->k,
                                        .along_k = s->ta};
  tb_gpu_check(tb_complex_expand(&w->bench->kernels.complex, &args, w->bench->gpu.stream), "tb_complex_expand",
               __FILE__, __LINE__);
}

static void part_b(const struct tb_typed *w, CUdeviceptr b) {
  struct tb_complex_part_args args = {.from = (const void *)b,
                                      .to = (void *)w->real_b,
                                      .from_ld = ldb(w),
                                      .to_ld = ldb(w),
                                      .rows = ldb(w),
                                      .columns = w->shape.k};
  tb_gpu_check(tb_complex_part(&w->bench->kernels.complex, &args, w->bench->gpu.stream), "tb_complex_part", __FILE__,
               __LINE__);
}

static CUdeviceptr copy_of(const struct tb_typed *w, CUdeviceptr first, size_t step, long i) {
  return first + (size_t)(i % w->copies) * step * bytes_of(w);
}

static void prepare(void *ctx, long i) {
  const struct tb_typed *w = ctx;
  expand_a(w, copy_of(w, w->a.gpu, w->a_step, i));
  if (w->shape.tb) part_b(w, copy_of(w, w->b.gpu, w->b_step, i));
}

static void multiply(struct tb_typed *w, long i) {
  const int64_t parts = parts_of(w);
  const bool real = parts > 1, apart = real && w->shape.tb;
  if (real) prepare(w, i);
  const struct tb_multiply product = {.type = tb_kernel_type(w->type),
                                      .transpose_a = w->shape.ta,
                                      .transpose_b = w->shape.tb,
                                      .a = real ? w->real_a : copy_of(w, w->a.gpu, w->a_step, i),
                                      .b = apart ? w->real_b : copy_of(w, w->b.gpu, w->b_step, i),
                                      .d = copy_of(w, w->c, w->c_step, i),
                                      .lda = parts * lda(w),
                                      .ldb = apart ? ldb(w) : parts * ldb(w),
                                      .ldd = parts * w->shape.m,
                                      .m = parts * w->shape.m,
                                      .n = w->shape.n,
                                      .k = parts * w->shape.k,
                                      .group_k = group_k(w),
                                      .alpha = tb_scalar_of(tb_kernel_type(w->type), 1),
                                      .first = true,
                                      .last = true};
  tb_gpu_check(tb_kernels_multiply(&w->bench->kernels, &w->choice, &product, w->bench->workspace, w->bench->gpu.stream),
               "tb_kernels_multiply", __FILE__, __LINE__);
}

static void by_cublas(const struct tb_typed *w, long i) {
  const struct tb_shape *s = &w->shape;
  const struct tb_nvidia_product product = {.type = w->type,
                                            .by_three = w->by == TB_TYPED_CUBLAS_3M,
                                            .ta = s->ta,
                                            .tb = s->tb,
                                            .m = s->m,
                                            .n = s->n,
                                            .k = s->k,
                                            .a = (const void *)copy_of(w, w->a.gpu, w->a_step, i),
                                            .b = (const void *)copy_of(w, w->b.gpu, w->b_step, i),
                                            .c = (void *)copy_of(w, w->c, w->c_step, i),
                                            .lda = lda(w),
                                            .ldb = ldb(w),
                                            .ldc = s->m};
  TB_NV_GEMM(tb_nvidia_gemm(w->bench->cublas, &product));
}

static void enqueue(void *ctx, long i) {
  struct tb_typed *w = ctx;
  if (w->by == TB_TYPED_OURS)
    multiply(w, i);
  else
    by_cublas(w, i);
}

/* ---- checked and timed ---- */

void tb_typed_fill(struct tb_typed *w, enum tb_data_kind kind, unsigned draw) {
  const struct tb_shape *s = &w->shape;
  w->a.pool_len = a_elems(s), w->b.pool_len = b_elems(s);
  tb_data_fill_type(w->type, w->a.pool, (size_t)s->m, (size_t)s->k, kind, TB_OPERAND_A, 11 + 2 * draw);
  tb_data_fill_type(w->type, w->b.pool, (size_t)s->k, (size_t)s->n, kind, TB_OPERAND_B, 12 + 2 * draw);
  tb_gpu_upload(&w->bench->gpu, w->a.gpu, w->a.pool, w->a.pool_len * bytes_of(w));
  tb_gpu_upload(&w->bench->gpu, w->b.gpu, w->b.pool, w->b.pool_len * bytes_of(w));
}

/* Of columns of C that are given by a function. */
static struct tb_error sampled(const struct tb_typed *w,
                               void (*column_of)(const struct tb_typed *, const void *, size_t, void *),
                               const void *from) {
  const struct tb_shape *s = &w->shape;
  const size_t bytes = bytes_of(w), m = (size_t)s->m;
  size_t row[TB_SAMPLE_MAX], col[TB_SAMPLE_MAX];
  const int rows = tb_sample(m, 3, row), cols = tb_sample((size_t)s->n, 4, col);
  char *column = tb_alloc_type(w->type, m), *picked = tb_alloc_type(w->type, (size_t)(rows * cols));
  for (int j = 0; j < cols; j++) {
    column_of(w, from, col[j], column);
    for (int i = 0; i < rows; i++) memcpy(picked + (size_t)(i + j * rows) * bytes, column + row[i] * bytes, bytes);
  }
  const struct tb_pool_view a = {
      .data = w->a.pool, .wrap = w->a.pool_len, .ld = (size_t)lda(w), .transposed = s->ta, .type = w->type};
  const struct tb_pool_view b = {
      .data = w->b.pool, .wrap = w->b.pool_len, .ld = (size_t)ldb(w), .transposed = s->tb, .type = w->type};
  const struct tb_error error = tb_sample_error(a, b, (size_t)s->k, row, rows, col, cols, picked);
  free(column);
  free(picked);
  return error;
}

static void column_on_gpu(const struct tb_typed *w, const void *unused, size_t j, void *to) {
  (void)unused;
  const size_t column_bytes = (size_t)w->shape.m * bytes_of(w);
  tb_gpu_download(&w->bench->gpu, to, w->c + j * column_bytes, column_bytes);
}

static void column_on_host(const struct tb_typed *w, const void *c, size_t j, void *to) {
  const size_t column_bytes = (size_t)w->shape.m * bytes_of(w);
  memcpy(to, (const char *)c + j * column_bytes, column_bytes);
}

struct tb_error tb_typed_error(struct tb_typed *w) {
  const size_t c_bytes = (size_t)w->shape.m * (size_t)w->shape.n * bytes_of(w);
  TB_GPU(cuMemsetD8Async(w->c, 0xff, c_bytes, w->bench->gpu.stream)); /* NaN */
  enqueue(w, 0);
  return sampled(w, column_on_gpu, NULL);
}

struct tb_error tb_typed_error_of(const struct tb_typed *w, const void *c) {
  return sampled(w, column_on_host, c);
}

double tb_typed_bound_u(const struct tb_typed *w) {
  return tb_error_bound_u((size_t)w->shape.k * (size_t)tb_type_parts(w->type));
}

void tb_typed_way(const struct tb_typed *w, char *text, size_t size) { tb_choice_describe(&w->choice, text, size); }

double tb_typed_median_us(struct tb_typed *w, double budget_s) {
  return tb_gpu_median_us(&w->bench->gpu, enqueue, w, budget_s);
}

double tb_typed_prepare_us(struct tb_typed *w, double budget_s) {
  return tb_is_made_real(w->type) ? tb_gpu_median_us(&w->bench->gpu, prepare, w, budget_s) : 0;
}
