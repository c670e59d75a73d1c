/* SPDX-License-Identifier: BSD-3-Clause */
/* Batches on the CPU: by the BLAS behind us as the program made the call, where it has the routine with groups, or else
 * product after product by its gemm. Thread-safe. */
#ifndef TB_CPU_BATCH_H
#define TB_CPU_BATCH_H

#include "blas/batch.h"

/*
 * All of a batch that is not refused. What is strided becomes a batch of one group first: OpenBLAS's strided routines
 * exchange or refuse arguments in several of its versions. The BLAS gets no batch with an empty group, or with a
 * product that has nothing to multiply.
 */
void tb_fallback_batch(const struct tb_batch *batch);

/* Reports what tb_batch_from refused: by that BLAS where it can be handed the call as it is, else to the program's
 * xerbla_, or on stderr. A handler may leave by longjmp. */
void tb_fallback_refuse_batch(enum tb_symbol symbol, int refused, const struct tb_batch_arguments *arguments);

#endif
