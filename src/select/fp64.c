/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/fp64.h"

#include <stdio.h>

#include "base/integers.h"
#include "cuda/launch.h"
#include "select/embed.h"

TB_EMBED(tb_dgemm_fatbin, TB_DGEMM_FATBIN); /* kernels/fp64/dgemm.cu */
TB_EMBED(tb_zgemm_fatbin, TB_ZGEMM_FATBIN); /* kernels/fp64/zgemm.cu */

/* ---- loading ---- */

/* Operations of an SM in a cycle: those with fast FP64 units, which have so many and more, and all others. */
#define FAST_SM_FLOPS_PER_CYCLE 128
static double sm_flops_per_cycle(int major, int minor) {
  if (minor == 0) return major == 8 || major == 10 ? 128 : major == 9 ? 256 : 4;
  return 4;
}

CUresult tb_fp64_look(struct tb_fp64_kernels *fp64, CUdevice device) {
  int major, minor, khz, memory_khz, bus_bits, block_bytes, sm_bytes;
  struct tb_fp64_device *const d = &fp64->device;
  *fp64 = (struct tb_fp64_kernels){0};
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&d->sm_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device));
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&memory_khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, device));
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&bus_bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, device));
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&block_bytes, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device));
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&sm_bytes, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, device));
  d->block_shared_bytes = block_bytes, d->sm_shared_bytes = sm_bytes;
  d->fast = sm_flops_per_cycle(major, minor) >= FAST_SM_FLOPS_PER_CYCLE;
  d->flops_per_second = d->sm_count * sm_flops_per_cycle(major, minor) * khz * 1e3;
  d->bytes_per_second = 2.0 * memory_khz * 1e3 * bus_bits / 8; /* two bits a wire and cycle */
  return CUDA_SUCCESS;
}

/* What starts early waits by an instruction of compute capability 9.0. Code for less, as drivers compile it for later
 * GPUs, too, would not wait at all. */
static CUresult load_fp64_gather(struct tb_fp64_kernels *fp64, int tile, const char *name) {
  const bool complex = tb_fp64_tiles[tile].complex;
  int compiled_for = 0;
  TB_TRY(tb_cuda.cuModuleGetFunction(&fp64->gather[tile], fp64->module[complex], name));
  TB_TRY(tb_cuda.cuFuncGetAttribute(&compiled_for, CU_FUNC_ATTRIBUTE_PTX_VERSION, fp64->gather[tile]));
  fp64->early[complex] = tb_cuda.cuLaunchKernelEx != NULL && compiled_for >= 90;
  return CUDA_SUCCESS;
}

static CUresult load_fp64_tile(struct tb_fp64_kernels *fp64, int tile) {
  const struct tb_fp64_tile *const t = &tb_fp64_tiles[tile];
  const int64_t shared_bytes = tb_min(t->stage_bytes + t->sum_bytes, fp64->device.block_shared_bytes);
  const CUmodule module = fp64->module[t->complex];
  const char letter = "dz"[t->complex];
  char name[48];
  for (int variant = 0; variant < 8; variant++) {
    const bool ta = variant & 4, tb = variant & 2, units = variant & 1;
    CUfunction *const function = &fp64->tile[tile][ta][tb][units];
    snprintf(name, sizeof name, "tb_%cgemm_%s_%c%c%s", letter, t->name, "nt"[ta], "nt"[tb], units ? "" : "_any");
    TB_TRY(tb_cuda.cuModuleGetFunction(function, module, name));
    TB_TRY(tb_cuda.cuFuncSetAttribute(*function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared_bytes));
  }
  snprintf(name, sizeof name, "tb_%cgemm_gather_%s", letter, t->name);
  return load_fp64_gather(fp64, tile, name);
}

static CUresult load_fp64_functions(struct tb_fp64_kernels *fp64, bool complex) {
  for (int tile = 0; tile < TB_FP64_TILE_COUNT; tile++)
    if (tb_fp64_tiles[tile].complex == complex) TB_TRY(load_fp64_tile(fp64, tile));
  if (!complex) TB_TRY(tb_cuda.cuModuleGetFunction(&fp64->commit, fp64->module[false], "tb_dgemm_commit"));
  return CUDA_SUCCESS;
}

static void unload_fp64_module(CUmodule *module) {
  if (*module != NULL) tb_cuda.cuModuleUnload(*module);
  *module = NULL;
}

CUresult tb_fp64_load(struct tb_fp64_kernels *fp64, bool complex) {
  CUmodule *const module = &fp64->module[complex];
  if (*module != NULL) return CUDA_SUCCESS;
  TB_TRY(tb_cuda.cuModuleLoadData(module, complex ? tb_zgemm_fatbin : tb_dgemm_fatbin));
  const CUresult result = load_fp64_functions(fp64, complex);
  if (result != CUDA_SUCCESS) unload_fp64_module(module);
  return result;
}

