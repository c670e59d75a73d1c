/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trmm and trsm on one GPU, by a plan (plan/triangular.h): A goes up and is brought into form, B's portions go up, are
 * computed and come down, all at once. Under offload.c's lock, with the device entered.
 */
#ifndef TB_PIPELINE_TRIANGULAR_H
#define TB_PIPELINE_TRIANGULAR_H

#include "pipeline/device.h"
#include "pipeline/keep.h"
#include "plan/triangular.h"

/* How a call, or the whole that it is a part of, is computed where there is memory for it. */
enum tb_triangular_how tb_triangular_how(struct tb_device *device, const struct tb_call *call);

/* By halves: device memory that a stream's products would like to have for a call in blocks of so many columns. */
int64_t tb_triangular_workspace(struct tb_device *device, const struct tb_call *call, int64_t block);

/* Runs all of a call, for which the kernels are loaded (tb_kernels_ready, tb_solve_load) and the arena is there; `keep`
 * has what it is computed from, and the copy of B that is to be, if there is one. On failure *progress tells how far it
 * has come; copies may still be under way. TB_INTERRUPTED as rounds.h has it. */
CUresult tb_triangular_run(struct tb_device *device, const struct tb_call *call, const struct tb_triangular_plan *plan,
                           bool timed, struct tb_keep *keep, struct tb_triangular_progress *progress);

/* What the largest product of a call is computed by, where there is memory for it. */
struct tb_choice tb_triangular_choose(struct tb_device *device, const struct tb_call *call);

/* What its largest product was computed by, for the verbose line. */
const char *tb_triangular_kernel(const struct tb_device *device);

#endif
