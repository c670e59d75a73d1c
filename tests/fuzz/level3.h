/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A random call of a level-3 routine other than gemm: a triangle of C, symm and hemm, trmm and trsm, and batches. All
 * of it follows from one seed. Whatever it is, it comes to products of matrices that are symmetric, triangular or
 * neither: one, or as many as a batch has.
 *
 * What must not be read, padding and the memory around the matrices included, is garbage: NaN, Inf, numbers. So are the
 * other triangle of A, its unit diagonal, imaginary parts of a Hermitian diagonal, C where beta is 0, A and B where
 * alpha is, and outside its triangle C. A part is a real number: an element, or half of a complex one. Not thread safe.
 */
#ifndef FUZZ_LEVEL3_H
#define FUZZ_LEVEL3_H

#include "program.h"
#include "values.h"

enum fuzz_shape {
  FUZZ_GEMMT,
  FUZZ_SYRK,
  FUZZ_HERK,
  FUZZ_SYR2K,
  FUZZ_HER2K,
  FUZZ_SYMM,
  FUZZ_HEMM,
  FUZZ_TRMM,
  FUZZ_TRSM,
  FUZZ_BATCH,
  FUZZ_STRIDED
};

enum fuzz_structure { FUZZ_FULL, FUZZ_SYMMETRIC, FUZZ_HERMITIAN, FUZZ_TRIANGULAR };

/* A matrix in its block. Of a triangular C (gemmt, syrk and so on) it is triangular, too. */
struct fuzz_matrix {
  enum fuzz_structure structure;
  bool upper, unit;
  bool real_diagonal; /* imaginary parts there are neither read nor left */
  bool unread;
  int64_t rows, columns, ld;
  int64_t step, at; /* parts from the block's start, of the first of a set of matrices; then bytes, of this one */
  struct fuzz_block *block; /* NULL: there is none */
};

enum { FUZZ_A, FUZZ_B, FUZZ_C }; /* C: also the B of trmm and trsm, which have no other */

struct fuzz_product {
  int64_t m, n, k;
  char ta, tb;
  double _Complex alpha, beta;
  struct fuzz_matrix x[3];
};

enum { FUZZ_GROUPS = 4, FUZZ_PRODUCTS = 48, FUZZ_SETS = 2 };

struct fuzz_level3 {
  char name[40];
  enum fuzz_shape shape;
  enum tst_type type;
  bool cblas, wide;
  int number; /* of the tests' lists of triangle_call.h and sided_call.h */
  bool row_major;
  char side, uplo, diag;
  enum fuzz_values values;
  bool grows; /* a triangle that lets a solution grow */
  int64_t amplitude[3];
  int products;
  struct fuzz_product product[FUZZ_PRODUCTS];
  int groups, group_size[FUZZ_GROUPS];
  int64_t stride[3]; /* of FUZZ_STRIDED, in elements */
  bool together;     /* side by side in one matrix, as a LAPACK has them: between C's lines stand A's and B's */
  enum fuzz_kind kind[FUZZ_SETS][3];
  bool fresh[FUZZ_SETS][3];
  int64_t lead[FUZZ_SETS][3]; /* parts before the first matrix */
  struct fuzz_options options;
};

/* The same for the same seed and limits. */
void fuzz_level3_draw(struct fuzz_level3 *call, uint64_t *rng, const struct fuzz_limits *limits);

/* Takes blocks, lays the matrices out, fills images and sends them. Gives all blocks back. */
void fuzz_level3_place(struct fuzz_level3 *call, uint64_t *rng);
void fuzz_level3_drop(void);

/* The blocks that it uses, and of which operand each is: six at most. */
int fuzz_level3_blocks(const struct fuzz_level3 *call, struct fuzz_block *used[], int which[]);

void fuzz_level3_make(const struct fuzz_level3 *call);

/* After the call: NULL when all is well, else what is wrong, in static memory. */
void fuzz_level3_begin(void);
const char *fuzz_level3_verify(const struct fuzz_level3 *call, const struct fuzz_asked *asked);
struct fuzz_compared fuzz_level3_compared(void);

/* ---- what its parts share ---- */

static inline bool fuzz_is_of_rank_2k(enum fuzz_shape shape) { return shape == FUZZ_SYR2K || shape == FUZZ_HER2K; }
static inline bool fuzz_has_side(enum fuzz_shape shape) { return shape >= FUZZ_SYMM && shape <= FUZZ_TRSM; }
static inline bool fuzz_is_triangular(enum fuzz_shape shape) { return shape == FUZZ_TRMM || shape == FUZZ_TRSM; }
static inline bool fuzz_lacks_b(enum fuzz_shape shape) {
  return shape == FUZZ_SYRK || shape == FUZZ_HERK || fuzz_is_triangular(shape);
}
static inline bool fuzz_is_batch(enum fuzz_shape shape) { return shape >= FUZZ_BATCH; }
static inline char fuzz_upper(char letter) { return (char)(letter & ~0x20); } /* ASCII */
static inline bool fuzz_is_left(const struct fuzz_level3 *call) { return fuzz_upper(call->side) == 'L'; }

/* What there is to multiply. */
static inline bool fuzz_has_work(const struct fuzz_product *p) {
  return p->m > 0 && p->n > 0 && p->k > 0 && p->alpha != 0;
}

/* Lines as stored, and their length. */
static inline int64_t fuzz_lines(const struct fuzz_level3 *call, const struct fuzz_matrix *x) {
  return call->row_major ? x->rows : x->columns;
}
static inline int64_t fuzz_length(const struct fuzz_level3 *call, const struct fuzz_matrix *x) {
  return call->row_major ? x->columns : x->rows;
}

/* Whether element (i, j) is stored; of any other nothing is read or written. */
static inline bool fuzz_is_stored(const struct fuzz_matrix *x, int64_t i, int64_t j) {
  return x->structure == FUZZ_FULL || (i == j ? !x->unit : (i < j) == x->upper);
}

/* Where it lies in an image, or in memory. */
static inline char *fuzz_element(const struct fuzz_level3 *call, const struct fuzz_matrix *x, char *memory, int64_t i,
                                 int64_t j) {
  const int64_t bytes = tst_parts(call->type) * tst_part_bytes(call->type);
  return memory + x->at + (call->row_major ? j + i * x->ld : i + j * x->ld) * bytes;
}
double _Complex fuzz_read(const struct fuzz_level3 *call, const struct fuzz_matrix *x, char *memory, int64_t i,
                          int64_t j);
void fuzz_write(const struct fuzz_level3 *call, const struct fuzz_matrix *x, char *memory, int64_t i, int64_t j,
                double _Complex value);

/* Element (i, j) of op(x) as it is meant, of x in that memory. */
double _Complex fuzz_meant(const struct fuzz_level3 *call, const struct fuzz_matrix *x, char trans, char *memory,
                           int64_t i, int64_t j);

#endif
