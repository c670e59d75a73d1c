/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The way of one call: what the exported functions hand a call to, and what decides, measures and records it.
 * Thread-safe.
 */
#ifndef TB_RUN_H
#define TB_RUN_H

#include "blas/call.h"
#include "route/route.h"

/* A call under way on the CPU. */
struct tb_cpu_call {
  struct tb_decision decision;
  double started; /* seconds; 0 when the call is not timed */
};

/*
 * Answers the call on the GPU and returns true; or returns false, and the caller passes its arguments to the fallback
 * between this function and tb_run_cpu_done. Either way the call is counted exactly once.
 */
bool tb_run_gpu(const struct tb_gemm *call, struct tb_cpu_call *cpu);
void tb_run_cpu_done(const struct tb_gemm *call, const struct tb_cpu_call *cpu);

/* Counts a call that the CPU BLAS is about to refuse. */
void tb_run_refused(enum tb_symbol symbol);

/* Once, however many threads come at once: complains of options; and before, if the library's constructor has not done
 * so yet, reads the options and readies fork handling. */
void tb_run_initialise(void);

#endif
