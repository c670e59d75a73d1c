/* SPDX-License-Identifier: BSD-3-Clause */
#include "cuda_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct tb_cuda_driver tb_cuda;
_Thread_local const char *tb_cuda_failed_call;

/* The driver stays loaded for good: its own threads and exit handlers may outlive us. */
bool tb_cuda_load(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return false;
  bool complete = true;
#define TB_NAME(function) #function
#define TB_CUDA(function)                                         \
  {                                                               \
    void *address = dlsym(library, TB_NAME(function));            \
    complete = complete && address != NULL;                       \
    memcpy(&tb_cuda.function, &address, sizeof tb_cuda.function); \
  }
#include "cuda_driver.def"
#undef TB_CUDA
  return complete;
}

void tb_cuda_describe_failure(CUresult result, char *text, size_t size) {
  const char *name = NULL;
  if (tb_cuda.cuGetErrorName == NULL || tb_cuda.cuGetErrorName(result, &name) != CUDA_SUCCESS || name == NULL)
    name = "an unknown CUDA error";
  const char *call = tb_cuda_failed_call ? tb_cuda_failed_call : "CUDA";
  const char *dot = strstr(call, "tb_cuda.");
  if (dot != NULL) call = dot + strlen("tb_cuda.");
  snprintf(text, size, "%.*s: %s", (int)strcspn(call, "("), call, name);
  tb_cuda_failed_call = NULL;
}
