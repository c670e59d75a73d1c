/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A product by the tensor cores' kernels in plain C, word by word, as kernels/PRECISION.md and emulated_args.h promise
 * it: which planes a tile of D is computed from, and what that gives to the last bit, with tensor cores that add as
 * PRECISION.md says ("What the tensor cores do to a sum"). Nothing here is the kernels'. Pure, thread safe.
 */
#ifndef TST_CONTRACT_EMULATED_H
#define TST_CONTRACT_EMULATED_H

#include "emulated_product.h"

/* What a tile is computed from. */
enum tst_planes {
  TST_FP16,
  TST_FP16_CORRECTED, /* some word is lossy, and what is cut off is given back */
  TST_BF16,
  TST_BF16_APART, /* some side has few large words: high planes' products are added apart */
  TST_PLAIN,      /* fp32 FMAs from the operands themselves */
  TST_PLANES
};
extern const char *const tst_planes_name[TST_PLANES];

/* For the tile from this row and column on, in the span of k that starts at `start`; but for sums that leave the range,
 * which nobody knows before they are there. */
enum tst_planes tst_contract_planes(const struct tst_emulated_product *t, int64_t row, int64_t column, int64_t start);

/* Of one from fp16 planes: whether it is so for its products alone, though many words are small. */
bool tst_contract_counts_products(const struct tst_emulated_product *t, int64_t row, int64_t column, int64_t start);

/* D, m x n, dense, to be freed. `forced`: all of it from these planes, whatever the contract says; TST_PLANES: as it
 * says. */
float *tst_contract_emulated(const struct tst_emulated_product *t, enum tst_planes forced);

#endif
