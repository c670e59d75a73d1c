/* SPDX-License-Identifier: BSD-3-Clause */
/* The last resort of the fallback: plain loops and the reference's error report, for a machine without any CPU BLAS. */
#ifndef TB_REFERENCE_H
#define TB_REFERENCE_H

#include "blas/call.h"

/* C = alpha op(A) op(B) + beta C by the reference's loops, any 64-bit size. The call must be valid. */
void tb_reference_gemm(const struct tb_gemm *call);

/* Number, from 1, of the first argument of Fortran's sgemm that the reference refuses; 0 when it accepts all. */
int tb_reference_check(char transa, char transb, int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb,
                       int64_t ldc);

/* The same for cblas_sgemm, in the numbering of the reference CBLAS: one more, for the layout. */
int tb_reference_check_cblas(int layout, int transa, int transb, int64_t m, int64_t n, int64_t k, int64_t lda,
                             int64_t ldb, int64_t ldc);

/* Reports argument `info` of `routine`: to the program's own cblas_xerbla or xerbla_ if it has one, else by a line on
 * stderr. */
void tb_reference_xerbla(const char *routine, int info);

#endif
