/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The argument block of tb_digest, one struct by value, shared by host C and CUDA C: the digests that src/cache/hash.h
 * has, of a copy of a matrix on the GPU instead of the matrix itself.
 *
 * Cell `number` is bytes [r, r + cell_bytes) of a column, r = number % in_column * cell_bytes, as far as the column
 * has them, and of columns_each columns from number / in_column * columns_each on. Each column is taken in steps of two
 * words of 64 bits, m[0] and m[1], the last one filled up with zeros; step i of a cell, its columns one behind
 * another, adds
 *
 *   (m[0] + key[2i]) (m[1] + key[2i+1])    and    (m[0] + key[2i+2]) (m[1] + key[2i+3]),
 *
 * factors modulo 2^64, to two sums modulo 2^128. A digest is the first sum's lower and upper word, and the second's.
 */
#ifndef TB_DIGEST_ARGS_H
#define TB_DIGEST_ARGS_H

#include <stdint.h>

struct tb_digest_args {
  const unsigned char *copy; /* 16-byte aligned, and so is each column: pitch is a multiple of 16 */
  const uint64_t *key;       /* two words for each step of a cell, and two more */
  uint64_t *digests;         /* of cell `first` on, four words each */
  int64_t pitch, column_bytes, columns;
  int64_t in_column, columns_each; /* in_column > 1: columns_each is 1 */
  int64_t cell_bytes;              /* a multiple of 16 */
  int64_t first, count;            /* cells */
};

/* Of a block, which has a cell at a time; blocks stride over the cells. */
#define TB_DIGEST_THREADS 128

#endif
