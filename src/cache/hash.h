/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Digests of a matrix in memory, by which it is proven that its bytes are those that were uploaded. Thread-safe, once
 * the key is there.
 *
 * A matrix is digested in cells of at most TB_CELL_BYTES: pieces of a column, or some short columns. Each cell has a
 * digest of its own, so that any threads may take any cells, in any order.
 *
 * The digest is NH (Black, Halevi, Krawczyk, Krovetz, Rogaway: UMAC, 1999) on words of 64 bits, twice:
 *
 *   sum over i of (m[2i] + k[2i]) (m[2i+1] + k[2i+1]),     and the same with the key from k[2] on,
 *
 * factors modulo 2^64, sums modulo 2^128. For any two different cells of one size at most one key in 2^64 gives one sum
 * the same value, and one in 2^128 both (their theorems on NH and its Toeplitz extension), whatever the bytes are and
 * however they differ. That holds while what the program writes does not depend on the key, which is random and the
 * process's own.
 */
#ifndef TB_HASH_H
#define TB_HASH_H

#include "cache/stored.h"

#define TB_CELL_BYTES ((int64_t)16 << 10)

struct tb_digest {
  uint64_t word[4];
};

static inline bool tb_digests_are_equal(const struct tb_digest *x, const struct tb_digest *y) {
  return ((x->word[0] ^ y->word[0]) | (x->word[1] ^ y->word[1]) | (x->word[2] ^ y->word[2]) |
          (x->word[3] ^ y->word[3])) == 0;
}

/* Before all else: makes the key, once. False: the kernel gives no random numbers, or another thread is at it, and
 * nothing may be digested. */
bool tb_hash_begin(void);

/* What digests are made with elsewhere (kernels/kept/digest_args.h), for cells of TB_CELL_BYTES. */
const uint64_t *tb_hash_key(int64_t *bytes);

/* In the child of a fork: whoever was at it is not there. */
void tb_hash_after_fork(void);

/* How a matrix is cut: a column has `in_column` cells of TB_CELL_BYTES, or a cell has `columns_each` columns. */
struct tb_cells {
  int64_t in_column, columns_each, count;
};
struct tb_cells tb_cells_of(const struct tb_stored *s);

/* A cell as bytes: of a column, or some columns. Of a triangle what it has there, which may be nothing. */
struct tb_stored tb_cell(const struct tb_stored *s, const struct tb_cells *cells, int64_t cell);

/* Of a part of a matrix that is no larger than a cell. What is between its columns does not count. */
struct tb_digest tb_hash_cell(const struct tb_stored *cell);

/* Of so many lines that are spread over the whole matrix: tells most matrices from what they were, and proves nothing;
 * some dozens tell nearly all. */
#define TB_SAMPLE_LINES 64
struct tb_digest tb_hash_sample(const struct tb_stored *s, int lines);

/* Of what a matrix has between two addresses, a page at most. */
struct tb_digest tb_hash_between(const struct tb_stored *s, uintptr_t from, uintptr_t to);

#endif
