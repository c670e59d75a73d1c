/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Both sides in one process: TileBLAS, which is preloaded, and the OpenBLAS below it that the program is linked with.
 * For programs that steer what is preloaded (route.c, mixed.c). Not thread-safe.
 */
#ifndef TB_BENCH_SIDES_H
#define TB_BENCH_SIDES_H

#include <stdint.h>

typedef void tb_sgemm(const char *, const char *, const int *, const int *, const int *, const float *, const float *,
                      const int *, const float *, const int *, const float *, float *, const int *);

extern tb_sgemm *tb_ours, *tb_openblas;

/* Fills in the two; exits with 1 after a message when they are not both there. */
void tb_sides_find(void);

/* Sets TILEBLAS_ROUTE from now on. */
void tb_sides_route(const char *mode);

/* Calls that a GPU has computed so far. */
uint64_t tb_sides_gpu_calls(void);

#endif
