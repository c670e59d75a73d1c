/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "abi.h"

#include <assert.h>
#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct tst_symbol tst_symbols[] = {
    {"cblas_sgemm", TST_CBLAS32},       {"sgemm_", TST_FORTRAN32},       {"cblas_sgemm64_", TST_CBLAS64},
    {"cblas_sgemm_64", TST_CBLAS64},    {"sgemm_64_", TST_FORTRAN64},    {"sgemm_64", TST_FORTRAN64},
    {"scipy_cblas_sgemm", TST_CBLAS32}, {"scipy_sgemm_", TST_FORTRAN32}, {"scipy_cblas_sgemm64_", TST_CBLAS64},
    {"scipy_sgemm_64_", TST_FORTRAN64},
};
const size_t tst_symbol_count = sizeof tst_symbols / sizeof tst_symbols[0];

typedef void cblas32_fn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                        const float *b, int ldb, float beta, float *c, int ldc);
typedef void cblas64_fn(int order, int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha,
                        const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
typedef void fortran32_fn(const char *trans_a, const char *trans_b, const int *m, const int *n, const int *k,
                          const float *alpha, const float *a, const int *lda, const float *b, const int *ldb,
                          const float *beta, float *c, const int *ldc, size_t len_a, size_t len_b);
typedef void fortran64_fn(const char *trans_a, const char *trans_b, const int64_t *m, const int64_t *n,
                          const int64_t *k, const float *alpha, const float *a, const int64_t *lda, const float *b,
                          const int64_t *ldb, const float *beta, float *c, const int64_t *ldc, size_t len_a,
                          size_t len_b);

bool tst_is_fortran(const struct tst_symbol *symbol) {
  return symbol->abi == TST_FORTRAN32 || symbol->abi == TST_FORTRAN64;
}

bool tst_is_64bit(const struct tst_symbol *symbol) {
  return symbol->abi == TST_CBLAS64 || symbol->abi == TST_FORTRAN64;
}

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

void tst_call(const struct tst_symbol *symbol, void *function, const struct tst_problem *p, const float *a,
              const float *b, float *c) {
  int m = (int)p->m, n = (int)p->n, k = (int)p->k, lda = (int)p->lda, ldb = (int)p->ldb, ldc = (int)p->ldc;
  int ta = cblas_transpose(p->trans_a), tb = cblas_transpose(p->trans_b);

  assert(!(p->row_major && tst_is_fortran(symbol)));
  switch (symbol->abi) {
    case TST_CBLAS32:
      ((cblas32_fn *)function)(cblas_order(p), ta, tb, m, n, k, p->alpha, a, lda, b, ldb, p->beta, c, ldc);
      break;
    case TST_CBLAS64:
      ((cblas64_fn *)function)(cblas_order(p), ta, tb, p->m, p->n, p->k, p->alpha, a, p->lda, b, p->ldb, p->beta, c,
                               p->ldc);
      break;
    case TST_FORTRAN32:
      ((fortran32_fn *)function)(&p->trans_a, &p->trans_b, &m, &n, &k, &p->alpha, a, &lda, b, &ldb, &p->beta, c, &ldc,
                                 1, 1);
      break;
    case TST_FORTRAN64:
      ((fortran64_fn *)function)(&p->trans_a, &p->trans_b, &p->m, &p->n, &p->k, &p->alpha, a, &p->lda, b, &p->ldb,
                                 &p->beta, c, &p->ldc, 1, 1);
      break;
  }
}

void *tst_resolve(const struct tst_symbol *symbol) {
  void *function = dlsym(RTLD_DEFAULT, symbol->name);
  if (!function) {
    fprintf(stderr, "%s: %s\n", symbol->name, dlerror());
    abort();
  }
  return function;
}
