/* SPDX-License-Identifier: BSD-3-Clause */
/* The commit of a C that lies where the GPU computes: copy.c's arithmetic as a kernel. Under offload.c's lock.
 */
#ifndef TB_COMMIT_H
#define TB_COMMIT_H

#include "fma/commit_args.h"
#include "cuda/driver.h"

/* Finds the kernel in the module of the production kernels. */
CUresult tb_commit_load(CUfunction *commit, CUmodule module);

/* Enqueues c = d + beta c. On failure nothing is enqueued. */
CUresult tb_commit_launch(CUfunction commit, struct tb_commit_args *args, CUstream stream);

#endif
