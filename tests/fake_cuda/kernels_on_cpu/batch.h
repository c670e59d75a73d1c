/* SPDX-License-Identifier: BSD-3-Clause */
/* The rows of a tile of a batch's kernels: BATCH_ROWS(s, d or z, its side). */
#include "../kernel_table.h"

#define BATCH_ROW(letter, tile, variant) FAKE_CUDA_KERNEL(tb_batch_##letter##gemm_##tile##_##variant)
#define BATCH_ROWS(letter, tile)  \
  BATCH_ROW(letter, tile, nn)     \
  BATCH_ROW(letter, tile, nt)     \
  BATCH_ROW(letter, tile, tn)     \
  BATCH_ROW(letter, tile, tt)     \
  BATCH_ROW(letter, tile, nn_any) \
  BATCH_ROW(letter, tile, nt_any) \
  BATCH_ROW(letter, tile, tt_any)
