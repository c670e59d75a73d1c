/* SPDX-License-Identifier: BSD-3-Clause */
#include "blas/triangular.h"

static void *row_of_b(const struct tb_call *call, int64_t row) {
  return call->on_right ? tb_call_c(call, 0, row) : tb_call_c(call, row, 0);
}

/* Of B from a row on. */
static struct tb_view rows_from(const struct tb_call *call, int64_t row) {
  return (struct tb_view){.data = row_of_b(call, row), .ld = call->ldc, .type = call->type};
}

struct tb_call tb_triangular_part(const struct tb_call *call, int64_t first, int64_t size) {
  struct tb_call part =
      call->on_right ? tb_call_part(call, first, size, 0, call->n) : tb_call_part(call, 0, call->m, first, size);
  part.whole_sides = tb_triangular_whole_sides(call);
  return part;
}

struct tb_call tb_triangular_diagonal(const struct tb_call *call, int64_t first, int64_t size) {
  struct tb_call part = *call;
  part.a = tb_view_at(call->a, first, first);
  part.c = row_of_b(call, first);
  part.b = rows_from(call, first);
  part.k = size;
  *(call->on_right ? &part.n : &part.m) = size;
  return part;
}

/* What lies wholly within a triangle. */
static struct tb_view general(struct tb_view x) {
  x.structure = TB_GENERAL;
  x.unit = false;
  x.diagonal = 0;
  return x;
}

struct tb_call tb_triangular_update(const struct tb_call *call, int64_t target, int64_t target_size, int64_t source,
                                    int64_t source_size, union tb_scalar alpha, union tb_scalar beta) {
  struct tb_call product = *call;
  const struct tb_view b = rows_from(call, source);
  product.symbol = tb_gemm_of(call->symbol);
  product.recipe = TB_MULTIPLY;
  product.on_right = false;
  product.row_major = false;
  product.c = row_of_b(call, target);
  product.k = source_size;
  product.alpha = alpha;
  product.beta = beta;
  if (call->on_right) {
    product.n = target_size;
    product.a = b;
    product.b = general(tb_view_at(call->a, source, target));
  } else {
    product.m = target_size;
    product.a = general(tb_view_at(call->a, target, source));
    product.b = b;
  }
  return product;
}
