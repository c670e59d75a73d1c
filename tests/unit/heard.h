/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program's own error handlers, and a program without a CPU BLAS: what the tests of refused calls share. xerbla_ and
 * cblas_xerbla write down what they hear; dlopen, in place of the loader's, finds nothing where no BLAS is to be there.
 * For one thread.
 */
#ifndef TST_HEARD_H
#define TST_HEARD_H

#include <stdbool.h>
#include <stddef.h>

#include "tileblas.h"
#include "typed.h"

struct heard {
  int calls, info, by_c;
  char name[32];
  size_t length; /* that came with the name */
};
extern struct heard heard; /* the latest, and how many since it was cleared */

extern const char *library; /* "none" or the CPU BLAS's path; to be set first */
bool alone(void);           /* there is none */

/* What is to be heard of a routine that refuses a parameter: "cblas_csyrk", "CSYRK ", "CGEMMTR". */
struct heard to_be_heard(const struct tst_typed_name *name, int parameter);

/* The same routine of the CPU BLAS's own, with 32-bit integers; NULL: it has none. */
void *in_library(const struct tst_typed_name *name);

/* Within a cmocka test. */
void expect_heard(const struct tst_typed_name *name, bool row_major, const struct heard *want);

/* Within a cmocka test: one call more than there was, as the CPU's, with its operations. What is refused has none; and
 * there netlib's CBLAS, which calls Fortran's function for it, is another caller. */
void expect_counted(const char *name, bool row_major, const tileblas_stats *was, double flops);

#endif
