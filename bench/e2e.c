/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Times one BLAS symbol from a program that knows nothing of GPUs. It is linked with OpenBLAS; whichever library owns
 * the symbol at run time (OpenBLAS, or one that is preloaded) answers, and the output names it.
 *
 *   e2e [--symbol sgemm_|cblas_sgemm|dgemm_|cblas_zgemm|...] [options of call.c] SIZE...
 *
 * The first call of a process pays for loading, contexts and caches: give one SIZE to see that cost at that size, and
 * --first 10 to see what the calls behind it pay.
 * Status 1: a wrong result or a failure.
 */
#include "call.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void fortran_gemm(const char *, const char *, const int *, const int *, const int *, const void *, const void *,
                          const int *, const void *, const int *, const void *, void *, const int *);
#define C_GEMM(name, scalar) \
  typedef void name(int, int, int, int, int, int, scalar, const void *, int, const void *, int, scalar, void *, int)
C_GEMM(c_sgemm, float);
C_GEMM(c_dgemm, double);
C_GEMM(c_zgemm, const void *);                         /* cgemm's, too */
enum { COL_MAJOR = 102, NO_TRANS = 111, TRANS = 112 }; /* as cblas.h numbers them */

static void by_fortran(const struct tb_call *call, const struct tb_problem *p) {
  const int lda = tb_problem_lda(p), ldb = tb_problem_ldb(p);
  fortran_gemm *f = (fortran_gemm *)call->ctx;
  f(p->ta ? "T" : "N", p->tb ? "T" : "N", &p->m, &p->n, &p->k, tb_one(p->type), p->a, &lda, p->b, &ldb,
    tb_zero(p->type), p->c, &p->m);
}

#define BY_CBLAS(function, one, zero)                                                                                 \
  ((function *)call->ctx)(COL_MAJOR, p->ta ? TRANS : NO_TRANS, p->tb ? TRANS : NO_TRANS, p->m, p->n, p->k, one, p->a, \
                          tb_problem_lda(p), p->b, tb_problem_ldb(p), zero, p->c, p->m)

static void by_cblas(const struct tb_call *call, const struct tb_problem *p) {
  if (p->type == TB_S)
    BY_CBLAS(c_sgemm, 1, 0);
  else if (p->type == TB_D)
    BY_CBLAS(c_dgemm, 1, 0);
  else
    BY_CBLAS(c_zgemm, tb_one(p->type), tb_zero(p->type));
}

/* The element type is in the symbol's name, and how it is called: "cblas_dgemm", "zgemm_", "cgemm3m_". */
static void choose(struct tb_call *call) {
  static const char prefix[] = "cblas_";
  const bool by_c = strncmp(call->symbol, prefix, strlen(prefix)) == 0;
  const char *const routine = by_c ? call->symbol + strlen(prefix) : call->symbol;
  const char letter[] = {routine[0], '\0'};
  call->gemm = by_c ? by_cblas : by_fortran;
  if (tb_type_parse(letter, &call->type) && strncmp(routine + 1, "gemm", 4) == 0 &&
      by_c == (routine[strlen(routine) - 1] != '_'))
    return;
  fprintf(stderr, "e2e: cannot call %s, only gemm_ and cblas_gemm of a type, as sgemm_\n", call->symbol);
  exit(2);
}

int main(int argc, char **argv) {
  struct tb_call call = {.label = "-", .symbol = "sgemm_", .budget_s = 1};
  int next = tb_call_parse(&call, argc, argv, NULL);
  choose(&call);
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
