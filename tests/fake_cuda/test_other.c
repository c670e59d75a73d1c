/* SPDX-License-Identifier: BSD-3-Clause */
/* A library of its own that releases what its caller made, for test_process.c. Of any thread. */
#include <cuda.h>

int test_other_free(CUdeviceptr memory);
int test_other_disable_peer(CUcontext peer);

int test_other_free(CUdeviceptr memory) {
  const CUresult result = cuMemFree(memory);
  return (int)result; /* no tail call: the driver looks where it returns to */
}

int test_other_disable_peer(CUcontext peer) {
  const CUresult result = cuCtxDisablePeerAccess(peer);
  return (int)result;
}
