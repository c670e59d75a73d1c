/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fake driver proves itself: what would go wrong on a GPU goes wrong on it, visibly. Each test has a context of its
 * own and leaves nothing behind. One thread, except where a test says otherwise.
 */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "fake_cuda.h"

#define OK(call) assert_int_equal(call, CUDA_SUCCESS)

enum { THREADS = 256 };

/* A fat binary with one entry, PTX for 7.5, whose text nobody here reads. */
static const struct {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;
  uint16_t kind, kind_version;
  uint32_t entry_header_bytes;
  uint64_t payload_bytes;
  uint32_t compressed_bytes, unknown[2], architecture;
} image = {0xba55ed50, 1, 16, 32, 1, 0x101, 32, 0, 1, {0, 0}, 75};

struct scale_args {
  CUdeviceptr from, to;
  int count;
  float factor;
};

static CUcontext context;
static CUmodule module;

static int setup(void **state) {
  (void)state;
  unsetenv("FAKE_CUDA_FAIL");
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxPushCurrent(context));
  OK(cuModuleLoadData(&module, &image));
  fake_cuda_reset_calls();
  return 0;
}

static int teardown(void **state) {
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

static CUstream new_stream(void) {
  CUstream stream;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

static CUevent new_event(void) {
  CUevent event;
  OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
  return event;
}

static CUdeviceptr new_memory(size_t bytes) {
  CUdeviceptr p;
  OK(cuMemAlloc(&p, bytes));
  return p;
}

static float *new_pinned(size_t count) {
  void *p;
  OK(cuMemHostAlloc(&p, count * sizeof(float), 0));
  return p;
}

static CUfunction find(const char *name) {
  CUfunction function;
  OK(cuModuleGetFunction(&function, module, name));
  return function;
}

static CUresult launch(const char *name, unsigned blocks, unsigned threads, unsigned shared, CUstream stream,
                       void **parameters) {
  return cuLaunchKernel(find(name), blocks, 1, 1, threads, 1, 1, shared, stream, parameters, NULL);
}

static CUresult launch_scale(CUdeviceptr from, CUdeviceptr to, int count, float factor, CUstream stream) {
  struct scale_args args = {from, to, count, factor};
  void *parameters[] = {&args};
  return launch("test_scale", 3, 64, 0, stream, parameters);
}

/* Runs a kernel of one block over THREADS floats 0, 1, 2, ... and gives what it made of them. */
static CUresult run_on_ramp(const char *name, float *result) {
  CUdeviceptr data = new_memory(THREADS * sizeof(float));
  for (int i = 0; i < THREADS; i++) result[i] = (float)i;
  OK(cuMemcpyHtoD(data, result, THREADS * sizeof(float)));
  void *parameters[] = {&data};
  OK(launch(name, 1, THREADS, THREADS * sizeof(float), NULL, parameters));
  return cuMemcpyDtoH(result, data, THREADS * sizeof(float));
}

/* ---- kernels ---- */

static void every_thread_of_a_grid_runs_once(void **state) {
  (void)state;
  enum { COUNT = 3 * 2 * 4 * 5 * 7 * 2 };
  static int numbers[COUNT];
  for (uint64_t seed = 0; seed < 4; seed++) {
    fake_cuda_set_shuffle(seed);
    CUdeviceptr to = new_memory(sizeof numbers);
    void *parameters[] = {&to};
    OK(cuLaunchKernel(find("test_indices"), 3, 2, 4, 5, 7, 2, 0, NULL, parameters, NULL));
    OK(cuMemcpyDtoH(numbers, to, sizeof numbers));
    for (int i = 0; i < COUNT; i++) assert_int_equal(numbers[i], i);
    OK(cuMemFree(to));
  }
}

static void barriers_hold_a_block_together(void **state) {
  (void)state;
  static const char *const names[] = {"test_reverse", "test_reverse_dynamic"};
  float result[THREADS];
  for (int kernel = 0; kernel < 2; kernel++)
    for (uint64_t seed = 0; seed < 4; seed++) {
      fake_cuda_set_shuffle(seed);
      OK(run_on_ramp(names[kernel], result));
      for (int i = 0; i < THREADS; i++) assert_true(result[i] == (float)(THREADS - 1 - i));
    }
}

static void a_missing_barrier_reads_what_nobody_wrote(void **state) {
  (void)state;
  float result[THREADS];
  for (uint64_t seed = 0; seed < 4; seed++) {
    fake_cuda_set_shuffle(seed);
    OK(run_on_ramp("test_reverse_without_barrier", result));
    int unwritten = 0;
    for (int i = 0; i < THREADS; i++) unwritten += isnan(result[i]);
    assert_int_equal(unwritten, THREADS / 2);
  }
}

static void shared_memory_is_nan_in_every_block(void **state) {
  (void)state;
  enum { BLOCKS = 3 };
  float result[64 * BLOCKS];
  CUdeviceptr to = new_memory(sizeof result);
  void *parameters[] = {&to};
  OK(launch("test_unwritten_shared", BLOCKS, 32, 32 * sizeof(float), NULL, parameters));
  OK(cuMemcpyDtoH(result, to, sizeof result));
  for (int i = 0; i < 64 * BLOCKS; i++) assert_true(isnan(result[i]));
}

static void a_barrier_that_some_skip_fails_the_launch(void **state) {
  (void)state;
  for (unsigned leaving = 0; leaving <= THREADS; leaving += THREADS / 2) {
    const uint64_t misuses = fake_cuda_get(FAKE_CUDA_MISUSES);
    void *parameters[] = {&leaving};
    const int diverges = leaving > 0 && leaving < THREADS;
    OK(launch("test_diverging", 1, THREADS, 0, NULL, parameters));
    assert_int_equal(cuCtxSynchronize(), diverges ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS);
    assert_int_equal(fake_cuda_get(FAKE_CUDA_MISUSES) - misuses, diverges);
    if (diverges) { /* and nothing works any more until the context is gone */
      CUdeviceptr p;
      assert_int_equal(cuMemAlloc(&p, 4), CUDA_ERROR_LAUNCH_FAILED);
      assert_int_equal(cuStreamSynchronize(NULL), CUDA_ERROR_LAUNCH_FAILED);
      OK(cuCtxPopCurrent(NULL));
      OK(cuDevicePrimaryCtxRelease(0));
      OK(setup(NULL) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
    }
  }
}

static void asynchronous_copies_land_at_the_wait(void **state) {
  (void)state;
  float ramp[4 * 32], result[2 * 4 * 32];
  for (int i = 0; i < 4 * 32; i++) ramp[i] = (float)i;
  CUdeviceptr from = new_memory(sizeof ramp), to = new_memory(sizeof result);
  OK(cuMemcpyHtoD(from, ramp, sizeof ramp));
  for (unsigned left = 0; left <= 2; left++)
    for (unsigned valid_bytes = 0; valid_bytes <= 16; valid_bytes += 4) {
      void *parameters[] = {&from, &to, &left, &valid_bytes};
      OK(launch("test_cp_async", 1, 32, 0, NULL, parameters));
      OK(cuMemcpyDtoH(result, to, sizeof result));
      for (int i = 0; i < 4 * 32; i++) {
        const float second = i % 4 * sizeof(float) < valid_bytes ? ramp[i] : 0;
        assert_true(left < 2 ? result[i] == ramp[i] : isnan(result[i]));
        assert_true(left < 1 ? result[4 * 32 + i] == second : isnan(result[4 * 32 + i]));
      }
    }
}

static void lanes_exchange_values(void **state) {
  (void)state;
  float result[THREADS];
  for (uint64_t seed = 0; seed < 4; seed++) {
    fake_cuda_set_shuffle(seed);
    OK(run_on_ramp("test_warp_sum", result));
    for (int i = 0; i < THREADS; i++) {
      const int first = i / 32 * 32;
      assert_true(result[i] == (float)(32 * first + 31 * 32 / 2));
    }
  }
}

static void shuffling_changes_the_order_and_a_seed_repeats_it(void **state) {
  (void)state;
  int order[4][1 + THREADS];
  static const uint64_t seeds[4] = {0, 5, 5, 6};
  for (int run = 0; run < 4; run++) {
    fake_cuda_set_shuffle(seeds[run]);
    CUdeviceptr to = new_memory(sizeof order[0]);
    const int zero = 0;
    OK(cuMemcpyHtoD(to, &zero, sizeof zero));
    void *parameters[] = {&to};
    OK(launch("test_order", 1, THREADS, 0, NULL, parameters));
    OK(cuMemcpyDtoH(order[run], to, sizeof order[0]));
    OK(cuMemFree(to));
  }
  for (int i = 0; i < THREADS; i++) assert_int_equal(order[0][1 + i], i);
  assert_memory_not_equal(order[0], order[1], sizeof order[0]);
  assert_memory_equal(order[1], order[2], sizeof order[0]);
  assert_memory_not_equal(order[2], order[3], sizeof order[0]);
}

/* ---- time ---- */

static void nothing_runs_before_something_waits(void **state) {
  (void)state;
  enum { COUNT = 100 };
  CUstream up = new_stream(), compute = new_stream(), down = new_stream();
  float *from = new_pinned(COUNT), *to = new_pinned(COUNT);
  for (int waits = 0; waits < 2; waits++) {
    CUdeviceptr a = new_memory(COUNT * sizeof(float)), b = new_memory(COUNT * sizeof(float));
    CUevent uploaded = new_event(), computed = new_event();
    for (int i = 0; i < COUNT; i++) from[i] = (float)i, to[i] = -1;
    OK(cuMemcpyHtoDAsync(a, from, COUNT * sizeof(float), up));
    OK(cuEventRecord(uploaded, up));
    if (waits) OK(cuStreamWaitEvent(compute, uploaded, 0));
    OK(launch_scale(a, b, COUNT, 2, compute));
    OK(cuEventRecord(computed, compute));
    if (waits) OK(cuStreamWaitEvent(down, computed, 0));
    OK(cuMemcpyDtoHAsync(to, b, COUNT * sizeof(float), down));
    for (int i = 0; i < COUNT; i++) assert_true(to[i] == -1);
    OK(cuStreamSynchronize(down));
    for (int i = 0; i < COUNT; i++) assert_true(waits ? to[i] == 2 * from[i] : isnan(to[i]));
    OK(cuCtxSynchronize());
    OK(cuMemFree(a));
    OK(cuMemFree(b));
  }
}

static void a_source_that_changes_before_the_wait_changes_the_copy(void **state) {
  (void)state;
  float *from = new_pinned(1), back;
  CUdeviceptr to = new_memory(sizeof *from);
  static const enum fake_cuda_order orders[] = {FAKE_CUDA_LAZY, FAKE_CUDA_EAGER};
  for (int i = 0; i < 2; i++) {
    fake_cuda_set_order(orders[i], 0);
    *from = 1;
    OK(cuMemcpyHtoDAsync(to, from, sizeof *from, NULL));
    *from = 2;
    OK(cuMemcpyDtoH(&back, to, sizeof back));
    assert_true(back == (orders[i] == FAKE_CUDA_LAZY ? 2 : 1));
  }
}

static void an_event_stands_for_what_was_recorded_when_it_was_waited_for(void **state) {
  (void)state;
  CUstream a = new_stream(), b = new_stream();
  CUevent event = new_event();
  CUdeviceptr x = new_memory(1), y = new_memory(1);
  unsigned char result;
  OK(cuMemsetD8Async(x, 1, 1, a));
  OK(cuEventRecord(event, a));
  OK(cuStreamWaitEvent(b, event, 0));
  OK(cuMemsetD8Async(x, 2, 1, a));
  OK(cuEventRecord(event, a)); /* too late for b */
  OK(cuMemcpyDtoDAsync(y, x, 1, b));
  OK(cuStreamSynchronize(b));
  assert_int_equal(fake_cuda_get(FAKE_CUDA_QUEUED), 2);
  OK(cuMemcpyDtoH(&result, y, 1));
  assert_int_equal(result, 1);
  assert_int_equal(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  OK(cuEventSynchronize(event));
  OK(cuEventQuery(event));
  OK(cuMemcpyDtoH(&result, x, 1));
  assert_int_equal(result, 2);
}

static void the_default_stream_is_ordered_with_blocking_streams_only(void **state) {
  (void)state;
  CUdeviceptr x = new_memory(1);
  unsigned char result;
  for (int blocking = 0; blocking < 2; blocking++) {
    CUstream stream;
    OK(cuStreamCreate(&stream, blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
    OK(cuMemsetD8Async(x, 0, 1, NULL));
    OK(cuStreamSynchronize(NULL));
    OK(cuMemsetD8Async(x, 7, 1, stream));
    OK(cuMemcpyDtoH(&result, x, 1));
    assert_int_equal(result, blocking ? 7 : 0);
    OK(cuStreamSynchronize(stream));
    OK(cuStreamDestroy(stream));
  }
}

static void asking_makes_progress(void **state) {
  (void)state;
  CUstream stream = new_stream();
  CUdeviceptr x = new_memory(1);
  for (int i = 0; i < 3; i++) OK(cuMemsetD8Async(x, 1, 1, stream));
  int asked = 0;
  while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY) asked++;
  assert_int_equal(asked, 2);
  OK(cuStreamQuery(stream));
}

static void a_chance_order_ends_like_the_others(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed < 20; seed++) {
    fake_cuda_set_order(FAKE_CUDA_RANDOM, seed);
    CUstream a = new_stream(), b = new_stream();
    CUevent event = new_event();
    CUdeviceptr x = new_memory(1), y = new_memory(1);
    unsigned char result;
    for (unsigned char value = 0; value < 10; value++) OK(cuMemsetD8Async(x, value, 1, a));
    OK(cuEventRecord(event, a));
    OK(cuStreamWaitEvent(b, event, 0));
    OK(cuMemcpyDtoDAsync(y, x, 1, b));
    OK(cuStreamSynchronize(b));
    OK(cuMemcpyDtoH(&result, y, 1));
    assert_int_equal(result, 9);
  }
}

static void events_measure(void **state) {
  (void)state;
  CUevent start = new_event(), end = new_event(), silent;
  float milliseconds = -1;
  OK(cuEventCreate(&silent, CU_EVENT_DISABLE_TIMING));
  assert_int_equal(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE);
  OK(cuEventRecord(start, NULL));
  OK(cuEventRecord(end, NULL));
  OK(cuEventRecord(silent, NULL));
  assert_int_equal(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_NOT_READY);
  OK(cuStreamSynchronize(NULL));
  OK(cuEventElapsedTime(&milliseconds, start, end));
  assert_true(milliseconds >= 0);
  assert_int_equal(cuEventElapsedTime(&milliseconds, start, silent), CUDA_ERROR_INVALID_HANDLE);
}

/* ---- memory ---- */

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

static void rows_are_copied_by_their_pitches(void **state) {
  (void)state;
  enum { ROWS = 5, WIDTH = 6, DEVICE_PITCH = 16, HOST_PITCH = 9 };
  char *host = (char *)new_pinned(100), back[ROWS * DEVICE_PITCH];
  for (int i = 0; i < ROWS * HOST_PITCH; i++) host[i] = (char)i;
  CUdeviceptr device = new_memory(ROWS * DEVICE_PITCH);
  CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = host, .srcPitch = HOST_PITCH, .srcXInBytes = 2,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = device, .dstPitch = DEVICE_PITCH,
                        .dstY = 1, .WidthInBytes = WIDTH, .Height = ROWS - 1};
  OK(cuMemcpy2DAsync(&copy, NULL));
  OK(cuMemcpyDtoH(back, device, sizeof back));
  for (int row = 1; row < ROWS; row++)
    for (int x = 0; x < WIDTH; x++) assert_int_equal(back[row * DEVICE_PITCH + x], (row - 1) * HOST_PITCH + x + 2);
  copy.Height = ROWS; /* one row too many for the device */
  assert_int_equal(cuMemcpy2DAsync(&copy, NULL), CUDA_ERROR_INVALID_VALUE);
  copy.Height = 2;
  copy.srcPitch = WIDTH - 1;
  assert_int_equal(cuMemcpy2DAsync(&copy, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void memory_that_work_awaits_must_stay(void **state) {
  (void)state;
  for (int by_kernel = 0; by_kernel < 2; by_kernel++) {
    const uint64_t misuses = fake_cuda_get(FAKE_CUDA_MISUSES);
    CUdeviceptr p = new_memory(40);
    if (by_kernel)
      OK(launch_scale(p, p, 10, 1, NULL));
    else
      OK(cuMemsetD8Async(p, 0, 1, NULL));
    assert_int_equal(cuMemFree(p), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(fake_cuda_get(FAKE_CUDA_MISUSES) - misuses, 1);
    assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(cuCtxPopCurrent(NULL));
    OK(cuDevicePrimaryCtxRelease(0));
    OK(setup(NULL) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
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
  OK(cuMemHostUnregister(memory));
  assert_int_equal(cuMemHostUnregister(memory), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  assert_int_equal(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)memory),
                   CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(fake_cuda_get(FAKE_CUDA_PAGEABLE_COPIES), before);
}

/* ---- what is refused ---- */

static void launches_within_limits_only(void **state) {
  (void)state;
  CUfunction scale = find("test_scale"), dynamic = find("test_reverse_dynamic");
  struct scale_args args = {0, 0, 0, 1};
  void *parameters[] = {&args};
  OK(cuLaunchKernel(scale, 1, 1, 1, 1024, 1, 1, 0, NULL, parameters, NULL));
  static const unsigned bad[][6] = {{0, 1, 1, 1, 1, 1},     {1, 1, 1, 1025, 1, 1}, {1, 1, 1, 32, 33, 1},
                                    {1, 1, 1, 1, 1, 65},    {1, 65536, 1, 1, 1, 1}, {1, 1, 65536, 1, 1, 1},
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
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;
    uint16_t kind, kind_version;
    uint32_t entry_header_bytes;
    uint64_t payload_bytes;
    uint32_t compressed_bytes, unknown[2], architecture;
    char sections[32];
  } elf = {0xba55ed50, 1, 16, 64, 2, 0x101, 32, 32, 0, {0, 0}, 90, "\0.text.test_scale\0.data"};
  CUmodule loaded;
  CUfunction function;
  assert_int_equal(cuModuleLoadData(&loaded, "not a fat binary, not at all"), CUDA_ERROR_INVALID_IMAGE);
  OK(cuModuleLoadData(&loaded, &elf));
  OK(cuModuleGetFunction(&function, loaded, "test_scale"));
  assert_int_equal(cuModuleGetFunction(&function, loaded, "test_reverse"), CUDA_ERROR_NOT_FOUND);
  assert_int_equal(cuModuleGetFunction(&function, module, "no_such_kernel"), CUDA_ERROR_NOT_FOUND);
  OK(cuModuleUnload(loaded));
  assert_int_equal(cuModuleUnload(loaded), CUDA_ERROR_INVALID_HANDLE);
  void *parameters[] = {NULL};
  assert_int_equal(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL), CUDA_ERROR_INVALID_HANDLE);
  elf.architecture = 80; /* machine code of another generation */
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
  assert_int_equal(cuStreamDestroy(stream), CUDA_ERROR_INVALID_HANDLE);
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

/* ---- the process ---- */

static void a_child_of_fork_has_no_driver(void **state) {
  (void)state;
  const pid_t child = fork();
  if (child == 0) {
    CUdeviceptr p;
    int count;
    _exit(cuInit(0) == CUDA_ERROR_NOT_INITIALIZED && cuMemAlloc(&p, 1) == CUDA_ERROR_NOT_INITIALIZED &&
                  cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED
              ? 0
              : 1);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void *scale_many_times(void *argument) {
  (void)argument;
  enum { COUNT = 500, ROUNDS = 100 };
  cuCtxPushCurrent(context);
  CUstream stream = new_stream();
  float *host = new_pinned(COUNT);
  CUdeviceptr p = new_memory(COUNT * sizeof(float));
  intptr_t wrong = 0;
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < COUNT; i++) host[i] = (float)(i + round);
    wrong += cuMemcpyHtoDAsync(p, host, COUNT * sizeof(float), stream) != CUDA_SUCCESS;
    wrong += launch_scale(p, p, COUNT, 3, stream) != CUDA_SUCCESS;
    wrong += cuMemcpyDtoHAsync(host, p, COUNT * sizeof(float), stream) != CUDA_SUCCESS;
    wrong += cuStreamSynchronize(stream) != CUDA_SUCCESS;
    for (int i = 0; i < COUNT; i++) wrong += host[i] != 3 * (float)(i + round);
  }
  cuCtxPopCurrent(NULL);
  return (void *)wrong;
}

static void threads_may_share_a_context(void **state) {
  (void)state;
  enum { WORKERS = 8 };
  pthread_t workers[WORKERS];
  for (int i = 0; i < WORKERS; i++) assert_int_equal(pthread_create(&workers[i], NULL, scale_many_times, NULL), 0);
  for (int i = 0; i < WORKERS; i++) {
    void *wrong;
    assert_int_equal(pthread_join(workers[i], &wrong), 0);
    assert_ptr_equal(wrong, NULL);
  }
}

static void every_function_that_tileblas_calls_is_there(void **state) {
  (void)state;
#define TEXT(name) #name
#define TB_CUDA(name) assert_non_null(dlsym(RTLD_DEFAULT, TEXT(name)));
#include "../../src/cuda_driver.def"
#undef TB_CUDA
}

static void a_launch_costs_little(void **state) {
  (void)state;
  enum { LAUNCHES = 200, ROUNDS = 5, BARRIERS = 2 * ROUNDS };
  CUdeviceptr data = new_memory(THREADS * sizeof(float));
  int rounds = ROUNDS;
  void *parameters[] = {&data, &rounds};
  CUfunction function = find("test_many_barriers");
  struct timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (int i = 0; i < LAUNCHES; i++) {
    OK(cuLaunchKernel(function, 1, 1, 1, THREADS, 1, 1, 0, NULL, parameters, NULL));
    OK(cuStreamSynchronize(NULL));
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  const double us = ((double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec)) / 1e3;
  print_message("a launch of %d threads with %d barriers: %.1f us\n", THREADS, BARRIERS, us / LAUNCHES);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(every_thread_of_a_grid_runs_once),
      TEST(barriers_hold_a_block_together),
      TEST(a_missing_barrier_reads_what_nobody_wrote),
      TEST(shared_memory_is_nan_in_every_block),
      TEST(a_barrier_that_some_skip_fails_the_launch),
      TEST(asynchronous_copies_land_at_the_wait),
      TEST(lanes_exchange_values),
      TEST(shuffling_changes_the_order_and_a_seed_repeats_it),
      TEST(nothing_runs_before_something_waits),
      TEST(a_source_that_changes_before_the_wait_changes_the_copy),
      TEST(an_event_stands_for_what_was_recorded_when_it_was_waited_for),
      TEST(the_default_stream_is_ordered_with_blocking_streams_only),
      TEST(asking_makes_progress),
      TEST(a_chance_order_ends_like_the_others),
      TEST(events_measure),
      TEST(memory_runs_out),
      TEST(fresh_memory_is_nan),
      TEST(copies_that_leave_an_allocation_are_refused),
      TEST(rows_are_copied_by_their_pitches),
      TEST(memory_that_work_awaits_must_stay),
      TEST(registered_memory_is_pinned_until_it_is_not),
      TEST(launches_within_limits_only),
      TEST(a_pointer_to_nowhere_fails_the_launch),
      TEST(images_are_checked),
      TEST(stale_and_foreign_handles_are_refused),
      TEST(the_nth_call_fails_once),
      TEST(a_failing_release_releases),
      TEST(a_failing_wait_waits_for_nothing),
      TEST(a_lost_device_stays_lost),
      TEST(what_was_enqueued_fails_when_it_runs),
      TEST(a_child_of_fork_has_no_driver),
      TEST(threads_may_share_a_context),
      TEST(every_function_that_tileblas_calls_is_there),
      TEST(a_launch_costs_little),
  };
  return cmocka_run_group_tests_name("fake_cuda", tests, NULL, NULL);
}
