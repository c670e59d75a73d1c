/* SPDX-License-Identifier: BSD-3-Clause */
#include "batch.h"

#include "batch/zgemm.cu"

static const fake::Kernel rows[] = {BATCH_ROWS(z, 64) BATCH_ROWS(z, 32) BATCH_ROW(z, 64, tn_any)
                                        BATCH_ROW(z, 32, tn_any)};
FAKE_CUDA_FAMILY(batch_zgemm, rows);
