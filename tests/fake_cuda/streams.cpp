/* SPDX-License-Identifier: BSD-3-Clause */
/* The queues of work, and the driver's streams and events. See streams.h. */
#include "streams.h"

#include "capture.h"
#include "watch.h"

#include <algorithm>
#include <ctime>

namespace fake {
namespace {

std::vector<std::shared_ptr<Stream>> streams_of(Context &context) {
  std::vector<std::shared_ptr<Stream>> alive;
  std::vector<std::weak_ptr<Stream>> kept;
  for (const auto &weak : context.streams)
    if (auto stream = weak.lock()) {
      alive.push_back(std::move(stream));
      kept.push_back(weak);
    }
  context.streams = std::move(kept);
  auto &destroyed = context.destroyed_streams;
  destroyed.erase(std::remove_if(destroyed.begin(), destroyed.end(), [](const auto &s) { return s->queue.empty(); }),
                  destroyed.end());
  return alive;
}

StreamPosition end_of(const std::shared_ptr<Stream> &stream) { return {stream, stream->enqueued}; }

bool finished(const StreamPosition &p) { return !p.stream || p.stream->done >= p.position; }

void come_behind(const std::shared_ptr<Stream> &other, Operation &operation) {
  operation.after.push_back(end_of(other));
  for (const auto &[stream, position] : other->clock)
    operation.behind[stream] = std::max(operation.behind[stream], position);
}

/* The default stream waits for all blocking streams and they wait for it. */
void order_with_default_stream(const std::shared_ptr<Stream> &stream, Operation &operation) {
  Context &context = *stream->context;
  if (stream == context.default_stream) {
    for (const auto &other : streams_of(context))
      if (other->blocking && other != stream) come_behind(other, operation);
  } else if (stream->blocking) {
    come_behind(context.default_stream, operation);
  }
}

void break_context(Context &context, CUresult code, Loss loss) {
  context.error = code;
  drop_queues(context);
  if (loss == Loss::ALL) lose_devices(code);
  if (loss == Loss::DEVICE) lose_device(context.device, code);
}

/* Runs the oldest operation of the stream. */
void run_front(Stream &stream) {
  Operation operation = std::move(stream.queue.front());
  stream.queue.pop_front();
  stream.done++;
  if (driver().order == FAKE_CUDA_HANGING) driver().random_state--;
  const CUresult result = operation.run(operation.fail_with != CUDA_SUCCESS);
  if (operation.fail_with != CUDA_SUCCESS) {
    driver().happened[FAKE_CUDA_FAILURES]++;
    break_context(*stream.context, operation.fail_with, operation.fail_loss);
  } else if (result != CUDA_SUCCESS) {
    break_context(*stream.context, result, Loss::NONE);
  }
}

bool by_chance() {
  uint64_t &state = driver().random_state;
  state = state * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator */
  return state >> 63;
}

void run_some(Context &context) {
  for (const auto &stream : streams_of(context))
    while (!stream->queue.empty() && by_chance()) run_through({stream, stream->done + 1});
}

bool is_eager_alone(const Stream &stream) {
  return driver().order == FAKE_CUDA_UNEVEN && (driver().random_state >> stream.number % 64 & 1) != 0;
}

double milliseconds_now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

/* A question is answered with progress, or a loop of questions would never end. */
CUresult answer_query(Context &context, const StreamPosition &until, const Clock &clock) {
  if (!finished(until)) run_through({until.stream, until.stream->done + 1});
  if (context.error != CUDA_SUCCESS) return context.error;
  if (!finished(until)) return CUDA_ERROR_NOT_READY;
  watch_wait(clock);
  return CUDA_SUCCESS;
}

} // namespace

std::shared_ptr<Stream> find_stream(Context &context, CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY)
    return disturb_blocking_captures(context) == CUDA_SUCCESS ? context.default_stream : nullptr;
  std::shared_ptr<Stream> stream = driver().streams.find(handle);
  return stream && stream->context == &context ? stream : nullptr;
}

