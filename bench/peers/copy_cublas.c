/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program that a careful engineer writes first: allocate on the GPU, copy A and B up, cuBLAS, copy C down, free.
 *
 *   copy_cublas [--setting 0|2] [--type s|d|c|z] [options of call.c] SIZE...
 *
 * setting: cuBLAS's math mode; 0 default, 2 pedantic fp32
 *
 * Host operands are plain malloc'd memory, as everywhere in these measurements. The handle is made once, outside the
 * timing.
 */
#include "../call.h"
#include "nvidia.h"

#include <stdio.h>
#include <stdlib.h>

static void gemm(const struct tb_call *call, const struct tb_problem *p) {
  const size_t bytes = (size_t)tb_type_bytes(p->type), m = (size_t)p->m, n = (size_t)p->n, k = (size_t)p->k;
  void *da, *db, *dc;
  TB_NV(cudaMalloc(&da, bytes * m * k));
  TB_NV(cudaMalloc(&db, bytes * k * n));
  TB_NV(cudaMalloc(&dc, bytes * m * n));
  TB_NV(cudaMemcpy(da, p->a, bytes * m * k, TB_HOST_TO_DEVICE));
  TB_NV(cudaMemcpy(db, p->b, bytes * k * n, TB_HOST_TO_DEVICE));
  const struct tb_nvidia_product product = tb_nvidia_product_of(p, da, db, dc);
  TB_NV_GEMM(tb_nvidia_gemm((tb_cublas_handle)call->ctx, &product));
  TB_NV(cudaMemcpy(p->c, dc, bytes * m * n, TB_DEVICE_TO_HOST)); /* waits: both are on the default stream */
  TB_NV(cudaFree(da));
  TB_NV(cudaFree(db));
  TB_NV(cudaFree(dc));
}

int main(int argc, char **argv) {
  struct tb_call call = {
      .gemm = gemm, .label = "copy-cublas-copy", .symbol = "cublas gemm", .owner = "libcublas", .budget_s = 1};
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
