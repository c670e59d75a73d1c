/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A test's operand: a stored matrix in fenced memory, with canaries wherever BLAS must not write.
 *
 * The pages before and after are inaccessible, and the matrix touches one of them: a read or write past its first or
 * last element crashes on the spot, in release builds too. Padding between lines and the rest of the pages hold a NaN
 * with a payload: reading it shows in the result, writing it shows in tst_matrix_check. Not thread safe.
 */
#ifndef TST_MATRIX_H
#define TST_MATRIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which end of the matrix touches inaccessible memory. A fenced end leaves the start at an odd multiple of 4 bytes. */
enum tst_fence { TST_FENCE_START, TST_FENCE_END };

/* What to fill a matrix with. */
enum tst_values {
  TST_INTEGERS, /* whole numbers in [-4, 4]: sums up to k = 2^19 are exact in fp32, whatever their order */
  TST_SIGNED,   /* uniform in (-1, 1) */
  TST_POSITIVE, /* uniform in [0, 1): no cancellation, so that a biased sum shows */
  TST_SPECIAL,  /* TST_SIGNED with zeros, and a few Inf, -Inf and NaN */
  TST_NAN       /* NaN everywhere */
};

struct tst_matrix {
  float *data;   /* first element */
  int64_t lines; /* stored columns (rows when row-major) */
  int64_t len;   /* elements in a line */
  int64_t ld;    /* elements between the starts of two lines, >= len */
  char *map;     /* the mapping, fences included */
  size_t map_bytes;
  char *inner; /* accessible part */
  size_t inner_bytes;
  char *before; /* copy of the accessible part, taken by tst_matrix_remember */
};

void tst_matrix_create(struct tst_matrix *x, int64_t lines, int64_t len, int64_t ld, enum tst_fence fence);
void tst_matrix_fill(struct tst_matrix *x, enum tst_values values, uint64_t *rng);
void tst_matrix_destroy(struct tst_matrix *x);

/* Keeps the present contents as what tst_matrix_check and tst_matrix_restore compare with and go back to. */
void tst_matrix_remember(struct tst_matrix *x);
void tst_matrix_restore(struct tst_matrix *x);

/* Contents at tst_matrix_remember, addressed like data. */
const float *tst_matrix_before(const struct tst_matrix *x);

/* True when nothing changed since tst_matrix_remember: outside the elements, and with `elements_too` anywhere. Bits are
 * compared, so a NaN equals itself. Otherwise false, and *where gets the offset from data in elements. */
bool tst_matrix_unchanged(const struct tst_matrix *x, bool elements_too, int64_t *where);

#endif
