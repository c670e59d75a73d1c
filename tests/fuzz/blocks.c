/* SPDX-License-Identifier: BSD-3-Clause */
#include "blocks.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "placed.h"

#define PAGE_BYTES 4096

static const uint32_t canary_bits = 0x7fcabada; /* a NaN whose payload no computation makes */

static const enum tst_kind kinds[FUZZ_KINDS] = {TST_PAGEABLE, TST_PINNED, TST_PAGEABLE, TST_MANAGED, TST_DEVICE};

static void *must_have(void *memory) {
  if (memory) return memory;
  perror("fuzz_placed");
  exit(1);
}

void fuzz_block_drop(struct fuzz_block *block) {
  if (block->memory && block->kind == FUZZ_REGISTERED) tst_cuda_unregister(block->memory);
  if (kinds[block->kind] == TST_PAGEABLE)
    free(block->memory);
  else if (block->memory)
    tst_cuda_free(kinds[block->kind], block->memory);
  block->memory = NULL;
  block->room_bytes = 0;
}

static void allocate(struct fuzz_block *block, size_t bytes) {
  if (block->kind == FUZZ_REGISTERED) {
    bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    block->memory = must_have(aligned_alloc(PAGE_BYTES, bytes));
    tst_cuda_register(block->memory, bytes);
  } else if (block->kind == FUZZ_PAGEABLE) {
    block->memory = must_have(malloc(bytes));
  } else {
    block->memory = tst_cuda_allocate(kinds[block->kind], bytes);
  }
  block->room_bytes = bytes;
}

void fuzz_block_take(struct fuzz_block *block, enum fuzz_kind kind, size_t words, bool fresh) {
  const size_t bytes = words * sizeof(float);
  if (fresh || bytes > block->room_bytes) fuzz_block_drop(block);
  block->kind = kind;
  block->words = words;
  if (!block->memory) allocate(block, bytes);
  if (bytes > block->image_bytes) {
    free(block->image);
    free(block->after);
    block->image = must_have(malloc(bytes));
    block->after = must_have(malloc(bytes));
    block->image_bytes = bytes;
  }
  for (size_t i = 0; i < words; i++) memcpy(&block->image[i], &canary_bits, sizeof canary_bits);
}

void fuzz_block_send(struct fuzz_block *block) {
  tst_cuda_write(kinds[block->kind], block->memory, block->image, block->words * sizeof(float));
}

bool fuzz_block_fetch(struct fuzz_block *block) {
  return tst_cuda_read(kinds[block->kind], block->after, block->memory, block->words * sizeof(float));
}
