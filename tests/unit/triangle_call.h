/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random calls of the routines that compute a triangle of C, by every spelling, and what they must leave: elements
 * within the bound of one chain, all other memory as it was. What must not be read is NaN: the other triangle, padding,
 * C where beta is 0, A and B where alpha is, and the imaginary parts of a Hermitian diagonal. Any thread may make calls
 * of its own.
 */
#ifndef TST_TRIANGLE_CALL_H
#define TST_TRIANGLE_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "placed.h"
#include "typed.h"

/* A routine in a spelling: of so many, one behind another. And the shapes. */
enum { GEMMT, SYRK, HERK, SYR2K, HER2K };
enum { TST_TRIANGLE_ROUTINES = 20, TST_TRIANGLE_NAMES = TST_TYPED_SPELLINGS * TST_TRIANGLE_ROUTINES };
void tst_triangle_find(int number, struct tst_typed_name *name);

struct tst_triangle_call {
  struct tst_typed_name name;
  bool row_major;
  char uplo, ta, tb; /* tb: gemmt's own; of the others ta's */
  int64_t n, k, lda, ldb, ldc;
  double alpha[2], beta[2];
  struct tst_typed_memory a, b, c;
};

/* Of that name, with n and k from 1 to the most; or an n and a k alone, and alpha is not 0. */
void tst_triangle_create_sized(struct tst_triangle_call *call, int number, int64_t n, int64_t k, uint64_t *rng);
void tst_triangle_create(struct tst_triangle_call *call, int number, int64_t most_n, int64_t most_k, uint64_t *rng);
void tst_triangle_destroy(struct tst_triangle_call *call);

/* On these operands, or the call's own. */
void tst_triangle_make_on(const struct tst_triangle_call *call, const void *a, const void *b, void *c);
void tst_triangle_make(const struct tst_triangle_call *call);

/* With all of them in memory of that kind, of the GPU that tst_cuda_begin named. False: C does not come back. */
bool tst_triangle_make_placed(struct tst_triangle_call *call, enum tst_kind kind);

/* NULL: its C is what it must be; else what is wrong, in static memory. */
const char *tst_triangle_wrong(const struct tst_triangle_call *call);

/* C as it was. */
void tst_triangle_restore(struct tst_triangle_call *call);

#endif
