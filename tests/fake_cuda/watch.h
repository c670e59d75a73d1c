/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether anything orders operations that touch the same bytes: by rule, not by the order in which they happen to run.
 *
 * An operation is ordered behind what its stream had before it, behind what that waited for, and behind what the host
 * had waited for when it was enqueued. When it is enqueued, each operation that is not among those and touches the same
 * bytes, one of the two writing, is a misuse. What a copy touches is known; what a kernel does, extents.h says.
 *
 * The host's own part: what a copy from pinned memory reads must be the same when it runs as when it was enqueued, and
 * what a copy to pinned memory fills is NaN from its enqueueing on, which nobody may write before it has run.
 *
 * Off unless asked for (FAKE_CUDA_WATCH). What one thread of the host has waited for counts for all. Called with the
 * driver's lock held.
 */
#ifndef FAKE_CUDA_WATCH_H
#define FAKE_CUDA_WATCH_H

#include "state.h"

namespace fake {

enum class Watch { OFF, ORDER, EXTENTS };
Watch watching();

/* EXTENTS: beside the order, a kernel that is run finds NaN wherever it should not read, and it is a misuse if it
 * writes where it should not. Forgets what was enqueued so far. */
void set_watch(Watch watch);

/* An operation that is the stream's latest from now on. */
void watch_operation(Stream &stream, const Operation &operation);

/* The host has waited for all that. */
void watch_wait(const Clock &clock);

/* Memory that is given back. */
void watch_release(uintptr_t start, size_t bytes);

/* A copy from or to pinned memory that nobody waits for at once: the host's part of it, before it runs. */
void watch_host(Operation &copy, const Touch &host);

/* What a kernel may touch: these allocations, and of them only this. */
struct Reach {
  const char *kernel;
  std::vector<Range> uses;
  std::vector<Touch> touches;
};

/* Runs a kernel; where extents are watched, with the rest of the device's memory out of its reach. */
std::string run_watched(const Reach &reach, const std::function<std::string()> &run);

} // namespace fake

#endif
