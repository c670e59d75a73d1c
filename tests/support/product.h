/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the answer to a product must be, by arithmetic in fp64, and how far fp32 may stray from it.
 *
 * With u = 2^-24 and any order of summation, k fused or unfused multiply-adds and the scaling and adding of alpha and
 * beta obey (Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 3.1)
 *
 *     |got - exact|  <=  gamma(k + 3) (|alpha| |A||B| + |beta| |C|),     gamma(n) = n u / (1 - n u)
 *
 * and half a subnormal for every product that underflows. That is the bound used, with no factor on top.
 *
 * Where the exact answer is Inf or NaN, the answer must be that same Inf, or NaN. Not thread safe.
 */
#ifndef TST_PRODUCT_H
#define TST_PRODUCT_H

#include "matrix.h"
#include "abi.h"

struct tst_operands {
  struct tst_matrix a, b, c;
};

/* Makes operands of the problem's shapes; each is filled from `rng` and remembered (tst_matrix_remember). */
void tst_operands_create(struct tst_operands *x, const struct tst_problem *p, enum tst_values values, uint64_t *rng);
void tst_operands_destroy(struct tst_operands *x);

/* The least leading dimensions that are legal for the shape and transposes, plus `pad`. */
void tst_set_leading(struct tst_problem *p, int64_t pad);

/* Layouts and pairs of N, T and C by number: variant 0 to 17 are all of them. Leading dimensions without padding. */
struct tst_problem tst_variant(int variant, int64_t m, int64_t n, int64_t k, float alpha, float beta);

struct tst_expected {
  double *value; /* m x n, column-major, tight */
  double *bound;
};

/* From the remembered contents of the operands. As in the reference BLAS, alpha = 0 or k = 0 reads none of alpha, A and
 * B, and beta = 0 does not read C. */
void tst_expect(struct tst_expected *e, const struct tst_problem *p, const struct tst_operands *x);
void tst_expected_destroy(struct tst_expected *e);

/*
 * Checks everything about a finished call: every element of C, C's padding, and A and B untouched. NULL when all is
 * well; else a description in static memory.
 */
const char *tst_verify(const struct tst_problem *p, const struct tst_operands *x, const struct tst_expected *e);

/* The same element test against another computed answer, each within its own bound of the truth. */
const char *tst_verify_against(const struct tst_problem *p, const struct tst_operands *x, const struct tst_expected *e,
                               const float *other_c, const char *other_name);

/* One line that says what the problem is, in static memory. */
const char *tst_describe(const struct tst_symbol *symbol, const struct tst_problem *p);

#endif
