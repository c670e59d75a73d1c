/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of the fake driver's own tests. */
#include "../kernel_table.h"

#include "../test_kernels.cu"
#include "../test_race_kernels.cu"

#define FAKE_CUDA_TEST_KERNEL(name) FAKE_CUDA_KERNEL(name)
static const fake::Kernel rows[] = {FAKE_CUDA_TEST_KERNELS FAKE_CUDA_RACE_KERNELS};
FAKE_CUDA_FAMILY(test, rows);
