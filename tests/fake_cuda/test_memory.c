/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the fake driver: capacity, poison, bounds, pinning, life. */
#define _DEFAULT_SOURCE
#include "test_context.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void memory_runs_out(void **state) {
  (void)state;
  size_t free_bytes, total;
  OK(cuMemGetInfo(&free_bytes, &total));
  assert_int_equal(free_bytes, total);
  CUdeviceptr small = new_memory(1000), big;
  OK(cuMemGetInfo(&free_bytes, &total));
  assert_int_equal(free_bytes, total - 1000);
  assert_int_equal(cuMemAlloc(&big, free_bytes + 1), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cuMemFree(small));
  OK(cuMemGetInfo(&free_bytes, &total));
  assert_int_equal(free_bytes, total);
  fake_cuda_expect_misuses(1);
  assert_int_equal(cuMemFree(small), CUDA_ERROR_INVALID_VALUE);
}

static void fresh_memory_is_nan(void **state) {
  (void)state;
  float numbers[3];
  double wide[3];
  CUdeviceptr p = new_memory(sizeof wide);
  OK(cuMemcpyDtoH(numbers, p, sizeof numbers));
  OK(cuMemcpyDtoH(wide, p, sizeof wide));
  const float *pinned = new_pinned(3);
  for (int i = 0; i < 3; i++) {
    assert_true(isnan(numbers[i]));
    assert_true(isnan(wide[i]));
    assert_true(isnan(pinned[i]));
  }
}

static void copies_that_leave_an_allocation_are_refused(void **state) {
  (void)state;
  enum { BYTES = 64 };
  char *pinned = (char *)new_pinned(BYTES / sizeof(float)), pageable[2 * BYTES];
  CUdeviceptr p = new_memory(BYTES), other = new_memory(BYTES);
  memset(pageable, 0, sizeof pageable);
  OK(cuMemcpyHtoDAsync(p, pinned, BYTES, NULL));
  assert_int_equal(fake_cuda_get(FAKE_CUDA_PAGEABLE_COPIES), 0);
  OK(cuMemcpyHtoDAsync(p, pageable, BYTES, NULL));
  assert_int_equal(fake_cuda_get(FAKE_CUDA_PAGEABLE_COPIES), 1);
  assert_int_equal(cuMemcpyHtoDAsync(p + 1, pinned, BYTES, NULL), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemcpyHtoDAsync(p, pinned + 1, BYTES, NULL), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemcpyHtoDAsync(p, pageable, 2 * BYTES, NULL), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemcpyDtoHAsync(pinned, p + BYTES, 1, NULL), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemcpyDtoHAsync((void *)other, p, BYTES, NULL), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemcpyHtoDAsync((CUdeviceptr)pageable, pinned, BYTES, NULL), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemsetD8Async(p, 0, BYTES + 1, NULL), CUDA_ERROR_INVALID_VALUE);
}

/* From ordinary memory a copy has read all when the call returns, and arrives when something waits; to it, it has
 * arrived. */
static void ordinary_memory_is_staged(void **state) {
  (void)state;
  enum { ROWS = 3, WIDTH = 4, PITCH = 8 };
  char from[ROWS * PITCH], to[ROWS * PITCH] = {0};
  CUstream stream = new_stream();
  CUdeviceptr p = new_memory(ROWS * PITCH);
  memset(from, 1, sizeof from);
  OK(cuMemsetD8Async(p, 2, ROWS * PITCH, stream));
  const CUDA_MEMCPY2D up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                            .srcHost = from,
                            .srcPitch = PITCH,
                            .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                            .dstDevice = p,
                            .dstPitch = PITCH,
                            .WidthInBytes = WIDTH,
                            .Height = ROWS};
  OK(cuMemcpy2DAsync(&up, stream));
  memset(from, 3, sizeof from);
  assert_int_equal(fake_cuda_get(FAKE_CUDA_QUEUED), 2);
  OK(cuMemcpyDtoHAsync(to, p, sizeof to, stream));
  assert_int_equal(fake_cuda_get(FAKE_CUDA_QUEUED), 0);
  for (int i = 0; i < ROWS * PITCH; i++) assert_int_equal(to[i], i % PITCH < WIDTH ? 1 : 2);
}

