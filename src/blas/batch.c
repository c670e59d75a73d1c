/* SPDX-License-Identifier: BSD-3-Clause */
#include "blas/batch.h"

/* Number `at` of an array of the caller's integers. */
static int64_t integer_of_batch(const struct tb_batch_arguments *x, const void *array, int64_t at) {
  int64_t wide;
  int32_t narrow;
  if (x->wide) return memcpy(&wide, (const char *)array + at * 8, sizeof wide), wide;
  return memcpy(&narrow, (const char *)array + at * 4, sizeof narrow), narrow;
}

/* How an operand is said to be operand_taken. OpenBLAS has one more: conjugated, and not transposed. */
#define CONJ_NO_TRANS 114
struct operand_taken {
  bool known, transposed, conjugated;
};

static struct operand_taken taken_of(enum tb_abi abi, const void *array, int64_t group) {
  int said = 0;
  if (abi == TB_ABI_CBLAS)
    memcpy(&said, (const char *)array + group * (int64_t)sizeof said, sizeof said);
  else
    said = ((const char *)array)[group];
  if (abi == TB_ABI_CBLAS && said == CONJ_NO_TRANS) return (struct operand_taken){true, false, true};
  const enum tb_trans trans = tb_trans_of(abi, said);
  return (struct operand_taken){trans != TB_TRANS_UNKNOWN, trans != TB_TRANS_N, trans == TB_TRANS_C};
}

/* A group as a column-major product. */
struct group {
  struct operand_taken a, b;
  int64_t m, n, k, lda, ldb, ldc, products;
};

static struct group group_of(enum tb_symbol symbol, const struct tb_batch_arguments *x, int64_t at) {
  const enum tb_abi abi = tb_symbols[symbol].abi;
  const bool row_major = x->layout == TB_ROW_MAJOR;
  const int64_t products = integer_of_batch(x, x->group_size, at);
  return (struct group){.a = taken_of(abi, row_major ? x->transb : x->transa, at),
                        .b = taken_of(abi, row_major ? x->transa : x->transb, at),
                        .m = integer_of_batch(x, row_major ? x->n : x->m, at),
                        .n = integer_of_batch(x, row_major ? x->m : x->n, at),
                        .k = integer_of_batch(x, x->k, at),
                        .lda = integer_of_batch(x, row_major ? x->ldb : x->lda, at),
                        .ldb = integer_of_batch(x, row_major ? x->lda : x->ldb, at),
                        .ldc = integer_of_batch(x, x->ldc, at),
                        .products = products > 0 ? products : 0};
}

/* OpenBLAS's checks, which let a leading dimension be 0 where nothing is stored. */
static int refused_of_group(const struct group *g) {
  if (!g->a.known) return 1;
  if (!g->b.known) return 2;
  if (g->m < 0) return 3;
  if (g->n < 0) return 4;
  if (g->k < 0) return 5;
  if (g->lda < (g->a.transposed ? g->k : g->m)) return 8;
  if (g->ldb < (g->b.transposed ? g->n : g->k)) return 10;
  return g->ldc < g->m ? 13 : TB_BATCH_ACCEPTED;
}

static union tb_scalar scalar_of_group(enum tb_type type, const void *array, int64_t group) {
  return tb_scalar_at(type, (const char *)array + group * tb_type_bytes(type));
}

static struct tb_view view_of_group(enum tb_type type, struct operand_taken operand_taken, int64_t ld) {
  return (struct tb_view){.ld = ld,
                          .transposed = operand_taken.transposed,
                          .conjugated = operand_taken.conjugated && tb_type_is_complex(type),
                          .type = type};
}

/* All of a product but where its matrices lie. */
static struct tb_call call_of_group(const struct tb_batch *batch, const struct group *g, int64_t at) {
  return (struct tb_call){.symbol = tb_gemm_of(batch->symbol),
                          .type = batch->type,
                          .m = g->m,
                          .n = g->n,
                          .k = g->k,
                          .alpha = scalar_of_group(batch->type, batch->made->alpha, at),
                          .beta = scalar_of_group(batch->type, batch->made->beta, at),
                          .a = view_of_group(batch->type, g->a, g->lda),
                          .b = view_of_group(batch->type, g->b, g->ldb),
                          .ldc = g->ldc,
                          .region = {.of = TB_WHOLE},
                          .row_major = batch->made->layout == TB_ROW_MAJOR};
}

static void add_group(struct tb_batch *batch, const struct group *g, int64_t at) {
  const struct tb_call call = call_of_group(batch, g, at);
  const bool trivial = tb_call_is_trivial(&call);
  const double products = (double)g->products, bytes = (double)tb_type_bytes(batch->type);
  if (trivial || g->products == 0) batch->plain = false;
  batch->products += g->products;
  if (trivial) return;
  const double m = (double)g->m, n = (double)g->n, k = (double)g->k;
  batch->flops += products * tb_call_flops(&call);
  batch->up_bytes += products * bytes * (m * k + k * n);
  batch->down_bytes += products * bytes * m * n;
}

int tb_batch_from(struct tb_batch *batch, enum tb_symbol symbol, const struct tb_batch_arguments *x) {
  *batch = (struct tb_batch){.symbol = symbol, .type = tb_routine_of(symbol)->type, .made = x, .plain = true};
  for (int64_t at = 0; at < x->groups; at++) {
    if (x->layout != TB_ROW_MAJOR && x->layout != TB_COL_MAJOR) return 0;
    const struct group g = group_of(symbol, x, at);
    if (x->strided && g.products == 0) break; /* of no product nothing is looked at */
    const int refused = refused_of_group(&g);
    if (refused != TB_BATCH_ACCEPTED) return refused;
    if (integer_of_batch(x, x->group_size, at) < 0) batch->plain = false;
    add_group(batch, &g, at);
  }
  return TB_BATCH_ACCEPTED;
}

/* ---- one after another ---- */

static const void *address_at(const void *array, int64_t number) {
  const void *address;
  memcpy(&address, (const char *)array + number * (int64_t)sizeof address, sizeof address);
  return address;
}

static const void *matrix_at(const struct tb_batch_cursor *c, const void *passed, int64_t stride) {
  if (!c->batch->made->strided) return address_at(passed, c->number);
  return tb_elements_behind(c->batch->type, passed, c->number * stride);
}

void tb_batch_begin(struct tb_batch_cursor *c, const struct tb_batch *batch) {
  *c = (struct tb_batch_cursor){.batch = batch, .number = -1, .group = -1};
}

bool tb_batch_next(struct tb_batch_cursor *c) {
  const struct tb_batch_arguments *const x = c->batch->made;
  if (c->number + 1 >= c->batch->products) return false;
  c->number++;
  c->index++;
  while (c->index >= c->count) {
    const struct group g = group_of(c->batch->symbol, x, ++c->group);
    c->index = 0, c->count = g.products;
    if (c->count > 0) c->call = call_of_group(c->batch, &g, c->group);
  }
  const void *const a = matrix_at(c, x->a, x->stride_a), *const b = matrix_at(c, x->b, x->stride_b);
  c->call.a.data = c->call.row_major ? b : a;
  c->call.b.data = c->call.row_major ? a : b;
  c->call.c = (void *)matrix_at(c, x->c, x->stride_c);
  return true;
}
