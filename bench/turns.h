/* SPDX-License-Identifier: BSD-3-Clause */
/* What turns.c and turns.cu agree on. */
#ifndef TB_BENCH_TURNS_H
#define TB_BENCH_TURNS_H

/* Of the one block, and loads of a thread: so many in a round, unrolled, and so many rounds. */
#define TB_TURNS_THREADS 512
#define TB_TURNS_LOADS 32
#define TB_TURNS_ROUNDS 64

#endif
