/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An array that is A of one product after another, some mapped memory of its own, which may be mapped anew; and how
 * often it goes up. Numbers are whole, so that each result is the CPU's, bit by bit. Forced to the GPU, TILEBLAS_CACHE
 * as the test says. One array in a process; ends that where something is not to be had.
 */
#ifndef TST_KEPT_ARRAY_H
#define TST_KEPT_ARRAY_H

#include <stdbool.h>
#include <stdint.h>

/* A is TST_ARRAY_M x TST_ARRAY_K, stored by lines, in four slots and a part of one, of columns of a slot's cell or
 * longer: a little more than CUDA is asked about by the way (src/cache/watch.c). B is less than what may stay. */
enum { TST_ARRAY_M = 700, TST_ARRAY_N = 3, TST_ARRAY_K = 3000, TST_PAGE = 4096 };
enum {
  TST_ARRAY_ELEMS = TST_ARRAY_M * TST_ARRAY_K,
  TST_ARRAY_BYTES = TST_ARRAY_ELEMS * 4,
  TST_ARRAY_M_MOST = 3500,
  TST_ARRAY_MAPPED = (TST_ARRAY_BYTES + TST_PAGE - 1) / TST_PAGE * TST_PAGE + TST_PAGE
};

/* A has so many rows, TST_ARRAY_M_MOST or less; to be called first, where it is to be another array, and then for some
 * of its first rows. */
void tst_array_set_rows(int m);

/* The calls that follow begin with this row. */
void tst_array_set_first(int row);

void tst_set_option(const char *option, const char *value);

/* B. */
void tst_array_begin(const char *cache, uint64_t *seed);

/* Anything but zeros in all of A; the same in new memory, in the place of the old or, behind tst_array_leave,
 * elsewhere.
 */
void tst_array_fill(uint64_t *seed);
void tst_array_map(uint64_t *seed);
void tst_array_leave(void);

/* A, which does not begin with a page, and its mapping, which does. */
float *tst_array(void);
char *tst_array_mapping(void);

/* A call. Whether it is right; and whether A went up, or how many bytes did in all. */
bool tst_array_call(bool *up);
uint64_t tst_array_went_up(void);

/* How often A goes up in so many calls; -1: something was wrong. */
int tst_array_ups(int calls);

/* Whether A stays at all, where the kernel says who writes: found out in a process of its own. */
bool tst_array_stays(void);

/* A case in a process of its own, which is told by what it is given. */
void tst_array_case(int (*body)(void *), const char *which);

/* Whether that is as expected, and if not says so of `what`. A real driver does not say what went up. */
bool tst_array_ups_are(const char *what, int ups, int expected);

#endif
