/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Triangles that can be solved with, and right-hand sides of which the solution is known; and what a solve must have
 * left, see solved.c. Not thread safe.
 */
#ifndef FUZZ_SOLVABLE_H
#define FUZZ_SOLVABLE_H

#include "level3.h"

/* Makes a triangle of what is in an image: with a diagonal that is not small, and elements beside it that are, unless
 * the solution may grow; graded where values are FUZZ_WIDE; of whole numbers the diagonal is powers of two. */
void fuzz_make_solvable(const struct fuzz_level3 *call, const struct fuzz_matrix *a, uint64_t *rng);

/* Whether every step of the solve is exact, so that the solution's bits are known. The image of B holds the solution
 * then, and this makes it the right-hand side. */
bool fuzz_is_exact_solve(const struct fuzz_level3 *call, const struct fuzz_product *p);
void fuzz_make_right_hand_side(const struct fuzz_level3 *call, const struct fuzz_product *p);

#endif
