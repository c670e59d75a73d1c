/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of complex products share (test_complex.c, test_complex_values.c): a call by any of the exported
 * spellings in either precision, its operands, and what comes of it in long double. Helpers fail the test. One thread.
 */
#ifndef TST_COMPLEX_PRODUCT_H
#define TST_COMPLEX_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "terms.h"

/* The spellings: all of cgemm's and cgemm3m's, then those of double precision; C's own come first. */
enum { COUNT = 40, C_CBLAS = 0, Z_CBLAS = COUNT / 2 };

struct product {
  int spelling;
  bool row_major, whole; /* whole: small whole numbers, of which every sum is exact */
  char ta, tb;
  int64_t m, n, k, lda, ldb, ldc;
  struct tst_number alpha, beta;
  void *a, *b, *c, *before; /* C with a column of padding behind the last */
  int64_t a_count, b_count, c_count;
};

bool doubles(const struct product *p);
size_t bytes(const struct product *p); /* of an element */

void put_element(bool is_double, void *x, int64_t i, struct tst_number value);
struct tst_number element(bool is_double, const void *x, int64_t i);

/* Whether an operand of this transpose is stored by rows of what it is in the product. */
bool stored_by_rows(const struct product *p, char trans);

/* Element (row, column) of op(x). */
struct tst_number stored(const struct product *p, const void *x, char trans, int64_t row, int64_t column, int64_t ld);

/* Operands of p's sizes, whose columns are so much longer than need be; with beta = 0 C has no numbers. */
void fill(struct product *p, int64_t longer, uint64_t *rng);
struct product random_product(int spelling, int64_t most, uint64_t *rng);
void destroy(struct product *p);

void call(const struct product *p, const void *a, const void *b, void *c);

/* Each element within the bound of one chain, or exact; and what is none of C as it was. */
void expect_right(const struct product *p, const void *c);

int64_t gpu_calls(void);
void set(const char *option, const char *value);

#endif
