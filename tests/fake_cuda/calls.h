/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What happens at the entry of every driver function: take the lock, count, fail if told to, check what must have
 * happened before. Also the settings from the environment. Any number of threads may make Calls.
 */
#ifndef FAKE_CUDA_CALLS_H
#define FAKE_CUDA_CALLS_H

#include <cstdlib>
#include <mutex>
#include <string>

#include "state.h"

namespace fake {

enum class Fn {
#define FAKE_CUDA_FUNCTION(name, need) name,
#include "functions.def"
#undef FAKE_CUDA_FUNCTION
};

/* The device that a call is about, where that is not the one of the current context. */
struct About {
  CUdevice device = -1;
  CUcontext context = nullptr; /* its device */
};

/*
 * Hides the running thread from ThreadSanitizer, where the program has it. The driver's lock would order all threads
 * that call the driver, so that no race of theirs was ever seen, and what it copies is a GPU's doing.
 */
class Unseen {
public:
  Unseen() { begin(); }
  ~Unseen() { end(); }
  static void begin(), end();
};

class Call {
  const Unseen unseen_; /* the lock, too: it comes first and goes last */

public:
  /* `caller`: the place that called the driver, evaluated in the driver's function. */
  explicit Call(Fn function, About about = {}, const void *caller = __builtin_return_address(0));

  /* Not CUDA_SUCCESS: return this, at once, or after releasing what is to be released. */
  CUresult status = CUDA_SUCCESS;
  /* status tells of a failing device, not of a failing caller: what is to be released is released all the same. */
  bool release_anyway = false;
  /* What is to become of the operation that this call enqueues. */
  CUresult fail_later = CUDA_SUCCESS;
  Loss fail_later_loss = Loss::NONE;
  /* The current context; null when none is or the function needs none. */
  Context *context = nullptr;

  bool refused() const { return status != CUDA_SUCCESS && !release_anyway; }
  /* What a releasing function returns. */
  CUresult after_release(CUresult result) const { return status != CUDA_SUCCESS ? status : result; }
  Origin origin() const; /* of this call */

private:
  bool find_pending_failure(Fn function, uint64_t call, CUdevice device, uint64_t call_on_device);
  CUdevice device_of(const About &about) const;
  Fn function_;
  const void *caller_;
  std::unique_lock<std::mutex> lock_;
};

/* The contexts that a thread has pushed. No destructor: exit handlers call the driver after thread-locals are gone. */
class ContextStack {
public:
  bool empty() const { return depth == 0; }
  unsigned size() const { return static_cast<unsigned>(depth); }
  CUcontext back() const { return entries[depth - 1].context; }
  /* Who pushed the top. */
  Origin pusher() const { return {entries[depth - 1].object, entries[depth - 1].offset, "cuCtxPushCurrent"}; }
  void push_back(CUcontext context, const Origin &by) {
    if (depth == most) abort(); /* pushes without pops */
    entries[depth++] = {context, by.object, by.offset};
  }
  void pop_back() { depth--; }

private:
  static constexpr int most = 256;
  struct {
    CUcontext context;
    const char *object;
    uintptr_t offset;
  } entries[most];
  int depth;
};

/* The current context of the calling thread: the top of its stack, unless that died. */
ContextStack &context_stack();
std::shared_ptr<Context> current_context();

/* Devices are lost: all of them, and this is what every call gives from now on; or one, and it is what every call about
 * that one gives. */
void lose_devices(CUresult code);
void lose_device(CUdevice device, CUresult code);

/* Settings that stay as they are from the first call on. */
struct Settings {
  int devices, multiprocessors, clock_khz, compute_major, compute_minor, registers_per_thread;
  size_t memory_bytes, shared_memory_bytes; /* per device; per block at most */
  bool abort_on_misuse, abort_on_leaks;
  bool peers;  /* devices reach each other's memory */
  bool pooled; /* no pointer has a context */
};
const Settings &settings();

} // namespace fake

#endif
