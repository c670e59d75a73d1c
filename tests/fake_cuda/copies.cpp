/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies and fills. Both ends are checked at the call: device memory must lie in one live allocation of this device,
 * host memory either in one pinned allocation or in none. What is written when a copy breaks midway is NaN after half.
 */
#include <cstring>
#include <memory>
#include <vector>

#include "memory.h"
#include "poison.h"
#include "streams.h"
#include "watch.h"

namespace fake {
namespace {

constexpr size_t PITCH_BYTES_MAX = 2147483647; /* CU_DEVICE_ATTRIBUTE_MAX_PITCH */

/* Rows of `width` bytes, one every `pitch` bytes. */
struct Rows {
  uintptr_t start;
  size_t pitch, width, height;
  size_t span() const { return height ? (height - 1) * pitch + width : 0; }
};

enum class End { DEVICE, PINNED, PAGEABLE, BAD };

End host_end(const Rows &rows) {
  if (const Allocation *allocation = find_memory(rows.start, rows.span()))
    return is_on_device(allocation->kind) ? End::BAD : End::PINNED;
  const uintptr_t last = rows.start + rows.span() - 1;
  const bool straddles = find_memory(rows.start, 1) || find_memory(last, 1);
  return rows.start == 0 || straddles ? End::BAD : End::PAGEABLE;
}

End device_end(const Rows &rows, CUdevice device) {
  const Allocation *allocation = find_memory(rows.start, rows.span());
  const bool good = allocation && is_on_device(allocation->kind);
  const bool near = good && (allocation->kind == MemoryKind::MANAGED || allocation->context->device == device);
  return near ? End::DEVICE : End::BAD;
}

void copy_rows(const Rows &to, const Rows &from, bool half) {
  for (size_t row = 0; row < to.height; ++row) {
    char *const dst = reinterpret_cast<char *>(to.start + row * to.pitch);
    const size_t whole = half ? (to.height > 1 ? (row < to.height / 2 ? to.width : 0) : to.width / 2) : to.width;
    memcpy(dst, reinterpret_cast<const char *>(from.start + row * from.pitch), whole);
    fill_with_poison(dst + whole, to.width - whole);
  }
}

/* Counts what a copy between these ends moved; `direct`: two devices, of which one may reach the other. */
void count_copy(End to_end, End from_end, bool direct, bool between_devices, size_t bytes) {
  uint64_t *happened = driver().happened;
  const bool by_host = between_devices && !direct;
  happened[FAKE_CUDA_BYTES_UP] += (to_end == End::DEVICE && from_end != End::DEVICE) || by_host ? bytes : 0;
  happened[FAKE_CUDA_BYTES_DOWN] += (to_end != End::DEVICE && from_end == End::DEVICE) || by_host ? bytes : 0;
  happened[FAKE_CUDA_BYTES_PEER] += between_devices && direct ? bytes : 0;
}

/* The contexts of a copy between devices; none for other copies. */
struct Between {
  const Context *to = nullptr, *from = nullptr;
  bool devices() const { return to && to->device != from->device; }
  bool direct() const { return devices() && (to->peers.count(from->device) || from->peers.count(to->device)); }
};

Touch touch(const Rows &rows, bool writes) { return {rows.start, rows.pitch, rows.width, rows.height, writes}; }

/* What an asynchronous copy from pageable memory reads at the call, as the driver does, to send it on later. */
struct Staged {
  std::vector<char> bytes;
  explicit Staged(const Rows &from) : bytes(from.width * from.height) { copy_rows(rows(from), from, false); }
  Rows rows(const Rows &from) {
    return {reinterpret_cast<uintptr_t>(bytes.data()), from.width, from.width, from.height};
  }
};

CUresult start_staged(const Call &call, const std::shared_ptr<Stream> &stream, const Rows &to, const Rows &from) {
  const auto staged = std::make_shared<Staged>(from);
  Operation copy;
  copy.uses = {{to.start, to.span()}};
  copy.name = "a copy up";
  copy.touches = {touch(to, true)};
  copy.run = [=](bool half) {
    copy_rows(to, staged->rows(from), half);
    count_copy(End::DEVICE, End::PAGEABLE, false, false, to.width * to.height);
    return CUDA_SUCCESS;
  };
  enqueue(call, stream, std::move(copy));
  driver().happened[FAKE_CUDA_PAGEABLE_COPIES]++;
  return CUDA_SUCCESS;
}

/* Enqueues a copy whose ends are known. To pageable memory it has run when the call returns, as in CUDA. */
CUresult start_copy(const Call &call, const std::shared_ptr<Stream> &stream, const Rows &to, End to_end,
                    const Rows &from, End from_end, bool asynchronous, Between between = {}) {
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (to_end == End::BAD || from_end == End::BAD) return CUDA_ERROR_INVALID_VALUE;
  if (asynchronous && to_end == End::DEVICE && from_end == End::PAGEABLE) return start_staged(call, stream, to, from);
  Operation copy;
  copy.uses = {{to.start, to.span()}, {from.start, from.span()}};
  copy.run = [=, direct = between.direct(), devices = between.devices()](bool half) {
    copy_rows(to, from, half);
    count_copy(to_end, from_end, direct, devices, to.width * to.height);
    return CUDA_SUCCESS;
  };
  const bool pageable = to_end == End::PAGEABLE || from_end == End::PAGEABLE;
  copy.name = to_end != End::DEVICE ? "a copy down" : from_end != End::DEVICE ? "a copy up" : "a copy";
  copy.touches = {touch(from, false), touch(to, true)};
  if (asynchronous && !pageable && (to_end == End::PINNED || from_end == End::PINNED))
    watch_host(copy, to_end == End::PINNED ? touch(to, true) : touch(from, false));
  enqueue(call, stream, std::move(copy));
  driver().happened[FAKE_CUDA_PAGEABLE_COPIES] += pageable && asynchronous;
  if (asynchronous && !pageable) return CUDA_SUCCESS;
  run_through({stream, stream->enqueued});
  watch_wait(stream->clock);
  return call.context->error;
}

Rows line(uintptr_t start, size_t bytes) { return {start, bytes, bytes, 1}; }

CUresult copy_up(const Call &call, CUdeviceptr dst, const void *src, size_t bytes, CUstream stream, bool async) {
  if (bytes == 0) return CUDA_SUCCESS;
  const Rows to = line(dst, bytes), from = line(reinterpret_cast<uintptr_t>(src), bytes);
  return start_copy(call, find_stream(*call.context, stream), to, device_end(to, call.context->device), from,
                    host_end(from), async);
}

CUresult copy_down(const Call &call, void *dst, CUdeviceptr src, size_t bytes, CUstream stream, bool async) {
  if (bytes == 0) return CUDA_SUCCESS;
  const Rows to = line(reinterpret_cast<uintptr_t>(dst), bytes), from = line(src, bytes);
  return start_copy(call, find_stream(*call.context, stream), to, host_end(to), from,
                    device_end(from, call.context->device), async);
}

/* One end of a two-dimensional copy; a pitch of 0 is allowed for a single row. */
bool read_end(CUmemorytype type, const void *host, CUdeviceptr device, size_t x, size_t y, size_t pitch,
              const CUDA_MEMCPY2D &copy, CUdevice number, Rows *rows, End *end) {
  if (copy.Height > 1 && pitch < x + copy.WidthInBytes) return false;
  if (pitch > PITCH_BYTES_MAX) return false;
  const uintptr_t start = type == CU_MEMORYTYPE_HOST ? reinterpret_cast<uintptr_t>(host) : device;
  *rows = {start + y * pitch + x, pitch, copy.WidthInBytes, copy.Height};
  if (type == CU_MEMORYTYPE_HOST)
    *end = host_end(*rows);
  else if (type == CU_MEMORYTYPE_DEVICE)
    *end = device_end(*rows, number);
  else
    *end = End::BAD;
  return true;
}

} // namespace
} // namespace fake

