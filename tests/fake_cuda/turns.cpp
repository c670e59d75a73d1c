/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose turn it is, see turns.h. */
#include "turns.h"

#include <algorithm>

namespace fake {

unsigned thread_count;

namespace {

Thread *order[MOST_THREADS];
unsigned cursor, warp_count;
uint64_t shuffle_seed, random_state, warps_seed;
fake_cuda_warps warps_order = FAKE_CUDA_IN_TURN;

bool can_run(const Thread &t) { return state_of(t) <= State::RUNNABLE; }
bool is_chosen(const Thread &t) { return t.number / LANES == warps_seed % warp_count; }

/* The first that can run from order[from] on, around; of the chosen warp, or of the others, where `which` says so. */
enum class Which { ALL, CHOSEN, OTHERS };
Thread *first_from(unsigned from, Which which) {
  unsigned at = from;
  for (unsigned looked = 0; looked < thread_count; ++looked) {
    Thread *t = order[at];
    at = at + 1 == thread_count ? 0 : at + 1;
    if (!can_run(*t) || (which != Which::ALL && is_chosen(*t) != (which == Which::CHOSEN))) continue;
    cursor = at;
    return t;
  }
  return nullptr;
}

Thread *last_first() {
  for (unsigned i = thread_count; i-- > 0;)
    if (can_run(*order[i])) return order[i];
  return nullptr;
}

} // namespace

uint64_t random_bits() { /* splitmix64, Steele, Lea and Flood 2014 */
  uint64_t z = random_state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

void set_shuffle(uint64_t seed) { shuffle_seed = random_state = seed; }
bool is_shuffled() { return shuffle_seed != 0; }

void set_warps(fake_cuda_warps warps, uint64_t seed) {
  warps_order = warps;
  warps_seed = seed;
  if (warps == FAKE_CUDA_AT_RANDOM) random_state = seed;
}

void forget_turns() { thread_count = cursor = warp_count = 0; }

void takes_turns(Thread &t) {
  order[thread_count++] = &t;
  warp_count = std::max(warp_count, t.number / LANES + 1);
}

void order_turns() {
  for (unsigned i = thread_count; shuffle_seed && i > 1; --i) std::swap(order[i - 1], order[random_bits() % i]);
}

Thread &turn_taker(unsigned i) { return *order[i]; }

Thread *next_turn() {
  const unsigned from = cursor;
  Thread *t = nullptr;
  switch (warps_order) {
    case FAKE_CUDA_IN_TURN:
      break;
    case FAKE_CUDA_ONE_AHEAD:
      t = first_from(from, Which::CHOSEN);
      break;
    case FAKE_CUDA_ONE_BEHIND:
      t = first_from(from, Which::OTHERS);
      break;
    case FAKE_CUDA_LAST_FIRST:
      return last_first();
    case FAKE_CUDA_AT_RANDOM:
      return first_from(static_cast<unsigned>(random_bits() % thread_count), Which::ALL);
  }
  return t ? t : first_from(from, Which::ALL);
}

bool completing_gives_way() { return warps_order != FAKE_CUDA_IN_TURN; }

} // namespace fake
