/* SPDX-License-Identifier: BSD-3-Clause */
#include "terms.h"

#include <math.h>
#include <stdlib.h>

struct tst_number tst_times(struct tst_number x, struct tst_number y) {
  return (struct tst_number){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}

long double tst_size_of(struct tst_number x) { return fabsl(x.re) + fabsl(x.im); }

static double *doubles(int64_t count) {
  double *const all = malloc((size_t)count * sizeof *all);
  if (all == NULL) abort();
  return all;
}

struct tst_factors tst_factors_make(int64_t count, bool imaginary) {
  return (struct tst_factors){doubles(count), imaginary ? doubles(count) : NULL, doubles(count)};
}

void tst_factors_free(struct tst_factors *f) { free(f->re), free(f->im), free(f->size); }

void tst_factors_put(struct tst_factors *f, int64_t at, struct tst_number x) {
  f->re[at] = (double)x.re;
  if (f->im != NULL) f->im[at] = (double)x.im;
  f->size[at] = (double)tst_size_of(x);
}

/* Tests spend much of their time in those that follow: sums of several chains, of which none waits for another, and
 * not instrumented. */
#define PLAIN __attribute__((no_sanitize("address", "undefined")))
typedef double four __attribute__((vector_size(32)));
typedef double four_there __attribute__((vector_size(32), aligned(8), may_alias));

PLAIN static double in_double(const double *x, const double *y, int64_t terms) {
  four even = {0}, odd = {0};
  int64_t l = 0;
  for (; l + 8 <= terms; l += 8) {
    even += *(const four_there *)(x + l) * *(const four_there *)(y + l);
    odd += *(const four_there *)(x + l + 4) * *(const four_there *)(y + l + 4);
  }
  even += odd;
  double sum = even[0] + even[1] + (even[2] + even[3]);
  for (; l < terms; l++) sum += x[l] * y[l];
  return sum;
}

PLAIN double tst_sum_in_double(const double *x, const double *y, int64_t terms, double *magnitude) {
  typedef int64_t bits __attribute__((vector_size(32)));
  const bits all_but_sign = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
  four sums = {0}, sizes = {0};
  int64_t l = 0;
  for (; l + 4 <= terms; l += 4) {
    const four term = *(const four_there *)(x + l) * *(const four_there *)(y + l);
    sums += term, sizes += (four)((bits)term & all_but_sign);
  }
  double sum = sums[0] + sums[1] + (sums[2] + sums[3]);
  *magnitude = sizes[0] + sizes[1] + (sizes[2] + sizes[3]);
  for (; l < terms; l++) sum += x[l] * y[l], *magnitude += fabs(x[l] * y[l]);
  return sum;
}

PLAIN static long double in_long_double(const double *x, const double *y, int64_t terms) {
  long double chain[3] = {0, 0, 0};
  int64_t l = 0;
  for (; l + 3 <= terms; l += 3) {
    chain[0] += (long double)x[l] * y[l];
    chain[1] += (long double)x[l + 1] * y[l + 1];
    chain[2] += (long double)x[l + 2] * y[l + 2];
  }
  for (; l < terms; l++) chain[0] += (long double)x[l] * y[l];
  return chain[0] + chain[1] + chain[2];
}

struct tst_number tst_sum_of_terms(const struct tst_factors *x, int64_t x_at, const struct tst_factors *y, int64_t y_at,
                                   int64_t terms, bool of_floats, long double *size) {
  const double *const xr = x->re + x_at, *const yr = y->re + y_at;
  *size += in_double(x->size + x_at, y->size + y_at, terms);
  if (x->im == NULL)
    return (struct tst_number){of_floats ? in_double(xr, yr, terms) : in_long_double(xr, yr, terms), 0};
  const double *const xi = x->im + x_at, *const yi = y->im + y_at;
  if (of_floats)
    return (struct tst_number){(long double)in_double(xr, yr, terms) - in_double(xi, yi, terms),
                               (long double)in_double(xr, yi, terms) + in_double(xi, yr, terms)};
  return (struct tst_number){in_long_double(xr, yr, terms) - in_long_double(xi, yi, terms),
                             in_long_double(xr, yi, terms) + in_long_double(xi, yr, terms)};
}
