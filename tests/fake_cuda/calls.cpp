/* SPDX-License-Identifier: BSD-3-Clause */
/* The entry of every driver function, the failures it injects, and fake_cuda.h. See calls.h. */
#include "calls.h"

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#include "grid.h"
#include "streams.h"

namespace fake {
namespace {

enum class Need { NOTHING, INIT, CONTEXT };

const struct {
  const char *name;
  Need need;
} FUNCTIONS[] = {
#define FAKE_CUDA_FUNCTION(name, need) {#name, Need::need},
#include "functions.def"
#undef FAKE_CUDA_FUNCTION
};
constexpr size_t FUNCTION_COUNT = sizeof FUNCTIONS / sizeof FUNCTIONS[0];

struct Failure {
  Fn function;
  uint64_t call; /* the number of the call that fails, counted like calls_ever; 0: every call */
  CUresult code;
  unsigned flags;
};

std::mutex driver_lock;
std::atomic<uint64_t> calls_ever[FUNCTION_COUNT]; /* counted without the lock, in children of fork too */
uint64_t calls_at_reset[FUNCTION_COUNT];
std::vector<Failure> &failures() { /* a function, for the environment is read by a constructor */
  static std::vector<Failure> *const list = new std::vector<Failure>;
  return *list;
}
CUresult lost = CUDA_SUCCESS;
std::atomic<bool> ended{false}; /* the process is ending */
std::atomic<pid_t> owner{0};    /* the process that initialised the driver */

bool forked() {
  const pid_t p = owner;
  return p != 0 && p != getpid();
}

/* For fake_cuda.h, which a child of fork may ask too: the lock may have been held then by a thread that it lacks. */
class ControlLock {
public:
  ControlLock() {
    if (!forked()) lock_ = std::unique_lock<std::mutex>(driver_lock);
  }

private:
  std::unique_lock<std::mutex> lock_;
};

/* Index of a name, with or without _v2 and the like; -1 when unknown. */
int find_function(const char *name) {
  const size_t length = strcspn(name, "_");
  for (size_t i = 0; i < FUNCTION_COUNT; ++i)
    if (strlen(FUNCTIONS[i].name) == length && !strncmp(FUNCTIONS[i].name, name, length)) return static_cast<int>(i);
  return -1;
}

bool enqueues(Fn function) {
  switch (function) {
    case Fn::cuMemcpyHtoDAsync:
    case Fn::cuMemcpyDtoHAsync:
    case Fn::cuMemcpyDtoDAsync:
    case Fn::cuMemcpyPeerAsync:
    case Fn::cuMemcpy2DAsync:
    case Fn::cuMemsetD8Async:
    case Fn::cuLaunchKernel:
    case Fn::cuLaunchKernelEx:
      return true;
    default:
      return false;
  }
}

__attribute__((destructor)) void process_ends() {
  /* Library destructors that run after this one find the driver gone, as they would the real one. */
  ended = true;
}

} // namespace

Driver &driver() {
  static Driver *const the = new Driver;
  return *the;
}

ContextStack &context_stack() {
  static thread_local ContextStack stack;
  return stack;
}

std::shared_ptr<Context> current_context() {
  return context_stack().empty() ? nullptr : driver().contexts.find(context_stack().back());
}

void lose_device(CUresult code) {
  lost = code;
  for (Device &device : driver().devices)
    if (device.primary) drop_queues(*device.primary);
}

void misuse(const char *format, ...) {
  char text[400];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "fake_cuda: misuse: %s\n", text);
  driver().happened[FAKE_CUDA_MISUSES]++;
  if (settings().abort_on_misuse) abort();
}

/* Whether this call is to fail now; an asynchronous failure is left for the operation instead. */
bool Call::find_pending_failure(Fn function, uint64_t call) {
  for (auto f = failures().begin(); f != failures().end(); ++f) {
    if (f->function != function || (f->call && f->call != call)) continue;
    const Failure found = *f;
    if (found.call) failures().erase(f);
    const bool sticky = found.flags & FAKE_CUDA_STICKY;
    if (found.flags & FAKE_CUDA_ASYNC) {
      fail_later = found.code;
      fail_later_sticky = sticky;
      return false;
    }
    driver().happened[FAKE_CUDA_FAILURES]++;
    status = found.code;
    if (sticky) lose_device(found.code);
    return true;
  }
  return false;
}

