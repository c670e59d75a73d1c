/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many small products by one launch (kernels/batch/batch_args.h): which kernel each product of a list takes, and the
 * launches of a list. The same tiles compute a product alone, in the same order of summation. Under offload.c's lock.
 */
#ifndef TB_SELECT_BATCH_H
#define TB_SELECT_BATCH_H

#include "batch/batch_args.h"
#include "blas/call.h"
#include "cuda/driver.h"

/* Kernels that a product may want: by its transposes, and whether its operands can be copied 16 bytes at a time. */
#define TB_BATCH_VARIANTS 8

struct tb_batch_kernels {
  CUmodule module[3];                                                /* of floats, of doubles, of complex doubles */
  CUfunction multiply[3][TB_BATCH_TILES][TB_BATCH_VARIANTS];         /* the same; the large tile first */
  int shared_bytes[3][TB_BATCH_TILES], sum_bytes[3][TB_BATCH_TILES]; /* of a block; more for several groups of k */
  CUfunction expand, part, commit[TB_TYPE_COUNT];
  int64_t block_shared_bytes; /* that the device has for a block */
};

/* Loads what batches of this type want, once. Nothing is left behind on failure. */
CUresult tb_batch_load(struct tb_batch_kernels *batch, enum tb_type type, int64_t block_shared_bytes);

/* Nothing may be running. Does nothing where nothing is loaded. */
void tb_batch_unload(struct tb_batch_kernels *batch);

/* A product whose operands and result lie so many bytes behind a base, or with base 0 at these addresses. A product of
 * complex floats has room for A made real at real_a, with columns of 2 m reals, or 2 k where it is transposed; and for
 * a transposed B at real_b, with columns of n reals. */
struct tb_batch_place {
  uint64_t base;
  int64_t a, b, d, lda, ldb, ldd; /* leading dimensions in the call's elements */
  int64_t real_a, real_b, real_lda, real_ldb;
  bool padded; /* m and n may be read up to the next multiple of 16 bytes */
};
void tb_batch_product_of(struct tb_batch_product *product, const struct tb_call *call,
                         const struct tb_batch_place *place);

/* Its variant. */
int tb_batch_variant_of(const struct tb_call *call, const struct tb_batch_place *place);

/* Products of one variant that follow each other in the list. */
struct tb_batch_run {
  enum tb_type type;
  int variant;
  const struct tb_batch_product *list; /* on the host */
  struct tb_batch_args args;           /* of these products */
};

/* Each enqueues a launch: of complex floats first what makes operands real. */
CUresult tb_batch_make_real(const struct tb_batch_kernels *batch, const struct tb_batch_run *run, CUstream stream);
CUresult tb_batch_multiply(const struct tb_batch_kernels *batch, const struct tb_batch_run *run, CUstream stream);

/* C = D + beta C for the products of the list that have a C. */
CUresult tb_batch_commit(const struct tb_batch_kernels *batch, const struct tb_batch_run *run, CUstream stream);

#endif
