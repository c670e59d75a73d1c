/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/batch.h"

#include <stdio.h>

#include "base/integers.h"
#include "cuda/launch.h"
#include "select/embed.h"
#include "select/fp64.h"
#include "select/made_real.h"
#include "select/order.h"
#include "select/product.h"
#include "select/shared.h"

TB_EMBED(tb_batch_sgemm_fatbin, TB_BATCH_SGEMM_FATBIN); /* kernels/batch/sgemm.cu */
TB_EMBED(tb_batch_dgemm_fatbin, TB_BATCH_DGEMM_FATBIN); /* kernels/batch/dgemm.cu */
TB_EMBED(tb_batch_zgemm_fatbin, TB_BATCH_ZGEMM_FATBIN); /* kernels/batch/zgemm.cu */

/* Of kernels and their module. */
enum kind { OF_FLOATS, OF_DOUBLES, OF_COMPLEX_DOUBLES, KINDS };
static enum kind kind_of(enum tb_type type) {
  return type == TB_D ? OF_DOUBLES : type == TB_Z ? OF_COMPLEX_DOUBLES : OF_FLOATS;
}

/* Bits of a variant. */
enum { TRANSPOSED_B = 1, TRANSPOSED_A = 2, BY_WORDS = 4 };

/* Each kind's tiles: where they stand in their family's table, and per cent of the peak (select/rates.def), by which
 * they are weighed against each other. */
static const int fma_tile[TB_BATCH_TILES] = {TB_TILE_64x64, TB_TILE_32x32};
static const int fp64_tile[2][TB_BATCH_TILES] = {{TB_FP64_d64x64, TB_FP64_d32x32}, {TB_FP64_z64x64, TB_FP64_z32x32}};
static const int tile_side[TB_BATCH_TILES] = {TB_BATCH_LARGE, TB_BATCH_SMALL};
static const int tile_rate[KINDS][TB_BATCH_TILES] = {{68, 44}, {85, 52}, {92, 76}};

static int threads_of(enum kind kind, int tile) {
  return kind == OF_FLOATS ? tb_tiles[fma_tile[tile]].threads
                           : tb_fp64_tiles[fp64_tile[kind == OF_COMPLEX_DOUBLES][tile]].threads;
}

/* ---- loading ---- */

/* Of floats that are both loaded along k there is one kernel. */
static void name_of_batch(enum kind kind, int tile, int variant, char *name, size_t size) {
  const bool by_words = variant & BY_WORDS && (kind != OF_FLOATS || (variant & 3) != TRANSPOSED_A);
  snprintf(name, size, "tb_batch_%cgemm_%d_%c%c%s", "sdz"[kind], tile_side[tile], variant & TRANSPOSED_A ? 't' : 'n',
           variant & TRANSPOSED_B ? 't' : 'n', by_words ? "_any" : "");
}

static void look_at_tile(struct tb_batch_kernels *batch, enum kind kind, int tile) {
  if (kind == OF_FLOATS) {
    batch->shared_bytes[kind][tile] = tb_tiles[fma_tile[tile]].shared_bytes;
    return;
  }
  const struct tb_fp64_tile *const t = &tb_fp64_tiles[fp64_tile[kind == OF_COMPLEX_DOUBLES][tile]];
  batch->shared_bytes[kind][tile] = t->stage_bytes;
  batch->sum_bytes[kind][tile] = t->sum_bytes;
}

/* The arguments that a block keeps in shared memory. */
#define OWN_BYTES 256

static bool fits_device(const struct tb_batch_kernels *batch, enum kind kind, int tile) {
  return batch->shared_bytes[kind][tile] + batch->sum_bytes[kind][tile] + OWN_BYTES <= batch->block_shared_bytes;
}

static CUresult load_tile(struct tb_batch_kernels *batch, enum kind kind, int tile) {
  const int default_bytes = 48 << 10;
  look_at_tile(batch, kind, tile);
  const int most = batch->shared_bytes[kind][tile] + batch->sum_bytes[kind][tile];
  for (int variant = 0; variant < TB_BATCH_VARIANTS; variant++) {
    char name[48];
    CUfunction *const function = &batch->multiply[kind][tile][variant];
    name_of_batch(kind, tile, variant, name, sizeof name);
    TB_TRY(tb_cuda.cuModuleGetFunction(function, batch->module[kind], name));
    if (most + OWN_BYTES > default_bytes && fits_device(batch, kind, tile))
      TB_TRY(tb_cuda.cuFuncSetAttribute(*function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most));
  }
  return CUDA_SUCCESS;
}

