/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous copies into shared memory (cp.async), and barriers in shared memory (mbarrier): what kernels call by
 * cuda_on_cpu.h. A copy is remembered when it is asked for, and done where a GPU guarantees it. As in grid.cpp,
 * everything here is global.
 */
#include "async.h"

#include <algorithm>

#include "poison.h"
#include "races.h"
#include "tensor_map.h"

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

struct BulkCopy {
  void *dst;
  const void *src;
  uint64_t bytes, zero_bytes; /* of src; and behind them */
};

/* Copies that count for a barrier's phase, and the bytes that it waits for beyond them: fewer than none while copies
 * are ahead of those who expect them. */
struct Transfers {
  const uint64_t *barrier;
  std::vector<BulkCopy> copies;
  int64_t missing_bytes;
};

/* One for each address that ever was such a barrier's, so that a phase allocates nothing. Never destroyed. */
std::vector<Transfers> &all_transfers = *new std::vector<Transfers>;

Transfers &transfers_of(const uint64_t *barrier) {
  for (Transfers &t : all_transfers)
    if (t.barrier == barrier) return t;
  all_transfers.push_back({barrier, {}, 0});
  return all_transfers.back();
}

/* Copies that are done make room so many at once: what is left moves, under a sanitizer byte by byte. */
constexpr size_t FORGOTTEN_TOGETHER = 64;

/* Kernels make these by the million: a load and a store, which a sanitizer looks at as such. Its memcpy is a call. */
void copy_small(void *dst, const void *src, unsigned bytes) {
  typedef uint64_t Two __attribute__((vector_size(16), may_alias));
  typedef uint64_t One __attribute__((may_alias));
  typedef uint32_t Half __attribute__((may_alias));
  if (bytes == 16)
    *static_cast<Two *>(dst) = *static_cast<const Two *>(src);
  else if (bytes == 8)
    *static_cast<One *>(dst) = *static_cast<const One *>(src);
  else
    *static_cast<Half *>(dst) = *static_cast<const Half *>(src);
}

void finish_copy(const AsyncCopy &c) {
  races_copy_ends(c.dst, c.bytes, nullptr);
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
  return shared_memory(*self().block).holds(barrier, sizeof *barrier) ? nullptr
                                                                      : "a barrier that is not in shared memory";
}

/* Of any block. */
Mbarrier read_mbarrier(const uint64_t *barrier) {
  Mbarrier b;
  std::memcpy(&b, barrier, sizeof b);
  if (b.mark != MBARRIER_MARK) fail_launch("a barrier in shared memory that was not initialised");
  return b;
}

Mbarrier load_mbarrier(const uint64_t *barrier) {
  if (const char *wrong = wrong_place(barrier)) fail_launch(wrong);
  return read_mbarrier(barrier);
}

/*
 * What stands in the cluster's block `rank` where `here` points to in the running thread's. Fails the launch where a
 * GPU would reach who knows whose memory.
 */
template <class T> T *in_block(unsigned rank, T *here, size_t bytes) {
  const Block &mine = *self().block;
  const SharedMemory shared = shared_memory(mine);
  if (rank >= block_count) fail_launch("an arrival at, a copy to or a read of a block that the cluster does not have");
  if (!shared.dynamic.holds(here, bytes))
    fail_launch(shared.fixed.holds(here, bytes)
                    ? "an arrival at, a copy to or a read of static shared memory of another block"
                    : "an arrival at, a copy to or a read of what is not in shared memory");
  const Block &other = blocks[rank];
  if (other.live == 0) fail_launch("an arrival at, a copy to or a read of a block that has ended");
  if (rank != mine.rank && !cluster_has_met())
    fail_launch("an arrival at, a copy to or a read of a block that may not have begun");
  const std::ptrdiff_t offset = reinterpret_cast<const char *>(here) - shared.dynamic.start;
  return reinterpret_cast<T *>(static_cast<char *>(other.dynamic_shared) + offset);
}

/* Only threads of its own block can wait for it. */
bool is_waited_for(const uint64_t *barrier, const Block &block) {
  for (unsigned i = block.first; i < block.first + block.size; ++i)
    if (states[i] == State::AT_MBARRIER && threads[i].waits_for == barrier) return true;
  return false;
}

/*
 * Ends the phase when everybody has arrived and every byte is accounted for. Bulk copies take their time: a phase with
 * some ends, and they are done, not before somebody waits for it.
 */
void end_phase(uint64_t *barrier, const Block &block, bool waited_for) {
  Mbarrier b = read_mbarrier(barrier);
  Transfers &transfers = transfers_of(barrier);
  if (b.left != 0 || transfers.missing_bytes != 0) return;
  if (!transfers.copies.empty() && !waited_for && !is_waited_for(barrier, block)) return;
  for (const BulkCopy &c : transfers.copies) {
    std::memcpy(c.dst, c.src, c.bytes);
    std::memset(static_cast<char *>(c.dst) + c.bytes, 0, c.zero_bytes);
    races_copy_ends(c.dst, c.bytes + c.zero_bytes, barrier);
  }
  transfers.copies.clear();
  races_phase_ended(barrier);
  b.left = b.arrivals;
  b.phase++;
  std::memcpy(barrier, &b, sizeof b);
  for (unsigned i = block.first; i < block.first + block.size; ++i)
    if (states[i] == State::AT_MBARRIER && threads[i].waits_for == barrier) states[i] = State::RUNNABLE;
}

