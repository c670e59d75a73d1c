/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stacks and the switch between them: a thread of a block gives way to another in a few nanoseconds.
 *
 * A fiber starts in an entry function and never returns from it; its last act is fiber_switch(..., true). Sanitizers
 * are told of each switch. One OS thread at a time may use this file (the driver's lock sees to it).
 */
#ifndef FAKE_CUDA_FIBERS_H
#define FAKE_CUDA_FIBERS_H

#include <cstddef>
#include <vector>

namespace fake {

struct Fiber {
  void *stack_pointer = nullptr;
  void *stack_bottom = nullptr; /* lowest address */
  size_t stack_bytes = 0;
  size_t colour_bytes = 0; /* left unused at the top */
  void *sanitizer_frames = nullptr;
};

/* Suspends `from` and continues `to`. `last` says that `from` will never be continued. */
void fiber_switch(Fiber &from, Fiber &to, bool last);
/* What `entry` calls first. */
void fiber_entered();

/* Keeps stacks for reuse. Each has a guard page below it. */
class FiberPool {
public:
  /* A fiber that will run `entry`. Lives as long as the pool. Null when there is no memory. */
  Fiber *start(void (*entry)());
  /* The fiber will not be continued; its stack may serve again. `abandoned`: its functions have not returned. */
  void recycle(Fiber *fiber, bool abandoned);

private:
  Fiber *create();
  std::vector<Fiber *> idle_;
  size_t created_ = 0;
};

} // namespace fake

#endif
