/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program with CUDA code of its own does, for tests: the driver's functions that it calls, found in
 * libcuda.so.1, the fake's or a real one; and products whose answers are whole numbers, with operands in any memory.
 * Not thread safe, but for guest_product_is_right.
 */
#ifndef GUEST_CUDA_PROGRAM_H
#define GUEST_CUDA_PROGRAM_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

#include "placed.h"

#define GUEST_FUNCTIONS(X) \
  X(cuStreamCreate)        \
  X(cuStreamDestroy)       \
  X(cuStreamSynchronize)   \
  X(cuStreamBeginCapture)  \
  X(cuStreamEndCapture)    \
  X(cuGraphGetNodes)       \
  X(cuGraphDestroy)        \
  X(cuLaunchHostFunc)      \
  X(cuLaunchKernel)        \
  X(cuModuleLoadData)      \
  X(cuModuleGetFunction)   \
  X(cuMemAlloc) X(cuMemFree) X(cuMemsetD8Async) X(cuCtxSynchronize) X(cuCtxGetCurrent) X(cuCtxSetCurrent)

struct guest_cuda {
#define X(function) __typeof__(function) *function;
  GUEST_FUNCTIONS(X)
#undef X
};
extern struct guest_cuda guest_cuda;

/* Makes the primary context of GPU 0 current in this thread, and finds the functions. */
void guest_begin(void);

/* Ends the program with a line when a call fails. */
#define GUEST_OK(call) guest_must(call, #call)
void guest_must(CUresult result, const char *call);

/* A product of whole numbers, n cubed, of operands in memory of this kind. */
struct guest_product {
  struct tst_problem problem;
  struct tst_operands x;
  struct tst_expected expected;
  struct tst_placed a, b, c;
};
void guest_product_make(struct guest_product *p, int64_t n, enum tst_kind kind, uint64_t seed);

/* Calls cblas_sgemm. Any thread. */
void guest_product_call(const struct guest_product *p);

/* Whether the answer is right; prints what is wrong. Ends the product. */
bool guest_product_is_right(struct guest_product *p);

/* Products that a GPU has computed, with none that failed; UINT64_MAX once one did. */
uint64_t guest_gpu_calls(void);

#endif
