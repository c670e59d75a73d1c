/* SPDX-License-Identifier: BSD-3-Clause */
#include "blas/call.h"

/* Conjugation is nothing to real elements. */
static struct tb_view view_of(enum tb_type type, const void *data, int64_t ld, enum tb_trans trans) {
  return (struct tb_view){.data = data,
                          .ld = ld,
                          .transposed = trans != TB_TRANS_N,
                          .conjugated = trans == TB_TRANS_C && tb_type_is_complex(type),
                          .type = type};
}

int tb_call_from(struct tb_call *call, enum tb_symbol symbol, const struct tb_arguments *x) {
  const int refused = tb_arguments_refused(symbol, x);
  if (refused != 0) return refused;
  const enum tb_abi abi = tb_symbols[symbol].abi;
  const enum tb_type type = tb_routine_of(symbol)->type;
  const bool row_major = x->layout == TB_ROW_MAJOR;
  const struct tb_view a = view_of(type, x->a, x->lda, tb_trans_of(abi, x->transa));
  const struct tb_view b = view_of(type, x->b, x->ldb, tb_trans_of(abi, x->transb));
  *call = (struct tb_call){.symbol = symbol,
                           .type = type,
                           .m = row_major ? x->n : x->m,
                           .n = row_major ? x->m : x->n,
                           .k = x->k,
                           .alpha = x->alpha,
                           .beta = x->beta,
                           .a = row_major ? b : a,
                           .b = row_major ? a : b,
                           .c = x->c,
                           .ldc = x->ldc,
                           .row_major = row_major};
  return 0;
}

struct tb_call tb_call_part(const struct tb_call *call, int64_t i, int64_t m, int64_t j, int64_t n) {
  struct tb_call part = *call;
  part.m = m;
  part.n = n;
  part.a = tb_view_at(call->a, i, 0);
  part.b = tb_view_at(call->b, 0, j);
  part.c = tb_call_c(call, i, j);
  return part;
}
