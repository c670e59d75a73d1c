/* SPDX-License-Identifier: BSD-3-Clause */
/* What makes a complex product of floats a real one, and the commits of complex elements: parts.cuh, one product a
 * launch. */
#include "complex/parts.cuh"

#define TB_COMPLEX_KERNEL(name, args, of)                                                  \
  extern "C" __global__ void __launch_bounds__(TB_COMPLEX_THREADS_M *TB_COMPLEX_THREADS_N) \
      name(const args arguments) {                                                         \
    complex_parts::of(arguments);                                                          \
  }
TB_COMPLEX_KERNEL(tb_cgemm_expand, tb_complex_expand_args, expand<complex_parts::Floats>)
TB_COMPLEX_KERNEL(tb_cgemm_part, tb_complex_part_args, part<complex_parts::Floats>)
TB_COMPLEX_KERNEL(tb_cgemm_commit, tb_complex_commit_args, commit<complex_parts::Floats>)
TB_COMPLEX_KERNEL(tb_zgemm_commit, tb_complex_commit_args, commit<complex_parts::Doubles>)
