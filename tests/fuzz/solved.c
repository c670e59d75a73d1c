/* SPDX-License-Identifier: BSD-3-Clause */
/* What a solve must have left: a residual within its bound, see bounds.h. */
#include <complex.h>
#include <math.h>
#include <stdlib.h>

#include "bounds.h"

static char solved_message[320];

struct solve {
  const struct fuzz_level3 *call;
  const struct fuzz_product *p;
  char *after;
  struct fuzz_bounds bounds;
  struct fuzz_real real;
  long double complex *solution; /* by substitution, of special values; or NULL */
  bool by_cpu;
};

/* ---- by substitution ---- */

/* op(A) as it is seen from the left. */
static long double complex seen(const struct solve *s, int64_t i, int64_t l) {
  const struct fuzz_matrix *const a = &s->p->x[FUZZ_A];
  return fuzz_is_left(s->call) ? fuzz_meant(s->call, a, s->p->ta, a->block->image, i, l)
                               : fuzz_meant(s->call, a, s->p->ta, a->block->image, l, i);
}

static void substitute(struct solve *s) {
  const struct fuzz_matrix *const b = &s->p->x[FUZZ_C];
  const bool left = fuzz_is_left(s->call), transposed = (fuzz_upper(s->p->ta) != 'N') != !left;
  const bool downward = s->p->x[FUZZ_A].upper == transposed;
  const int64_t order = s->p->k, sides = left ? s->p->n : s->p->m;
  s->solution = malloc(((size_t)(order * sides) + 1) * sizeof *s->solution);
  if (!s->solution) abort();
  for (int64_t side = 0; side < sides; side++) {
    long double complex *const x = s->solution + side * order;
    for (int64_t step = 0; step < order; step++) {
      const int64_t i = downward ? step : order - 1 - step;
      x[i] = fuzz_read(s->call, b, b->block->image, left ? i : side, left ? side : i);
      x[i] *= s->p->alpha;
      for (int64_t before = 0; before < step; before++) {
        const int64_t l = downward ? before : order - 1 - before;
        x[i] -= seen(s, i, l) * x[l];
      }
      if (!s->p->x[FUZZ_A].unit) x[i] /= seen(s, i, i);
    }
  }
}

static bool is_finite(long double complex x) { return isfinite(creall(x)) && isfinite(cimagl(x)); }

/* ---- elements ---- */

/* Whether the solution is no number here, and rightly so. */
static bool is_lost(const struct solve *s, int64_t i, int64_t j, double complex got, bool *wrong) {
  const double complex alpha = s->p->alpha;
  bool lost = isnan(creal(alpha)) || isnan(cimag(alpha));
  if (s->solution && !lost)
    lost = !is_finite(fuzz_is_left(s->call) ? s->solution[j * s->p->k + i] : s->solution[i * s->p->k + j]);
  const bool is_number = isfinite(creal(got)) && isfinite(cimag(got));
  *wrong = lost && !s->by_cpu && is_number;
  return lost || (s->solution && s->by_cpu && !is_number);
}

static bool is_right(const struct solve *s, int64_t i, int64_t j, bool sharp) {
  const struct fuzz_matrix *const x = &s->p->x[FUZZ_C];
  const double complex got = fuzz_read(s->call, x, s->after, i, j), b = fuzz_read(s->call, x, x->block->image, i, j);
  const double complex alpha = s->p->alpha;
  const long double parts[2] = {creal(b), cimag(b)}, sizes[2] = {fabs(creal(b)), fabs(cimag(b))};
  const double solution[2] = {creal(got), cimag(got)};
  long double want[2] = {0, 0}, size[2] = {0, 0};
  bool wrong;
  if (alpha == 0) return got == 0 || fuzz_tell(solved_message, sizeof solved_message, "X", i, j, 0, creal(got), 0, 0);
  fuzz_level3_count.parts += (unsigned)s->bounds.parts;
  if (is_lost(s, i, j, got, &wrong))
    return !wrong || fuzz_tell(solved_message, sizeof solved_message, "X", i, j, 0, creal(got), NAN, 0);
  const struct fuzz_sums sums = fuzz_sums_at(&s->real, s->call, s->p, i, j, sharp);
  fuzz_add_scaled(want, size, alpha, parts, sizes);
  for (int part = 0; part < s->bounds.parts; part++) {
    const long double all = sums.size[part] + size[part];
    const long double bound = s->bounds.exact ? 0
                                              : (sharp ? s->bounds.sharp_gamma : s->bounds.gamma) * all +
                                                    s->bounds.fast_share * sums.size[part] +
                                                    fuzz_fast_step(&s->bounds, &sums) + s->bounds.underflow * 8;
    if (s->call->grows && !(all < s->bounds.overflow && isfinite(solution[part]))) {
      fuzz_level3_count.overflowing++;
      continue;
    }
    if (fabsl(sums.sum[part] - want[part]) <= bound) continue;
    return fuzz_tell(solved_message, sizeof solved_message, "op(A) X", i, j, part, sums.sum[part], want[part], bound);
  }
  return true;
}

static bool all_are_right(const struct solve *s) {
  const int64_t step = fuzz_sharp_step(s->call, s->p);
  for (int64_t j = 0; j < s->p->n; j++)
    for (int64_t i = 0; i < s->p->m; i++)
      if (!is_right(s, i, j, step < INT64_MAX && (j * s->p->m + i) % step == 0)) return false;
  return true;
}

const char *fuzz_solved(const struct fuzz_level3 *call, const struct fuzz_product *p, char *after,
                        const struct fuzz_asked *asked) {
  struct solve s = {.call = call, .p = p, .after = after, .by_cpu = asked->cpu != 0};
  s.bounds = fuzz_bounds_of(call, p, asked->precision);
  if (p->alpha != 0) {
    fuzz_factors(&s.real, call, p, after);
    fuzz_real_sums(&s.real, !s.bounds.exact);
    if (call->values == FUZZ_SPECIAL) substitute(&s);
  }
  const bool right = all_are_right(&s);
  free(s.solution);
  return right ? NULL : solved_message;
}
