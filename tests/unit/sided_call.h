/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random calls of the routines whose A has a side, by every spelling, and what they must leave: elements within the
 * bound of one chain, solutions with a residual within it, all other memory as it was. What must not be read is NaN:
 * the other triangle of A, a unit diagonal, the imaginary parts of a Hermitian one, padding, C where beta is 0, A and B
 * where alpha is. Any thread may make calls of its own.
 */
#ifndef TST_SIDED_CALL_H
#define TST_SIDED_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "typed.h"

/* A routine in a spelling: of so many, one behind another; the mirrored ones are the first of each spelling. And the
 * shapes. */
enum { SYMM, HEMM, TRMM, TRSM };
enum { TST_SIDED_MIRRORED = 6, TST_SIDED_ROUTINES = 14, TST_SIDED_NAMES = TST_TYPED_SPELLINGS * TST_SIDED_ROUTINES };
void tst_sided_find(int number, struct tst_typed_name *name);

struct tst_sided_call {
  struct tst_typed_name name;
  bool row_major;
  char side, uplo, trans, diag; /* trans and diag: of a triangular A */
  int64_t m, n, lda, ldb, ldc;
  double alpha[2], beta[2];
  struct tst_typed_memory a, b, c; /* c: also what trmm and trsm overwrite, which have no b */
};

/* Of that name, with m and n from 1 to the most; or an m and an n alone, and alpha is not 0; or, likewise, with these
 * letters ("LUNN": side, uplo, trans, diag), and an A of that order. */
void tst_sided_create(struct tst_sided_call *call, int number, int64_t most, uint64_t *rng);
void tst_sided_create_sized(struct tst_sided_call *call, int number, int64_t m, int64_t n, uint64_t *rng);
void tst_sided_create_as(struct tst_sided_call *call, int number, const char *letters, int64_t order, int64_t other,
                         uint64_t *rng);
void tst_sided_destroy(struct tst_sided_call *call);

/* The order of A. */
int64_t tst_sided_order(const struct tst_sided_call *call);

/* On these operands, or the call's own. */
void tst_sided_make_on(const struct tst_sided_call *call, const void *a, const void *b, void *c);
void tst_sided_make(const struct tst_sided_call *call);

/* NULL: all memory is what it must be; else what is wrong, in static memory. */
const char *tst_sided_wrong(const struct tst_sided_call *call);

/* C as it was. */
void tst_sided_restore(struct tst_sided_call *call);

#endif
