/* SPDX-License-Identifier: BSD-3-Clause */
/* The entry of every driver function, the failures it injects, and fake_cuda.h. See calls.h. */
#include "calls.h"

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <unistd.h>

#include "capture.h"
#include "grid.h"
#include "turns.h"
#include "streams.h"
#include "watch.h"

/* ThreadSanitizer's. */
extern "C" {
__attribute__((weak)) void AnnotateIgnoreSyncBegin(const char *file, int line);
__attribute__((weak)) void AnnotateIgnoreSyncEnd(const char *file, int line);
__attribute__((weak)) void AnnotateIgnoreReadsBegin(const char *file, int line);
__attribute__((weak)) void AnnotateIgnoreReadsEnd(const char *file, int line);
__attribute__((weak)) void AnnotateIgnoreWritesBegin(const char *file, int line);
__attribute__((weak)) void AnnotateIgnoreWritesEnd(const char *file, int line);
}

namespace fake {

void Unseen::begin() {
  if (!AnnotateIgnoreSyncBegin) return;
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}

void Unseen::end() {
  if (!AnnotateIgnoreSyncEnd) return;
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
}

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
  int device; /* that the call must be about, and whose calls are counted; FAKE_CUDA_ANY_DEVICE: any */
};

std::mutex driver_lock;
std::atomic<uint64_t> calls_ever[FUNCTION_COUNT]; /* counted without the lock, in children of fork too */
uint64_t calls_at_reset[FUNCTION_COUNT];
uint64_t calls_on[FUNCTION_COUNT][DEVICES_MAX]; /* those that are about a device */
std::vector<Failure> &failures() {              /* a function, for the environment is read by a constructor */
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
  const Unseen unseen_;

public:
  ControlLock() {
    if (!forked() && !is_in_callback()) lock_ = std::unique_lock<std::mutex>(driver_lock);
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
  const Unseen unseen;
  ended = true;
  if (!forked()) audit_at_end();
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

void lose_devices(CUresult code) {
  lost = code;
  for (Device &device : driver().devices)
    if (device.primary) drop_queues(*device.primary);
}

void lose_device(CUdevice number, CUresult code) {
  Device &device = driver().devices[static_cast<size_t>(number)];
  device.lost = code;
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
  if (driver().misuses_expected > 0) {
    driver().misuses_expected--;
  } else if (settings().abort_on_misuse) {
    tell_in_file(text);
    abort();
  }
}

/* Whether this call is to fail now; an asynchronous failure is left for the operation instead. */
bool Call::find_pending_failure(Fn function, uint64_t call, CUdevice device, uint64_t call_on_device) {
  for (auto f = failures().begin(); f != failures().end(); ++f) {
    const bool any = f->device == FAKE_CUDA_ANY_DEVICE;
    if (f->function != function || (!any && f->device != device)) continue;
    if (f->call && f->call != (any ? call : call_on_device)) continue;
    const Failure found = *f;
    if (found.call) failures().erase(f);
    const Loss loss = !(found.flags & FAKE_CUDA_STICKY) ? Loss::NONE : any ? Loss::ALL : Loss::DEVICE;
    if (found.flags & FAKE_CUDA_ASYNC) {
      fail_later = found.code;
      fail_later_loss = loss;
      return false;
    }
    driver().happened[FAKE_CUDA_FAILURES]++;
    status = found.code;
    if (loss == Loss::ALL) lose_devices(found.code);
    if (loss == Loss::DEVICE) lose_device(device, found.code);
    return true;
  }
  return false;
}

/* -1: the call is about no device, or about one that there is not. */
CUdevice Call::device_of(const About &about) const {
  const std::shared_ptr<Context> named = about.context ? driver().contexts.find(about.context) : nullptr;
  const CUdevice device = named ? named->device : about.device >= 0 || !context ? about.device : context->device;
  return device < static_cast<CUdevice>(driver().devices.size()) ? device : -1;
}

Origin Call::origin() const { return origin_of(caller_, FUNCTIONS[static_cast<size_t>(function_)].name); }

Call::Call(Fn function, About about, const void *caller) : function_(function), caller_(caller) {
  const uint64_t number = ++calls_ever[static_cast<size_t>(function)];
  if (forked()) { /* before the lock, which another thread of the parent may have held */
    status = CUDA_ERROR_NOT_INITIALIZED;
    return;
  }
  if (is_in_callback()) { /* whose thread has the lock */
    status = function == Fn::cuInit || function == Fn::cuThreadExchangeStreamCaptureMode ? CUDA_SUCCESS
                                                                                         : CUDA_ERROR_NOT_PERMITTED;
    return;
  }
  lock_ = std::unique_lock<std::mutex>(driver_lock);
  const Need need = FUNCTIONS[static_cast<size_t>(function)].need;
  const bool initialised = driver().initialised;
  const std::shared_ptr<Context> current = initialised ? current_context() : nullptr;
  context = current.get(); /* the driver's table keeps it alive under the lock */
  const CUdevice device = device_of(about);
  const uint64_t number_on_device = device >= 0 ? ++calls_on[static_cast<size_t>(function)][device] : 0;
  /* What names no device and needs no context is no question to the one whose context happens to be current. */
  const bool meant = need == Need::CONTEXT || about.device >= 0 || about.context;
  const CUresult device_lost = device >= 0 && meant ? driver().devices[static_cast<size_t>(device)].lost : CUDA_SUCCESS;
  if (ended) {
    status = CUDA_ERROR_DEINITIALIZED;
  } else if (need != Need::NOTHING && !initialised) {
    status = CUDA_ERROR_NOT_INITIALIZED;
  } else if (need == Need::CONTEXT && !context) {
    status = context_stack().empty() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_CONTEXT_IS_DESTROYED;
  } else if (lost != CUDA_SUCCESS && function != Fn::cuGetErrorName && function != Fn::cuGetErrorString) {
    status = lost;
    release_anyway = true;
  } else if (device_lost != CUDA_SUCCESS) {
    status = device_lost;
    release_anyway = true;
  } else if (find_pending_failure(function, number, device, number_on_device)) {
    release_anyway = true;
  } else if (need == Need::CONTEXT && context->error != CUDA_SUCCESS) {
    status = context->error;
    release_anyway = true;
  } else if (const CUresult disturbed = disturb_captures(function, context)) {
    status = disturbed;
  }
}

} // namespace fake

using namespace fake;

/* NVIDIA's driver loads libraries of its own here, for which it waits for the loader. */
CUresult cuInit(unsigned flags) {
  if (void *library = dlopen("libm.so.6", RTLD_NOW)) dlclose(library);
  Call call(Fn::cuInit);
  if (call.status != CUDA_SUCCESS) return call.status;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (settings().devices == 0) return CUDA_ERROR_NO_DEVICE;
  if (!driver().initialised)
    driver().devices.assign(static_cast<size_t>(settings().devices),
                            Device{settings().memory_bytes, 0, {}, nullptr, CUDA_SUCCESS});
  driver().initialised = true;
  owner = getpid();
  return CUDA_SUCCESS;
}

/* ---- fake_cuda.h ---- */

int fake_cuda_fail(const char *function, unsigned long nth, int code, unsigned flags) {
  return fake_cuda_fail_on(FAKE_CUDA_ANY_DEVICE, function, nth, code, flags);
}

int fake_cuda_fail_on(int device, const char *function, unsigned long nth, int code, unsigned flags) {
  const ControlLock lock;
  const int i = find_function(function);
  if (i < 0 || code == CUDA_SUCCESS || ((flags & FAKE_CUDA_ASYNC) && !enqueues(static_cast<Fn>(i)))) return -1;
  if (device != FAKE_CUDA_ANY_DEVICE && (device < 0 || device >= DEVICES_MAX)) return -1;
  const uint64_t before = device == FAKE_CUDA_ANY_DEVICE ? calls_ever[i].load() : calls_on[i][device];
  failures().push_back({static_cast<Fn>(i), nth ? before + nth : 0, static_cast<CUresult>(code), flags, device});
  return 0;
}

void fake_cuda_clear_failures(void) {
  const ControlLock lock;
  failures().clear();
  lost = CUDA_SUCCESS;
  for (Device &device : driver().devices) device.lost = CUDA_SUCCESS;
}

uint64_t fake_cuda_calls(const char *function) {
  const ControlLock lock;
  const int i = find_function(function);
  return i < 0 ? 0 : calls_ever[i] - calls_at_reset[i];
}

uint64_t fake_cuda_calls_on(int device, const char *function) {
  const ControlLock lock;
  const int i = find_function(function);
  return i < 0 || device < 0 || device >= DEVICES_MAX ? 0 : calls_on[i][device];
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
  for (const Device &device : driver().devices) sum += device.references.size();
  return sum;
}

static uint64_t count_peers() {
  uint64_t sum = 0;
  for (const Device &device : driver().devices) sum += device.primary ? device.primary->peers.size() : 0;
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
    case FAKE_CUDA_PEERS:
      return count_peers();
    case FAKE_CUDA_PUSHED_HERE:
      return context_stack().size();
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

uint64_t fake_cuda_launches_of(const char *kernel) {
  const ControlLock lock;
  const auto found = driver().launches.find(kernel);
  return found == driver().launches.end() ? 0 : found->second;
}

void *fake_cuda_current(void) {
  const ControlLock lock;
  return context_stack().empty() ? nullptr : context_stack().back();
}

int fake_cuda_audit(void) {
  const ControlLock lock;
  return tell_what_is_left();
}

void fake_cuda_expect_misuses(unsigned long count) {
  const ControlLock lock;
  driver().misuses_expected = count;
}

void fake_cuda_set_order(enum fake_cuda_order order, uint64_t seed) {
  const ControlLock lock;
  driver().order = order;
  driver().random_state = seed;
}

void fake_cuda_set_watch(enum fake_cuda_watch watch) {
  const ControlLock lock;
  set_watch(static_cast<Watch>(watch));
}

void fake_cuda_set_shuffle(uint64_t seed) {
  const ControlLock lock;
  set_shuffle(seed);
}

void fake_cuda_set_warps(enum fake_cuda_warps warps, uint64_t seed) {
  const ControlLock lock;
  set_warps(warps, seed);
}
