/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A batch of random products, called through any of its symbols, and what its products give one by one through
 * cblas_?gemm of the same library. Everything that C's memory holds is compared, padding included, bit by bit. Any
 * number of threads, with calls of their own.
 */
#ifndef TST_BATCH_CALL_H
#define TST_BATCH_CALL_H

#include "abi.h"

/* By number, CBLAS's then Fortran's letters: 0 N, 1 T, 2 C. */
struct batch_group {
  int ta, tb;
  int64_t m, n, k, pad; /* pad: elements behind the least leading dimensions */
  double alpha[2], beta[2];
  int64_t count;
};

/* How the products' matrices lie. */
enum batch_layout {
  BATCH_APART,   /* each in memory of its own */
  BATCH_SHARED_A /* all of a group have one A */
};

struct batch_matrices {
  char *a, *b, *c, *expected;
  size_t c_bytes;
};

struct batch_call {
  enum tst_type type;
  bool row_major;
  bool whole; /* the matrices' values are whole numbers: sums have the same bits in any order */
  enum batch_layout layout;
  const struct batch_group *group;
  int groups;
  int64_t products;
  struct batch_matrices *matrices;
  void **device[3]; /* where else the matrices lie, of a, b and c; NULL: there */
};

int64_t batch_bytes(enum tst_type type);

/* Makes the matrices, of values in (-1, 1) unless they are whole, and what each product gives alone. */
void batch_create(struct batch_call *call, uint64_t seed);
void batch_destroy(struct batch_call *call);

/* Calls the symbol, "cblas_sgemm_batch64_" or "dgemm_batch_"; and its strided kin, of one group whose matrices the call
 * lays out a stride apart and takes back. */
void batch_run(const struct batch_call *call, const char *symbol);
void batch_run_strided(const struct batch_call *call, const char *symbol, int64_t gap);

/* Prints the first product whose C is another, and returns false. */
bool batch_is_right(const struct batch_call *call);

/* Sizes of an operand of a group in memory. */
int64_t batch_stored_elems(const struct batch_call *call, const struct batch_group *g, int operand);
int64_t batch_ld(const struct batch_call *call, const struct batch_group *g, int operand);

#endif
