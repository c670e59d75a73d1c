/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The race detector, see races.h. g++ -fsanitize=thread puts calls of __tsan_read4 and the like before a kernel's
 * accesses; these are answered here, and ThreadSanitizer's own library is not linked.
 *
 * The algorithm is FastTrack's (Flanagan and Freund 2009). Each thread counts its releases, and knows of each other
 * thread up to which count it is behind it: its clock. A word remembers who wrote it last, at which count, and who has
 * read it since. An access is a race with a former one of another thread whose count is beyond what the clock knows.
 *
 * Bulk copies write as agents, one for each barrier, which have a place in the clocks, too: who has waited for the
 * barrier is behind them, and nobody else, not even who asked for the copy.
 */
#include "races.h"

#include <algorithm>
#include <string>
#include <vector>

namespace fake {
namespace {

using Clock = uint32_t;
constexpr unsigned MOST_AGENTS = 64, WORD_BYTES = 4;

/* An access: of whom, at which of his counts. Counts begin with 1. */
struct Epoch {
  unsigned who;
  Clock count;
};

/* Lanes of a warp that read at the same count. */
struct Readers {
  unsigned warp;
  Clock count;
  unsigned lanes;
};

/* Four bytes of shared memory: kernels share none that are smaller. */
struct Word {
  uint64_t life = 0; /* of the blocks that it tells of */
  Epoch written{};
  bool written_volatile = false, copy_on_its_way = false;
  unsigned copier = 0;
  std::vector<Readers> readers;
};

struct Barrier {
  const uint64_t *at;
  std::vector<Clock> gathered, done; /* the clocks of those who arrived; and when the last phase ended */
  unsigned agent;
  Clock agent_count;
  Epoch made;
  bool shown; /* to the whole cluster */
};

/* A part of shared memory of a block, or the static one, and its words. */
struct Region {
  SharedMemory::Part part;
  std::vector<Word> *words;
  const char *name;
};

enum class Access { READ, WRITE, VOLATILE_READ, VOLATILE_WRITE, COPY };

/* Never destroyed, as in grid.cpp. */
std::vector<Word> *const words_of_parts = new std::vector<Word>[MOST_BLOCKS + 1];
std::vector<Region> &regions = *new std::vector<Region>;
std::vector<Clock> &clocks = *new std::vector<Clock>, &met = *new std::vector<Clock>;
std::vector<Barrier> &barriers = *new std::vector<Barrier>;
std::vector<std::vector<const void *>> &operands = *new std::vector<std::vector<const void *>>; /* by thread */
uint64_t life;
unsigned width, agents_from, meetings[MOST_BLOCKS];
uintptr_t lowest, highest; /* of all regions */

Clock *clock_of(unsigned thread) { return clocks.data() + size_t{thread} * width; }

void join(Clock *into, const Clock *from) {
  for (unsigned i = 0; i < width; ++i) into[i] = std::max(into[i], from[i]);
}

bool is_behind(const Clock *clock, const Epoch &e) { return e.count <= clock[e.who]; }

/* ---- who waits for whom ---- */

void gather(unsigned thread) { join(met.data(), clock_of(thread)); }

/* The thread is behind all that have been gathered, and begins a new count. */
void leave_meeting(unsigned thread) {
  Clock *const mine = clock_of(thread);
  std::copy(met.begin(), met.end(), mine);
  mine[thread]++;
}

Barrier &barrier_at(const uint64_t *at) {
  for (Barrier &b : barriers)
    if (b.at == at) return b;
  const unsigned agent = agents_from + std::min(static_cast<unsigned>(barriers.size()), MOST_AGENTS - 1);
  barriers.push_back({at, std::vector<Clock>(width), std::vector<Clock>(width), agent, 1, {0, 0}, false});
  return barriers.back();
}

/* ---- a race ---- */

std::string name_of(unsigned who) {
  if (who >= agents_from) return "a bulk copy";
  const Block &block = *threads[who].block;
  return "thread " + std::to_string(who - block.first) +
         (block_count > 1 ? " of the cluster's block " + std::to_string(block.rank) : "");
}

void fail(Access access, const char *former, unsigned who, const char *at, const Region &region) {
  static const char *const does[] = {"reads", "writes", "reads", "writes", "has a copy made to"};
  const unsigned passed = meetings[self().block->rank];
  fail_launch(("a race in shared memory: " + name_of(self().number) + " " + does[static_cast<int>(access)] + " byte " +
               std::to_string(at - region.part.start) + " of the " + region.name + " shared memory, which " +
               name_of(who) + " " + former + ", and nothing orders the two, since " +
               (passed ? "__syncthreads number " + std::to_string(passed) + " of the block" : "the block began") + ",")
                  .c_str());
}

/* ---- words ---- */

/* The lanes of those readers that this clock is not behind, 0 when it is behind all. */
unsigned not_behind(const Clock *clock, const Readers &r) {
  unsigned lanes = 0;
  for (unsigned left = r.lanes; left; left &= left - 1) {
    const unsigned lane = static_cast<unsigned>(__builtin_ctz(left));
    if (r.count > clock[r.warp * LANES + lane]) lanes |= 1u << lane;
  }
  return lanes;
}

/* Among the readers; those that this one is behind need not be remembered, for who is behind it is behind them. */
void add_reader(Word &word, unsigned thread, const Clock *clock) {
  const unsigned warp = thread / LANES, bit = 1u << thread % LANES;
  if (!word.readers.empty()) {
    Readers &last = word.readers.back();
    if (last.warp == warp && last.count == clock[thread]) {
      last.lanes |= bit;
      return;
    }
  }
  size_t kept = 0;
  Readers mine{warp, clock[thread], bit};
  for (const Readers &r : word.readers) {
    if (r.warp == warp && r.count == mine.count)
      mine.lanes |= r.lanes;
    else if (const unsigned lanes = not_behind(clock, r))
      word.readers[kept++] = {r.warp, r.count, lanes};
  }
  word.readers.resize(kept);
  word.readers.push_back(mine);
}

void touch(Word &word, Access access, const char *at, const Region &region) {
  if (word.life != life) {
    word.life = life, word.written = {0, 0};
    word.written_volatile = word.copy_on_its_way = false;
    word.readers.clear();
  }
  const unsigned me = self().number;
  const Clock *const clock = clock_of(me);
  if (word.copy_on_its_way) fail(access, "has a copy made to that is on its way", word.copier, at, region);
  /* A volatile word that several threads write is meant so: they write the same. */
  const bool same = access == Access::VOLATILE_WRITE && word.written_volatile;
  if (!same && !is_behind(clock, word.written)) fail(access, "has written", word.written.who, at, region);
  if (access == Access::READ || access == Access::VOLATILE_READ) return add_reader(word, me, clock);
  for (const Readers &r : word.readers)
    if (const unsigned lanes = not_behind(clock, r))
      fail(access, "has read", r.warp * LANES + static_cast<unsigned>(__builtin_ctz(lanes)), at, region);
  word.readers.clear();
  word.written = {me, clock[me]};
  word.written_volatile = access == Access::VOLATILE_WRITE;
  word.copy_on_its_way = access == Access::COPY;
  word.copier = me;
}

const Region *region_of(const char *at) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(at);
  if (address < lowest || address >= highest) return nullptr;
  for (const Region &region : regions)
    if (region.part.holds(at, 1)) return &region;
  return nullptr;
}

template <class Visit> void visit_words(const void *p, uint64_t bytes, Visit visit) {
  const char *const at = static_cast<const char *>(p);
  const Region *region = region_of(at);
  if (!region || bytes == 0) return;
  const size_t first = static_cast<size_t>(at - region->part.start);
  for (size_t w = first / WORD_BYTES; w <= (first + bytes - 1) / WORD_BYTES && w < region->words->size(); ++w)
    visit((*region->words)[w], region->part.start + w * WORD_BYTES, *region);
}

void touch_all(const void *p, uint64_t bytes, Access access) {
  visit_words(p, bytes, [access](Word &word, const char *at, const Region &r) { touch(word, access, at, r); });
}

void add_region(const SharedMemory::Part &part, std::vector<Word> &words, const char *name) {
  if (part.bytes == 0) return;
  const size_t count = (part.bytes + WORD_BYTES - 1) / WORD_BYTES;
  if (words.size() < count) words.resize(count);
  regions.push_back({part, &words, name});
  const uintptr_t start = reinterpret_cast<uintptr_t>(part.start);
  lowest = std::min(lowest, start);
  highest = std::max(highest, start + part.bytes);
}

} // namespace