void arrive(uint64_t *barrier, const Block &block) {
  Mbarrier b = read_mbarrier(barrier);
  if (b.left == 0) return fail_launch("an arrival at a barrier for a phase that all have arrived for");
  b.left--;
  std::memcpy(barrier, &b, sizeof b);
  races_barrier_used(barrier);
  races_arrived(barrier);
  end_phase(barrier, block, false);
  others_may_go();
}

/* Nothing is there yet. */
void poison_target(void *dst, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += sizeof POISON)
    std::memcpy(static_cast<char *>(dst) + at, &POISON, sizeof POISON);
}

/* Notes down the copies of a box's rows. */
void note_box(const TensorMap &map, char *dst, int64_t row, std::vector<BulkCopy> &copies) {
  const uint64_t there = std::min(map.row_bytes, map.box_row_bytes), beyond = map.box_row_bytes - there;
  for (uint64_t i = 0; i < map.box_rows; ++i, ++row, dst += map.box_row_bytes) {
    const bool exists = static_cast<uint64_t>(row) < map.rows; /* below 0 it is larger than any */
    const uint64_t from = map.address + (exists ? static_cast<uint64_t>(row) * map.stride_bytes : 0);
    copies.push_back(
        {dst, reinterpret_cast<const void *>(from), exists ? there : 0, exists ? beyond : map.box_row_bytes});
  }
}

} // namespace

void forget_async_copies() {
  for (Transfers &t : all_transfers) {
    t.copies.clear();
    t.missing_bytes = 0;
  }
}

bool awaits_copies(const Block &block) {
  const SharedMemory shared = shared_memory(block);
  for (const Transfers &t : all_transfers)
    if (!t.copies.empty() && shared.holds(t.barrier, sizeof *t.barrier)) return true;
  return false;
}

std::string describe_wait(const Thread &t) {
  const SharedMemory shared = shared_memory(*t.block);
  const bool dynamic = shared.dynamic.holds(t.waits_for, sizeof *t.waits_for);
  const char *const start = dynamic ? shared.dynamic.start : shared.fixed.start;
  Mbarrier b;
  std::memcpy(&b, t.waits_for, sizeof b);
  return "; thread " + std::to_string(t.number - t.block->first) +
         (block_count > 1 ? " of the cluster's block " + std::to_string(t.block->rank) : "") + " waits at byte " +
         std::to_string(reinterpret_cast<const char *>(t.waits_for) - start) +
         (dynamic ? " of the dynamic" : " of the static") + " shared memory, whose phase " + std::to_string(b.phase) +
         " lacks " + std::to_string(b.left) + " of " + std::to_string(b.arrivals) + " arrivals and " +
         std::to_string(transfers_of(t.waits_for).missing_bytes) + " bytes";
}

} // namespace fake

using namespace fake;

void tb_cpu_cp_async(void *dst_shared, const void *src_global, unsigned bytes, unsigned src_bytes_valid) {
  const uintptr_t addresses = reinterpret_cast<uintptr_t>(dst_shared) | reinterpret_cast<uintptr_t>(src_global);
  if ((bytes != 4 && bytes != 8 && bytes != 16) || src_bytes_valid > bytes)
    return fail_launch("cp.async of a size that does not exist");
  if (addresses & (bytes - 1)) return fail_launch("cp.async with a misaligned address");
  if (!shared_memory(*self().block).holds(dst_shared, bytes))
    return fail_launch("cp.async to an address that is not in shared memory");
  static constexpr uint64_t nothing_yet[2] = {POISON * 0x0001000100010001u, POISON * 0x0001000100010001u};
  races_copy_begins(dst_shared, bytes);
  copy_small(dst_shared, nothing_yet, bytes);
  Thread &me = self();
  me.copies.emplace_back(dst_shared, src_global, me.groups, bytes, src_bytes_valid);
}

void tb_cpu_cp_async_commit() { self().groups++; }

void tb_cpu_cp_async_wait(unsigned n) {
  Thread &me = self();
  size_t &done = me.copies_done;
  for (; done < me.copies.size() && me.copies[done].group + n < me.groups; ++done) finish_copy(me.copies[done]);
  if (done == me.copies.size()) {
    me.copies.clear();
    done = 0;
  } else if (done >= FORGOTTEN_TOGETHER) {
    me.copies.erase(me.copies.begin(), me.copies.begin() + static_cast<std::ptrdiff_t>(done));
    done = 0;
  }
}