Call::Call(Fn function) {
  const uint64_t number = ++calls_ever[static_cast<size_t>(function)];
  if (forked()) { /* before the lock, which another thread of the parent may have held */
    status = CUDA_ERROR_NOT_INITIALIZED;
    return;
  }
  lock_ = std::unique_lock<std::mutex>(driver_lock);
  const Need need = FUNCTIONS[static_cast<size_t>(function)].need;
  const bool initialised = driver().initialised;
  const std::shared_ptr<Context> current = initialised ? current_context() : nullptr;
  context = current.get(); /* the driver's table keeps it alive under the lock */
  if (ended) {
    status = CUDA_ERROR_DEINITIALIZED;
  } else if (need != Need::NOTHING && !initialised) {
    status = CUDA_ERROR_NOT_INITIALIZED;
  } else if (need == Need::CONTEXT && !context) {
    status = context_stack().empty() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_CONTEXT_IS_DESTROYED;
  } else if (lost != CUDA_SUCCESS && function != Fn::cuGetErrorName && function != Fn::cuGetErrorString) {
    status = lost;
    release_anyway = true;
  } else if (find_pending_failure(function, number)) {
    release_anyway = true;
  } else if (need == Need::CONTEXT && context->error != CUDA_SUCCESS) {
    status = context->error;
    release_anyway = true;
  }
}

} // namespace fake

using namespace fake;

CUresult cuInit(unsigned flags) {
  Call call(Fn::cuInit);
  if (call.status != CUDA_SUCCESS) return call.status;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (settings().devices == 0) return CUDA_ERROR_NO_DEVICE;
  if (!driver().initialised)
    driver().devices.assign(static_cast<size_t>(settings().devices), Device{settings().memory_bytes, 0, 0, nullptr});
  driver().initialised = true;
  owner = getpid();
  return CUDA_SUCCESS;
}

/* ---- fake_cuda.h ---- */

int fake_cuda_fail(const char *function, unsigned long nth, int code, unsigned flags) {
  const ControlLock lock;
  const int i = find_function(function);
  if (i < 0 || code == CUDA_SUCCESS || ((flags & FAKE_CUDA_ASYNC) && !enqueues(static_cast<Fn>(i)))) return -1;
  failures().push_back({static_cast<Fn>(i), nth ? calls_ever[i] + nth : 0, static_cast<CUresult>(code), flags});
  return 0;
}

void fake_cuda_clear_failures(void) {
  const ControlLock lock;
  failures().clear();
  lost = CUDA_SUCCESS;
}

uint64_t fake_cuda_calls(const char *function) {
  const ControlLock lock;
  const int i = find_function(function);
  return i < 0 ? 0 : calls_ever[i] - calls_at_reset[i];
}

void fake_cuda_reset_calls(void) {
  const ControlLock lock;
  std::copy(std::begin(calls_ever), std::end(calls_ever), calls_at_reset);
}

const char *fake_cuda_function(size_t i) { return i < FUNCTION_COUNT ? FUNCTIONS[i].name : nullptr; }

static uint64_t count_memory(bool device, bool bytes) {
  uint64_t sum = 0;
  for (const auto &[start, allocation] : driver().memory)
    if (is_on_device(allocation.kind) == device) sum += bytes ? allocation.bytes : 1;
  return sum;
}

static uint64_t count_references() {
  uint64_t sum = 0;
  for (const Device &device : driver().devices) sum += device.references;
  return sum;
}

static uint64_t count_now(fake_cuda_count what) {
  switch (what) {
    case FAKE_CUDA_ALLOCATIONS:
    case FAKE_CUDA_ALLOCATED_BYTES:
      return count_memory(true, what == FAKE_CUDA_ALLOCATED_BYTES);
    case FAKE_CUDA_PINNED:
    case FAKE_CUDA_PINNED_BYTES:
      return count_memory(false, what == FAKE_CUDA_PINNED_BYTES);
    case FAKE_CUDA_STREAMS:
      return driver().streams.size();
    case FAKE_CUDA_EVENTS:
      return driver().events.size();
    case FAKE_CUDA_MODULES:
      return driver().modules.size();
    case FAKE_CUDA_CONTEXTS:
      return count_references();
    case FAKE_CUDA_QUEUED:
      return count_queued();
    case FAKE_CUDA_BLOCKS:
      return blocks_run();
    default:
      return driver().happened[what];
  }
}

uint64_t fake_cuda_get(enum fake_cuda_count what) {
  const ControlLock lock;
  return count_now(what);
}

void fake_cuda_set_order(enum fake_cuda_order order, uint64_t seed) {
  const ControlLock lock;
  driver().order = order;
  driver().random_state = seed;
}

void fake_cuda_set_shuffle(uint64_t seed) {
  const ControlLock lock;
  set_shuffle(seed);
}
