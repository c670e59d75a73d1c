/* SPDX-License-Identifier: BSD-3-Clause */
/* What the fake driver says when nothing orders operations that touch the same bytes: whether or not it shows in the
 * data, and never where something does. */
#include "test_context.h"

#include <math.h>

enum { COUNT = 64, BYTES = COUNT * sizeof(float) };

static uint64_t misuses(void) { return fake_cuda_get(FAKE_CUDA_MISUSES); }

static int start(void **state) {
  const int result = setup(state);
  fake_cuda_set_watch(FAKE_CUDA_WATCH_ORDER);
  return result;
}

static int end(void **state) {
  fake_cuda_set_watch(FAKE_CUDA_UNWATCHED);
  return teardown(state);
}

/* What orders the kernel behind the copy, if anything: in every order in which they may run. */
enum order { NOTHING, STREAM, EVENT, EVENT_OF_A_THIRD, HOST, QUERY, ORDERS };

static void put_in_order(enum order order, CUstream up, CUstream compute, CUstream third) {
  CUevent event = new_event(), other = new_event();
  OK(cuEventRecord(event, up));
  if (order == EVENT) OK(cuStreamWaitEvent(compute, event, 0));
  if (order == EVENT_OF_A_THIRD) {
    OK(cuStreamWaitEvent(third, event, 0));
    OK(cuEventRecord(other, third));
    OK(cuStreamWaitEvent(compute, other, 0));
  }
  if (order == HOST) OK(cuStreamSynchronize(up));
  while (order == QUERY && cuEventQuery(event) != CUDA_SUCCESS) continue;
  OK(cuEventDestroy(event));
  OK(cuEventDestroy(other));
}

static void a_kernel_reads_what_a_copy_brings(void **state) {
  (void)state;
  CUstream up = new_stream(), compute = new_stream(), third = new_stream();
  CUdeviceptr a = new_memory(BYTES), b = new_memory(BYTES);
  float *from = new_pinned(COUNT);
  for (int run = 0; run < 3 * ORDERS; run++) {
    const enum order order = (enum order)(run / 3);
    fake_cuda_set_order((enum fake_cuda_order)(run % 3), 5);
    const uint64_t before = misuses();
    OK(cuMemcpyHtoDAsync(a, from, BYTES, up));
    put_in_order(order, up, order == STREAM ? up : compute, third);
    OK(launch_scale(a, b, COUNT, 2, order == STREAM ? up : compute));
    OK(cuCtxSynchronize());
    assert_int_equal(misuses() - before, order == NOTHING);
  }
  OK(cuMemFree(a));
  OK(cuMemFree(b));
  OK(cuMemFreeHost(from));
}

/* Two that read; two that write, of which the rows of one lie between the other's; and where they meet in a byte. */
static void what_is_apart_needs_no_order(void **state) {
  (void)state;
  CUstream one = new_stream(), other = new_stream();
  CUdeviceptr matrix = new_memory(BYTES), to = new_memory(2 * BYTES);
  const uint64_t before = misuses();
  OK(cuMemsetD8Async(matrix, 0, BYTES, one));
  OK(cuStreamSynchronize(one));
  OK(launch_scale(matrix, to, COUNT, 2, one));
  OK(launch_scale(matrix, to + BYTES, COUNT, 2, other));
  OK(cuCtxSynchronize());
  float *from = new_pinned(COUNT);
  for (size_t wide = 4; wide <= 5; wide++)
    for (int of_other = 0; of_other < 2; of_other++) {
      const CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                                  .srcHost = from,
                                  .srcPitch = 8,
                                  .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                  .dstDevice = matrix + (of_other ? 4 : 0),
                                  .dstPitch = 8,
                                  .WidthInBytes = of_other ? 4 : wide,
                                  .Height = 16};
      OK(cuMemcpy2DAsync(&rows, of_other ? other : one));
      assert_int_equal(misuses() - before, wide == 5 && of_other);
      if (of_other) OK(cuCtxSynchronize());
    }
  OK(cuMemFree(matrix));
  OK(cuMemFree(to));
  OK(cuMemFreeHost(from));
}

