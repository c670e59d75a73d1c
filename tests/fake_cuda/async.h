/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous copies and barriers in shared memory, as grid.cpp sees them. Kernels know them by cuda_on_cpu.h. */
#ifndef FAKE_CUDA_ASYNC_H
#define FAKE_CUDA_ASYNC_H

#include <string>

#include "block.h"

namespace fake {

/* A block begins, and has none of the copies that the one before left unfinished. */
void forget_async_copies();

/* Whether bulk copies are on their way to the block that nothing in it has waited for. */
bool awaits_copies(const Block &block);

/* Where a thread in State::AT_MBARRIER waits and how much is missing there, to follow in a sentence. */
std::string describe_wait(const Thread &t);

} // namespace fake

#endif
