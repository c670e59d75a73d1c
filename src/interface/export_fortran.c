/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exported Fortran functions: from symbols.def to the short way of a small call, or else to one struct tb_gemm.
 * Compilers pass the lengths of the character arguments behind the last one; BLAS looks at the first character alone,
 * so they are not declared.
 */
#include <limits.h>

#include "blas/call.h"
#include "interface/caller.h"
#include "cpu/fallback.h"
#include "interface/run.h"
#include "interface/short_way.h"
#include "tileblas.h"

/* The caller's, of 32 or 64 bits. */
static inline int64_t integer_at(const void *address, bool wide) {
  int64_t wide_one;
  int32_t narrow_one;
  if (wide) return memcpy(&wide_one, address, sizeof wide_one), wide_one;
  return memcpy(&narrow_one, address, sizeof narrow_one), narrow_one;
}

/* What the letters of a transpose say; the others are 0. */
enum { PLAIN = 1, TRANSPOSED = 2 };
static const unsigned char said_by[UCHAR_MAX + 1] = {
    ['N'] = PLAIN, ['n'] = PLAIN, ['T'] = TRANSPOSED, ['t'] = TRANSPOSED, ['C'] = TRANSPOSED, ['c'] = TRANSPOSED,
};

/* As tb_gemm_from_fortran has it, for sizes that are not zero. */
static inline bool is_valid(char transa, char transb, int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb,
                            int64_t ldc) {
  const unsigned a = said_by[(unsigned char)transa], b = said_by[(unsigned char)transb];
  if (TB_RARELY(a == 0) || TB_RARELY(b == 0)) return false;
  return lda >= (a == PLAIN ? m : k) && ldb >= (b == PLAIN ? k : n) && ldc >= m;
}

/* Answers a call that is small. */
static inline __attribute__((always_inline)) bool answer_small(_Atomic(void *) *direct, enum tb_symbol symbol,
                                                               bool wide, const char *transa, const char *transb,
                                                               int64_t m, int64_t n, int64_t k, const float *alpha,
                                                               const float *a, int64_t lda, const float *b, int64_t ldb,
                                                               const float *beta, float *c, int64_t ldc) {
  uint64_t terms;
  if (!tb_small_sizes(m, n, k, *alpha, &terms) || !is_valid(*transa, *transb, m, n, k, lda, ldb, ldc) ||
      (wide && !(tb_fits_int32(lda) && tb_fits_int32(ldb) && tb_fits_int32(ldc))))
    return false;
  tb_fortran_function *function = (tb_fortran_function *)tb_small_begin_by(direct, symbol, a, b, c, terms);
  if (function == NULL) return false;
  tb_thread.cpu_depth = 1;
  function(transa, transb, &m, &n, &k, alpha, a, &lda, b, &ldb, beta, c, &ldc, 1, 1);
  tb_thread.cpu_depth = 0;
  return true;
}

/* The integers lie at their addresses as wide as the callers of this symbol have them, whatever its name says. */
static __attribute__((noinline, cold)) void
sgemm_by_the_long_way(enum tb_symbol symbol, const void *caller, const char *transa, const char *transb,
                      const void *m_at, const void *n_at, const void *k_at, const float *alpha, const float *a,
                      const void *lda_at, const float *b, const void *ldb_at, const float *beta, float *c,
                      const void *ldc_at) {
  struct tb_gemm call = {.symbol = symbol};
  struct tb_cpu_call cpu;
  tb_run_initialise();
  const bool wide = tb_fallback_callers_are_wide(symbol);
  const int64_t m = integer_at(m_at, wide), n = integer_at(n_at, wide), k = integer_at(k_at, wide);
  const int64_t lda = integer_at(lda_at, wide), ldb = integer_at(ldb_at, wide), ldc = integer_at(ldc_at, wide);
  if (wide &&
      answer_small(tb_fallback_direct_wide, symbol, wide, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc))
    return;
  bool valid = tb_gemm_from_fortran(&call, *transa, *transb, m, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc);
  bool ours = !tb_in_fallback() || !tb_caller_is_cpu_blas(caller);
  if (ours) tb_thread.cpu_depth = 0; /* a handler may have left the CPU BLAS */
  if (!valid && ours) tb_run_refused(symbol);
  if (valid && ours && tb_run_gpu(&call, &cpu)) return;
  tb_fallback_fortran(symbol, valid, *transa, *transb, m, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc);
  if (valid && ours) tb_run_cpu_done(&call, &cpu);
}

static inline __attribute__((always_inline)) void sgemm(enum tb_symbol symbol, bool wide, const char *transa,
                                                        const char *transb, const void *m, const void *n, const void *k,
                                                        const float *alpha, const float *a, const void *lda,
                                                        const float *b, const void *ldb, const float *beta, float *c,
                                                        const void *ldc) {
  if (!answer_small(tb_fallback_direct, symbol, wide, transa, transb, integer_at(m, wide), integer_at(n, wide),
                    integer_at(k, wide), alpha, a, integer_at(lda, wide), b, integer_at(ldb, wide), beta, c,
                    integer_at(ldc, wide)))
    sgemm_by_the_long_way(symbol, __builtin_return_address(0), transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c,
                          ldc);
}

#define TB_CBLAS(routine, integer, symbol)
#define TB_FORTRAN(routine, integer, symbol)                                                                         \
  TILEBLAS_API void symbol(const char *transa, const char *transb, const integer *m, const integer *n,               \
                           const integer *k, const float *alpha, const float *a, const integer *lda, const float *b, \
                           const integer *ldb, const float *beta, float *c, const integer *ldc) {                    \
    routine(TB_SYMBOL_##symbol, sizeof(integer) == 8, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc); \
  }
#include "blas/symbols.def"
