/* SPDX-License-Identifier: BSD-3-Clause */
#include "terms.h"

#include <math.h>
#include <stdlib.h>

struct tst_number tst_times(struct tst_number x, struct tst_number y) {
  return (struct tst_number){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}

long double tst_size_of(struct tst_number x) { return fabsl(x.re) + fabsl(x.im); }

/* Not instrumented, and numbers without imaginary parts by themselves: tests spend a fifth of their time here. */
__attribute__((no_sanitize("address", "undefined"))) struct tst_number
tst_sum_of_terms(const struct tst_number *x, const struct tst_number *y, int64_t terms, bool real, long double *size) {
  struct tst_number sum = {0, 0};
  long double of_terms = 0;
  for (int64_t l = 0; real && l < terms; l++) {
    const long double term = x[l].re * y[l].re;
    sum.re += term, of_terms += fabsl(term);
  }
  for (int64_t l = 0; !real && l < terms; l++) {
    sum.re += x[l].re * y[l].re - x[l].im * y[l].im, sum.im += x[l].re * y[l].im + x[l].im * y[l].re;
    of_terms += (fabsl(x[l].re) + fabsl(x[l].im)) * (fabsl(y[l].re) + fabsl(y[l].im));
  }
  *size += of_terms;
  return sum;
}

struct tst_number *tst_numbers(int64_t count) {
  struct tst_number *const all = malloc((size_t)count * sizeof *all);
  if (all == NULL) abort();
  return all;
}
