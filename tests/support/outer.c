/* SPDX-License-Identifier: BSD-3-Clause */
#include "outer.h"

#include <stdio.h>
#include <stdlib.h>

#include "balanced.h"
#include "product.h"

/* Element (i, j) of C before the call, and of A B^T. */
static float term(int64_t i, int64_t j) { return (float)(i % 7 + j % 5); }

bool tst_outer_is_right(void *sgemm, int64_t m, int64_t n) {
  struct tst_problem p = {.trans_a = 'N', .trans_b = 'T', .m = m, .n = n, .k = 2, .alpha = 1, .beta = 1};
  tst_set_leading(&p, 0);
  float *a = malloc(2 * (size_t)m * sizeof *a), *b = malloc(2 * (size_t)n * sizeof *b);
  float *c = malloc((size_t)(m * n) * sizeof *c);
  if (!a || !b || !c) abort();
  for (int64_t i = 0; i < m; i++) a[i] = (float)(i % 7), a[m + i] = 1;
  for (int64_t j = 0; j < n; j++) b[j] = 1, b[n + j] = (float)(j % 5);
  for (int64_t j = 0; j < n; j++)
    for (int64_t i = 0; i < m; i++) c[i + j * m] = term(i, j);
  tst_call_balanced(tst_find_symbol("cblas_sgemm"), sgemm, &p, a, b, c);
  int64_t wrong = 0;
  for (int64_t j = 0; j < n; j++)
    for (int64_t i = 0; i < m; i++) wrong += !(c[i + j * m] == 2 * term(i, j));
  if (wrong) printf("%lld elements of %lld x %lld are wrong\n", (long long)wrong, (long long)m, (long long)n);
  free(a), free(b), free(c);
  return wrong == 0;
}
