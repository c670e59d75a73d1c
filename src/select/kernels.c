/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/kernels.h"

#include <stdio.h>

#include "select/embed.h"
#include "base/integers.h"
#include "cuda/launch.h"

TB_EMBED(tb_sgemm_fatbin, TB_SGEMM_FATBIN); /* kernels/fma/sgemm.cu */

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
static CUresult load_function(struct tb_kernels *kernels, CUmodule module, int tile, int ta, int tb, bool any) {
  const struct tb_tile *t = &tb_tiles[tile];
  char name[64];
  function_name(name, sizeof name, t, ta, tb, any);
  CUfunction *function = &kernels->function[tile][ta][tb][any];
  TB_TRY(tb_cuda.cuModuleGetFunction(function, module, name));
  const int64_t most_bytes = kernels->skinny.limits.block_shared_bytes;
  int blocks = 0, *least = &kernels->device.blocks_per_sm[tile];
  if (t->shared_bytes <= most_bytes) {
    TB_TRY(tb_cuda.cuFuncSetAttribute(*function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)most_bytes));
    TB_TRY(
        tb_cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, *function, t->threads, (size_t)t->shared_bytes));
  }
  bool seen_first = ta + tb + any == 0;
  if (seen_first || blocks < *least) *least = blocks;
  return CUDA_SUCCESS;
}

static CUresult load_tiles(struct tb_kernels *kernels) {
  for (int tile = 0; tile < TB_TILE_COUNT; tile++)
    for (int variant = 0; variant < 8 && !tb_tiles[tile].packed; variant++)
      TB_TRY(load_function(kernels, kernels->module, tile, variant >> 1 & 1, variant & 1, variant >> 2));
  return CUDA_SUCCESS;
}

/* The fp32 cores of an SM, each of which finishes one multiply-add a cycle (CUDA C++ Programming Guide, the appendix on
 * compute capabilities). */
static int cores_per_sm(int major, int minor) { return major == 7 || (major == 8 && minor == 0) ? 64 : 128; }

/* What the selector asks of a device: its peaks. */
static CUresult look_at(struct tb_select_device *d, CUdevice device) {
  int major, minor, clock_khz, memory_khz, bus_bits;
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&d->sm_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&clock_khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device));
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&memory_khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, device));
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&bus_bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, device));
  d->fma_per_us = cores_per_sm(major, minor) * (clock_khz * 1e-3);
  d->bytes_per_us = 2 * (memory_khz * 1e-3) * (bus_bits / 8.0); /* two transfers a cycle */
  return CUDA_SUCCESS;
}

/* What starts early waits by an instruction of compute capability 9.0: code for less would not wait at all. */
static CUresult load_helpers(struct tb_kernels *kernels) {
  int compiled_for = 0;
  TB_TRY(tb_cuda.cuModuleGetFunction(&kernels->gather, kernels->module, "tb_sgemm_gather"));
  TB_TRY(tb_cuda.cuModuleGetFunction(&kernels->pack, kernels->module, "tb_sgemm_pack"));
  TB_TRY(tb_cuda.cuFuncGetAttribute(&compiled_for, CU_FUNC_ATTRIBUTE_PTX_VERSION, kernels->gather));
  kernels->early = tb_cuda.cuLaunchKernelEx != NULL && compiled_for >= 90;
  return CUDA_SUCCESS;
}

/* The tiles for packed operands are empty in code for less than compute capability 9.0. */
static CUresult load_packed_tiles(struct tb_kernels *kernels) {
  for (int tile = 0; tile < TB_TILE_COUNT && kernels->early; tile++)
    if (tb_tiles[tile].packed) TB_TRY(load_function(kernels, kernels->module, tile, 0, 0, false));
  return CUDA_SUCCESS;
}

/* Of dynamic shared memory, for a block that wants `own`, so that an SM holds `held` of them and no more. CUDA keeps 1
 * KiB of an SM's for each block. */
