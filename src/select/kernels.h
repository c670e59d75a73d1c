/* SPDX-License-Identifier: BSD-3-Clause */
/* The production kernels as the host sees them: loaded from the embedded fat binary, chosen (select.h), launched. Under
 * offload.c's lock. */
#ifndef TB_KERNELS_H
#define TB_KERNELS_H

#include "base/options.h"
#include "blas/region.h"
#include "select/family.h"
#include "select/select.h"

/* Loads the kernels into the current context, which is one of `device`; of those for other types than TB_S none.
 * Nothing is left behind on failure. */
CUresult tb_kernels_load(struct tb_kernels *kernels, CUdevice device);

/* Loads what products of this type want besides, once: more than half of all kernels are for double precision, and who
 * multiplies floats need not wait for them. To be called in that context, before the first such product is launched. */
CUresult tb_kernels_ready(struct tb_kernels *kernels, enum tb_type type);

/* Nothing may be running. Does nothing after a load that failed. */
void tb_kernels_unload(struct tb_kernels *kernels);

/* tb_select for a product as it will be launched. Of args the sizes, operands and leading dimensions are looked at. */
struct tb_choice tb_kernels_choose(const struct tb_kernels *kernels, bool transpose_a, bool transpose_b,
                                   const struct tb_sgemm_args *args, int64_t workspace_bytes,
                                   enum tb_precision precision);

/* A product as the pipeline has it, of elements as the kernels see them (product.h); addresses on the device, or for it
 * to reach. */
struct tb_multiply {
  enum tb_type type;
  bool transpose_a, transpose_b;
  bool conjugate_a, conjugate_b; /* of TB_Z alone */
  CUdeviceptr a, b, d;
  int64_t lda, ldb, ldd; /* in elements */
  int64_t m, n, k, group_k;
  struct tb_tiles_wanted wanted; /* of the result, in elements of the call's type; the rest may be left out */
  union tb_scalar alpha;
  bool first, last; /* the sum starts here, and ends here (kernels/common/sgemm_args.h) */
  bool padded;      /* m and n may be read up to the next multiple of 16 bytes */
};

/* The same for the kernels of single precision, and of double. */
struct tb_sgemm_args tb_sgemm_args_of(const struct tb_multiply *multiply);
struct tb_fp64_args tb_fp64_args_of(const struct tb_multiply *multiply);

/* tb_kernels_launch for whichever type. */
CUresult tb_kernels_multiply(const struct tb_kernels *kernels, const struct tb_choice *choice,
                             const struct tb_multiply *multiply, CUdeviceptr workspace, CUstream stream);

/* Enqueues C = D + beta C for m x n elements of a type on the device; D NULL: C = beta C. For a triangle of them its
 * kernels must have been loaded (triangle.h). */
struct tb_commit {
  enum tb_type type;
  CUdeviceptr c, d;
  int64_t ldc, ldd, m, n;
  union tb_scalar beta;
  struct tb_region region;
};
CUresult tb_kernels_commit(const struct tb_kernels *kernels, CUfunction commit, const struct tb_commit *what,
                           CUstream stream);

/* Enqueues a product in the way that was chosen, for the same sizes or smaller ones, by the launches that its family
 * says. `workspace`, aligned to 128 bytes, has room for tb_workspace_bytes; it is in use until the stream has come
 * past. Allocates nothing. */
CUresult tb_kernels_launch(const struct tb_kernels *kernels, const struct tb_choice *choice, bool transpose_a,
                           bool transpose_b, const struct tb_sgemm_args *args, CUdeviceptr workspace, CUstream stream);

#endif
