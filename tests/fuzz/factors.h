/* SPDX-License-Identifier: BSD-3-Clause */
/* The matrices of level3.h as the factors of a real product, whose sums their elements are compared with. */
#ifndef FUZZ_FACTORS_H
#define FUZZ_FACTORS_H

#include "level3.h"
#include "real_product.h"

/* Factors of a product's sums (i, j): of what is m x k and what is k x n, or with the second one's transpose as syrk
 * has it; of trmm and trsm with what is in `c`, an image of B. Of syr2k and her2k those of the first of its two
 * products. */
void fuzz_factors(struct fuzz_real *real, const struct fuzz_level3 *call, const struct fuzz_product *p, char *c);

#endif
