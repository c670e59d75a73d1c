/* SPDX-License-Identifier: BSD-3-Clause */
#include "expected.h"

#include <complex.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "real_product.h"

#define SHARP 4e6 /* products of parts, in long double: some hundredths of a second */

enum { EMULATED_K_MIN = 34 }; /* see expected.h */

static struct fuzz_compared compared;
static char message[320];

struct fuzz_compared fuzz_compared(void) {
  return compared;
}

void fuzz_expected_begin(void) { fuzz_real_begin(); }

/* ---- one part of an element ---- */

struct bounds {
  int parts;
  double alpha[2], beta[2];
  double gamma, reference_gamma, sharp_gamma; /* of the library, of dgemm, of long double */
  double terms, least, reference_least, fast_share, fast_step, overflow;
  bool exact, product; /* product: alpha and k are not 0 */
  bool thrice;         /* OpenBLAS's gemm3m answered */
};

static double gamma_of(double n, double u) { return n * u / (1 - n * u); }

/* Larger whole numbers are more than one plane of fp16, of which precision fast leaves a product out. */
#define ONE_PLANE_MAX 2048

static bool is_exact(const struct fuzz_call *call, bool fast) {
  const bool one_plane = call->amplitude[0] <= ONE_PLANE_MAX && call->amplitude[1] <= ONE_PLANE_MAX;
  return call->values == FUZZ_INTEGERS && (one_plane || !fast);
}

static struct bounds bounds_of(const struct fuzz_call *call, const char *precision, bool by_cpu) {
  const struct tst_problem *p = &call->p;
  const bool is_double = tst_is_double(call->symbol->type);
  const bool fast = !is_double && strcmp(precision, "fast") == 0, ieee = strcmp(precision, "ieee") == 0;
  const double terms = (double)(p->k * tst_parts(call->symbol->type));
  const double chain = is_double || ieee || terms > EMULATED_K_MIN ? terms : EMULATED_K_MIN;
  return (struct bounds){.parts = tst_parts(call->symbol->type),
                         .alpha = {creal(p->alpha), cimag(p->alpha)},
                         .beta = {creal(p->beta), cimag(p->beta)},
                         .gamma = gamma_of(chain + 3, is_double ? 0x1p-53 : 0x1p-24),
                         .reference_gamma = gamma_of(terms + 3, 0x1p-53),
                         .sharp_gamma = gamma_of(terms + 3, (double)LDBL_EPSILON / 2),
                         .terms = terms,
                         .least = is_double ? 0x1p-1074 : 0x1p-149,
                         .reference_least = 0x1p-1074,
                         .fast_share = fast ? 0x1p-21 : 0,
                         .fast_step = fast ? terms * 0x1p-39 : 0,
                         .overflow = is_double ? 0x1p1023 : 0x1p127,
                         .exact = is_exact(call, fast),
                         .product = p->alpha != 0 && p->k != 0,
                         .thrice = by_cpu && tst_is_3m(call->symbol)};
}

/* What there is of an element: sums of products, those with alpha in the left factor, sums of absolute values, what C
 * held, and the largest words' product of its row and column. */
struct element {
  long double sum[2];
  const double *scaled; /* or NULL */
  double size[2], c[2], most;
  bool sharp;
};

struct expectation {
  long double value;
  double bound, magnitude;
};

/* Of scalar times x, a part: the real, then the imaginary one. A scalar's part of 0 counts unless it is left out. */
static void add_scaled(struct expectation *e, int parts, int part, const double scalar[2], const long double x[2],
                       const double size[2], bool leave_out, double size_factor) {
  for (int i = 0; i < parts; i++) {
    const double factor = scalar[part ^ i];
    if (factor == 0 && leave_out) continue;
    e->value += (long double)(part == 0 && i == 1 ? -factor : factor) * x[i];
    e->bound += size_factor * fabs(factor) * size[i];
    e->magnitude += fabs(factor) * size[i];
  }
}

/* What arithmetic may do with Inf and NaN: leave out the parts of alpha, or of beta, that are 0; multiply by alpha
 * first.
 */
enum { ALPHA_OUT = 1, BETA_OUT = 2, ALPHA_FIRST = 4 };

static struct expectation expect(const struct bounds *b, const struct element *x, int part, int how) {
  struct expectation e = {0, 0, 0};
  const double scale = fabs(b->alpha[0]) + fabs(b->alpha[1]);
  const double gamma = b->gamma + (x->sharp ? b->sharp_gamma : b->reference_gamma);
  if (b->product) {
    if (how & ALPHA_FIRST)
      e.value += x->scaled[part];
    else
      add_scaled(&e, b->parts, part, b->alpha, x->sum, x->size, how & ALPHA_OUT, gamma + b->fast_share);
    e.bound += ((b->thrice ? 2 : 1) * b->terms * (scale + b->parts - 1) + 1) * b->least +
               b->terms * scale * b->reference_least;
    e.bound += scale * b->fast_step * x->most;
    e.magnitude += x->size[part];
  }
  if (b->beta[0] != 0 || b->beta[1] != 0) {
    const long double c[2] = {x->c[0], x->c[1]};
    const double size[2] = {fabs(x->c[0]), fabs(x->c[1])};
    add_scaled(&e, b->parts, part, b->beta, c, size, how & BETA_OUT, gamma);
    e.bound += b->parts * b->least;
  }
  if (b->exact) e.bound = 0;
  return e;
}

