/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every kernel source includes first: CUDA as nvcc knows it, or its stand-in when the sources run on the CPU.
 *
 * Under nvcc this adds two macros to the language. With TB_ON_CPU defined, any C++17 compiler builds the same sources:
 * cuda_on_cpu.h (tests/fake_cuda) brings the keywords, the built-in variables, the vector types and barriers.
 */
#ifndef TB_DEVICE_CUH
#define TB_DEVICE_CUH

#ifdef TB_ON_CPU
#include "cuda_on_cpu.h"
#else
/* Of a function of the thread's registers. */
#define TB_REGISTERS_ONLY __forceinline__
/* Declares `name` as the block's dynamic shared memory, an array of `type`, aligned for 16-byte accesses. */
#define TB_DYNAMIC_SHARED(type, name)                                \
  extern __shared__ __align__(16) unsigned char tb_dynamic_shared[]; \
  type *const name = reinterpret_cast<type *>(tb_dynamic_shared)
#endif

#endif
