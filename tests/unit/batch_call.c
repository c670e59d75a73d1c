/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "batch_call.h"

#include <complex.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rng.h"

enum { OPERAND_A, OPERAND_B, OPERAND_C };

int64_t batch_bytes(enum tst_type type) { return tst_parts(type) * tst_part_bytes(type); }

/* ---- shapes in memory ---- */

/* Rows and columns of a column-major call; a row-major one has them exchanged. */
static void stored(const struct batch_call *call, const struct batch_group *g, int operand, int64_t *lines,
                   int64_t *length) {
  const int64_t rows = operand == OPERAND_B ? g->k : g->m, columns = operand == OPERAND_A ? g->k : g->n;
  const bool transposed = operand == OPERAND_A ? g->ta != 0 : operand == OPERAND_B && g->tb != 0;
  *length = transposed != call->row_major ? columns : rows;
  *lines = transposed != call->row_major ? rows : columns;
}

int64_t batch_ld(const struct batch_call *call, const struct batch_group *g, int operand) {
  int64_t lines, length;
  stored(call, g, operand, &lines, &length);
  return (length > 0 ? length : 1) + g->pad;
}

int64_t batch_stored_elems(const struct batch_call *call, const struct batch_group *g, int operand) {
  int64_t lines, length;
  stored(call, g, operand, &lines, &length);
  return lines * batch_ld(call, g, operand) + 1; /* the end of malloc's memory is the end of the padding */
}

/* ---- making ---- */

static char *random_matrix(const struct batch_call *call, int64_t elems, uint64_t *seed) {
  const enum tst_type type = call->type;
  char *const memory = malloc((size_t)(elems * batch_bytes(type)));
  for (int64_t i = 0; i < elems * tst_parts(type); i++) {
    const double unit = (double)(tst_random(seed) >> 11) * 0x1p-52 - 1, x = call->whole ? (int)(8 * unit) : unit;
    if (tst_is_double(type))
      ((double *)memory)[i] = x;
    else
      ((float *)memory)[i] = (float)x;
  }
  return memory;
}

static void *symbol_address(const char *name) {
  void *const address = dlsym(RTLD_DEFAULT, name);
  if (address) return address;
  printf("no symbol %s\n", name);
  exit(1);
}

static void call_alone(const struct batch_call *call, const struct batch_group *g, const char *a, const char *b,
                       void *c) {
  char name[32];
  snprintf(name, sizeof name, "cblas_%cgemm", "sdcz"[call->type]);
  const struct tst_problem p = {.row_major = call->row_major,
                                .trans_a = "NTC"[g->ta],
                                .trans_b = "NTC"[g->tb],
                                .m = g->m,
                                .n = g->n,
                                .k = g->k,
                                .alpha = CMPLX(g->alpha[0], g->alpha[1]),
                                .lda = batch_ld(call, g, OPERAND_A),
                                .ldb = batch_ld(call, g, OPERAND_B),
                                .beta = CMPLX(g->beta[0], g->beta[1]),
                                .ldc = batch_ld(call, g, OPERAND_C)};
  tst_call(tst_find_symbol(name), symbol_address(name), &p, a, b, c);
}

static void make_product(const struct batch_call *call, const struct batch_group *g, struct batch_matrices *x,
                         const struct batch_matrices *first, uint64_t *seed) {
  const int64_t c_elems = batch_stored_elems(call, g, OPERAND_C);
  x->a = call->layout == BATCH_SHARED_A && first != x
             ? first->a
             : random_matrix(call, batch_stored_elems(call, g, OPERAND_A), seed);
  x->b = random_matrix(call, batch_stored_elems(call, g, OPERAND_B), seed);
  x->c = random_matrix(call, c_elems, seed);
  x->c_bytes = (size_t)(c_elems * batch_bytes(call->type));
  x->expected = malloc(x->c_bytes);
  memcpy(x->expected, x->c, x->c_bytes);
  call_alone(call, g, x->a, x->b, x->expected);
}

void batch_create(struct batch_call *call, uint64_t seed) {
  call->products = 0;
  for (int i = 0; i < call->groups; i++) call->products += call->group[i].count;
  call->matrices = calloc((size_t)call->products + 1, sizeof *call->matrices);
  struct batch_matrices *next = call->matrices;
  for (int i = 0; i < call->groups; i++) {
    const struct batch_matrices *const first = next;
    for (int64_t j = 0; j < call->group[i].count; j++, next++) make_product(call, &call->group[i], next, first, &seed);
  }
}

