/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/fma.h"

#include <stdio.h>

#include "base/integers.h"
#include "cuda/launch.h"

/* ---- loading ---- */

/* Tiles have one kernel for each pair of transposes, and one more for operands that cannot be copied as vectors, if any
 * of them otherwise would be; and one in all where the operands are packed. */
static void function_name(char *name, size_t size, const struct tb_tile *t, int ta, int tb, bool any) {
  static const char letter[] = "nt";
  const bool loads_vectors = !ta || tb; /* from an operand whose memory runs along m or n */
  if (t->packed)
    snprintf(name, size, "tb_sgemm_%s", t->name);
  else
    snprintf(name, size, "tb_sgemm_%s_%c%c%s", t->name, letter[ta], letter[tb], any && loads_vectors ? "_any" : "");
}

/* Kernels may have all the shared memory that a block can have: more than a tile wants keeps others off its SM, see
 * shared_bytes_to_hold. A device with less of it than a tile wants goes without. */
static CUresult load_fma_tile(struct tb_fma *fma, const struct tb_shared *shared, struct tb_select_device *device,
                              int tile, int variant) {
  const struct tb_tile *t = &tb_tiles[tile];
  const int ta = variant >> 1 & 1, tb = variant & 1, any = variant >> 2;
  char name[64];
  function_name(name, sizeof name, t, ta, tb, any);
  CUfunction *function = &fma->function[tile][ta][tb][any];
  TB_TRY(tb_cuda.cuModuleGetFunction(function, shared->module, name));
  const int64_t most_bytes = shared->limits.block_shared_bytes;
  int blocks = 0, *least = &device->blocks_per_sm[tile];
  if (t->shared_bytes <= most_bytes) {
    TB_TRY(tb_cuda.cuFuncSetAttribute(*function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)most_bytes));
    TB_TRY(
        tb_cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, *function, t->threads, (size_t)t->shared_bytes));
  }
  if (variant == 0 || blocks < *least) *least = blocks;
  return CUDA_SUCCESS;
}

/* The tiles for packed operands are empty in code for less than compute capability 9.0. */
static CUresult load_tiles(struct tb_fma *fma, const struct tb_shared *shared, struct tb_select_device *device) {
  for (int tile = 0; tile < TB_TILE_COUNT; tile++) {
    const int variants = !tb_tiles[tile].packed ? 8 : shared->early ? 1 : 0;
    for (int variant = 0; variant < variants; variant++) TB_TRY(load_fma_tile(fma, shared, device, tile, variant));
  }
  return CUDA_SUCCESS;
}

/* Of dynamic shared memory, for a block that wants `own`, so that an SM holds `held` of them and no more. CUDA keeps 1
 * KiB of an SM's for each block. */
static int shared_bytes_to_hold(const struct tb_sm_limits *limits, int held, int own) {
  const int reserved = 1024, unit = 128, too_many = (int)(limits->sm_shared_bytes / (held + 1)) - reserved;
  const int bytes = (int)tb_round_up(too_many + 1, unit);
  return bytes > own && bytes <= limits->block_shared_bytes ? bytes : own;
}

/* Asked of the smallest tile's kernel, of which an SM holds the most: what counts are the SMs beside each other. */
static CUresult look_at_clusters(const struct tb_fma *fma, const struct tb_shared *shared,
                                 struct tb_select_device *device) {
  const struct tb_tile *t = &tb_tiles[TB_TILE_32x32];
  const int most = (int)tb_min(device->blocks_per_sm[TB_TILE_32x32], TB_CLUSTERS_HELD_MAX);
  if (!shared->early || tb_cuda.cuOccupancyMaxActiveClusters == NULL) return CUDA_SUCCESS;
  for (int size = 2; size <= TB_SGEMM_TOGETHER_MAX; size++) {
    for (int held = 1; held <= most; held++) {
      CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                   .value.clusterDim = {(unsigned)size, 1, 1}};
      const int shared_bytes = shared_bytes_to_hold(&shared->limits, held, t->shared_bytes);
      const CUlaunchConfig config = {.gridDimX = (unsigned)size,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = (unsigned)t->threads,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .sharedMemBytes = (unsigned)shared_bytes,
                                     .attrs = &cluster,
                                     .numAttrs = 1};
      TB_TRY(tb_cuda.cuOccupancyMaxActiveClusters(&device->clusters.at_once[size][held],
                                                  fma->function[TB_TILE_32x32][0][0][0], &config));
    }
  }
  return CUDA_SUCCESS;
}

