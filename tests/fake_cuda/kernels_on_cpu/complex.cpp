/* SPDX-License-Identifier: BSD-3-Clause */
#include "../kernel_table.h"

#include "complex/complex.cu"

static const fake::Kernel rows[] = {FAKE_CUDA_KERNEL(tb_cgemm_expand) FAKE_CUDA_KERNEL(tb_cgemm_part)
                                        FAKE_CUDA_KERNEL(tb_cgemm_commit) FAKE_CUDA_KERNEL(tb_zgemm_commit)};
FAKE_CUDA_FAMILY(complex, rows);
