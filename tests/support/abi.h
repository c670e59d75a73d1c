/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every sgemm symbol that the library promises, with the calling convention behind each name, and one way to call them
 * all. The list is written out here, not taken from the product's: a row lost there must fail a test. Thread safe.
 */
#ifndef TST_ABI_H
#define TST_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tst_abi {
  TST_CBLAS32,   /* cblas.h, int */
  TST_CBLAS64,   /* cblas.h, 64-bit integers */
  TST_FORTRAN32, /* everything by address, string lengths of the two characters behind the last argument */
  TST_FORTRAN64
};

struct tst_symbol {
  const char *name;
  enum tst_abi abi;
};

extern const struct tst_symbol tst_symbols[];
extern const size_t tst_symbol_count;

/* C = alpha * op(A) op(B) + beta * C, as the BLAS has it. The letters are N, T, C; lower case only through Fortran. */
struct tst_problem {
  bool row_major; /* never through Fortran */
  char trans_a, trans_b;
  int64_t m, n, k;
  float alpha;
  int64_t lda, ldb;
  float beta;
  int64_t ldc;
};

bool tst_is_fortran(const struct tst_symbol *symbol);
bool tst_is_64bit(const struct tst_symbol *symbol);
const struct tst_symbol *tst_find_symbol(const char *name);

/* Calls `function`, which has the convention of `symbol`. Illegal values pass through as they are. */
void tst_call(const struct tst_symbol *symbol, void *function, const struct tst_problem *p, const float *a,
              const float *b, float *c);

/* The function that a program linked against this process's libraries gets for the symbol. */
void *tst_resolve(const struct tst_symbol *symbol);

#endif
