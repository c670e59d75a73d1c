/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a grid of a kernel on the CPU, see grid.h, and answers what kernels ask of their block (cuda_on_cpu.h).
 *
 * Everything here is global: the kernels read threadIdx and the like from globals, static shared memory is static
 * variables, and one block runs at a time, or the blocks of one cluster.
 */
#include "grid.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "async.h"
#include "block.h"
#include "poison.h"
#include "races.h"
#include "turns.h"

tb_cpu_thread *tb_cpu_current;
dim3 tb_cpu_block_dim, tb_cpu_grid_dim;
uint3 tb_cpu_block_index;

namespace fake {

/* Objects with destructors are never destroyed: another thread may be here while the process ends. */
Block blocks[MOST_BLOCKS];
unsigned block_count;
Thread *const threads = new Thread[MOST_THREADS];
State states[MOST_THREADS];
SharedMemory::Part static_shared;
size_t dynamic_shared_bytes;

namespace {

constexpr unsigned WHOLE_WARP = 0xffffffffu;

struct Warp {
  unsigned present, arrived; /* bits of lanes */
  unsigned last_mask;        /* of the thread that arrived last */
  alignas(16) char slots[LANES][TB_CPU_LANE_BYTES];
};

FiberPool &pool = *new FiberPool;
Fiber os_thread;
Warp warps[MOST_THREADS / LANES];
unsigned live, at_meeting; /* of all blocks together */
bool shares;               /* of those at the meeting, whether they share what they have written */
bool has_met;
const Grid *running;
std::string &failure = *new std::string;
uint64_t blocks_done;

/* ---- from one thread to another ---- */

void thread_main();

void make_current(Thread &t) {
  tb_cpu_current = &t;
  if (block_count > 1) tb_cpu_block_index = t.block->index;
}

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
  if (t) make_current(*t);
  fiber_switch(from, t ? *t->fiber : os_thread, last);
}

std::string where() {
  return " in block (" + std::to_string(tb_cpu_block_index.x) + ", " + std::to_string(tb_cpu_block_index.y) + ", " +
         std::to_string(tb_cpu_block_index.z) + ") of " + running->kernel->name;
}

void fail_here(const std::string &why) {
  if (failure.empty()) failure = why + where();
}

/* Lets everybody go who waits for the cluster, when nobody is left who might still come. */
void end_meeting() {
  if (at_meeting < live) return;
  at_meeting = 0;
  has_met = true;
  races_cluster_met(shares);
  for (unsigned i = 0; i < thread_count; ++i)
    if (state_of(turn_taker(i)) == State::AT_MEETING) state_of(turn_taker(i)) = State::RUNNABLE;
  shares = true;
}

/* What ends with the running thread. */
void thread_ends() {
  Thread &me = self();
  if (running->early && !me.waited_for_kernels)
    fail_here("a thread of a kernel that may start early ended without waiting for the kernels ahead");
  state_of(me) = State::DONE;
  me.fiber = nullptr;
  live--;
  if (--me.block->live == 0 && awaits_copies(*me.block))
    fail_here("a block ended while bulk copies to it were on their way");
  if (at_meeting > 0) end_meeting();
}

/* A fiber runs one thread after another as long as the next one has not begun: most kernels' tails need no switch. */
void thread_main() {
  fiber_entered();
  for (;;) {
    running->kernel->invoke(running->parameters);
    Fiber *fiber = self().fiber;
    thread_ends();
    Thread *next = next_turn();
    if (next && state_of(*next) == State::UNSTARTED) {
      state_of(*next) = State::RUNNABLE;
      next->fiber = fiber;
      make_current(*next);
      continue;
    }
    pool.recycle(fiber, false);
    leave(*fiber, next, true);
  }
}

/* ---- a block, or the blocks of a cluster ---- */

void prepare_thread(Thread &t, Block &block, uint3 index, unsigned number) {
  t.index = index;
  t.block = &block;
  t.number = number;
  t.lane = number % LANES;
  t.slots = warps[number / LANES].slots;
  t.fiber = nullptr;
  t.copies.clear();
  t.copies_done = 0;
  t.groups = 0;
  t.waited_for_kernels = false;
  warps[number / LANES].present |= 1u << number % LANES;
  takes_turns(t);
}

void prepare_threads(Extent size) {
  const unsigned in_block = static_cast<unsigned>(size.count()), apart = (in_block + LANES - 1) / LANES * LANES;
  forget_turns();
  at_meeting = 0;
  shares = true;
  has_met = false;
  forget_async_copies();
  std::fill_n(states, block_count * apart, State::UNSTARTED);
  for (unsigned i = 0; i < block_count * apart / LANES; ++i)
    warps[i].present = warps[i].arrived = warps[i].last_mask = 0;
  for (unsigned rank = 0; rank < block_count; ++rank) {
    Block &block = blocks[rank];
    unsigned number = block.first = rank * apart;
    block.rank = rank;
    block.size = block.live = in_block;
    block.at_barrier = 0;
    for (auto &part : block.parts) part = {0, 0};
    block.vote = block.verdict = 0;
    for (unsigned z = 0; z < size.z; ++z)
      for (unsigned y = 0; y < size.y; ++y)
        for (unsigned x = 0; x < size.x; ++x, ++number) prepare_thread(threads[number], block, {x, y, z}, number);
  }
  live = thread_count;
  order_turns();
  races_begin();
}

void prepare_shared_memory() {
  fill_with_poison(static_shared.start, static_shared.bytes);
  for (unsigned rank = 0; rank < block_count; ++rank)
    fill_with_poison(blocks[rank].dynamic_shared, dynamic_shared_bytes);
}

/* Who waits, and of each block what one of those lacks that wait in shared memory. */
void explain_standstill() {
  unsigned in_state[static_cast<size_t>(State::DONE) + 1] = {};
  std::string lacking;
  const Block *explained = nullptr;
  for (unsigned rank = 0; rank < block_count; ++rank)
    for (unsigned i = blocks[rank].first; i < blocks[rank].first + blocks[rank].size; ++i) {
      in_state[static_cast<size_t>(states[i])]++;
      if (states[i] != State::AT_MBARRIER || explained == &blocks[rank]) continue;
      lacking += describe_wait(threads[i]);
      explained = &blocks[rank];
    }
  const auto count = [&in_state](State state) { return std::to_string(in_state[static_cast<size_t>(state)]); };
  tb_cpu_block_index = blocks[0].index;
  const bool parts = in_state[static_cast<size_t>(State::AT_PART_BARRIER)] > 0;
  fail_here(count(State::AT_BARRIER) + " threads wait at __syncthreads, " +
            (parts ? count(State::AT_PART_BARRIER) + " at a part's barrier, " : "") + count(State::AT_WARP_BARRIER) +
            " at a warp barrier" + (block_count > 1 ? ", " + count(State::AT_MEETING) + " for their cluster" : "") +
            " and " + count(State::AT_MBARRIER) + " at one in shared memory for threads that never come (" +
            count(State::DONE) + " have returned" + lacking + ")");
}

/* Runs what `blocks` names. */
bool run_blocks() {
  prepare_threads(running->threads);
  prepare_shared_memory();
  leave(os_thread, next_turn(), false);
  if (failure.empty() && live > 0) explain_standstill();
  if (block_count > 1 && !is_all_poison(static_shared.start, static_shared.bytes))
    fail_here("static shared memory is written, which the blocks of a cluster have together here");
  if (failure.empty()) return true;
  for (unsigned i = 0; i < thread_count; ++i)
    if (turn_taker(i).fiber) pool.recycle(turn_taker(i).fiber, true);
  return false;
}

/* Each block's is an allocation of exactly that size, so that a sanitizer sees the end. Equal launches share it. */
bool prepare_dynamic_shared(size_t bytes) {
  for (Block &block : blocks)
    if (bytes != dynamic_shared_bytes) free(block.dynamic_shared), block.dynamic_shared = nullptr;
  dynamic_shared_bytes = bytes;
  for (unsigned rank = 0; rank < block_count; ++rank) {
    void *&at = blocks[rank].dynamic_shared;
    if (!at && posix_memalign(&at, 1024, bytes) != 0) return at = nullptr, false;
  }
  return true;
}

/* Visits 0 .. count-1 in an order without pattern for a kernel: steps of a length that has no divisor with count. */
struct BlockOrder {
  uint64_t count, step, at;
  explicit BlockOrder(uint64_t count_) : count(count_), step(1), at(0) {
    if (!is_shuffled()) return;
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
  Thread &me = self(), *const next = next_turn();
  if (next != &me) leave(*me.fiber, next, false);
}

void others_may_go() {
  if (completing_gives_way()) give_way();
}

void fail_launch(const char *why) {
  fail_here(why);
  leave(*self().fiber, nullptr, false);
}

bool cluster_has_met() { return has_met; }

/* A kernel compiled for AVX leaves by a switch of stacks and not by its return, where a compiler clears the upper
 * halves of vector registers. While they hold something, the caller's SSE code takes twice as long and more. */
static void clear_upper_halves() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx")) __asm__ volatile("vzeroupper");
#endif
}

/* The `number`th of an extent. */
static uint3 place_in(const Extent &extent, uint64_t number) {
  const uint64_t layer = uint64_t{extent.x} * extent.y;
  return {static_cast<unsigned>(number % extent.x), static_cast<unsigned>(number % layer / extent.x),
          static_cast<unsigned>(number / layer)};
}

std::string run_grid(const Grid &grid) {
  failure.clear();
  const Extent &each = grid.cluster;
  const Extent clusters = {grid.blocks.x / each.x, grid.blocks.y / each.y, grid.blocks.z / each.z};
  block_count = static_cast<unsigned>(each.count());
  if (!prepare_dynamic_shared(grid.dynamic_shared_bytes)) return "no memory for dynamic shared memory";
  running = &grid;
  const StaticShared shared = static_shared_of(*grid.kernel);
  static_shared = {shared.start, static_cast<size_t>(shared.end - shared.start)};
  tb_cpu_grid_dim = dim3(grid.blocks.x, grid.blocks.y, grid.blocks.z);
  tb_cpu_block_dim = dim3(grid.threads.x, grid.threads.y, grid.threads.z);
  BlockOrder cluster_order(clusters.count());
  const uint64_t wanted = std::min(clusters.count(), grid.most_blocks / block_count);
  for (uint64_t i = 0; i < wanted; ++i) {
    const uint3 cluster = place_in(clusters, cluster_order.next());
    for (unsigned rank = 0; rank < block_count; ++rank) {
      const uint3 at = place_in(each, rank);
      blocks[rank].index = {cluster.x * each.x + at.x, cluster.y * each.y + at.y, cluster.z * each.z + at.z};
    }
    tb_cpu_block_index = blocks[0].index;
    blocks_done += block_count;
    if (!run_blocks()) break;
  }
  clear_upper_halves();
  return failure;
}

uint64_t blocks_run() { return blocks_done; }

} // namespace fake

