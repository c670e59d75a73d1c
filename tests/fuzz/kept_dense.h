/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products of fuzz_kept that go to the tensor cores of a GPU of two multiprocessors: of a matrix with many sides and
 * one that is too small to be kept, so that nothing but the first is packed for more than a call. Not thread safe.
 */
#ifndef KEPT_DENSE_H
#define KEPT_DENSE_H

#include "kept_writes.h"

struct kept_dense {
  struct kept_matrix *of;
  bool is_b; /* else it is A */
};

/* The other matrix, of whole numbers; once. */
void kept_dense_begin(uint64_t *rng);

struct kept_dense kept_dense_choose(uint64_t *rng);

/* False: the product is not that of the program's memory, bit by bit. */
bool kept_dense_is_right(const struct kept_dense *d);

#endif
