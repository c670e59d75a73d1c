/* SPDX-License-Identifier: BSD-3-Clause */
#include "batch.h"

#include "batch/dgemm.cu"

static const fake::Kernel rows[] = {BATCH_ROWS(d, 64) BATCH_ROWS(d, 32) BATCH_ROW(d, 64, tn_any)
                                        BATCH_ROW(d, 32, tn_any)};
FAKE_CUDA_FAMILY(batch_dgemm, rows);
