/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The argument blocks of the kernels for triangles where they lie on the GPU (triangle.cu): structs by value, shared by
 * host C and CUDA C. First, those that commit a triangle of C.
 *
 *   C = D + beta * C      column-major, m x n, of which element (i, j) is the triangle's if
 *                         i <= j + diagonal (upper), i >= j + diagonal (lower)
 *
 * A product and a sum, each rounded, as the host's commit does it (src/pipeline/copy.h), so that both give the same
 * bits. With beta = 0, C is not read. Without D (NULL), C = beta * C. A complex beta of 1 multiplies nothing, not even
 * Inf and NaN. A Hermitian C has a real beta, which multiplies both parts, and on the diagonal an imaginary part of 0.
 * Elements outside the triangle are neither read nor written, of C and of D.
 *
 * The letters s, d, c and z of the kernels' names are the types of BLAS; a complex element is a real and an imaginary
 * part.
 */
#ifndef TB_TRIANGLE_ARGS_H
#define TB_TRIANGLE_ARGS_H

#include <stdint.h>

struct tb_triangle_commit_args {
  void *c; /* device pointers, aligned to a real, that do not overlap */
  const void *d;
  int64_t ldc, ldd; /* elements between stored columns */
  int64_t m, n;     /* each from 1 to 2^31 - 1024 */
  int64_t diagonal;
  double beta[2]; /* of a single-precision C, floats' values */
  int32_t lower, hermitian;
};

/*
 * The kernels that make a general panel of a matrix of which a triangle is stored (tb_triangle_mirror_s and its like):
 *
 *   to(i, j) = A(i, j), m x n      element (i, j) is stored if i <= j + diagonal (upper), i >= j + diagonal (lower);
 *                                  the others are their mirror images: A(i, j) = A(j + diagonal, i - diagonal)
 *
 * in from's counting, whose (0, 0) the panel begins with, stored or not. Of a Hermitian A they are the images'
 * conjugates, and imaginary parts on the diagonal are 0. What is not stored is not read.
 */
struct tb_triangle_mirror_args {
  void *to; /* device pointers, aligned to a real, that do not overlap */
  const void *from;
  int64_t to_ld, from_ld; /* elements between columns */
  int64_t m, n;           /* each from 1 to 2^31 - 1024 */
  int64_t diagonal;
  int32_t lower, hermitian;
};

/* Sides of the part of `to` that a block makes at a time; blockIdx.x counts those of rows, .y strides over columns. */
#define TB_TRIANGLE_MIRROR_TILE 32

/* A block's threads, along the rows and along the columns; blockIdx.x counts the rows' blocks, .y strides over columns.
 */
#define TB_TRIANGLE_THREADS_M 32
#define TB_TRIANGLE_THREADS_N 8

#endif
