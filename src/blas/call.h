/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One BLAS call, whatever symbol it came through: column-major, 64-bit sizes, operands as views. Pure, thread-safe.
 *
 *   C = alpha * op(A) * op(B) + beta * C      op(A) is m x k, op(B) is k x n, C is m x n
 */
#ifndef TB_BLAS_CALL_H
#define TB_BLAS_CALL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "blas/symbols.h"

/* An operand as it lies in memory: element (i, j) of op(X) is data[i + j * ld], or data[j + i * ld] when transposed. */
struct tb_view {
  const float *data;
  int64_t ld;
  bool transposed;
};

struct tb_gemm {
  enum tb_symbol symbol; /* the fallback needs it to find what would have answered; nothing else looks */
  int64_t m, n, k;
  float alpha, beta;
  struct tb_view a, b;
  float *c;
  int64_t ldc;
  int64_t group_k; /* of a part of a product: the whole's, in which its elements are added (order.h). 0: not a part */
  bool row_major;  /* the program's call was; kept so that the verbose line can speak of the call as it was made */
};

/* CBLAS's values, repeated here because the library builds without anybody's cblas.h. */
enum { TB_ROW_MAJOR = 101, TB_COL_MAJOR = 102, TB_NO_TRANS = 111, TB_TRANS = 112, TB_CONJ_TRANS = 113 };

/*
 * Fill *call from the arguments of a CBLAS or a Fortran sgemm. Return false when the reference BLAS would refuse the
 * arguments (then *call is unspecified): an unknown layout or transpose, a negative size, a leading dimension that is
 * too small. A row-major product is its transpose: C^T = op(B)^T op(A)^T, so operands and sizes change places.
 */
bool tb_gemm_from_cblas(struct tb_gemm *call, int layout, int transa, int transb, int64_t m, int64_t n, int64_t k,
                        float alpha, const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                        int64_t ldc);
bool tb_gemm_from_fortran(struct tb_gemm *call, char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha,
                          const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

/* Whether x is 0 or -0: what a comparison would say, but it raises no flag for a signalling NaN. */
static inline bool tb_is_zero(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits << 1 == 0;
}

/* True when C = beta * C is all there is to do: an empty product or alpha = 0 (A and B are then not read). */
static inline bool tb_gemm_is_trivial(const struct tb_gemm *call) {
  return call->m == 0 || call->n == 0 || call->k == 0 || tb_is_zero(call->alpha);
}

/* Floating-point operations of a call: a multiplication and an addition for each of the m n k terms. */
static inline double tb_gemm_flops(const struct tb_gemm *call) {
  return 2.0 * (double)call->m * (double)call->n * (double)call->k;
}

/* The view whose (0, 0) is element (i, j) of op(X). */
static inline struct tb_view tb_view_at(struct tb_view x, int64_t i, int64_t j) {
  x.data += x.transposed ? j + i * x.ld : i + j * x.ld;
  return x;
}

/* The rows [i, i + m) and columns [j, j + n) of a call's C, as a call of its own. */
struct tb_gemm tb_gemm_part(const struct tb_gemm *call, int64_t i, int64_t m, int64_t j, int64_t n);

#endif