static void rows_are_copied_by_their_pitches(void **state) {
  (void)state;
  enum { ROWS = 5, WIDTH = 6, DEVICE_PITCH = 16, HOST_PITCH = 9 };
  char *host = (char *)new_pinned(100), back[ROWS * DEVICE_PITCH];
  for (int i = 0; i < ROWS * HOST_PITCH; i++) host[i] = (char)i;
  CUdeviceptr device = new_memory(ROWS * DEVICE_PITCH);
  CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = host,
                        .srcPitch = HOST_PITCH,
                        .srcXInBytes = 2,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = device,
                        .dstPitch = DEVICE_PITCH,
                        .dstY = 1,
                        .WidthInBytes = WIDTH,
                        .Height = ROWS - 1};
  OK(cuMemcpy2DAsync(&copy, NULL));
  OK(cuMemcpyDtoH(back, device, sizeof back));
  for (int row = 1; row < ROWS; row++)
    for (int x = 0; x < WIDTH; x++) assert_int_equal(back[row * DEVICE_PITCH + x], (row - 1) * HOST_PITCH + x + 2);
  copy.Height = ROWS; /* one row too many for the device */
  assert_int_equal(cuMemcpy2DAsync(&copy, NULL), CUDA_ERROR_INVALID_VALUE);
  copy.Height = 1;
  copy.srcPitch = (size_t)1 << 31; /* more than a GPU can do */
  assert_int_equal(cuMemcpy2DAsync(&copy, NULL), CUDA_ERROR_INVALID_VALUE);
  copy.Height = 2;
  copy.srcPitch = WIDTH - 1;
  assert_int_equal(cuMemcpy2DAsync(&copy, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void memory_that_work_awaits_must_stay(void **state) {
  (void)state;
  for (int by_kernel = 0; by_kernel < 2; by_kernel++) {
    const uint64_t misuses = fake_cuda_get(FAKE_CUDA_MISUSES);
    fake_cuda_expect_misuses(1);
    CUdeviceptr p = new_memory(40);
    if (by_kernel)
      OK(launch_scale(p, p, 10, 1, NULL));
    else
      OK(cuMemsetD8Async(p, 0, 1, NULL));
    assert_int_equal(cuMemFree(p), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(fake_cuda_get(FAKE_CUDA_MISUSES) - misuses, 1);
    assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    renew_context();
  }
}

static void registered_memory_is_pinned_until_it_is_not(void **state) {
  (void)state;
  static char memory[4096];
  CUdeviceptr p = new_memory(sizeof memory);
  unsigned type = 0;
  const uint64_t before = fake_cuda_get(FAKE_CUDA_PAGEABLE_COPIES);
  OK(cuMemHostRegister(memory, sizeof memory, 0));
  assert_int_equal(cuMemHostRegister(memory + 100, 8, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  OK(cuMemcpyHtoDAsync(p, memory, sizeof memory, NULL));
  OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)memory));
  assert_int_equal(type, CU_MEMORYTYPE_HOST);
  OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 5));
  assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
  OK(cuCtxSynchronize());
  fake_cuda_expect_misuses(1);
  OK(cuMemHostUnregister(memory));
  assert_int_equal(cuMemHostUnregister(memory), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  assert_int_equal(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)memory),
                   CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(fake_cuda_get(FAKE_CUDA_PAGEABLE_COPIES), before);
}

static void pointers_tell_what_they_are(void **state) {
  (void)state;
  enum { BYTES = 64 };
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                      CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_CONTEXT};
  CUdeviceptr managed;
  CUcontext current;
  char pageable[BYTES];
  OK(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
  OK(cuCtxGetCurrent(&current));
  const struct {
    CUdeviceptr p;
    unsigned type, managed;
  } cases[] = {{new_memory(BYTES), CU_MEMORYTYPE_DEVICE, 0},
               {managed, CU_MEMORYTYPE_DEVICE, 1},
               {(CUdeviceptr)new_pinned(BYTES / sizeof(float)), CU_MEMORYTYPE_HOST, 0},
               {(CUdeviceptr)pageable, 0, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    unsigned type = 99, is_managed = 99;
    CUdeviceptr device;
    CUcontext context;
    void *values[] = {&type, &is_managed, &device, &context};
    OK(cuPointerGetAttributes(4, attributes, values, cases[i].p + 4));
    assert_int_equal(type, cases[i].type);
    assert_int_equal(is_managed, cases[i].managed);
    assert_int_equal(device, type ? cases[i].p + 4 : 0);
    assert_ptr_equal(context, type ? current : NULL);
  }
  OK(cuMemcpyHtoD(managed, pageable, BYTES)); /* it is as good as the device's */
  fake_cuda_expect_misuses(2);
  assert_int_equal(cuMemFreeHost((void *)managed), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemFree(managed));
  assert_int_equal(cuMemFree(managed), CUDA_ERROR_INVALID_VALUE);
}

/* From the end of the program's variables to brk's end. */
static bool is_in_heap(CUdeviceptr p) {
  extern char end; /* the linker's */
  return p >= (CUdeviceptr)&end && p < (CUdeviceptr)sbrk(0);
}

/* Nor is CUDA's; the library relies on it (src/cuda/place.h). */
static void no_memory_lies_in_the_heap(void **state) {
  (void)state;
  for (size_t bytes = 1; bytes < (size_t)1 << 22; bytes *= 4) {
    void *freed = malloc(bytes); /* room that an allocation of the host's would take */
    free(freed);
    CUdeviceptr managed;
    OK(cuMemAllocManaged(&managed, bytes, CU_MEM_ATTACH_GLOBAL));
    assert_false(is_in_heap(new_memory(bytes)) || is_in_heap(managed));
    assert_false(is_in_heap((CUdeviceptr)new_pinned(bytes)));
    OK(cuMemFree(managed));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(memory_runs_out),
      TEST(fresh_memory_is_nan),
      TEST(copies_that_leave_an_allocation_are_refused),
      TEST(ordinary_memory_is_staged),
      TEST(rows_are_copied_by_their_pitches),
      TEST(memory_that_work_awaits_must_stay),
      TEST(registered_memory_is_pinned_until_it_is_not),
      TEST(pointers_tell_what_they_are),
      TEST(no_memory_lies_in_the_heap),
  };
  return cmocka_run_group_tests_name("fake_cuda_memory", tests, NULL, NULL);
}
