/* SPDX-License-Identifier: BSD-3-Clause */
#include "expected.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void dgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, double alpha, const double *a, int lda,
                      const double *b, int ldb, double beta, double *c, int ldc);
enum { COL_MAJOR = 102, NO_TRANS = 111, TRANS = 112 };
enum { EMULATED_K_MIN = 34 }; /* see expected.h */

static dgemm_fn *dgemm;
static struct fuzz_compared compared;
static char message[256];

struct fuzz_compared fuzz_compared(void) {
  return compared;
}

void fuzz_expected_begin(void) {
  void *openblas = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  void *symbol = openblas ? dlsym(openblas, "cblas_dgemm") : NULL;
  if (!symbol) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  memcpy(&dgemm, &symbol, sizeof symbol);
}

/* Memory that grows and stays. */
struct room {
  double *at;
  size_t size;
};

static double *at_least(struct room *room, int64_t elements) {
  const size_t size = (size_t)elements + 1;
  if (size > room->size) {
    free(room->at);
    room->at = malloc(size * sizeof *room->at);
    if (!room->at) abort();
    room->size = size;
  }
  return room->at;
}

/* ---- the product as stored: lines of C are columns, those of a row-major C by the transposed product ---- */

/* An operand in fp64, its lines dense, and the largest of each row or column that meets a line or element of C. */
struct factor {
  int64_t len, lines, sides, k;
  bool along_k; /* lines run along k */
  double *wide, *largest;
};

static struct room wide_rooms[2], largest_rooms[2], value_room, size_room;

static void widen(struct factor *f, const float *image, int64_t ld, int which) {
  f->wide = at_least(&wide_rooms[which], f->len * f->lines);
  f->largest = at_least(&largest_rooms[which], f->sides);
  for (int64_t side = 0; side < f->sides; side++) f->largest[side] = 0;
  for (int64_t line = 0; line < f->lines; line++)
    for (int64_t i = 0; i < f->len; i++) {
      const double x = image[line * ld + i];
      double *most = &f->largest[f->along_k ? line : i];
      f->wide[line * f->len + i] = x;
      if (fabs(x) > *most) *most = fabs(x);
    }
}

static void make_absolute(struct factor *f) {
  for (int64_t i = 0; i < f->len * f->lines; i++) f->wide[i] = fabs(f->wide[i]);
}

static int ld_of(const struct factor *f) { return f->len > 0 ? (int)f->len : 1; }

/* rows x columns, dense. `left` gives the rows. */
static void multiply(const struct factor *left, const struct factor *right, double *c) {
  if (left->sides == 0 || right->sides == 0) return;
  memset(c, 0, (size_t)(left->sides * right->sides) * sizeof *c);
  if (left->k == 0) return;
  dgemm(COL_MAJOR, left->along_k ? TRANS : NO_TRANS, right->along_k ? NO_TRANS : TRANS, (int)left->sides,
        (int)right->sides, (int)left->k, 1, left->wide, ld_of(left), right->wide, ld_of(right), 0, c, (int)left->sides);
}

/* ---- one element ---- */

struct bounds {
  double alpha, beta, gamma, underflow, fast_share, fast_step;
  bool exact, product; /* product: alpha and k are not 0 */
};

static double gamma_of(double n, double u) { return n * u / (1 - n * u); }

/* Larger whole numbers are more than one plane of fp16, of which precision fast leaves a product out. */
#define ONE_PLANE_MAX 2048

static bool is_exact(const struct fuzz_call *call, bool fast) {
  const bool one_plane = call->amplitude_a <= ONE_PLANE_MAX && call->amplitude_b <= ONE_PLANE_MAX;
  return call->values == FUZZ_INTEGERS && (one_plane || !fast);
}

static struct bounds bounds_of(const struct fuzz_call *call, const char *precision) {
  const struct tst_problem *p = &call->p;
  const bool fast = strcmp(precision, "fast") == 0, fma_only = strcmp(precision, "ieee") == 0;
  const double k = (double)p->k, chain = fma_only || k > EMULATED_K_MIN ? k : EMULATED_K_MIN;
  return (struct bounds){.alpha = p->alpha,
                         .beta = p->beta,
                         .gamma = gamma_of(chain + 3, 0x1p-24) + gamma_of(k + 3, 0x1p-53),
                         .underflow = 0x1p-149,
                         .fast_share = fast ? 0x1p-21 : 0,
                         .fast_step = fast ? k * 0x1p-39 : 0,
                         .exact = is_exact(call, fast),
                         .product = p->alpha != 0 && p->k != 0};
}

