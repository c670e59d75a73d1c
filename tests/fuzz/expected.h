/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a random call must have left: every element of C beside sums that are better than the type's, and every other
 * byte of every block as it was.
 *
 * A complex product is looked at as the real one that it is, of the parts of its elements: of twice the rows and k. So
 * let K be k, or 2 k of a complex product, and S the sum of the absolute values of what is added to a part. With the
 * type's u (2^-24 or 2^-53), its least number t (2^-149 or 2^-1074), and any order of summation, a chain of K
 * multiply-adds and the scaling and adding of alpha and beta obey (Higham, Accuracy and Stability of Numerical
 * Algorithms, 2nd edition, section 3.1)
 *
 *     |got - exact|  <=  gamma(K + 3) (|alpha| S + |beta C|) + (K |alpha| + 2) t,     gamma(n) = n u / (1 - n u)
 *
 * where the last term is what underflows. |alpha| S and |beta C| of a complex product are sums over both parts of alpha
 * and of beta. Elements of A, or of B in a row-major call, may have been multiplied by its alpha first: K t is
 * added, for where that underflows, the other operand is at most 1.
 *
 * The sums are those of OpenBLAS's dgemm, with an error of gamma(K + 3) for u = 2^-53 and of K 2^-1074. For the types
 * of double precision that is as much as the library may err itself: there they are sums of long double, as many as
 * SHARP (expected.c) products of parts allow, evenly over C; the bound of the other elements is that of both errors.
 *
 * The bounds of kernels/PRECISION.md for the tensor cores are below a plain chain's from K = 34 on: where they may have
 * computed, a K below counts as 34. Under TILEBLAS_PRECISION=fast each product may be off by 2^-21 of itself and by
 * 2^-39 of the largest word of the row times that of the column, among all K instead of 1024:
 *
 *     + |alpha| (2^-21 S + 2^-39 K max|A(i,:)| max|B(:,j)|)
 *
 * On the CPU, gemm3m has the imaginary part from (re + im)(re + im) less re re and im im. Let T be S of both parts
 * together. Three chains of k and what is added to them stray by gamma(k + 4) 2 T at most, and that is below
 * gamma(K + 3) 2 T: 2 T stands for S. An Inf or NaN is then an Inf or NaN in both parts.
 *
 * Whole numbers leave no room: their bound is 0. Where the operands have Inf or NaN, the answer must be what the sums
 * make of them. A complex one may also be NaN there, or what sums of alpha times A, or B, make of it; and a scalar's
 * part that is 0 makes NaN of an Inf or leaves it out. Where S or the terms reach half of what the type holds, the
 * order of summation decides whether it overflows: such a part is counted and not compared. Not thread safe.
 */
#ifndef FUZZ_EXPECTED_H
#define FUZZ_EXPECTED_H

#include "call.h"
#include "program.h"

/* Finds OpenBLAS's dgemm. Ends the program when there is none. */
void fuzz_expected_begin(void);

/* After the call: NULL when all is well, else what is wrong, in static memory. `precision` is TILEBLAS_PRECISION's
 * value; by_cpu: a BLAS on the CPU answered. */
const char *fuzz_verify(const struct fuzz_call *call, const struct fuzz_operands *x, const char *precision,
                        bool by_cpu);

/* What was compared so far. */
struct fuzz_compared fuzz_compared(void);

#endif
