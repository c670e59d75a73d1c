/* SPDX-License-Identifier: BSD-3-Clause */
/* What the fake driver refuses, and the failures that it is told to make. */
#include "test_context.h"

#include <math.h>

/* ---- what is refused ---- */

static void launches_within_limits_only(void **state) {
  (void)state;
  CUfunction scale = find("test_scale"), dynamic = find("test_reverse_dynamic");
  struct scale_args args = {0, 0, 0, 1};
  void *parameters[] = {&args};
  OK(cuLaunchKernel(scale, 1, 1, 1, 1024, 1, 1, 0, NULL, parameters, NULL));
  static const unsigned bad[][6] = {{0, 1, 1, 1, 1, 1},       {1, 1, 1, 1025, 1, 1},  {1, 1, 1, 32, 33, 1},
                                    {1, 1, 1, 1, 1, 65},      {1, 65536, 1, 1, 1, 1}, {1, 1, 65536, 1, 1, 1},
                                    {1u << 31, 1, 1, 1, 1, 1}};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    assert_int_equal(cuLaunchKernel(scale, bad[i][0], bad[i][1], bad[i][2], bad[i][3], bad[i][4], bad[i][5], 0, NULL,
                                    parameters, NULL),
                     CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr data = new_memory(1024);
  void *pointer[] = {&data};
  assert_int_equal(cuLaunchKernel(dynamic, 1, 1, 1, 1, 1, 1, 48 * 1024 + 1, NULL, pointer, NULL),
                   CUDA_ERROR_INVALID_VALUE);
  OK(cuFuncSetAttribute(dynamic, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 * 1024));
  OK(cuLaunchKernel(dynamic, 1, 1, 1, 1, 1, 1, 227 * 1024, NULL, pointer, NULL));
  assert_int_equal(cuFuncSetAttribute(dynamic, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 * 1024 + 1),
                   CUDA_ERROR_INVALID_VALUE);
}

static void a_pointer_to_nowhere_fails_the_launch(void **state) {
  (void)state;
  const uint64_t misuses = fake_cuda_get(FAKE_CUDA_MISUSES);
  fake_cuda_expect_misuses(1);
  float here = 0;
  CUdeviceptr nowhere = (CUdeviceptr)&here;
  void *parameters[] = {&nowhere};
  OK(launch("test_reverse", 1, THREADS, 0, NULL, parameters));
  assert_int_equal(cuStreamSynchronize(NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
  assert_int_equal(fake_cuda_get(FAKE_CUDA_MISUSES) - misuses, 1);
}

static void images_are_checked(void **state) {
  (void)state;
  static struct {
    struct test_image head;
    char sections[32];
  } elf = {{0xba55ed50, 1, 16, 64, 2, 0x101, 32, 32, 0, {0, 0}, 90}, "\0.text.test_scale\0.data"};
  CUmodule loaded;
  CUfunction function;
  assert_int_equal(cuModuleLoadData(&loaded, "not a fat binary, not at all"), CUDA_ERROR_INVALID_IMAGE);
  OK(cuModuleLoadData(&loaded, &elf));
  OK(cuModuleGetFunction(&function, loaded, "test_scale"));
  assert_int_equal(cuModuleGetFunction(&function, loaded, "test_reverse"), CUDA_ERROR_NOT_FOUND);
  assert_int_equal(cuModuleGetFunction(&function, module, "no_such_kernel"), CUDA_ERROR_NOT_FOUND);
  OK(cuModuleUnload(loaded));
  const uint64_t misuses = fake_cuda_get(FAKE_CUDA_MISUSES);
  fake_cuda_expect_misuses(1);
  assert_int_equal(cuModuleUnload(loaded), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(fake_cuda_get(FAKE_CUDA_MISUSES) - misuses, 1);
  void *parameters[] = {NULL};
  assert_int_equal(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL), CUDA_ERROR_INVALID_HANDLE);
  elf.head.architecture = 80; /* machine code of another generation */
  assert_int_equal(cuModuleLoadData(&loaded, &elf), CUDA_ERROR_NO_BINARY_FOR_GPU);
}

static void stale_and_foreign_handles_are_refused(void **state) {
  (void)state;
  CUstream stream = new_stream();
  CUevent event = new_event();
  OK(cuStreamDestroy(stream));
  OK(cuEventDestroy(event));
  assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuEventRecord(event, NULL), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuEventRecord((CUevent)module, NULL), CUDA_ERROR_INVALID_HANDLE);
  const uint64_t misuses = fake_cuda_get(FAKE_CUDA_MISUSES);
  fake_cuda_expect_misuses(2);
  assert_int_equal(cuStreamDestroy(stream), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuEventDestroy(event), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(fake_cuda_get(FAKE_CUDA_MISUSES) - misuses, 2);
  OK(cuCtxPopCurrent(NULL));
  CUdeviceptr p;
  assert_int_equal(cuMemAlloc(&p, 1), CUDA_ERROR_INVALID_CONTEXT);
  OK(cuCtxPushCurrent(context));
}

/* ---- failures ---- */

static void the_nth_call_fails_once(void **state) {
  (void)state;
  CUdeviceptr p[3];
  assert_int_equal(fake_cuda_fail("cuMemAlloc", 2, CUDA_ERROR_OUT_OF_MEMORY, 0), 0);
  OK(cuMemAlloc(&p[0], 1));
  assert_int_equal(cuMemAlloc(&p[1], 1), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cuMemAlloc(&p[2], 1));
  assert_int_equal(fake_cuda_calls("cuMemAlloc_v2"), 3);
  assert_int_equal(fake_cuda_get(FAKE_CUDA_ALLOCATIONS), 2);
  assert_int_equal(fake_cuda_fail("cuMemAlloc", 0, CUDA_ERROR_OUT_OF_MEMORY, 0), 0);
  for (int i = 0; i < 3; i++) assert_int_equal(cuMemAlloc(&p[1], 1), CUDA_ERROR_OUT_OF_MEMORY);
  fake_cuda_clear_failures();
  OK(cuMemAlloc(&p[1], 1));
  assert_int_equal(fake_cuda_fail("cuNoSuchFunction", 1, 1, 0), -1);
  assert_int_equal(fake_cuda_fail("cuMemAlloc", 1, 0, 0), -1);
  assert_int_equal(fake_cuda_fail("cuMemAlloc", 1, 1, FAKE_CUDA_ASYNC), -1);
}

static void a_failing_release_releases(void **state) {
  (void)state;
  CUdeviceptr p = new_memory(1);
  OK(fake_cuda_fail("cuMemFree", 1, CUDA_ERROR_UNKNOWN, 0));
  assert_int_equal(cuMemFree(p), CUDA_ERROR_UNKNOWN);
  assert_int_equal(fake_cuda_get(FAKE_CUDA_ALLOCATIONS), 0);
}

static void a_failing_wait_waits_for_nothing(void **state) {
  (void)state;
  float *to = new_pinned(1);
  CUdeviceptr p = new_memory(sizeof *to);
  *to = 5;
  OK(cuMemcpyDtoHAsync(to, p, sizeof *to, NULL));
  OK(fake_cuda_fail("cuStreamSynchronize", 1, CUDA_ERROR_UNKNOWN, 0));
  assert_int_equal(cuStreamSynchronize(NULL), CUDA_ERROR_UNKNOWN);
  assert_true(*to == 5);
  OK(cuStreamSynchronize(NULL));
  assert_true(isnan(*to));
}

static void a_lost_device_stays_lost(void **state) {
  (void)state;
  CUdeviceptr p = new_memory(1), q;
  CUstream stream = new_stream();
  OK(cuMemsetD8Async(p, 0, 1, stream));
  OK(fake_cuda_fail("cuStreamSynchronize", 1, CUDA_ERROR_ECC_UNCORRECTABLE, FAKE_CUDA_STICKY));
  for (int i = 0; i < 2; i++) assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_ECC_UNCORRECTABLE);
  assert_int_equal(cuMemAlloc(&q, 1), CUDA_ERROR_ECC_UNCORRECTABLE);
  assert_int_equal(cuMemFree(p), CUDA_ERROR_ECC_UNCORRECTABLE);
  assert_int_equal(cuStreamDestroy(stream), CUDA_ERROR_ECC_UNCORRECTABLE);
  assert_int_equal(fake_cuda_get(FAKE_CUDA_ALLOCATIONS) + fake_cuda_get(FAKE_CUDA_STREAMS), 0);
}

static void what_was_enqueued_fails_when_it_runs(void **state) {
  (void)state;
  const uint64_t failures = fake_cuda_get(FAKE_CUDA_FAILURES);
  float *to = new_pinned(4);
  CUdeviceptr p = new_memory(4 * sizeof *to);
  OK(cuMemsetD8Async(p, 0, 4 * sizeof *to, NULL));
  OK(fake_cuda_fail("cuMemcpyDtoHAsync", 1, CUDA_ERROR_ILLEGAL_ADDRESS, FAKE_CUDA_ASYNC));
  OK(cuMemcpyDtoHAsync(to, p, 4 * sizeof *to, NULL));
  OK(cuMemsetD8Async(p, 0, 1, NULL));
  assert_int_equal(fake_cuda_get(FAKE_CUDA_FAILURES), failures);
  assert_int_equal(cuStreamSynchronize(NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
  assert_int_equal(fake_cuda_get(FAKE_CUDA_FAILURES), failures + 1);
  assert_true(to[0] == 0 && to[1] == 0 && isnan(to[2]) && isnan(to[3]));
  assert_int_equal(cuMemsetD8Async(p, 0, 1, NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
  assert_int_equal(cuMemFree(p), CUDA_ERROR_ILLEGAL_ADDRESS);
  assert_int_equal(fake_cuda_get(FAKE_CUDA_ALLOCATIONS), 0);
}

/* Launches by the kernel's name: those that ran to their end. */
static void launches_count_when_they_have_run(void **state) {
  (void)state;
  enum { COUNT = 3 };
  const CUdeviceptr from = new_memory(COUNT * sizeof(float)), to = new_memory(COUNT * sizeof(float));
  const uint64_t before = fake_cuda_launches_of("test_scale");
  for (int i = 0; i < 2; i++) OK(launch_scale(from, to, COUNT, 2, NULL));
  assert_int_equal(fake_cuda_launches_of("test_scale"), before);
  OK(cuStreamSynchronize(NULL));
  assert_int_equal(fake_cuda_launches_of("test_scale"), before + 2);
  OK(fake_cuda_fail("cuLaunchKernel", 1, CUDA_ERROR_LAUNCH_FAILED, FAKE_CUDA_ASYNC));
  OK(launch_scale(from, to, COUNT, 2, NULL));
  assert_int_equal(cuStreamSynchronize(NULL), CUDA_ERROR_LAUNCH_FAILED);
  assert_int_equal(fake_cuda_launches_of("test_scale"), before + 2);
  assert_int_equal(fake_cuda_launches_of("test_scal"), 0);
  assert_int_equal(cuMemFree(from), CUDA_ERROR_LAUNCH_FAILED);
  assert_int_equal(cuMemFree(to), CUDA_ERROR_LAUNCH_FAILED);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(launches_within_limits_only),
      TEST(a_pointer_to_nowhere_fails_the_launch),
      TEST(images_are_checked),
      TEST(stale_and_foreign_handles_are_refused),
      TEST(the_nth_call_fails_once),
      TEST(a_failing_release_releases),
      TEST(a_failing_wait_waits_for_nothing),
      TEST(a_lost_device_stays_lost),
      TEST(what_was_enqueued_fails_when_it_runs),
      TEST(launches_count_when_they_have_run),
  };
  return cmocka_run_group_tests_name("fake_cuda_failures", tests, NULL, NULL);
}
