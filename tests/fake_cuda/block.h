/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A block while it runs, as the files see it that answer its kernels: grid.cpp, which owns it, and async.cpp. One OS
 * thread at a time.
 */
#ifndef FAKE_CUDA_BLOCK_H
#define FAKE_CUDA_BLOCK_H

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda_on_cpu.h"
#include "fibers.h"

namespace fake {

constexpr unsigned LANES = 32, MOST_THREADS = 1024;

enum class State : unsigned char { UNSTARTED, RUNNABLE, AT_BARRIER, AT_WARP_BARRIER, AT_MBARRIER, DONE };

struct AsyncCopy {
  void *dst;
  const void *src;
  unsigned bytes, valid_bytes, group;
};

struct Thread : tb_cpu_thread {
  unsigned number; /* in the block */
  Fiber *fiber;
  unsigned warp_mask;            /* of the warp barrier it waits at */
  std::vector<AsyncCopy> copies; /* not done yet, oldest first */
  unsigned groups;               /* committed so far */
  const uint64_t *waits_for;     /* the barrier in shared memory that it waits at */
  bool waited_for_kernels;       /* for those ahead of its own */
};

/* The block's threads, and by their numbers their states, which stand apart because barriers walk over all of them. */
extern Thread *const threads;
extern State states[MOST_THREADS];
extern unsigned thread_count;

/* The thread that runs. */
inline Thread &self() { return *static_cast<Thread *>(tb_cpu_current); }
inline State &state_of(const Thread &t) { return states[t.number]; }

/* Lets others run; returns when the running thread's state is RUNNABLE again and its turn has come. */
void give_way();

/* The running thread did what a GPU would not forgive: the block ends here, and the launch fails. Does not return. */
void fail_launch(const char *why);

/* The two parts of the block's shared memory. */
struct SharedMemory {
  struct Part {
    char *start;
    size_t bytes;
    bool holds(const void *p, size_t size) const {
      const size_t offset = static_cast<size_t>(static_cast<const char *>(p) - start);
      return offset < bytes && size <= bytes - offset;
    }
  } fixed, dynamic;
  bool holds(const void *p, size_t size) const { return dynamic.holds(p, size) || fixed.holds(p, size); }
};
SharedMemory shared_memory();

} // namespace fake

#endif
