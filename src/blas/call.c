/* SPDX-License-Identifier: BSD-3-Clause */
#include "blas/call.h"

static int64_t at_least_one(int64_t n) { return n > 1 ? n : 1; }

/* The reference's own checks on the column-major product (sgemm.f: parameters 3 to 13). */
static bool acceptable(const struct tb_gemm *call) {
  return call->m >= 0 && call->n >= 0 && call->k >= 0 &&
         call->a.ld >= at_least_one(call->a.transposed ? call->k : call->m) &&
         call->b.ld >= at_least_one(call->b.transposed ? call->n : call->k) && call->ldc >= at_least_one(call->m);
}

bool tb_gemm_from_cblas(struct tb_gemm *call, int layout, int transa, int transb, int64_t m, int64_t n, int64_t k,
                        float alpha, const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                        int64_t ldc) {
  if (layout != TB_ROW_MAJOR && layout != TB_COL_MAJOR) return false;
  if (transa < TB_NO_TRANS || transa > TB_CONJ_TRANS || transb < TB_NO_TRANS || transb > TB_CONJ_TRANS) return false;
  struct tb_view view_a = {a, lda, transa != TB_NO_TRANS}, view_b = {b, ldb, transb != TB_NO_TRANS};
  call->k = k;
  call->alpha = alpha;
  call->beta = beta;
  call->c = c;
  call->ldc = ldc;
  call->row_major = layout == TB_ROW_MAJOR;
  if (layout == TB_COL_MAJOR) {
    call->m = m;
    call->n = n;
    call->a = view_a;
    call->b = view_b;
  } else {
    call->m = n;
    call->n = m;
    call->a = view_b;
    call->b = view_a;
  }
  return acceptable(call);
}

/* -1: not a letter the reference knows; 0: N; 1: T or C, which is the same for real matrices. */
static int transpose_of(char letter) {
  switch (letter) {
    case 'N':
    case 'n':
      return 0;
    case 'T':
    case 't':
    case 'C':
    case 'c':
      return 1;
    default:
      return -1;
  }
}

bool tb_gemm_from_fortran(struct tb_gemm *call, char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha,
                          const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
  int ta = transpose_of(transa), tb = transpose_of(transb);
  if (ta < 0 || tb < 0) return false;
  *call = (struct tb_gemm){.symbol = call->symbol,
                           .m = m,
                           .n = n,
                           .k = k,
                           .alpha = alpha,
                           .beta = beta,
                           .a = {a, lda, ta},
                           .b = {b, ldb, tb},
                           .c = c,
                           .ldc = ldc};
  return acceptable(call);
}

struct tb_gemm tb_gemm_part(const struct tb_gemm *call, int64_t i, int64_t m, int64_t j, int64_t n) {
  struct tb_gemm part = *call;
  part.m = m;
  part.n = n;
  part.a = tb_view_at(call->a, i, 0);
  part.b = tb_view_at(call->b, 0, j);
  part.c = call->c + i + j * call->ldc;
  return part;
}
