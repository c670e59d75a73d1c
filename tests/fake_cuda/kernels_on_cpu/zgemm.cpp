/* SPDX-License-Identifier: BSD-3-Clause */
#include "fp64.h"

#include "fp64/zgemm.cu"

#define ROWS_OF_z(tile) FP64_ROWS(z, tile)
#define ROWS_OF_d(tile)
#define TB_FP64_TILE(letter, tile, ...) ROWS_OF_##letter(tile)
static const fake::Kernel rows[] = {
#include "fp64/tiles.def"
};
FAKE_CUDA_FAMILY(zgemm, rows);
