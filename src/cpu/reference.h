/* SPDX-License-Identifier: BSD-3-Clause */
/* The last resort of the fallback: plain loops and the reference's error report, for a machine without any CPU BLAS. */
#ifndef TB_REFERENCE_H
#define TB_REFERENCE_H

#include "blas/call.h"

/* C = alpha op(A) op(B) + beta C by the reference's loops, any 64-bit size and type. The call must be valid. */
void tb_reference_gemm(const struct tb_call *call);

/* What trmm and trsm make of C, likewise. */
void tb_reference_triangular(const struct tb_call *call);

/* Reports argument `number` of symbol's routine (tb_arguments_refused): to the program's own cblas_xerbla or xerbla_ if
 * it has one, else by a line on stderr. */
void tb_reference_xerbla(enum tb_symbol symbol, int number);

/* The same of a batch, as OpenBLAS reports it whatever the interface: to xerbla_, under Fortran's name. */
void tb_reference_xerbla_batch(enum tb_symbol symbol, int number);

#endif
