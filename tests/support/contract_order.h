/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels' product in plain C, term by term in the order of summation that kernels/sgemm_args.h promises: what
 * every kernel, tile and split must give to the last bit. Pure, thread safe.
 */
#ifndef TST_CONTRACT_ORDER_H
#define TST_CONTRACT_ORDER_H

#include <stdbool.h>
#include <stdint.h>

/* D = alpha * ([D +] op(A) op(B)), column-major, on the host; op(X) = X, or X^T where transposed. */
struct tst_contract {
  bool transpose_a, transpose_b;
  int64_t m, n, k;
  float alpha;
  const float *a, *b;
  int64_t lda, ldb, ldd;
  int64_t group_k;  /* 0: the thin kernels' */
  bool first, last; /* without `first`, D's sums are continued; without `last`, they are not multiplied by alpha */
};

void tst_contract_product(const struct tst_contract *product, float *d);

#endif
