/* SPDX-License-Identifier: BSD-3-Clause */
#include "../kernel_table.h"

#include "triangle/solve.cu"

#define SOLVE_ROWS(letter)                      \
  FAKE_CUDA_KERNEL(tb_triangle_form_##letter)   \
  FAKE_CUDA_KERNEL(tb_triangle_turn_##letter)   \
  FAKE_CUDA_KERNEL(tb_triangle_copy_##letter)   \
  FAKE_CUDA_KERNEL(tb_triangle_repair_##letter) \
  FAKE_CUDA_KERNEL(tb_trsm_upper_##letter) FAKE_CUDA_KERNEL(tb_trsm_lower_##letter)
#define SINGLE_ROWS(letter)                  \
  FAKE_CUDA_KERNEL(tb_trmm_upper_##letter)   \
  FAKE_CUDA_KERNEL(tb_trmm_lower_##letter)   \
  FAKE_CUDA_KERNEL(tb_trsm64_upper_##letter) \
  FAKE_CUDA_KERNEL(tb_trsm64_lower_##letter) FAKE_CUDA_KERNEL(tb_triangle_corner_##letter)
#define TB_FP64_TRIANGLE(letter, tile, ...) \
  FAKE_CUDA_KERNEL(tb_##letter##trmm_##tile) FAKE_CUDA_KERNEL(tb_##letter##trmm_##tile##_any)
static const fake::Kernel rows[] = {SOLVE_ROWS(s) SOLVE_ROWS(d) SOLVE_ROWS(c) SOLVE_ROWS(z) SINGLE_ROWS(s)
                                        SINGLE_ROWS(c)
#include "fp64/triangles.def"
};
FAKE_CUDA_FAMILY(solve, rows);
