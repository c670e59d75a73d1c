/* SPDX-License-Identifier: BSD-3-Clause */
#include "first_gpu.h"

CUdevice tst_gpu_open(void) {
  CUcontext context;
  CUdevice device;
  assert_true(tb_cuda_load());
  OK(tb_cuda.cuInit(0));
  OK(tb_cuda.cuDeviceGet(&device, 0));
  OK(tb_cuda.cuDevicePrimaryCtxRetain(&context, device));
  OK(tb_cuda.cuCtxPushCurrent(context));
  return device;
}

CUfunction tst_gpu_kernel(const unsigned char *fatbin, const char *name) {
  CUmodule module;
  CUfunction function;
  OK(tb_cuda.cuModuleLoadData(&module, fatbin));
  OK(tb_cuda.cuModuleGetFunction(&function, module, name));
  return function;
}
