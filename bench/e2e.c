/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Times one BLAS symbol from a program that knows nothing of GPUs. It is linked with OpenBLAS; whichever library owns
 * the symbol at run time (OpenBLAS, or one that is preloaded) answers, and the output names it.
 *
 *   e2e [--symbol sgemm_|cblas_sgemm] [options of call.c] SIZE...
 *
 * The first call of a process pays for loading, contexts and caches: give one SIZE to see that cost at that size.
 * Status 1: a wrong result or a failure.
 */
#include "call.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void fortran_sgemm(const char *, const char *, const int *, const int *, const int *, const float *,
                           const float *, const int *, const float *, const int *, const float *, float *, const int *);
typedef void c_sgemm(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
enum { COL_MAJOR = 102, NO_TRANS = 111, TRANS = 112 }; /* as cblas.h numbers them */

static void by_fortran(const struct tb_call *call, int m, int n, int k, const float *a, const float *b, float *c) {
  const float one = 1, zero = 0;
  int lda = call->ta ? k : m, ldb = call->tb ? n : k;
  fortran_sgemm *f = (fortran_sgemm *)call->ctx;
  f(call->ta ? "T" : "N", call->tb ? "T" : "N", &m, &n, &k, &one, a, &lda, b, &ldb, &zero, c, &m);
}

static void by_cblas(const struct tb_call *call, int m, int n, int k, const float *a, const float *b, float *c) {
  int lda = call->ta ? k : m, ldb = call->tb ? n : k;
  c_sgemm *f = (c_sgemm *)call->ctx;
  f(COL_MAJOR, call->ta ? TRANS : NO_TRANS, call->tb ? TRANS : NO_TRANS, m, n, k, 1, a, lda, b, ldb, 0, c, m);
}

int main(int argc, char **argv) {
  struct tb_call call = {.label = "-", .symbol = "sgemm_", .budget_s = 1};
  int next = tb_call_parse(&call, argc, argv, NULL);
  call.sgemm = strcmp(call.symbol, "cblas_sgemm") == 0 ? by_cblas : by_fortran;
  if (call.sgemm == by_fortran && strcmp(call.symbol, "sgemm_") != 0) {
    fprintf(stderr, "e2e: cannot call %s, only sgemm_ and cblas_sgemm\n", call.symbol);
    return 2;
  }
  Dl_info owner;
  call.ctx = dlsym(RTLD_DEFAULT, call.symbol); /* what a plain call of the symbol would reach */
  if (!call.ctx || !dladdr(call.ctx, &owner)) {
    fprintf(stderr, "e2e: no library in this process defines %s\n", call.symbol);
    return EXIT_FAILURE;
  }
  call.owner = strrchr(owner.dli_fname, '/') ? strrchr(owner.dli_fname, '/') + 1 : owner.dli_fname;
  int all_right = 1;
  for (; next < argc; next++) all_right &= tb_call_run(&call, argv[next]);
  return all_right ? EXIT_SUCCESS : EXIT_FAILURE;
}
