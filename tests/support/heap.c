/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "heap.h"

#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCKS_MOST 4096

static uintptr_t begin, end; /* of the library's code */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  void *start;
  size_t bytes;
} block[BLOCKS_MOST];
static size_t blocks;

static int find_library(struct dl_phdr_info *info, size_t size, void *wanted) {
  (void)size;
  uintptr_t low = UINTPTR_MAX, high = 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    const uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    if (start < low) low = start;
    if (start + info->dlpi_phdr[i].p_memsz > high) high = start + info->dlpi_phdr[i].p_memsz;
  }
  if ((uintptr_t)wanted < low || (uintptr_t)wanted >= high) return 0;
  begin = low, end = high;
  return 1;
}

void tst_heap_watch(const void *in_library) { dl_iterate_phdr(find_library, (void *)(uintptr_t)in_library); }

size_t tst_heap_blocks(size_t *bytes) {
  pthread_mutex_lock(&lock);
  *bytes = 0;
  for (size_t i = 0; i < blocks; i++) *bytes += block[i].bytes;
  const size_t count = blocks;
  pthread_mutex_unlock(&lock);
  return count;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* The C library's own, by names that nobody replaces. */
extern void *__libc_malloc(size_t bytes), *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *start, size_t bytes);
extern void __libc_free(void *start);

static void add(const void *caller, void *start, size_t bytes) {
  if (!start || (uintptr_t)caller < begin || (uintptr_t)caller >= end) return;
  pthread_mutex_lock(&lock);
  if (blocks == BLOCKS_MOST) abort();
  block[blocks].start = start;
  block[blocks++].bytes = bytes;
  pthread_mutex_unlock(&lock);
}

/* Before the block is free: another thread may have its address at once. */
static void take_away(const void *start) {
  if (!start || __atomic_load_n(&blocks, __ATOMIC_RELAXED) == 0) return;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < blocks; i++) {
    if (block[i].start != start) continue;
    block[i] = block[--blocks];
    break;
  }
  pthread_mutex_unlock(&lock);
}

void *malloc(size_t bytes) {
  void *start = __libc_malloc(bytes);
  add(__builtin_return_address(0), start, bytes);
  return start;
}

void *calloc(size_t count, size_t bytes) {
  void *start = __libc_calloc(count, bytes);
  add(__builtin_return_address(0), start, count * bytes);
  return start;
}

void *realloc(void *old, size_t bytes) {
  take_away(old);
  void *start = __libc_realloc(old, bytes);
  add(__builtin_return_address(0), start, bytes);
  return start;
}

void free(void *start) {
  take_away(start);
  __libc_free(start);
}
#endif
