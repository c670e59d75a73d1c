/* SPDX-License-Identifier: BSD-3-Clause */
/* The family fma as the host sees it (kernels/fma/): tiles of the shared module, loaded and launched. Under offload.c's
 * lock. */
#ifndef TB_FMA_H
#define TB_FMA_H

#include "select/fma_plan.h"
#include "select/shared.h"

struct tb_fma {
  CUfunction function[TB_TILE_COUNT][2][2][2]; /* [tile][A transposed][B transposed][any alignment] */
  CUfunction pack;                             /* packs operands for the tiles that want them packed */
};

/* Takes the kernels from the shared module, and tells the device's blocks_per_sm and clusters. */
CUresult tb_fma_load(struct tb_fma *fma, const struct tb_shared *shared, struct tb_select_device *device);

/* One launch, one more for each time that operands are packed, and one with a split k whose parts are no clusters
 * (fma_way.h). */
CUresult tb_fma_launch(const struct tb_fma *fma, const struct tb_launch *launch);

#endif
