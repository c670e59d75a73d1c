/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/complex.h"

#include "base/integers.h"
#include "cuda/launch.h"
#include "select/embed.h"

TB_EMBED(tb_complex_fatbin, TB_COMPLEX_FATBIN); /* kernels/complex/complex.cu */

static CUresult load_complex_functions(struct tb_complex_kernels *complex) {
  TB_TRY(tb_cuda.cuModuleGetFunction(&complex->expand, complex->module, "tb_cgemm_expand"));
  TB_TRY(tb_cuda.cuModuleGetFunction(&complex->part, complex->module, "tb_cgemm_part"));
  TB_TRY(tb_cuda.cuModuleGetFunction(&complex->commit[false], complex->module, "tb_cgemm_commit"));
  TB_TRY(tb_cuda.cuModuleGetFunction(&complex->commit[true], complex->module, "tb_zgemm_commit"));
  return CUDA_SUCCESS;
}

CUresult tb_complex_load(struct tb_complex_kernels *complex) {
  if (complex->module != NULL) return CUDA_SUCCESS;
  TB_TRY(tb_cuda.cuModuleLoadData(&complex->module, tb_complex_fatbin));
  const CUresult result = load_complex_functions(complex);
  if (result != CUDA_SUCCESS) tb_complex_unload(complex);
  return result;
}

void tb_complex_unload(struct tb_complex_kernels *complex) {
  if (complex->module != NULL) tb_cuda.cuModuleUnload(complex->module);
  complex->module = NULL;
}

/* A thread an element, of a grid that strides over columns. */
static CUresult launch(CUfunction function, int64_t rows, int64_t columns, void *args, CUstream stream) {
  const int64_t x = tb_ceil_div(rows, TB_COMPLEX_THREADS_M), y = tb_ceil_div(columns, TB_COMPLEX_THREADS_N);
  void *parameters[] = {args};
  TB_TRY(tb_cuda.cuLaunchKernel(function, (unsigned)x, (unsigned)tb_min(y, TB_GRID_Y_MAX), 1, TB_COMPLEX_THREADS_M,
                                TB_COMPLEX_THREADS_N, 1, 0, stream, parameters, NULL));
  return CUDA_SUCCESS;
}

CUresult tb_complex_expand(const struct tb_complex_kernels *complex, struct tb_complex_expand_args *args,
                           CUstream stream) {
  return launch(complex->expand, args->rows, args->columns, args, stream);
}

CUresult tb_complex_part(const struct tb_complex_kernels *complex, struct tb_complex_part_args *args, CUstream stream) {
  return launch(complex->part, args->rows, args->columns, args, stream);
}

CUresult tb_complex_commit(const struct tb_complex_kernels *complex, enum tb_type type,
                           struct tb_complex_commit_args *args, CUstream stream) {
  return launch(complex->commit[tb_type_is_double(type)], args->m, args->n, args, stream);
}
