/* SPDX-License-Identifier: BSD-3-Clause */
/* What a call of level3.h must have left, see bounds.h: every element that is written beside its sums, and every other
 * byte of every block as it was. */
#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bounds.h"

static char message[320];

void fuzz_level3_begin(void) { fuzz_real_begin(); }

struct fuzz_compared fuzz_level3_compared(void) {
  return fuzz_level3_count;
}

/* ---- one element of a product ---- */

struct expected {
  long double value[2], bound[2], magnitude[2];
  bool finite, uncertain; /* uncertain: what is not finite depends on the order */
  bool beta_is_nan;
};

static void add_product(struct expected *e, const struct fuzz_bounds *b, const struct fuzz_sums *sums,
                        double complex alpha, bool sharp) {
  long double size[2] = {0, 0};
  fuzz_add_scaled(e->value, size, alpha, sums->sum, sums->size);
  const double scale = fabs(creal(alpha)) + fabs(cimag(alpha));
  for (int part = 0; part < b->parts; part++) {
    e->bound[part] += ((sharp ? b->sharp_gamma : b->gamma) + b->fast_share) * size[part] + b->underflow +
                      scale * fuzz_fast_step(b, sums);
    e->magnitude[part] += size[part] + sums->size[part];
  }
}

static void add_kept(struct expected *e, const struct fuzz_bounds *b, double complex beta, double complex c) {
  const long double kept[2] = {creal(c), cimag(c)}, sizes[2] = {fabs(creal(c)), fabs(cimag(c))};
  long double size[2] = {0, 0};
  fuzz_add_scaled(e->value, size, beta, kept, sizes);
  for (int part = 0; part < b->parts; part++)
    e->bound[part] += b->gamma * size[part] + b->underflow, e->magnitude[part] += size[part];
}

static struct expected expect(const struct fuzz_level3 *call, const struct fuzz_product *p, const struct fuzz_bounds *b,
                              const struct fuzz_real *real, int64_t i, int64_t j, bool sharp) {
  const struct fuzz_matrix *const c = &p->x[FUZZ_C];
  struct expected e = {0};
  for (int again = 0; again < 1 + fuzz_is_of_rank_2k(call->shape) && fuzz_has_work(p); again++) {
    struct fuzz_sums sums = fuzz_sums_at(real, call, p, again ? j : i, again ? i : j, sharp);
    const bool turned = again && call->shape == FUZZ_HER2K;
    if (turned) sums.sum[1] = -sums.sum[1];
    add_product(&e, b, &sums, turned ? conj(p->alpha) : p->alpha, sharp);
    e.uncertain = e.uncertain || sums.skipped;
  }
  e.beta_is_nan = isnan(creal(p->beta)) || isnan(cimag(p->beta));
  if (p->beta != 0) {
    double complex kept = fuzz_read(call, c, c->block->image, i, j);
    if (c->real_diagonal && i == j) kept = creal(kept);
    add_kept(&e, b, p->beta, kept);
  }
  if (b->exact) e.bound[0] = e.bound[1] = 0;
  if (b->parts == 1 || (c->real_diagonal && i == j)) e.value[1] = e.bound[1] = 0;
  e.finite = isfinite(e.value[0]) && isfinite(e.value[1]);
  return e;
}

/* Of what is not finite; see bounds.h. */
static bool is_right_infinity(const struct fuzz_level3 *call, const struct expected *e, double complex got,
                              bool diagonal, bool by_cpu) {
  if (by_cpu && (e->uncertain || e->beta_is_nan)) return true;
  if (tst_parts(call->type) == 1) return isnan(e->value[0]) ? isnan(creal(got)) : creal(got) == e->value[0];
  if (diagonal) return cimag(got) == 0 && (call->shape == FUZZ_HER2K || !isfinite(creal(got)));
  return !isfinite(creal(got)) || !isfinite(cimag(got));
}