void tb_fp64_unload(struct tb_fp64_kernels *fp64) {
  for (int complex = 0; complex < 2; complex++) unload_fp64_module(&fp64->module[complex]);
}

/* ---- launching ---- */

static bool in_units(bool complex, const double *from, int64_t ld, int64_t run) {
  return (uintptr_t)from % 16 == 0 && (complex || (ld % 2 == 0 && run % 2 == 0));
}

bool tb_fp64_in_units(bool complex, bool transpose_a, bool transpose_b, const struct tb_fp64_args *args) {
  return in_units(complex, args->a, args->lda, transpose_a ? args->k : args->m) &&
         in_units(complex, args->b, args->ldb, transpose_b ? args->n : args->k);
}

CUresult tb_fp64_launch(const struct tb_fp64_kernels *fp64, const struct tb_fp64_plan *plan, bool transpose_a,
                        bool transpose_b, const struct tb_fp64_args *args, CUdeviceptr workspace, CUstream stream) {
  const struct tb_fp64_tile *const tile = &tb_fp64_tiles[plan->tile];
  struct tb_fp64_args arguments = *args;
  tb_fp64_arguments(&arguments, plan);
  arguments.partials = plan->splits > 1 ? (double *)workspace : NULL;
  const struct tb_grid grid = {plan->blocks, 1, tile->threads, plan->shared_bytes, 1};
  const bool units = tb_fp64_in_units(plan->complex, transpose_a, transpose_b, &arguments);
  const CUfunction function = fp64->tile[plan->tile][transpose_a][transpose_b][units];
  if (plan->splits == 1) return tb_launch_result(false, function, grid, &arguments, NULL, stream);
  TB_TRY(plan->whole > 0 ? tb_launch_result(false, function, grid, &arguments, NULL, stream)
                         : tb_launch_behind(false, function, grid, &arguments, NULL, stream));
  const struct tb_grid gather = {(plan->tiles - plan->whole) * TB_FP64_GATHER_BLOCKS, 1, tile->threads, 0, 1};
  return tb_launch_result(fp64->early[plan->complex], fp64->gather[plan->tile], gather, &arguments, NULL, stream);
}

CUresult tb_fp64_launch_cut(const struct tb_fp64_kernels *fp64, const struct tb_fp64_cut *cut, bool transpose_a,
                            bool transpose_b, const struct tb_fp64_args *args, CUdeviceptr workspace, CUstream stream) {
  for (int i = 0; i < cut->count; i++) {
    const struct tb_fp64_piece *const piece = &cut->piece[i];
    const int64_t parts = piece->plan.complex ? 2 : 1;
    struct tb_fp64_args of_piece = *args;
    of_piece.a += parts * piece->row * (transpose_a ? args->lda : 1);
    of_piece.b += parts * piece->column * (transpose_b ? 1 : args->ldb);
    of_piece.d += parts * (piece->row + piece->column * args->ldd);
    TB_TRY(tb_fp64_launch(fp64, &piece->plan, transpose_a, transpose_b, &of_piece, workspace, stream));
  }
  return CUDA_SUCCESS;
}

CUresult tb_fp64_launch_chosen(const struct tb_fp64_kernels *fp64, const struct tb_launch *l) {
  const struct tb_fp64_args *const args = l->args_fp64;
  const int64_t room_bytes = l->choice->fp64.room_bytes * args->m * args->n;
  struct tb_fp64_cut cut;
  const struct tb_fp64_product product = {.complex = l->complex,
                                          .units = tb_fp64_in_units(l->complex, l->transpose_a, l->transpose_b, args),
                                          .m = args->m,
                                          .n = args->n,
                                          .k = args->k,
                                          .group_k = args->group_k,
                                          .wanted = args->wanted};
  if (!tb_fp64_cut_find(&cut, &fp64->device, &product, room_bytes)) return CUDA_ERROR_INVALID_VALUE;
  return tb_fp64_launch_cut(fp64, &cut, l->transpose_a, l->transpose_b, args, l->workspace, l->stream);
}

CUresult tb_fp64_commit(const struct tb_fp64_kernels *fp64, struct tb_fp64_commit_args *args, CUstream stream) {
  const int64_t rows = tb_ceil_div(args->m, TB_FP64_COMMIT_THREADS_M);
  const int64_t columns = tb_ceil_div(args->n, TB_FP64_COMMIT_THREADS_N);
  void *parameters[] = {args};
  TB_TRY(tb_cuda.cuLaunchKernel(fp64->commit, (unsigned)rows, (unsigned)tb_min(columns, TB_GRID_Y_MAX), 1,
                                TB_FP64_COMMIT_THREADS_M, TB_FP64_COMMIT_THREADS_N, 1, 0, stream, parameters, NULL));
  return CUDA_SUCCESS;
}