using namespace fake;

CUresult cuMemcpyHtoD(CUdeviceptr dst, const void *src, size_t bytes) {
  Call call(Fn::cuMemcpyHtoD);
  return call.status != CUDA_SUCCESS ? call.status : copy_up(call, dst, src, bytes, nullptr, false);
}

CUresult cuMemcpyDtoH(void *dst, CUdeviceptr src, size_t bytes) {
  Call call(Fn::cuMemcpyDtoH);
  return call.status != CUDA_SUCCESS ? call.status : copy_down(call, dst, src, bytes, nullptr, false);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream) {
  Call call(Fn::cuMemcpyHtoDAsync);
  return call.status != CUDA_SUCCESS ? call.status : copy_up(call, dst, src, bytes, stream, true);
}

CUresult cuMemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  Call call(Fn::cuMemcpyDtoHAsync);
  return call.status != CUDA_SUCCESS ? call.status : copy_down(call, dst, src, bytes, stream, true);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  Call call(Fn::cuMemcpyDtoDAsync);
  if (call.status != CUDA_SUCCESS || bytes == 0) return call.status;
  const CUdevice device = call.context->device;
  const Rows to = line(dst, bytes), from = line(src, bytes);
  return start_copy(call, find_stream(*call.context, stream), to, device_end(to, device), from,
                    device_end(from, device), true);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context, size_t bytes,
                           CUstream stream) {
  Call call(Fn::cuMemcpyPeerAsync);
  if (call.status != CUDA_SUCCESS || bytes == 0) return call.status;
  const std::shared_ptr<Context> to_context = driver().contexts.find(dst_context);
  const std::shared_ptr<Context> from_context = driver().contexts.find(src_context);
  if (!to_context || !from_context) return CUDA_ERROR_INVALID_CONTEXT;
  const Rows to = line(dst, bytes), from = line(src, bytes);
  return start_copy(call, find_stream(*call.context, stream), to, device_end(to, to_context->device), from,
                    device_end(from, from_context->device), true, {to_context.get(), from_context.get()});
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *copy, CUstream stream) {
  Call call(Fn::cuMemcpy2DAsync);
  if (call.status != CUDA_SUCCESS) return call.status;
  if (!copy) return CUDA_ERROR_INVALID_VALUE;
  if (copy->WidthInBytes == 0 || copy->Height == 0) return CUDA_SUCCESS;
  Rows to, from;
  End to_end, from_end;
  const CUdevice device = call.context->device;
  if (!read_end(copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstXInBytes, copy->dstY, copy->dstPitch,
                *copy, device, &to, &to_end) ||
      !read_end(copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcXInBytes, copy->srcY, copy->srcPitch,
                *copy, device, &from, &from_end))
    return CUDA_ERROR_INVALID_VALUE;
  return start_copy(call, find_stream(*call.context, stream), to, to_end, from, from_end, true);
}

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t bytes, CUstream stream_handle) {
  Call call(Fn::cuMemsetD8Async);
  if (call.status != CUDA_SUCCESS || bytes == 0) return call.status;
  const std::shared_ptr<Stream> stream = find_stream(*call.context, stream_handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (device_end(line(dst, bytes), call.context->device) == End::BAD) return CUDA_ERROR_INVALID_VALUE;
  Operation set;
  set.uses = {{dst, bytes}};
  set.name = "a fill";
  set.touches = {touch(line(dst, bytes), true)};
  set.run = [dst, value, bytes](bool half) {
    memset(reinterpret_cast<void *>(dst), value, half ? bytes / 2 : bytes);
    return CUDA_SUCCESS;
  };
  enqueue(call, stream, std::move(set));
  return CUDA_SUCCESS;
}
