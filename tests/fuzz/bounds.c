/* SPDX-License-Identifier: BSD-3-Clause */
#include "bounds.h"

#include <complex.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "solvable.h"

#define SHARP 4e6             /* products of parts, in long double: some hundredths of a second */
#define ONE_PLANE_MAX 2048    /* larger whole numbers are more than one plane of fp16 */
enum { EMULATED_K_MIN = 34 }; /* see expected.h */
enum { MORE = 3, MORE_TWICE = 6, MORE_IN_STEPS = 80 };

struct fuzz_compared fuzz_level3_count;

static double gamma_of(double n, double u) { return n * u / (1 - n * u); }

static bool is_exact(const struct fuzz_level3 *call, const struct fuzz_product *p, bool fast) {
  const bool one_plane = call->amplitude[FUZZ_A] <= ONE_PLANE_MAX && call->amplitude[FUZZ_B] <= ONE_PLANE_MAX;
  if (call->values != FUZZ_INTEGERS || (fast && !one_plane)) return false;
  return call->shape != FUZZ_TRSM || fuzz_is_exact_solve(call, p);
}

struct fuzz_bounds fuzz_bounds_of(const struct fuzz_level3 *call, const struct fuzz_product *p, const char *precision) {
  const bool is_double = tst_is_double(call->type), twice = fuzz_is_of_rank_2k(call->shape);
  const bool fast = !is_double && strcmp(precision, "fast") == 0, ieee = strcmp(precision, "ieee") == 0;
  const double terms = (double)(p->k * tst_parts(call->type) * (twice ? 2 : 1));
  const double chain = is_double || ieee || terms > EMULATED_K_MIN ? terms : EMULATED_K_MIN;
  const double more = fuzz_is_triangular(call->shape) ? MORE_IN_STEPS : twice ? MORE_TWICE : MORE;
  const double gamma = gamma_of(chain + more, is_double ? 0x1p-53 : 0x1p-24);
  const double of_alpha = fuzz_has_work(p) ? fabs(creal(p->alpha)) + fabs(cimag(p->alpha)) : 0;
  const double scale = of_alpha + 1, least = is_double ? 0x1p-1074 : 0x1p-149;
  return (struct fuzz_bounds){.parts = tst_parts(call->type),
                              .gamma = gamma + gamma_of(terms + MORE, 0x1p-53),
                              .sharp_gamma = gamma + gamma_of(terms + MORE, (double)LDBL_EPSILON / 2),
                              .underflow = (2 * terms + 10) * scale * (least + 0x1p-1074),
                              .fast_share = fast ? 0x1p-21 : 0,
                              .fast_step = fast ? terms * 0x1p-39 : 0,
                              .overflow = is_double ? 0x1p1023 : 0x1p127,
                              .exact = is_exact(call, p, fast)};
}

int64_t fuzz_sharp_step(const struct fuzz_level3 *call, const struct fuzz_product *p) {
  const double parts = tst_parts(call->type), all = parts * parts * (double)p->m * (double)p->n * (double)p->k;
  return tst_is_double(call->type) ? 1 + (int64_t)(all / SHARP) : INT64_MAX;
}

/* ---- sums ---- */

/* Whether a triangle has a zero where term l of element (i, j) takes it from. */
static bool is_zero(const struct fuzz_level3 *call, const struct fuzz_product *p, int64_t i, int64_t j, int64_t l) {
  const bool transposed = fuzz_upper(p->ta) != 'N';
  const int64_t row = fuzz_is_left(call) ? i : l, column = fuzz_is_left(call) ? l : j;
  return row != column && !fuzz_is_stored(&p->x[FUZZ_A], transposed ? column : row, transposed ? row : column);
}

static void without_zeros(struct fuzz_sums *x, const struct fuzz_real *real, const struct fuzz_level3 *call,
                          const struct fuzz_product *p, int64_t i, int64_t j) {
  const int parts = tst_parts(call->type);
  x->skipped = true;
  for (int part = 0; part < parts; part++) {
    const double *const left = real->left.wide + (i * parts + part) * real->left.k;
    const double *const right = real->right.wide + j * real->right.k;
    x->sum[part] = x->size[part] = 0;
    for (int64_t l = 0; l < p->k * parts; l++) {
      if (is_zero(call, p, i, j, l / parts)) continue;
      x->sum[part] += (long double)left[l] * right[l];
      x->size[part] += fabsl((long double)left[l] * right[l]);
    }
  }
}

struct fuzz_sums fuzz_sums_at(const struct fuzz_real *real, const struct fuzz_level3 *call,
                              const struct fuzz_product *p, int64_t i, int64_t j, bool sharp) {
  const int parts = tst_parts(call->type);
  struct fuzz_sums x = {.most = real->left.largest[i * parts] * real->right.largest[j]};
  bool finite = true;
  for (int part = 0; part < parts; part++) {
    const int64_t row = i * parts + part, at = j * real->left.sides + row;
    x.sum[part] = sharp ? fuzz_real_sharp(real, row, j) : (long double)real->sum[at];
    x.size[part] = fabs(real->size[at]);
    finite = finite && isfinite(real->sum[at]);
  }
  if (!finite && fuzz_is_triangular(call->shape)) without_zeros(&x, real, call, p, i, j);
  return x;
}

void fuzz_add_scaled(long double value[2], long double size[2], double complex scalar, const long double x[2],
                     const long double sizes[2]) {
  const double re = creal(scalar), im = cimag(scalar);
  value[0] += (re != 0 ? re * x[0] : 0) - (im != 0 ? im * x[1] : 0);
  value[1] += (re != 0 ? re * x[1] : 0) + (im != 0 ? im * x[0] : 0);
  size[0] += (re != 0 ? fabs(re) * sizes[0] : 0) + (im != 0 ? fabs(im) * sizes[1] : 0);
  size[1] += (re != 0 ? fabs(re) * sizes[1] : 0) + (im != 0 ? fabs(im) * sizes[0] : 0);
}

bool fuzz_tell(char *message, size_t room, const char *what, int64_t i, int64_t j, int part, long double got,
               long double expected, long double bound) {
  snprintf(message, room, "%s part of %s(%lld,%lld) = %.17Lg, exact %.21Lg, error %.3Lg, bound %.3Lg",
           part ? "imaginary" : "real", what, (long long)i, (long long)j, got, expected, fabsl(got - expected), bound);
  return false;
}
