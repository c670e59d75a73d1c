/* SPDX-License-Identifier: BSD-3-Clause */
/* The production kernels as the host sees them: loaded from the embedded fat binary, chosen, launched. Under
 * offload.c's lock. */
#ifndef TB_KERNELS_H
#define TB_KERNELS_H

#include "cuda_driver.h"
#include "sgemm_args.h"

#define TB_TILE(...) +1
enum {
#define TB_SGEMM_TILE TB_TILE
  TB_TILE_COUNT = 0
#include "registry.def"
#undef TB_SGEMM_TILE
};
#undef TB_TILE

/* One row of registry.def. */
struct tb_tile {
  const char *name;
  int block_m, block_n, block_k, thread_m, thread_n;
  int threads, shared_bytes;
  int rate; /* per cent of the first tile's */
};

extern const struct tb_tile tb_tiles[TB_TILE_COUNT];

struct tb_kernels {
  CUfunction function[TB_TILE_COUNT][2][2][2]; /* [tile][A transposed][B transposed][any alignment] */
  int blocks_per_sm[TB_TILE_COUNT];            /* 0: the device cannot run this tile, for want of shared memory, say */
};

/* Loads the kernels into the current context. Nothing is left behind on failure. */
CUresult tb_kernels_load(struct tb_kernels *kernels, CUmodule *module);

/*
 * The tile for an m x n result: the one whose rounds of blocks, one to an SM, take the least time at the tiles'
 * measured rates. Of equals the largest, for it reads the least. Pure. Returns -1 when blocks_per_sm is 0 throughout.
 */
int tb_kernels_choose(const int blocks_per_sm[TB_TILE_COUNT], int sm_count, int64_t m, int64_t n);

/* The kernel of a tile for these operands: the one for whole vectors where alignment and padding allow, else the one
 * for any. */
CUfunction tb_kernels_function(const struct tb_kernels *kernels, int tile, bool transpose_a, bool transpose_b,
                               const struct tb_sgemm_args *args);

CUresult tb_kernels_launch(const struct tb_kernels *kernels, int tile, bool transpose_a, bool transpose_b,
                           struct tb_sgemm_args *args, CUstream stream);

#endif