void races_begin() {
  const Block &last = blocks[block_count - 1];
  agents_from = (last.first + last.size + LANES - 1) / LANES * LANES;
  width = agents_from + MOST_AGENTS;
  clocks.assign(size_t{agents_from} * width, 0);
  for (unsigned i = 0; i < agents_from; ++i) clock_of(i)[i] = 1;
  met.assign(width, 0);
  operands.resize(std::max(operands.size(), size_t{agents_from}));
  for (auto &of_thread : operands) of_thread.clear();
  barriers.clear();
  std::fill_n(meetings, MOST_BLOCKS, 0);
  life++;
  regions.clear();
  lowest = UINTPTR_MAX, highest = 0;
  for (unsigned rank = 0; rank < block_count; ++rank)
    add_region(shared_memory(blocks[rank]).dynamic, words_of_parts[rank], "dynamic");
  add_region(shared_memory(blocks[0]).fixed, words_of_parts[MOST_BLOCKS], "static");
}

void races_block_met(const Block &block) {
  met.assign(width, 0);
  for (unsigned i = block.first; i < block.first + block.size; ++i) gather(i);
  for (unsigned i = block.first; i < block.first + block.size; ++i) leave_meeting(i);
  meetings[block.rank]++;
}

void races_part_met(const Block &block, unsigned number) {
  const auto is_there = [number](unsigned i) {
    return states[i] == State::AT_PART_BARRIER && threads[i].part == number;
  };
  met.assign(width, 0);
  for (unsigned i = block.first; i < block.first + block.size; ++i)
    if (is_there(i)) gather(i);
  for (unsigned i = block.first; i < block.first + block.size; ++i)
    if (is_there(i)) leave_meeting(i);
}

