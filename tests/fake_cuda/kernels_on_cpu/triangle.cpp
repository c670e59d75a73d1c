/* SPDX-License-Identifier: BSD-3-Clause */
#include "../kernel_table.h"

#include "triangle/triangle.cu"

#define TRIANGLE_ROWS(letter) \
  FAKE_CUDA_KERNEL(tb_triangle_commit_##letter) FAKE_CUDA_KERNEL(tb_triangle_mirror_##letter)
static const fake::Kernel rows[] = {TRIANGLE_ROWS(s) TRIANGLE_ROWS(d) TRIANGLE_ROWS(c) TRIANGLE_ROWS(z)};
FAKE_CUDA_FAMILY(triangle, rows);
