/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "abi.h"

#include <assert.h>
#include <complex.h>
#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME(type, abi, name) {name, type, abi},
#define SPELLINGS(type, routine)                         \
  NAME(type, TST_CBLAS32, "cblas_" #routine)             \
  NAME(type, TST_FORTRAN32, #routine "_")                \
  NAME(type, TST_CBLAS64, "cblas_" #routine "64_")       \
  NAME(type, TST_CBLAS64, "cblas_" #routine "_64")       \
  NAME(type, TST_FORTRAN64, #routine "_64_")             \
  NAME(type, TST_FORTRAN64, #routine "_64")              \
  NAME(type, TST_CBLAS32, "scipy_cblas_" #routine)       \
  NAME(type, TST_FORTRAN32, "scipy_" #routine "_")       \
  NAME(type, TST_CBLAS64, "scipy_cblas_" #routine "64_") \
  NAME(type, TST_FORTRAN64, "scipy_" #routine "_64_")

const struct tst_symbol tst_symbols[] = {SPELLINGS(TST_S, sgemm) SPELLINGS(TST_D, dgemm) SPELLINGS(
    TST_C, cgemm) SPELLINGS(TST_Z, zgemm) SPELLINGS(TST_C, cgemm3m) SPELLINGS(TST_Z, zgemm3m)};
const size_t tst_symbol_count = sizeof tst_symbols / sizeof tst_symbols[0];
_Static_assert(sizeof tst_symbols / sizeof tst_symbols[0] % TST_SPELLINGS == 0, "as many names of each routine");

/* integer: int or int64_t; scalar: float, double, or for complex ones a pointer. */
#define CBLAS(integer, scalar)                                                                                \
  void (*)(int order, int trans_a, int trans_b, integer m, integer n, integer k, scalar alpha, const void *a, \
           integer lda, const void *b, integer ldb, scalar beta, void *c, integer ldc)

typedef void fortran_fn(const char *trans_a, const char *trans_b, const void *m, const void *n, const void *k,
                        const void *alpha, const void *a, const void *lda, const void *b, const void *ldb,
                        const void *beta, void *c, const void *ldc, size_t len_a, size_t len_b);

bool tst_is_fortran(const struct tst_symbol *symbol) {
  return symbol->abi == TST_FORTRAN32 || symbol->abi == TST_FORTRAN64;
}

bool tst_is_64bit(const struct tst_symbol *symbol) {
  return symbol->abi == TST_CBLAS64 || symbol->abi == TST_FORTRAN64;
}

bool tst_is_3m(const struct tst_symbol *symbol) { return strstr(symbol->name, "gemm3m") != NULL; }

const struct tst_symbol *tst_find_symbol(const char *name) {
  for (size_t i = 0; i < tst_symbol_count; i++)
    if (strcmp(tst_symbols[i].name, name) == 0) return &tst_symbols[i];
  fprintf(stderr, "no symbol %s in the tests' list\n", name);
  abort();
}

/* cblas.h's values. Anything that is no letter of a transpose goes through as the illegal value it is. */
static int cblas_order(const struct tst_problem *p) { return p->row_major ? 101 : 102; }

static int cblas_transpose(char letter) {
  switch (letter) {
    case 'N':
      return 111;
    case 'T':
      return 112;
    case 'C':
      return 113;
    default:
      return letter;
  }
}

union scalar {
  float s, c[2];
  double d, z[2];
};

static union scalar scalar_of(enum tst_type type, double complex x) {
  if (tst_is_double(type)) return (union scalar){.z = {creal(x), cimag(x)}};
  return (union scalar){.c = {(float)creal(x), (float)cimag(x)}};
}

static void call_cblas(const struct tst_symbol *symbol, void *function, const struct tst_problem *p, const void *a,
                       const void *b, void *c) {
  const int order = cblas_order(p), ta = cblas_transpose(p->trans_a), tb = cblas_transpose(p->trans_b);
  const union scalar alpha = scalar_of(symbol->type, p->alpha), beta = scalar_of(symbol->type, p->beta);
#define CALL(integer, scalar, alpha, beta)                                                                 \
  ((CBLAS(integer, scalar))function)(order, ta, tb, (integer)p->m, (integer)p->n, (integer)p->k, alpha, a, \
                                     (integer)p->lda, b, (integer)p->ldb, beta, c, (integer)p->ldc)
  const bool wide = tst_is_64bit(symbol);
  if (tst_parts(symbol->type) == 2)
    wide ? CALL(int64_t, const void *, &alpha, &beta) : CALL(int, const void *, &alpha, &beta);
  else if (symbol->type == TST_D)
    wide ? CALL(int64_t, double, alpha.d, beta.d) : CALL(int, double, alpha.d, beta.d);
  else
    wide ? CALL(int64_t, float, alpha.s, beta.s) : CALL(int, float, alpha.s, beta.s);
#undef CALL
}

static void call_fortran(const struct tst_symbol *symbol, void *function, const struct tst_problem *p, const void *a,
                         const void *b, void *c) {
  const int64_t wide[6] = {p->m, p->n, p->k, p->lda, p->ldb, p->ldc};
  const union scalar alpha = scalar_of(symbol->type, p->alpha), beta = scalar_of(symbol->type, p->beta);
  int narrow[6];
  const void *at[6];
  for (int i = 0; i < 6; i++) {
    narrow[i] = (int)wide[i];
    at[i] = tst_is_64bit(symbol) ? (const void *)&wide[i] : (const void *)&narrow[i];
  }
  ((fortran_fn *)function)(&p->trans_a, &p->trans_b, at[0], at[1], at[2], &alpha, a, at[3], b, at[4], &beta, c, at[5],
                           1, 1);
}

void tst_call(const struct tst_symbol *symbol, void *function, const struct tst_problem *p, const void *a,
              const void *b, void *c) {
  assert(!(p->row_major && tst_is_fortran(symbol)));
  if (tst_is_fortran(symbol))
    call_fortran(symbol, function, p, a, b, c);
  else
    call_cblas(symbol, function, p, a, b, c);
}

void *tst_resolve(const struct tst_symbol *symbol) {
  void *function = dlsym(RTLD_DEFAULT, symbol->name);
  if (!function) {
    fprintf(stderr, "%s: %s\n", symbol->name, dlerror());
    abort();
  }
  return function;
}
