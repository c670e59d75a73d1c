/* SPDX-License-Identifier: BSD-3-Clause */
/* Launches behind a kernel that lets the next one start early. Under offload.c's lock. */
#ifndef TB_LAUNCH_H
#define TB_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/driver.h"

/* A grid has at most this many blocks along y. */
#define TB_GRID_Y_MAX 65535

struct tb_grid {
  int64_t x, y;
  int threads, shared_bytes;
  int cluster; /* so many neighbours along x see each other's shared memory; 1: none */
};

/*
 * Launches a kernel with one parameter, or two (NULL: one). `early`: its blocks may be there before the kernel ahead
 * has ended, and wait by themselves (kernels/common/ptx.cuh); that takes compute capability 9.0 and a driver for CUDA
 * 12, and so do clusters.
 */
CUresult tb_launch_behind(bool early, CUfunction function, struct tb_grid grid, void *argument, void *second,
                          CUstream stream);

/*
 * The same of a kernel that writes to a product's result. Several of them make a product, and where one is refused
 * those before it are made all the same: who updates something in place asks how many this thread has launched so far.
 */
CUresult tb_launch_result(bool early, CUfunction function, struct tb_grid grid, void *argument, void *second,
                          CUstream stream);
uint64_t tb_results_launched(void);

#endif
