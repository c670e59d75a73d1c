/* SPDX-License-Identifier: BSD-3-Clause */
/* Digests of a copy on the GPU: cache/hash.h's, by a kernel. Under offload.c's lock. */
#ifndef TB_DIGEST_H
#define TB_DIGEST_H

#include "cuda/driver.h"
#include "kept/digest_args.h"

/* Finds the kernel in the module of the production kernels. */
CUresult tb_digest_load(CUfunction *digest, CUmodule module);

/* Enqueues the digests of args->count cells, 1 or more. On failure nothing is enqueued. */
CUresult tb_digest_launch(CUfunction digest, int sm_count, struct tb_digest_args *args, CUstream stream);

#endif