static CUresult load_by_elements(struct tb_batch_kernels *batch) {
  const CUmodule module = batch->module[OF_FLOATS];
  TB_TRY(tb_cuda.cuModuleGetFunction(&batch->expand, module, "tb_batch_expand"));
  TB_TRY(tb_cuda.cuModuleGetFunction(&batch->part, module, "tb_batch_part"));
  for (int type = 0; type < TB_TYPE_COUNT; type++) {
    char name[32];
    snprintf(name, sizeof name, "tb_batch_commit_%c", tb_type_letter((enum tb_type)type));
    TB_TRY(tb_cuda.cuModuleGetFunction(&batch->commit[type], module, name));
  }
  return CUDA_SUCCESS;
}

static CUresult load_batch_functions(struct tb_batch_kernels *batch, enum kind kind) {
  for (int tile = 0; tile < TB_BATCH_TILES; tile++) TB_TRY(load_tile(batch, kind, tile));
  return kind == OF_FLOATS ? load_by_elements(batch) : CUDA_SUCCESS;
}

static void unload_kind(struct tb_batch_kernels *batch, enum kind kind) {
  if (batch->module[kind] != NULL) tb_cuda.cuModuleUnload(batch->module[kind]);
  batch->module[kind] = NULL;
}

static CUresult load_kind(struct tb_batch_kernels *batch, enum kind kind) {
  const void *const fatbin[KINDS] = {tb_batch_sgemm_fatbin, tb_batch_dgemm_fatbin, tb_batch_zgemm_fatbin};
  if (batch->module[kind] != NULL) return CUDA_SUCCESS;
  TB_TRY(tb_cuda.cuModuleLoadData(&batch->module[kind], fatbin[kind]));
  const CUresult result = load_batch_functions(batch, kind);
  if (result != CUDA_SUCCESS) unload_kind(batch, kind);
  return result;
}

CUresult tb_batch_load(struct tb_batch_kernels *batch, enum tb_type type, int64_t block_shared_bytes) {
  batch->block_shared_bytes = block_shared_bytes;
  TB_TRY(load_kind(batch, OF_FLOATS)); /* which has the commits of all */
  return load_kind(batch, kind_of(type));
}

void tb_batch_unload(struct tb_batch_kernels *batch) {
  for (int kind = 0; kind < KINDS; kind++) unload_kind(batch, (enum kind)kind);
}

/* ---- a product ---- */

/* In elements as the kernel sees them. */
static void see_as_real(struct tb_batch_product *p, const struct tb_call *call, const struct tb_batch_place *place) {
  p->m *= 2, p->k *= 2, p->group_k *= 2;
  p->from_a = place->a, p->from_lda = place->lda;
  p->a = place->real_a, p->lda = place->real_lda;
  p->from_b = -1, p->ldb = 2 * place->ldb;
  if (call->b.transposed) {
    p->from_b = place->b, p->from_ldb = place->ldb;
    p->b = place->real_b, p->ldb = place->real_ldb;
  }
  p->ldd = 2 * place->ldd;
  tb_expand_alpha(call, p->expand_alpha);
  p->along_k_a = call->a.transposed;
  p->scaled = !tb_scalar_is_real(call->type, call->alpha);
}

/* Of a real scalar its value, and 0. */
static void scalar_parts_of(enum tb_type type, union tb_scalar x, double part[2]) {
  part[0] = tb_type_is_double(type) ? x.d : (double)x.s;
  part[1] = 0;
  if (tb_type_is_complex(type)) tb_scalar_parts(type, x, part);
}

void tb_batch_product_of(struct tb_batch_product *p, const struct tb_call *call, const struct tb_batch_place *place) {
  *p = (struct tb_batch_product){.a = place->a,
                                 .b = place->b,
                                 .d = place->d,
                                 .lda = place->lda,
                                 .ldb = place->ldb,
                                 .ldd = place->ldd,
                                 .m = (int32_t)call->m,
                                 .n = (int32_t)call->n,
                                 .k = (int32_t)call->k,
                                 .group_k = (int32_t)call->group_k,
                                 .conjugate_a = call->a.conjugated,
                                 .conjugate_b = call->b.conjugated,
                                 .from_b = -1};
  scalar_parts_of(tb_is_made_real(call->type) ? TB_S : call->type, tb_real_alpha(call), p->alpha);
  scalar_parts_of(call->type, call->beta, p->beta);
  if (tb_is_made_real(call->type)) see_as_real(p, call, place);
}

