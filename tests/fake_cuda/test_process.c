/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake driver in its process: fork, threads, settings from the environment, sanitizers. */
#include "test_child.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* test_other.c */
int test_other_free(CUdeviceptr memory);
int test_other_disable_peer(CUcontext peer);

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

static bool child_has_no_driver(void) {
  const pid_t child = fork();
  if (child == 0) {
    CUdeviceptr p;
    int count;
    alarm(60);
    const uint64_t calls = fake_cuda_calls("cuInit"); /* can be asked, and still counts */
    if (cuInit(0) != CUDA_ERROR_NOT_INITIALIZED || fake_cuda_calls("cuInit") != calls + 1) _exit(1);
    if (cuMemAlloc(&p, 1) != CUDA_ERROR_NOT_INITIALIZED) _exit(2);
    _exit(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 3);
  }
  int status;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Also when another thread is inside the driver at that moment. */
static void a_child_of_fork_has_no_driver(void **state) {
  (void)state;
  pthread_t worker;
  void *wrong;
  assert_true(child_has_no_driver());
  assert_int_equal(pthread_create(&worker, NULL, scale_many_times, NULL), 0);
  for (int i = 0; i < 20; i++) assert_true(child_has_no_driver());
  assert_int_equal(pthread_join(worker, &wrong), 0);
  assert_ptr_equal(wrong, NULL);
}

static void every_function_that_tileblas_calls_is_there(void **state) {
  (void)state;
#define TEXT(name) #name
#define TB_CUDA(name) assert_non_null(dlsym(RTLD_DEFAULT, TEXT(name)));
#include "cuda/driver.def"
#undef TB_CUDA
}

/* ---- settings: each in a process of its own, for they are read once ---- */

static void *reverse_for_ever(void *data) {
  OK(cuCtxPushCurrent(context));
  CUfunction function = find("test_reverse");
  for (;;) {
    cuLaunchKernel(function, 1, 1, 1, THREADS, 1, 1, 0, NULL, data, NULL);
    cuStreamSynchronize(NULL);
  }
  return NULL;
}

/* The process ends while a thread is inside the driver. */
static int leave_in_the_middle(void) {
  static CUdeviceptr data;
  static void *parameters[] = {&data};
  pthread_t worker;
  data = new_memory(THREADS * sizeof(float));
  if (pthread_create(&worker, NULL, reverse_for_ever, parameters)) return 1;
  usleep(20000);
  return 0;
}

/* Leaves one of each kind. */
static int leave_one(const char *what) {
  CUdeviceptr p;
  CUcontext other;
  void *pinned;
  CUstream stream;
  CUevent event;
  const bool all = !strcmp(what, "leave nothing");
  if (all || strstr(what, "allocation")) OK(cuMemAlloc(&p, 8));
  if (all || strstr(what, "pinned")) OK(cuMemHostAlloc(&pinned, 8, 0));
  if (all || strstr(what, "stream")) OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  if (all || strstr(what, "event")) OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
  if (all || strstr(what, "module")) OK(cuModuleLoadData(&module, &image));
  if (all || strstr(what, "peer")) {
    OK(cuDevicePrimaryCtxRetain(&other, 1));
    OK(cuCtxEnablePeerAccess(other, 0));
  }
  if (all) {
    OK(cuMemFree(p) | cuMemFreeHost(pinned) | cuStreamDestroy(stream) | cuEventDestroy(event) | cuModuleUnload(module));
    OK(cuCtxDisablePeerAccess(other) | cuDevicePrimaryCtxRelease(1));
  }
  if (strstr(what, "shut")) OK(fake_cuda_fail("cuCtxPushCurrent", 1, CUDA_ERROR_UNKNOWN, 0));
  if (strstr(what, "shut")) cuCtxPushCurrent(context);
  if (!strstr(what, "pushed")) OK(cuCtxPopCurrent(NULL));
  if (!strstr(what, "context ")) OK(cuDevicePrimaryCtxRelease(0));
  return 0;
}

/* What this program does as its own child. Gives the exit status. */
static int child(const char *what) {
  CUdeviceptr p, q;
  if (!strcmp(what, "init")) return (int)cuInit(0);
  if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxPushCurrent(context)) return 1;
  if (!strcmp(what, "allocate twice")) return cuMemAlloc(&p, 8) ? 2 : (int)cuMemAlloc(&q, 8);
  if (!strcmp(what, "allocate 1000")) return (int)cuMemAlloc(&p, 1000);
  if (!strcmp(what, "attributes")) {
    int count, sms, major, minor, shared;
    return cuDeviceGetCount(&count) || cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1) ||
           cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 1) ||
           cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 1) ||
           cuDeviceGetAttribute(&shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 1) || count != 2 ||
           sms != 46 || major != 7 || minor != 5 || shared != 65536;
  }
  if (!strcmp(what, "order")) { /* 1: at once; 0: not yet */
    unsigned char *host;
    if (cuMemAlloc(&p, 1) || cuMemHostAlloc((void **)&host, 1, 0)) return 2;
    *host = 9;
    if (cuMemsetD8Async(p, 1, 1, NULL) || cuMemcpyDtoHAsync(host, p, 1, NULL)) return 3;
    return *host == 1;
  }
  if (!strcmp(what, "misuse")) return cuMemAlloc(&p, 4) || cuMemsetD8Async(p, 0, 4, NULL) || cuMemFree(p);
  if (!strncmp(what, "leave ", 6) && strcmp(what, "leave in the middle")) return leave_one(what);
  if (!strcmp(what, "expect two misuses")) {
    fake_cuda_expect_misuses(2);
    return cuMemAlloc(&p, 4) || cuMemsetD8Async(p, 0, 4, NULL) || cuMemFree(p) != CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  if (!strcmp(what, "another frees")) return cuMemAlloc(&p, 4) || test_other_free(p);
  if (!strcmp(what, "another disables")) {
    CUcontext other;
    OK(cuDevicePrimaryCtxRetain(&other, 1));
    OK(cuCtxEnablePeerAccess(other, 0));
    return test_other_disable_peer(other);
  }
  OK(cuModuleLoadData(&module, &image));
  if (!strcmp(what, "leave in the middle")) return leave_in_the_middle();
  if (!strcmp(what, "write past the end")) { /* of device memory */
    long index = 4;
    void *parameters[] = {&p, &index};
    OK(cuMemAlloc(&p, 4 * sizeof(float)));
    OK(launch("test_write_at", 1, 1, 0, NULL, parameters));
    return cuStreamSynchronize(NULL) || cuMemFree(p) || fake_cuda_get(FAKE_CUDA_MISUSES);
  }
  if (!strcmp(what, "write past shared memory")) {
    long index = 4;
    void *parameters[] = {&index};
    OK(launch("test_write_shared_at", 1, 1, 4 * sizeof(float), NULL, parameters));
    return (int)cuStreamSynchronize(NULL);
  }
  return 100;
}

