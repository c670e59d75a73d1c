/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operands that come back unchanged in calls which the CPU is sooner at only because they would have to go up: if the
 * GPU keeps them (cache/), it may be sooner. A product of a few rows by a large matrix is such a call.
 *
 * Rent or buy: what the calls of an operand would have gained is added up. When it comes to what it costs to find out,
 * some calls go to the GPU, which keeps what comes back; if it does, they stay there, else the next attempt waits for
 * twice as much. An operand is known again by its place, its shape and a sample of its lines; the sample proves nothing
 * and need not, for the GPU's side proves before it uses a copy.
 *
 * Thread-safe. Touches no GPU; reads some lines of the operand.
 */
#ifndef TB_STAYING_H
#define TB_STAYING_H

#include "blas/call.h"
#include "cache/proof.h"

/* Of a call on pageable memory: which of its operands might stay, the larger one. */
enum tb_stay { TB_NONE_STAYS, TB_A_STAYS, TB_B_STAYS };
enum tb_stay tb_staying_operand(const struct tb_call *call);

/* What such a call takes, as predicted: on the CPU; on the GPU, and there with the operand in place; and what opening
 * the GPU takes, 0 if it is open. */
struct tb_staying_times {
  double cpu_seconds, gpu_seconds, kept_seconds, open_seconds;
};

/* Whether it is to go to the GPU, for that operand. What it takes there, as far as it is known, replaces kept_seconds.
 */
bool tb_staying_decide(const struct tb_call *call, enum tb_stay which, struct tb_staying_times *times);

/* It has been there, or could not be (TB_NOT_KEPT): what became of the operand, and what the call took. Of others,
 * TB_NONE_STAYS, nothing is learned. */
void tb_staying_learn(const struct tb_call *call, enum tb_stay which, enum tb_proof proof, double seconds);

void tb_staying_after_fork(void);

#endif
