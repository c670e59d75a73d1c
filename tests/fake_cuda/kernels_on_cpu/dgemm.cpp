/* SPDX-License-Identifier: BSD-3-Clause */
#include "fp64.h"

#include "fp64/dgemm.cu"

#define ROWS_OF_d(tile) FP64_ROWS(d, tile)
#define ROWS_OF_z(tile)
#define TB_FP64_TILE(letter, tile, ...) ROWS_OF_##letter(tile)
static const fake::Kernel rows[] = {FAKE_CUDA_KERNEL(tb_dgemm_commit)
#include "fp64/tiles.def"
};
FAKE_CUDA_FAMILY(dgemm, rows);