static int shared_bytes_to_hold(const struct tb_kernels *kernels, int held, int own) {
  const struct tb_skinny_limits *limits = &kernels->skinny.limits;
  const int reserved = 1024, unit = 128, too_many = (int)(limits->sm_shared_bytes / (held + 1)) - reserved;
  const int bytes = (int)tb_round_up(too_many + 1, unit);
  return bytes > own && bytes <= limits->block_shared_bytes ? bytes : own;
}

/* Asked of the smallest tile's kernel, of which an SM holds the most: what counts are the SMs beside each other. */
static CUresult look_at_clusters(struct tb_kernels *kernels) {
  const struct tb_tile *t = &tb_tiles[TB_TILE_32x32];
  const int most = (int)tb_min(kernels->device.blocks_per_sm[TB_TILE_32x32], TB_CLUSTERS_HELD_MAX);
  if (!kernels->early || tb_cuda.cuOccupancyMaxActiveClusters == NULL) return CUDA_SUCCESS;
  for (int size = 2; size <= TB_SGEMM_TOGETHER_MAX; size++) {
    for (int held = 1; held <= most; held++) {
      CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                   .value.clusterDim = {(unsigned)size, 1, 1}};
      const CUlaunchConfig config = {.gridDimX = (unsigned)size,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = (unsigned)t->threads,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .sharedMemBytes = (unsigned)shared_bytes_to_hold(kernels, held, t->shared_bytes),
                                     .attrs = &cluster,
                                     .numAttrs = 1};
      TB_TRY(tb_cuda.cuOccupancyMaxActiveClusters(&kernels->device.clusters.at_once[size][held],
                                                  kernels->function[TB_TILE_32x32][0][0][0], &config));
    }
  }
  return CUDA_SUCCESS;
}

static CUresult load_emulated(struct tb_kernels *kernels, CUdevice device) {
  static const char *const names[2][2] = {{"tb_sgemm_again_nn", "tb_sgemm_again_nt"},
                                          {"tb_sgemm_again_tn", "tb_sgemm_again_tt"}};
  CUfunction again[2][2];
  for (int ta = 0; ta < 2; ta++)
    for (int tb = 0; tb < 2; tb++) TB_TRY(tb_cuda.cuModuleGetFunction(&again[ta][tb], kernels->module, names[ta][tb]));
  if (kernels->early) TB_TRY(tb_emulated_load(&kernels->emulated, device, again));
  kernels->device.emulated = kernels->emulated.there;
  return CUDA_SUCCESS;
}

static CUresult load_modules(struct tb_kernels *kernels, CUdevice device) {
  TB_TRY(tb_skinny_load(&kernels->skinny, device, &kernels->skinny_module)); /* first: all ask for its limits */
  kernels->device.skinny = true;
  TB_TRY(tb_cuda.cuModuleLoadData(&kernels->module, tb_sgemm_fatbin));
  TB_TRY(load_tiles(kernels));
  TB_TRY(load_helpers(kernels));
  TB_TRY(load_packed_tiles(kernels));
  TB_TRY(look_at_clusters(kernels));
  return load_emulated(kernels, device);
}

CUresult tb_kernels_load(struct tb_kernels *kernels, CUdevice device) {
  *kernels = (struct tb_kernels){0};
  TB_TRY(look_at(&kernels->device, device));
  CUresult result = load_modules(kernels, device);
  if (result != CUDA_SUCCESS) tb_kernels_unload(kernels);
  return result;
}

void tb_kernels_unload(struct tb_kernels *kernels) {
  if (kernels->module != NULL) tb_cuda.cuModuleUnload(kernels->module);
  if (kernels->skinny_module != NULL) tb_cuda.cuModuleUnload(kernels->skinny_module);
  kernels->module = kernels->skinny_module = NULL;
  tb_emulated_unload(&kernels->emulated);
}

/* ---- choosing ---- */

/* Four words at a time along m or n: the addresses must be multiples of 16 bytes, and the last four words readable. */
static bool whole_vectors(const float *operand, int64_t ld, int64_t side, bool padded) {
  return (uintptr_t)operand % 16 == 0 && ld % 4 == 0 && (padded || side % 4 == 0);
}