/* A read that is not over is as much in the way of a write; and waiting for the wrong one of two does not help. */
static void what_is_read_must_not_be_replaced(void **state) {
  (void)state;
  CUstream up = new_stream(), compute = new_stream();
  CUdeviceptr a = new_memory(BYTES), b = new_memory(BYTES);
  float *from = new_pinned(COUNT);
  CUevent early = new_event();
  OK(cuMemsetD8Async(a, 0, BYTES, compute));
  OK(cuEventRecord(early, compute));
  OK(launch_scale(a, b, COUNT, 2, compute));
  OK(cuStreamWaitEvent(up, early, 0));
  const uint64_t before = misuses();
  OK(cuMemcpyHtoDAsync(a, from, BYTES, up));
  assert_int_equal(misuses() - before, 1);
  OK(cuCtxSynchronize());
  OK(cuMemFree(a));
  OK(cuMemFree(b));
  OK(cuMemFreeHost(from));
}

/* The host's own part: a slot that is filled again, or read, before the copy has run. */
static void the_host_leaves_alone_what_copies_use(void **state) {
  (void)state;
  CUstream stream = new_stream();
  CUdeviceptr memory = new_memory(BYTES);
  float *slot = new_pinned(COUNT);
  for (int down = 0; down < 2; down++)
    for (int touched = 0; touched < 2; touched++) {
      const uint64_t before = misuses();
      for (int i = 0; i < COUNT; i++) slot[i] = (float)i;
      OK(down ? cuMemcpyDtoHAsync(slot, memory, BYTES, stream) : cuMemcpyHtoDAsync(memory, slot, BYTES, stream));
      assert_true(down == (isnan(slot[COUNT - 1]) != 0)); /* it has not arrived */
      if (touched) slot[COUNT - 1] = -1;
      OK(cuStreamSynchronize(stream));
      assert_int_equal(misuses() - before, touched);
    }
  OK(cuMemFree(memory));
  OK(cuMemFreeHost(slot));
}

/* A kernel whose arguments say that it writes to[0] alone (extents.cpp). */
static void a_kernel_keeps_to_its_arguments(void **state) {
  (void)state;
  CUdeviceptr memory = new_memory(BYTES);
  float word[COUNT];
  for (long index = 0; index < 2; index++) {
    void *parameters[] = {&memory, &index};
    fake_cuda_set_watch(FAKE_CUDA_WATCH_EXTENTS);
    const uint64_t before = misuses();
    OK(cuMemsetD8Async(memory, 0, BYTES, NULL));
    OK(launch("test_write_at", 1, 1, 0, NULL, parameters));
    OK(cuCtxSynchronize());
    assert_int_equal(misuses() - before, index);
    OK(cuMemcpyDtoH(word, memory, BYTES)); /* what it wrote elsewhere is taken back, what it did not touch is there */
    assert_true(word[0] == (index == 0) && word[1] == 0 && word[COUNT - 1] == 0);
  }
  OK(cuMemFree(memory));
}

/* Reading elsewhere gives NaN: test_scale's arguments say what it reads. */
static void a_kernel_that_reads_elsewhere_finds_nothing(void **state) {
  (void)state;
  CUdeviceptr memory = new_memory(BYTES);
  float word[COUNT];
  fake_cuda_set_watch(FAKE_CUDA_WATCH_EXTENTS);
  OK(cuMemsetD8Async(memory, 0, BYTES, NULL));
  void *parameters[] = {&memory};
  OK(launch("test_warp_sum", 1, 32, 0, NULL, parameters)); /* it says it has half of what it sums */
  OK(cuMemcpyDtoH(word, memory, BYTES));
  assert_true(isnan(word[0]) && word[COUNT - 1] == 0);
  OK(cuMemFree(memory));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_kernel_reads_what_a_copy_brings, start, end),
      cmocka_unit_test_setup_teardown(what_is_apart_needs_no_order, start, end),
      cmocka_unit_test_setup_teardown(what_is_read_must_not_be_replaced, start, end),
      cmocka_unit_test_setup_teardown(the_host_leaves_alone_what_copies_use, start, end),
      cmocka_unit_test_setup_teardown(a_kernel_keeps_to_its_arguments, start, end),
      cmocka_unit_test_setup_teardown(a_kernel_that_reads_elsewhere_finds_nothing, start, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
