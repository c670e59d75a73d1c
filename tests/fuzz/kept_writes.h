/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The matrices of fuzz_kept in every kind of memory, and every way to write a byte of them. Not thread safe; a write
 * that cannot be made by its way is a plain store.
 */
#ifndef KEPT_WRITES_H
#define KEPT_WRITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Matrices of floats, of a memory each: two in one mapping, which share a page; huge pages; a file's, shared and
 * private; a mapping that others have, too; the heap. And behind them squares, with as many sides as k; and such as
 * have many sides, for the tensor cores (kept_dense.h). */
enum { KEPT_MATRICES = 8, KEPT_SQUARES = 3, KEPT_DENSE = 2, KEPT_ALL = KEPT_MATRICES + KEPT_SQUARES + KEPT_DENSE };
enum { KEPT_DENSE_SIDES = 190, KEPT_DENSE_K = 1400 };
enum { KEPT_SIDES_MOST = 4, KEPT_SHORTER = 900 };
#ifndef KEPT_K
#define KEPT_K 133000 /* two sides are more than a MiB, TB_CACHE_LEAST_BYTES */
#endif
#ifndef KEPT_ORDER
#define KEPT_ORDER 730 /* a half is, and the whole is more than a slot, TB_SLOT_BYTES */
#endif

struct kept_matrix {
  const char *name;
  bool tall; /* k rows and `sides` columns; else the other way round */
  int64_t sides, k, ld;
  char *data;
  char *mapping, *other; /* whole pages; the same memory by another mapping, or NULL */
  size_t mapping_bytes;
  int file;        /* that it is a mapping of; -1: none */
  bool is_private; /* so that pages can be replaced by others with the same bytes */
};

extern struct kept_matrix kept_matrices[KEPT_ALL];

/* They lie elsewhere each time, for what was found of one is remembered by its address. */
void kept_begin(uint64_t *rng);
void kept_end(void);

/* Changes one element of a matrix, by one byte, in some way. */
void kept_write(struct kept_matrix *m, uint64_t *rng);

/* Its mapping is given back, and another one with the same bytes has its place, as where arrays follow each other.
 * False: others have it, too, and nothing is done. */
bool kept_map_anew(const struct kept_matrix *m);

/* Another thread begins to write beside the matrices' elements, and ends. */
void kept_disturb(bool begins);

/* The names of the latest ways, newest last; in static memory. */
const char *kept_latest_writes(void);

#endif