CUresult tb_fma_load(struct tb_fma *fma, const struct tb_shared *shared, struct tb_select_device *device) {
  TB_TRY(tb_cuda.cuModuleGetFunction(&fma->pack, shared->module, "tb_sgemm_pack"));
  TB_TRY(load_tiles(fma, shared, device));
  return look_at_clusters(fma, shared, device);
}

/* ---- launching ---- */

/* The blocks of each part of a split k, and their partial sums, or those of a cluster for each tile. */
static struct tb_grid grid_of(const struct tb_launch *l, const struct tb_fma_way *way, struct tb_sgemm_args *args,
                              CUdeviceptr partials) {
  const struct tb_tile *t = &tb_tiles[way->tile];
  const struct tb_split_k split = tb_split_k_of(args->k, way);
  const int64_t tiles = tb_tile_count(t, args->m, args->n);
  struct tb_grid grid = {tiles, 1, t->threads, t->shared_bytes, 1};
  if (split.splits == 1) return grid;
  args->unit_k = way->unit_k;
  args->units_per_split = (int32_t)split.per_split;
  const int blocks_per_sm = l->device->blocks_per_sm[way->tile];
  /* Beside another kernel's last blocks they would wait for SMs that are free at the same time. */
  const int held = args->beside ? 0
                                : tb_split_k_together(&split, &l->device->clusters, way->unit_k == args->group_k, tiles,
                                                      l->device->sm_count, blocks_per_sm);
  if (held > 0) {
    args->together = grid.cluster = (int32_t)split.splits;
    grid.x *= split.splits;
    if (held < blocks_per_sm) grid.shared_bytes = shared_bytes_to_hold(&l->shared->limits, held, t->shared_bytes);
  } else {
    args->partials = (float *)partials;
    grid.y = split.splits;
  }
  return grid;
}

/* With k split the tiles' sums are gathered behind them, and the tiles themselves write none of the result. */
static CUresult launch_and_gather(bool early, CUfunction function, struct tb_grid g, const struct tb_launch *l,
                                  struct tb_sgemm_args *args) {
  if (g.y == 1) return tb_launch_result(early, function, g, args, NULL, l->stream);
  TB_TRY(tb_launch_behind(early, function, g, args, NULL, l->stream));
  return tb_gather_launch(l, args);
}

static CUresult launch_as_stored(const struct tb_fma *fma, const struct tb_launch *l) {
  struct tb_sgemm_args args = *l->args;
  const struct tb_fma_way *way = &l->choice->fma;
  const struct tb_grid g = grid_of(l, way, &args, l->workspace);
  const bool any = !tb_kernels_vectors(l->transpose_a, l->transpose_b, &args);
  CUfunction function = fma->function[way->tile][l->transpose_a][l->transpose_b][any];
  return launch_and_gather(false, function, g, l, &args);
}

/* Pairs of panels of an operand with so many rows, or columns. */
static int64_t pairs_of(int64_t sides) { return (sides + 2 * TB_SGEMM_PANEL - 1) / (2 * TB_SGEMM_PANEL); }

