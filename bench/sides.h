/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Both sides in one process: TileBLAS, which is preloaded, and the OpenBLAS below it that the program is linked with.
 * For programs that steer what is preloaded (route.c, mixed.c). Not thread-safe.
 */
#ifndef TB_BENCH_SIDES_H
#define TB_BENCH_SIDES_H

#include <stdint.h>

#include "problem.h"

/* Of whichever type, as Fortran calls it. */
typedef void tb_gemm(const char *, const char *, const int *, const int *, const int *, const void *, const void *,
                     const int *, const void *, const int *, const void *, void *, const int *);

extern tb_gemm *tb_ours, *tb_openblas;

/* Fills in the two for a type; exits with 1 after a message when they are not both there. */
void tb_sides_find(enum tb_type type);

/* C of a product is computed by a side; is right in a sample of its rows and columns, and nowhere NaN. */
void tb_problem_compute(const struct tb_problem *problem, tb_gemm *side);
bool tb_problem_is_right(const struct tb_problem *problem);

/* Sets TILEBLAS_ROUTE from now on. */
void tb_sides_route(const char *mode);

/* Calls that a GPU has computed so far. */
uint64_t tb_sides_gpu_calls(void);

#endif