void batch_destroy(struct batch_call *call) {
  for (int64_t i = 0; i < call->products; i++) {
    struct batch_matrices *const x = &call->matrices[i];
    if (i == 0 || x->a != call->matrices[i - 1].a) free(x->a);
    free(x->b);
    free(x->c);
    free(x->expected);
  }
  free(call->matrices);
}

bool batch_is_right(const struct batch_call *call) {
  for (int64_t i = 0; i < call->products; i++) {
    const struct batch_matrices *const x = &call->matrices[i];
    if (memcmp(x->c, x->expected, x->c_bytes) == 0) continue;
    size_t at = 0;
    while (x->c[at] == x->expected[at]) at++;
    printf("product %lld of %lld differs at byte %zu of %zu\n", (long long)i, (long long)call->products, at,
           x->c_bytes);
    return false;
  }
  return true;
}

/* ---- calling ---- */

/* The arguments as arrays, of either width. */
struct arrays {
  int trans[2][64];
  char letters[2][64];
  int64_t wide[7][64]; /* m, n, k, lda, ldb, ldc, sizes */
  int32_t narrow[7][64];
  double d[2][128]; /* alpha, beta, of whichever type */
  float s[2][128];
};

static void fill_scalars(const struct batch_call *call, struct arrays *x, int i) {
  const struct batch_group *const g = &call->group[i];
  const int parts = tst_parts(call->type);
  for (int p = 0; p < parts; p++) {
    x->d[0][i * parts + p] = g->alpha[p], x->d[1][i * parts + p] = g->beta[p];
    x->s[0][i * parts + p] = (float)g->alpha[p], x->s[1][i * parts + p] = (float)g->beta[p];
  }
}

static void fill(const struct batch_call *call, struct arrays *x) {
  for (int i = 0; i < call->groups; i++) {
    const struct batch_group *const g = &call->group[i];
    const int64_t all[7] = {
        g->m,    g->n, g->k, batch_ld(call, g, OPERAND_A), batch_ld(call, g, OPERAND_B), batch_ld(call, g, OPERAND_C),
        g->count};
    for (int w = 0; w < 7; w++) x->wide[w][i] = all[w], x->narrow[w][i] = (int32_t)all[w];
    x->trans[0][i] = 111 + g->ta, x->trans[1][i] = 111 + g->tb;
    x->letters[0][i] = "NTC"[g->ta], x -> letters[1][i] = "ntc"[g->tb];
    fill_scalars(call, x, i);
  }
}

static bool is_wide(const char *symbol) { return strstr(symbol, "64") != NULL; }
static bool is_cblas(const char *symbol) { return strstr(symbol, "cblas_") != NULL; }

static const void *scalars(const struct batch_call *call, const struct arrays *x, int which) {
  return tst_is_double(call->type) ? (const void *)x->d[which] : (const void *)x->s[which];
}

static const void *integers(const struct arrays *x, bool wide, int which) {
  return wide ? (const void *)x->wide[which] : (const void *)x->narrow[which];
}

/* With 64 bits, of which a function of 32 looks at the lower half: the upper one is none of the number. */
static int64_t passed(int64_t x, bool wide) {
  return wide ? x : (int64_t)((uint64_t)x & UINT32_MAX) | (int64_t)0x5a5a5a5a << 32;
}

#define ARRAYS(a, b, c)                                                                                                \
  integers(&x, wide, 0), integers(&x, wide, 1), integers(&x, wide, 2), scalars(call, &x, 0), a, integers(&x, wide, 3), \
      b, integers(&x, wide, 4), scalars(call, &x, 1), c, integers(&x, wide, 5)
typedef const void *at;

