/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous copies into shared memory (cp.async), and barriers in shared memory (mbarrier): what kernels call by
 * cuda_on_cpu.h. A copy is remembered when it is asked for, and done where a GPU guarantees it. As in grid.cpp,
 * everything here is global.
 */
#include "async.h"

#include <algorithm>

#include "poison.h"

namespace fake {
namespace {

/* What stands in the eight bytes of a barrier. */
struct Mbarrier {
  uint16_t mark, arrivals, left; /* MBARRIER_MARK; of a whole phase; until this one ends */
  uint16_t phase;                /* counts up; its last bit is the parity */
};
static_assert(sizeof(Mbarrier) == sizeof(uint64_t), "it fits where a kernel keeps it");
constexpr uint16_t MBARRIER_MARK = 0x6d62;
static_assert(MBARRIER_MARK != POISON, "what nobody wrote is no barrier");

/* Copies that are done when the barrier's phase ends. */
struct CopiesBehind {
  const uint64_t *barrier;
  std::vector<AsyncCopy> copies;
};

/* One for each address that ever was such a barrier's, so that a phase allocates nothing. Never destroyed. */
std::vector<CopiesBehind> &copies_behind = *new std::vector<CopiesBehind>;

std::vector<AsyncCopy> &copies_behind_barrier(const uint64_t *barrier) {
  for (CopiesBehind &behind : copies_behind)
    if (behind.barrier == barrier) return behind.copies;
  copies_behind.push_back({barrier, {}});
  return copies_behind.back().copies;
}

/* Kernels make these by the million: a constant size is one instruction. */
void copy_small(void *dst, const void *src, unsigned bytes) {
  if (bytes == 4)
    std::memcpy(dst, src, 4);
  else if (bytes == 8)
    std::memcpy(dst, src, 8);
  else
    std::memcpy(dst, src, 16);
}

void finish_copy(const AsyncCopy &c) {
  if (c.valid_bytes == c.bytes) {
    copy_small(c.dst, c.src, c.bytes);
  } else {
    std::memcpy(c.dst, c.src, c.valid_bytes);
    std::memset(static_cast<char *>(c.dst) + c.valid_bytes, 0, c.bytes - c.valid_bytes);
  }
}

/* What is wrong with the place; null when a barrier may stand there. */
const char *wrong_place(const uint64_t *barrier) {
  if (reinterpret_cast<uintptr_t>(barrier) % sizeof *barrier != 0) return "a misaligned barrier";
  return shared_memory().holds(barrier, sizeof *barrier) ? nullptr : "a barrier that is not in shared memory";
}

Mbarrier load_mbarrier(const uint64_t *barrier) {
  Mbarrier b = {};
  if (const char *wrong = wrong_place(barrier)) {
    fail_launch(wrong);
    return b;
  }
  std::memcpy(&b, barrier, sizeof b);
  if (b.mark != MBARRIER_MARK) fail_launch("a barrier in shared memory that was not initialised");
  return b;
}

} // namespace

void forget_async_copies() {
  for (CopiesBehind &behind : copies_behind) behind.copies.clear();
}

std::string describe_wait(const Thread &t) {
  const SharedMemory shared = shared_memory();
  const bool dynamic = shared.dynamic.holds(t.waits_for, sizeof *t.waits_for);
  const char *const start = dynamic ? shared.dynamic.start : shared.fixed.start;
  Mbarrier b;
  std::memcpy(&b, t.waits_for, sizeof b);
  return "; thread " + std::to_string(t.number) + " waits at byte " +
         std::to_string(reinterpret_cast<const char *>(t.waits_for) - start) +
         (dynamic ? " of the dynamic" : " of the static") + " shared memory, whose phase " + std::to_string(b.phase) +
         " lacks " + std::to_string(b.left) + " of " + std::to_string(b.arrivals) + " arrivals";
}

} // namespace fake

using namespace fake;

void tb_cpu_cp_async(void *dst_shared, const void *src_global, unsigned bytes, unsigned src_bytes_valid) {
  const uintptr_t addresses = reinterpret_cast<uintptr_t>(dst_shared) | reinterpret_cast<uintptr_t>(src_global);
  if ((bytes != 4 && bytes != 8 && bytes != 16) || src_bytes_valid > bytes)
    return fail_launch("cp.async of a size that does not exist");
  if (addresses & (bytes - 1)) return fail_launch("cp.async with a misaligned address");
  if (!shared_memory().holds(dst_shared, bytes))
    return fail_launch("cp.async to an address that is not in shared memory");
  static constexpr uint64_t nothing_yet[2] = {POISON * 0x0001000100010001u, POISON * 0x0001000100010001u};
  copy_small(dst_shared, nothing_yet, bytes);
  Thread &me = self();
  me.copies.push_back({dst_shared, src_global, bytes, src_bytes_valid, me.groups});
}

void tb_cpu_cp_async_commit() { self().groups++; }

void tb_cpu_cp_async_wait(unsigned n) {
  Thread &me = self();
  size_t done = 0;
  for (; done < me.copies.size() && me.copies[done].group + n < me.groups; ++done) finish_copy(me.copies[done]);
  me.copies.erase(me.copies.begin(), me.copies.begin() + static_cast<std::ptrdiff_t>(done));
}

void tb_cpu_mbarrier_init(uint64_t *barrier, unsigned arrivals) {
  if (const char *wrong = wrong_place(barrier)) return fail_launch(wrong);
  if (arrivals < 1 || arrivals > UINT16_MAX) return fail_launch("a barrier for a number of arrivals that cannot be");
  Mbarrier b;
  std::memcpy(&b, barrier, sizeof b);
  if (b.mark == MBARRIER_MARK) return fail_launch("a barrier in shared memory that is initialised twice");
  const uint16_t count = static_cast<uint16_t>(arrivals);
  b = {MBARRIER_MARK, count, count, 0};
  std::memcpy(barrier, &b, sizeof b);
}

void tb_cpu_mbarrier_arrive(uint64_t *barrier) {
  Mbarrier b = load_mbarrier(barrier);
  if (--b.left == 0) {
    b.left = b.arrivals;
    b.phase++;
    std::vector<AsyncCopy> &copies = copies_behind_barrier(barrier);
    for (const AsyncCopy &c : copies) finish_copy(c);
    copies.clear();
    for (unsigned i = 0; i < thread_count; ++i)
      if (states[i] == State::AT_MBARRIER && threads[i].waits_for == barrier) states[i] = State::RUNNABLE;
  }
  std::memcpy(barrier, &b, sizeof b);
}

void tb_cpu_mbarrier_arrive_behind_copies(uint64_t *barrier) {
  load_mbarrier(barrier); /* fails before anything is remembered for what is no barrier */
  std::vector<AsyncCopy> &mine = self().copies, &behind = copies_behind_barrier(barrier);
  behind.insert(behind.end(), mine.begin(), mine.end());
  mine.clear();
  tb_cpu_mbarrier_arrive(barrier);
}

void tb_cpu_mbarrier_wait(uint64_t *barrier, unsigned parity) {
  const uint16_t phase = load_mbarrier(barrier).phase;
  if (parity > 1) return fail_launch("a wait for a parity other than 0 and 1");
  if ((phase & 1u) != parity) return;
  state_of(self()) = State::AT_MBARRIER;
  self().waits_for = barrier;
  give_way();
  /* On a GPU it might now wait for ever, or not: by its one bit of parity it cannot tell this phase from its own. */
  if (load_mbarrier(barrier).phase != static_cast<uint16_t>(phase + 1))
    fail_launch("a barrier in shared memory goes through two phases before a thread that waits for the first has run");
}
