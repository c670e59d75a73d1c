/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many products along k make a group, one level of the order in which the kernels add
 * (kernels/common/sgemm_args.h). The bits of a result depend on it, so it depends on nothing but the product's shape:
 * not on the GPU, the number of GPUs, the memory there is, or how fast a kernel is. Pure; thread-safe.
 */
#ifndef TB_ORDER_H
#define TB_ORDER_H

#include <stdint.h>

#include "blas/call.h"

/* Of an m x n x k product, each at least 1: a multiple of TB_SGEMM_GROUP_STEP_K. A thread's latest answer is kept. */
int64_t tb_group_k(int64_t m, int64_t n, int64_t k);

/* As many as suit a k in so many parts. */
int64_t tb_group_of_parts(int64_t k, int64_t parts);

/* Of a call, or of the whole that it is a part of. */
int64_t tb_gemm_group_k(const struct tb_call *call);

#endif
