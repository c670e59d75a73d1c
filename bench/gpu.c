/* SPDX-License-Identifier: BSD-3-Clause */
/* The measuring programs' way to the GPU; see gpu.h. */
#include "gpu.h"
#include "data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tb_gpu_check(CUresult result, const char *call, const char *file, int line) {
  if (result == CUDA_SUCCESS) return;
  const char *name = NULL;
  if (!tb_cuda.cuGetErrorName || tb_cuda.cuGetErrorName(result, &name) != CUDA_SUCCESS || !name) name = "unknown error";
  fprintf(stderr, "%s:%d: %s: %s (%d)\n", file, line, call, name, (int)result);
  exit(EXIT_FAILURE);
}

struct tb_gpu tb_gpu_open(int ordinal) {
  bool driver = tb_cuda_load();
  CUresult ready = driver ? tb_cuda.cuInit(0) : CUDA_ERROR_NO_DEVICE;
  if (ready == CUDA_ERROR_NO_DEVICE) {
    fprintf(stderr, "skipped: %s\n", driver ? "the CUDA driver sees no GPU" : "there is no CUDA driver");
    exit(TB_EXIT_SKIPPED);
  }
  tb_gpu_check(ready, "cuInit(0)", __FILE__, __LINE__);
  struct tb_gpu gpu = {0};
  TB_GPU(cuDeviceGet(&gpu.device, ordinal));
  TB_GPU(cuDeviceGetName(gpu.name, (int)sizeof gpu.name, gpu.device));
  TB_GPU(cuDeviceGetAttribute(&gpu.sm_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, gpu.device));
  TB_GPU(cuDeviceGetAttribute(&gpu.major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, gpu.device));
  TB_GPU(cuDeviceGetAttribute(&gpu.minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, gpu.device));
  TB_GPU(cuDevicePrimaryCtxRetain(&gpu.context, gpu.device));
  TB_GPU(cuCtxPushCurrent(gpu.context));
  TB_GPU(cuStreamCreate(&gpu.stream, CU_STREAM_NON_BLOCKING));
  return gpu;
}

void tb_gpu_close(struct tb_gpu *gpu) {
  CUcontext popped;
  TB_GPU(cuStreamDestroy(gpu->stream));
  TB_GPU(cuCtxPopCurrent(&popped));
  TB_GPU(cuDevicePrimaryCtxRelease(gpu->device));
  memset(gpu, 0, sizeof *gpu);
}

CUmodule tb_gpu_load(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) {
    perror(path);
    exit(EXIT_FAILURE);
  }
  fseek(f, 0, SEEK_END);
  long size = ftell(f);
  rewind(f);
  char *image = size > 0 ? malloc((size_t)size) : NULL;
  if (!image || fread(image, 1, (size_t)size, f) != (size_t)size) {
    fprintf(stderr, "%s: cannot be read\n", path);
    exit(EXIT_FAILURE);
  }
  fclose(f);
  CUmodule module;
  tb_gpu_check(tb_cuda.cuModuleLoadData(&module, image), path, __FILE__, __LINE__);
  free(image);
  return module;
}

CUfunction tb_gpu_function(CUmodule module, const char *name) {
  CUfunction f;
  tb_gpu_check(tb_cuda.cuModuleGetFunction(&f, module, name), name, __FILE__, __LINE__);
  return f;
}

CUdeviceptr tb_gpu_alloc(size_t bytes) {
  CUdeviceptr p;
  TB_GPU(cuMemAlloc(&p, bytes ? bytes : 1));
  return p;
}

void tb_gpu_free(CUdeviceptr p) { TB_GPU(cuMemFree(p)); }

void tb_gpu_upload(const struct tb_gpu *gpu, CUdeviceptr to, const void *from, size_t bytes) {
  TB_GPU(cuMemcpyHtoDAsync(to, from, bytes, gpu->stream));
  TB_GPU(cuStreamSynchronize(gpu->stream));
}

void tb_gpu_download(const struct tb_gpu *gpu, void *to, CUdeviceptr from, size_t bytes) {
  TB_GPU(cuMemcpyDtoHAsync(to, from, bytes, gpu->stream));
  TB_GPU(cuStreamSynchronize(gpu->stream));
}

/* Milliseconds on the GPU between two events around calls first .. first + count - 1. */
static double batch_ms(const struct tb_gpu *gpu, CUevent event[2], void (*enqueue)(void *, long), void *ctx, long first,
                       long count) {
  TB_GPU(cuEventRecord(event[0], gpu->stream));
  for (long i = 0; i < count; i++) enqueue(ctx, first + i);
  TB_GPU(cuEventRecord(event[1], gpu->stream));
  TB_GPU(cuStreamSynchronize(gpu->stream));
  float ms;
  TB_GPU(cuEventElapsedTime(&ms, event[0], event[1]));
  return ms;
}

double tb_gpu_median_us(const struct tb_gpu *gpu, void (*enqueue)(void *ctx, long i), void *ctx, double budget_s) {
  enum { MAX_SAMPLES = 101, MIN_SAMPLES = 3, MAX_BATCH = 200 };
  const double least_batch_ms = 0.5; /* a thousand times the events' resolution */
  CUevent event[2];
  TB_GPU(cuEventCreate(&event[0], CU_EVENT_DEFAULT));
  TB_GPU(cuEventCreate(&event[1], CU_EVENT_DEFAULT));

  long calls = 0;
  batch_ms(gpu, event, enqueue, ctx, calls, 2); /* warm-up: module load, caches, clocks */
  calls += 2;
  double one_ms = batch_ms(gpu, event, enqueue, ctx, calls, 1);
  calls += 1;
  long batch = one_ms >= least_batch_ms ? 1 : one_ms > 0 ? (long)(least_batch_ms / one_ms) + 1 : MAX_BATCH;
  if (batch > MAX_BATCH) batch = MAX_BATCH;

  double sample[MAX_SAMPLES];
  int samples = 0;
  double deadline = tb_now_s() + budget_s;
  while (samples < MIN_SAMPLES || (samples < MAX_SAMPLES && tb_now_s() < deadline)) {
    sample[samples++] = batch_ms(gpu, event, enqueue, ctx, calls, batch) * 1e3 / (double)batch;
    calls += batch;
  }
  TB_GPU(cuEventDestroy(event[0]));
  TB_GPU(cuEventDestroy(event[1]));
  return tb_median(sample, samples);
}
