/* SPDX-License-Identifier: BSD-3-Clause */
#include "blas/arguments.h"

static int64_t at_least_one(int64_t n) { return n > 1 ? n : 1; }

/* ---- as a column-major product ---- */

/* Of the second operand: the first one's turned, and for a Hermitian C conjugated. */
static enum tb_trans other_trans(enum tb_signature signature, enum tb_trans trans) {
  if (trans != TB_TRANS_N) return TB_TRANS_N;
  return tb_is_hermitian(signature) ? TB_TRANS_C : TB_TRANS_T;
}

static enum tb_region_of other_triangle(enum tb_region_of triangle) {
  return triangle == TB_WHOLE ? TB_WHOLE : triangle == TB_UPPER_TRIANGLE ? TB_LOWER_TRIANGLE : TB_UPPER_TRIANGLE;
}

/* A symmetric A, or its conjugate, is its own transpose, and a triangular one's transpose is turned once more. */
static struct tb_column_major with_side(enum tb_symbol symbol, const struct tb_arguments *x) {
  const enum tb_abi abi = tb_symbols[symbol].abi;
  const bool is_triangular = tb_is_triangular(tb_routine_of(symbol)->signature);
  const enum tb_side side = tb_side_of(abi, x->side);
  const enum tb_region_of triangle = tb_triangle_of(abi, x->uplo);
  struct tb_column_major y = {.triangle = triangle,
                              .side = side,
                              .diag = is_triangular ? tb_diag_of(abi, x->diag) : TB_NON_UNIT,
                              .transa = is_triangular ? tb_trans_of(abi, x->transa) : TB_TRANS_N,
                              .transb = TB_TRANS_N,
                              .m = x->m,
                              .n = x->n,
                              .k = side == TB_LEFT ? x->m : x->n,
                              .lda = x->lda,
                              .ldb = x->ldb,
                              .ldc = x->ldc,
                              .a = x->a,
                              .b = x->b};
  if (x->layout != TB_ROW_MAJOR) return y;
  y.triangle = other_triangle(triangle);
  y.side = side == TB_LEFT ? TB_RIGHT : side == TB_RIGHT ? TB_LEFT : TB_SIDE_UNKNOWN;
  y.m = x->n, y.n = x->m;
  return y;
}

/* A row-major C is the transpose of a column-major one: op(B)^T op(A)^T, and its upper triangle the lower one. */
struct tb_column_major tb_arguments_column_major(enum tb_symbol symbol, const struct tb_arguments *x) {
  const enum tb_abi abi = tb_symbols[symbol].abi;
  const enum tb_signature signature = tb_routine_of(symbol)->signature;
  if (tb_has_side(signature)) return with_side(symbol, x);
  const enum tb_trans transa = tb_trans_of(abi, x->transa);
  const enum tb_trans transb =
      tb_is_of_one_transpose(signature) ? other_trans(signature, transa) : tb_trans_of(abi, x->transb);
  struct tb_column_major y = {.triangle = signature == TB_SIGNATURE_gemm ? TB_WHOLE : tb_triangle_of(abi, x->uplo),
                              .transa = transa,
                              .transb = transb,
                              .m = x->m,
                              .n = x->n,
                              .k = x->k,
                              .lda = x->lda,
                              .ldb = x->ldb,
                              .ldc = x->ldc,
                              .a = x->a,
                              .b = x->b};
  if (x->layout != TB_ROW_MAJOR) return y;
  y.triangle = other_triangle(y.triangle);
  y.transa = transb, y.transb = transa;
  y.m = x->n, y.n = x->m;
  y.lda = x->ldb, y.ldb = x->lda;
  y.a = x->b, y.b = x->a;
  return y;
}

/* ---- checks ---- */

/* What is checked. */
struct checked {
  const struct tb_routine_info *routine;
  enum tb_trans said; /* where one is said for both operands */
  struct tb_column_major call;
};

/* One for both is N or T, for a Hermitian C N or C; of real operands C is T. */
static bool is_trans(const struct checked *x, enum tb_trans trans) {
  if (trans == TB_TRANS_UNKNOWN) return false;
  if (!tb_is_of_one_transpose(x->routine->signature) || trans == TB_TRANS_N) return true;
  if (tb_is_hermitian(x->routine->signature)) return trans == TB_TRANS_C;
  return trans == TB_TRANS_T || !tb_type_is_complex(x->routine->type);
}

