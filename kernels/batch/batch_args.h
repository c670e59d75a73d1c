/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many small products by one launch: the argument block of the kernels in this folder, and the list in device memory
 * that it points to, shared by host C and CUDA C.
 *
 *   D = alpha * op(A) op(B)      for each product of the list, as struct tb_sgemm_args and tb_fp64_args have it
 *
 * A product is computed by the tiles of the family that computes it alone, in the same order of summation, with k
 * whole: its bits are those of a launch of its own.
 *
 * Addresses are counted in bytes from `base`, so that a list can be written before anybody knows where it will lie.
 * Where operands lie anywhere in device memory, base is NULL and the list has addresses.
 *
 * The letters of the kernels' names are the types of BLAS. tb_batch_expand and tb_batch_part make a complex product of
 * floats a real one (complex/complex_args.h), of which the list then has the real sizes; tb_batch_commit_? adds beta C
 * where C lies on the GPU.
 */
#ifndef TB_BATCH_ARGS_H
#define TB_BATCH_ARGS_H

#include <stdint.h>

struct tb_batch_product {
  int64_t a, b, d;       /* bytes from the base */
  int64_t lda, ldb, ldd; /* elements as the kernel sees them */
  int32_t m, n, k, group_k;
  double alpha[2]; /* of a float its value */
  int32_t conjugate_a, conjugate_b;
  /* expand and part: the operands as they are stored, complex; alpha beside the kernel's own factor. */
  int64_t from_a, from_b, from_lda, from_ldb; /* from_b < 0: B is used as it lies */
  double expand_alpha[2];
  int32_t along_k_a, scaled;
  /* commit */
  int64_t c, ldc;
  double beta[2];
};

struct tb_batch_args {
  const struct tb_batch_product *products; /* of this launch: blockIdx.y counts them, of expand and part blockIdx.z */
  char *base;
  int64_t count;
  /* What of the memory behind base is read, and written. Not for the kernels: who watches them is told. */
  int64_t read_bytes, write_at, write_bytes;
};

/* Tiles of D: rows of fma/registry.def and fp64/tiles.def. A block computes one. */
#define TB_BATCH_TILES 2
#define TB_BATCH_LARGE 64
#define TB_BATCH_SMALL 32

/* Threads of a block of expand, part and commit, along the rows and along the columns. */
#define TB_BATCH_THREADS_M 32
#define TB_BATCH_THREADS_N 8

/* Products of a launch: what a grid has along y and z. */
#define TB_BATCH_PRODUCTS_MAX 65535

#endif
