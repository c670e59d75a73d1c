/* SPDX-License-Identifier: BSD-3-Clause */
#include "first_gpu.h"

#include <stdlib.h>
#include <unistd.h>

static CUmodule modules[64];
static int module_count;
static CUdevice gpu;
static pid_t owner;

/* What the tests made themselves, they release themselves; the driver looks whether anything is left. */
static void close_gpu(void) {
  CUcontext context;
  if (getpid() != owner) return; /* a child of fork has no driver */
  for (int i = 0; i < module_count; i++) tb_cuda.cuModuleUnload(modules[i]);
  tb_cuda.cuCtxPopCurrent(&context);
  tb_cuda.cuDevicePrimaryCtxRelease(gpu);
}

CUdevice tst_gpu_open(void) {
  CUcontext context;
  CUdevice device;
  assert_true(tb_cuda_load());
  OK(tb_cuda.cuInit(0));
  OK(tb_cuda.cuDeviceGet(&device, 0));
  OK(tb_cuda.cuDevicePrimaryCtxRetain(&context, device));
  OK(tb_cuda.cuCtxPushCurrent(context));
  gpu = device, owner = getpid();
  atexit(close_gpu);
  return device;
}

CUfunction tst_gpu_kernel(const unsigned char *fatbin, const char *name) {
  CUmodule module;
  CUfunction function;
  OK(tb_cuda.cuModuleLoadData(&module, fatbin));
  assert_true(module_count < (int)(sizeof modules / sizeof modules[0]));
  modules[module_count++] = module;
  OK(tb_cuda.cuModuleGetFunction(&function, module, name));
  return function;
}
