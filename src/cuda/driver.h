/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The CUDA driver as a table of functions, filled by dlopen at the first call that wants a GPU, or when the program is
 * found to have loaded the driver itself. The rooms behind the offload use it, and place.c. The table is written once
 * and read-only thereafter; loading it is thread-safe.
 */
#ifndef TB_CUDA_DRIVER_H
#define TB_CUDA_DRIVER_H

#include <cuda.h>
#include <stdbool.h>

struct tb_cuda_driver {
#define TB_CUDA(function) __typeof__(function) *function;
#include "cuda/driver.def"
#undef TB_CUDA
};

extern struct tb_cuda_driver tb_cuda;

/* Fills the table. False: there is no driver, or it lacks a function that is not optional. */
bool tb_cuda_load(void);

/* Whether the table is filled. Lock-free. */
bool tb_cuda_is_loaded(void);

/* Whether the program had loaded the driver before we did; and whether anybody has started it (cuInit). Lock-free. */
bool tb_cuda_is_programs(void);
bool tb_cuda_is_started(void);

/* In the child of a fork: the thread that was filling the table is not there to finish. */
void tb_cuda_after_fork(void);

/*
 * Makes a context current in this thread, until tb_cuda_leave restores what was. Between the two the thread's captures
 * of CUDA graphs are in relaxed mode: a capture of the program's, in any mode and by any thread, goes on undisturbed,
 * and what we enqueue in streams of our own is no part of it. The legacy default stream must not be named in between,
 * for that ends a capture on a stream that is ordered with it. May be nested.
 */
CUresult tb_cuda_enter(CUcontext context);
void tb_cuda_leave(void);

/* The same for a thread that left its call by a jump, however often it had entered. */
void tb_cuda_leave_all(void);

/* Whether the driver refuses this thread: it is in a callback of cuLaunchHostFunc, and may call nothing of CUDA's. The
 * driver is loaded. */
bool tb_cuda_refuses_thread(void);

/* The innermost call that TB_TRY saw failing in this thread, as source text; NULL: none since it was cleared. */
extern _Thread_local const char *tb_cuda_failed_call;

/* Leaves the calling function with the CUresult of a call that failed, and remembers which. */
#define TB_TRY(call)                                                \
  do {                                                              \
    CUresult tb_try_result = (call);                                \
    if (tb_try_result != CUDA_SUCCESS) {                            \
      if (tb_cuda_failed_call == NULL) tb_cuda_failed_call = #call; \
      return tb_try_result;                                         \
    }                                                               \
  } while (0)

/* "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY": the failure for a reader, and clears what was remembered. */
void tb_cuda_describe_failure(CUresult result, char *text, size_t size);

#endif
