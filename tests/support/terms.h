/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of products of complex numbers, as exact as a test must know them: what an element of a product must be. Pure.
 */
#ifndef TST_TERMS_H
#define TST_TERMS_H

#include <stdbool.h>
#include <stdint.h>

struct tst_number {
  long double re, im;
};

struct tst_number tst_times(struct tst_number x, struct tst_number y);
long double tst_size_of(struct tst_number x); /* that has no root in it */

/* x[0] y[0] + x[1] y[1] + ... in double, and the sum of the absolute values. */
double tst_sum_in_double(const double *x, const double *y, int64_t terms, double *magnitude);

/* Numbers that are multiplied, which doubles hold: their parts apart, and beside them their sizes. */
struct tst_factors {
  double *re, *im, *size; /* im: NULL, no number has an imaginary part */
};

/* Memory for so many, or the end. */
struct tst_factors tst_factors_make(int64_t count, bool imaginary);
void tst_factors_free(struct tst_factors *f);
void tst_factors_put(struct tst_factors *f, int64_t at, struct tst_number x);

/* x[x_at] y[y_at] + x[x_at + 1] y[y_at + 1] + ...; what its terms' factors have as sizes is added to *size.
 * `of_floats`: in double, which has 29 bits more than they; else in long double. */
struct tst_number tst_sum_of_terms(const struct tst_factors *x, int64_t x_at, const struct tst_factors *y, int64_t y_at,
                                   int64_t terms, bool of_floats, long double *size);

#endif