void races_warp_met(unsigned lanes) {
  const unsigned first = self().number / LANES * LANES;
  met.assign(width, 0);
  for (unsigned lane = 0; lane < LANES; ++lane)
    if (lanes >> lane & 1) gather(first + lane);
  for (unsigned lane = 0; lane < LANES; ++lane)
    if (lanes >> lane & 1) leave_meeting(first + lane);
}

void races_cluster_met(bool share) {
  for (Barrier &b : barriers) b.shown = true;
  if (!share) return;
  met.assign(width, 0);
  for (unsigned i = 0; i < agents_from; ++i)
    if (states[i] == State::AT_MEETING) gather(i);
  for (unsigned i = 0; i < agents_from; ++i)
    if (states[i] == State::AT_MEETING) leave_meeting(i);
}

void races_barrier_made(const uint64_t *barrier) {
  touch_all(barrier, sizeof *barrier, Access::WRITE);
  const unsigned me = self().number;
  barrier_at(barrier).made = {me, clock_of(me)[me]};
}

void races_barrier_used(const uint64_t *barrier) {
  const Barrier &b = barrier_at(barrier);
  if (b.shown || is_behind(clock_of(self().number), b.made)) return;
  fail_launch("a barrier in shared memory is used by a thread that does not know that it is initialised");
}

void races_arrived(const uint64_t *barrier) {
  const unsigned me = self().number;
  join(barrier_at(barrier).gathered.data(), clock_of(me));
  clock_of(me)[me]++;
}

void races_waited(const uint64_t *barrier) { join(clock_of(self().number), barrier_at(barrier).done.data()); }

void races_phase_ended(const uint64_t *barrier) {
  Barrier &b = barrier_at(barrier);
  b.gathered[b.agent] = std::max(b.gathered[b.agent], b.agent_count++);
  b.done = b.gathered;
}

void races_copy_begins(const void *to, uint64_t bytes) { touch_all(to, bytes, Access::COPY); }

void races_copy_ends(const void *to, uint64_t bytes, const uint64_t *barrier) {
  const unsigned me = self().number;
  Epoch writer{me, clock_of(me)[me]};
  if (barrier) writer = {barrier_at(barrier).agent, barrier_at(barrier).agent_count};
  visit_words(to, bytes, [writer](Word &word, const char *, const Region &) {
    word.written = writer;
    word.copy_on_its_way = false;
  });
}

} // namespace fake

/* ---- what kernels call ---- */

using namespace fake;

void tb_cpu_products_read(const void *p) { operands[self().number].push_back(p); }

void tb_cpu_products_done() {
  auto &mine = operands[self().number];
  for (const void *p : mine) touch_all(p, 16, Access::READ);
  mine.clear();
}

#define FAKE_CUDA_TOLD(name, bytes, access) \
  void __tsan_##name(void *p) { touch_all(p, bytes, Access::access); }
#define FAKE_CUDA_TOLD_OF(bytes)                                       \
  FAKE_CUDA_TOLD(read##bytes, bytes, READ)                             \
  FAKE_CUDA_TOLD(write##bytes, bytes, WRITE)                           \
  FAKE_CUDA_TOLD(unaligned_read##bytes, bytes, READ)                   \
  FAKE_CUDA_TOLD(unaligned_write##bytes, bytes, WRITE)                 \
  FAKE_CUDA_TOLD(volatile_read##bytes, bytes, VOLATILE_READ)           \
  FAKE_CUDA_TOLD(volatile_write##bytes, bytes, VOLATILE_WRITE)         \
  FAKE_CUDA_TOLD(unaligned_volatile_read##bytes, bytes, VOLATILE_READ) \
  FAKE_CUDA_TOLD(unaligned_volatile_write##bytes, bytes, VOLATILE_WRITE)

extern "C" {
FAKE_CUDA_TOLD_OF(1)
FAKE_CUDA_TOLD_OF(2)
FAKE_CUDA_TOLD_OF(4)
FAKE_CUDA_TOLD_OF(8)
FAKE_CUDA_TOLD_OF(16)
void __tsan_read_range(void *p, unsigned long bytes) { touch_all(p, bytes, Access::READ); }
void __tsan_write_range(void *p, unsigned long bytes) { touch_all(p, bytes, Access::WRITE); }
void __tsan_vptr_update(void *, void *) {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit(void *) {}
void __tsan_init() {}
}
