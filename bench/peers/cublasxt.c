/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuBLASXt: NVIDIA's own out-of-core product on host memory, one GPU.
 *
 *   cublasxt [--setting BLOCK] [options of call.c] SIZE...      BLOCK: its tile; negative: with pinning of host memory
 * off
 *
 * The handle is made once, outside the timing.
 */
#include "../call.h"
#include "nvidia.h"

#include <stdio.h>
#include <stdlib.h>

static void sgemm(const struct tb_call *call, int m, int n, int k, const float *a, const float *b, float *c) {
  const float one = 1, zero = 0;
  TB_NV(cublasXtSgemm((tb_cublasxt_handle)call->ctx, call->ta ? TB_OP_T : TB_OP_N, call->tb ? TB_OP_T : TB_OP_N,
                      (size_t)m, (size_t)n, (size_t)k, &one, a, (size_t)(call->ta ? k : m), b,
                      (size_t)(call->tb ? n : k), &zero, c, (size_t)m));
  TB_NV(cudaDeviceSynchronize()); /* the call is documented as blocking; this holds it to that */
}

int main(int argc, char **argv) {
  struct tb_call call = {
      .sgemm = sgemm, .label = "cublasxt", .symbol = "cublasXtSgemm", .owner = "libcublas", .budget_s = 1};
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
