/* SPDX-License-Identifier: BSD-3-Clause */
#include "test_cluster.h"

#include <string.h>

CUfunction find_for_clusters(const char *name) {
  struct test_image newest = image;
  newest.architecture = 90;
  CUmodule able;
  CUfunction function;
  OK(cuModuleLoadData(&able, &newest));
  OK(cuModuleGetFunction(&function, able, name));
  return function;
}

CUresult launch_clusters(CUfunction function, struct shape s, unsigned threads, unsigned shared_bytes,
                         void **parameters) {
  CUlaunchAttribute clusters = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                .value.clusterDim = {s.cluster[0], s.cluster[1], s.cluster[2]}};
  CUlaunchConfig config = {.gridDimX = s.grid[0],
                           .gridDimY = s.grid[1],
                           .gridDimZ = s.grid[2],
                           .blockDimX = threads,
                           .blockDimY = 1,
                           .blockDimZ = 1,
                           .sharedMemBytes = shared_bytes,
                           .attrs = &clusters,
                           .numAttrs = 1};
  return cuLaunchKernelEx(&config, function, parameters, NULL);
}

struct shape in_a_row(unsigned clusters, unsigned blocks) {
  return (struct shape){{clusters * blocks, 1, 1}, {blocks, 1, 1}};
}

struct map_request rows_at(CUdeviceptr address) {
  return (struct map_request){
      .address = (uintptr_t)address,
      .type = CU_TENSOR_MAP_DATA_TYPE_UINT32,
      .dimensions = 2,
      .size = {COLUMNS, ROWS, 1, 1, 1, 1},
      .strides = {STRIDE * 4, ROWS * STRIDE * 4, ROWS * STRIDE * 4, ROWS * STRIDE * 4, ROWS * STRIDE * 4},
      .box = {BOX, 1, 1, 1, 1, 1},
      .steps = {1, 1, 1, 1, 1, 1}};
}

CUresult encode(const struct map_request *r, CUtensorMap *map) {
  CUtensorMap maps[2];
  CUtensorMap *const at = (void *)((char *)maps + r->offset_bytes);
  const CUresult result =
      cuTensorMapEncodeTiled(at, r->type, r->dimensions, (void *)r->address, r->size, r->strides, r->box, r->steps,
                             r->interleave, r->swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, r->fill);
  if (result == CUDA_SUCCESS) memcpy(map, at, sizeof *map);
  return result;
}