static bool agrees(const struct expectation *e, double overflow, double got) {
  if (isnan(e->value)) return isnan(got);
  if (isinf(e->value)) return got == e->value;
  return e->magnitude >= overflow || fabsl(got - e->value) <= e->bound; /* false for a NaN */
}

/* False: `got` is wrong. *e: what it should be. */
static bool is_right(const struct bounds *b, const struct element *x, int part, double got, struct expectation *e) {
  *e = expect(b, x, part, 0);
  compared.parts++;
  compared.overflowing += isfinite(e->value) && e->magnitude >= b->overflow;
  if (b->thrice && b->product && !(isfinite(x->sum[0]) && isfinite(x->sum[1]))) return !isfinite(got);
  if (agrees(e, b->overflow, got)) return true;
  if (b->parts == 1 || isfinite(e->value)) return false;
  if (isnan(got)) return true;
  for (int how = 1; how < (x->scaled ? 2 * ALPHA_FIRST : ALPHA_FIRST); how++) {
    const struct expectation other = expect(b, x, part, how);
    if (agrees(&other, b->overflow, got)) return true;
  }
  return false;
}

/* ---- a call ---- */

static double read_part(enum tst_type type, const char *at, int part) {
  float s;
  double d;
  memcpy(&s, at + part * (int)sizeof s, sizeof s);
  if (!tst_is_double(type)) return s;
  memcpy(&d, at + part * (int)sizeof d, sizeof d);
  return d;
}

/* Of `i` in a line of C. */
static struct element element_at(const struct bounds *b, const struct fuzz_real *real, enum tst_type type,
                                 const char *c, int64_t line, int64_t i, bool sharp) {
  const int parts = b->parts;
  struct element x = {.most = real->left.largest[i * parts] * real->right.largest[line], .sharp = sharp};
  if (real->scaled) x.scaled = real->scaled + line * real->left.sides + i * parts;
  for (int part = 0; part < parts; part++) {
    const int64_t row = i * parts + part, at = line * real->left.sides + row;
    x.sum[part] = sharp ? fuzz_real_sharp(real, row, line) : (long double)real->sum[at];
    x.size[part] = real->size[at];
    x.c[part] = read_part(type, c, part);
  }
  if (b->thrice) x.size[0] = x.size[1] = 2 * (x.size[0] + x.size[1]);
  return x;
}

static bool tell(const struct fuzz_call *call, int64_t line, int64_t i, int part, double got,
                 const struct expectation *e) {
  const bool by_rows = call->p.row_major;
  snprintf(message, sizeof message, "%sC(%lld,%lld) = %.17g, exact %.21Lg, error %.3Lg, bound %.3g",
           tst_parts(call->symbol->type) == 1 ? ""
           : part                             ? "imaginary part of "
                                              : "real part of ",
           (long long)(by_rows ? line : i), (long long)(by_rows ? i : line), got, e->value, fabsl(got - e->value),
           e->bound);
  return false;
}

/* Elements of C; each that is right is put back as it was, so that all bytes can be compared afterwards. */
static bool elements_are_right(const struct fuzz_call *call, const struct fuzz_operands *x, const char *precision,
                               bool by_cpu) {
  const enum tst_type type = call->symbol->type;
  const struct bounds bounds = bounds_of(call, precision, by_cpu);
  const int64_t len = call->len[2], lines = call->lines[2], bytes = tst_parts(type) * tst_part_bytes(type);
  struct fuzz_real real;
  fuzz_real_multiply(&real, call, x, !bounds.exact);
  const double all = (double)(len * lines) * bounds.terms * bounds.parts;
  const int64_t step = tst_is_double(type) ? 1 + (int64_t)(all / SHARP) : INT64_MAX;
  for (int64_t line = 0; line < lines; line++)
    for (int64_t i = 0; i < len; i++) {
      const int64_t at = x->at[2] + (line * call->p.ldc + i) * bytes;
      const char *const before = x->block[2]->image + at;
      char *const after = x->block[2]->after + at;
      const bool sharp = step < INT64_MAX && (line * len + i) % step == 0;
      const struct element e = element_at(&bounds, &real, type, before, line, i, sharp);
      for (int part = 0; part < bounds.parts; part++) {
        struct expectation expectation;
        const double got = read_part(type, after, part);
        if (!is_right(&bounds, &e, part, got, &expectation)) return tell(call, line, i, part, got, &expectation);
      }
      memcpy(after, before, (size_t)bytes);
    }
  return true;
}

const char *fuzz_verify(const struct fuzz_call *call, const struct fuzz_operands *x, const char *precision,
                        bool by_cpu) {
  for (int i = 0; i < 3; i++)
    if (!fuzz_block_fetch(x->block[i])) return "an operand's memory cannot be read any more";
  if (!elements_are_right(call, x, precision, by_cpu)) return message;
  for (int i = 0; i < 3; i++) {
    const char *before = x->block[i]->image, *after = x->block[i]->after;
    if (memcmp(before, after, x->block[i]->bytes) == 0) continue;
    int64_t at = 0;
    while (before[at] == after[at]) at++;
    snprintf(message, sizeof message, "%c's block was written, %lld bytes from %c, to %02x", "ABC"[i],
             (long long)(at - x->at[i]), "ABC"[i], (unsigned char)after[at]);
    return message;
  }
  return NULL;
}
