/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The argument blocks of the kernels that make a complex product of floats a real one (complex.cu), and of both
 * types' commits: structs by value, shared by
 * host C and CUDA C.
 *
 * Memory holds a complex column as reals, real and imaginary parts in turn. So C of m x n elements is a real matrix of
 * 2m x n, and B of k x n one of 2k x n. With a row of A as pairs of rows of reals,
 *
 *      | re  -im |                 one for each element of A, and (2m x 2k) times (2k x n) is C:
 *      | im   re |                 four real products, each element's terms in the order of k
 *
 * tb_?gemm_expand writes that matrix, of twice A's memory. A B whose stored columns do not run along k is no such
 * matrix; tb_?gemm_part takes its real and imaginary parts apart. A that is conjugated has its imaginary parts negated
 * here. So does the matrix for a B that is: op(B)'s imaginary parts have the other sign, which the columns of A that
 * they are multiplied by take over.
 *
 * The letters c and z of the kernels' names are float's and double's.
 */
#ifndef TB_COMPLEX_ARGS_H
#define TB_COMPLEX_ARGS_H

#include <stdint.h>

/*
 * With z = alpha x of each stored element x, of its conjugate where conjugate_a is set, and s = -1 where conjugate_b is
 * set, 1 elsewhere, an element at (row, column) becomes two pairs of reals:
 *
 *                     column 2 column of `to`     column 2 column + 1
 *      along_k = 0      re z,  im z                 -s im z,  s re z        A as it is: rows are m's, columns k's
 *      along_k = 1      re z, -s im z                  im z,  s re z        A transposed: rows are k's, columns m's
 *
 * each at rows 2 row and 2 row + 1: op(A) expanded, or its transpose. Nothing else of `to` is written.
 */
struct tb_complex_expand_args {
  const void *from; /* device pointer, aligned to a real */
  void *to;         /* likewise; does not overlap */
  int64_t from_ld;  /* complex elements between stored columns */
  int64_t to_ld;    /* reals */
  int64_t rows, columns;
  double alpha[2]; /* of a cgemm, floats' values; the caller's but for a power of 2 */
  int32_t along_k, conjugate_a, conjugate_b;
  int32_t scaled; /* 0: alpha is 1 and multiplies nothing, not even Inf and NaN */
};

/* Element (row, column) leaves its real part at (row, 2 column) of `to` and its imaginary part at (row, 2 column + 1).
 */
struct tb_complex_part_args {
  const void *from;
  void *to;
  int64_t from_ld, to_ld; /* complex elements; reals */
  int64_t rows, columns;
};

/* C = D + beta * C for complex elements, as struct tb_commit_args has it (fma/commit_args.h): beta times C by parts,
 * two products and a sum, each rounded, as copy.c does it. A beta of 1 multiplies nothing, not even Inf and NaN. */
struct tb_complex_commit_args {
  void *c; /* device pointers, aligned to a real, that do not overlap */
  const void *d;
  int64_t ldc, ldd; /* complex elements between stored columns */
  int64_t m, n;     /* each from 1 to 2^31 - 1024 */
  double beta[2];
};

/* A block's threads, along the rows and along the columns; blockIdx.x counts the rows' blocks, .y strides over columns.
 */
#define TB_COMPLEX_THREADS_M 32
#define TB_COMPLEX_THREADS_N 8

#endif
