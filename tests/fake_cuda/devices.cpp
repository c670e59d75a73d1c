/* SPDX-License-Identifier: BSD-3-Clause */
/* What the driver says of itself and of its devices, and the primary contexts. The numbers are an H200's. */
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "memory.h"
#include "streams.h"

namespace fake {

const char *error_name(CUresult code) {
  static const struct {
    CUresult code;
    const char *name;
  } names[] = {
#define FAKE_CUDA_ERROR(name) {name, #name},
#include "errors.def"
#undef FAKE_CUDA_ERROR
  };
  for (const auto &row : names)
    if (row.code == code) return row.name;
  return nullptr;
}

static bool is_device(CUdevice device) { return device >= 0 && static_cast<size_t>(device) < driver().devices.size(); }

/* -1: an attribute that this fake knows nothing of. */
static int device_attribute(CUdevice_attribute attribute, CUdevice device) {
  const Settings &s = settings();
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return 48 * 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return static_cast<int>(s.shared_memory_bytes);
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return static_cast<int>(s.shared_memory_bytes) + 1024;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return 2048;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
      return 2147483647;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return s.clock_khz;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return 3201000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      return 6144;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return 60 << 20;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return s.multiprocessors;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return s.compute_major;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return s.compute_minor;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
      return 3;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      return 16 + device;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
      return 1;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
      return 0;
    default:
      return -1;
  }
}

/* The maker of something that goes with the context. */
static void note_first_abandoned(const Context *context) {
  const auto note = [context](const auto &object) {
    if (object.context == context) driver().first_abandoned = object.made;
  };
  driver().modules.each(note);
  driver().events.each(note);
  driver().streams.each(note);
  for (const auto &[start, allocation] : driver().memory) note(allocation);
}

/* One that the same library took, if there is one. */
static void drop_reference(Device &device, const Origin &by) {
  auto mine = std::find_if(device.references.begin(), device.references.end(),
                           [&by](const Origin &made) { return made.same_object(by); });
  if (mine == device.references.end()) {
    mine = std::prev(mine);
    check_owner("a reference to a context", *mine, by);
  }
  device.references.erase(mine);
}

static void push(CUcontext context, const Origin &by) {
  context_stack().push_back(context, by);
  driver().last_pushed = by;
  driver().happened[FAKE_CUDA_PUSHED]++;
}

/* What the context still has goes with it. */
static void end_context(const std::shared_ptr<Context> &context) {
  drop_queues(*context);
  if (!context->shut && driver().happened[FAKE_CUDA_ABANDONED] == 0) note_first_abandoned(context.get());
  size_t left = driver().streams.remove_of(context.get());
  left += driver().events.remove_of(context.get());
  left += driver().modules.remove_of(context.get());
  driver().functions.remove_of(context.get());
  left += free_memory_of(*context);
  if (!context->shut) driver().happened[FAKE_CUDA_ABANDONED] += left;
  driver().contexts.remove(context->handle);
}

/* The last reference is gone. */
static void end_primary(Device &device) {
  const std::shared_ptr<Context> context = std::move(device.primary);
  device.primary = nullptr;
  end_context(context);
  for (Device &other : driver().devices)
    if (other.primary) other.primary->peers.erase(context->device);
}

static std::shared_ptr<Context> begin_context(CUdevice number) {
  auto context = std::make_shared<Context>();
  context->device = number;
  context->default_stream = new_stream(*context, true);
  context->handle = driver().contexts.add(context);
  return context;
}

} // namespace fake

using namespace fake;

