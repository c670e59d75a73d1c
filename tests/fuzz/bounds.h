/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How far the calls of level3.h may be off. The words are those of expected.h: K terms, S the sum of their sizes, u and
 * t the type's unit and least number.
 *
 * A product, whatever its operands' structure, is one chain of K terms in some order, with `more` roundings for alpha,
 * beta and what else is added: two products of syr2k, and for each of trmm's steps a sum that joins others:
 *
 *     |got - exact|  <=  gamma(K + more) (|alpha| S + |beta C|) + underflow
 *
 * Of a solve it is the residual that is bounded (kernels/PRECISION.md, "Triangles"), with the solution's own sizes; a
 * leaf has at most 64 rows, a complex quotient some six roundings, and alpha multiplies B first:
 *
 *     |alpha B - op(A) X|  <=  gamma(K + more) (|op(A)| |X| + |alpha B|) + underflow
 *
 * The tensor cores have a bound of 34 terms where K is less, and TILEBLAS_PRECISION=fast 2^-21 S and 2^-39 K max max
 * more (expected.h). Whole numbers leave no room, nor does a solve whose every step is exact.
 *
 * Where the operands have Inf or NaN an element must be what the sums make of them: of a real type that very one, of a
 * complex one Inf or NaN in one of the parts, for libraries differ in which (kernels/PRECISION.md). The zeros of a
 * triangle must not meet an Inf on the GPU. OpenBLAS multiplies by some of them, lets a NaN into rows of a solve that
 * it has nothing to do with, and takes a beta of NaN for 0 where it computes a triangle of C: of such elements any is
 * right.
 */
#ifndef FUZZ_BOUNDS_H
#define FUZZ_BOUNDS_H

#include "factors.h"

struct fuzz_bounds {
  int parts;
  double gamma, sharp_gamma; /* with dgemm's own error, or that of long double, in it */
  double underflow;
  double fast_share, fast_step, overflow;
  bool exact;
};
struct fuzz_bounds fuzz_bounds_of(const struct fuzz_level3 *call, const struct fuzz_product *p, const char *precision);

/* A sum of products and the sum of their sizes, of both parts of an element. */
struct fuzz_sums {
  long double sum[2], size[2];
  double most;  /* the product of the largest of its row and column */
  bool skipped; /* zeros of a triangle, which would have met Inf or NaN */
};

static inline double fuzz_fast_step(const struct fuzz_bounds *b, const struct fuzz_sums *x) {
  return b->fast_step > 0 ? b->fast_step * x->most : 0; /* most: perhaps Inf */
}

/* Of element (i, j); sharp: in long double. What is not finite is made again without the zeros of a triangle. */
struct fuzz_sums fuzz_sums_at(const struct fuzz_real *real, const struct fuzz_level3 *call,
                              const struct fuzz_product *p, int64_t i, int64_t j, bool sharp);

/* Every so manieth element is looked at sharply. */
int64_t fuzz_sharp_step(const struct fuzz_level3 *call, const struct fuzz_product *p);

/* sums += scalar x, of whose sizes `bound` grows. A part of the scalar that is 0 adds nothing. */
void fuzz_add_scaled(long double value[2], long double size[2], double _Complex scalar, const long double x[2],
                     const long double sizes[2]);

/* False: an element is wrong, which `message` tells. `got`: its parts. */
bool fuzz_tell(char *message, size_t room, const char *what, int64_t i, int64_t j, int part, long double got,
               long double expected, long double bound);

extern struct fuzz_compared fuzz_level3_count; /* what was compared so far */

/* What a solve has left in `after`. NULL: all is well. */
const char *fuzz_solved(const struct fuzz_level3 *call, const struct fuzz_product *p, char *after,
                        const struct fuzz_asked *asked);

#endif