/* `sum` and `size` of the products, `most` the largest words' product. False: `got` is wrong. */
static bool agrees(const struct bounds *b, int64_t k, double sum, double size, double most, double c, double got,
                   double *value, double *bound) {
  const double scale = fabs(b->alpha);
  *value = *bound = 0;
  double magnitude = 0;
  if (b->product) {
    *value = b->alpha * sum;
    *bound = b->gamma * scale * size + ((double)k * scale + 1) * b->underflow;
    *bound += scale * (b->fast_share * size + b->fast_step * most);
    magnitude = scale * size + size;
  }
  if (b->beta != 0) {
    *value += b->beta * c;
    *bound += b->gamma * fabs(b->beta * c) + b->underflow;
    magnitude += fabs(b->beta * c);
  }
  if (b->exact) *bound = 0;
  if (isnan(*value)) return isnan(got);
  if (isinf(*value)) return got == *value;
  compared.overflowing += magnitude >= 0x1p127;
  return magnitude >= 0x1p127 || fabs(got - *value) <= *bound; /* false for a NaN */
}

/* ---- a call ---- */

struct factors {
  struct factor left, right;
  const double *sum, *size;
};

static void make_factors(struct factors *f, const struct fuzz_call *call, const struct fuzz_operands *x, bool exact) {
  const struct tst_problem *p = &call->p;
  const bool by_rows = p->row_major;
  struct factor a = {.len = call->len[0], .lines = call->lines[0], .sides = p->m, .k = p->k};
  struct factor b = {.len = call->len[1], .lines = call->lines[1], .sides = p->n, .k = p->k};
  a.along_k = by_rows != ((p->trans_a | 0x20) != 'n'); /* ASCII lower case */
  b.along_k = by_rows == ((p->trans_b | 0x20) != 'n');
  widen(&a, x->block[0]->image + x->at[0], p->lda, 0);
  widen(&b, x->block[1]->image + x->at[1], p->ldb, 1);
  f->left = by_rows ? b : a;
  f->right = by_rows ? a : b;
  double *sum = at_least(&value_room, p->m * p->n), *size = at_least(&size_room, p->m * p->n);
  multiply(&f->left, &f->right, sum);
  f->sum = f->size = sum; /* of words that are not negative */
  if (exact || call->values == FUZZ_POSITIVE) return;
  make_absolute(&f->left);
  make_absolute(&f->right);
  multiply(&f->left, &f->right, size);
  f->size = size;
}

/* Elements of C; each that is right is put back as it was, so that all bytes can be compared afterwards. */
static const char *verify_elements(const struct fuzz_call *call, const struct fuzz_operands *x, const char *precision) {
  const struct tst_problem *p = &call->p;
  const struct bounds bounds = bounds_of(call, precision);
  struct factors f;
  make_factors(&f, call, x, bounds.exact);
  for (int64_t line = 0; line < call->lines[2]; line++)
    for (int64_t i = 0; i < call->len[2]; i++) {
      const int64_t at = x->at[2] + line * p->ldc + i, dense = line * call->len[2] + i;
      float *got = &x->block[2]->after[at];
      const double c = x->block[2]->image[at], most = f.left.largest[i] * f.right.largest[line];
      double value, bound;
      if (!agrees(&bounds, p->k, f.sum[dense], f.size[dense], most, c, *got, &value, &bound)) {
        snprintf(message, sizeof message, "C(%lld,%lld) = %.9g, exact %.17g, error %.3g, bound %.3g",
                 (long long)(p->row_major ? line : i), (long long)(p->row_major ? i : line), (double)*got, value,
                 fabs(*got - value), bound);
        return message;
      }
      memcpy(got, &x->block[2]->image[at], sizeof *got);
    }
  compared.elements += (unsigned long long)(call->lines[2] * call->len[2]);
  return NULL;
}

const char *fuzz_verify(const struct fuzz_call *call, const struct fuzz_operands *x, const char *precision) {
  for (int i = 0; i < 3; i++)
    if (!fuzz_block_fetch(x->block[i])) return "an operand's memory cannot be read any more";
  const char *wrong = verify_elements(call, x, precision);
  for (int i = 0; i < 3 && !wrong; i++) {
    const uint32_t *before = (const uint32_t *)x->block[i]->image, *after = (const uint32_t *)x->block[i]->after;
    if (memcmp(before, after, x->block[i]->words * sizeof *before) == 0) continue;
    int64_t word = 0;
    while (before[word] == after[word]) word++;
    snprintf(message, sizeof message, "%c's block was written, %lld words from %c, to %08x", "ABC"[i],
             (long long)(word - x->at[i]), "ABC"[i], (unsigned)after[word]);
    wrong = message;
  }
  return wrong;
}
