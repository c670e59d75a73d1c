/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SuiteSparse's CHOLMOD factors a sparse matrix, the Laplacian of a grid in three dimensions, by supernodes: dense
 * blocks that it hands to syrk or herk, gemm and trsm. Of numbers that are real, and of complex ones. The solution must
 * have a small residual. Prints lines "products ROUTINE N": each supernode but the last has rows below its diagonal
 * block, so there are as many solves with it at least.
 */
#include <cholmod.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 7, ORDER = SIDE * SIDE * SIDE };

static void put(cholmod_triplet *t, int i, int j, double re, double im) {
  const size_t at = t->nnz++;
  ((int *)t->i)[at] = i, ((int *)t->j)[at] = j;
  if (t->xtype == CHOLMOD_REAL)
    ((double *)t->x)[at] = re;
  else
    ((double *)t->x)[2 * at] = re, ((double *)t->x)[2 * at + 1] = im;
}

/* The lower triangle; a complex one's neighbours differ by a phase, so that it is Hermitian. */
static cholmod_sparse *laplacian(int xtype, cholmod_common *c) {
  static const int steps[3] = {1, SIDE, SIDE * SIDE};
  cholmod_triplet *t = cholmod_allocate_triplet(ORDER, ORDER, 4 * ORDER, -1, xtype, c);
  for (int i = 0; i < ORDER; i++) {
    put(t, i, i, 6.5, 0);
    for (int d = 0; d < 3; d++)
      if (i / steps[d] % SIDE + 1 < SIDE) put(t, i + steps[d], i, -0.8, 0.6);
  }
  cholmod_sparse *a = cholmod_triplet_to_sparse(t, 0, c);
  cholmod_free_triplet(&t, c);
  return a;
}

/* Prints the supernodes, and returns 0; or 1. */
static int solve(int xtype, const char letter, cholmod_common *c) {
  double one[2] = {1, 0}, minus[2] = {-1, 0};
  cholmod_sparse *a = laplacian(xtype, c);
  cholmod_factor *l = cholmod_analyze(a, c);
  cholmod_dense *b = cholmod_ones(ORDER, 3, xtype, c);
  if (!cholmod_factorize(a, l, c) || !l->is_super || c->status != CHOLMOD_OK) return 1;
  cholmod_dense *x = cholmod_solve(CHOLMOD_A, l, b, c);
  cholmod_dense *residual = cholmod_copy_dense(b, c);
  cholmod_sdmult(a, 0, minus, one, x, residual, c);
  const double norm = cholmod_norm_dense(residual, 0, c), bound = 1e-13 * cholmod_norm_dense(x, 0, c);
  if (!(norm <= bound)) printf("residual %g, bound %g\n", norm, bound);
  printf("products %c%s 1\nproducts %cgemm 1\nproducts %ctrsm %d\n", letter, xtype == CHOLMOD_REAL ? "syrk" : "herk",
         letter, letter, (int)l->nsuper - 1);
  cholmod_free_dense(&x, c);
  cholmod_free_dense(&b, c);
  cholmod_free_dense(&residual, c);
  cholmod_free_factor(&l, c);
  cholmod_free_sparse(&a, c);
  return !(norm <= bound);
}

int main(void) {
  cholmod_common c;
  cholmod_start(&c);
  c.supernodal = CHOLMOD_SUPERNODAL;
  const int wrong = solve(CHOLMOD_REAL, 'd', &c) || solve(CHOLMOD_COMPLEX, 'z', &c);
  cholmod_finish(&c);
  return wrong;
}
