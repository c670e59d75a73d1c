/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A batch: many products by one call, in groups of one shape each, or a single group whose matrices lie a stride apart.
 * What a program passed, what is refused of it, and its products one after another as calls. Pure; thread-safe.
 */
#ifndef TB_BATCH_H
#define TB_BATCH_H

#include "blas/call.h"

/* As passed. Integers are as wide as the caller's; transposes are CBLAS's numbers, ints, or Fortran's letters. */
struct tb_batch_arguments {
  int layout; /* of a CBLAS call; Fortran's are TB_COL_MAJOR */
  bool strided, wide;
  const void *transa, *transb, *m, *n, *k, *alpha, *lda, *ldb, *beta, *ldc; /* arrays, an item for each group */
  const void *a, *b, *c;                /* arrays of addresses, one for each product; strided: the first matrices */
  int64_t stride_a, stride_b, stride_c; /* strided: elements from one to the next */
  int64_t groups;
  const void *group_size; /* an array */
};

struct tb_batch {
  enum tb_symbol symbol;
  enum tb_type type;
  const struct tb_batch_arguments *made;
  int64_t products;
  double flops, up_bytes, down_bytes; /* of all that have something to multiply; operands as they are read */
  bool plain; /* every group has products, and every product something to multiply and to write */
};

/* What tb_batch_from says of a batch that is not refused: numbers begin with 0, an unknown layout. */
#define TB_BATCH_ACCEPTED (-1)

/*
 * Fills *batch, or returns what OpenBLAS would name: the number of the first group's first wrong argument among gemm's
 * in Fortran's order, of a row-major call in the transposed product's. Then nothing of the batch is computed. A
 * negative number of groups or products counts as none.
 */
int tb_batch_from(struct tb_batch *batch, enum tb_symbol symbol, const struct tb_batch_arguments *arguments);

/* Goes over the products. */
struct tb_batch_cursor {
  const struct tb_batch *batch;
  int64_t number;              /* of the product in `call`; -1 ahead of the first */
  int64_t group, index, count; /* its group, its place there, of how many */
  struct tb_call call;         /* of the routine gemm in the batch's spelling */
};
void tb_batch_begin(struct tb_batch_cursor *cursor, const struct tb_batch *batch);

/* The next product; false: there are no more. */
bool tb_batch_next(struct tb_batch_cursor *cursor);

/* What is to become of each product, and whether it has: who completes one says so here. */
enum tb_batch_state {
  TB_BATCH_DONE,     /* C has it, or there is nothing to do */
  TB_BATCH_STAGED,   /* small, in ordinary memory */
  TB_BATCH_IN_PLACE, /* small, with everything in device memory */
  TB_BATCH_ALONE,    /* a call of its own, on a GPU */
  TB_BATCH_ON_CPU    /* a call of its own, on the CPU */
};

#endif
