/* SPDX-License-Identifier: BSD-3-Clause */
/* What memory holds that nobody wrote: a NaN as half, bfloat16, float and double alike. Pure functions. */
#ifndef FAKE_CUDA_POISON_H
#define FAKE_CUDA_POISON_H

#include <cstddef>
#include <cstdint>

namespace fake {

constexpr uint16_t POISON = 0x7ff5;

/*
 * Not instrumented: the shared memory of a kernel is filled in one sweep that crosses the sanitizer's red zones. The
 * stores are written out as an instruction because a call of memset would be checked.
 */
__attribute__((no_sanitize("address", "undefined"))) inline void fill_with_poison(void *start, size_t bytes) {
#if defined(__x86_64__)
  const uint64_t pattern = POISON * 0x0001000100010001ull;
  size_t words = bytes / 8;
  void *at = start;
  __asm__ volatile("rep stosq" : "+D"(at), "+c"(words) : "a"(pattern) : "memory");
  size_t done = bytes / 8 * 8;
#else
  size_t done = 0;
#endif
  for (volatile char *p = static_cast<volatile char *>(start); done < bytes; ++done)
    p[done] = static_cast<char>(POISON >> 8 * (done % 2));
}

/* Whether nobody has written to these whole words since. Not instrumented for the same reason. */
__attribute__((no_sanitize("address", "undefined"))) inline bool is_all_poison(const void *start, size_t bytes) {
  const volatile uint64_t *const words = static_cast<const volatile uint64_t *>(start);
  for (size_t i = 0; i < bytes / sizeof *words; ++i)
    if (words[i] != POISON * 0x0001000100010001ull) return false;
  return true;
}

} // namespace fake

#endif