std::shared_ptr<Stream> new_stream(Context &context, bool blocking) {
  auto stream = std::make_shared<Stream>();
  stream->context = &context;
  stream->blocking = blocking;
  stream->number = static_cast<unsigned>(context.streams.size());
  static unsigned streams_ever;
  stream->id = streams_ever++;
  context.streams.push_back(stream);
  return stream;
}

void enqueue(const Call &call, const std::shared_ptr<Stream> &stream, Operation operation) {
  if (take_for_graph(*stream)) return;
  operation.fail_with = call.fail_later;
  operation.fail_loss = call.fail_later_loss;
  order_with_default_stream(stream, operation);
  stream->enqueued++;
  watch_operation(*stream, operation);
  stream->queue.push_back(std::move(operation));
  if (driver().order == FAKE_CUDA_EAGER || is_eager_alone(*stream))
    run_through(end_of(stream));
  else if (driver().order == FAKE_CUDA_RANDOM)
    run_some(*stream->context);
}

bool hangs() { return driver().order == FAKE_CUDA_HANGING && driver().random_state == 0; }

void wait_for(const StreamPosition &until) {
  run_through(until);
  if (!finished(until)) misuse("something waits for ever for a device that hangs");
}

void run_through(const StreamPosition &until) {
  std::vector<StreamPosition> wanted{until};
  while (!wanted.empty() && !hangs()) {
    const StreamPosition now = wanted.back();
    if (finished(now)) {
      wanted.pop_back();
      continue;
    }
    bool ready = true;
    for (const StreamPosition &first : now.stream->queue.front().after)
      if (!finished(first)) {
        wanted.push_back(first);
        ready = false;
        break;
      }
    if (ready) run_front(*now.stream);
  }
}

void run_everything(Context &context) {
  for (const auto &stream : streams_of(context)) {
    wait_for(end_of(stream));
    watch_wait(stream->clock);
  }
}

void drop_queues(Context &context) {
  for (const auto &stream : streams_of(context)) {
    stream->queue.clear();
    stream->done = stream->enqueued;
    watch_wait(stream->clock);
  }
}

bool is_awaited(uintptr_t start, size_t bytes) {
  for (const Device &device : driver().devices)
    if (device.primary)
      for (const auto &stream : streams_of(*device.primary))
        for (const Operation &operation : stream->queue)
          for (const Range &use : operation.uses)
            if (use.start < start + bytes && start < use.start + use.bytes) return true;
  return false;
}

uint64_t count_queued() {
  uint64_t sum = 0;
  for (const Device &device : driver().devices)
    if (device.primary)
      for (const auto &stream : streams_of(*device.primary)) sum += stream->queue.size();
  return sum;
}

} // namespace fake

using namespace fake;

/* ---- streams ---- */

