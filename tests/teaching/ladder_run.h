/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs one step of the teaching ladder through the CUDA driver API: on the fake driver, where the kernels also count
 * what they do, or on a GPU. Every failure of the driver ends the process (bench/gpu.h). Not thread-safe.
 */
#ifndef TST_LADDER_RUN_H
#define TST_LADDER_RUN_H

#include "../../kernels/teaching/ladder.h"
#include "../../bench/gpu.h"

struct tst_ladder {
  struct tb_gpu gpu;
  CUmodule module;
  struct tb_ladder_counts *counts; /* of the kernels on the CPU; NULL on a GPU, which does not count */
};

/* Operands and result in host memory: row-major, no padding. */
struct tst_product {
  int m, n, k;
  const float *a, *b;
  float *c;
};

/* Where the matrices lie in device memory, for TST_ALIGNED on a 16-byte boundary, for TST_ODD one float behind it. */
enum tst_place { TST_ALIGNED = 0, TST_ODD = 1 };

struct tst_ladder tst_ladder_open(const char *fatbin);
void tst_ladder_close(struct tst_ladder *ladder);

/*
 * c = a b by `step`, with exactly `stride_blocks` blocks where the step may have any number, and returns what that cost
 * (zeros on a GPU). In device memory the matrices lie between NaN, C holds NaN beforehand, and the process ends with a
 * message when anything outside of C was written.
 */
struct tb_ladder_counts tst_ladder_multiply(struct tst_ladder *ladder, const struct tb_ladder_step *step,
                                            const struct tst_product *product, enum tst_place place,
                                            unsigned stride_blocks);

#endif
