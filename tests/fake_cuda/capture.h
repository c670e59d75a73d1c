/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams whose work a program captures in a graph instead of running it, and callbacks in which nothing of the driver
 * may be called. Which calls disturb a capture was measured on an H200 (driver 580, CUDA 13): a program's captures in
 * each mode, on streams of both kinds, by the same thread and another, with and without relaxed mode around the call.
 * Called with the driver's lock held, but for is_in_callback.
 */
#ifndef FAKE_CUDA_CAPTURE_H
#define FAKE_CUDA_CAPTURE_H

#include "calls.h"

namespace fake {

/* What becomes of a call while something is captured: CUDA_SUCCESS, or the code that it gives, having ended captures.
 */
CUresult disturb_captures(Fn function, const Context *context);

/* The same when the default stream is named: it is ordered with blocking streams, so their captures end. */
CUresult disturb_blocking_captures(const Context &context);

/* Whether the operation was captured: then it must not be enqueued. */
bool take_for_graph(Stream &stream);

/* Whether this thread is in a callback of cuLaunchHostFunc. */
bool is_in_callback();

} // namespace fake

#endif
