/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernel_table.h"

#include <cstdlib>
#include <cstring>

#include "grid.h"

/* Where the static shared memory of each family lies (shared_memory.ld). */
#define SHARED(name) \
  extern "C" __attribute__((visibility("hidden"))) char fake_cuda_shared_##name[], fake_cuda_shared_##name##_end[]
SHARED(fma);
SHARED(emulated);
SHARED(dgemm);
SHARED(zgemm);
SHARED(complex);
SHARED(triangle);
SHARED(solve);
SHARED(batch_sgemm);
SHARED(batch_dgemm);
SHARED(batch_zgemm);
SHARED(skinny);
SHARED(ladder);
SHARED(test);
#undef SHARED

namespace fake {

extern const Kernels fma_kernels, emulated_kernels, dgemm_kernels, zgemm_kernels, complex_kernels, triangle_kernels,
    solve_kernels, batch_sgemm_kernels, batch_dgemm_kernels, batch_zgemm_kernels, skinny_kernels, ladder_kernels,
    test_kernels;

/* The race detector's driver does without those that no test has under it, for they take long to compile. */
static const struct Family {
  const Kernels *kernels;
  StaticShared shared;
} families[] = {
#define FAMILY(name)                                                            \
  {                                                                             \
    &name##_kernels, { fake_cuda_shared_##name, fake_cuda_shared_##name##_end } \
  }
#if !defined(FAKE_CUDA_RACES)
    FAMILY(batch_sgemm), FAMILY(batch_dgemm), FAMILY(batch_zgemm),
#endif
    FAMILY(fma),         FAMILY(emulated),    FAMILY(dgemm),       FAMILY(zgemm), FAMILY(complex), FAMILY(triangle),
    FAMILY(solve),       FAMILY(skinny),      FAMILY(ladder),      FAMILY(test)
#undef FAMILY
};

const Kernel *find_kernel(const char *name) {
  for (const Family &family : families)
    for (size_t i = 0; i < family.kernels->count; i++)
      if (!strcmp(family.kernels->rows[i].name, name)) return &family.kernels->rows[i];
  return nullptr;
}

StaticShared static_shared_of(const Kernel &kernel) {
  for (const Family &family : families)
    if (&kernel >= family.kernels->rows && &kernel < family.kernels->rows + family.kernels->count) return family.shared;
  abort();
}

} // namespace fake
