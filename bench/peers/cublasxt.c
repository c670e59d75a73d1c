/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuBLASXt: NVIDIA's own out-of-core product on host memory, one GPU.
 *
 *   cublasxt [--setting BLOCK] [--type s|d|c|z] [options of call.c] SIZE...
 *
 * BLOCK: its tile; negative: with pinning of host memory off
 *
 * The handle is made once, outside the timing.
 */
#include "../call.h"
#include "nvidia.h"

#include <stdio.h>
#include <stdlib.h>

static void gemm(const struct tb_call *call, const struct tb_problem *p) {
  const struct tb_nvidia_product product = tb_nvidia_product_of(p, p->a, p->b, p->c);
  TB_NV_GEMM(tb_nvidia_xt_gemm((tb_cublasxt_handle)call->ctx, &product));
  TB_NV(cudaDeviceSynchronize()); /* the call is documented as blocking; this holds it to that */
}

int main(int argc, char **argv) {
  struct tb_call call = {
      .gemm = gemm, .label = "cublasxt", .symbol = "cublasXt gemm", .owner = "libcublas", .budget_s = 1};
  int block = 2048;
  int next = tb_call_parse(&call, argc, argv, &block);
  if (!tb_nvidia_load()) return TB_PEER_MISSING;
  tb_cublasxt_handle handle;
  int gpu = 0;
  TB_NV(cublasXtCreate(&handle));
  TB_NV(cublasXtDeviceSelect(handle, 1, &gpu));
  TB_NV(cublasXtSetPinningMemMode(handle, block > 0));
  TB_NV(cublasXtSetBlockDim(handle, abs(block)));
  call.ctx = handle;
  int all_right = 1;
  for (; next < argc; next++) all_right &= tb_call_run(&call, argv[next]);
  TB_NV(cublasXtDestroy(handle));
  return all_right ? EXIT_SUCCESS : EXIT_FAILURE;
}
