/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "process/libraries.h"

#include <pthread.h>

static pthread_mutex_t visiting = PTHREAD_MUTEX_INITIALIZER;

void tb_libraries_visit(int (*visit)(struct dl_phdr_info *info, size_t size, void *context), void *context) {
  pthread_mutex_lock(&visiting);
  dl_iterate_phdr(visit, context);
  pthread_mutex_unlock(&visiting);
}

int tb_libraries_look(struct dl_phdr_info *info, size_t size, void *opaque) {
  (void)size;
  struct tb_library_look *look = opaque;
  uintptr_t start = UINTPTR_MAX, end = 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    const uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, to = from + info->dlpi_phdr[i].p_memsz;
    if (from < start) start = from;
    if (to > end) end = to;
  }
  if (look->address < start || look->address >= end) return 0;
  look->start = start;
  look->end = end;
  return 1;
}

void tb_libraries_before_fork(void) { pthread_mutex_lock(&visiting); }

/* In the child, too, the thread that forked owns it. */
void tb_libraries_after_fork(void) { pthread_mutex_unlock(&visiting); }
