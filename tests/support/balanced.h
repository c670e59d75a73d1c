/* SPDX-License-Identifier: BSD-3-Clause */
/* A BLAS call that must leave the calling thread's CUDA contexts as it found them. Any number of threads may call. */
#ifndef TST_BALANCED_H
#define TST_BALANCED_H

#include "abi.h"

/* tst_call; ends the process with a line on stderr when another context is current behind it than before, or the
 * thread's stack of contexts is higher or lower. Looks only where the process has the fake driver. */
void tst_call_balanced(const struct tst_symbol *symbol, void *function, const struct tst_problem *p, const void *a,
                       const void *b, void *c);

/* The same of any call. */
void tst_balanced(void (*call)(void *), void *context);

#endif
