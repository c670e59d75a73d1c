/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whose turn it is: in which order the threads of the blocks that run side by side go on, when several could. What a
 * GPU may do is any order that barriers allow, so that the settings here bring out what a kernel has left to chance.
 * One OS thread at a time.
 */
#ifndef FAKE_CUDA_TURNS_H
#define FAKE_CUDA_TURNS_H

#include <cstdint>

#include "block.h"
#include "fake_cuda.h"

namespace fake {

/* 0: threads and blocks as they are numbered; else the seed of a random order in which they begin. */
void set_shuffle(uint64_t seed);
bool is_shuffled();
uint64_t random_bits();

/* Who goes first at each switch, see fake_cuda.h. */
void set_warps(fake_cuda_warps warps, uint64_t seed);

/* Blocks begin: their threads, one after another; then, when all are named, in which order they take turns. */
void forget_turns();
void takes_turns(Thread &t);
void order_turns();

/* All threads that take turns, in no order that means anything. */
extern unsigned thread_count;
Thread &turn_taker(unsigned i);

/* The next thread that can run; null when all wait or have ended. */
Thread *next_turn();

/* Whether a thread that could go on gives way all the same where it has let others go on. */
bool completing_gives_way();

} // namespace fake

#endif