/* Both operands into the workspace; `args` then are the packed tile's. */
static CUresult pack_operands(const struct tb_fma *fma, const struct tb_launch *l, struct tb_sgemm_args *args) {
  struct tb_sgemm_pack_args p = {
      .a = {.from = args->a, .to = (float *)l->workspace, .ld = args->lda, .sides = args->m, .along_k = l->transpose_a},
      .b = {.from = args->b, .ld = args->ldb, .sides = args->n, .along_k = !l->transpose_b},
      .k = args->k,
      .rows = (args->k + TB_SGEMM_PACKED_K - 1) / TB_SGEMM_PACKED_K * TB_SGEMM_PACKED_K};
  p.b.to = p.a.to + pairs_of(args->m) * 2 * TB_SGEMM_PANEL * p.rows;
  const int64_t parts = (p.rows + TB_SGEMM_PACK_K - 1) / TB_SGEMM_PACK_K;
  const int64_t blocks = parts * (pairs_of(args->m) + pairs_of(args->n));
  void *parameters[] = {&p};
  TB_TRY(tb_cuda.cuLaunchKernel(fma->pack, (unsigned)blocks, 1, 1, TB_SGEMM_PACK_THREADS, 1, 1, 0, l->stream,
                                parameters, NULL));
  args->a = p.a.to, args->b = p.b.to;
  args->lda = args->ldb = p.rows;
  return CUDA_SUCCESS;
}

/* The part of D that starts at this row and column, from packed operands. */
static struct tb_sgemm_args part_of(const struct tb_sgemm_args *args, struct tb_rest part) {
  struct tb_sgemm_args p = *args;
  p.a += part.first_row * p.lda; /* a panel has TB_SGEMM_PANEL elements for each of its lda rows, and as many sides */
  p.b += part.first_column * p.ldb;
  p.d += part.first_row + part.first_column * p.ldd;
  p.m = part.m, p.n = part.n;
  return p;
}

/* What is computed with k whole, and then what is left, which starts where SMs have nothing left of the former. */
static CUresult multiply_packed(const struct tb_fma *fma, const struct tb_launch *l, struct tb_sgemm_args *args,
                                CUdeviceptr partials) {
  const struct tb_fma_way *way = &l->choice->fma;
  CUfunction function = fma->function[way->tile][0][0][0];
  const struct tb_rest rest = tb_rest_of(args->m, args->n, way);
  if (rest.first_row + rest.first_column > 0) {
    struct tb_fma_way whole = *way;
    whole.splits = 1;
    const struct tb_rest ahead = {0, 0, rest.first_row > 0 ? rest.first_row : args->m,
                                  rest.first_column > 0 ? rest.first_column : args->n};
    struct tb_sgemm_args part = part_of(args, ahead);
    TB_TRY(tb_launch_result(l->shared->early, function, grid_of(l, &whole, &part, 0), &part, NULL, l->stream));
  }
  if (rest.m == 0 || rest.n == 0) return CUDA_SUCCESS;
  struct tb_sgemm_args part = part_of(args, rest);
  part.beside = rest.first_row + rest.first_column > 0;
  const struct tb_grid g = grid_of(l, way, &part, partials);
  return launch_and_gather(l->shared->early, function, g, l, &part);
}

/* Part of k after part of k, each packed and multiplied. */
static CUresult launch_packed(const struct tb_fma *fma, const struct tb_launch *l) {
  const int64_t pack_k = l->choice->fma.pack_k;
  for (int64_t start = 0; start < l->args->k; start += pack_k) {
    struct tb_sgemm_args args = tb_kernels_part_of_k(l->args, l->transpose_a, l->transpose_b, start, pack_k);
    TB_TRY(pack_operands(fma, l, &args));
    const CUdeviceptr partials = l->workspace + (CUdeviceptr)tb_packed_bytes(args.m, args.n, args.k);
    TB_TRY(multiply_packed(fma, l, &args, partials));
  }
  return CUDA_SUCCESS;
}

CUresult tb_fma_launch(const struct tb_fma *fma, const struct tb_launch *launch) {
  return launch->choice->fma.pack_k > 0 ? launch_packed(fma, launch) : launch_as_stored(fma, launch);
}
