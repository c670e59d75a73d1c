/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a grid of a kernel on the CPU: blocks, or clusters of them, one after another, their threads as fibers.
 * One OS thread at a time; the driver's lock sees to it.
 */
#ifndef FAKE_CUDA_GRID_H
#define FAKE_CUDA_GRID_H

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernel_table.h"

namespace fake {

/* The static shared memory of the kernel's family (kernel_table.cpp): no other kernel's code can name it. */
struct StaticShared {
  char *start, *end;
};
StaticShared static_shared_of(const Kernel &kernel);

struct Extent {
  unsigned x, y, z;
  uint64_t count() const { return uint64_t{x} * y * z; }
};

struct Grid {
  const Kernel *kernel;
  Extent blocks, threads, cluster; /* of so many blocks, which divides `blocks`; at most MOST_BLOCKS in all */
  size_t dynamic_shared_bytes;
  void *const *parameters;
  bool early;           /* launched so that it may start early, and every thread has to wait for the kernels ahead */
  uint64_t most_blocks; /* stop after so many: what a launch that fails midway leaves behind */
};

/* Runs it. Empty when all went well, else what went wrong; the rest of the grid is then not run. */
std::string run_grid(const Grid &grid);

/* Blocks run so far. */
uint64_t blocks_run();

} // namespace fake

#endif
