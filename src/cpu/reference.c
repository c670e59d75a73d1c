/* SPDX-License-Identifier: BSD-3-Clause */
#include "cpu/reference.h"

#include <stddef.h>
#include <string.h>

#include "base/log.h"

static float element(struct tb_view x, int64_t i, int64_t j) {
  return x.data[x.transposed ? j + i * x.ld : i + j * x.ld];
}

void tb_reference_gemm(const struct tb_gemm *call) {
  for (int64_t j = 0; j < call->n; j++) {
    float *c = call->c + j * call->ldc;
    /* beta = 0 overwrites: C need not hold numbers. */
    for (int64_t i = 0; i < call->m; i++) c[i] = call->beta == 0 ? 0 : call->beta == 1 ? c[i] : call->beta * c[i];
    if (call->alpha == 0) continue;
    for (int64_t l = 0; l < call->k; l++) {
      float scaled = call->alpha * element(call->b, l, j);
      for (int64_t i = 0; i < call->m; i++) c[i] += scaled * element(call->a, i, l);
    }
  }
}

static bool is_letter(char given, char letter) { return given == letter || given == letter - 'A' + 'a'; }

static bool is_transpose(char letter) { return is_letter(letter, 'T') || is_letter(letter, 'C'); }

static int64_t at_least_one(int64_t n) { return n > 1 ? n : 1; }

int tb_reference_check(char transa, char transb, int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb,
                       int64_t ldc) {
  bool na = is_letter(transa, 'N'), nb = is_letter(transb, 'N');
  if (!na && !is_transpose(transa)) return 1;
  if (!nb && !is_transpose(transb)) return 2;
  if (m < 0) return 3;
  if (n < 0) return 4;
  if (k < 0) return 5;
  if (lda < at_least_one(na ? m : k)) return 8;
  if (ldb < at_least_one(nb ? k : n)) return 10;
  if (ldc < at_least_one(m)) return 13;
  return 0;
}

static char letter_of(int transpose) {
  return transpose == TB_NO_TRANS ? 'N' : transpose == TB_TRANS || transpose == TB_CONJ_TRANS ? 'T' : '?';
}

int tb_reference_check_cblas(int layout, int transa, int transb, int64_t m, int64_t n, int64_t k, int64_t lda,
                             int64_t ldb, int64_t ldc) {
  if (layout != TB_ROW_MAJOR && layout != TB_COL_MAJOR) return 1;
  char ta = letter_of(transa), tb = letter_of(transb);
  if (layout == TB_COL_MAJOR) {
    int info = tb_reference_check(ta, tb, m, n, k, lda, ldb, ldc);
    return info ? info + 1 : 0;
  }
  /* The transposed product is checked, and its arguments are numbered as the caller passed them. */
  static const int as_passed[] = {0, 3, 2, 5, 4, 6, 0, 0, 11, 0, 9, 0, 0, 14};
  return as_passed[tb_reference_check(tb, ta, n, m, k, ldb, lda, ldc)];
}

/*
 * The program's own handlers, if it has any. A weak reference also makes the linker export a handler from a program
 * that is linked with us, so that the CPU BLAS behind us finds it as well.
 */
extern void xerbla_(const char *routine, const int *info, size_t length) __attribute__((weak));
extern void cblas_xerbla(int info, const char *routine, const char *format, ...) __attribute__((weak));

void tb_reference_xerbla(const char *routine, int info) {
  if (routine[0] == 'c' && cblas_xerbla != NULL)
    cblas_xerbla(info, routine, "");
  else if (xerbla_ != NULL)
    xerbla_(routine, &info, strlen(routine));
  else
    tb_warn("On entry to %s parameter number %d had an illegal value", routine, info);
}