bool tb_kernels_vectors(bool transpose_a, bool transpose_b, const struct tb_sgemm_args *args) {
  return (transpose_a || whole_vectors(args->a, args->lda, args->m, args->padded)) &&
         (!transpose_b || whole_vectors(args->b, args->ldb, args->n, args->padded));
}

struct tb_choice tb_kernels_choose(const struct tb_kernels *kernels, bool transpose_a, bool transpose_b,
                                   const struct tb_sgemm_args *args, int64_t workspace_bytes,
                                   enum tb_precision precision) {
  struct tb_product product = {.m = args->m,
                               .n = args->n,
                               .k = args->k,
                               .group_k = args->group_k,
                               .transpose_a = transpose_a,
                               .transpose_b = transpose_b,
                               .vectors = tb_kernels_vectors(transpose_a, transpose_b, args),
                               .emulated = precision != TB_PRECISION_IEEE && args->first && args->last,
                               .fast = precision == TB_PRECISION_FAST,
                               .workspace_bytes = workspace_bytes};
  return tb_select(&kernels->device, &product);
}

/* ---- launching ---- */

/* The gather's grid: a thread an element, up to as many as a device holds. */
#define GATHER_THREADS 256
#define GATHER_BLOCKS_PER_SM 4

static CUresult gather(const struct tb_kernels *kernels, struct tb_sgemm_args *args, CUstream stream) {
  int64_t blocks = (args->m * args->n + GATHER_THREADS - 1) / GATHER_THREADS;
  blocks = tb_min(blocks, (int64_t)kernels->device.sm_count * GATHER_BLOCKS_PER_SM);
  return tb_launch_behind(kernels->early, kernels->gather, (struct tb_grid){blocks, 1, GATHER_THREADS, 0, 1}, args,
                          NULL, stream);
}

static CUresult launch_skinny(const struct tb_kernels *kernels, const struct tb_choice *choice, bool transpose_a,
                              bool transpose_b, struct tb_sgemm_args *args, CUdeviceptr workspace, CUstream stream) {
  struct tb_skinny_plan plan;
  const int64_t room = choice->splits > 1 ? INT64_MAX : 0; /* when it was chosen, there was enough */
  if (!tb_skinny_plan_make(&plan, &kernels->skinny.limits, transpose_a, transpose_b, args->m, args->n, args->k,
                           tb_skinny_vectors(transpose_a, transpose_b, args), room))
    return CUDA_ERROR_INVALID_VALUE;
  args->partials = plan.splits > 1 ? (float *)workspace : NULL;
  args->unit_k = args->group_k = TB_SGEMM_GROUP_K;
  TB_TRY(tb_skinny_launch(&kernels->skinny, &plan, transpose_a, transpose_b, args, stream));
  return plan.splits > 1 ? gather(kernels, args, stream) : CUDA_SUCCESS;
}

/* The blocks of each part of a split k, and their partial sums, or those of a cluster for each tile. */
static struct tb_grid grid_of(const struct tb_kernels *kernels, const struct tb_choice *choice,
                              struct tb_sgemm_args *args, CUdeviceptr partials) {
  const struct tb_tile *t = &tb_tiles[choice->tile];
  const struct tb_split_k split = tb_split_k_of(args->k, choice);
  const int64_t tiles = tb_tile_count(t, args->m, args->n);
  struct tb_grid grid = {tiles, 1, t->threads, t->shared_bytes, 1};
  if (split.splits == 1) return grid;
  args->unit_k = choice->unit_k;
  args->units_per_split = (int32_t)split.per_split;
  /* Beside another kernel's last blocks they would wait for SMs that are free at the same time. */
  const int held = args->beside
                       ? 0
                       : tb_split_k_together(&split, &kernels->device.clusters, choice->unit_k == args->group_k, tiles,
                                             kernels->device.sm_count, kernels->device.blocks_per_sm[choice->tile]);
  if (held > 0) {
    args->together = grid.cluster = (int32_t)split.splits;
    grid.x *= split.splits;
    if (held < kernels->device.blocks_per_sm[choice->tile])
      grid.shared_bytes = shared_bytes_to_hold(kernels, held, t->shared_bytes);
  } else {
    args->partials = (float *)partials;
    grid.y = split.splits;
  }
  return grid;
}

