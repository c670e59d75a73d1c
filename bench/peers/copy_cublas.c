/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program that a careful engineer writes first: allocate on the GPU, copy A and B up, cuBLAS, copy C down, free.
 *
 *   copy_cublas [--setting 0|2] [options of call.c] SIZE...      setting: cuBLAS's math mode; 0 default, 2 pedantic
 * fp32
 *
 * Host operands are plain malloc'd memory, as everywhere in these measurements. The handle is made once, outside the
 * timing.
 */
#include "../call.h"
#include "nvidia.h"

#include <stdio.h>
#include <stdlib.h>

static void sgemm(const struct tb_call *call, int m, int n, int k, const float *a, const float *b, float *c) {
  const float one = 1, zero = 0;
  size_t a_bytes = sizeof *a * (size_t)m * (size_t)k, b_bytes = sizeof *b * (size_t)k * (size_t)n;
  size_t c_bytes = sizeof *c * (size_t)m * (size_t)n;
  void *da, *db, *dc;
  TB_NV(cudaMalloc(&da, a_bytes));
  TB_NV(cudaMalloc(&db, b_bytes));
  TB_NV(cudaMalloc(&dc, c_bytes));
  TB_NV(cudaMemcpy(da, a, a_bytes, TB_HOST_TO_DEVICE));
  TB_NV(cudaMemcpy(db, b, b_bytes, TB_HOST_TO_DEVICE));
  TB_NV(cublasSgemm_v2((tb_cublas_handle)call->ctx, call->ta ? TB_OP_T : TB_OP_N, call->tb ? TB_OP_T : TB_OP_N, m, n, k,
                       &one, da, call->ta ? k : m, db, call->tb ? n : k, &zero, dc, m));
  TB_NV(cudaMemcpy(c, dc, c_bytes, TB_DEVICE_TO_HOST)); /* waits for the product: both are on the default stream */
  TB_NV(cudaFree(da));
  TB_NV(cudaFree(db));
  TB_NV(cudaFree(dc));
}

int main(int argc, char **argv) {
  struct tb_call call = {
      .sgemm = sgemm, .label = "copy-cublas-copy", .symbol = "cublasSgemm", .owner = "libcublas", .budget_s = 1};
  int math = TB_MATH_DEFAULT;
  int next = tb_call_parse(&call, argc, argv, &math);
  if (math != TB_MATH_DEFAULT && math != TB_MATH_PEDANTIC) {
    fprintf(stderr, "copy_cublas: --setting %d: 0 (default) or 2 (pedantic) is meant\n", math);
    return 2;
  }
  if (!tb_nvidia_load()) return TB_PEER_MISSING;
  tb_cublas_handle handle;
  TB_NV(cublasCreate_v2(&handle));
  TB_NV(cublasSetMathMode(handle, math));
  call.ctx = handle;
  int all_right = 1;
  for (; next < argc; next++) all_right &= tb_call_run(&call, argv[next]);
  TB_NV(cublasDestroy_v2(handle));
  return all_right ? EXIT_SUCCESS : EXIT_FAILURE;
}
