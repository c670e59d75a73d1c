/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "interface/caller.h"

#include <link.h>
#include <stdatomic.h>
#include <stdint.h>

#include "cpu/fallback.h"

/* Of the library that was the latest to be one. */
static atomic_uintptr_t blas_start, blas_end;

struct object_look {
  uintptr_t caller, start, end; /* of the object that it lies in */
};

static int look_at_object(struct dl_phdr_info *info, size_t size, void *opaque) {
  (void)size;
  struct object_look *look = opaque;
  uintptr_t start = UINTPTR_MAX, end = 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    const uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, to = from + info->dlpi_phdr[i].p_memsz;
    if (from < start) start = from;
    if (to > end) end = to;
  }
  if (look->caller < start || look->caller >= end) return 0;
  look->start = start;
  look->end = end;
  return 1;
}

bool tb_caller_is_cpu_blas(const void *caller) {
  struct object_look look = {.caller = (uintptr_t)caller};
  const uintptr_t start = atomic_load(&blas_start), end = atomic_load(&blas_end);
  if (look.caller >= start && look.caller < end) return true; /* of two threads that write at once both are right */
  if (dl_iterate_phdr(look_at_object, &look) == 0) return false;
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
