/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the fake driver remembers: devices, contexts, streams, events, modules, memory. One object, `driver()`, that
 * lives until the process ends. Everything here is guarded by the one lock that a Call (calls.h) holds.
 */
#ifndef FAKE_CUDA_STATE_H
#define FAKE_CUDA_STATE_H

#pragma GCC visibility push(default) /* the driver's functions are all that the library shows, with fake_cuda.h */
#include <cuda.h>
#include "fake_cuda.h"
#pragma GCC visibility pop

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "audit.h"
#include "fatbin.h"
#include "kernel_table.h"

namespace fake {

constexpr int DEVICES_MAX = 16;

struct Context;
struct Stream;

/* ---- handles ---- */

/* Handles are numbers, never used twice and never addresses: a stale one is noticed, and so is one of another kind. */
template <class Handle, class T> class Handles {
public:
  Handle add(std::shared_ptr<T> object) {
    static uintptr_t last = 0x10000;
    const Handle handle = reinterpret_cast<Handle>(last += 0x10);
    live_[handle] = std::move(object);
    return handle;
  }
  std::shared_ptr<T> find(Handle handle) const {
    const auto at = live_.find(handle);
    return at == live_.end() ? nullptr : at->second;
  }
  void remove(Handle handle) { live_.erase(handle); }
  /* Removes what belongs to the context, and says how many that were. */
  size_t remove_of(const Context *context) {
    size_t removed = 0;
    for (auto at = live_.begin(); at != live_.end();)
      if (at->second->context == context) {
        at = live_.erase(at);
        removed++;
      } else {
        ++at;
      }
    return removed;
  }
  size_t size() const { return live_.size(); }
  template <class Visit> void each(Visit visit) const {
    for (const auto &[handle, object] : live_) visit(*object);
  }

private:
  std::unordered_map<Handle, std::shared_ptr<T>> live_;
};

/* ---- memory ---- */

enum class MemoryKind { DEVICE, MANAGED, PINNED, REGISTERED };

/* Takes from a device's memory; managed memory does so where it was allocated, and never moves. */
inline bool is_on_device(MemoryKind kind) { return kind == MemoryKind::DEVICE || kind == MemoryKind::MANAGED; }

struct Allocation {
  uintptr_t start;
  size_t bytes;
  MemoryKind kind;
  Context *context;
  Origin made;
  bool contains(uintptr_t address, size_t count) const {
    return address >= start && count <= bytes && address - start <= bytes - count;
  }
};

/* ---- streams ---- */

struct Range {
  uintptr_t start;
  size_t bytes;
};

/* What an operation reads or writes: rows of `width` bytes, one every `pitch` bytes. */
struct Touch {
  uintptr_t start;
  size_t pitch, width, height;
  bool writes;
};

/* By streams' ids, operations that come before something. */
using Clock = std::map<unsigned, uint64_t>;

/* Operations 1 .. position of the stream. */
struct StreamPosition {
  std::shared_ptr<Stream> stream;
  uint64_t position;
};

/* What a failure takes with it beside the context. */
enum class Loss { NONE, DEVICE, ALL };

struct Operation {
  /* Does the work; with `half`, only some of it, as hardware does that breaks midway. */
  std::function<CUresult(bool half)> run;
  std::vector<Range> uses;           /* memory that must stay until it ran */
  std::vector<StreamPosition> after; /* what must have run before, beside the older operations of its stream */
  CUresult fail_with = CUDA_SUCCESS;
  Loss fail_loss = Loss::NONE;
  const char *name = "an operation"; /* from here on watch.h's */
  std::vector<Touch> touches;
  Clock behind; /* what it waits for, and what that came behind */
};

struct Stream {
  Context *context;
  bool blocking;   /* ordered with the context's default stream */
  unsigned number; /* streams that its context had before it */
  Origin made;
  std::deque<Operation> queue;
  uint64_t enqueued = 0, done = 0;
  unsigned id; /* of all streams there ever were */
  Clock clock; /* what the next operation comes behind */
  /* While its work goes into a graph: */
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id captured_by;
  size_t captured = 0; /* operations */
};

struct Graph {
  Context *context;
  Origin made;
  size_t nodes;
};

struct Event {
  Context *context;
  bool timed;
  Origin made;
  StreamPosition recorded{nullptr, 0}; /* stream is null before the first record */
  double milliseconds = 0;             /* when the last record ran */
  Clock clock;                         /* what comes before who waits for it */
};

/* ---- code ---- */

struct Module {
  Context *context;
  std::vector<FatbinEntry> entries;
  Origin made;
  std::vector<CUfunction> functions;
};

struct Function {
  Context *context;
  CUmodule module;
  const Kernel *kernel;
  int compiled_for; /* virtual architecture, such as 80 */
  size_t dynamic_shared_limit;
};

/* ---- devices and contexts ---- */

struct Context {
  CUcontext handle;
  CUdevice device;
  const Context *context = this; /* so that Handles treats it like what belongs to it */
  CUresult error = CUDA_SUCCESS; /* once set, what every call gives */
  std::shared_ptr<Stream> default_stream;
  std::vector<std::weak_ptr<Stream>> streams;
  std::vector<std::shared_ptr<Stream>> destroyed_streams; /* kept while they have work */
  std::map<CUdevice, Origin> peers; /* whose memory kernels here may touch, and who enabled that */
  bool shut = false;                /* the latest attempt to push it was refused */
};

struct Device {
  size_t memory_bytes, used_bytes;
  std::vector<Origin> references; /* to the primary context */
  std::shared_ptr<Context> primary;
  CUresult lost = CUDA_SUCCESS; /* once set, what every call about it gives */
};

struct Driver {
  bool initialised = false;
  std::vector<Device> devices;
  Handles<CUcontext, Context> contexts;
  Handles<CUstream, Stream> streams;
  Handles<CUevent, Event> events;
  Handles<CUgraph, Graph> graphs;
  Handles<CUmodule, Module> modules;
  Handles<CUfunction, Function> functions;
  std::map<uintptr_t, Allocation> memory; /* by start */
  fake_cuda_order order = FAKE_CUDA_LAZY;
  uint64_t random_state = 0;
  Origin last_pushed, first_abandoned;         /* who made them */
  unsigned long misuses_expected = 0;          /* that end nothing */
  uint64_t happened[FAKE_CUDA_PEERS + 1] = {}; /* the counts that are kept rather than computed */
  std::map<std::string, uint64_t> launches;    /* of FAKE_CUDA_LAUNCHES, by the kernel's name */
};

Driver &driver();

/* CUDA's name of a code, null for a number that is none. */
const char *error_name(CUresult code);

/* The allocation that holds these bytes altogether, or null. */
Allocation *find_memory(uintptr_t address, size_t bytes);

/* Says on stderr what the caller did wrong that a real driver may not notice, and counts it; ends the process if that
 * is wanted and nobody expects it. */
__attribute__((format(printf, 1, 2))) void misuse(const char *format, ...);

} // namespace fake

#endif
