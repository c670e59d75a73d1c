/* SPDX-License-Identifier: BSD-3-Clause */
/* Several devices: whose memory is whose, copies between them, and one that fails while the other goes on. In a process
 * of its own each, for settings are read once. */
#include "test_child.h"

#include <string.h>

/* Memory of one device is used from another: not at all, then by a copy between peers, then by a kernel that may. */
static int use_two_devices(void) {
  CUcontext other;
  CUdeviceptr here, there;
  float value = 5;
  OK(cuMemAlloc(&here, sizeof value));
  OK(cuMemcpyHtoD(here, &value, sizeof value));
  OK(cuDevicePrimaryCtxRetain(&other, 1));
  OK(cuCtxPushCurrent(other));
  OK(cuMemAlloc(&there, sizeof value));
  const CUresult foreign_copy = cuMemcpyDtoDAsync(there, here, sizeof value, NULL);
  OK(cuMemcpyPeerAsync(there, other, here, context, sizeof value, NULL));
  OK(cuCtxEnablePeerAccess(context, 0));
  OK(cuModuleLoadData(&module, &image));
  OK(launch_scale(here, there, 1, 2, NULL));
  OK(cuMemcpyDtoH(&value, there, sizeof value));
  OK(cuCtxPopCurrent(NULL));
  OK(cuModuleLoadData(&module, &image));
  OK(launch_scale(there, here, 1, 2, NULL)); /* peer access has a direction */
  const CUresult foreign_kernel = cuStreamSynchronize(NULL);
  return !(foreign_copy == CUDA_ERROR_INVALID_VALUE && value == 10 && foreign_kernel == CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* Padding behind a struct's last member makes no address of it, here one of the other device's memory. */
static int pad_with_an_address(void) {
  struct {
    CUdeviceptr to;
    CUdeviceptr value_and_padding;
  } args;
  CUcontext other;
  unsigned value;
  OK(cuDevicePrimaryCtxRetain(&other, 1));
  OK(cuCtxPushCurrent(other));
  OK(cuMemAlloc(&args.value_and_padding, sizeof value));
  OK(cuCtxPopCurrent(NULL));
  OK(cuModuleLoadData(&module, &image));
  OK(cuMemAlloc(&args.to, sizeof value));
  void *parameters[] = {&args};
  OK(launch("test_padded", 1, 1, 0, NULL, parameters));
  OK(cuMemcpyDtoH(&value, args.to, sizeof value));
  return value != (unsigned)args.value_and_padding;
}

/* What lies on device 1, as a copy between devices gives it to device 0. */
static float fetch(CUdeviceptr here, CUcontext other, CUdeviceptr there) {
  float value = 0;
  OK(cuMemcpyPeerAsync(here, context, there, other, sizeof value, NULL));
  OK(cuMemcpyDtoH(&value, here, sizeof value));
  return value;
}

/* Copies between devices are counted by the way they take; one device may fail or be lost, and the other goes on. */
static int lose_one_device(void) {
  CUcontext other;
  CUdeviceptr here, there, p;
  const float value = 5;
  float again;
  OK(cuMemAlloc(&here, sizeof value));
  OK(cuDevicePrimaryCtxRetain(&other, 1));
  OK(cuCtxPushCurrent(other));
  OK(cuMemAlloc(&there, sizeof value));
  OK(cuMemcpyHtoD(there, &value, sizeof value));
  const uint64_t up = fake_cuda_get(FAKE_CUDA_BYTES_UP), on_other = fake_cuda_calls_on(1, "cuMemAlloc");
  OK(cuCtxPopCurrent(NULL));

  if (fetch(here, other, there) != value || fake_cuda_get(FAKE_CUDA_BYTES_UP) != up + 4) return 1; /* by the host */
  OK(cuCtxEnablePeerAccess(other, 0));
  if (fetch(here, other, there) != value || fake_cuda_get(FAKE_CUDA_BYTES_PEER) != 4) return 2;
  OK(cuCtxDisablePeerAccess(other));
  if (cuCtxDisablePeerAccess(other) != CUDA_ERROR_PEER_ACCESS_NOT_ENABLED) return 3;

  OK(fake_cuda_fail_on(1, "cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY, 0));
  OK(fake_cuda_fail_on(1, "cuMemcpyHtoDAsync", 1, CUDA_ERROR_ILLEGAL_ADDRESS, FAKE_CUDA_STICKY | FAKE_CUDA_ASYNC));
  OK(cuMemAlloc(&p, 1)); /* not on this one */
  if (fake_cuda_calls_on(1, "cuMemAlloc") != on_other || fake_cuda_calls_on(0, "cuMemAlloc") != 2) return 4;
  OK(cuCtxPushCurrent(other));
  if (cuMemAlloc(&p, 1) != CUDA_ERROR_OUT_OF_MEMORY) return 5;
  OK(cuMemAlloc(&p, 1));
  float *pinned = new_pinned(1);
  OK(cuMemcpyHtoDAsync(there, pinned, sizeof value, NULL));
  if (cuStreamSynchronize(NULL) != CUDA_ERROR_ILLEGAL_ADDRESS || cuMemFree(p) != CUDA_ERROR_ILLEGAL_ADDRESS) return 6;
  cuCtxPopCurrent(NULL);
  if (cuCtxPushCurrent(other) != CUDA_ERROR_ILLEGAL_ADDRESS) return 7;
  again = fetch(here, other, there); /* nobody says that it is rubbish */
  return again == value ? 8 : fake_cuda_fail_on(99, "cuMemAlloc", 1, 1, 0) == -1 ? 0 : 9;
}

static int reach_no_peer(void) {
  CUcontext other;
  int can = 1;
  OK(cuDevicePrimaryCtxRetain(&other, 1));
  OK(cuDeviceCanAccessPeer(&can, 0, 1));
  return can || cuCtxEnablePeerAccess(other, 0) != CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

/* What this program does as its own child. Gives the exit status. */
static int child(const char *what) {
  if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxPushCurrent(context)) return 1;
  if (!strcmp(what, "two devices")) return use_two_devices();
  if (!strcmp(what, "lose one")) return lose_one_device();
  if (!strcmp(what, "no peers")) return reach_no_peer();
  if (!strcmp(what, "padding")) return pad_with_an_address();
  return 100;
}

static void a_device_keeps_its_memory_to_itself(void **state) {
  (void)state;
  assert_int_equal(run_child("two devices", "FAKE_CUDA_DEVICES=2 FAKE_CUDA_MISUSE=count"), 0);
  assert_int_equal(run_child("padding", "FAKE_CUDA_DEVICES=2"), 0);
  assert_int_equal(run_child("no peers", "FAKE_CUDA_DEVICES=2 FAKE_CUDA_PEERS=0"), 0);
}

static void one_of_two_devices_fails(void **state) {
  (void)state;
  assert_int_equal(run_child("lose one", "FAKE_CUDA_DEVICES=2"), 0);
}

int main(int argc, char **argv) {
  if (argc > 1) return child(argv[1]);
  const struct CMUnitTest tests[] = {
      TEST(a_device_keeps_its_memory_to_itself),
      TEST(one_of_two_devices_fails),
  };
  return cmocka_run_group_tests_name("fake_cuda_devices", tests, NULL, NULL);
}
