/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sums that a random call's answer is compared with, as a product of real numbers in fp64. Lines of C are columns
 * of it, those of a row-major C by the transposed product. Of a complex product it is that of the parts,
 *
 *     (re)   (a.re  -a.im) (b.re)
 *     (im) = (a.im   a.re) (b.im)
 *
 * so that a line of it is a line of C as stored. What is conjugated is so here. Not thread safe; results stay until the
 * next product.
 */
#ifndef FUZZ_REAL_PRODUCT_H
#define FUZZ_REAL_PRODUCT_H

#include "call.h"

/* A factor by its sides, the rows of the left one or the columns of the right one: k numbers each, and the largest. */
struct fuzz_factor {
  int64_t sides, k;
  double *wide, *largest;
};

/* Sums are left.sides x right.sides, by columns. */
struct fuzz_real {
  struct fuzz_factor left, right;
  const double *sum, *size; /* of products, and of their absolute values */
  const double *scaled;     /* of products of alpha times the left factor, where the order matters; or NULL */
};

/* Finds OpenBLAS's dgemm. Ends the program when there is none. */
void fuzz_real_begin(void);

/* Of the operands' images. `sizes`: with the sums of absolute values, else `size` is `sum`. Whether alpha multiplies
 * first matters to Inf and NaN when it is not real. */
void fuzz_real_multiply(struct fuzz_real *real, const struct fuzz_call *call, const struct fuzz_operands *x,
                        bool sizes);

/* The same of factors that are made element by element: the left one of the rows of a matrix, the right one of the
 * columns of another, k elements each. Every element is put, and then the factor ended. */
struct fuzz_factor fuzz_factor_make(bool left, int parts, int64_t sides, int64_t k);
void fuzz_factor_put(struct fuzz_factor *factor, bool left, int parts, int64_t side, int64_t l, double _Complex x);
void fuzz_factor_end(struct fuzz_factor *factor);
void fuzz_real_sums(struct fuzz_real *real, bool sizes);

/* One sum in long double. */
long double fuzz_real_sharp(const struct fuzz_real *real, int64_t row, int64_t column);

#endif
