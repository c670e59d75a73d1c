/* SPDX-License-Identifier: BSD-3-Clause */
#include "../kernel_table.h"

#include "emulated/emulated.cu"

#define EMULATED_ROWS(word) FAKE_CUDA_KERNEL(tb_emulated_pack_##word) FAKE_CUDA_KERNEL(tb_emulated_multiply_##word)
static const fake::Kernel rows[] = {FAKE_CUDA_KERNEL(tb_emulated_gather) EMULATED_ROWS(half) EMULATED_ROWS(bfloat)
                                        EMULATED_ROWS(half_triangle) EMULATED_ROWS(bfloat_triangle)};
FAKE_CUDA_FAMILY(emulated, rows);
