/* SPDX-License-Identifier: BSD-3-Clause */
#include "solvable.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>

#include "factors.h"
#include "real_product.h"

/* Whole numbers have a diagonal by which they can be divided. */
static double complex whole_diagonal(bool is_complex, uint64_t *rng) {
  static const double powers[] = {1, -1, 2, 0.5, -0.25};
  const double x = powers[fuzz_below(rng, 5)];
  return is_complex && fuzz_one_in(rng, 4) ? CMPLX(0, x) : x;
}

/* Away from 0, but among special values, where it may be 0 or NaN. Never Inf: quotients by that are many things. */
static double complex diagonal(const struct fuzz_level3 *call, double complex x, uint64_t *rng) {
  const bool special = call->values == FUZZ_SPECIAL, is_complex = tst_parts(call->type) == 2;
  double re = creal(x), im = is_complex && isfinite(cimag(x)) ? cimag(x) : 0;
  if (call->values == FUZZ_INTEGERS) return whole_diagonal(is_complex, rng);
  if (special && isnan(re)) return CMPLX(re, im);
  if (special && fuzz_one_in(rng, 100)) return 0;
  if (isinf(re)) re = 0;
  if (call->grows) return CMPLX(re < 0 ? re / 2 - 0.5 : re / 2 + 0.5, im);
  return CMPLX(re < 0 ? re - 1 : re + 1, im);
}

/* Powers of two for rows and columns; those of a unit diagonal undo each other there. */
static int grade(const struct fuzz_level3 *call, const struct fuzz_matrix *a, int64_t i, int64_t j) {
  const int most = tst_is_double(call->type) ? 100 : 8;
  const int row = (int)(i * 7919 % (2 * most + 1)) - most,
            column = (int)(j * (a->unit ? 7919 : 104729) % (2 * most + 1)) - most;
  return call->values != FUZZ_WIDE ? 0 : a->unit ? row - column : row + column;
}

static double complex scaled(double complex x, int exponent, double by) {
  return CMPLX(ldexp(creal(x) * by, exponent), ldexp(cimag(x) * by, exponent));
}

void fuzz_make_solvable(const struct fuzz_level3 *call, const struct fuzz_matrix *a, uint64_t *rng) {
  const bool small = !call->grows && call->values != FUZZ_INTEGERS;
  const double beside = small && a->rows > 0 ? 1 / (double)a->rows : 1;
  char *const image = a->block->image;
  for (int64_t i = 0; i < a->rows; i++)
    for (int64_t j = 0; j < a->columns; j++) {
      if (!fuzz_is_stored(a, i, j)) continue;
      const double complex x = fuzz_read(call, a, image, i, j), y = i == j ? diagonal(call, x, rng) : x;
      fuzz_write(call, a, image, i, j, scaled(y, grade(call, a, i, j), i == j ? 1 : beside));
    }
}

bool fuzz_is_exact_solve(const struct fuzz_level3 *call, const struct fuzz_product *p) {
  return call->shape == FUZZ_TRSM && call->values == FUZZ_INTEGERS && p->alpha != 0 && isfinite(creal(p->alpha)) &&
         isfinite(cimag(p->alpha));
}

void fuzz_make_right_hand_side(const struct fuzz_level3 *call, const struct fuzz_product *p) {
  struct fuzz_real real;
  const struct fuzz_matrix *const x = &p->x[FUZZ_C];
  const int parts = tst_parts(call->type);
  fuzz_factors(&real, call, p, x->block->image);
  fuzz_real_sums(&real, false);
  for (int64_t j = 0; j < p->n; j++)
    for (int64_t i = 0; i < p->m; i++) {
      const double *const sum = real.sum + j * real.left.sides + i * parts;
      fuzz_write(call, x, x->block->image, i, j, CMPLX(sum[0], parts == 2 ? sum[1] : 0) / p->alpha);
    }
}
