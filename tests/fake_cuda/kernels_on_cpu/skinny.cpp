/* SPDX-License-Identifier: BSD-3-Clause */
#include "../kernel_table.h"

#include "skinny/skinny.cu"

#define TB_SKINNY(columns, ...)                    \
  FAKE_CUDA_KERNEL(tb_skinny_side_##columns)       \
  FAKE_CUDA_KERNEL(tb_skinny_side_##columns##_any) \
  FAKE_CUDA_KERNEL(tb_skinny_k_##columns) FAKE_CUDA_KERNEL(tb_skinny_k_##columns##_any)
static const fake::Kernel rows[] = {
#include "skinny/skinny.def"
};
FAKE_CUDA_FAMILY(skinny, rows);
