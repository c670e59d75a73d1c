/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/triangle.h"

#include "base/integers.h"
#include "cuda/launch.h"
#include "select/embed.h"

TB_EMBED(tb_triangle_fatbin, TB_TRIANGLE_FATBIN); /* kernels/triangle/triangle.cu */

static CUresult load_functions(struct tb_triangle_kernels *triangle) {
  static const char *const commit[TB_TYPE_COUNT] = {"tb_triangle_commit_s", "tb_triangle_commit_d",
                                                    "tb_triangle_commit_c", "tb_triangle_commit_z"};
  static const char *const mirror[TB_TYPE_COUNT] = {"tb_triangle_mirror_s", "tb_triangle_mirror_d",
                                                    "tb_triangle_mirror_c", "tb_triangle_mirror_z"};
  for (int type = 0; type < TB_TYPE_COUNT; type++) {
    TB_TRY(tb_cuda.cuModuleGetFunction(&triangle->commit[type], triangle->module, commit[type]));
    TB_TRY(tb_cuda.cuModuleGetFunction(&triangle->mirror[type], triangle->module, mirror[type]));
  }
  return CUDA_SUCCESS;
}

CUresult tb_triangle_load(struct tb_triangle_kernels *triangle) {
  if (triangle->module != NULL) return CUDA_SUCCESS;
  TB_TRY(tb_cuda.cuModuleLoadData(&triangle->module, tb_triangle_fatbin));
  const CUresult result = load_functions(triangle);
  if (result != CUDA_SUCCESS) tb_triangle_unload(triangle);
  return result;
}

void tb_triangle_unload(struct tb_triangle_kernels *triangle) {
  if (triangle->module != NULL) tb_cuda.cuModuleUnload(triangle->module);
  triangle->module = NULL;
}

CUresult tb_triangle_commit(const struct tb_triangle_kernels *triangle, enum tb_type type,
                            struct tb_triangle_commit_args *args, CUstream stream) {
  const int64_t x = tb_ceil_div(args->m, TB_TRIANGLE_THREADS_M), y = tb_ceil_div(args->n, TB_TRIANGLE_THREADS_N);
  void *parameters[] = {args};
  TB_TRY(tb_cuda.cuLaunchKernel(triangle->commit[type], (unsigned)x, (unsigned)tb_min(y, TB_GRID_Y_MAX), 1,
                                TB_TRIANGLE_THREADS_M, TB_TRIANGLE_THREADS_N, 1, 0, stream, parameters, NULL));
  return CUDA_SUCCESS;
}

CUresult tb_triangle_mirror(const struct tb_triangle_kernels *triangle, enum tb_type type,
                            struct tb_triangle_mirror_args *args, CUstream stream) {
  const int64_t x = tb_ceil_div(args->m, TB_TRIANGLE_MIRROR_TILE), y = tb_ceil_div(args->n, TB_TRIANGLE_MIRROR_TILE);
  void *parameters[] = {args};
  TB_TRY(tb_cuda.cuLaunchKernel(triangle->mirror[type], (unsigned)x, (unsigned)tb_min(y, TB_GRID_Y_MAX), 1,
                                TB_TRIANGLE_THREADS_M, TB_TRIANGLE_THREADS_N, 1, 0, stream, parameters, NULL));
  return CUDA_SUCCESS;
}
