/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The argument block of every production sgemm kernel: one struct by value, shared by host C and CUDA C.
 *
 *   D = alpha * (op(A) op(B) [+ D])       column-major, op(X) = X or X^T
 *
 * A is m x k after op, B is k x n after op, D is m x n. Leading dimensions are in elements. Nothing outside the stated
 * shapes is read or written; A, B and D must not overlap. beta is not here: the host adds beta * C when it commits.
 */
#ifndef TB_SGEMM_ARGS_H
#define TB_SGEMM_ARGS_H

#include <stdint.h>

struct tb_sgemm_args {
  const float *a; /* device pointer, 4-byte aligned; 16-byte aligned with lda % 4 == 0 takes the vector loads */
  const float *b;
  float *d;
  int64_t lda, ldb, ldd; /* elements between stored columns */
  int64_t m, n, k;       /* each >= 1 */
  float alpha;           /* applied by the launch with `last` set */
  int32_t first;         /* 1: the sum starts at zero (D is not read); 0: it continues from the partial sums in D */
  int32_t last;          /* 1: multiply by alpha when storing; 0: store the bare partial sums */
};

#endif