void tb_cpu_mbarrier_init(uint64_t *barrier, unsigned arrivals) {
  if (const char *wrong = wrong_place(barrier)) return fail_launch(wrong);
  if (arrivals < 1 || arrivals > UINT16_MAX) return fail_launch("a barrier for a number of arrivals that cannot be");
  Mbarrier b;
  std::memcpy(&b, barrier, sizeof b);
  if (b.mark == MBARRIER_MARK) return fail_launch("a barrier in shared memory that is initialised twice");
  const uint16_t count = static_cast<uint16_t>(arrivals);
  races_barrier_made(barrier);
  b = {MBARRIER_MARK, count, count, 0};
  std::memcpy(barrier, &b, sizeof b);
}

void tb_cpu_mbarrier_arrive(uint64_t *barrier) {
  load_mbarrier(barrier);
  arrive(barrier, *self().block);
}

void tb_cpu_mbarrier_arrive_at(uint64_t *barrier, unsigned rank) {
  if (const char *wrong = wrong_place(barrier)) return fail_launch(wrong);
  arrive(in_block(rank, barrier, sizeof *barrier), blocks[rank]);
}

const float *tb_cpu_word_at(const float *here_shared, unsigned rank) {
  return in_block(rank, here_shared, sizeof *here_shared);
}

void tb_cpu_mbarrier_expect(uint64_t *barrier, unsigned bytes) {
  load_mbarrier(barrier); /* fails before anything is remembered for what is no barrier */
  transfers_of(barrier).missing_bytes += bytes;
  tb_cpu_mbarrier_arrive(barrier);
}

void tb_cpu_bulk_copy(void *dst_shared, const void *src_global, unsigned bytes, uint64_t *barrier) {
  const uintptr_t addresses = reinterpret_cast<uintptr_t>(dst_shared) | reinterpret_cast<uintptr_t>(src_global);
  if (bytes % 16 != 0) return fail_launch("a bulk copy of what is no multiple of 16 bytes");
  if (addresses % 16 != 0) return fail_launch("a bulk copy with a misaligned address");
  if (!shared_memory(*self().block).holds(dst_shared, bytes))
    return fail_launch("a bulk copy to an address that is not in shared memory");
  load_mbarrier(barrier);
  races_barrier_used(barrier);
  races_copy_begins(dst_shared, bytes);
  poison_target(dst_shared, bytes);
  Transfers &transfers = transfers_of(barrier);
  transfers.copies.push_back({dst_shared, src_global, bytes, 0});
  transfers.missing_bytes -= bytes;
  end_phase(barrier, *self().block, false);
}

void tb_cpu_box_copy(void *dst_shared, const void *map_at, int row, uint64_t *barrier, unsigned ranks) {
  if (reinterpret_cast<uintptr_t>(map_at) % TENSOR_MAP_ALIGNMENT != 0) return fail_launch("a misaligned tensor map");
  TensorMap map;
  std::memcpy(&map, map_at, sizeof map);
  if (!is_tensor_map(map)) return fail_launch("a tensor map that cuTensorMapEncodeTiled did not make");
  if (reinterpret_cast<uintptr_t>(dst_shared) % 128 != 0) return fail_launch("a copy of a box to a misaligned address");
  if (ranks == 0) return fail_launch("a copy of a box to no block");
  if (const char *wrong = wrong_place(barrier)) return fail_launch(wrong);
  const uint64_t bytes = map.box_rows * map.box_row_bytes;
  for (unsigned rank = 0; ranks >> rank != 0; ++rank) {
    if (!(ranks >> rank & 1)) continue;
    char *const dst = in_block(rank, static_cast<char *>(dst_shared), bytes);
    uint64_t *const counts = in_block(rank, barrier, sizeof *barrier);
    races_barrier_used(counts);
    races_copy_begins(dst, bytes);
    poison_target(dst, bytes);
    Transfers &transfers = transfers_of(counts);
    note_box(map, dst, row, transfers.copies);
    transfers.missing_bytes -= static_cast<int64_t>(bytes);
    end_phase(counts, blocks[rank], false);
  }
}

void tb_cpu_mbarrier_wait(uint64_t *barrier, unsigned parity) {
  if (parity > 1) return fail_launch("a wait for a parity other than 0 and 1");
  load_mbarrier(barrier);
  races_barrier_used(barrier);
  end_phase(barrier, *self().block, true);
  const uint16_t phase = load_mbarrier(barrier).phase;
  if ((phase & 1u) != parity) return races_waited(barrier);
  state_of(self()) = State::AT_MBARRIER;
  self().waits_for = barrier;
  give_way();
  /* On a GPU it might now wait for ever, or not: by its one bit of parity it cannot tell this phase from its own. */
  if (load_mbarrier(barrier).phase != static_cast<uint16_t>(phase + 1))
    fail_launch("a barrier in shared memory goes through two phases before a thread that waits for the first has run");
  races_waited(barrier);
}