static CUresult launch_tiles(const struct tb_kernels *kernels, const struct tb_choice *choice, bool transpose_a,
                             bool transpose_b, struct tb_sgemm_args *args, CUdeviceptr workspace, CUstream stream) {
  const struct tb_grid g = grid_of(kernels, choice, args, workspace);
  const bool any = !tb_kernels_vectors(transpose_a, transpose_b, args);
  CUfunction function = kernels->function[choice->tile][transpose_a][transpose_b][any];
  TB_TRY(tb_launch_behind(false, function, g, args, NULL, stream));
  return g.y > 1 ? gather(kernels, args, stream) : CUDA_SUCCESS;
}

/* Pairs of panels of an operand with so many rows, or columns. */
static int64_t pairs_of(int64_t sides) { return (sides + 2 * TB_SGEMM_PANEL - 1) / (2 * TB_SGEMM_PANEL); }

/* Both operands into `workspace`; `args` then are the packed tile's. */
static CUresult pack(const struct tb_kernels *kernels, bool transpose_a, bool transpose_b, struct tb_sgemm_args *args,
                     CUdeviceptr workspace, CUstream stream) {
  struct tb_sgemm_pack_args p = {
      .a = {.from = args->a, .to = (float *)workspace, .ld = args->lda, .sides = args->m, .along_k = transpose_a},
      .b = {.from = args->b, .ld = args->ldb, .sides = args->n, .along_k = !transpose_b},
      .k = args->k,
      .rows = (args->k + TB_SGEMM_PACKED_K - 1) / TB_SGEMM_PACKED_K * TB_SGEMM_PACKED_K};
  p.b.to = p.a.to + pairs_of(args->m) * 2 * TB_SGEMM_PANEL * p.rows;
  const int64_t parts = (p.rows + TB_SGEMM_PACK_K - 1) / TB_SGEMM_PACK_K;
  const int64_t blocks = parts * (pairs_of(args->m) + pairs_of(args->n));
  void *parameters[] = {&p};
  TB_TRY(tb_cuda.cuLaunchKernel(kernels->pack, (unsigned)blocks, 1, 1, TB_SGEMM_PACK_THREADS, 1, 1, 0, stream,
                                parameters, NULL));
  args->a = p.a.to, args->b = p.b.to;
  args->lda = args->ldb = p.rows;
  return CUDA_SUCCESS;
}

/* The part of D that starts at this row and column, from packed operands. */
static struct tb_sgemm_args part_of(const struct tb_sgemm_args *args, struct tb_rest part) {
  struct tb_sgemm_args p = *args;
  p.a += part.first_row * p.lda; /* a panel has TB_SGEMM_PANEL words for each of its lda rows, and as many sides */
  p.b += part.first_column * p.ldb;
  p.d += part.first_row + part.first_column * p.ldd;
  p.m = part.m, p.n = part.n;
  return p;
}

/* What is computed with k whole, and then what is left, which starts where SMs have nothing left of the former. */
static CUresult multiply_packed(const struct tb_kernels *kernels, const struct tb_choice *choice,
                                struct tb_sgemm_args *args, CUdeviceptr partials, CUstream stream) {
  CUfunction function = kernels->function[choice->tile][0][0][0];
  const struct tb_rest rest = tb_rest_of(args->m, args->n, choice);
  if (rest.first_row + rest.first_column > 0) {
    struct tb_choice whole = *choice;
    whole.splits = 1;
    const struct tb_rest ahead = {0, 0, rest.first_row > 0 ? rest.first_row : args->m,
                                  rest.first_column > 0 ? rest.first_column : args->n};
    struct tb_sgemm_args part = part_of(args, ahead);
    TB_TRY(tb_launch_behind(kernels->early, function, grid_of(kernels, &whole, &part, 0), &part, NULL, stream));
  }
  if (rest.m == 0 || rest.n == 0) return CUDA_SUCCESS;
  struct tb_sgemm_args part = part_of(args, rest);
  part.beside = rest.first_row + rest.first_column > 0;
  const struct tb_grid g = grid_of(kernels, choice, &part, partials);
  TB_TRY(tb_launch_behind(kernels->early, function, g, &part, NULL, stream));
  return g.y > 1 ? gather(kernels, &part, stream) : CUDA_SUCCESS;
}