static void settings_come_from_the_environment(void **state) {
  (void)state;
  assert_int_equal(run_child("init", ""), CUDA_SUCCESS);
  assert_int_equal(run_child("init", "FAKE_CUDA_DEVICES=0"), CUDA_ERROR_NO_DEVICE);
  assert_int_equal(
      run_child("attributes", "FAKE_CUDA_DEVICES=2 FAKE_CUDA_SMS=46 FAKE_CUDA_CC=7.5 FAKE_CUDA_SHARED_MEMORY=65536"),
      0);
  assert_int_equal(run_child("allocate 1000", "FAKE_CUDA_MEMORY=1000"), CUDA_SUCCESS);
  assert_int_equal(run_child("allocate 1000", "FAKE_CUDA_MEMORY=999"), CUDA_ERROR_OUT_OF_MEMORY);
  assert_int_equal(run_child("order", "FAKE_CUDA_ORDER=lazy"), 0);
  assert_int_equal(run_child("order", "FAKE_CUDA_ORDER=eager"), 1);
  assert_int_equal(run_child("misuse", "FAKE_CUDA_MISUSE=count"), 1);
  assert_int_equal(run_child("misuse", "FAKE_CUDA_MISUSE=abort FAKE_CUDA_TOLD="), -SIGABRT);
}

/* Whatever is left at the end ends the process badly; what a context took with it, too, if it could be entered. */
static void what_is_left_ends_the_process(void **state) {
  (void)state;
  static const char *const settings = "FAKE_CUDA_DEVICES=2 FAKE_CUDA_LEAKS=abort FAKE_CUDA_TOLD=";
  static const char *const left[] = {
      "leave context and allocation", "leave context and pinned", "leave context and stream", "leave context and event",
      "leave context and module",     "leave context and peer",   "leave context pushed",     "leave context alone",
      "leave abandoned allocation",   "leave abandoned event"};
  for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
    assert_int_equal(run_child(left[i], settings), -SIGABRT);
    assert_int_equal(run_child(left[i], "FAKE_CUDA_DEVICES=2"), 0);
  }
  assert_int_equal(run_child("leave nothing", settings), 0);
  assert_int_equal(run_child("leave shut allocation", settings), 0);
}

