/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which bytes a kernel touches, by its arguments: the kernels' contract (kernels/..._args.h) as rows of bytes. What is
 * said here is proven where kernels run with all other memory out of their reach (watch.h). Pure functions.
 */
#ifndef FAKE_CUDA_EXTENTS_H
#define FAKE_CUDA_EXTENTS_H

#include <string>

#include "state.h"

namespace fake {

/* Of a kernel that this knows nothing of: that it writes all that its parameters point into, `uses`. */
std::vector<Touch> touches_of(const Kernel &kernel, void *const *parameters, const std::vector<Range> &uses);

/* What is wrong with what a kernel reads four words at a time; empty: nothing. The first word must be at a multiple of
 * 16 bytes, and the last one must lie in the allocation. */
std::string broken_vectors(const Kernel &kernel, void *const *parameters, const std::vector<Range> &uses);

} // namespace fake

#endif
