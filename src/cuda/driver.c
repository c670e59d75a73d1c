/* SPDX-License-Identifier: BSD-3-Clause */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct tb_cuda_driver tb_cuda;
_Thread_local const char *tb_cuda_failed_call;

static atomic_int state; /* of tb_cuda: one thread may write it, once */
enum { EMPTY, BEING_WRITTEN, COMPLETE };

static atomic_bool programs, started;

bool tb_cuda_is_programs(void) { return atomic_load_explicit(&programs, memory_order_relaxed); }

bool tb_cuda_is_started(void) {
  CUcontext current;
  if (atomic_load_explicit(&started, memory_order_relaxed)) return true;
  if (!tb_cuda_is_loaded() || tb_cuda.cuCtxGetCurrent(&current) == CUDA_ERROR_NOT_INITIALIZED) return false;
  atomic_store(&started, true);
  return true;
}

bool tb_cuda_is_loaded(void) { return atomic_load_explicit(&state, memory_order_acquire) == COMPLETE; }

/* The driver stays loaded for good: its own threads and exit handlers may outlive us. Threads that load at once find
 * the same functions; none waits for the loader with a lock in hand, for the loader may be waiting for us. */
bool tb_cuda_load(void) {
  if (tb_cuda_is_loaded()) return true;
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library != NULL) atomic_store(&programs, true);
  if (library == NULL) library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return false;
  struct tb_cuda_driver found;
  bool complete = true;
#define TB_NAME(function) #function
#define TB_CUDA_OPTIONAL(function)                            \
  {                                                           \
    void *address = dlsym(library, TB_NAME(function));        \
    memcpy(&found.function, &address, sizeof found.function); \
  }
#define TB_CUDA(function)    \
  TB_CUDA_OPTIONAL(function) \
  complete = complete && found.function != NULL;
#include "cuda/driver.def"
#undef TB_CUDA
  if (!complete) return false;
  int empty = EMPTY;
  if (atomic_compare_exchange_strong(&state, &empty, BEING_WRITTEN)) {
    tb_cuda = found;
    atomic_store_explicit(&state, COMPLETE, memory_order_release);
  }
  while (!tb_cuda_is_loaded()) sched_yield();
  return true;
}

void tb_cuda_after_fork(void) {
  int unfinished = BEING_WRITTEN;
  atomic_compare_exchange_strong(&state, &unfinished, EMPTY);
}

/* How often this thread has entered, whether the first time pushed a context, and its mode outside. */
static _Thread_local int depth;
static _Thread_local bool pushed_first;
static _Thread_local CUstreamCaptureMode mode_outside;

/* As in most programs that have operands on the GPU. One question is less than to push and to pop. */
static bool is_current(CUcontext context) {
  CUcontext current;
  return tb_cuda_is_programs() && tb_cuda.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context;
}

CUresult tb_cuda_enter(CUcontext context) {
  const bool pushes = depth > 0 || !is_current(context);
  if (pushes) TB_TRY(tb_cuda.cuCtxPushCurrent(context));
  if (depth == 0) pushed_first = pushes;
  if (depth++ > 0 || tb_cuda.cuThreadExchangeStreamCaptureMode == NULL) return CUDA_SUCCESS;
  mode_outside = CU_STREAM_CAPTURE_MODE_RELAXED;
  tb_cuda.cuThreadExchangeStreamCaptureMode(&mode_outside);
  return CUDA_SUCCESS;
}

void tb_cuda_leave(void) {
  CUcontext ours;
  if (depth == 0) return; /* a call that could not enter again after a handler's window: what is current is not ours */
  if (--depth == 0 && tb_cuda.cuThreadExchangeStreamCaptureMode != NULL)
    tb_cuda.cuThreadExchangeStreamCaptureMode(&mode_outside);
  if (depth > 0 || pushed_first) tb_cuda.cuCtxPopCurrent(&ours);
}

void tb_cuda_leave_all(void) {
  while (depth > 0) tb_cuda_leave();
}

/* Callbacks come from threads of the driver's own, which never run anything else: a thread is asked about once. */
bool tb_cuda_refuses_thread(void) {
  static _Thread_local bool permitted;
  CUcontext current;
  if (permitted) return false;
  const CUresult asked = tb_cuda.cuCtxGetCurrent(&current);
  permitted = asked != CUDA_ERROR_NOT_PERMITTED;
  return asked == CUDA_ERROR_NOT_PERMITTED;
}

void tb_cuda_describe_failure(CUresult result, char *text, size_t size) {
  const char *name = NULL;
  if (tb_cuda.cuGetErrorName == NULL || tb_cuda.cuGetErrorName(result, &name) != CUDA_SUCCESS || name == NULL)
    name = "an unknown CUDA error";
  const char *call = tb_cuda_failed_call ? tb_cuda_failed_call : "CUDA";
  const char *dot = strstr(call, "tb_cuda.");
  if (dot != NULL) call = dot + strlen("tb_cuda.");
  snprintf(text, size, "%.*s: %s", (int)strcspn(call, "("), call, name);
  tb_cuda_failed_call = NULL;
}
