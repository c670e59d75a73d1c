/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the fake driver's tests share: each test gets a context of its own, current in its thread, and a module with the
 * kernels of test_kernels.cu; when it ends, everything must be gone with the context. Helpers fail the test when the
 * driver refuses. One thread, except where a test says otherwise.
 */
#ifndef TEST_CONTEXT_H
#define TEST_CONTEXT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <cuda.h>

#include "fake_cuda.h"

#define OK(call) assert_int_equal(call, CUDA_SUCCESS)
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

enum { THREADS = 256 };

struct scale_args { /* of the kernel test_scale */
  CUdeviceptr from, to;
  int count;
  float factor;
};

/* A fat binary with one entry, PTX for 7.5, whose text nobody here reads. */
struct test_image {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;
  uint16_t kind, kind_version;
  uint32_t entry_header_bytes;
  uint64_t payload_bytes;
  uint32_t compressed_bytes, unknown[2], architecture;
};
extern const struct test_image image;

extern CUcontext context;
extern CUmodule module;

int setup(void **state);
int teardown(void **state);
/* The context is broken or used up: a new one in its place. */
void renew_context(void);

CUstream new_stream(void);
CUevent new_event(void);
CUdeviceptr new_memory(size_t bytes);
float *new_pinned(size_t count);
CUfunction find(const char *name);
CUresult launch(const char *name, unsigned blocks, unsigned threads, unsigned shared, CUstream stream,
                void **parameters);
CUresult launch_scale(CUdeviceptr from, CUdeviceptr to, int count, float factor, CUstream stream);
CUresult run_on_ramp(const char *name, float *result);
/* What is enqueued runs; well when `words` is NULL, else it fails the launch, they are said on stderr, and the context
 * is a new one. */
void expect_complaint(const char *words);

#endif
