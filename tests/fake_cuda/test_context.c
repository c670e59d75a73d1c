/* SPDX-License-Identifier: BSD-3-Clause */
/* What the fake driver's tests share, see test_context.h. */
#include "test_context.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

const struct test_image image = {0xba55ed50, 1, 16, 32, 1, 0x101, 32, 0, 1, {0, 0}, 75};

CUcontext context;
CUmodule module;

int setup(void **state) {
  (void)state;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxPushCurrent(context));
  OK(cuModuleLoadData(&module, &image));
  fake_cuda_reset_calls();
  return 0;
}

void renew_context(void) {
  OK(cuCtxPopCurrent(NULL));
  OK(cuDevicePrimaryCtxRelease(0));
  setup(NULL);
}

int teardown(void **state) {
  (void)state;
  fake_cuda_clear_failures();
  fake_cuda_set_order(FAKE_CUDA_LAZY, 0);
  fake_cuda_set_shuffle(0);
  OK(cuCtxPopCurrent(NULL));
  OK(cuDevicePrimaryCtxRelease(0));
  static const enum fake_cuda_count none[] = {FAKE_CUDA_ALLOCATIONS, FAKE_CUDA_ALLOCATED_BYTES, FAKE_CUDA_PINNED,
                                              FAKE_CUDA_STREAMS,     FAKE_CUDA_EVENTS,          FAKE_CUDA_MODULES,
                                              FAKE_CUDA_CONTEXTS,    FAKE_CUDA_PUSHED,          FAKE_CUDA_QUEUED};
  for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) assert_int_equal(fake_cuda_get(none[i]), 0);
  return 0;
}

CUstream new_stream(void) {
  CUstream stream;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

CUevent new_event(void) {
  CUevent event;
  OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
  return event;
}

CUdeviceptr new_memory(size_t bytes) {
  CUdeviceptr p;
  OK(cuMemAlloc(&p, bytes));
  return p;
}

float *new_pinned(size_t count) {
  void *p;
  OK(cuMemHostAlloc(&p, count * sizeof(float), 0));
  return p;
}

CUfunction find(const char *name) {
  CUfunction function;
  OK(cuModuleGetFunction(&function, module, name));
  return function;
}

CUresult launch(const char *name, unsigned blocks, unsigned threads, unsigned shared, CUstream stream,
                void **parameters) {
  return cuLaunchKernel(find(name), blocks, 1, 1, threads, 1, 1, shared, stream, parameters, NULL);
}

CUresult launch_scale(CUdeviceptr from, CUdeviceptr to, int count, float factor, CUstream stream) {
  struct scale_args args = {from, to, count, factor};
  void *parameters[] = {&args};
  return launch("test_scale", 3, 64, 0, stream, parameters);
}

/* Runs a kernel of one block over THREADS floats 0, 1, 2, ... and gives what it made of them. */
CUresult run_on_ramp(const char *name, float *result) {
  CUdeviceptr data = new_memory(THREADS * sizeof(float));
  for (int i = 0; i < THREADS; i++) result[i] = (float)i;
  OK(cuMemcpyHtoD(data, result, THREADS * sizeof(float)));
  void *parameters[] = {&data};
  OK(launch(name, 1, THREADS, THREADS * sizeof(float), NULL, parameters));
  return cuMemcpyDtoH(result, data, THREADS * sizeof(float));
}

/* Runs what is enqueued and gives what the driver says to it on stderr; NULL when all goes well. */
static const char *complaint(void) {
  static char text[1024];
  int pipe_ends[2];
  const int standard_error = dup(STDERR_FILENO);
  assert_int_equal(pipe(pipe_ends), 0);
  fflush(stderr);
  dup2(pipe_ends[1], STDERR_FILENO);
  const CUresult result = cuCtxSynchronize();
  fflush(stderr);
  dup2(standard_error, STDERR_FILENO);
  close(standard_error), close(pipe_ends[1]);
  const ssize_t length = read(pipe_ends[0], text, sizeof text - 1);
  close(pipe_ends[0]);
  text[length > 0 ? length : 0] = '\0';
  if (result == CUDA_SUCCESS && length == 0) return NULL;
  assert_int_equal(result, CUDA_ERROR_LAUNCH_FAILED);
  return text;
}

void expect_complaint(const char *words) {
  if (words) fake_cuda_expect_misuses(1);
  const char *said = complaint();
  if (!words != !said || (said && !strstr(said, words)))
    fail_msg("said: %s, expected: %s", said ? said : "nothing", words ? words : "nothing");
  if (said) renew_context();
}
