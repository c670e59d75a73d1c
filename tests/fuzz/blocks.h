/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for operands, of every kind that a BLAS call may be given, with an image of what it must hold. Blocks are kept
 * from call to call, as a program's are, and now and then given back for fresh ones. Fenced ones are always fresh: an
 * access before, or behind, them ends the process. Not thread safe; a driver that fails ends the program.
 */
#ifndef FUZZ_BLOCKS_H
#define FUZZ_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

enum fuzz_kind {
  FUZZ_PAGEABLE,
  FUZZ_FENCED_BEFORE,
  FUZZ_FENCED_BEHIND,
  FUZZ_PINNED, /* from here on CUDA is needed */
  FUZZ_REGISTERED,
  FUZZ_MANAGED,
  FUZZ_DEVICE,
  FUZZ_KINDS
};

struct fuzz_block {
  enum fuzz_kind kind;
  char *memory; /* what the BLAS is given */
  size_t bytes; /* in use */
  char *image;  /* what to put there; canaries at first */
  char *after;  /* what a call left there */
  char *map;    /* of a fenced one, the fences included */
  size_t room_bytes, image_bytes;
};

/* Room for so many bytes, a multiple of 4, at an address aligned to 16 bytes or more, or with FUZZ_FENCED_BEHIND just
 * before the end of a page; `fresh`: never that of the call before, and exactly so large. The image is canaries. */
void fuzz_block_take(struct fuzz_block *block, enum fuzz_kind kind, size_t bytes, bool fresh);

/* Copies the image to the memory, and the memory to `after`. False: CUDA cannot read it any more. */
void fuzz_block_send(struct fuzz_block *block);
bool fuzz_block_fetch(struct fuzz_block *block);

/* Gives the memory back. */
void fuzz_block_drop(struct fuzz_block *block);

#endif
