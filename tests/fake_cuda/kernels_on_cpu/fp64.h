/* SPDX-License-Identifier: BSD-3-Clause */
/* The rows of a tile of fp64/tiles.def: FP64_ROWS(d or z, its name). */
#include "../kernel_table.h"

#define FP64_ROW(letter, tile, variant) FAKE_CUDA_KERNEL(tb_##letter##gemm_##tile##_##variant)
#define FP64_ROWS(letter, tile)  \
  FP64_ROW(letter, tile, nn)     \
  FP64_ROW(letter, tile, nt)     \
  FP64_ROW(letter, tile, tn)     \
  FP64_ROW(letter, tile, tt)     \
  FP64_ROW(letter, tile, nn_any) \
  FP64_ROW(letter, tile, nt_any) \
  FP64_ROW(letter, tile, tn_any) \
  FP64_ROW(letter, tile, tt_any) \
  FAKE_CUDA_KERNEL(tb_##letter##gemm_gather_##tile)
