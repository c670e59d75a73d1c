/* SPDX-License-Identifier: BSD-3-Clause */
#include "cuda/launch.h"

CUresult tb_launch_behind(bool early, CUfunction function, struct tb_grid g, void *argument, void *second,
                          CUstream stream) {
  void *parameters[] = {argument, second};
  if (!early && g.cluster == 1) {
    TB_TRY(tb_cuda.cuLaunchKernel(function, (unsigned)g.x, (unsigned)g.y, 1, (unsigned)g.threads, 1, 1,
                                  (unsigned)g.shared_bytes, stream, parameters, NULL));
    return CUDA_SUCCESS;
  }
  CUlaunchAttribute attributes[2];
  unsigned count = 0;
  if (early)
    attributes[count++] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                              .value.programmaticStreamSerializationAllowed = 1};
  if (g.cluster > 1)
    attributes[count++] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                              .value.clusterDim = {(unsigned)g.cluster, 1, 1}};
  CUlaunchConfig config = {.gridDimX = (unsigned)g.x,
                           .gridDimY = (unsigned)g.y,
                           .gridDimZ = 1,
                           .blockDimX = (unsigned)g.threads,
                           .blockDimY = 1,
                           .blockDimZ = 1,
                           .sharedMemBytes = (unsigned)g.shared_bytes,
                           .hStream = stream,
                           .attrs = attributes,
                           .numAttrs = count};
  TB_TRY(tb_cuda.cuLaunchKernelEx(&config, function, parameters, NULL));
  return CUDA_SUCCESS;
}

static _Thread_local uint64_t results_launched __attribute__((tls_model("initial-exec")));

CUresult tb_launch_result(bool early, CUfunction function, struct tb_grid g, void *argument, void *second,
                          CUstream stream) {
  TB_TRY(tb_launch_behind(early, function, g, argument, second, stream));
  results_launched++;
  return CUDA_SUCCESS;
}

uint64_t tb_results_launched(void) { return results_launched; }
