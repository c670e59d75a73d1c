/* SPDX-License-Identifier: BSD-3-Clause */
/* One product of so many elements of C that check.h would take longest of all, checked in passing. Thread safe. */
#ifndef TST_OUTER_H
#define TST_OUTER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Calls `sgemm`, a cblas_sgemm with int, for C += A B^T with k = 2, so that C should be doubled: whole numbers, exact.
 * No operand has padding, and none needs any on the GPU if m and n are multiples of 32. Prints what is wrong, and
 * returns false.
 */
bool tst_outer_is_right(void *sgemm, int64_t m, int64_t n);

#endif
