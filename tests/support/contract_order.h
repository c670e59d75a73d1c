/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels' product in plain C, term by term in the order of summation that kernels/common/sgemm_args.h promises:
 * what every kernel, tile and split must give to the last bit. Pure, thread safe.
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

/* The same sums in another order, whose bits are others where the words are such that a test can tell. */
enum tst_wrong_order {
  TST_D_BEHIND,        /* what is continued is added behind the groups, and not before */
  TST_GROUPS_BACKWARD, /* the last group's sum first */
  TST_CHUNKS_BACKWARD, /* in each group the last chunk's sum first */
  TST_LONG_CHAINS,     /* a group is one chain */
  TST_ONE_GROUP,       /* all chunks are of one group */
  TST_WRONG_ORDERS
};
extern const char *const tst_wrong_order_name[TST_WRONG_ORDERS];
void tst_contract_wrong_product(const struct tst_contract *product, enum tst_wrong_order order, float *d);

#endif
