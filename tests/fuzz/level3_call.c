/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of level3.h, as a program makes them. */
#define _GNU_SOURCE
#include <complex.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "../unit/sided_call.h"
#include "../unit/triangle_call.h"
#include "balanced.h"
#include "level3.h"

static void *memory_of(const struct fuzz_matrix *x) { return x->block ? x->block->memory + x->at : NULL; }

static void make_triangle(const struct fuzz_level3 *call) {
  const struct fuzz_product *const p = &call->product[0];
  struct tst_triangle_call made = {.row_major = call->row_major,
                                   .uplo = call->uplo,
                                   .ta = p->ta,
                                   .tb = p->tb,
                                   .n = p->n,
                                   .k = p->k,
                                   .lda = p->x[FUZZ_A].ld,
                                   .ldb = p->x[FUZZ_B].ld,
                                   .ldc = p->x[FUZZ_C].ld,
                                   .alpha = {creal(p->alpha), cimag(p->alpha)},
                                   .beta = {creal(p->beta), cimag(p->beta)}};
  tst_triangle_find(call->number, &made.name);
  tst_triangle_make_on(&made, memory_of(&p->x[FUZZ_A]), memory_of(&p->x[FUZZ_B]), memory_of(&p->x[FUZZ_C]));
}

static void make_sided(const struct fuzz_level3 *call) {
  const struct fuzz_product *const p = &call->product[0];
  struct tst_sided_call made = {.row_major = call->row_major,
                                .side = call->side,
                                .uplo = call->uplo,
                                .trans = p->ta,
                                .diag = call->diag,
                                .m = p->m,
                                .n = p->n,
                                .lda = p->x[FUZZ_A].ld,
                                .ldb = p->x[FUZZ_B].ld,
                                .ldc = p->x[FUZZ_C].ld,
                                .alpha = {creal(p->alpha), cimag(p->alpha)},
                                .beta = {creal(p->beta), cimag(p->beta)}};
  tst_sided_find(call->number, &made.name);
  tst_sided_make_on(&made, memory_of(&p->x[FUZZ_A]), memory_of(&p->x[FUZZ_B]), memory_of(&p->x[FUZZ_C]));
}

/* ---- batches ---- */

/* The arguments as arrays, of either width. m, n, k, lda, ldb, ldc, counts; and strides. */
enum { WIDTHS = 10 };
struct arrays {
  int trans[2][FUZZ_GROUPS];
  char letters[2][FUZZ_GROUPS];
  int64_t wide[WIDTHS][FUZZ_GROUPS];
  int32_t narrow[WIDTHS][FUZZ_GROUPS];
  double d[2][2 * FUZZ_GROUPS]; /* alpha, beta */
  float s[2][2 * FUZZ_GROUPS];
  const void *at[3][FUZZ_PRODUCTS];
};

static int said(char letter) { return letter == 'N' ? 111 : letter == 'T' ? 112 : 113; }

static void put_group(const struct fuzz_level3 *call, struct arrays *x, int group, const struct fuzz_product *p) {
  const double complex scalars[2] = {p->alpha, p->beta};
  const int64_t all[WIDTHS] = {p->m,
                               p->n,
                               p->k,
                               p->x[0].ld,
                               p->x[1].ld,
                               p->x[2].ld,
                               call->group_size[group],
                               call->stride[0],
                               call->stride[1],
                               call->stride[2]};
  const int parts = tst_parts(call->type);
  for (int i = 0; i < WIDTHS; i++) x->wide[i][group] = all[i], x->narrow[i][group] = (int32_t)all[i];
  x->letters[0][group] = p->ta, x->letters[1][group] = p->tb;
  x->trans[0][group] = said(p->ta), x->trans[1][group] = said(p->tb);
  for (int i = 0; i < 2; i++)
    for (int part = 0; part < parts; part++) {
      const double scalar = part ? cimag(scalars[i]) : creal(scalars[i]);
      x->d[i][group * parts + part] = scalar, x->s[i][group * parts + part] = (float)scalar;
    }
}

/* A group without products has the arguments of one that is empty. */
static void put_batch(const struct fuzz_level3 *call, struct arrays *x) {
  static const struct fuzz_product none = {.ta = 'N', .tb = 'N', .x = {{.ld = 1}, {.ld = 1}, {.ld = 1}}};
  int first = 0;
  for (int group = 0; group < call->groups; first += call->group_size[group++])
    put_group(call, x, group, call->group_size[group] ? &call->product[first] : &none);
  for (int i = 0; i < call->products; i++)
    for (int o = 0; o < 3; o++) x->at[o][i] = memory_of(&call->product[i].x[o]);
}

