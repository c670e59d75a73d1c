/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A block while it runs, or the blocks of a cluster, as the files see them that answer their kernels: grid.cpp, which
 * owns them, and async.cpp. One OS thread at a time.
 */
#ifndef FAKE_CUDA_BLOCK_H
#define FAKE_CUDA_BLOCK_H

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda_on_cpu.h"
#include "fibers.h"

namespace fake {

constexpr unsigned LANES = 32, PARTS = 16 /* of a block, at most */, MOST_BLOCKS = 8,
                   MOST_THREADS = 1024 * MOST_BLOCKS; /* that run side by side */

enum class State : unsigned char {
  UNSTARTED,
  RUNNABLE,
  AT_BARRIER,
  AT_PART_BARRIER,
  AT_WARP_BARRIER,
  AT_MBARRIER,
  AT_MEETING,
  DONE
};

/* Made where it stays: a temporary's would be written by fours of bytes and read by sixteens, which the processor waits
 * for. */
struct AsyncCopy {
  void *dst;
  const void *src;
  unsigned group;
  unsigned char bytes, valid_bytes;
  AsyncCopy(void *dst_, const void *src_, unsigned group_, unsigned bytes_, unsigned valid_bytes_)
      : dst(dst_), src(src_), group(group_), bytes(static_cast<unsigned char>(bytes_)),
        valid_bytes(static_cast<unsigned char>(valid_bytes_)) {}
};

/* Its threads have the numbers from `first` on, a multiple of LANES. */
struct Block {
  uint3 index;          /* in the grid */
  unsigned rank;        /* in its cluster */
  unsigned first, size; /* its threads */
  unsigned live, at_barrier;
  struct {
    unsigned wanted, arrived;
  } parts[PARTS];    /* of the barriers of parts of it */
  int vote, verdict; /* of the threads at a barrier, and of those that were at the last one */
  void *dynamic_shared;
};

struct Thread : tb_cpu_thread {
  Block *block;
  unsigned number; /* among all that run side by side */
  Fiber *fiber;
  unsigned warp_mask;            /* of the warp barrier it waits at */
  unsigned part;                 /* the number of the part's barrier it waits at */
  std::vector<AsyncCopy> copies; /* oldest first; */
  size_t copies_done;            /* so many of them, which are forgotten later */
  unsigned groups;               /* committed so far */
  const uint64_t *waits_for;     /* the barrier in shared memory that it waits at */
  bool waited_for_kernels;       /* for those ahead of its own */
};

/* The blocks that run side by side, their threads, and by the threads' numbers their states, which stand apart because
 * barriers walk over all of them. */
extern Block blocks[MOST_BLOCKS];
extern unsigned block_count;
extern Thread *const threads;
extern State states[MOST_THREADS];

/* The thread that runs. */
inline Thread &self() { return *static_cast<Thread *>(tb_cpu_current); }
inline State &state_of(const Thread &t) { return states[t.number]; }

/* Lets others run; returns when the running thread's state is RUNNABLE again and its turn has come. */
void give_way();
/* The running thread could go on, but has let others go on, too: in some orders one of those is first. */
void others_may_go();

/* The running thread did what a GPU would not forgive: its block and those beside it end here, and the launch fails.
 * Does not return. */
void fail_launch(const char *why);

/* Whether all threads of the cluster have waited for each other once, so that each block is known to have begun. */
bool cluster_has_met();

/* The two parts of a block's shared memory. The static one is the same for all blocks of a cluster, which therefore
 * must not use it: each would see what the others wrote. */
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
extern SharedMemory::Part static_shared; /* of the kernel that runs */
extern size_t dynamic_shared_bytes;
inline SharedMemory shared_memory(const Block &block) {
  return {static_shared, {static_cast<char *>(block.dynamic_shared), dynamic_shared_bytes}};
}

} // namespace fake

#endif
