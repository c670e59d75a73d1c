/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels.h"

#include <stdio.h>

const struct tb_tile tb_tiles[TB_TILE_COUNT] = {
#define TB_SGEMM_TILE(name, bm, bn, bk, stages, tm, tn, rate) \
  {#name, bm, bn, bk, tm, tn, (bm / tm) * (bn / tn), TB_SGEMM_SHARED_BYTES(bm, bn, bk, stages), rate},
#include "registry.def"
#undef TB_SGEMM_TILE
};

/* The fat binary of kernels/sgemm.cu, put into the read-only data. */
__asm__(".pushsection .rodata\n"
        ".balign 64\n"
        ".hidden tb_sgemm_fatbin\n"
        ".globl tb_sgemm_fatbin\n"
        "tb_sgemm_fatbin:\n"
        ".incbin \"" TB_SGEMM_FATBIN "\"\n"
        ".popsection\n");
extern const unsigned char tb_sgemm_fatbin[] __attribute__((visibility("hidden")));

/* Kernels may have more shared memory than CUDA gives unasked; a device with less of it than a tile wants goes without.
 */
static CUresult load_function(struct tb_kernels *kernels, CUmodule module, int tile, int ta, int tb, bool any) {
  static const char letter[] = "nt";
  const struct tb_tile *t = &tb_tiles[tile];
  const bool loads_vectors = !ta || tb; /* from an operand whose memory runs along m or n */
  char name[64];
  snprintf(name, sizeof name, "tb_sgemm_%s_%c%c%s", t->name, letter[ta], letter[tb],
           any && loads_vectors ? "_any" : "");
  CUfunction *function = &kernels->function[tile][ta][tb][any];
  TB_TRY(tb_cuda.cuModuleGetFunction(function, module, name));
  CUresult fits =
      tb_cuda.cuFuncSetAttribute(*function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, t->shared_bytes);
  int blocks = 0;
  if (fits == CUDA_SUCCESS)
    TB_TRY(
        tb_cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, *function, t->threads, (size_t)t->shared_bytes));
  else if (fits != CUDA_ERROR_INVALID_VALUE)
    TB_TRY(fits);
  bool seen_first = ta + tb + any == 0;
  if (seen_first || blocks < kernels->blocks_per_sm[tile]) kernels->blocks_per_sm[tile] = blocks;
  return CUDA_SUCCESS;
}

static CUresult load_functions(struct tb_kernels *kernels, CUmodule module) {
  for (int tile = 0; tile < TB_TILE_COUNT; tile++)
    for (int variant = 0; variant < 8; variant++)
      TB_TRY(load_function(kernels, module, tile, variant >> 1 & 1, variant & 1, variant >> 2));
  return CUDA_SUCCESS;
}

CUresult tb_kernels_load(struct tb_kernels *kernels, CUmodule *module) {
  TB_TRY(tb_cuda.cuModuleLoadData(module, tb_sgemm_fatbin));
  CUresult result = load_functions(kernels, *module);
  if (result != CUDA_SUCCESS) {
    tb_cuda.cuModuleUnload(*module);
    *module = NULL;
  }
  return result;
}

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Time that a tile takes of an SM, in arbitrary units: its elements over its rate. */
static double tile_cost(const struct tb_tile *t) { return (double)t->block_m * t->block_n / t->rate; }

int tb_kernels_choose(const int blocks_per_sm[TB_TILE_COUNT], int sm_count, int64_t m, int64_t n) {
  int best = -1;
  double best_cost = 0;
  for (int tile = 0; tile < TB_TILE_COUNT; tile++) {
    if (blocks_per_sm[tile] == 0) continue;
    int64_t blocks = ceil_div(m, tb_tiles[tile].block_m) * ceil_div(n, tb_tiles[tile].block_n);
    double cost = (double)ceil_div(blocks, sm_count) * tile_cost(&tb_tiles[tile]);
    if (best < 0 || cost < best_cost) { /* rows stand from large to small, so the larger tile wins a tie */
      best = tile;
      best_cost = cost;
    }
  }
  return best;
}

/* Four words at a time along m or n: the addresses must be multiples of 16 bytes, and the last four words readable. */
static bool whole_vectors(const float *operand, int64_t ld, int64_t side, bool padded) {
  return (uintptr_t)operand % 16 == 0 && ld % 4 == 0 && (padded || side % 4 == 0);
}

CUfunction tb_kernels_function(const struct tb_kernels *kernels, int tile, bool transpose_a, bool transpose_b,
                               const struct tb_sgemm_args *args) {
  bool vectors = (transpose_a || whole_vectors(args->a, args->lda, args->m, args->padded)) &&
                 (!transpose_b || whole_vectors(args->b, args->ldb, args->n, args->padded));
  return kernels->function[tile][transpose_a][transpose_b][!vectors];
}

CUresult tb_kernels_launch(const struct tb_kernels *kernels, int tile, bool transpose_a, bool transpose_b,
                           struct tb_sgemm_args *args, CUstream stream) {
  const struct tb_tile *t = &tb_tiles[tile];
  int64_t blocks = ceil_div(args->m, t->block_m) * ceil_div(args->n, t->block_n);
  void *parameters[] = {args};
  TB_TRY(tb_cuda.cuLaunchKernel(tb_kernels_function(kernels, tile, transpose_a, transpose_b, args), (unsigned)blocks, 1,
                                1, (unsigned)t->threads, 1, 1, (unsigned)t->shared_bytes, stream, parameters, NULL));
  return CUDA_SUCCESS;
}
