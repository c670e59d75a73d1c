/* SPDX-License-Identifier: BSD-3-Clause */
/* See watch.h. */
#include "watch.h"

#include <algorithm>
#include <cstring>

#include "poison.h"
#include "streams.h"

namespace fake {
namespace {

/* What an operation touches that not all later ones need be behind. */
struct Record {
  Touch touch;
  const char *name;
  unsigned stream_id, stream_number;
  uint64_t position;
};

/* So many records more than there were last time, and those that the host has waited for are looked for again. */
constexpr size_t RECORDS_BETWEEN_SWEEPS = 256;

struct State {
  Watch watch = Watch::OFF;
  Clock host;
  std::vector<Record> records;
  size_t sweep_at = RECORDS_BETWEEN_SWEEPS;
};

State &state() {
  static State *const the = new State; /* calls come when destructors have run */
  return *the;
}

bool covers(const Clock &clock, const Record &record) {
  const auto at = clock.find(record.stream_id);
  return at != clock.end() && at->second >= record.position;
}

uintptr_t end_of(const Touch &t) { return t.start + (t.height - 1) * t.pitch + t.width; }

/* Whether bytes from `begin` to before `end` are among the touch's. */
bool meets(const Touch &t, uintptr_t begin, uintptr_t end) {
  if (begin >= end_of(t) || end <= t.start) return false;
  const uintptr_t row = begin <= t.start ? 0 : (begin - t.start) / std::max<size_t>(t.pitch, 1);
  const auto has = [&](uintptr_t r) {
    return r < t.height && t.start + r * t.pitch < end && begin < t.start + r * t.pitch + t.width;
  };
  return has(row) || has(row + 1);
}

bool overlap(const Touch &x, const Touch &y) {
  if (x.start >= end_of(y) || y.start >= end_of(x)) return false;
  const Touch &few = x.height < y.height ? x : y, &many = x.height < y.height ? y : x;
  for (size_t row = 0; row < few.height; ++row) {
    const uintptr_t start = few.start + row * few.pitch;
    if (meets(many, start, start + few.width)) return true;
  }
  return false;
}

void sweep() {
  State &s = state();
  if (s.records.size() < s.sweep_at) return;
  s.records.erase(
      std::remove_if(s.records.begin(), s.records.end(), [&](const Record &r) { return covers(s.host, r); }),
      s.records.end());
  s.sweep_at = s.records.size() + RECORDS_BETWEEN_SWEEPS;
}

void complain(const Record &first, const Record &then) {
  misuse("nothing orders %s in stream %u behind %s in stream %u, which %s the same bytes", then.name,
         then.stream_number, first.name, first.stream_number, first.touch.writes ? "writes" : "reads");
}

void check(const Record &record, const Clock &clock) {
  for (const Record &other : state().records)
    if ((other.touch.writes || record.touch.writes) && overlap(other.touch, record.touch) && !covers(clock, other)) {
      complain(other, record);
      return;
    }
}

void join(Clock &clock, const Clock &other) {
  for (const auto &[stream, position] : other) {
    uint64_t &known = clock[stream];
    known = std::max(known, position);
  }
}

/* FNV-1a, by words of as many bytes as are left; of long rows in four parts, none of which waits for another. */
uint64_t digest(const Touch &t) {
  constexpr uint64_t prime = 1099511628211u;
  constexpr size_t parts = 4;
  uint64_t hash[parts] = {1469598103934665603u, 1, 2, 3};
  for (size_t row = 0; row < t.height; ++row) {
    const char *const from = reinterpret_cast<const char *>(t.start + row * t.pitch);
    size_t at = 0;
    for (; at + sizeof hash <= t.width; at += sizeof hash) {
      uint64_t words[parts];
      memcpy(words, from + at, sizeof words);
      for (size_t i = 0; i < parts; ++i) hash[i] = (hash[i] ^ words[i]) * prime;
    }
    for (; at < t.width; at += sizeof *hash) {
      uint64_t word = 0;
      memcpy(&word, from + at, std::min(sizeof word, t.width - at));
      hash[0] = (hash[0] ^ word) * prime;
    }
  }
  for (size_t i = 1; i < parts; ++i) hash[0] = (hash[0] ^ hash[i]) * prime;
  return hash[0];
}

/* ---- extents ---- */

/* A device's allocation while a kernel runs that must leave most of it alone. */
struct Fenced {
  char *memory;
  std::vector<char> kept, shown; /* what is there in truth; what the kernel sees */
};

void for_each_row(const Fenced &fenced, const std::vector<Touch> &touches, bool only_written,
                  const std::function<void(size_t offset, size_t bytes)> &visit) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(fenced.memory), end = begin + fenced.kept.size();
  for (const Touch &t : touches)
    for (size_t row = 0; (t.writes || !only_written) && row < t.height; ++row) {
      const uintptr_t from = std::max(begin, t.start + row * t.pitch);
      const uintptr_t to = std::min(end, t.start + row * t.pitch + t.width);
      if (from < to) visit(from - begin, to - from);
    }
}

Fenced fence(const Allocation &allocation, const std::vector<Touch> &touches) {
  Fenced f = {reinterpret_cast<char *>(allocation.start), {}, std::vector<char>(allocation.bytes)};
  f.kept.assign(f.memory, f.memory + allocation.bytes);
  for (size_t at = 0; at < allocation.bytes; ++at) f.shown[at] = static_cast<char>(POISON >> 8 * (at % 2));
  for_each_row(f, touches, false, [&](size_t at, size_t bytes) { memcpy(&f.shown[at], &f.kept[at], bytes); });
  memcpy(f.memory, f.shown.data(), f.shown.size());
  return f;
}

/* What was written is kept. False: something was written elsewhere. */
bool take_away(Fenced &f, const std::vector<Touch> &touches) {
  for_each_row(f, touches, true, [&](size_t at, size_t bytes) {
    memcpy(&f.kept[at], f.memory + at, bytes);
    memcpy(&f.shown[at], f.memory + at, bytes);
  });
  const bool clean = memcmp(f.memory, f.shown.data(), f.shown.size()) == 0;
  memcpy(f.memory, f.kept.data(), f.kept.size());
  return clean;
}

} // namespace

