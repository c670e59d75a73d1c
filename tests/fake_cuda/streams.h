/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queues of work: what enters them, and what makes them run. Called with the driver's lock held.
 */
#ifndef FAKE_CUDA_STREAMS_H
#define FAKE_CUDA_STREAMS_H

#include "calls.h"
#include "state.h"

namespace fake {

/* The stream of a handle in this context, null for a handle that is none; handle 0 is the default stream. */
std::shared_ptr<Stream> find_stream(Context &context, CUstream handle);
std::shared_ptr<Stream> new_stream(Context &context, bool blocking);

/* Puts the operation at the end of the stream, to fail if the call said so, and runs what the order in force runs. */
void enqueue(const Call &call, const std::shared_ptr<Stream> &stream, Operation operation);

/* Runs what must have run for the stream to be done up to there. */
void run_through(const StreamPosition &until);
void run_everything(Context &context);
/* The same for who waits for that, as if for ever: a misuse when the device hangs. */
void wait_for(const StreamPosition &until);
bool hangs();

/* Nothing that is queued in the context will run. */
void drop_queues(Context &context);

/* Whether work that has not run yet needs this memory. */
bool is_awaited(uintptr_t start, size_t bytes);
uint64_t count_queued();

} // namespace fake

#endif
