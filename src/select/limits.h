/* SPDX-License-Identifier: BSD-3-Clause */
/* What bounds the blocks of a kernel, whatever its family. Knows nothing of CUDA. */
#ifndef TB_LIMITS_H
#define TB_LIMITS_H

#include <stdint.h>

/* Of a GPU: its SMs, and shared memory in bytes. */
struct tb_sm_limits {
  int sm_count;
  int64_t block_shared_bytes, sm_shared_bytes; /* that a block may have, that an SM has */
};

/* CUDA keeps this much of an SM's shared memory for itself for each block. */
#define TB_SM_RESERVED_BYTES 1024
/* The longest side that the grid's first dimension and the kernels' counting allow. */
#define TB_SIDE_MAX_ELEMS (INT64_C(2147483647) - 1023)

#endif