/* The reference's own checks (sgemm.f and its like). */
static bool is_acceptable(const struct checked *checked, enum tb_argument which) {
  const struct tb_column_major *const x = &checked->call;
  const bool has_side = tb_has_side(checked->routine->signature);
  switch (which) {
    case TB_ARGUMENT_SIDE:
      return x->side != TB_SIDE_UNKNOWN;
    case TB_ARGUMENT_DIAG:
      return x->diag != TB_DIAG_UNKNOWN;
    case TB_ARGUMENT_UPLO:
      return x->triangle != TB_WHOLE;
    case TB_ARGUMENT_TRANSA:
      return is_trans(checked, tb_is_of_one_transpose(checked->routine->signature) ? checked->said : x->transa);
    case TB_ARGUMENT_TRANSB:
      return is_trans(checked, x->transb);
    case TB_ARGUMENT_M:
      return x->m >= 0;
    case TB_ARGUMENT_N:
      return x->n >= 0;
    case TB_ARGUMENT_K:
      return x->k >= 0;
    case TB_ARGUMENT_LDA:
      return x->lda >= at_least_one(has_side || x->transa != TB_TRANS_N ? x->k : x->m);
    case TB_ARGUMENT_LDB:
      return x->ldb >= at_least_one(has_side ? x->m : x->transb == TB_TRANS_N ? x->k : x->n);
    case TB_ARGUMENT_LDC:
      return x->ldc >= at_least_one(x->m);
    default:
      return true;
  }
}

/* The argument of a row-major call that stands where this one does in the transposed product. Where A has a side, that
 * alone changes. */
static enum tb_argument transposed(enum tb_signature signature, enum tb_argument which) {
  if (tb_has_side(signature) && which != TB_ARGUMENT_M && which != TB_ARGUMENT_N) return which;
  switch (which) {
    case TB_ARGUMENT_TRANSA:
      return TB_ARGUMENT_TRANSB;
    case TB_ARGUMENT_TRANSB:
      return TB_ARGUMENT_TRANSA;
    case TB_ARGUMENT_M:
      return TB_ARGUMENT_N;
    case TB_ARGUMENT_N:
      return TB_ARGUMENT_M;
    case TB_ARGUMENT_LDA:
      return TB_ARGUMENT_LDB;
    case TB_ARGUMENT_LDB:
      return TB_ARGUMENT_LDA;
    default:
      return which;
  }
}

/* From 1; 0: the signature has no such argument. */
static int place_of(const unsigned char *signature, enum tb_argument which) {
  for (int place = 0; signature[place] != TB_ARGUMENT_NONE; place++)
    if (signature[place] == which) return place + 1;
  return 0;
}

/* What is checked of a call, and whether its arguments have changed places for it. Those with one transpose for both
 * operands are checked in their own order: the leading dimensions, of which as much is wanted, go back. */
static struct checked checked_of(enum tb_symbol symbol, const struct tb_arguments *x, bool *changed_places) {
  struct checked checked = {tb_routine_of(symbol), tb_trans_of(tb_symbols[symbol].abi, x->transa),
                            tb_arguments_column_major(symbol, x)};
  const bool own_order = tb_is_of_one_transpose(checked.routine->signature);
  *changed_places = x->layout == TB_ROW_MAJOR && !own_order;
  if (own_order) checked.call.lda = x->lda, checked.call.ldb = x->ldb;
  return checked;
}

int tb_arguments_refused(enum tb_symbol symbol, const struct tb_arguments *x) {
  bool changed_places;
  const struct checked checked = checked_of(symbol, x, &changed_places);
  const unsigned char *signature = tb_signatures[checked.routine->signature];
  const int ahead = tb_symbols[symbol].abi == TB_ABI_CBLAS ? 1 : 0;
  if (x->layout != TB_ROW_MAJOR && x->layout != TB_COL_MAJOR) return 1;
  for (int i = 0; signature[i] != TB_ARGUMENT_NONE; i++) {
    const enum tb_argument which = (enum tb_argument)signature[i];
    if (is_acceptable(&checked, which)) continue;
    const int there = changed_places ? place_of(signature, transposed(checked.routine->signature, which)) : 0;
    return ahead + (there != 0 ? there : i + 1);
  }
  return 0;
}
