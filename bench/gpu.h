/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the measuring programs need of a GPU: the library's own driver table, with every failure fatal.
 *
 * The library must survive any failure; a measurement after a failed call is worth nothing, so here each call either
 * works or ends the program with a message and status 1. A machine without a driver or a GPU ends it with status 77,
 * which ctest and the scripts read as "skipped". Not thread-safe: one thread, one GPU, one context.
 */
#ifndef TB_BENCH_GPU_H
#define TB_BENCH_GPU_H

#include "cuda/driver.h"

#include <stddef.h>

enum { TB_EXIT_SKIPPED = 77 };

/* TB_GPU(cuLaunchKernel(...)): calls the driver; on an error tells the call, the place and the code, and exits with 1.
 */
#define TB_GPU(call) tb_gpu_check(tb_cuda.call, #call, __FILE__, __LINE__)
void tb_gpu_check(CUresult result, const char *call, const char *file, int line);

struct tb_gpu {
  CUdevice device;
  CUcontext context; /* the primary one, current on the calling thread */
  CUstream stream;   /* non-blocking; everything below goes through it */
  char name[128];
  int sm_count, major, minor; /* major.minor: the compute capability */
};

/* Opens GPU `ordinal`. The driver is the libcuda.so.1 that the dynamic linker finds. */
struct tb_gpu tb_gpu_open(int ordinal);
void tb_gpu_close(struct tb_gpu *gpu);

/* Loads a fat binary from a file. */
CUmodule tb_gpu_load(const char *path);
CUfunction tb_gpu_function(CUmodule module, const char *name);

CUdeviceptr tb_gpu_alloc(size_t bytes);
void tb_gpu_free(CUdeviceptr p);

/* Copies, complete on return. */
void tb_gpu_upload(const struct tb_gpu *gpu, CUdeviceptr to, const void *from, size_t bytes);
void tb_gpu_download(const struct tb_gpu *gpu, void *to, CUdeviceptr from, size_t bytes);

/*
 * Median microseconds that one call of enqueue(ctx, i) keeps the GPU busy, by events around batches of calls that are
 * long enough for the events' resolution (0.5 us) and the launch gaps not to matter. i counts up over all calls, so
 * that the callee can rotate its buffers. Spends about `budget_s` seconds, and at least 3 samples whatever they take.
 */
double tb_gpu_median_us(const struct tb_gpu *gpu, void (*enqueue)(void *ctx, long i), void *ctx, double budget_s);

#endif
