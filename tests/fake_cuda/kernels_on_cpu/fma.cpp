/* SPDX-License-Identifier: BSD-3-Clause */
#include "../kernel_table.h"

#include "fma/sgemm.cu"

/* sgemm.cu leaves its TB_SGEMM_TILE behind: it makes one TB_SGEMM_KERNEL of each variant, here its row. */
#undef TB_SGEMM_KERNEL
#define TB_SGEMM_KERNEL(tile, variant, ...) FAKE_CUDA_KERNEL(tb_sgemm_##tile##_##variant)
#undef TB_SGEMM_PACKED_TILE
#define TB_SGEMM_PACKED_TILE(tile, ...) FAKE_CUDA_KERNEL(tb_sgemm_##tile)

static const fake::Kernel rows[] = {
#include "fma/registry.def"
    FAKE_CUDA_KERNEL(tb_sgemm_pack) FAKE_CUDA_KERNEL(tb_sgemm_gather) FAKE_CUDA_KERNEL(tb_sgemm_commit)
        FAKE_CUDA_KERNEL(tb_digest) FAKE_CUDA_KERNEL(tb_sgemm_again_nn) FAKE_CUDA_KERNEL(tb_sgemm_again_nt)
            FAKE_CUDA_KERNEL(tb_sgemm_again_tn) FAKE_CUDA_KERNEL(tb_sgemm_again_tt)};
FAKE_CUDA_FAMILY(fma, rows);
