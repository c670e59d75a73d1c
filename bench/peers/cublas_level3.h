/* SPDX-License-Identifier: BSD-3-Clause */
/* The routines of level 3 by cuBLAS; see nvidia.h. */
#ifndef TB_BENCH_CUBLAS_LEVEL3_H
#define TB_BENCH_CUBLAS_LEVEL3_H

#include "../level3.h"
#include "nvidia.h"

/*
 * Enqueues a call on operands on the GPU; returns cuBLAS's status. gemmt is its syrkx, which promises a triangle of a
 * product that is symmetric, and computes that of any. trmm there writes C from B, or overwrites a C that is B when
 * in_place is set; trsm always does.
 */
int tb_nvidia_level3(tb_cublas_handle handle, const struct tb_level3 *call, const void *a, const void *b, void *c,
                     bool in_place);

#endif
