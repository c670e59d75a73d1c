/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory and pinned host memory. Each allocation is one of the host's, of exactly the size asked for, so that
 * AddressSanitizer sees a kernel or a copy leave it; without the sanitizer a few known bytes behind it tell the same,
 * later. It never lies in the heap that brk moves, as CUDA's does not: it has pages of its own (the sanitizer's
 * allocator uses no such heap either). What was allocated holds NaN.
 */
#include "memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>

#include "poison.h"
#include "streams.h"
#include "watch.h"

namespace fake {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr size_t GUARD_BYTES = 0;
#else
constexpr size_t GUARD_BYTES = 256;
#endif
constexpr unsigned char GUARD = 0xa7;
constexpr size_t DEVICE_ALIGNMENT = 256, HOST_ALIGNMENT = 4096; /* what CUDA gives, and no more */
constexpr size_t PAGE_BYTES = 4096;

#if defined(__SANITIZE_ADDRESS__)
void *allocate_pages(size_t bytes, size_t alignment) {
  void *p;
  return posix_memalign(&p, alignment, bytes) == 0 ? p : nullptr;
}

void free_pages(uintptr_t start, size_t) { free(reinterpret_cast<void *>(start)); }
#else
/* At the start of a page, or by less than a page behind it, so that nothing is better aligned than it must be. */
void *allocate_pages(size_t bytes, size_t alignment) {
  const size_t behind = alignment % PAGE_BYTES;
  void *p = mmap(nullptr, behind + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p != MAP_FAILED ? static_cast<char *>(p) + behind : nullptr;
}

void free_pages(uintptr_t start, size_t bytes) {
  const size_t behind = start % PAGE_BYTES;
  munmap(reinterpret_cast<void *>(start - behind), behind + bytes);
}
#endif

/* What is filled at once is better made of large pages: half of a short process's time would go into the small ones'.
 */
void ask_for_large_pages(void *p, size_t bytes) {
  constexpr size_t LARGE_PAGE_BYTES = 2 << 20;
  const uintptr_t start = reinterpret_cast<uintptr_t>(p), whole = (start + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
  if (bytes >= LARGE_PAGE_BYTES) madvise(reinterpret_cast<void *>(whole), start + bytes - whole, MADV_HUGEPAGE);
}

void *allocate(size_t bytes, size_t alignment) {
  void *p = bytes < SIZE_MAX / 2 ? allocate_pages(bytes + GUARD_BYTES, alignment) : nullptr;
  if (!p) return nullptr;
  ask_for_large_pages(p, bytes);
  fill_with_poison(p, bytes);
  memset(static_cast<char *>(p) + bytes, GUARD, GUARD_BYTES);
  return p;
}

void remember(const Call &call, const void *p, size_t bytes, MemoryKind kind) {
  const uintptr_t start = reinterpret_cast<uintptr_t>(p);
  driver().memory[start] = {start, bytes, kind, call.context, call.origin()};
}

/* Takes the allocation away; the memory goes back unless it was the caller's own. */
void forget(const Allocation &allocation) {
  was_overrun(allocation);
  if (is_on_device(allocation.kind)) {
    driver().devices[static_cast<size_t>(allocation.context->device)].used_bytes -= allocation.bytes;
    driver().happened[FAKE_CUDA_ALLOCATED_BYTES] -= allocation.bytes;
  }
  const uintptr_t start = allocation.start;
  watch_release(start, allocation.bytes);
  if (allocation.kind != MemoryKind::REGISTERED) free_pages(start, allocation.bytes + GUARD_BYTES);
  driver().memory.erase(start);
}

/* Frees what starts there and is of that kind. */
CUresult release(const Call &call, uintptr_t start, MemoryKind kind, CUresult when_unknown) {
  const auto at = driver().memory.find(start);
  if (at == driver().memory.end() || at->second.kind != kind) {
    released_nothing("memory", call.origin());
    return when_unknown;
  }
  const Allocation allocation = at->second;
  check_owner("memory", allocation.made, call.origin());
  const bool awaited = is_awaited(allocation.start, allocation.bytes);
  if (awaited) {
    misuse("%zu bytes are freed while work that uses them is queued", allocation.bytes);
    allocation.context->error = CUDA_ERROR_ILLEGAL_ADDRESS;
    drop_queues(*allocation.context);
  }
  forget(allocation);
  return awaited ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

bool overlaps_known_memory(uintptr_t start, size_t bytes) {
  const auto after = driver().memory.lower_bound(start + bytes);
  if (after == driver().memory.begin()) return false;
  const Allocation &last = std::prev(after)->second;
  return last.start + last.bytes > start;
}

} // namespace

Allocation *find_memory(uintptr_t address, size_t bytes) {
  auto at = driver().memory.upper_bound(address);
  if (at == driver().memory.begin()) return nullptr;
  Allocation &allocation = std::prev(at)->second;
  return allocation.contains(address, bytes) ? &allocation : nullptr;
}

bool was_overrun(const Allocation &allocation) {
  if (allocation.kind == MemoryKind::REGISTERED) return false;
  const unsigned char *guard = reinterpret_cast<const unsigned char *>(allocation.start + allocation.bytes);
  if (std::all_of(guard, guard + GUARD_BYTES, [](unsigned char c) { return c == GUARD; })) return false;
  misuse("something wrote past the end of %zu bytes of %s memory", allocation.bytes,
         is_on_device(allocation.kind) ? "device" : "pinned");
  return true;
}

size_t free_memory_of(Context &context) {
  std::vector<Allocation> doomed;
  for (const auto &[start, allocation] : driver().memory)
    if (allocation.context == &context) doomed.push_back(allocation);
  for (const Allocation &allocation : doomed) forget(allocation);
  return doomed.size();
}

} // namespace fake

using namespace fake;

CUresult cuMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
  Call call(Fn::cuMemGetInfo);
  if (call.status != CUDA_SUCCESS) return call.status;
  const Device &device = driver().devices[static_cast<size_t>(call.context->device)];
  if (free_bytes) *free_bytes = device.memory_bytes - device.used_bytes;
  if (total_bytes) *total_bytes = device.memory_bytes;
  return CUDA_SUCCESS;
}

static CUresult allocate_on_device(const Call &call, CUdeviceptr *out, size_t bytes, MemoryKind kind) {
  if (!out || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Device &device = driver().devices[static_cast<size_t>(call.context->device)];
  if (bytes > device.memory_bytes - device.used_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  void *p = allocate(bytes, DEVICE_ALIGNMENT);
  if (!p) return CUDA_ERROR_OUT_OF_MEMORY;
  remember(call, p, bytes, kind);
  device.used_bytes += bytes;
  uint64_t *happened = driver().happened;
  happened[FAKE_CUDA_ALLOCATED_BYTES] += bytes;
  happened[FAKE_CUDA_PEAK_BYTES] = std::max(happened[FAKE_CUDA_PEAK_BYTES], happened[FAKE_CUDA_ALLOCATED_BYTES]);
  *out = reinterpret_cast<CUdeviceptr>(p);
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *out, size_t bytes) {
  Call call(Fn::cuMemAlloc);
  return call.status != CUDA_SUCCESS ? call.status : allocate_on_device(call, out, bytes, MemoryKind::DEVICE);
}

CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned flags) {
  Call call(Fn::cuMemAllocManaged);
  if (call.status != CUDA_SUCCESS) return call.status;
  if (flags != CU_MEM_ATTACH_GLOBAL) return CUDA_ERROR_INVALID_VALUE;
  return allocate_on_device(call, out, bytes, MemoryKind::MANAGED);
}

CUresult cuMemFree(CUdeviceptr p) {
  Call call(Fn::cuMemFree);
  if (call.refused()) return call.status;
  if (p == 0) return call.after_release(CUDA_SUCCESS);
  if (hangs()) misuse("memory is freed, which waits for ever for a device that hangs");
  const Allocation *allocation = find_memory(p, 1);
  const MemoryKind kind = allocation ? allocation->kind : MemoryKind::DEVICE;
  if (!is_on_device(kind)) return call.after_release(CUDA_ERROR_INVALID_VALUE);
  return call.after_release(release(call, p, kind, CUDA_ERROR_INVALID_VALUE));
}

CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
  Call call(Fn::cuMemHostAlloc);
  if (call.status != CUDA_SUCCESS) return call.status;
  const unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (!out || bytes == 0 || (flags & ~known)) return CUDA_ERROR_INVALID_VALUE;
  *out = allocate(bytes, HOST_ALIGNMENT);
  if (!*out) return CUDA_ERROR_OUT_OF_MEMORY;
  remember(call, *out, bytes, MemoryKind::PINNED);
  return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *p) {
  Call call(Fn::cuMemFreeHost);
  if (call.refused()) return call.status;
  return call.after_release(
      release(call, reinterpret_cast<uintptr_t>(p), MemoryKind::PINNED, CUDA_ERROR_INVALID_VALUE));
}

CUresult cuMemHostRegister(void *p, size_t bytes, unsigned flags) {
  Call call(Fn::cuMemHostRegister);
  if (call.status != CUDA_SUCCESS) return call.status;
  const unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;
  if (!p || bytes == 0 || (flags & ~known)) return CUDA_ERROR_INVALID_VALUE;
  if (overlaps_known_memory(reinterpret_cast<uintptr_t>(p), bytes)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  remember(call, p, bytes, MemoryKind::REGISTERED);
  return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *p) {
  Call call(Fn::cuMemHostUnregister);
  if (call.refused()) return call.status;
  return call.after_release(
      release(call, reinterpret_cast<uintptr_t>(p), MemoryKind::REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED));
}

/* ---- what is this pointer ---- */

static CUresult pointer_attribute(void *data, CUpointer_attribute attribute, const Allocation &a, CUdeviceptr p) {
  const bool managed = a.kind == MemoryKind::MANAGED, on_device = is_on_device(a.kind);
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext *>(data) = settings().pooled ? nullptr : a.context->handle;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned *>(data) = on_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr *>(data) = p;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      *static_cast<CUdeviceptr *>(data) = a.kind == MemoryKind::DEVICE ? 0 : p;
      return a.kind == MemoryKind::DEVICE ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned *>(data) = managed;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int *>(data) = a.context->device;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr *>(data) = a.start;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<size_t *>(data) = a.bytes;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr p) {
  Call call(Fn::cuPointerGetAttribute);
  if (call.status != CUDA_SUCCESS) return call.status;
  const Allocation *allocation = find_memory(p, 1);
  return data && allocation ? pointer_attribute(data, attribute, *allocation, p) : CUDA_ERROR_INVALID_VALUE;
}

/* Unlike the single question, one about a pointer that CUDA does not know is answered: with zeros. */
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr p) {
  Call call(Fn::cuPointerGetAttributes);
  if (call.status != CUDA_SUCCESS) return call.status;
  if (!attributes || !data) return CUDA_ERROR_INVALID_VALUE;
  const Allocation *allocation = find_memory(p, 1);
  for (unsigned i = 0; i < count; ++i) {
    const bool narrow = attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
                        attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED ||
                        attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    if (!allocation)
      memset(data[i], 0, narrow ? 4 : 8);
    else if (pointer_attribute(data[i], attributes[i], *allocation, p) == CUDA_ERROR_NOT_SUPPORTED)
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}
