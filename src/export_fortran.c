/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exported Fortran functions: from symbols.def to one struct tb_gemm, and nothing else. Compilers pass the lengths
 * of the character arguments behind the last one; BLAS looks at the first character alone, so they are not declared.
 */
#include "blas_call.h"
#include "fallback.h"
#include "run.h"
#include "tileblas.h"

static void sgemm(enum tb_symbol symbol, char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha,
                  const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
  struct tb_gemm call = {.symbol = symbol};
  struct tb_cpu_call cpu;
  bool valid = tb_gemm_from_fortran(&call, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  bool ours = !tb_in_fallback();
  if (!valid && ours) tb_run_refused(symbol);
  if (valid && ours && tb_run_gpu(&call, &cpu)) return;
  tb_fallback_fortran(symbol, valid, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  if (valid && ours) tb_run_cpu_done(&call, &cpu);
}

#define TB_CBLAS(routine, integer, symbol)
#define TB_FORTRAN(routine, integer, symbol)                                                                         \
  TILEBLAS_API void symbol(const char *transa, const char *transb, const integer *m, const integer *n,               \
                           const integer *k, const float *alpha, const float *a, const integer *lda, const float *b, \
                           const integer *ldb, const float *beta, float *c, const integer *ldc) {                    \
    routine(TB_SYMBOL_##symbol, *transa, *transb, *m, *n, *k, *alpha, a, *lda, b, *ldb, *beta, c, *ldc);             \
  }
#include "symbols.def"
