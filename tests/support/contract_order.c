/* SPDX-License-Identifier: BSD-3-Clause */
#include "contract_order.h"

#include <math.h>

/* The contract's numbers, written out here: a change in kernels/sgemm_args.h must fail a test. */
enum { CHUNK_K = 128, GROUP_K = 512 };

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* One chain of FMAs over the products of element (i, j) from `from` to `end`. */
static float chunk_sum(const struct tst_contract *p, int64_t i, int64_t j, int64_t from, int64_t end) {
  float sum = 0;
  for (int64_t l = from; l < end; l++)
    sum = fmaf(p->a[p->transpose_a ? l + i * p->lda : i + l * p->lda],
               p->b[p->transpose_b ? j + l * p->ldb : l + j * p->ldb], sum);
  return sum;
}

static float group_sum(const struct tst_contract *p, int64_t i, int64_t j, int64_t from, int64_t end) {
  float sum = chunk_sum(p, i, j, from, smaller(from + CHUNK_K, end));
  for (int64_t l = from + CHUNK_K; l < end; l += CHUNK_K) sum += chunk_sum(p, i, j, l, smaller(l + CHUNK_K, end));
  return sum;
}

void tst_contract_product(const struct tst_contract *p, float *d) {
  const int64_t group_k = p->group_k > 0 ? p->group_k : GROUP_K;
  for (int64_t j = 0; j < p->n; j++)
    for (int64_t i = 0; i < p->m; i++) {
      float *at = &d[i + j * p->ldd], sum = p->first ? 0 : *at;
      for (int64_t l = 0; l < p->k; l += group_k) sum += group_sum(p, i, j, l, smaller(l + group_k, p->k));
      *at = p->last ? p->alpha * sum : sum;
    }
}
