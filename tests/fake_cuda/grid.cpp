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

#include "async.h"
#include "block.h"
#include "poison.h"

tb_cpu_thread *tb_cpu_current;
dim3 tb_cpu_block_dim, tb_cpu_grid_dim;
uint3 tb_cpu_block_index;

/* The kernels' static shared memory, gathered by shared_memory.ld. */
extern "C" char fake_cuda_shared_start[], fake_cuda_shared_end[];

namespace fake {

/* Objects with destructors are never destroyed: another thread may be here while the process ends. */
Thread *const threads = new Thread[MOST_THREADS];
State states[MOST_THREADS];
unsigned thread_count;

namespace {

constexpr unsigned LANE_SLOT_BYTES = 16, WHOLE_WARP = 0xffffffffu;

struct Warp {
  unsigned present, arrived; /* bits of lanes */
  unsigned last_mask;        /* of the thread that arrived last */
  alignas(16) char slots[LANES][LANE_SLOT_BYTES];
};

FiberPool &pool = *new FiberPool;
Fiber os_thread;
Thread *order[MOST_THREADS];
Warp warps[MOST_THREADS / LANES];
unsigned live, at_barrier, cursor;
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
  forget_async_copies();
  std::fill_n(states, thread_count, State::UNSTARTED);
  for (Warp &w : warps) w.present = w.arrived = w.last_mask = 0;
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
  std::string first;
  for (unsigned i = 0; i < thread_count; ++i) {
    waiting += states[i] == State::AT_BARRIER;
    warp_waiting += states[i] == State::AT_WARP_BARRIER;
    mbarrier_waiting += states[i] == State::AT_MBARRIER;
    if (states[i] == State::AT_MBARRIER && first.empty()) first = describe_wait(threads[i]);
  }
  failure = std::to_string(waiting) + " threads wait at __syncthreads, " + std::to_string(warp_waiting) +
            " at a warp barrier and " + std::to_string(mbarrier_waiting) +
            " at one in shared memory for threads that never come (" + std::to_string(thread_count - live) +
            " have returned" + first + ")";
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

void give_way() {
  Thread &me = self();
  leave(*me.fiber, next_runnable(), false);
}

void fail_launch(const char *why) {
  failure = why;
  leave(*self().fiber, nullptr, false);
}

SharedMemory shared_memory() {
  return {{fake_cuda_shared_start, static_cast<size_t>(fake_cuda_shared_end - fake_cuda_shared_start)},
          {static_cast<char *>(dynamic_shared), dynamic_shared_bytes}};
}

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
  /* Whoever came last with this mask looked at those who had come before. */
  for (unsigned lane = 0; warp.last_mask != mask && lane < LANES; ++lane)
    if ((warp.arrived & mask) >> lane & 1 && threads[first + lane].warp_mask != mask)
      return fail_launch("threads of a warp wait at a warp barrier with different masks");
  warp.arrived |= bit;
  warp.last_mask = me.warp_mask = mask;
  if ((warp.arrived & mask) != mask) {
    state_of(me) = State::AT_WARP_BARRIER;
    give_way();
    return;
  }
  warp.arrived &= ~mask;
  if (mask == WHOLE_WARP)
    std::fill_n(states + first, LANES, State::RUNNABLE);
  else
    for (unsigned lane = 0; lane < LANES; ++lane)
      if (mask >> lane & 1) states[first + lane] = State::RUNNABLE;
}

void tb_cpu_wait_for_earlier_kernels() { self().waited_for_kernels = true; }

unsigned tb_cpu_lane() { return self().number % LANES; }

void *tb_cpu_lane_slot(unsigned lane) { return warps[self().number / LANES].slots[lane]; }

void *tb_cpu_dynamic_shared() { return dynamic_shared; }