static bool copies_vectors(const struct tb_call *call, const struct tb_batch_place *place) {
  const bool ta = call->a.transposed, tb = call->b.transposed;
  if (tb_is_made_real(call->type)) { /* A was written anew, and B, if it does not run along k */
    return true;
  } else if (call->type == TB_S) {
    const struct tb_sgemm_args args = {.a = (const float *)(place->base + (uint64_t)place->a),
                                       .b = (const float *)(place->base + (uint64_t)place->b),
                                       .lda = place->lda,
                                       .ldb = place->ldb,
                                       .m = call->m,
                                       .n = call->n,
                                       .padded = place->padded};
    return tb_kernels_vectors(ta, tb, &args);
  }
  const struct tb_fp64_args args = {.a = (const double *)(place->base + (uint64_t)place->a),
                                    .b = (const double *)(place->base + (uint64_t)place->b),
                                    .lda = place->lda,
                                    .ldb = place->ldb,
                                    .m = call->m,
                                    .n = call->n,
                                    .k = call->k};
  return tb_fp64_in_units(call->type == TB_Z, ta, tb, &args);
}

int tb_batch_variant_of(const struct tb_call *call, const struct tb_batch_place *place) {
  return (call->a.transposed ? TRANSPOSED_A : 0) | (call->b.transposed ? TRANSPOSED_B : 0) |
         (copies_vectors(call, place) ? 0 : BY_WORDS);
}

/* ---- launches ---- */

/* What a run has of the most, and the tile that takes the least time for all of it. */
struct shape {
  int64_t tiles[TB_BATCH_TILES], m, n, k;
  double cost[TB_BATCH_TILES];
  bool sums; /* of several groups of k */
};

static struct shape shape_of(const struct tb_batch_run *run) {
  struct shape s = {0};
  for (int64_t i = 0; i < run->args.count; i++) {
    const struct tb_batch_product *const p = &run->list[i];
    s.m = tb_max(s.m, p->m), s.n = tb_max(s.n, p->n), s.k = tb_max(s.k, p->k);
    if (p->k > p->group_k) s.sums = true;
    for (int tile = 0; tile < TB_BATCH_TILES; tile++) {
      const int64_t side = tile_side[tile], tiles = tb_ceil_div(p->m, side) * tb_ceil_div(p->n, side);
      s.tiles[tile] = tb_max(s.tiles[tile], tiles);
      s.cost[tile] += (double)(tiles * side * side) * (double)p->k / tile_rate[kind_of(run->type)][tile];
    }
  }
  return s;
}

CUresult tb_batch_multiply(const struct tb_batch_kernels *batch, const struct tb_batch_run *run, CUstream stream) {
  const enum kind kind = kind_of(run->type);
  const struct shape s = shape_of(run);
  const int tile = fits_device(batch, kind, 0) && s.cost[0] <= s.cost[1] ? 0 : 1;
  const int shared_bytes = batch->shared_bytes[kind][tile] + (s.sums ? batch->sum_bytes[kind][tile] : 0);
  struct tb_batch_args args = run->args;
  const struct tb_grid grid = {s.tiles[tile], args.count, threads_of(kind, tile), shared_bytes, 1};
  return tb_launch_behind(false, batch->multiply[kind][tile][run->variant], grid, &args, NULL, stream);
}

/* A thread an element of `rows` x `columns` at most, of each product. */
static CUresult launch_by_elements(CUfunction function, int64_t rows, int64_t columns, const struct tb_batch_args *args,
                                   CUstream stream) {
  struct tb_batch_args arguments = *args;
  void *parameters[] = {&arguments};
  const int64_t y = tb_min(tb_ceil_div(columns, TB_BATCH_THREADS_N), TB_GRID_Y_MAX);
  TB_TRY(tb_cuda.cuLaunchKernel(function, (unsigned)tb_ceil_div(rows, TB_BATCH_THREADS_M), (unsigned)y,
                                (unsigned)args->count, TB_BATCH_THREADS_M, TB_BATCH_THREADS_N, 1, 0, stream, parameters,
                                NULL));
  return CUDA_SUCCESS;
}

CUresult tb_batch_make_real(const struct tb_batch_kernels *batch, const struct tb_batch_run *run, CUstream stream) {
  if (!tb_is_made_real(run->type)) return CUDA_SUCCESS;
  const struct shape s = shape_of(run);
  const bool along_k = run->variant & TRANSPOSED_A;
  TB_TRY(launch_by_elements(batch->expand, (along_k ? s.k : s.m) / 2, (along_k ? s.m : s.k) / 2, &run->args, stream));
  if (!(run->variant & TRANSPOSED_B)) return CUDA_SUCCESS;
  return launch_by_elements(batch->part, s.n, s.k / 2, &run->args, stream);
}

CUresult tb_batch_commit(const struct tb_batch_kernels *batch, const struct tb_batch_run *run, CUstream stream) {
  const struct shape s = shape_of(run);
  return launch_by_elements(batch->commit[run->type], s.m, s.n, &run->args, stream);
}
