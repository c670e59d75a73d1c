/* SPDX-License-Identifier: BSD-3-Clause */
/* Batches of complex products in double precision: fp64.cuh by two tiles of fp64/tiles.def. */
#include "batch/fp64.cuh"

TB_BATCH_FP64S(tb_batch_zgemm, 64, fp64::Complex, TB_BATCH_LARGE, TB_BATCH_LARGE, 32, 32, 3, 2)
TB_BATCH_FP64S(tb_batch_zgemm, 32, fp64::Complex, TB_BATCH_SMALL, TB_BATCH_SMALL, 16, 16, 4, 3)
