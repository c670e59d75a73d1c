/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of this room share: products whose result is known, and children of the test's own program. */
#ifndef TST_GUEST_H
#define TST_GUEST_H

#include <stdbool.h>
#include <stddef.h>

/* C = A B + beta C of n x n ones through cblas_sgemm, whole numbers all; the memory is the caller's, 3 n n floats. */
void tst_guest_fill(float *memory, int n);
void tst_guest_call(float *memory, int n, float beta);
bool tst_guest_is_right(const float *memory, int n, float beta);

/* All of it, in memory of its own. */
bool tst_guest_product(int n);

/* Whether a GPU is expected to answer, and calls that one answered. */
bool tst_guest_expects_gpu(void);
unsigned long long tst_guest_gpu_calls(void);

/* Runs this program anew with one argument and more environment (NULL: none), and demands status 0 and so many lines of
 * the library's on stderr. */
void tst_guest_run(const char *part, const char *const *environment, size_t lines);

#endif