Watch watching() { return state().watch; }

void set_watch(Watch watch) {
  state() = State();
  state().watch = watch;
}

void watch_operation(Stream &stream, const Operation &operation) {
  State &s = state();
  if (s.watch == Watch::OFF) return;
  join(stream.clock, s.host);
  join(stream.clock, operation.behind);
  sweep();
  for (const Touch &touch : operation.touches) {
    const Record record = {touch, operation.name, stream.id, stream.number, stream.enqueued};
    check(record, stream.clock);
    stream.clock[stream.id] = stream.enqueued; /* an operation is no other one to itself */
    s.records.push_back(record);
  }
  stream.clock[stream.id] = stream.enqueued;
}

void watch_wait(const Clock &clock) {
  if (watching() != Watch::OFF) join(state().host, clock);
}

void watch_release(uintptr_t start, size_t bytes) {
  auto &records = state().records;
  records.erase(
      std::remove_if(records.begin(), records.end(),
                     [=](const Record &r) { return r.touch.start >= start && r.touch.start < start + bytes; }),
      records.end());
}

void watch_host(Operation &copy, const Touch &host) {
  if (watching() == Watch::OFF) return;
  if (host.writes && !is_awaited(host.start, end_of(host) - host.start))
    for (size_t row = 0; row < host.height; ++row)
      fill_with_poison(reinterpret_cast<void *>(host.start + row * host.pitch), host.width);
  copy.run = [run = std::move(copy.run), host, before = digest(host)](bool half) {
    if (watching() != Watch::OFF && digest(host) != before)
      misuse(host.writes ? "%zu bytes are written before the copy that fills them has been waited for"
                         : "%zu bytes are changed before the copy that reads them has been waited for",
             host.width * host.height);
    return run(half);
  };
}

std::string run_watched(const Reach &reach, const std::function<std::string()> &run) {
  if (watching() != Watch::EXTENTS || reach.touches.empty()) return run();
  std::map<uintptr_t, Fenced> fenced;
  for (const Range &use : reach.uses) {
    const Allocation *allocation = find_memory(use.start, use.bytes);
    if (allocation && allocation->kind == MemoryKind::DEVICE && !fenced.count(use.start))
      fenced.emplace(use.start, fence(*allocation, reach.touches));
  }
  std::string failure = run();
  for (auto &[start, one] : fenced)
    if (!take_away(one, reach.touches)) misuse("%s writes where its arguments do not let it", reach.kernel);
  return failure;
}

} // namespace fake
