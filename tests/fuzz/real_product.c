/* SPDX-License-Identifier: BSD-3-Clause */
#include "real_product.h"

#include <complex.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void dgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, double alpha, const double *a, int lda,
                      const double *b, int ldb, double beta, double *c, int ldc);
enum { COL_MAJOR = 102, NO_TRANS = 111, TRANS = 112 };

static dgemm_fn *dgemm;

void fuzz_real_begin(void) {
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

static struct room wide_rooms[2], largest_rooms[2], other_rooms[2], sum_room, size_room, scaled_room;

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

/* ---- factors ---- */

/* An operand as it lies in its image. */
struct source {
  const char *image;
  int64_t len, lines, ld;
  enum tst_type type;
  bool along_k; /* lines run along k */
  bool conjugate;
};

static void put_real(struct fuzz_factor *f, const struct source *s) {
  for (int64_t line = 0; line < s->lines; line++)
    for (int64_t i = 0; i < s->len; i++) {
      const int64_t side = s->along_k ? line : i, l = s->along_k ? i : line, from = line * s->ld + i;
      f->wide[side * f->k + l] =
          tst_is_double(s->type) ? ((const double *)s->image)[from] : (double)((const float *)s->image)[from];
    }
}

/* Two sides for each of the left factor's, two numbers for each k. */
static void put_complex(struct fuzz_factor *f, const struct source *s, bool left) {
  for (int64_t line = 0; line < s->lines; line++)
    for (int64_t i = 0; i < s->len; i++) {
      const int64_t side = s->along_k ? line : i, l = s->along_k ? i : line, from = 2 * (line * s->ld + i);
      const double *const d = (const double *)s->image + from;
      const float *const c = (const float *)s->image + from;
      const double re = s->type == TST_Z ? d[0] : (double)c[0], stored = s->type == TST_Z ? d[1] : (double)c[1];
      const double im = s->conjugate ? -stored : stored;
      double *const to = f->wide + (left ? 2 : 1) * side * f->k + 2 * l;
      to[0] = re;
      to[1] = left ? -im : im;
      if (left) to[f->k] = im, to[f->k + 1] = re;
    }
}

static void find_largest(struct fuzz_factor *f) {
  for (int64_t side = 0; side < f->sides; side++) {
    double most = 0;
    for (int64_t l = 0; l < f->k; l++)
      if (fabs(f->wide[side * f->k + l]) > most) most = fabs(f->wide[side * f->k + l]);
    f->largest[side] = most;
  }
}

/* Operand `which`, A or B, as the left or the right factor. */
static struct fuzz_factor make_factor(const struct fuzz_call *call, const struct fuzz_operands *x, int which) {
  const struct tst_problem *p = &call->p;
  const bool left = p->row_major == (which == 1);
  const char letter = (char)((which == 0 ? p->trans_a : p->trans_b) | 0x20); /* ASCII lower case */
  const int parts = tst_parts(call->symbol->type);
  const struct source s = {.image = x->block[which]->image + x->at[which],
                           .len = call->len[which],
                           .lines = call->lines[which],
                           .ld = which == 0 ? p->lda : p->ldb,
                           .type = call->symbol->type,
                           .along_k = (p->row_major != (letter != 'n')) == (which == 0),
                           .conjugate = letter == 'c'};
  struct fuzz_factor f = {.sides = (which == 0 ? p->m : p->n) * (left ? parts : 1), .k = p->k * parts};
  f.wide = at_least(&wide_rooms[which], f.sides * f.k);
  f.largest = at_least(&largest_rooms[which], f.sides);
  if (parts == 2)
    put_complex(&f, &s, left);
  else
    put_real(&f, &s);
  find_largest(&f);
  return f;
}

struct fuzz_factor fuzz_factor_make(bool left, int parts, int64_t sides, int64_t k) {
  struct fuzz_factor f = {.sides = sides * (left ? parts : 1), .k = k * parts};
  f.wide = at_least(&wide_rooms[!left], f.sides * f.k);
  f.largest = at_least(&largest_rooms[!left], f.sides);
  return f;
}

void fuzz_factor_put(struct fuzz_factor *f, bool left, int parts, int64_t side, int64_t l, double complex x) {
  double *const to = f->wide + (left ? parts : 1) * side * f->k + parts * l;
  to[0] = creal(x);
  if (parts == 1) return;
  to[1] = left ? -cimag(x) : cimag(x);
  if (left) to[f->k] = cimag(x), to[f->k + 1] = creal(x);
}

void fuzz_factor_end(struct fuzz_factor *f) { find_largest(f); }

static struct fuzz_factor absolute(const struct fuzz_factor *f, int which) {
  struct fuzz_factor abs = *f;
  abs.wide = at_least(&other_rooms[which], f->sides * f->k);
  for (int64_t i = 0; i < f->sides * f->k; i++) abs.wide[i] = fabs(f->wide[i]);
  return abs;
}

/* The textbook's products of alpha and the elements of a left factor. */
static struct fuzz_factor times_alpha(const struct fuzz_factor *f, double complex alpha) {
  const double re = creal(alpha), im = cimag(alpha);
  struct fuzz_factor scaled = *f;
  scaled.wide = at_least(&other_rooms[0], f->sides * f->k);
  for (int64_t side = 0; side < f->sides; side += 2)
    for (int64_t l = 0; l < f->k; l += 2) {
      const double *const from = f->wide + side * f->k + l;
      double *const to = scaled.wide + side * f->k + l;
      to[0] = to[f->k + 1] = re * from[0] - im * from[f->k];
      to[f->k] = re * from[f->k] + im * from[0];
      to[1] = -to[f->k];
    }
  return scaled;
}

/* ---- products ---- */

static void multiply(const struct fuzz_factor *left, const struct fuzz_factor *right, double *c) {
  const int k = (int)left->k, ld = k > 0 ? k : 1;
  if (left->sides == 0 || right->sides == 0) return;
  memset(c, 0, (size_t)(left->sides * right->sides) * sizeof *c);
  if (k == 0) return;
  dgemm(COL_MAJOR, TRANS, NO_TRANS, (int)left->sides, (int)right->sides, k, 1, left->wide, ld, right->wide, ld, 0, c,
        (int)left->sides);
}

void fuzz_real_sums(struct fuzz_real *real, bool sizes) {
  const int64_t elements = real->left.sides * real->right.sides;
  double *const sum = at_least(&sum_room, elements);
  multiply(&real->left, &real->right, sum);
  real->sum = real->size = sum;
  real->scaled = NULL;
  if (!sizes) return;
  const struct fuzz_factor left = absolute(&real->left, 0), right = absolute(&real->right, 1);
  double *const size = at_least(&size_room, elements);
  multiply(&left, &right, size);
  real->size = size;
}

void fuzz_real_multiply(struct fuzz_real *real, const struct fuzz_call *call, const struct fuzz_operands *x,
                        bool sizes) {
  const struct fuzz_factor a = make_factor(call, x, 0), b = make_factor(call, x, 1);
  real->left = call->p.row_major ? b : a;
  real->right = call->p.row_major ? a : b;
  fuzz_real_sums(real, sizes);
  if (call->values == FUZZ_SPECIAL && cimag(call->p.alpha) != 0) {
    const struct fuzz_factor scaled = times_alpha(&real->left, call->p.alpha);
    double *const of_scaled = at_least(&scaled_room, a.sides * b.sides);
    multiply(&scaled, &real->right, of_scaled);
    real->scaled = of_scaled;
  }
}

long double fuzz_real_sharp(const struct fuzz_real *real, int64_t row, int64_t column) {
  const int64_t k = real->left.k;
  const double *const x = real->left.wide + row * k, *const y = real->right.wide + column * k;
  long double chain[3] = {0, 0, 0}; /* of which none waits for another */
  int64_t l = 0;
  for (; l + 3 <= k; l += 3)
    for (int i = 0; i < 3; i++) chain[i] += (long double)x[l + i] * y[l + i];
  for (; l < k; l++) chain[0] += (long double)x[l] * y[l];
  return chain[0] + chain[1] + chain[2];
}
