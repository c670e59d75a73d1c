/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The argument block of tb_sgemm_commit, one struct by value, shared by host C and CUDA C: what the host does when it
 * commits a tile (src/pipeline/copy.h), for a C that lies where the GPU computes.
 *
 *   C = D + beta * C      column-major, m x n; a product and a sum, each rounded, so that both commits give the same
 * bits
 *
 * With beta = 0, C is not read. Without D (NULL), C = beta * C. Nothing outside the stated shape is read or written.
 */
#ifndef TB_COMMIT_ARGS_H
#define TB_COMMIT_ARGS_H

#include <stdint.h>

struct tb_commit_args {
  float *c; /* device pointers, 4-byte aligned, that do not overlap */
  const float *d;
  int64_t ldc, ldd; /* elements between stored columns */
  int64_t m, n;     /* each from 1 to 2^31 - 1024 */
  float beta;
};

/* A block's threads, along the rows and along the columns; blockIdx.x counts the rows' blocks, .y strides over columns.
 */
#define TB_COMMIT_THREADS_M 32
#define TB_COMMIT_THREADS_N 8

#endif
