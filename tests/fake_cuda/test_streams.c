/* SPDX-License-Identifier: BSD-3-Clause */
/* When the fake driver runs what: streams, events, the orders. What is forgotten shows as wrong data. */
#include "test_context.h"

#include <math.h>

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
  OK(cuMemsetD8Async(x, 2, 1, a)); /* not part of the event */
  OK(cuStreamWaitEvent(b, event, 0));
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

/* Of two neighbours one is eager, the other lazy, and what the former waits for is done first. */
static void uneven_streams(void **state) {
  (void)state;
  CUstream a = new_stream(), b = new_stream();
  CUevent event = new_event();
  CUdeviceptr x = new_memory(1);
  for (int turn = 0; turn < 2; turn++) {
    fake_cuda_set_order(FAKE_CUDA_UNEVEN, turn == 0 ? 0x5555555555555555u : 0xaaaaaaaaaaaaaaaau);
    for (int i = 0; i < 2; i++) OK(cuMemsetD8Async(x, 1, 1, a));
    for (int i = 0; i < 2; i++) OK(cuMemsetD8Async(x, 2, 1, b));
    assert_int_equal(fake_cuda_get(FAKE_CUDA_QUEUED), 2);
    const int a_is_lazy = cuStreamQuery(a) == CUDA_ERROR_NOT_READY; /* one of two is done */
    CUstream lazy = a_is_lazy ? a : b, eager = a_is_lazy ? b : a;
    OK(cuCtxSynchronize());
    OK(cuMemsetD8Async(x, 3, 1, lazy));
    OK(cuEventRecord(event, lazy));
    OK(cuMemsetD8Async(x, 4, 1, lazy));
    OK(cuStreamWaitEvent(eager, event, 0));
    OK(cuMemsetD8Async(x, 5, 1, eager));
    assert_int_equal(fake_cuda_get(FAKE_CUDA_QUEUED), 1);
    OK(cuCtxSynchronize());
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

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(nothing_runs_before_something_waits),
      TEST(a_source_that_changes_before_the_wait_changes_the_copy),
      TEST(an_event_stands_for_what_was_recorded_when_it_was_waited_for),
      TEST(the_default_stream_is_ordered_with_blocking_streams_only),
      TEST(asking_makes_progress),
      TEST(a_chance_order_ends_like_the_others),
      TEST(uneven_streams),
      TEST(events_measure),
  };
  return cmocka_run_group_tests_name("fake_cuda_streams", tests, NULL, NULL);
}