static bool element_is_right(const struct fuzz_level3 *call, const struct fuzz_product *p, const struct fuzz_bounds *b,
                             const struct expected *e, const char *after, bool by_cpu, int64_t i, int64_t j) {
  const struct fuzz_matrix *const c = &p->x[FUZZ_C];
  const double complex got = fuzz_read(call, c, (char *)after, i, j);
  const double parts[2] = {creal(got), cimag(got)};
  const bool diagonal = c->real_diagonal && i == j;
  fuzz_level3_count.parts += (unsigned)b->parts;
  if (!e->finite)
    return is_right_infinity(call, e, got, diagonal, by_cpu) ||
           fuzz_tell(message, sizeof message, "C", i, j, 0, parts[0], e->value[0], 0);
  if (e->uncertain && by_cpu) {
    fuzz_level3_count.overflowing += (unsigned)b->parts;
    return true;
  }
  for (int part = 0; part < b->parts; part++) {
    if (diagonal && part == 1 ? parts[1] == 0 : fabsl(parts[part] - e->value[part]) <= e->bound[part]) continue;
    if (e->magnitude[part] < b->overflow)
      return fuzz_tell(message, sizeof message, "C", i, j, part, parts[part], e->value[part], e->bound[part]);
    fuzz_level3_count.overflowing++;
  }
  return true;
}

/* ---- a call ---- */

static bool product_is_right(const struct fuzz_level3 *call, const struct fuzz_product *p,
                             const struct fuzz_asked *asked) {
  const struct fuzz_bounds bounds = fuzz_bounds_of(call, p, asked->precision);
  const struct fuzz_matrix *const c = &p->x[FUZZ_C];
  const int64_t step = fuzz_sharp_step(call, p);
  struct fuzz_real real;
  if (fuzz_has_work(p)) {
    fuzz_factors(&real, call, p, c->block->image);
    fuzz_real_sums(&real, !bounds.exact);
  }
  for (int64_t j = 0; j < p->n; j++)
    for (int64_t i = 0; i < p->m; i++) {
      if (!fuzz_is_stored(c, i, j)) continue;
      const bool sharp = step < INT64_MAX && (j * p->m + i) % step == 0;
      const struct expected e = expect(call, p, &bounds, &real, i, j, sharp);
      if (!element_is_right(call, p, &bounds, &e, c->block->after, asked->cpu != 0, i, j)) return false;
    }
  return true;
}

/* What is right is put back as it was, so that all bytes can be compared afterwards. */
static void put_back(const struct fuzz_level3 *call, const struct fuzz_matrix *c) {
  const int64_t bytes = tst_parts(call->type) * tst_part_bytes(call->type);
  for (int64_t j = 0; j < c->columns; j++)
    for (int64_t i = 0; i < c->rows; i++)
      if (fuzz_is_stored(c, i, j))
        memcpy(fuzz_element(call, c, c->block->after, i, j), fuzz_element(call, c, c->block->image, i, j),
               (size_t)bytes);
}

static bool leaves_all(const struct fuzz_level3 *call, const struct fuzz_product *p) {
  return !fuzz_is_triangular(call->shape) && p->beta == 1 && (p->alpha == 0 || p->k == 0);
}

static const char *wrong_byte(const struct fuzz_block *block, int which) {
  int64_t at = 0;
  if (memcmp(block->image, block->after, block->bytes) == 0) return NULL;
  while (block->image[at] == block->after[at]) at++;
  snprintf(message, sizeof message,
           "%c's block was written where nothing is the call's, %lld bytes from its start, to %02x", "ABC"[which],
           (long long)at, (unsigned char)block -> after[at]);
  return message;
}

const char *fuzz_level3_verify(const struct fuzz_level3 *call, const struct fuzz_asked *asked) {
  struct fuzz_block *used[FUZZ_SETS * 3];
  int which[FUZZ_SETS * 3];
  const int count = fuzz_level3_blocks(call, used, which);
  for (int i = 0; i < count; i++)
    if (!fuzz_block_fetch(used[i])) return "an operand's memory cannot be read any more";
  for (int i = 0; i < call->products; i++) {
    const struct fuzz_product *const p = &call->product[i];
    const struct fuzz_matrix *const c = &p->x[FUZZ_C];
    if (leaves_all(call, p)) continue;
    const char *const wrong = call->shape == FUZZ_TRSM           ? fuzz_solved(call, p, c->block->after, asked)
                              : product_is_right(call, p, asked) ? NULL
                                                                 : message;
    if (wrong) return wrong;
    put_back(call, c);
  }
  for (int i = 0; i < count; i++) {
    const char *const wrong = wrong_byte(used[i], which[i]);
    if (wrong) return wrong;
  }
  return NULL;
}
