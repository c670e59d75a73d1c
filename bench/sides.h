/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Both sides in one process: TileBLAS, which is preloaded, and the OpenBLAS below it that the program is linked with.
 * And the products that they are given. For programs that steer what is preloaded (route.c, mixed.c). Not thread-safe.
 */
#ifndef TB_BENCH_SIDES_H
#define TB_BENCH_SIDES_H

#include <stdint.h>

typedef void tb_sgemm(const char *, const char *, const int *, const int *, const int *, const float *, const float *,
                      const int *, const float *, const int *, const float *, float *, const int *);

extern tb_sgemm *tb_ours, *tb_openblas;

/* Fills in the two; exits with 1 after a message when they are not both there. */
void tb_sides_find(void);

/* C = op(A) op(B), column-major and without padding, in plain malloc'd memory; uniform random operands, C NaN at first.
 */
struct tb_problem {
  int ta, tb, m, n, k; /* ta, tb: 1 where the operand is transposed */
  float *a, *b, *c;
};
struct tb_problem tb_problem_make(int ta, int tb, int m, int n, int k);
void tb_problem_free(const struct tb_problem *problem);

/* C becomes NaN again; is computed by a side; is right in a sample of its rows and columns, and nowhere NaN. */
void tb_problem_spoil(const struct tb_problem *problem);
void tb_problem_compute(const struct tb_problem *problem, tb_sgemm *side);
int tb_problem_is_right(const struct tb_problem *problem);

/* Sets TILEBLAS_ROUTE from now on. */
void tb_sides_route(const char *mode);

/* Calls that a GPU has computed so far. */
uint64_t tb_sides_gpu_calls(void);

#endif
