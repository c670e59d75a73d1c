/* SPDX-License-Identifier: BSD-3-Clause */
/* The exported CBLAS functions: from symbols.def to one struct tb_gemm, and nothing else. */
#include "blas_call.h"
#include "fallback.h"
#include "run.h"
#include "tileblas.h"

static void sgemm(enum tb_symbol symbol, int layout, int transa, int transb, int64_t m, int64_t n, int64_t k,
                  float alpha, const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                  int64_t ldc) {
  struct tb_gemm call = {.symbol = symbol};
  struct tb_cpu_call cpu;
  bool valid = tb_gemm_from_cblas(&call, layout, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  bool ours = !tb_in_fallback();
  if (!valid && ours) tb_run_refused(symbol);
  if (valid && ours && tb_run_gpu(&call, &cpu)) return;
  tb_fallback_cblas(symbol, valid, layout, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  if (valid && ours) tb_run_cpu_done(&call, &cpu);
}

#define TB_CBLAS(routine, integer, symbol)                                                                   \
  TILEBLAS_API void symbol(int layout, int transa, int transb, integer m, integer n, integer k, float alpha, \
                           const float *a, integer lda, const float *b, integer ldb, float beta, float *c,   \
                           integer ldc) {                                                                    \
    routine(TB_SYMBOL_##symbol, layout, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);       \
  }
#define TB_FORTRAN(routine, integer, symbol)
#include "symbols.def"
