/* SPDX-License-Identifier: BSD-3-Clause */
/* The small products of a batch on a GPU, in one turn at it, or shared by several: each has products that follow each
 * other. What one that fails leaves, another computes. offload/none.c has it for a build without kernels. Thread-safe.
 */
#ifndef TB_OFFLOAD_BATCH_H
#define TB_OFFLOAD_BATCH_H

#include "blas/batch.h"
#include "offload/offload.h"

/* How a product of a batch goes, of operands that lie there (NULL: all pageable). */
enum tb_batch_state tb_offload_batch_way(const struct tb_call *call, const struct tb_places *places);

/*
 * Computes the products whose state is TB_BATCH_STAGED or TB_BATCH_IN_PLACE, `places` those of the first of the latter
 * (NULL: there are none), and says in state[] which are done; products may change to TB_BATCH_ALONE. False: no GPU
 * could be opened, or the operands lie on another than ours (outcome->why), and nothing was computed.
 */
bool tb_offload_batch(const struct tb_batch *batch, unsigned char *state, const struct tb_places *places, bool timed,
                      struct tb_outcome *outcome);

#endif
