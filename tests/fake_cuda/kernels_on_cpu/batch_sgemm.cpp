/* SPDX-License-Identifier: BSD-3-Clause */
#include "batch.h"

#include "batch/sgemm.cu"

static const fake::Kernel rows[] = {BATCH_ROWS(s, 64) BATCH_ROWS(s, 32) FAKE_CUDA_KERNEL(tb_batch_expand)
                                        FAKE_CUDA_KERNEL(tb_batch_part) FAKE_CUDA_KERNEL(tb_batch_commit_s)
                                            FAKE_CUDA_KERNEL(tb_batch_commit_d) FAKE_CUDA_KERNEL(tb_batch_commit_c)
                                                FAKE_CUDA_KERNEL(tb_batch_commit_z)};
FAKE_CUDA_FAMILY(batch_sgemm, rows);