CUresult cuDriverGetVersion(int *version) {
  Call call(Fn::cuDriverGetVersion);
  if (call.status != CUDA_SUCCESS) return call.status;
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult code, const char **text) {
  Call call(Fn::cuGetErrorName);
  if (call.status != CUDA_SUCCESS) return call.status;
  *text = error_name(code);
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char **text) {
  Call call(Fn::cuGetErrorString);
  if (call.status != CUDA_SUCCESS) return call.status;
  *text = error_name(code); /* the name says it well enough */
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- devices ---- */

CUresult cuDeviceGetCount(int *count) {
  Call call(Fn::cuDeviceGetCount);
  if (call.status != CUDA_SUCCESS) return call.status;
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(driver().devices.size());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  Call call(Fn::cuDeviceGet, {ordinal});
  if (call.status != CUDA_SUCCESS) return call.status;
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  Call call(Fn::cuDeviceGetName, {device});
  if (call.status != CUDA_SUCCESS) return call.status;
  if (!name || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  snprintf(name, static_cast<size_t>(length), "Fake CUDA device on the CPU");
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
  Call call(Fn::cuDeviceGetUuid, {device});
  if (call.status != CUDA_SUCCESS) return call.status;
  if (!uuid) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  memset(uuid->bytes, 0xfa, sizeof uuid->bytes);
  uuid->bytes[0] = static_cast<char>(device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  Call call(Fn::cuDeviceGetAttribute, {device});
  if (call.status != CUDA_SUCCESS) return call.status;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const int known = device_attribute(attribute, device);
  if (!value || known < 0) return CUDA_ERROR_INVALID_VALUE;
  *value = known;
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) {
  Call call(Fn::cuDeviceTotalMem, {device});
  if (call.status != CUDA_SUCCESS) return call.status;
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = driver().devices[static_cast<size_t>(device)].memory_bytes;
  return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
  Call call(Fn::cuDeviceCanAccessPeer, {device});
  if (call.status != CUDA_SUCCESS) return call.status;
  if (!can) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device) || !is_device(peer)) return CUDA_ERROR_INVALID_DEVICE;
  *can = device != peer && settings().peers;
  return CUDA_SUCCESS;
}

/* ---- contexts ---- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device) {
  Call call(Fn::cuDevicePrimaryCtxRetain, {device});
  if (call.status != CUDA_SUCCESS) return call.status;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  Device &d = driver().devices[static_cast<size_t>(device)];
  if (d.references.empty()) d.primary = begin_context(device);
  d.references.push_back(call.origin());
  *out = d.primary->handle;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  Call call(Fn::cuDevicePrimaryCtxRelease, {device});
  if (call.refused()) return call.status;
  if (!is_device(device)) return call.after_release(CUDA_ERROR_INVALID_DEVICE);
  Device &d = driver().devices[static_cast<size_t>(device)];
  if (d.references.empty()) return call.after_release(CUDA_ERROR_INVALID_CONTEXT);
  drop_reference(d, call.origin());
  if (d.references.empty()) end_primary(d);
  return call.after_release(CUDA_SUCCESS);
}

/* By the names that every driver has; cuda.h calls younger ones so, with other arguments. */
extern "C" __attribute__((visibility("default"))) CUresult cuCtxCreate_v2(CUcontext *out, unsigned flags,
                                                                          CUdevice device) {
  Call call(Fn::cuCtxCreate_v2, {device});
  (void)flags;
  if (call.status != CUDA_SUCCESS) return call.status;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *out = begin_context(device)->handle;
  push(*out, call.origin());
  return CUDA_SUCCESS;
}

extern "C" __attribute__((visibility("default"))) CUresult cuCtxDestroy_v2(CUcontext handle) {
  Call call(Fn::cuCtxDestroy_v2, {-1, handle});
  if (call.refused()) return call.status;
  const std::shared_ptr<Context> context = driver().contexts.find(handle);
  if (!context) return call.after_release(CUDA_ERROR_INVALID_CONTEXT);
  if (!context_stack().empty() && context_stack().back() == handle) {
    context_stack().pop_back();
    driver().happened[FAKE_CUDA_PUSHED]--;
  }
  end_context(context);
  return call.after_release(CUDA_SUCCESS);
}

CUresult cuCtxPushCurrent(CUcontext handle) {
  Call call(Fn::cuCtxPushCurrent, {-1, handle});
  if (call.status == CUDA_ERROR_NOT_INITIALIZED) return call.status; /* in a child of fork, without the lock */
  const std::shared_ptr<Context> context = driver().contexts.find(handle);
  if (context) context->shut = call.status != CUDA_SUCCESS;
  if (call.status != CUDA_SUCCESS) return call.status;
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  push(handle, call.origin());
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *out) {
  Call call(Fn::cuCtxPopCurrent);
  if (call.refused()) return call.status;
  if (context_stack().empty()) return call.after_release(CUDA_ERROR_INVALID_CONTEXT);
  if (out) *out = context_stack().back();
  check_owner("a pushed context", context_stack().pusher(), call.origin());
  context_stack().pop_back();
  driver().happened[FAKE_CUDA_PUSHED]--;
  return call.after_release(CUDA_SUCCESS);
}

/* Replaces the top of the stack; null takes it away. */
CUresult cuCtxSetCurrent(CUcontext handle) {
  Call call(Fn::cuCtxSetCurrent);
  if (call.status != CUDA_SUCCESS) return call.status;
  if (handle && !driver().contexts.find(handle)) return CUDA_ERROR_INVALID_CONTEXT;
  if (!context_stack().empty()) {
    check_owner("a pushed context", context_stack().pusher(), call.origin());
    context_stack().pop_back();
    driver().happened[FAKE_CUDA_PUSHED]--;
  }
  if (handle) {
    push(handle, call.origin());
  }
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *out) {
  Call call(Fn::cuCtxGetCurrent);
  if (call.status != CUDA_SUCCESS) return call.status;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = context_stack().empty() ? nullptr : context_stack().back();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
  Call call(Fn::cuCtxGetDevice);
  if (call.status != CUDA_SUCCESS) return call.status;
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = call.context->device;
  return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer_handle, unsigned flags) {
  Call call(Fn::cuCtxEnablePeerAccess);
  if (call.status != CUDA_SUCCESS) return call.status;
  const std::shared_ptr<Context> peer = driver().contexts.find(peer_handle);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!peer || peer->device == call.context->device) return CUDA_ERROR_INVALID_CONTEXT;
  if (!settings().peers) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  return call.context->peers.emplace(peer->device, call.origin()).second ? CUDA_SUCCESS
                                                                         : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

/* Of a peer whose context died meanwhile, too. */
CUresult cuCtxDisablePeerAccess(CUcontext peer_handle) {
  Call call(Fn::cuCtxDisablePeerAccess);
  if (call.refused()) return call.status;
  const std::shared_ptr<Context> peer = driver().contexts.find(peer_handle);
  if (!peer) return call.after_release(CUDA_ERROR_INVALID_CONTEXT);
  const auto enabled = call.context->peers.find(peer->device);
  if (enabled == call.context->peers.end()) return call.after_release(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  check_owner("peer access", enabled->second, call.origin());
  call.context->peers.erase(enabled);
  return call.after_release(CUDA_SUCCESS);
}
