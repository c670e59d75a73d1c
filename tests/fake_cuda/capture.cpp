/* SPDX-License-Identifier: BSD-3-Clause */
/* Captures and callbacks, see capture.h. */
#include "capture.h"

#include <thread>

#include "streams.h"

namespace fake {
namespace {

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
thread_local bool in_callback;

/* Every stream that captures; a function, so that nobody asks before it is there. */
std::vector<std::shared_ptr<Stream>> &capturing() {
  static auto *const list = new std::vector<std::shared_ptr<Stream>>;
  return *list;
}

/* Those that wait for work, or ask for it, or have memory allocated or freed, which may wait. */
bool is_unsafe(Fn function) {
  switch (function) {
    case Fn::cuMemAlloc:
    case Fn::cuMemAllocManaged:
    case Fn::cuMemFree:
    case Fn::cuMemHostAlloc:
    case Fn::cuMemFreeHost:
    case Fn::cuMemHostRegister:
    case Fn::cuMemHostUnregister:
    case Fn::cuEventQuery:
    case Fn::cuEventSynchronize:
    case Fn::cuStreamQuery:
    case Fn::cuStreamSynchronize:
      return true;
    default:
      return false;
  }
}

/* Whether this capture forbids unsafe calls of the running thread. */
bool forbids(const Stream &stream) {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED || stream.capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
    return false;
  const bool same_thread = stream.captured_by == std::this_thread::get_id();
  return same_thread ||
         (thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && stream.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

template <class Is> bool invalidate(Is is_meant) {
  bool any = false;
  for (const auto &stream : capturing())
    if (is_meant(*stream)) {
      stream->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
      any = true;
    }
  return any;
}

} // namespace

CUresult disturb_captures(Fn function, const Context *context) {
  bool any = false;
  if (function == Fn::cuCtxSynchronize) any = invalidate([context](const Stream &s) { return s.context == context; });
  if (is_unsafe(function)) any = invalidate(forbids);
  return any ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult disturb_blocking_captures(const Context &context) {
  const bool any = invalidate([&context](const Stream &s) { return s.blocking && s.context == &context; });
  return any ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

bool take_for_graph(Stream &stream) {
  if (stream.capture == CU_STREAM_CAPTURE_STATUS_NONE) return false;
  stream.captured++;
  return true;
}

bool is_in_callback() { return in_callback; }

} // namespace fake

using namespace fake;

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  Call call(Fn::cuThreadExchangeStreamCaptureMode);
  if (call.status != CUDA_SUCCESS) return call.status;
  if (!mode) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, thread_mode);
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  Call call(Fn::cuStreamBeginCapture);
  if (call.status != CUDA_SUCCESS) return call.status;
  const std::shared_ptr<Stream> stream = find_stream(*call.context, handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream == call.context->default_stream) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture != CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_ERROR_ILLEGAL_STATE;
  stream->capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  stream->capture_mode = mode;
  stream->captured_by = std::this_thread::get_id();
  stream->captured = 0;
  capturing().push_back(stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph) {
  Call call(Fn::cuStreamEndCapture);
  if (call.status != CUDA_SUCCESS) return call.status;
  const std::shared_ptr<Stream> stream = find_stream(*call.context, handle);
  if (!stream || stream->capture == CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_ERROR_ILLEGAL_STATE;
  const bool whole = stream->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  stream->capture = CU_STREAM_CAPTURE_STATUS_NONE;
  for (auto at = capturing().begin(); at != capturing().end(); ++at)
    if (*at == stream) {
      capturing().erase(at);
      break;
    }
  if (graph)
    *graph = whole ? driver().graphs.add(std::make_shared<Graph>(Graph{call.context, call.origin(), stream->captured}))
                   : nullptr;
  return whole ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode *nodes, size_t *count) {
  Call call(Fn::cuGraphGetNodes);
  if (call.status != CUDA_SUCCESS) return call.status;
  const std::shared_ptr<Graph> graph = driver().graphs.find(handle);
  if (!graph) return CUDA_ERROR_INVALID_HANDLE;
  if (!count || nodes) return CUDA_ERROR_INVALID_VALUE; /* their number is all that this fake knows */
  *count = graph->nodes;
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph handle) {
  Call call(Fn::cuGraphDestroy);
  if (call.refused()) return call.status;
  if (!driver().graphs.find(handle)) return call.after_release(CUDA_ERROR_INVALID_HANDLE);
  driver().graphs.remove(handle);
  return call.after_release(CUDA_SUCCESS);
}

/* Runs in a thread of the driver's own, as a real driver's do, and is waited for. */
CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void *argument) {
  Call call(Fn::cuLaunchHostFunc);
  if (call.status != CUDA_SUCCESS) return call.status;
  const std::shared_ptr<Stream> stream = find_stream(*call.context, handle);
  if (!stream || !function) return stream ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
  Operation callback;
  callback.run = [=](bool) {
    Unseen::end(); /* what the program's function does is the program's */
    std::thread([=] {
      in_callback = true;
      function(argument);
    }).join();
    Unseen::begin();
    return CUDA_SUCCESS;
  };
  enqueue(call, stream, std::move(callback));
  return CUDA_SUCCESS;
}
