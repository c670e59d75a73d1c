/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A random call of gemm in one of its types: what is asked, in which memory its operands lie and how they share it, and
 * what they hold. All of it follows from one seed. A part is a real number: an element, or half of a complex one. Not
 * thread safe.
 */
#ifndef FUZZ_CALL_H
#define FUZZ_CALL_H

#include "abi.h"
#include "blocks.h"
#include "chance.h"
#include "values.h"

/* Where A, B and C stand to each other. */
enum fuzz_layout {
  FUZZ_APART,       /* a block each */
  FUZZ_A_OVER_B,    /* A and B begin at the same place, or nearly so */
  FUZZ_ONE_BLOCK,   /* one behind the other */
  FUZZ_SUBMATRICES, /* side by side in one matrix: between C's lines stand A's and B's */
  FUZZ_LAYOUTS
};

struct fuzz_call {
  const struct tst_symbol *symbol;
  struct tst_problem p;
  enum fuzz_values values;
  enum fuzz_layout layout;
  int64_t stride_k;         /* A is 0 but for every so many k */
  int64_t amplitude[3];     /* of FUZZ_INTEGERS, in A, B and C */
  enum fuzz_kind kind[3];   /* of A, B and C */
  bool fresh[3];            /* memory that no call had before */
  int64_t len[3], lines[3]; /* as stored */
  int64_t lead[3];          /* parts before the operand: guard, and how it is aligned */
  bool c_unread;            /* beta is 0, and C holds NaN */
  struct fuzz_options options;
};

/* The same for the same seed and limits. */
void fuzz_draw(struct fuzz_call *call, uint64_t *rng, const struct fuzz_limits *limits);

/* Where the operands of a call are. */
struct fuzz_operands {
  struct fuzz_block *block[3]; /* some may be one and the same */
  int64_t at[3];               /* bytes from the block's start */
};

/* Takes blocks, lays the operands out, fills images and sends them. */
void fuzz_place(struct fuzz_operands *x, const struct fuzz_call *call, uint64_t *rng);

/* Gives all blocks back. */
void fuzz_drop_blocks(void);

#endif
