/* SPDX-License-Identifier: BSD-3-Clause */
#include "../kernel_table.h"

#include "triangle/triangle.cu"

static const fake::Kernel rows[] = {FAKE_CUDA_KERNEL(tb_triangle_commit_s) FAKE_CUDA_KERNEL(tb_triangle_commit_d)
                                        FAKE_CUDA_KERNEL(tb_triangle_commit_c) FAKE_CUDA_KERNEL(tb_triangle_commit_z)};
FAKE_CUDA_FAMILY(triangle, rows);
