/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory and pinned host memory, kept in host memory. Called with the driver's lock held. */
#ifndef FAKE_CUDA_MEMORY_H
#define FAKE_CUDA_MEMORY_H

#include "state.h"

namespace fake {

/* Gives back all memory of a context that dies; says how many allocations that were. */
size_t free_memory_of(Context &context);

/* Whether something wrote past the end of an allocation; told on stderr. */
bool was_overrun(const Allocation &allocation);

} // namespace fake

#endif