/* ---- what kernels call ---- */

using namespace fake;

void tb_cpu_barrier() {
  Block &block = *self().block;
  if (++block.at_barrier < block.size) {
    state_of(self()) = State::AT_BARRIER;
    give_way();
    return;
  }
  block.at_barrier = 0;
  block.verdict = block.vote;
  block.vote = 0;
  races_block_met(block);
  std::fill_n(states + block.first, block.size, State::RUNNABLE);
  others_may_go();
}

void tb_cpu_part_barrier(unsigned number, unsigned wanted) {
  Thread &me = self();
  Block &block = *me.block;
  if (number == 0 || number >= PARTS || wanted == 0 || wanted % LANES != 0 || wanted > block.size)
    return fail_launch("a thread waits at a barrier of a part that no block can have");
  auto &part = block.parts[number];
  if (part.arrived > 0 && part.wanted != wanted)
    return fail_launch("threads wait at a part's barrier for different numbers of threads");
  part.wanted = wanted;
  me.part = number;
  state_of(me) = State::AT_PART_BARRIER;
  if (++part.arrived < wanted) return give_way();
  part.arrived = 0;
  races_part_met(block, number);
  for (unsigned i = block.first; i < block.first + block.size; ++i)
    if (states[i] == State::AT_PART_BARRIER && threads[i].part == number) states[i] = State::RUNNABLE;
  others_may_go();
}

int tb_cpu_barrier_or(int predicate) {
  Block &block = *self().block;
  block.vote |= predicate != 0;
  tb_cpu_barrier();
  return block.verdict; /* the next barrier does not end before this thread has come to it */
}

void tb_cpu_cluster_barrier() {
  state_of(self()) = State::AT_MEETING;
  at_meeting++;
  end_meeting();
  if (state_of(self()) == State::AT_MEETING)
    give_way();
  else
    others_may_go();
}

void tb_cpu_cluster_meeting() {
  shares = false;
  tb_cpu_cluster_barrier();
}

unsigned tb_cpu_cluster_rank() { return self().block->rank; }

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
  races_warp_met(mask);
  if (mask == WHOLE_WARP)
    std::fill_n(states + first, LANES, State::RUNNABLE);
  else
    for (unsigned lane = 0; lane < LANES; ++lane)
      if (mask >> lane & 1) states[first + lane] = State::RUNNABLE;
  others_may_go();
}

void tb_cpu_wait_for_earlier_kernels() { self().waited_for_kernels = true; }

void *tb_cpu_dynamic_shared() { return self().block->dynamic_shared; }
