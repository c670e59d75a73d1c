/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a random call must have left: every element of C beside OpenBLAS's dgemm of the same operands, and every other
 * byte of every block as it was.
 *
 * With u = 2^-24, S = (|A||B|)ij and any order of summation, a chain of k multiply-adds and the scaling and adding of
 * alpha and beta obey (Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 3.1)
 *
 *     |got - exact|  <=  gamma(k + 3) (|alpha| S + |beta C|) + (k |alpha| + 2) 2^-149,     gamma(n) = n u / (1 - n u)
 *
 * where the last term is what underflows. dgemm's own error is gamma(k + 3) with u = 2^-53, which is added.
 * The bounds of kernels/PRECISION.md for the tensor cores are below a plain chain's from k = 34 on: where they may have
 * computed, a k below counts as 34. Under TILEBLAS_PRECISION=fast each product may be off by 2^-21 of itself and by
 * 2^-39 of the largest word of the row times that of the column, among all k instead of 1024:
 *
 *     + |alpha| (2^-21 S + 2^-39 k max|A(i,:)| max|B(:,j)|)
 *
 * Whole numbers leave no room: their bound is 0. Where the operands have Inf or NaN, the answer must be what fp64
 * makes of them. Where S or the terms reach 2^127, the order of summation decides whether fp32 overflows: such an
 * element is counted and not compared. Not thread safe.
 */
#ifndef FUZZ_EXPECTED_H
#define FUZZ_EXPECTED_H

#include "call.h"

/* Finds OpenBLAS's dgemm. Ends the program when there is none. */
void fuzz_expected_begin(void);

/* After the call: NULL when all is well, else what is wrong, in static memory. `precision` is TILEBLAS_PRECISION's
 * value. */
const char *fuzz_verify(const struct fuzz_call *call, const struct fuzz_operands *x, const char *precision);

/* Elements that were compared, and those that were not. */
struct fuzz_compared {
  unsigned long long elements, overflowing;
};
struct fuzz_compared fuzz_compared(void);

#endif
