/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What computes when the CPU does: the processor, the cores that this process may use, the CPU BLAS and its threads.
 * Measurements are kept by it, and hold for it. Thread-safe; waits for the loader, so call with no lock in hand.
 */
#ifndef TB_CPU_SIDE_H
#define TB_CPU_SIDE_H

#include "blas/symbols.h"

struct tb_cpu_side {
  int cores;
  char processor[128]; /* "Intel(R) Xeon(R) Processor, 16 cores" */
  char blas[512];      /* "/usr/lib/.../libopenblas.so.0, OpenBLAS 0.3.21 ..., 16 threads" */
};

/* Cores that the process may use, at least 1. */
int tb_cpu_side_cores(void);

/* Looks at what answers this symbol, and remembers whom to ask for its threads. */
void tb_cpu_side_look(struct tb_cpu_side *side, enum tb_symbol symbol);

/* Threads of the CPU BLAS, as it says now; 0: it was not looked at yet, or does not tell. Takes some nanoseconds. */
int tb_cpu_side_threads(void);

#endif
