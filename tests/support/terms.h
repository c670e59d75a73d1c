/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of products of complex numbers in long double, one after another: what an element of a product must be. Pure. */
#ifndef TST_TERMS_H
#define TST_TERMS_H

#include <stdbool.h>
#include <stdint.h>

struct tst_number {
  long double re, im;
};

struct tst_number tst_times(struct tst_number x, struct tst_number y);
long double tst_size_of(struct tst_number x); /* that has no root in it */

/* x[0] y[0] + x[1] y[1] + ...; what its terms' factors have as sizes is added to *size. `real`: no number has an
 * imaginary part. */
struct tst_number tst_sum_of_terms(const struct tst_number *x, const struct tst_number *y, int64_t terms, bool real,
                                   long double *size);

/* Memory for so many, or the end. */
struct tst_number *tst_numbers(int64_t count);

#endif