struct tb_sgemm_args tb_kernels_part_of_k(const struct tb_sgemm_args *product, bool transpose_a, bool transpose_b,
                                          int64_t start, int64_t size) {
  struct tb_sgemm_args args = *product;
  args.a += transpose_a ? start : start * args.lda;
  args.b += transpose_b ? start * args.ldb : start;
  args.k = tb_min(size, product->k - start);
  args.first = product->first && start == 0;
  args.last = product->last && start + args.k == product->k;
  return args;
}

/* Part of k after part of k, each packed and multiplied. */
static CUresult launch_packed(const struct tb_kernels *kernels, const struct tb_choice *choice, bool transpose_a,
                              bool transpose_b, const struct tb_sgemm_args *product, CUdeviceptr workspace,
                              CUstream stream) {
  for (int64_t start = 0; start < product->k; start += choice->pack_k) {
    struct tb_sgemm_args args = tb_kernels_part_of_k(product, transpose_a, transpose_b, start, choice->pack_k);
    TB_TRY(pack(kernels, transpose_a, transpose_b, &args, workspace, stream));
    const CUdeviceptr partials = workspace + (CUdeviceptr)tb_packed_bytes(args.m, args.n, args.k);
    TB_TRY(multiply_packed(kernels, choice, &args, partials, stream));
  }
  return CUDA_SUCCESS;
}

/* Span after span of k, each packed and multiplied. The operands' planes come first in the workspace. */
static CUresult launch_emulated(const struct tb_kernels *kernels, const struct tb_choice *choice, bool transpose_a,
                                bool transpose_b, const struct tb_sgemm_args *product, CUdeviceptr workspace,
                                CUstream stream) {
  const struct tb_emulated_way way = tb_choice_way(choice);
  const int64_t span_k = tb_emulated_first_span(&way, product->k);
  const CUdeviceptr b_at = workspace + (CUdeviceptr)tb_emulated_packed_bytes(false, product->m, span_k);
  const CUdeviceptr rest_at = b_at + (CUdeviceptr)tb_emulated_packed_bytes(true, product->n, span_k);
  for (int64_t start = 0; start < product->k; start += span_k) {
    const struct tb_sgemm_args args = tb_kernels_part_of_k(product, transpose_a, transpose_b, start, span_k);
    const struct tb_emulated_operand a = {args.a, args.lda, args.m, false, transpose_a};
    const struct tb_emulated_operand b = {args.b, args.ldb, args.n, true, !transpose_b};
    TB_TRY(tb_emulated_pack(&kernels->emulated, &a, workspace, &b, b_at, args.k, stream));
    TB_TRY(tb_emulated_multiply(&kernels->emulated, transpose_a, transpose_b, &args, workspace, b_at, rest_at, &way,
                                stream));
  }
  return CUDA_SUCCESS;
}

CUresult tb_kernels_launch(const struct tb_kernels *kernels, const struct tb_choice *choice, bool transpose_a,
                           bool transpose_b, const struct tb_sgemm_args *product, CUdeviceptr workspace,
                           CUstream stream) {
  struct tb_sgemm_args args = *product;
  switch (choice->family) {
    case TB_FAMILY_SKINNY:
      return launch_skinny(kernels, choice, transpose_a, transpose_b, &args, workspace, stream);
    case TB_FAMILY_EMULATED:
      return launch_emulated(kernels, choice, transpose_a, transpose_b, product, workspace, stream);
    case TB_FAMILY_TILE:
      if (choice->pack_k > 0)
        return launch_packed(kernels, choice, transpose_a, transpose_b, product, workspace, stream);
      return launch_tiles(kernels, choice, transpose_a, transpose_b, &args, workspace, stream);
    default:
      return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
}
