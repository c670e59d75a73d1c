/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every symbol that the library promises, with the element type and the calling convention behind each name, and one
 * way to call them all. The list is made here, not taken from the product's: a row lost there must fail a test. Thread
 * safe.
 */
#ifndef TST_ABI_H
#define TST_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* By the first letter of a routine's name. */
enum tst_type { TST_S, TST_D, TST_C, TST_Z, TST_TYPES };

static inline bool tst_is_double(enum tst_type type) { return type == TST_D || type == TST_Z; }

/* Numbers in an element: a complex one's real part stands before its imaginary part. And the bytes of a number. */
static inline int tst_parts(enum tst_type type) { return type >= TST_C ? 2 : 1; }
static inline int tst_part_bytes(enum tst_type type) { return tst_is_double(type) ? 8 : 4; }

enum tst_abi {
  TST_CBLAS32,   /* cblas.h, int */
  TST_CBLAS64,   /* cblas.h, 64-bit integers */
  TST_FORTRAN32, /* everything by address, string lengths of the two characters behind the last argument */
  TST_FORTRAN64
};

struct tst_symbol {
  const char *name;
  enum tst_type type;
  enum tst_abi abi;
};

/* A routine's names stand together: the first TST_SPELLINGS are sgemm's. */
enum { TST_SPELLINGS = 10 };
extern const struct tst_symbol tst_symbols[];
extern const size_t tst_symbol_count;

/* C = alpha * op(A) op(B) + beta * C, as the BLAS has it. The letters are N, T, C; lower case only through Fortran.
 * alpha and beta hold any type's; what is called gets them rounded to its own. */
struct tst_problem {
  bool row_major; /* never through Fortran */
  char trans_a, trans_b;
  int64_t m, n, k;
  double _Complex alpha;
  int64_t lda, ldb;
  double _Complex beta;
  int64_t ldc;
};

bool tst_is_fortran(const struct tst_symbol *symbol);
bool tst_is_64bit(const struct tst_symbol *symbol);
/* gemm3m, which computes what gemm does, and may multiply three times where that does four times. */
bool tst_is_3m(const struct tst_symbol *symbol);
const struct tst_symbol *tst_find_symbol(const char *name);

/* Calls `function`, which has the convention of `symbol` and takes elements of its type. Illegal values pass through as
 * they are. */
void tst_call(const struct tst_symbol *symbol, void *function, const struct tst_problem *p, const void *a,
              const void *b, void *c);

/* The function that a program linked against this process's libraries gets for the symbol. */
void *tst_resolve(const struct tst_symbol *symbol);

#endif