void batch_run(const struct batch_call *call, const char *symbol) {
  static _Thread_local struct arrays x;
  const bool wide = is_wide(symbol);
  void *const function = symbol_address(symbol);
  const void **addresses[3];
  const int64_t groups = call->groups;
  const int32_t narrow_groups = call->groups;
  fill(call, &x);
  for (int o = 0; o < 3; o++) {
    addresses[o] = malloc(((size_t)call->products + 1) * sizeof(void *));
    for (int64_t i = 0; i < call->products; i++) {
      const struct batch_matrices *const m = &call->matrices[i];
      addresses[o][i] = call->device[o] ? call->device[o][i] : o == 0 ? m->a : o == 1 ? m->b : m->c;
    }
  }
  if (is_cblas(symbol))
    ((void (*)(int, at, at, at, at, at, at, at, at, at, at, at, at, at, int64_t, at))function)(
        call->row_major ? 101 : 102, x.trans[0], x.trans[1], ARRAYS(addresses[0], addresses[1], addresses[2]),
        passed(groups, wide), integers(&x, wide, 6));
  else
    ((void (*)(at, at, at, at, at, at, at, at, at, at, at, at, at, at, at))function)(
        x.letters[0], x.letters[1], ARRAYS(addresses[0], addresses[1], addresses[2]),
        wide ? (at)&groups : (at)&narrow_groups, integers(&x, wide, 6));
  for (int o = 0; o < 3; o++) free(addresses[o]);
}

/* ---- a stride apart ---- */

/* One of the call's operands, all products'. */
static char *together(const struct batch_call *call, int operand, int64_t stride) {
  const size_t bytes = (size_t)(batch_stored_elems(call, call->group, operand) * batch_bytes(call->type));
  const int64_t step = stride * batch_bytes(call->type);
  char *const memory = malloc((size_t)((call->products - 1) * step) + bytes);
  memset(memory, 0x7f, (size_t)((call->products - 1) * step) + bytes);
  for (int64_t i = 0; i < call->products; i++) {
    const struct batch_matrices *const m = &call->matrices[i];
    memcpy(memory + i * step, operand == 0 ? m->a : operand == 1 ? m->b : m->c, bytes);
  }
  return memory;
}

#define STRIDED_CBLAS(scalar, alpha, beta)                                                                         \
  ((void (*)(int, int, int, int64_t, int64_t, int64_t, scalar, at, int64_t, int64_t, at, int64_t, int64_t, scalar, \
             void *, int64_t, int64_t, int64_t))function)(                                                         \
      call->row_major ? 101 : 102, x.trans[0][0], x.trans[1][0], passed(g->m, wide), passed(g->n, wide),           \
      passed(g->k, wide), alpha, a, passed(x.wide[3][0], wide), passed(stride[0], wide), b,                        \
      passed(x.wide[4][0], wide), passed(stride[1], wide), beta, c, passed(x.wide[5][0], wide),                    \
      passed(stride[2], wide), passed(g->count, wide))

void batch_run_strided(const struct batch_call *call, const char *symbol, int64_t gap) {
  static _Thread_local struct arrays x;
  const struct batch_group *const g = call->group;
  void *const function = symbol_address(symbol);
  int64_t stride[3];
  for (int o = 0; o < 3; o++) stride[o] = batch_stored_elems(call, g, o) + gap;
  if (call->layout == BATCH_SHARED_A) stride[0] = 0;
  const int32_t narrow[3] = {(int32_t)stride[0], (int32_t)stride[1], (int32_t)stride[2]};
  const bool wide = is_wide(symbol);
  char *const a = together(call, 0, stride[0]), *const b = together(call, 1, stride[1]),
              *const c = together(call, 2, stride[2]);
  fill(call, &x);
  if (is_cblas(symbol) && call->type == TST_S)
    STRIDED_CBLAS(float, x.s[0][0], x.s[1][0]);
  else if (is_cblas(symbol) && call->type == TST_D)
    STRIDED_CBLAS(double, x.d[0][0], x.d[1][0]);
  else if (is_cblas(symbol))
    STRIDED_CBLAS(at, scalars(call, &x, 0), scalars(call, &x, 1));
  else
    ((void (*)(at, at, at, at, at, at, at, at, at, at, at, at, at, void *, at, at, at))function)(
        x.letters[0], x.letters[1], integers(&x, wide, 0), integers(&x, wide, 1), integers(&x, wide, 2),
        scalars(call, &x, 0), a, integers(&x, wide, 3), wide ? (at)&stride[0] : (at)&narrow[0], b,
        integers(&x, wide, 4), wide ? (at)&stride[1] : (at)&narrow[1], scalars(call, &x, 1), c, integers(&x, wide, 5),
        wide ? (at)&stride[2] : (at)&narrow[2], integers(&x, wide, 6));
  for (int64_t i = 0; i < call->products; i++)
    memcpy(call->matrices[i].c, c + i * stride[2] * batch_bytes(call->type), call->matrices[i].c_bytes);
  free(a);
  free(b);
  free(c);
}
