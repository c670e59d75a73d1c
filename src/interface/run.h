/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The way of one call: what the exported functions hand a call to, and what decides, measures and records it.
 * Thread-safe.
 */
#ifndef TB_RUN_H
#define TB_RUN_H

#include "blas/arguments.h"

/*
 * Answers a call whose integers are of the caller's width, and counts it once: the arguments are checked, the GPU or
 * the CPU BLAS is asked, and what it took is learned. Arguments that the reference refuses go to the CPU BLAS, which
 * says so as the program expects. `caller`: an address in the calling code.
 */
void tb_run(enum tb_symbol symbol, const void *caller, const struct tb_arguments *arguments);

/* Once, however many threads come at once: complains of options; and before, if the library's constructor has not done
 * so yet, reads the options and readies fork handling. */
void tb_run_initialise(void);

#endif