static void what_another_made_is_not_released(void **state) {
  (void)state;
  assert_int_equal(run_child("another frees", "FAKE_CUDA_MISUSE=count"), 0);
  assert_int_equal(run_child("another frees", "FAKE_CUDA_TOLD="), -SIGABRT);
  assert_int_equal(run_child("another disables", "FAKE_CUDA_DEVICES=2 FAKE_CUDA_TOLD="), -SIGABRT);
}

static void misuses_are_expected_by_number(void **state) {
  (void)state;
  assert_int_equal(run_child("expect two misuses", "FAKE_CUDA_TOLD="), -SIGABRT); /* there is one */
  char path[] = "/tmp/fake-cuda-told-XXXXXX", text[200] = "", setting[100];
  const int file = mkstemp(path);
  snprintf(setting, sizeof setting, "FAKE_CUDA_MISUSE=abort FAKE_CUDA_TOLD=%s", path);
  assert_int_equal(run_child("misuse", setting), -SIGABRT);
  assert_true(read(file, text, sizeof text - 1) > 0);
  assert_non_null(strstr(text, "4 bytes are freed while work that uses them is queued"));
  close(file), unlink(path);
}

static void failures_come_from_the_environment(void **state) {
  (void)state;
  assert_int_equal(run_child("init", "FAKE_CUDA_FAIL=cuInit:1:100"), 100);
  assert_int_equal(run_child("allocate twice", "FAKE_CUDA_FAIL=cuMemAlloc:1:2"), 2);
  assert_int_equal(run_child("allocate twice", "FAKE_CUDA_FAIL=cuMemAlloc:2:CUDA_ERROR_INVALID_HANDLE"), 400 % 256);
  assert_int_equal(run_child("allocate twice", "FAKE_CUDA_FAIL=cuMemAlloc:3"), 0);
  assert_int_equal(run_child("allocate twice", "FAKE_CUDA_FAIL=cuMemFree:1,cuMemAlloc_v2:2:77:sticky"), 77);
}

static void settings_that_make_no_sense_end_the_process(void **state) {
  (void)state;
  static const char *const wrong[] = {"FAKE_CUDA_FAIL=cuMemAloc:1",
                                      "FAKE_CUDA_FAIL=cuMemAlloc",
                                      "FAKE_CUDA_FAIL=cuMemAlloc:x",
                                      "FAKE_CUDA_FAIL=cuMemAlloc:1:oops",
                                      "FAKE_CUDA_FAIL=cuMemAlloc:1:2:stick",
                                      "FAKE_CUDA_FAIL=cuMemAlloc:1:2:async",
                                      "FAKE_CUDA_ORDER=lasy",
                                      "FAKE_CUDA_ORDER=random",
                                      "FAKE_CUDA_DEVICES=two",
                                      "FAKE_CUDA_DEVICES=17",
                                      "FAKE_CUDA_MEMORY=1G",
                                      "FAKE_CUDA_CC=9",
                                      "FAKE_CUDA_MISUSE=1"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) assert_int_equal(run_child("init", wrong[i]), -SIGABRT);
}

/* AddressSanitizer stops the process at the write itself; without it the guard behind the memory tells at the free. */
static void a_kernel_that_leaves_its_memory_is_noticed(void **state) {
  (void)state;
  assert_int_equal(run_child("write past the end", "FAKE_CUDA_MISUSE=count"), 1);
#ifdef __SANITIZE_ADDRESS__
  assert_int_equal(run_child("write past shared memory", ""), 1);
#endif
}

/* Without the leak check: it does not look for pointers on the stack that a thread has while it runs a block's fibers.
 */
static void a_process_may_end_while_a_thread_works(void **state) {
  (void)state;
  for (int i = 0; i < 5; i++) assert_int_equal(run_child("leave in the middle", "ASAN_OPTIONS=detect_leaks=0"), 0);
}

int main(int argc, char **argv) {
  if (argc > 1) return child(argv[1]);
  const struct CMUnitTest tests[] = {
      TEST(a_child_of_fork_has_no_driver),
      TEST(threads_may_share_a_context),
      TEST(every_function_that_tileblas_calls_is_there),
      TEST(settings_come_from_the_environment),
      TEST(what_is_left_ends_the_process),
      TEST(what_another_made_is_not_released),
      TEST(misuses_are_expected_by_number),
      TEST(failures_come_from_the_environment),
      TEST(settings_that_make_no_sense_end_the_process),
      TEST(a_kernel_that_leaves_its_memory_is_noticed),
      TEST(a_process_may_end_while_a_thread_works),
  };
  return cmocka_run_group_tests_name("fake_cuda_process", tests, NULL, NULL);
}
