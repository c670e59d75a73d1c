/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernel_table.h"

#include <cstring>

namespace fake {

extern const Kernels fma_kernels, emulated_kernels, dgemm_kernels, zgemm_kernels, complex_kernels, triangle_kernels,
    solve_kernels, batch_sgemm_kernels, batch_dgemm_kernels, batch_zgemm_kernels, skinny_kernels, ladder_kernels,
    test_kernels;

/* The race detector's driver does without those that no test has under it, for they take long to compile. */
static const Kernels *const families[] = {
#if !defined(FAKE_CUDA_RACES)
    &batch_sgemm_kernels, &batch_dgemm_kernels, &batch_zgemm_kernels,
#endif
    &fma_kernels,         &emulated_kernels,    &dgemm_kernels,       &zgemm_kernels,  &complex_kernels,
    &triangle_kernels,    &solve_kernels,       &skinny_kernels,      &ladder_kernels, &test_kernels};

const Kernel *find_kernel(const char *name) {
  for (const Kernels *family : families)
    for (size_t i = 0; i < family->count; i++)
      if (!strcmp(family->rows[i].name, name)) return &family->rows[i];
  return nullptr;
}

} // namespace fake
