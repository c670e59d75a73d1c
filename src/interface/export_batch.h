/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exported functions of batches, for export_cblas.c and export_fortran.c. Arrays go on as they are. A single
 * group's arguments are arrays of one item: of CBLAS the parameters themselves, whose lower halves are integers of 32
 * bits.
 */
#ifndef TB_EXPORT_BATCH_H
#define TB_EXPORT_BATCH_H

#include "interface/run_batch.h"
#include "tileblas.h"

/* What CBLAS passes by value, of complex types by address; and where it lies. */
#define BATCH_SCALAR_S float
#define BATCH_SCALAR_D double
#define BATCH_SCALAR_C const void *
#define BATCH_SCALAR_Z const void *
#define BATCH_AT_S(x) &x
#define BATCH_AT_D(x) &x
#define BATCH_AT_C(x) x
#define BATCH_AT_Z(x) x

#define EXPORT_CBLAS_gemm_batch(type, integer, symbol)                                                              \
  TILEBLAS_API void symbol(int layout, const int *transa, const int *transb, const integer *m, const integer *n,    \
                           const integer *k, const void *alpha, const void *a, const integer *lda, const void *b,   \
                           const integer *ldb, const void *beta, const void *c, const integer *ldc, int64_t groups, \
                           const integer *group_size) {                                                             \
    const struct tb_batch_arguments x = {layout, false, false, transa, transb, m, n, k, alpha,  lda,       ldb,     \
                                         beta,   ldc,   a,     b,      c,      0, 0, 0, groups, group_size};        \
    tb_batch_by_value(TB_SYMBOL_##symbol, __builtin_return_address(0), &x);                                         \
  }

#define EXPORT_CBLAS_gemm_batch_strided(type, integer, symbol)                                                     \
  TILEBLAS_API void symbol(int layout, int transa, int transb, int64_t m, int64_t n, int64_t k,                    \
                           BATCH_SCALAR_##type alpha, const void *a, int64_t lda, int64_t stride_a, const void *b, \
                           int64_t ldb, int64_t stride_b, BATCH_SCALAR_##type beta, void *c, int64_t ldc,          \
                           int64_t stride_c, int64_t count) {                                                      \
    const struct tb_batch_arguments x = {.layout = layout,                                                         \
                                         .strided = true,                                                          \
                                         .transa = &transa,                                                        \
                                         .transb = &transb,                                                        \
                                         .m = &m,                                                                  \
                                         .n = &n,                                                                  \
                                         .k = &k,                                                                  \
                                         .alpha = BATCH_AT_##type(alpha),                                          \
                                         .lda = &lda,                                                              \
                                         .ldb = &ldb,                                                              \
                                         .beta = BATCH_AT_##type(beta),                                            \
                                         .ldc = &ldc,                                                              \
                                         .a = a,                                                                   \
                                         .b = b,                                                                   \
                                         .c = c,                                                                   \
                                         .stride_a = stride_a,                                                     \
                                         .stride_b = stride_b,                                                     \
                                         .stride_c = stride_c,                                                     \
                                         .groups = 1,                                                              \
                                         .group_size = &count};                                                    \
    tb_batch_by_value(TB_SYMBOL_##symbol, __builtin_return_address(0), &x);                                        \
  }

#define BATCH_FORTRAN_ARGUMENTS(is_strided, sizes)                                                             \
  {                                                                                                            \
    .layout = TB_COL_MAJOR, .strided = is_strided, .transa = transa, .transb = transb, .m = m, .n = n, .k = k, \
    .alpha = alpha, .lda = lda, .ldb = ldb, .beta = beta, .ldc = ldc, .a = a, .b = b, .c = c, .groups = 1,     \
    .group_size = sizes                                                                                        \
  }

#define EXPORT_FORTRAN_gemm_batch(type, integer, symbol)                                                          \
  TILEBLAS_API void symbol(const char *transa, const char *transb, const integer *m, const integer *n,            \
                           const integer *k, const void *alpha, const void *a, const integer *lda, const void *b, \
                           const integer *ldb, const void *beta, const void *c, const integer *ldc,               \
                           const integer *groups, const integer *group_size) {                                    \
    const struct tb_batch_arguments x = BATCH_FORTRAN_ARGUMENTS(false, group_size);                               \
    tb_batch_by_address(TB_SYMBOL_##symbol, __builtin_return_address(0), &x, groups);                             \
  }

#define EXPORT_FORTRAN_gemm_batch_strided(type, integer, symbol)                                                    \
  TILEBLAS_API void symbol(const char *transa, const char *transb, const integer *m, const integer *n,              \
                           const integer *k, const void *alpha, const void *a, const integer *lda,                  \
                           const integer *stride_a, const void *b, const integer *ldb, const integer *stride_b,     \
                           const void *beta, void *c, const integer *ldc, const integer *stride_c,                  \
                           const integer *count) {                                                                  \
    const struct tb_batch_arguments x = BATCH_FORTRAN_ARGUMENTS(true, count);                                       \
    tb_batch_strided_by_address(TB_SYMBOL_##symbol, __builtin_return_address(0), &x, stride_a, stride_b, stride_c); \
  }

#endif
