/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One product by the kernels for tensor cores, called through src/select/emulated.h on the first GPU (first_gpu.h):
 * operands allocated to the element with NaN in their padding, packed whole or panel by panel, multiplied; and what the
 * answer must be, in fp64 and by one chain of fp32. For cmocka tests: a failure ends the running one. Not thread safe.
 */
#ifndef TST_EMULATED_PRODUCT_H
#define TST_EMULATED_PRODUCT_H

#include "first_gpu.h"
#include "select/emulated.h"

/* D = alpha op(A) op(B), span of k after span (0: all at once), each in `splits` parts but for the first `whole` tiles
 * (of a piece that has more). */
struct tst_emulated_problem {
  bool transpose_a, transpose_b;
  int64_t m, n, k;
  float alpha;
  int splits, whole;
  bool fast;
  int64_t span_k;
  int64_t pad;                   /* words between the lines of every matrix */
  int64_t skip;                  /* words before the first one, behind an address that is aligned */
  struct tb_tiles_wanted wanted; /* of D */
};

/* op(A)'s rows or op(B)'s columns, here and there. */
struct tst_emulated_matrix {
  float *host;
  CUdeviceptr device;
  int64_t sides, k, ld, skip;
  bool along_k; /* memory runs along k */
};

struct tst_emulated_product {
  struct tst_emulated_problem problem;
  struct tst_emulated_matrix a, b;
};

/* The value of op(A)(side, l), or of op(B)(l, side). */
typedef float tst_emulated_value(uint64_t *rng, bool of_b, int64_t side, int64_t l);

/* Opens the GPU and loads the kernels, once; to be called before the rest. The calling program is skipped (status 77)
 * where the GPU cannot run them. */
const struct tb_emulated_kernels *tst_emulated_open(void);

void tst_emulated_matrix_create(struct tst_emulated_matrix *x, int64_t sides, int64_t k, bool along_k, int64_t pad,
                                int64_t skip);
float *tst_emulated_at(const struct tst_emulated_matrix *x, int64_t side, int64_t l);
void tst_emulated_upload(const struct tst_emulated_matrix *x);
/* As tb_emulated_pack wants it, from `first_side` on. */
struct tb_emulated_operand tst_emulated_operand(const struct tst_emulated_matrix *x, bool of_b, int64_t first_side,
                                                int64_t sides);
void tst_emulated_matrix_destroy(struct tst_emulated_matrix *x);

void tst_emulated_create(struct tst_emulated_product *t, const struct tst_emulated_problem *p,
                         tst_emulated_value *value, uint64_t seed);
void tst_emulated_destroy(struct tst_emulated_product *t);

/*
 * Uploads the operands and computes D, m x n and dense, to be freed, in pieces of so many rows and columns, each from
 * panels that were packed on their own; 0: whole. What lies between D's columns and behind its last must keep its bits.
 */
float *tst_emulated_compute(const struct tst_emulated_product *t, int64_t piece_m, int64_t piece_n);

/* Which kernels had something to do in the last product: those for bf16 planes; those for plain fp32, and for how many
 * tiles, counted in each span. */
struct tst_emulated_ways {
  bool bfloat;
  int64_t again;
};
struct tst_emulated_ways tst_emulated_ways_taken(void);

/* ---- what it must be ---- */

struct tst_emulated_expected {
  double *value; /* m x n, dense */
  double *size;  /* |alpha| |A||B| */
  float *chain;  /* alpha times one chain of FMAs */
};
void tst_emulated_expect(struct tst_emulated_expected *e, const struct tst_emulated_product *t);
void tst_emulated_expected_destroy(struct tst_emulated_expected *e);

/* Errors in 2^-24 of `size`, over the elements of some rows and columns. */
struct tst_emulated_errors {
  double max, mean, bias;
};
struct tst_emulated_errors tst_emulated_errors_of(const struct tst_emulated_expected *e, const float *d, int64_t m,
                                                  int64_t first_row, int64_t end_row, int64_t first_column,
                                                  int64_t end_column);

/* Every element is the exact answer, rounded once. */
void tst_emulated_assert_exact(const struct tst_emulated_product *t, const struct tst_emulated_expected *e,
                               const float *d);

/* Inf and NaN where the exact answer has them or is too large for fp32; else within the bound that a chain of fp32 has.
 */
void tst_emulated_assert_bounded(const struct tst_emulated_product *t, const struct tst_emulated_expected *e,
                                 const float *d);

/* What the kernels for plain fp32 give, by contract_order.h: m x n, dense, to be freed. */
float *tst_emulated_plain(const struct tst_emulated_product *t);

/* Two results: the same bits, any NaN being another's equal, over the rows and columns of a rectangle. */
void tst_emulated_assert_same(const float *got, const float *want, int64_t m, int64_t first_row, int64_t end_row,
                              int64_t first_column, int64_t end_column);

#endif