typedef const void *at;
#define INTEGERS(which) (call->wide ? (at)x.wide[which] : (at)x.narrow[which])
#define SCALARS(which) (tst_is_double(call->type) ? (at)x.d[which] : (at)x.s[which])
#define ARRAYS                                                                                                        \
  INTEGERS(0), INTEGERS(1), INTEGERS(2), SCALARS(0), x.at[0], INTEGERS(3), x.at[1], INTEGERS(4), SCALARS(1), x.at[2], \
      INTEGERS(5)

static void make_groups(const struct fuzz_level3 *call, void *function) {
  static struct arrays x;
  const int order = call->row_major ? 101 : 102;
  const int64_t groups = call->groups;
  const int32_t narrow_groups = call->groups;
  put_batch(call, &x);
  if (call->cblas && call->wide)
    ((void (*)(int, at, at, at, at, at, at, at, at, at, at, at, at, at, int64_t, at))function)(
        order, x.trans[0], x.trans[1], ARRAYS, groups, INTEGERS(6));
  else if (call->cblas)
    ((void (*)(int, at, at, at, at, at, at, at, at, at, at, at, at, at, int, at))function)(
        order, x.trans[0], x.trans[1], ARRAYS, narrow_groups, INTEGERS(6));
  else
    ((void (*)(at, at, at, at, at, at, at, at, at, at, at, at, at, at, at))function)(
        x.letters[0], x.letters[1], ARRAYS, call->wide ? (at)&groups : (at)&narrow_groups, INTEGERS(6));
}

#define STRIDED(integer, scalar, alpha, beta)                                                                          \
  ((void (*)(int, int, int, integer, integer, integer, scalar, at, integer, integer, at, integer, integer, scalar, at, \
             integer, integer, integer))function)(                                                                     \
      call->row_major ? 101 : 102, x.trans[0][0], x.trans[1][0], (integer)x.wide[0][0], (integer)x.wide[1][0],         \
      (integer)x.wide[2][0], alpha, x.at[0][0], (integer)x.wide[3][0], (integer)x.wide[7][0], x.at[1][0],              \
      (integer)x.wide[4][0], (integer)x.wide[8][0], beta, x.at[2][0], (integer)x.wide[5][0], (integer)x.wide[9][0],    \
      (integer)x.wide[6][0])
#define STRIDED_OF(integer)                                              \
  call->type == TST_S   ? STRIDED(integer, float, x.s[0][0], x.s[1][0])  \
  : call->type == TST_D ? STRIDED(integer, double, x.d[0][0], x.d[1][0]) \
                        : STRIDED(integer, at, SCALARS(0), SCALARS(1))

static void make_strided(const struct fuzz_level3 *call, void *function) {
  static struct arrays x;
  put_batch(call, &x);
  if (call->cblas && call->wide)
    STRIDED_OF(int64_t);
  else if (call->cblas)
    STRIDED_OF(int);
  else
    ((void (*)(at, at, at, at, at, at, at, at, at, at, at, at, at, at, at, at, at))function)(
        x.letters[0], x.letters[1], INTEGERS(0), INTEGERS(1), INTEGERS(2), SCALARS(0), x.at[0][0], INTEGERS(3),
        INTEGERS(7), x.at[1][0], INTEGERS(4), INTEGERS(8), SCALARS(1), x.at[2][0], INTEGERS(5), INTEGERS(9),
        INTEGERS(6));
}

/* ---- all of them ---- */

static void *resolve(const char *name) {
  void *const function = dlsym(RTLD_DEFAULT, name);
  if (function) return function;
  printf("FAILED: no symbol %s\n", name);
  exit(1);
}

static void make(void *context) {
  const struct fuzz_level3 *const call = context;
  if (call->shape == FUZZ_BATCH)
    make_groups(call, resolve(call->name));
  else if (call->shape == FUZZ_STRIDED)
    make_strided(call, resolve(call->name));
  else if (fuzz_has_side(call->shape))
    make_sided(call);
  else
    make_triangle(call);
}

void fuzz_level3_make(const struct fuzz_level3 *call) { tst_balanced(make, (void *)call); }
