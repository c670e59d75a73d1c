/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Seeded random numbers for tests: the same seed gives the same problem on every machine, so that a failure can be
 * repeated from the line that reports it. State is the caller's; no thread safety beyond that.
 */
#ifndef TST_RNG_H
#define TST_RNG_H

#include <stdint.h>

/* SplitMix64 (Steele, Lea, Flood 2014): one 64-bit state, any seed is good. */
static inline uint64_t tst_random(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* Uniform in [0, n); n >= 1. */
static inline int64_t tst_random_below(uint64_t *state, int64_t n) {
  return (int64_t)(tst_random(state) % (uint64_t)n);
}

/* Uniform in [0, 1), 24 bits: exact as a float. */
static inline float tst_random_unit(uint64_t *state) { return (float)(tst_random(state) >> 40) * 0x1p-24f; }

#endif
