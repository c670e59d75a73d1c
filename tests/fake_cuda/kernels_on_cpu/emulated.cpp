/* SPDX-License-Identifier: BSD-3-Clause */
#include "../kernel_table.h"

#include "emulated/emulated.cu"

static const fake::Kernel rows[] = {FAKE_CUDA_KERNEL(tb_emulated_gather) FAKE_CUDA_KERNEL(tb_emulated_pack_half)
                                        FAKE_CUDA_KERNEL(tb_emulated_pack_bfloat)
                                            FAKE_CUDA_KERNEL(tb_emulated_multiply_half)
                                                FAKE_CUDA_KERNEL(tb_emulated_multiply_bfloat)};
FAKE_CUDA_FAMILY(emulated, rows);
