/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parts of trmm and trsm as calls of their own. Rows are those of B where op(A) stands on the left; where it stands on
 * the right B's columns take their place. Pure; thread-safe.
 */
#ifndef TB_BLAS_TRIANGULAR_H
#define TB_BLAS_TRIANGULAR_H

#include "blas/call.h"

/* B's columns where op(A) stands on the left, and else its rows: the sides, which have nothing to do with each other;
 * and those of the whole that a call may be a part of, by which it is decided how an element is computed. */
static inline int64_t tb_triangular_sides(const struct tb_call *call) { return call->on_right ? call->m : call->n; }
static inline int64_t tb_triangular_whole_sides(const struct tb_call *call) {
  return call->whole_sides > 0 ? call->whole_sides : tb_triangular_sides(call);
}

/* The whole that a call is a part of, as far as its sizes tell of it. */
static inline struct tb_call tb_triangular_whole(const struct tb_call *call) {
  struct tb_call whole = *call;
  *(call->on_right ? &whole.m : &whole.n) = tb_triangular_whole_sides(call);
  whole.whole_sides = 0;
  return whole;
}

/* The same routine for some of the sides. */
struct tb_call tb_triangular_part(const struct tb_call *call, int64_t first, int64_t size);

/* The same routine with the block of A on the diagonal, and the rows of B, that begin there. */
struct tb_call tb_triangular_diagonal(const struct tb_call *call, int64_t first, int64_t size);

/* B's rows from `target` on = alpha times what A has beside the diagonal times the rows from `source` on, + beta times
 * what they were. */
struct tb_call tb_triangular_update(const struct tb_call *call, int64_t target, int64_t target_size, int64_t source,
                                    int64_t source_size, union tb_scalar alpha, union tb_scalar beta);

/* Whether kernels compute all of it as one product, that knows of the triangle. */
static inline bool tb_triangular_is_one_product(const struct tb_call *call) {
  return call->recipe == TB_TRIANGULAR_MULTIPLY && tb_type_is_double(call->type);
}

/* Whether B's rows are done from the first to the last where they are done one after another: a row of a solve needs
 * those before it, one of a product those behind it, and then is none of theirs. Else it is the other way round. */
static inline bool tb_triangular_is_downward(const struct tb_call *call) {
  const bool lower = ((call->a.uplo == TB_LOWER) != call->a.transposed) != call->on_right;
  return lower == (call->recipe == TB_TRIANGULAR_SOLVE);
}

#endif
