/* SPDX-License-Identifier: BSD-3-Clause */
#include "cublas_level3.h"

#include <stdio.h>
#include <stdlib.h>

/* cublasSideMode_t, cublasFillMode_t, cublasOperation_t, cublasDiagType_t */
enum { LEFT, RIGHT };
enum { LOWER, UPPER };
static int operation(char trans) { return trans == 'N' ? TB_OP_N : trans == 'T' ? TB_OP_T : 2; }

typedef tb_cublas_handle handle_of;
typedef int gemm_function TB_NVIDIA_GEMM;
typedef int rank_k_function(handle_of, int, int, int, int, const void *, const void *, int, const void *, void *, int);
typedef int rank_2k_function(handle_of, int, int, int, int, const void *, const void *, int, const void *, int,
                             const void *, void *, int); /* syrkx's and symm's, too */
typedef int trmm_function(handle_of, int, int, int, int, int, int, const void *, const void *, int, const void *, int,
                          void *, int);
typedef int trsm_function(handle_of, int, int, int, int, int, int, const void *, const void *, int, void *, int);

/* "cublasDtrsm_v2"; syrkx has one version. */
static void *function_of(const struct tb_level3 *x) {
  char name[32];
  const bool gemmt = x->routine->form == TB_FORM_GEMMT;
  snprintf(name, sizeof name, "cublas%c%s%s", "SDCZ"[x->type], gemmt ? "syrkx" : x->routine->name, gemmt ? "" : "_v2");
  void *const found = tb_nvidia_cublas_symbol(name);
  if (found == NULL) fprintf(stderr, "no %s in cublas\n", name), exit(EXIT_FAILURE);
  return found;
}

int tb_nvidia_level3(tb_cublas_handle handle, const struct tb_level3 *x, const void *a, const void *b, void *c,
                     bool in_place) {
  void *const f = function_of(x);
  const void *const one = tb_one(x->type), *const zero = tb_zero(x->type);
  const int lda = tb_level3_a(x).rows, ldb = tb_level3_b(x).rows, trans = operation(x->trans);
  const int side = x->right ? RIGHT : LEFT, uplo = x->upper ? UPPER : LOWER, diag = x->unit;
  switch (x->routine->form) {
    case TB_FORM_GEMM:
      return ((gemm_function *)f)(handle, TB_OP_N, TB_OP_N, x->m, x->n, x->k, one, a, lda, b, ldb, zero, c, x->m);
    case TB_FORM_RANK_K:
      return ((rank_k_function *)f)(handle, uplo, trans, x->n, x->k, one, a, lda, zero, c, x->m);
    case TB_FORM_GEMMT:
    case TB_FORM_RANK_2K:
      return ((rank_2k_function *)f)(handle, uplo, trans, x->n, x->k, one, a, lda, b, ldb, zero, c, x->m);
    case TB_FORM_SYMM:
      return ((rank_2k_function *)f)(handle, side, uplo, x->m, x->n, one, a, lda, b, ldb, zero, c, x->m);
    case TB_FORM_TRMM:
      return ((trmm_function *)f)(handle, side, uplo, trans, diag, x->m, x->n, one, a, lda, in_place ? c : b, x->m, c,
                                  x->m);
    case TB_FORM_TRSM:
      return ((trsm_function *)f)(handle, side, uplo, trans, diag, x->m, x->n, one, a, lda, c, x->m);
  }
  return -1;
}
