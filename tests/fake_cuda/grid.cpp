/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a grid of a kernel on the CPU, see grid.h, and answers what kernels ask of their block (cuda_on_cpu.h).
 *
 * Everything here is global: the kernels read threadIdx and the like from globals, static shared memory is static
 * variables, and one block runs at a time.
 */
#include "grid.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "cuda_on_cpu.h"
#include "fibers.h"
#include "poison.h"

tb_cpu_thread *tb_cpu_current;
dim3 tb_cpu_block_dim, tb_cpu_grid_dim;
uint3 tb_cpu_block_index;

/* The kernels' static shared memory, gathered by shared_memory.ld. */
extern "C" char fake_cuda_shared_start[], fake_cuda_shared_end[];

namespace fake {
namespace {

constexpr unsigned LANES = 32, MOST_THREADS = 1024, LANE_SLOT_BYTES = 16;

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

/* What stands in the eight bytes of a barrier in shared memory. */
struct Mbarrier {
  uint16_t mark, arrivals, left; /* MBARRIER_MARK; of a whole phase; of this one */
  uint16_t phase;                /* counts up; its last bit is the parity */
};
constexpr uint16_t MBARRIER_MARK = 0x6d62;

/* Copies that are done when a barrier's phase ends. */
struct CopiesBehind {
  const uint64_t *barrier;
  std::vector<AsyncCopy> copies;
};

struct Warp {
  unsigned present, arrived; /* bits of lanes */
  alignas(16) char slots[LANES][LANE_SLOT_BYTES];
};

/* Objects with destructors are never destroyed: another thread may be here while the process ends. */
FiberPool &pool = *new FiberPool;
Fiber os_thread;
Thread *const threads = new Thread[MOST_THREADS];
State states[MOST_THREADS]; /* by number; apart from the threads, for a barrier walks over all of them */
Thread *order[MOST_THREADS];
Warp warps[MOST_THREADS / LANES];
std::vector<CopiesBehind> &copies_behind = *new std::vector<CopiesBehind>;
unsigned thread_count, live, at_barrier, cursor;
const Grid *running;
void *dynamic_shared;
size_t dynamic_shared_bytes;
std::string &failure = *new std::string;
uint64_t blocks_done, shuffle_seed, random_state;

uint64_t random_bits() { /* splitmix64, Steele, Lea and Flood 2014 */
  uint64_t z = random_state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

Thread &self() { return *static_cast<Thread *>(tb_cpu_current); }

State &state_of(const Thread &t) { return states[t.number]; }

/* ---- whose turn it is ---- */

Thread *next_runnable() {
  for (unsigned looked = 0; looked < thread_count; ++looked) {
    Thread *t = order[cursor];
    cursor = cursor + 1 == thread_count ? 0 : cursor + 1;
    if (state_of(*t) <= State::RUNNABLE) return t;
  }
  return nullptr;
}

void thread_main();

/* Leaves `from` for the thread `t`, or for run_block when there is none to run. */
void leave(Fiber &from, Thread *t, bool last) {
  if (t && state_of(*t) == State::UNSTARTED) {
    t->fiber = pool.start(thread_main);
    if (!t->fiber) {
      failure = "no memory for the stack of a thread";
      t = nullptr;
    } else {
      state_of(*t) = State::RUNNABLE;
    }
  }
  if (t) tb_cpu_current = t;
  fiber_switch(from, t ? *t->fiber : os_thread, last);
}

void give_way() {
  Thread &me = self();
  leave(*me.fiber, next_runnable(), false);
}

/* The running thread did what a GPU would not forgive: the block ends here, and the launch fails. */
void fail_launch(const char *why) {
  failure = why;
  leave(*self().fiber, nullptr, false);
}

/* A fiber runs one thread after another as long as the next one has not begun: most kernels' tails need no switch. */
void thread_main() {
  fiber_entered();
  for (;;) {
    running->kernel->invoke(running->parameters);
    Thread &me = self();
    if (running->early && !me.waited_for_kernels && failure.empty())
      failure = "a thread of a kernel that may start early ended without waiting for the kernels ahead";
    Fiber *fiber = me.fiber;
    state_of(me) = State::DONE;
    me.fiber = nullptr;
    live--;
    Thread *next = next_runnable();
    if (next && state_of(*next) == State::UNSTARTED) {
      state_of(*next) = State::RUNNABLE;
      next->fiber = fiber;
      tb_cpu_current = next;
      continue;
    }
    pool.recycle(fiber, false);
    leave(*fiber, next, true);
  }
}

/* ---- a block ---- */

void prepare_threads(Extent size) {
  thread_count = live = static_cast<unsigned>(size.count());
  at_barrier = cursor = 0;
  copies_behind.clear();
  std::fill_n(states, thread_count, State::UNSTARTED);
  for (Warp &w : warps) w.present = w.arrived = 0;
  unsigned i = 0;
  for (unsigned z = 0; z < size.z; ++z)
    for (unsigned y = 0; y < size.y; ++y)
      for (unsigned x = 0; x < size.x; ++x, ++i) {
        Thread &t = threads[i];
        t.index = {x, y, z};
        t.number = i;
        t.fiber = nullptr;
        t.copies.clear();
        t.groups = 0;
        t.waited_for_kernels = false;
        order[i] = &t;
        warps[i / LANES].present |= 1u << i % LANES;
      }
  if (shuffle_seed)
    for (unsigned last = thread_count; last > 1; --last) std::swap(order[last - 1], order[random_bits() % last]);
}

void prepare_shared_memory() {
  fill_with_poison(fake_cuda_shared_start, static_cast<size_t>(fake_cuda_shared_end - fake_cuda_shared_start));
  fill_with_poison(dynamic_shared, dynamic_shared_bytes);
}

std::string where() {
  return " in block (" + std::to_string(tb_cpu_block_index.x) + ", " + std::to_string(tb_cpu_block_index.y) + ", " +
         std::to_string(tb_cpu_block_index.z) + ") of " + running->kernel->name;
}

void explain_standstill() {
  unsigned waiting = 0, warp_waiting = 0, mbarrier_waiting = 0;
  for (unsigned i = 0; i < thread_count; ++i) {
    waiting += states[i] == State::AT_BARRIER;
    warp_waiting += states[i] == State::AT_WARP_BARRIER;
    mbarrier_waiting += states[i] == State::AT_MBARRIER;
  }
  failure = std::to_string(waiting) + " threads wait at __syncthreads, " + std::to_string(warp_waiting) +
            " at a warp barrier and " + std::to_string(mbarrier_waiting) +
            " at one in shared memory for threads that never come (" + std::to_string(thread_count - live) +
            " have returned)";
}

bool run_block() {
  prepare_threads(running->threads);
  prepare_shared_memory();
  leave(os_thread, next_runnable(), false);
  if (failure.empty() && live > 0) explain_standstill();
  if (failure.empty()) return true;
  failure += where();
  for (unsigned i = 0; i < thread_count; ++i)
    if (threads[i].fiber) pool.recycle(threads[i].fiber, true);
  return false;
}

/* Its own allocation of exactly that size, so that a sanitizer sees the end. Equal launches share it. */
bool prepare_dynamic_shared(size_t bytes) {
  if (dynamic_shared && bytes == dynamic_shared_bytes) return true;
  free(dynamic_shared);
  dynamic_shared_bytes = bytes;
  if (posix_memalign(&dynamic_shared, 1024, bytes) == 0) return true;
  dynamic_shared = nullptr;
  return false;
}

/* Visits 0 .. count-1 in an order without pattern for a kernel: steps of a length that has no divisor with count. */
struct BlockOrder {
  uint64_t count, step, at;
  explicit BlockOrder(uint64_t count_) : count(count_), step(1), at(0) {
    if (!shuffle_seed) return;
    at = random_bits() % count;
    do step = random_bits() % count + 1;
    while (std::gcd(step, count) != 1);
  }
  uint64_t next() {
    const uint64_t now = at;
    at = at + step < count ? at + step : at + step - count;
    return now;
  }
};

} // namespace

std::string run_grid(const Grid &grid) {
  failure.clear();
  if (!prepare_dynamic_shared(grid.dynamic_shared_bytes)) return "no memory for dynamic shared memory";
  running = &grid;
  tb_cpu_grid_dim = dim3(grid.blocks.x, grid.blocks.y, grid.blocks.z);
  tb_cpu_block_dim = dim3(grid.threads.x, grid.threads.y, grid.threads.z);
  BlockOrder block_order(grid.blocks.count());
  const uint64_t blocks = std::min(grid.blocks.count(), grid.most_blocks);
  for (uint64_t i = 0; i < blocks; ++i) {
    const uint64_t block = block_order.next(), layer = uint64_t{grid.blocks.x} * grid.blocks.y;
    tb_cpu_block_index = {static_cast<unsigned>(block % grid.blocks.x),
                          static_cast<unsigned>(block % layer / grid.blocks.x), static_cast<unsigned>(block / layer)};
    blocks_done++;
    if (!run_block()) break;
  }
  return failure;
}

void set_shuffle(uint64_t seed) { shuffle_seed = random_state = seed; }

uint64_t blocks_run() { return blocks_done; }

} // namespace fake

/* ---- what kernels call ---- */

using namespace fake;

void tb_cpu_barrier() {
  if (++at_barrier < thread_count) {
    state_of(self()) = State::AT_BARRIER;
    give_way();
    return;
  }
  at_barrier = 0;
  std::fill_n(states, thread_count, State::RUNNABLE);
}

void tb_cpu_warp_barrier(unsigned mask) {
  Thread &me = self();
  Warp &warp = warps[me.number / LANES];
  const unsigned first = me.number / LANES * LANES, bit = 1u << me.number % LANES;
  mask &= warp.present;
  if (!(mask & bit)) return fail_launch("a thread waits at a warp barrier whose mask does not name it");
  for (unsigned lane = 0; lane < LANES; ++lane)
    if ((warp.arrived & mask) >> lane & 1 && threads[first + lane].warp_mask != mask)
      return fail_launch("threads of a warp wait at a warp barrier with different masks");
  warp.arrived |= bit;
  me.warp_mask = mask;
  if ((warp.arrived & mask) != mask) {
    state_of(me) = State::AT_WARP_BARRIER;
    give_way();
    return;
  }
  warp.arrived &= ~mask;
  for (unsigned lane = 0; lane < LANES; ++lane)
    if (mask >> lane & 1) states[first + lane] = State::RUNNABLE;
}

void tb_cpu_wait_for_earlier_kernels() { self().waited_for_kernels = true; }

unsigned tb_cpu_lane() { return self().number % LANES; }

void *tb_cpu_lane_slot(unsigned lane) { return warps[self().number / LANES].slots[lane]; }

void *tb_cpu_dynamic_shared() { return dynamic_shared; }

/* Kernels make these by the million: a constant size is one instruction. */
static void copy_small(void *dst, const void *src, unsigned bytes) {
  if (bytes == 4)
    std::memcpy(dst, src, 4);
  else if (bytes == 8)
    std::memcpy(dst, src, 8);
  else
    std::memcpy(dst, src, 16);
}

static bool is_shared(const void *p, size_t bytes) {
  const char *const start = static_cast<const char *>(p), *const dynamic = static_cast<const char *>(dynamic_shared);
  return (start >= fake_cuda_shared_start && start + bytes <= fake_cuda_shared_end) ||
         (start >= dynamic && start + bytes <= dynamic + dynamic_shared_bytes);
}

void tb_cpu_cp_async(void *dst_shared, const void *src_global, unsigned bytes, unsigned src_bytes_valid) {
  const uintptr_t addresses = reinterpret_cast<uintptr_t>(dst_shared) | reinterpret_cast<uintptr_t>(src_global);
  if ((bytes != 4 && bytes != 8 && bytes != 16) || src_bytes_valid > bytes)
    return fail_launch("cp.async of a size that does not exist");
  if (addresses & (bytes - 1)) return fail_launch("cp.async with a misaligned address");
  if (!is_shared(dst_shared, bytes)) return fail_launch("cp.async to an address that is not in shared memory");
  static constexpr uint64_t nothing_yet[2] = {POISON * 0x0001000100010001u, POISON * 0x0001000100010001u};
  copy_small(dst_shared, nothing_yet, bytes);
  Thread &me = self();
  me.copies.push_back({dst_shared, src_global, bytes, src_bytes_valid, me.groups});
}

void tb_cpu_cp_async_commit() { self().groups++; }

static void finish_copy(const AsyncCopy &c) {
  if (c.valid_bytes == c.bytes) {
    copy_small(c.dst, c.src, c.bytes);
  } else {
    std::memcpy(c.dst, c.src, c.valid_bytes);
    std::memset(static_cast<char *>(c.dst) + c.valid_bytes, 0, c.bytes - c.valid_bytes);
  }
}

void tb_cpu_cp_async_wait(unsigned n) {
  Thread &me = self();
  size_t done = 0;
  for (; done < me.copies.size() && me.copies[done].group + n < me.groups; ++done) finish_copy(me.copies[done]);
  me.copies.erase(me.copies.begin(), me.copies.begin() + static_cast<std::ptrdiff_t>(done));
}

static Mbarrier load_mbarrier(const uint64_t *barrier) {
  Mbarrier b = {};
  if (!is_shared(barrier, sizeof b)) {
    fail_launch("a barrier that is not in shared memory");
    return b;
  }
  std::memcpy(&b, barrier, sizeof b);
  if (b.mark != MBARRIER_MARK) fail_launch("a barrier in shared memory that was not initialised");
  return b;
}

void tb_cpu_mbarrier_init(uint64_t *barrier, unsigned arrivals) {
  if (!is_shared(barrier, sizeof *barrier)) return fail_launch("a barrier that is not in shared memory");
  const uint16_t count = static_cast<uint16_t>(arrivals);
  const Mbarrier b = {MBARRIER_MARK, count, count, 0};
  std::memcpy(barrier, &b, sizeof b);
}

void tb_cpu_mbarrier_arrive(uint64_t *barrier) {
  Mbarrier b = load_mbarrier(barrier);
  if (--b.left == 0) {
    b.left = b.arrivals;
    b.phase++;
    for (CopiesBehind &behind : copies_behind) {
      if (behind.barrier != barrier) continue;
      for (const AsyncCopy &c : behind.copies) finish_copy(c);
    }
    const auto is_done = [=](const CopiesBehind &behind) { return behind.barrier == barrier; };
    copies_behind.erase(std::remove_if(copies_behind.begin(), copies_behind.end(), is_done), copies_behind.end());
    for (unsigned i = 0; i < thread_count; ++i)
      if (states[i] == State::AT_MBARRIER && threads[i].waits_for == barrier) states[i] = State::RUNNABLE;
  }
  std::memcpy(barrier, &b, sizeof b);
}

void tb_cpu_mbarrier_arrive_behind_copies(uint64_t *barrier) {
  copies_behind.push_back({barrier, std::move(self().copies)});
  self().copies.clear();
  tb_cpu_mbarrier_arrive(barrier);
}

void tb_cpu_mbarrier_wait(uint64_t *barrier, unsigned parity) {
  while ((load_mbarrier(barrier).phase & 1) == parity) {
    state_of(self()) = State::AT_MBARRIER;
    self().waits_for = barrier;
    give_way();
  }
}
