/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One call of a routine of level 3: its operands, who computes it, and how far the result is from the exact one. What
 * the parts of level3.c share. Column-major, without padding, alpha = 1 and beta = 0. Not thread-safe.
 *
 *   gemm          C = A B
 *   gemmt         a triangle of C = A B^T                         (transposed: A^T B)
 *   syrk, herk    a triangle of C = A A^T, A A^H                  (A^T A, A^H A)
 *   syr2k, her2k  a triangle of C = A B^T + B A^T, A B^H + B A^H  (A^T B + B^T A, A^H B + B^H A)
 *   symm, hemm    C = A B                                         (on the right: B A)
 *   trmm, trsm    C = op(A) B; the C of op(A) C = B               (B op(A); C op(A) = B)
 */
#ifndef TB_BENCH_LEVEL3_H
#define TB_BENCH_LEVEL3_H

#include "data.h"

#include <stdio.h>

enum tb_form { TB_FORM_GEMM, TB_FORM_GEMMT, TB_FORM_RANK_K, TB_FORM_RANK_2K, TB_FORM_SYMM, TB_FORM_TRMM, TB_FORM_TRSM };

struct tb_level3_routine {
  const char *name; /* without the type's letter */
  enum tb_form form;
  bool hermitian; /* of complex types alone */
};
enum { TB_LEVEL3_ROUTINES = 10 };
extern const struct tb_level3_routine tb_level3_routines[TB_LEVEL3_ROUTINES]; /* gemm first, trsm last */

struct tb_level3 {
  const struct tb_level3_routine *routine;
  enum tb_type type;
  bool right, upper, unit; /* where they say something */
  char trans;              /* N, T or C: what the routine is called with */
  int m, n, k;             /* of C and of the sums; of symm, trmm and trsm k is the order of A */
  void *a, *b, *c;         /* the host's; trmm and trsm find B in c */
};

/* Of this order, with as many columns of B (on the right rows) or as long sums as `sides`. The variant is a side, a
 * triangle, a transpose and a diagonal: "LLNN"; each routine takes what it has. Without operands. */
struct tb_level3 tb_level3_make(const struct tb_level3_routine *routine, enum tb_type type, const char variant[4],
                                int order, int sides);

static inline bool tb_level3_in_place(const struct tb_level3 *x) {
  return x->routine->form == TB_FORM_TRMM || x->routine->form == TB_FORM_TRSM;
}
enum tb_region_of tb_level3_region(const struct tb_level3 *x); /* what is computed of C */

/* Rows and columns as they lie in memory; B has none where the routine has no B. */
struct tb_extent {
  int rows, columns;
};
struct tb_extent tb_level3_a(const struct tb_level3 *x), tb_level3_b(const struct tb_level3 *x);
static inline size_t tb_extent_elems(struct tb_extent e) { return (size_t)e.rows * (size_t)e.columns; }

/* As BLAS counts them: 2 a term, of complex types 8. Terms are m n k; n^2 k / 2 of gemmt, syrk and herk, n^2 k of syr2k
 * and her2k; and half of m n k of trmm and trsm. */
double tb_level3_flops(const struct tb_level3 *x);

/* The fewest bytes that go up, and down: of a triangle those that are stored. */
double tb_level3_up_bytes(const struct tb_level3 *x), tb_level3_down_bytes(const struct tb_level3 *x);

/* ---- who computes ---- */

/* A Fortran function of whichever routine; NULL: the library, or what the program would call, has none. */
typedef void tb_level3_function(void);
tb_level3_function *tb_level3_find(void *library, const struct tb_level3 *x);

/* Calls it; of the operands it passes the addresses, which may be a GPU's. */
void tb_level3_call(const struct tb_level3 *x, tb_level3_function *function, const void *a, const void *b, void *c);

/* ---- level3_data.c ---- */

/* Memory for the operands of each of the routines, and C. */
void tb_level3_alloc(struct tb_level3 *operands, enum tb_type type, int order, int sides);
void tb_level3_free(struct tb_level3 *operands);

/*
 * Draws A and B. Elements of integers are at most so large that sums are exact. trsm's triangle is strictly diagonally
 * dominant: an element of the diagonal is twice the largest sum of the sizes beside it in its row or its column, or
 * twice 1, times a factor of 1 +- 1/16. Where the diagonal counts as ones, all of A is made smaller instead.
 */
void tb_level3_fill(const struct tb_level3 *x, enum tb_data_kind kind, unsigned draw);

/* C becomes B where the routine overwrites it, else NaN. */
void tb_level3_prepare_c(const struct tb_level3 *x);

/* The error of C, in a sample of rows and columns, over |A||B|; of trsm the residual B - op(A) C over |op(A)||C|. NaN
 * where any computed element of C is. And what of a right one it is at most. */
struct tb_error tb_level3_error(const struct tb_level3 *x);
double tb_level3_bound_u(const struct tb_level3 *x);

/* ---- the parts ---- */

enum { TB_LEVEL3_SIZES = 16 };
struct tb_level3_options {
  const char *types, *routines, *variant, *label;
  bool peers, fresh_csv;
  int sides, rounds, draws, sizes, size[TB_LEVEL3_SIZES];
  double budget_s;
  FILE *csv; /* NULL: none */
};
bool tb_level3_wants(const struct tb_level3_options *o, const struct tb_level3_routine *routine, enum tb_type type);

/* False: a result of ours was wrong. */
bool tb_level3_resident(const struct tb_level3_options *o), tb_level3_errors(const struct tb_level3_options *o);

#endif
