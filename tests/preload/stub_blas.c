/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A BLAS of one function, to see who answers a call: it computes by plain loops and prints "stub NAME" on stdout.
 * Compiled once for each name with -DSTUB_NAME=name -DSTUB_INT=type and, for the Fortran convention, -DSTUB_FORTRAN;
 * for elements of two floats, -DSTUB_COMPLEX, which conjugates nothing; and with -DSTUB_TELLS_WIDTH with an isamax_ of
 * the same integers, by which TileBLAS finds out their width.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

#ifdef STUB_COMPLEX
typedef float _Complex element;
typedef const element *by_value; /* as CBLAS passes a scalar */
#define VALUE(x) (*(x))
#else
typedef float element, by_value;
#define VALUE(x) (x)
#endif

/* Element (i, j) of op(X) lies at x[i * row + j * column]. */
static void product(int64_t m, int64_t n, int64_t k, element alpha, const element *a, int64_t a_row, int64_t a_column,
                    const element *b, int64_t b_row, int64_t b_column, element beta, element *c, int64_t c_row,
                    int64_t c_column) {
  puts("stub " TEXT(STUB_NAME));
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      element sum = 0, *at = &c[i * c_row + j * c_column];
      for (int64_t l = 0; l < k; l++) sum += a[i * a_row + l * a_column] * b[l * b_row + j * b_column];
      *at = alpha * sum + (beta == 0 ? 0 : beta * *at);
    }
}

#ifdef STUB_FORTRAN
void STUB_NAME(const char *trans_a, const char *trans_b, const STUB_INT *m, const STUB_INT *n, const STUB_INT *k,
               const element *alpha, const element *a, const STUB_INT *lda, const element *b, const STUB_INT *ldb,
               const element *beta, element *c, const STUB_INT *ldc, size_t length_a, size_t length_b) {
  int na = *trans_a == 'N', nb = *trans_b == 'N';
  (void)length_a, (void)length_b;
  product(*m, *n, *k, *alpha, a, na ? 1 : *lda, na ? *lda : 1, b, nb ? 1 : *ldb, nb ? *ldb : 1, *beta, c, 1, *ldc);
}
#else
void STUB_NAME(int order, int trans_a, int trans_b, STUB_INT m, STUB_INT n, STUB_INT k, by_value alpha,
               const element *a, STUB_INT lda, const element *b, STUB_INT ldb, by_value beta, element *c,
               STUB_INT ldc) {
  int rows = order == 101, a_by_row = rows != (trans_a != 111), b_by_row = rows != (trans_b != 111);
  product(m, n, k, VALUE(alpha), a, a_by_row ? lda : 1, a_by_row ? 1 : lda, b, b_by_row ? ldb : 1, b_by_row ? 1 : ldb,
          VALUE(beta), c, rows ? ldc : 1, rows ? 1 : ldc);
}
#endif

#ifdef STUB_TELLS_WIDTH
int32_t isamax_(const STUB_INT *n, const float *x, const STUB_INT *incx) {
  (void)x, (void)incx;
  return *n == 1;
}
#endif
