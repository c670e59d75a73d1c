/* SPDX-License-Identifier: BSD-3-Clause */
/* A batch on a GPU: small products many at a time, the others as calls of their own. Thread-safe. */
#ifndef TB_BATCHES_H
#define TB_BATCHES_H

#include "blas/batch.h"
#include "offload/offload.h"

/* Where a batch's products lie, and how each is to go; `state` is the caller's to free. */
struct tb_batch_places {
  unsigned char *state; /* enum tb_batch_state of each product; NULL: there was no memory for it */
  bool need_gpu;        /* the CPU cannot reach an operand of some product */
  bool none;            /* no product is for a GPU */
  int64_t first_there;  /* of the products with everything on a GPU; -1: there is none */
};
void tb_batch_look(struct tb_batch_places *places, const struct tb_batch *batch);

/* Computes all of it, places->state[] ending as TB_BATCH_DONE throughout. What GPUs do not take or leave undone the CPU
 * computes, product by product. False: no GPU could be opened, the CPU reaches all operands, and nothing was done. */
bool tb_level3_batch(const struct tb_batch *batch, struct tb_batch_places *places, bool timed,
                     struct tb_outcome *outcome);

#endif
