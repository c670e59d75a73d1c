/* SPDX-License-Identifier: BSD-3-Clause */
#include "../kernel_table.h"

#include "teaching/ladder.cu"

#define TB_LADDER_STEP(name, ...) FAKE_CUDA_KERNEL(name)
static const fake::Kernel rows[] = {
#include "teaching/ladder.def"
};
FAKE_CUDA_FAMILY(ladder, rows);
