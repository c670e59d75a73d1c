/* SPDX-License-Identifier: BSD-3-Clause */
/* Double-precision products of complex elements: gemm.cuh by the tiles of tiles.def. */
#include "fp64/gemm.cuh"

#define TB_ZGEMM_TILE_d(...)
#define TB_ZGEMM_TILE_z(name, ...) TB_FP64_KERNELS(tb_zgemm, name, fp64::Complex, __VA_ARGS__)
#define TB_FP64_TILE(letter, ...) TB_ZGEMM_TILE_##letter(__VA_ARGS__)
#include "fp64/tiles.def"
#undef TB_FP64_TILE
