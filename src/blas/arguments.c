/* SPDX-License-Identifier: BSD-3-Clause */
#include "blas/arguments.h"

static int64_t at_least_one(int64_t n) { return n > 1 ? n : 1; }

/* Arguments of a column-major call. */
struct checked {
  enum tb_trans transa, transb;
  int64_t m, n, k, lda, ldb, ldc;
};

static struct checked column_major(enum tb_abi abi, const struct tb_arguments *x) {
  const enum tb_trans transa = tb_trans_of(abi, x->transa), transb = tb_trans_of(abi, x->transb);
  if (x->layout == TB_ROW_MAJOR) return (struct checked){transb, transa, x->n, x->m, x->k, x->ldb, x->lda, x->ldc};
  return (struct checked){transa, transb, x->m, x->n, x->k, x->lda, x->ldb, x->ldc};
}

/* The reference's own checks (sgemm.f and its like). */
static bool is_acceptable(const struct checked *x, enum tb_argument which) {
  switch (which) {
    case TB_ARGUMENT_TRANSA:
      return x->transa != TB_TRANS_UNKNOWN;
    case TB_ARGUMENT_TRANSB:
      return x->transb != TB_TRANS_UNKNOWN;
    case TB_ARGUMENT_M:
      return x->m >= 0;
    case TB_ARGUMENT_N:
      return x->n >= 0;
    case TB_ARGUMENT_K:
      return x->k >= 0;
    case TB_ARGUMENT_LDA:
      return x->lda >= at_least_one(x->transa == TB_TRANS_N ? x->m : x->k);
    case TB_ARGUMENT_LDB:
      return x->ldb >= at_least_one(x->transb == TB_TRANS_N ? x->k : x->n);
    case TB_ARGUMENT_LDC:
      return x->ldc >= at_least_one(x->m);
    default:
      return true;
  }
}

/* The argument of a row-major call that stands where this one does in the transposed product. */
static enum tb_argument transposed(enum tb_argument which) {
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

static int place_of(const unsigned char *signature, enum tb_argument which) {
  int place = 0;
  while (signature[place] != which) place++;
  return place + 1;
}

int tb_arguments_refused(enum tb_symbol symbol, const struct tb_arguments *x) {
  const enum tb_abi abi = tb_symbols[symbol].abi;
  const unsigned char *signature = tb_signatures[tb_routine_of(symbol)->signature];
  const int ahead = abi == TB_ABI_CBLAS ? 1 : 0;
  if (x->layout != TB_ROW_MAJOR && x->layout != TB_COL_MAJOR) return 1;
  const struct checked checked = column_major(abi, x);
  for (int i = 0; signature[i] != TB_ARGUMENT_NONE; i++) {
    const enum tb_argument which = (enum tb_argument)signature[i];
    if (is_acceptable(&checked, which)) continue;
    return ahead + place_of(signature, x->layout == TB_ROW_MAJOR ? transposed(which) : which);
  }
  return 0;
}
