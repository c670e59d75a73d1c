/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "interface/caller.h"

#include <link.h>
#include <stdatomic.h>
#include <stdint.h>

#include "cpu/fallback.h"
#include "process/libraries.h"

/* Of the library that was the latest to be one. */
static atomic_uintptr_t blas_start, blas_end;

bool tb_caller_is_cpu_blas(const void *caller) {
  struct tb_library_look look = {.address = (uintptr_t)caller};
  const uintptr_t start = atomic_load(&blas_start), end = atomic_load(&blas_end);
  if (look.address >= start && look.address < end) return true; /* of two threads that write at once both are right */
  if (dl_iterate_phdr(tb_libraries_look, &look) == 0) return false;
  for (int symbol = 0; symbol < TB_SYMBOL_COUNT; symbol++) {
    const uintptr_t function =
        (uintptr_t)atomic_load(&tb_fallback_direct[symbol]) | (uintptr_t)atomic_load(&tb_fallback_direct_wide[symbol]);
    if (function < look.start || function >= look.end) continue;
    atomic_store(&blas_end, 0); /* so that no mixture of two is believed */
    atomic_store(&blas_start, look.start);
    atomic_store(&blas_end, look.end);
    return true;
  }
  return false;
}
