/* SPDX-License-Identifier: BSD-3-Clause */
/* The exported CBLAS functions: from symbols.def to the short way of a small call, or else to one struct tb_gemm. */
#include "blas/call.h"
#include "interface/caller.h"
#include "cpu/fallback.h"
#include "interface/run.h"
#include "interface/short_way.h"
#include "tileblas.h"

/* As tb_gemm_from_cblas has it, for sizes that are not zero; a T and a C together go the long way. */
static inline bool is_valid(int layout, int transa, int transb, int64_t m, int64_t n, int64_t k, int64_t lda,
                            int64_t ldb, int64_t ldc) {
  const unsigned a = (unsigned)transa - TB_NO_TRANS, b = (unsigned)transb - TB_NO_TRANS;
  const bool rows = layout == TB_ROW_MAJOR;
  if ((a | b) > TB_CONJ_TRANS - TB_NO_TRANS || (unsigned)layout - TB_ROW_MAJOR > TB_COL_MAJOR - TB_ROW_MAJOR)
    return false;
  return lda >= ((a == 0) == rows ? k : m) && ldb >= ((b == 0) == rows ? n : k) && ldc >= (rows ? n : m);
}

/* An integer of the caller's, who need not have set the upper half of its register or stack slot. */
static inline int64_t integer_of(int64_t argument, bool wide) { return wide ? argument : (int32_t)argument; }

/* Answers a call that is small. The function gets the arguments as they are. */
static inline __attribute__((always_inline)) bool answer_small(_Atomic(void *) *direct, enum tb_symbol symbol,
                                                               bool wide, int layout, int transa, int transb, int64_t m,
                                                               int64_t n, int64_t k, float alpha, const float *a,
                                                               int64_t lda, const float *b, int64_t ldb, float beta,
                                                               float *c, int64_t ldc) {
  uint64_t terms;
  if (!tb_small_sizes(integer_of(m, wide), integer_of(n, wide), integer_of(k, wide), alpha, &terms) ||
      !is_valid(layout, transa, transb, integer_of(m, wide), integer_of(n, wide), integer_of(k, wide),
                integer_of(lda, wide), integer_of(ldb, wide), integer_of(ldc, wide)) ||
      (wide && !(tb_fits_int32(lda) && tb_fits_int32(ldb) && tb_fits_int32(ldc))))
    return false;
  tb_cblas_function *function = (tb_cblas_function *)tb_small_begin_by(direct, symbol, a, b, c, terms);
  if (function == NULL) return false;
  tb_thread.cpu_depth = 1;
  function(layout, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  tb_thread.cpu_depth = 0;
  return true;
}

/* The integers are as wide as the callers of this symbol have them, whatever its name says. */
static __attribute__((noinline, cold)) void sgemm_by_the_long_way(enum tb_symbol symbol, const void *caller, int layout,
                                                                  int transa, int transb, int64_t m, int64_t n,
                                                                  int64_t k, float alpha, const float *a, int64_t lda,
                                                                  const float *b, int64_t ldb, float beta, float *c,
                                                                  int64_t ldc) {
  struct tb_gemm call = {.symbol = symbol};
  struct tb_cpu_call cpu;
  tb_run_initialise();
  const bool wide = tb_fallback_callers_are_wide(symbol);
  m = integer_of(m, wide), n = integer_of(n, wide), k = integer_of(k, wide);
  lda = integer_of(lda, wide), ldb = integer_of(ldb, wide), ldc = integer_of(ldc, wide);
  if (answer_small(tb_fallback_direct_wide, symbol, true, layout, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta,
                   c, ldc))
    return;
  bool valid = tb_gemm_from_cblas(&call, layout, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  bool ours = !tb_in_fallback() || !tb_caller_is_cpu_blas(caller);
  if (ours) tb_thread.cpu_depth = 0; /* a handler may have left the CPU BLAS */
  if (!valid && ours) tb_run_refused(symbol);
  if (valid && ours && tb_run_gpu(&call, &cpu)) return;
  tb_fallback_cblas(symbol, valid, layout, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  if (valid && ours) tb_run_cpu_done(&call, &cpu);
}

static inline __attribute__((always_inline)) void sgemm(enum tb_symbol symbol, bool wide, int layout, int transa,
                                                        int transb, int64_t m, int64_t n, int64_t k, float alpha,
                                                        const float *a, int64_t lda, const float *b, int64_t ldb,
                                                        float beta, float *c, int64_t ldc) {
  if (!answer_small(tb_fallback_direct, symbol, wide, layout, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c,
                    ldc))
    sgemm_by_the_long_way(symbol, __builtin_return_address(0), layout, transa, transb, m, n, k, alpha, a, lda, b, ldb,
                          beta, c, ldc);
}

/* Of plain names, too, an integer is declared with 64 bits: callers pass 32 or 64 in the same place. */
#define TB_CBLAS(routine, integer, symbol)                                                                             \
  TILEBLAS_API void symbol(int layout, int transa, int transb, int64_t m, int64_t n, int64_t k, float alpha,           \
                           const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,             \
                           int64_t ldc) {                                                                              \
    routine(TB_SYMBOL_##symbol, sizeof(integer) == 8, layout, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, \
            ldc);                                                                                                      \
  }
#define TB_FORTRAN(routine, integer, symbol)
#include "blas/symbols.def"
