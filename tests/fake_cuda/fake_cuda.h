/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a test can ask of the fake driver and tell it, beside the driver's own interface. C or C++.
 *
 * The functions live in the fake's libcuda.so.1: link with it, or find them by dlsym in the handle of libcuda.so.1.
 * Function names are the driver's, with or without the version that cuda.h appends ("cuMemAlloc", "cuMemAlloc_v2").
 * Any number of threads may call everything here. What the environment can set is in README.md.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Resources alive now, of all contexts, except FAKE_CUDA_ABANDONED and below, which count what happened so far. */
enum fake_cuda_count {
  FAKE_CUDA_ALLOCATIONS,     /* cuMemAlloc and cuMemAllocManaged */
  FAKE_CUDA_ALLOCATED_BYTES, /* in them */
  FAKE_CUDA_PINNED,          /* cuMemHostAlloc and cuMemHostRegister */
  FAKE_CUDA_PINNED_BYTES,    /* in them */
  FAKE_CUDA_STREAMS,         /* cuStreamCreate */
  FAKE_CUDA_EVENTS,          /* cuEventCreate */
  FAKE_CUDA_MODULES,         /* cuModuleLoadData */
  FAKE_CUDA_CONTEXTS,        /* references to primary contexts */
  FAKE_CUDA_PUSHED,          /* contexts pushed and not popped, over all threads */
  FAKE_CUDA_QUEUED,          /* operations that nothing has waited for yet */
  FAKE_CUDA_ABANDONED, /* resources that were alive when their context died, unless the latest push of it had failed */
  FAKE_CUDA_MISUSES,   /* what a real driver would let pass or answer with a crash; each is told on stderr */
  FAKE_CUDA_PAGEABLE_COPIES, /* asynchronous copies from or to memory that is not pinned: legal, but not asynchronous */
  FAKE_CUDA_FAILURES,        /* failures that were injected and came to pass */
  FAKE_CUDA_LAUNCHES,        /* kernels that ran to their end */
  FAKE_CUDA_BLOCKS,          /* blocks that ran */
  FAKE_CUDA_BYTES_UP,        /* copied host to device */
  FAKE_CUDA_BYTES_DOWN,      /* copied device to host */
  FAKE_CUDA_BYTES_PEER, /* copied device to device, of which one may reach the other; else it counts as down, then up */
  FAKE_CUDA_PEAK_BYTES, /* the most that ALLOCATED_BYTES has been */
  FAKE_CUDA_PUSHED_HERE, /* contexts on the calling thread's stack */
  FAKE_CUDA_PEERS        /* pairs of devices of which one may reach the other's memory now */
};
uint64_t fake_cuda_get(enum fake_cuda_count what);

/* Calls of a driver function since the start or the last reset, refused ones included. 0 for an unknown name. */
uint64_t fake_cuda_calls(const char *function);
void fake_cuda_reset_calls(void);

/* Calls of a driver function about one device since the start. */
uint64_t fake_cuda_calls_on(int device, const char *function);

/* Kernels of this name that ran to their end. */
uint64_t fake_cuda_launches_of(const char *kernel);

/* Name number i of the functions that the fake has, or NULL after the last. */
const char *fake_cuda_function(size_t i);

/* The context that is current in the calling thread; NULL: none. No call of the driver's. */
void *fake_cuda_current(void);

/* Says on stderr what is alive: one line a kind with count, bytes and the first one's maker. Gives the number of lines.
 * The same happens at the end of the process with FAKE_CUDA_LEAKS=abort, and ends it badly. */
int fake_cuda_audit(void);

/* So many misuses are meant from now on: they are told and counted, but end nothing. Those that have not come to pass
 * when the process ends make it end badly. */
void fake_cuda_expect_misuses(unsigned long count);

enum fake_cuda_fail_flags {
  /* After it every call gives the same code, as after the loss of the device, until fake_cuda_clear_failures. */
  FAKE_CUDA_STICKY = 1,
  /* The call succeeds; what it enqueued fails when it runs, half done, and with it everything in its context, as CUDA
   * does it: the context's calls give the code from then on. For copies, memsets and launches. */
  FAKE_CUDA_ASYNC = 2
};
/*
 * Makes a function fail in its nth call from now (1: the next) with a CUresult; nth = 0: in every call. Any number may
 * be pending. A failed call has no effect, with two exceptions: what frees, destroys, unloads, releases or pops does so
 * and then returns the code, for nobody could do it again; and a wait that fails has waited for nothing.
 * Returns 0, or -1 when the function is unknown, the code is 0, or FAKE_CUDA_ASYNC does not apply to it.
 */
int fake_cuda_fail(const char *function, unsigned long nth, int code, unsigned flags);

/* The same for calls about one device: with a context of it current, or given its number or its context. They alone
 * count for nth; with FAKE_CUDA_STICKY, they alone fail from then on. */
#define FAKE_CUDA_ANY_DEVICE (-1)
int fake_cuda_fail_on(int device, const char *function, unsigned long nth, int code, unsigned flags);

/* Forgets pending failures and heals what is sticky. A context that broke stays broken until its last release. */
void fake_cuda_clear_failures(void);

enum fake_cuda_order {
  FAKE_CUDA_LAZY,   /* an operation runs when something waits for it, and no sooner: a missing wait shows */
  FAKE_CUDA_EAGER,  /* an operation runs when it is enqueued: a buffer filled too soon shows */
  FAKE_CUDA_RANDOM, /* each call runs some of what is enqueued, by chance from the seed */
  /* A context's stream before which it had i is eager if the seed has bit i, and else lazy: what one stream does too
   * soon shows, for another is as late as it may be. */
  FAKE_CUDA_UNEVEN,
  /* As FAKE_CUDA_LAZY, but the device hangs after so many operations as the seed says: none runs from then on. Who
   * waits for one, or frees memory, waits for ever, which is a misuse here. */
  FAKE_CUDA_HANGING
};
void fake_cuda_set_order(enum fake_cuda_order order, uint64_t seed);
/* Whether something must order what touches the same bytes (watch.h); and a kernel must touch no others than its
 * arguments say. What breaks the rule is a misuse. From the call on. */
enum fake_cuda_watch { FAKE_CUDA_UNWATCHED, FAKE_CUDA_WATCH_ORDER, FAKE_CUDA_WATCH_EXTENTS };
void fake_cuda_set_watch(enum fake_cuda_watch watch);
/* 0: a block's threads and a grid's blocks run in order; else the seed of another order for each block. */
void fake_cuda_set_shuffle(uint64_t seed);

/* Which thread goes on when several could, at each switch between threads. Barriers allow all of these. */
enum fake_cuda_warps {
  FAKE_CUDA_IN_TURN,    /* one after another, and whoever comes last to a barrier goes on: the fastest */
  FAKE_CUDA_ONE_AHEAD,  /* a warp, the seed's modulo the warps, runs as far ahead as barriers let it */
  FAKE_CUDA_ONE_BEHIND, /* that warp runs when all others wait for it */
  FAKE_CUDA_LAST_FIRST, /* the thread with the highest number */
  FAKE_CUDA_AT_RANDOM   /* any, by the seed */
};
void fake_cuda_set_warps(enum fake_cuda_warps warps, uint64_t seed);

#ifdef __cplusplus
}
#endif

#endif