CUresult cuStreamCreate(CUstream *out, unsigned flags) {
  Call call(Fn::cuStreamCreate);
  if (call.status != CUDA_SUCCESS) return call.status;
  if (!out || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Stream> stream = new_stream(*call.context, flags == CU_STREAM_DEFAULT);
  stream->made = call.origin();
  *out = driver().streams.add(stream);
  return CUDA_SUCCESS;
}

/* Its work still runs, when something waits for the context, which need not be the current one. */
CUresult cuStreamDestroy(CUstream handle) {
  Call call(Fn::cuStreamDestroy);
  if (call.refused()) return call.status;
  const std::shared_ptr<Stream> stream = driver().streams.find(handle);
  if (!stream) {
    released_nothing("a stream", call.origin());
    return call.after_release(CUDA_ERROR_INVALID_HANDLE);
  }
  check_owner("a stream", stream->made, call.origin());
  stream->context->destroyed_streams.push_back(stream);
  driver().streams.remove(handle);
  return call.after_release(CUDA_SUCCESS);
}

CUresult cuStreamSynchronize(CUstream handle) {
  Call call(Fn::cuStreamSynchronize);
  if (call.status != CUDA_SUCCESS) return call.status;
  const std::shared_ptr<Stream> stream = find_stream(*call.context, handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  wait_for(end_of(stream));
  watch_wait(stream->clock);
  return call.context->error;
}

CUresult cuStreamQuery(CUstream handle) {
  Call call(Fn::cuStreamQuery);
  if (call.status != CUDA_SUCCESS) return call.status;
  const std::shared_ptr<Stream> stream = find_stream(*call.context, handle);
  return stream ? answer_query(*call.context, end_of(stream), stream->clock) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned flags) {
  Call call(Fn::cuStreamWaitEvent);
  if (call.status != CUDA_SUCCESS) return call.status;
  const std::shared_ptr<Stream> stream = find_stream(*call.context, handle);
  const std::shared_ptr<Event> event = driver().events.find(event_handle);
  if (!stream || !event) return CUDA_ERROR_INVALID_HANDLE;
  if (flags != CU_EVENT_WAIT_DEFAULT) return CUDA_ERROR_INVALID_VALUE;
  if (!event->recorded.stream) return CUDA_SUCCESS; /* nothing recorded, nothing to wait for */
  Operation wait;
  wait.run = [](bool) { return CUDA_SUCCESS; };
  wait.after.push_back(event->recorded);
  wait.behind = event->clock;
  enqueue(call, stream, std::move(wait));
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
  Call call(Fn::cuCtxSynchronize);
  if (call.status != CUDA_SUCCESS) return call.status;
  run_everything(*call.context);
  return call.context->error;
}

/* ---- events ---- */

CUresult cuEventCreate(CUevent *out, unsigned flags) {
  Call call(Fn::cuEventCreate);
  if (call.status != CUDA_SUCCESS) return call.status;
  if (!out || (flags & ~(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING))) return CUDA_ERROR_INVALID_VALUE;
  auto event = std::make_shared<Event>();
  event->context = call.context;
  event->made = call.origin();
  event->timed = !(flags & CU_EVENT_DISABLE_TIMING);
  *out = driver().events.add(std::move(event));
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent handle) {
  Call call(Fn::cuEventDestroy);
  if (call.refused()) return call.status;
  const std::shared_ptr<Event> event = driver().events.find(handle);
  if (!event) {
    released_nothing("an event", call.origin());
    return call.after_release(CUDA_ERROR_INVALID_HANDLE);
  }
  check_owner("an event", event->made, call.origin());
  driver().events.remove(handle);
  return call.after_release(CUDA_SUCCESS);
}

CUresult cuEventRecord(CUevent handle, CUstream stream_handle) {
  Call call(Fn::cuEventRecord);
  if (call.status != CUDA_SUCCESS) return call.status;
  const std::shared_ptr<Stream> stream = find_stream(*call.context, stream_handle);
  const std::shared_ptr<Event> event = driver().events.find(handle);
  if (!stream || !event || event->context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
  event->recorded = {stream, stream->enqueued + 1};
  Operation record;
  record.run = [event](bool) {
    event->milliseconds = milliseconds_now();
    return CUDA_SUCCESS;
  };
  enqueue(call, stream, std::move(record));
  event->clock = stream->clock;
  return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent handle) {
  Call call(Fn::cuEventQuery);
  if (call.status != CUDA_SUCCESS) return call.status;
  const std::shared_ptr<Event> event = driver().events.find(handle);
  return event ? answer_query(*event->context, event->recorded, event->clock) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventSynchronize(CUevent handle) {
  Call call(Fn::cuEventSynchronize);
  if (call.status != CUDA_SUCCESS) return call.status;
  const std::shared_ptr<Event> event = driver().events.find(handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  wait_for(event->recorded);
  watch_wait(event->clock);
  return event->context->error;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start_handle, CUevent end_handle) {
  Call call(Fn::cuEventElapsedTime);
  if (call.status != CUDA_SUCCESS) return call.status;
  const std::shared_ptr<Event> start = driver().events.find(start_handle), end = driver().events.find(end_handle);
  if (!milliseconds) return CUDA_ERROR_INVALID_VALUE;
  if (!start || !end || start->context != end->context || !start->timed || !end->timed || !start->recorded.stream ||
      !end->recorded.stream)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!finished(start->recorded) || !finished(end->recorded)) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(end->milliseconds - start->milliseconds);
  return CUDA_SUCCESS;
}
