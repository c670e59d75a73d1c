/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One product through one of the library's symbols, checked in every respect: against fp64 with a strict bound, against
 * OpenBLAS, bit for bit where whole numbers leave no room for rounding, what must stay untouched, and which route
 * answered. For cmocka tests of programs linked with TileBLAS; a failure ends the running test. Not thread safe.
 */
#ifndef TST_CHECK_H
#define TST_CHECK_H

#include "product.h"

/* Before the first test: opens the reference and reads TB_TEST_EXPECT (gpu or cpu: who answers a forced product). */
void tst_check_setup(void);

/* True when TB_TEST_EXPECT is gpu. */
bool tst_expect_gpu(void);

/* Makes operands from the seed, calls, checks. */
void tst_check(const struct tst_symbol *symbol, const struct tst_problem *p, enum tst_values values, uint64_t seed);

/* The same with operands made by the caller, who has remembered them. `exact` demands the exact answer's bits. */
void tst_check_operands(const struct tst_symbol *symbol, const struct tst_problem *p, struct tst_operands *x,
                        bool exact);

#endif
