/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The way of one batch: what the exported functions hand it to, what decides about it as a whole, answers and records
 * it. Thread-safe.
 */
#ifndef TB_RUN_BATCH_H
#define TB_RUN_BATCH_H

#include "blas/batch.h"

/* As tb_run, of a batch. */
void tb_run_batch(enum tb_symbol symbol, const void *caller, const struct tb_batch_arguments *arguments);

/* ---- batch_arguments.c: the last of the arguments, as wide as the caller has them, and the run ---- */

void tb_batch_by_value(enum tb_symbol symbol, const void *caller, const struct tb_batch_arguments *arguments);
void tb_batch_by_address(enum tb_symbol symbol, const void *caller, const struct tb_batch_arguments *arguments,
                         const void *groups);
void tb_batch_strided_by_address(enum tb_symbol symbol, const void *caller, const struct tb_batch_arguments *arguments,
                                 const void *stride_a, const void *stride_b, const void *stride_c);

#endif
