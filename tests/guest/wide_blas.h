/* SPDX-License-Identifier: BSD-3-Clause */
/* A CPU BLAS with 64-bit integers under the plain names, which computes no product and remembers what it was asked. */
#ifndef GUEST_WIDE_BLAS_H
#define GUEST_WIDE_BLAS_H

#include <stdint.h>

extern struct wide_heard {
  int calls;
  int64_t sizes[6]; /* m, n, k, lda, ldb, ldc */
} wide_heard;

#endif
