/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels, compiled for the CPU from the sources that nvcc compiles for the GPU. A new source is an #include above
 * the table and its kernels' rows in the table. Constant data; the kernels run as grid.cpp lets them.
 */
#include "kernel_table.h"

#include <cstring>

/* sgemm.cu leaves its TB_SGEMM_TILE behind, for the table below. */
#include "fma/sgemm.cu"
#include "emulated/emulated.cu"
#include "fp64/dgemm.cu"
#include "fp64/zgemm.cu"
#include "complex/complex.cu"
#include "teaching/ladder.cu"
#include "skinny/skinny.cu"
#include "triangle/solve.cu"
#include "triangle/triangle.cu"
#include "batch/sgemm.cu"
#include "batch/dgemm.cu"
#include "batch/zgemm.cu"
#include "test_kernels.cu"
#include "test_race_kernels.cu"

namespace fake {

static const Kernel kernels[] = {
/* TB_SGEMM_TILE is still sgemm.cu's: it makes one TB_SGEMM_KERNEL of each variant, here its row. */
#undef TB_SGEMM_KERNEL
#define TB_SGEMM_KERNEL(tile, variant, ...) FAKE_CUDA_KERNEL(tb_sgemm_##tile##_##variant)
#undef TB_SGEMM_PACKED_TILE
#define TB_SGEMM_PACKED_TILE(tile, ...) FAKE_CUDA_KERNEL(tb_sgemm_##tile)
#include "fma/registry.def"
#undef TB_SGEMM_KERNEL
#undef TB_SGEMM_TILE
#undef TB_SGEMM_PACKED_TILE
    FAKE_CUDA_KERNEL(tb_sgemm_pack) FAKE_CUDA_KERNEL(tb_sgemm_gather) FAKE_CUDA_KERNEL(tb_sgemm_commit)
        FAKE_CUDA_KERNEL(tb_sgemm_again_nn) FAKE_CUDA_KERNEL(tb_sgemm_again_nt) FAKE_CUDA_KERNEL(tb_sgemm_again_tn)
            FAKE_CUDA_KERNEL(tb_sgemm_again_tt) FAKE_CUDA_KERNEL(tb_emulated_gather)
                FAKE_CUDA_KERNEL(tb_emulated_pack_half) FAKE_CUDA_KERNEL(tb_emulated_pack_bfloat) FAKE_CUDA_KERNEL(
                    tb_emulated_multiply_half) FAKE_CUDA_KERNEL(tb_emulated_multiply_bfloat)

#define FP64_KERNEL(letter, tile, variant) FAKE_CUDA_KERNEL(tb_##letter##gemm_##tile##_##variant)
#define TB_FP64_TILE(letter, tile, ...) \
  FP64_KERNEL(letter, tile, nn)         \
  FP64_KERNEL(letter, tile, nt)         \
  FP64_KERNEL(letter, tile, tn)         \
  FP64_KERNEL(letter, tile, tt)         \
  FP64_KERNEL(letter, tile, nn_any)     \
  FP64_KERNEL(letter, tile, nt_any)     \
  FP64_KERNEL(letter, tile, tn_any)     \
  FP64_KERNEL(letter, tile, tt_any) FAKE_CUDA_KERNEL(tb_##letter##gemm_gather_##tile)
#include "fp64/tiles.def"
#undef FP64_KERNEL
#undef TB_FP64_TILE
                    FAKE_CUDA_KERNEL(tb_dgemm_commit) FAKE_CUDA_KERNEL(tb_cgemm_expand) FAKE_CUDA_KERNEL(tb_cgemm_part)
                        FAKE_CUDA_KERNEL(tb_cgemm_commit) FAKE_CUDA_KERNEL(tb_zgemm_commit) FAKE_CUDA_KERNEL(
                            tb_triangle_commit_s) FAKE_CUDA_KERNEL(tb_triangle_commit_d)
                            FAKE_CUDA_KERNEL(tb_triangle_commit_c) FAKE_CUDA_KERNEL(tb_triangle_commit_z)

#define BATCH_KERNEL(letter, tile, variant) FAKE_CUDA_KERNEL(tb_batch_##letter##gemm_##tile##_##variant)
#define BATCH_KERNELS(letter, tile) \
  BATCH_KERNEL(letter, tile, nn)    \
  BATCH_KERNEL(letter, tile, nt)    \
  BATCH_KERNEL(letter, tile, tn)    \
  BATCH_KERNEL(letter, tile, tt)    \
  BATCH_KERNEL(letter, tile, nn_any) BATCH_KERNEL(letter, tile, nt_any) BATCH_KERNEL(letter, tile, tt_any)
                                BATCH_KERNELS(s, 64) BATCH_KERNELS(s, 32) BATCH_KERNELS(d, 64) BATCH_KERNELS(d, 32)
                                    BATCH_KERNELS(z, 64) BATCH_KERNELS(z, 32) BATCH_KERNEL(d, 64, tn_any) BATCH_KERNEL(
                                        d, 32, tn_any) BATCH_KERNEL(z, 64, tn_any) BATCH_KERNEL(z, 32, tn_any)
                                        FAKE_CUDA_KERNEL(tb_batch_expand) FAKE_CUDA_KERNEL(tb_batch_part)
                                            FAKE_CUDA_KERNEL(tb_batch_commit_s) FAKE_CUDA_KERNEL(tb_batch_commit_d)
                                                FAKE_CUDA_KERNEL(tb_batch_commit_c) FAKE_CUDA_KERNEL(tb_batch_commit_z)
#undef BATCH_KERNEL
#undef BATCH_KERNELS

#define SOLVE_KERNELS(letter)                 \
  FAKE_CUDA_KERNEL(tb_triangle_form_##letter) \
  FAKE_CUDA_KERNEL(tb_triangle_turn_##letter) \
  FAKE_CUDA_KERNEL(tb_trmm_upper_##letter)    \
  FAKE_CUDA_KERNEL(tb_trmm_lower_##letter)    \
  FAKE_CUDA_KERNEL(tb_trsm_upper_##letter) FAKE_CUDA_KERNEL(tb_trsm_lower_##letter)
                                                    SOLVE_KERNELS(s) SOLVE_KERNELS(d) SOLVE_KERNELS(c) SOLVE_KERNELS(z)
#undef SOLVE_KERNELS

#define TB_SKINNY(columns, ...)                    \
  FAKE_CUDA_KERNEL(tb_skinny_side_##columns)       \
  FAKE_CUDA_KERNEL(tb_skinny_side_##columns##_any) \
  FAKE_CUDA_KERNEL(tb_skinny_k_##columns) FAKE_CUDA_KERNEL(tb_skinny_k_##columns##_any)
#include "skinny/skinny.def"
#undef TB_SKINNY

#define TB_LADDER_STEP(name, ...) FAKE_CUDA_KERNEL(name)
#include "teaching/ladder.def"
#undef TB_LADDER_STEP

#define FAKE_CUDA_TEST_KERNEL(name) FAKE_CUDA_KERNEL(name)
                                                        FAKE_CUDA_TEST_KERNELS FAKE_CUDA_RACE_KERNELS
#undef FAKE_CUDA_TEST_KERNEL
};

const Kernel *find_kernel(const char *name) {
  for (const Kernel &kernel : kernels)
    if (!strcmp(kernel.name, name)) return &kernel;
  return nullptr;
}

} // namespace fake
