/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures both sides of the machine: whole calls of the model's grid of sizes, the smallest first, and of the larger
 * ones as many as the time allows. What is not reached stays 0. Prints nothing, counts nothing. Thread-safe; calls at
 * the GPU take turns with those of other threads.
 */
#ifndef TB_CALIBRATE_H
#define TB_CALIBRATE_H

#include "route/model.h"
#include "offload/offload.h"

/* In all, of which each side has its part; a call is begun only if it should end in time, judged by the smaller ones
 * before it. What exceeds it is the first call of a side, of which nothing is known. */
#define TB_CALIBRATION_SECONDS 0.25
#define TB_CALIBRATION_SIDE_SECONDS 0.11

/* A GPU must be open. `symbol` names the CPU BLAS to be measured. False: the GPU failed, or there is no memory for the
 * operands (37 MB). */
bool tb_calibrate(struct tb_calibration *calibration, const struct tb_gpu_identity *gpu, enum tb_symbol symbol);

/* ---- what it is made of, for tests ---- */

/* Seconds of one call of a node's sizes on one side; negative: it failed. */
typedef double tb_time_call(void *context, enum tb_where where, const struct tb_node_sizes *sizes);

/* Measures one side for so many seconds on the clock, the first call not counted. The smallest node is always measured.
 * False: a call failed. */
bool tb_calibrate_side(double seconds[TB_NODES], enum tb_where where, double (*clock)(void *context),
                       double budget_seconds, tb_time_call *time_call, void *context);

#endif
