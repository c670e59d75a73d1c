/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a batch goes, as a whole: the time of each side is predicted from all its products together, and corrected by
 * what batches of the same form took. Thread-safe.
 */
#ifndef TB_ROUTE_BATCHES_H
#define TB_ROUTE_BATCHES_H

#include "blas/batch.h"
#include "route/route.h"

/* For a batch that has something to multiply, of operands that the CPU reaches. */
struct tb_decision tb_batch_decide(const struct tb_batch *batch, enum tb_route_mode mode);

/* What it took there; `gpus`: so many GPUs, or 0: not all of it was there. Forced calls teach nothing; what several
 * GPUs shared is no measure of what one takes, but its like will be shared, too. */
void tb_batch_learn(const struct tb_batch *batch, const struct tb_decision *decision, enum tb_where where, int gpus,
                    double seconds);

/* The child of a fork starts with what its parent knew. */
void tb_batch_router_after_fork(void);

#endif
