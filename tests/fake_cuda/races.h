/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds data races in shared memory by rule: two accesses of a word, one of them a write, that nothing orders, in
 * whatever order they came this time. It fails the launch.
 *
 * Only the driver's variant in the folder `races` has it, which is compiled with FAKE_CUDA_RACES, and its kernels so
 * that they tell of each access. Elsewhere these functions are nothing. grid.cpp and async.cpp tell who waits for whom;
 * what orders and what does not is in README.md. As in grid.cpp, everything is global: one OS thread at a time.
 */
#ifndef FAKE_CUDA_RACES_H
#define FAKE_CUDA_RACES_H

#include <cstdint>

#include "block.h"

namespace fake {
#if defined(FAKE_CUDA_RACES)
#define FAKE_CUDA_RACES_HOOK(declaration) declaration;
#else
#define FAKE_CUDA_RACES_HOOK(declaration) \
  inline declaration {}
#endif
/* clang-format off: one line a hook */

/* The blocks that run side by side are ready, and none of their threads has run. */
FAKE_CUDA_RACES_HOOK(void races_begin())

/* All threads of a block have met at __syncthreads. */
FAKE_CUDA_RACES_HOOK(void races_block_met([[maybe_unused]] const Block &block))
/* Threads of a block of State::AT_PART_BARRIER have met at its barrier of that number. */
FAKE_CUDA_RACES_HOOK(void races_part_met([[maybe_unused]] const Block &block, [[maybe_unused]] unsigned number))
/* Those lanes of the running thread's warp have met. */
FAKE_CUDA_RACES_HOOK(void races_warp_met([[maybe_unused]] unsigned lanes))
/* The cluster's threads of State::AT_MEETING have met; `share`: and see what any has written. Without it they see the
 * barriers alone. */
FAKE_CUDA_RACES_HOOK(void races_cluster_met([[maybe_unused]] bool share))

/* Barriers in shared memory: the running thread makes one, uses one at all, arrives, has seen a phase's end; and a
 * phase ends. */
FAKE_CUDA_RACES_HOOK(void races_barrier_made([[maybe_unused]] const uint64_t *barrier))
FAKE_CUDA_RACES_HOOK(void races_barrier_used([[maybe_unused]] const uint64_t *barrier))
FAKE_CUDA_RACES_HOOK(void races_arrived([[maybe_unused]] const uint64_t *barrier))
FAKE_CUDA_RACES_HOOK(void races_waited([[maybe_unused]] const uint64_t *barrier))
FAKE_CUDA_RACES_HOOK(void races_phase_ended([[maybe_unused]] const uint64_t *barrier))

/* The running thread asks for an asynchronous copy to there; it is done, as far as the running thread (cp.async, no
 * barrier) or who waits for the barrier knows. Between the two nobody may touch the place. */
FAKE_CUDA_RACES_HOOK(void races_copy_begins([[maybe_unused]] const void *to, [[maybe_unused]] uint64_t bytes))
FAKE_CUDA_RACES_HOOK(void races_copy_ends([[maybe_unused]] const void *to, [[maybe_unused]] uint64_t bytes,
                                          [[maybe_unused]] const uint64_t *barrier))

/* clang-format on */
#undef FAKE_CUDA_RACES_HOOK
} // namespace fake

#endif
