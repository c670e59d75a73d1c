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

/* A on its side of B, and a matrix that is overwritten as B. */
static void place_structured(struct tb_call *call, enum tb_signature signature, const struct tb_column_major *y) {
  struct tb_view a = call->a;
  a.uplo = y->triangle == TB_UPPER_TRIANGLE ? TB_UPPER : TB_LOWER;
  a.unit = y->diag == TB_UNIT;
  a.structure = tb_is_triangular(signature)      ? TB_TRIANGULAR
                : signature == TB_SIGNATURE_hemm ? TB_HERMITIAN
                                                 : TB_SYMMETRIC;
  call->region.of = TB_WHOLE;
  call->a = a;
  if (tb_is_triangular(signature)) {
    call->recipe = signature == TB_SIGNATURE_trmm ? TB_TRIANGULAR_MULTIPLY : TB_TRIANGULAR_SOLVE;
    call->on_right = y->side == TB_RIGHT;
  } else if (y->side == TB_RIGHT) {
    call->a = call->b;
    call->b = a;
  }
}

int tb_call_from(struct tb_call *call, enum tb_symbol symbol, const struct tb_arguments *x) {
  const int refused = tb_arguments_refused(symbol, x);
  if (refused != 0) return refused;
  const struct tb_routine_info *const routine = tb_routine_of(symbol);
  const struct tb_column_major y = tb_arguments_column_major(symbol, x);
  *call = (struct tb_call){.symbol = symbol,
                           .type = routine->type,
                           .m = y.m,
                           .n = y.n,
                           .k = y.k,
                           .alpha = x->alpha,
                           .beta = x->beta,
                           .a = view_of(routine->type, y.a, y.lda, y.transa),
                           .b = view_of(routine->type, y.b, y.ldb, y.transb),
                           .c = x->c,
                           .ldc = x->ldc,
                           .region = {.of = y.triangle, .hermitian = tb_is_hermitian(routine->signature)},
                           .twice = tb_is_of_rank_2k(routine->signature),
                           .row_major = x->layout == TB_ROW_MAJOR};
  call->again_a = call->b.data;
  call->again_b = call->a.data;
  if (tb_has_side(routine->signature)) place_structured(call, routine->signature, &y);
  return 0;
}

static union tb_scalar conjugate(enum tb_type type, union tb_scalar x) {
  if (tb_type_is_double(type))
    x.z[1] = -x.z[1];
  else
    x.c[1] = -x.c[1];
  return x;
}

struct tb_call tb_call_once(const struct tb_call *call) {
  struct tb_call once = *call;
  once.twice = false;
  return once;
}

/* Transposed, and of a Hermitian C conjugated, op(B) is stored and read as op(A) is. */
struct tb_call tb_call_exchanged(const struct tb_call *call) {
  struct tb_call exchanged = *call;
  exchanged.a.data = call->again_a, exchanged.a.ld = call->b.ld;
  exchanged.b.data = call->again_b, exchanged.b.ld = call->a.ld;
  exchanged.again_a = call->a.data, exchanged.again_b = call->b.data;
  return exchanged;
}

struct tb_call tb_call_again(const struct tb_call *call) {
  const struct tb_call exchanged = tb_call_exchanged(call);
  struct tb_call again = tb_call_once(&exchanged);
  again.alpha = call->region.hermitian ? conjugate(call->type, call->alpha) : call->alpha;
  again.beta = tb_scalar_of(call->type, 1);
  return again;
}

struct tb_call tb_call_part(const struct tb_call *call, int64_t i, int64_t m, int64_t j, int64_t n) {
  struct tb_call part = *call;
  part.m = m;
  part.n = n;
  part.a = call->recipe == TB_MULTIPLY ? tb_view_at(call->a, i, 0) : call->a;
  part.b = tb_view_at(call->b, call->recipe == TB_MULTIPLY ? 0 : i, j);
  if (call->twice) {
    part.again_a = tb_view_at(tb_call_exchanged(call).a, i, 0).data;
    part.again_b = tb_view_at(tb_call_exchanged(call).b, 0, j).data;
  }
  part.c = tb_call_c(call, i, j);
  part.region = tb_region_at(call->region, i, j);
  return part;
}

#define SMALL_ONES_BYTES_MOST 8e6
#define PAIR_BYTES_MOST ((double)((int64_t)1 << 30))

enum tb_company tb_call_company(const struct tb_call *call) {
  const double sides = (double)call->m + (double)call->n;
  const double bytes = (sides * (double)call->k + tb_call_elems(call)) * (double)tb_call_bytes(call);
  if (call->recipe != TB_MULTIPLY || bytes > PAIR_BYTES_MOST) return TB_ALONE;
  return bytes <= SMALL_ONES_BYTES_MOST ? TB_SMALL_ONES : TB_A_PAIR;
}
