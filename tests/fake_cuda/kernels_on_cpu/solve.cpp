/* SPDX-License-Identifier: BSD-3-Clause */
#include "../kernel_table.h"

#include "triangle/solve.cu"

#define SOLVE_ROWS(letter)                    \
  FAKE_CUDA_KERNEL(tb_triangle_form_##letter) \
  FAKE_CUDA_KERNEL(tb_triangle_turn_##letter) \
  FAKE_CUDA_KERNEL(tb_trmm_upper_##letter)    \
  FAKE_CUDA_KERNEL(tb_trmm_lower_##letter)    \
  FAKE_CUDA_KERNEL(tb_trsm_upper_##letter) FAKE_CUDA_KERNEL(tb_trsm_lower_##letter)
static const fake::Kernel rows[] = {SOLVE_ROWS(s) SOLVE_ROWS(d) SOLVE_ROWS(c) SOLVE_ROWS(z)};
FAKE_CUDA_FAMILY(solve, rows);
