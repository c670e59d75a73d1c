/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first GPU, for cmocka tests that launch the library's kernels themselves: opened through the library's own table
 * of driver functions (tb_cuda), whatever libcuda.so.1 this process loads. It stays open until the process ends. Not
 * thread safe; a driver call that fails ends the running test.
 */
#ifndef TST_FIRST_GPU_H
#define TST_FIRST_GPU_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cuda/driver.h"

#define OK(call) assert_int_equal(call, CUDA_SUCCESS)

/* Makes its primary context current in this thread. */
CUdevice tst_gpu_open(void);

/* A kernel of one of the fat binaries that the library embeds. */
CUfunction tst_gpu_kernel(const unsigned char *fatbin, const char *name);

#endif
