/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A product of host matrices: C = op(A) op(B) of elements of one type, column-major and without padding, in plain
 * malloc'd memory; uniform random operands. Not thread-safe.
 */
#ifndef TB_BENCH_PROBLEM_H
#define TB_BENCH_PROBLEM_H

#include "data.h"

struct tb_problem {
  enum tb_type type;
  int ta, tb, m, n, k; /* ta, tb: 1 where the operand is transposed */
  void *a, *b, *c;
};

/* C is NaN at first. */
struct tb_problem tb_problem_make(enum tb_type type, int ta, int tb, int m, int n, int k);
void tb_problem_free(const struct tb_problem *problem);

/* Leading dimensions; C's is m. */
static inline int tb_problem_lda(const struct tb_problem *p) { return p->ta ? p->k : p->m; }
static inline int tb_problem_ldb(const struct tb_problem *p) { return p->tb ? p->n : p->k; }

/* Floating-point operations of it. */
static inline double tb_problem_flops(const struct tb_problem *p) {
  return tb_type_flops(p->type) * p->m * p->n * (double)p->k;
}

/* C becomes NaN again: an element that is left out shows. */
void tb_problem_spoil(const struct tb_problem *problem);

/* The error of C in a sample of its rows and columns; NaN where any element of it is. And what it is of a right one at
 * most. */
struct tb_error tb_problem_error(const struct tb_problem *problem);
double tb_problem_bound_u(const struct tb_problem *problem);

/* "s", "d", "c" or "z"; false: something else. */
bool tb_type_parse(const char *text, enum tb_type *type);

#endif
