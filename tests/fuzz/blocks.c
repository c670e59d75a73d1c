/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "blocks.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "placed.h"

#define PAGE_BYTES 4096

static const uint32_t canary_bits = 0x7ffabada; /* a NaN whose payload no computation makes; two are one of doubles */

static const enum tst_kind kinds[FUZZ_KINDS] = {TST_PAGEABLE, TST_PAGEABLE, TST_PAGEABLE, TST_PINNED,
                                                TST_PAGEABLE, TST_MANAGED,  TST_DEVICE};

static void *must_have(void *memory) {
  if (memory) return memory;
  perror("fuzz");
  exit(1);
}

static bool is_fenced(enum fuzz_kind kind) { return kind == FUZZ_FENCED_BEFORE || kind == FUZZ_FENCED_BEHIND; }

static size_t whole_pages(size_t bytes) { return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES; }

static void allocate_fenced(struct fuzz_block *block, size_t bytes) {
  const size_t inner = whole_pages(bytes), all = inner + 2 * PAGE_BYTES;
  block->map = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block->map == MAP_FAILED || mprotect(block->map + PAGE_BYTES, inner, PROT_READ | PROT_WRITE) != 0)
    must_have(NULL);
  block->memory = block->map + PAGE_BYTES + (block->kind == FUZZ_FENCED_BEHIND ? inner - bytes : 0);
}

void fuzz_block_drop(struct fuzz_block *block) {
  if (block->memory && block->kind == FUZZ_REGISTERED) tst_cuda_unregister(block->memory);
  if (is_fenced(block->kind) && block->memory)
    munmap(block->map, whole_pages(block->room_bytes) + 2 * PAGE_BYTES);
  else if (kinds[block->kind] == TST_PAGEABLE)
    free(block->memory);
  else if (block->memory)
    tst_cuda_free(kinds[block->kind], block->memory);
  block->memory = NULL;
  block->room_bytes = 0;
}

static void allocate(struct fuzz_block *block, size_t bytes) {
  if (block->kind == FUZZ_REGISTERED) {
    bytes = whole_pages(bytes);
    block->memory = must_have(aligned_alloc(PAGE_BYTES, bytes));
    tst_cuda_register(block->memory, bytes);
  } else if (is_fenced(block->kind)) {
    allocate_fenced(block, bytes);
  } else if (block->kind == FUZZ_PAGEABLE) {
    block->memory = must_have(malloc(bytes));
  } else {
    block->memory = tst_cuda_allocate(kinds[block->kind], bytes);
  }
  block->room_bytes = bytes;
}

void fuzz_block_take(struct fuzz_block *block, enum fuzz_kind kind, size_t bytes, bool fresh) {
  if (fresh || is_fenced(kind) || bytes > block->room_bytes) fuzz_block_drop(block);
  block->kind = kind;
  block->bytes = bytes;
  if (!block->memory) allocate(block, bytes);
  if (bytes > block->image_bytes) {
    free(block->image);
    free(block->after);
    block->image = must_have(malloc(bytes));
    block->after = must_have(malloc(bytes));
    block->image_bytes = bytes;
  }
  for (size_t i = 0; i < bytes; i += sizeof canary_bits) memcpy(block->image + i, &canary_bits, sizeof canary_bits);
}

void fuzz_block_send(struct fuzz_block *block) {
  tst_cuda_write(kinds[block->kind], block->memory, block->image, block->bytes);
}

bool fuzz_block_fetch(struct fuzz_block *block) {
  return tst_cuda_read(kinds[block->kind], block->after, block->memory, block->bytes);
}
