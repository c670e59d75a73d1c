/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels by which a complex product of floats becomes a real one (kernels/complex/complex_args.h), and the
 * commits: loaded from the embedded fat binary, launched. Under offload.c's lock. */
#ifndef TB_COMPLEX_H
#define TB_COMPLEX_H

#include "blas/type.h"
#include "complex/complex_args.h"
#include "cuda/driver.h"

struct tb_complex_kernels {
  CUmodule module;
  CUfunction expand, part;
  CUfunction commit[2]; /* of floats, of doubles */
};

/* Loads the kernels into the current context, unless they are there. Nothing is left behind on failure. */
CUresult tb_complex_load(struct tb_complex_kernels *complex);

/* Nothing may be running. Does nothing after a load that failed. */
void tb_complex_unload(struct tb_complex_kernels *complex);

/* Each enqueues one launch. */
CUresult tb_complex_expand(const struct tb_complex_kernels *complex, struct tb_complex_expand_args *args,
                           CUstream stream);
CUresult tb_complex_part(const struct tb_complex_kernels *complex, struct tb_complex_part_args *args, CUstream stream);
/* Of TB_C or TB_Z. */
CUresult tb_complex_commit(const struct tb_complex_kernels *complex, enum tb_type type,
                           struct tb_complex_commit_args *args, CUstream stream);

#endif
