/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every measuring program needs: operands, the clock, and how far a product is from the exact one.
 *
 * Values depend on (kind, seed, index) alone, so every program and every run multiplies the same matrices. Errors are
 * |C - exact| / (|A||B|) element by element in units of u, half a unit in the last place of the type: 2^-24 for s and
 * c, 2^-53 for d and z. The exact product and |A||B| are sums in fp64, and for d and z in two doubles together. Of
 * complex elements each part counts by itself, |A||B| being the sum of the sizes of its own 2 k terms. Matrices are
 * column-major. Thread-safe; the fills and checks use all cores themselves.
 */
#ifndef TB_BENCH_DATA_H
#define TB_BENCH_DATA_H

#include <stdbool.h>
#include <stddef.h>

#include "blas/region.h"
#include "blas/type.h"

/* TB_KIND(id, "name"): the kinds of data on which accuracy is judged. The first three are ordinary data. */
#define TB_DATA_KINDS(TB_KIND)                                                                                     \
  TB_KIND(TB_UNIFORM01, "uniform(0,1)")  /* one sign: shows an accumulator's drift */                              \
  TB_KIND(TB_UNIFORM, "uniform(-.5,.5)") /* zero mean: hides it */                                                 \
  TB_KIND(TB_NORMAL, "normal")                                                                                     \
  TB_KIND(TB_WIDE, "log-uniform 2^+-20")    /* +-2^e, e uniform in [-20, 20] */                                    \
  TB_KIND(TB_WIDER, "log-uniform 2^+-60")   /* and in [-60, 60] */                                                 \
  TB_KIND(TB_GRADED, "graded")              /* A falls by 2^40 along k and B rises: small entries matter */        \
  TB_KIND(TB_HUGE, "huge elements")         /* normal; one element of a row of A is 2^40 times larger, and meets   \
                                               zeros in every other column of B: there the small entries matter */ \
  TB_KIND(TB_SUBNORMAL, "subnormal A")      /* uniform; half of A's words below 2^-126, B of 2^100: ordinary C */  \
  TB_KIND(TB_SUBNORMAL_C, "subnormal A, C") /* uniform; all of A's words below 2^-126, B of 1: C is no larger */   \
  TB_KIND(TB_INTEGER, "integers")           /* up to 2^11, |A||B| at most 2^24: every fp32 product is exact */

/* In double precision: below 2^-1022 and B of 2^900; up to 2^26, and at most 2^53. */

enum tb_data_kind {
#define TB_KIND(id, name) id,
  TB_DATA_KINDS(TB_KIND)
#undef TB_KIND
      TB_DATA_KIND_COUNT
};
extern const char *const tb_data_kind_name[TB_DATA_KIND_COUNT];

enum tb_operand { TB_OPERAND_A, TB_OPERAND_B }; /* k runs along the columns of A and along the rows of B */

/* Fills a rows x cols matrix without padding. */
void tb_data_fill(float *x, size_t rows, size_t cols, enum tb_data_kind kind, enum tb_operand which, unsigned seed);

/* The same for elements of any type; of complex ones the parts are drawn apart, the real ones as those of a real
 * matrix. */
void tb_data_fill_type(enum tb_type type, void *x, size_t rows, size_t cols, enum tb_data_kind kind,
                       enum tb_operand which, unsigned seed);

/*
 * op(X) as the product reads it: element (i, p) of op(X) is data[(offset + i + p * ld) % wrap], or p + i * ld when
 * transposed. wrap is the length of a pool of values that is repeated to fill large buffers; 0: data is the matrix.
 */
struct tb_pool_view {
  const void *data;
  size_t offset, wrap, ld;
  int transposed;
  enum tb_type type; /* TB_S when not said */
  bool conjugated;
  /* What is stored of X: all, or a triangle, beside which X is zero or the triangle's mirror image. */
  enum tb_pool_structure { TB_POOL_GENERAL, TB_POOL_TRIANGULAR, TB_POOL_SYMMETRIC, TB_POOL_HERMITIAN } structure;
  bool upper, unit; /* the triangle, and whether its diagonal counts as ones, whatever is stored there */
  /* Behind its first then_at of k stands another matrix; NULL: none does. */
  const struct tb_pool_view *then;
  size_t then_at;
};

/* A unit is u |A||B|, but at least half the distance of neighbours, which does not shrink below 2^-126 (2^-1022). */
struct tb_error {
  double max_u, mean_u; /* of |error|; NaN or infinity when C is not finite or an element is wrong where |A||B| is 0 */
  double bias_u;        /* mean of the error's component away from zero: negative when results are too small */
};

enum { TB_SAMPLE_MAX = 64 };
/* Which rows (columns) of C to look at: all when size <= TB_SAMPLE_MAX, else the first, the last and others at random.
 * Writes at most TB_SAMPLE_MAX indices and returns how many. */
int tb_sample(size_t size, unsigned seed, size_t index[TB_SAMPLE_MAX]);

/* Error of the elements C(row[i], col[j]) = c[i + j * rows] of op(A) op(B), alpha = 1 and beta = 0, all of one type. */
struct tb_error tb_sample_error(struct tb_pool_view a, struct tb_pool_view b, size_t k, const size_t *row, int rows,
                                const size_t *col, int cols, const void *c);

/* The same of those elements alone that lie in a triangle of C, its diagonal counted in. */
struct tb_error tb_sample_error_in(enum tb_region_of region, struct tb_pool_view a, struct tb_pool_view b, size_t k,
                                   const size_t *row, int rows, const size_t *col, int cols, const void *c);

/* Error of all `count` elements of c against fp64 results and fp64 |A||B|. */
struct tb_error tb_full_error(const float *c, const double *exact, const double *magnitude, size_t count);

/*
 * The largest max_u that a correct product of depth k may show: 4 sqrt(k) + 4. Rounding errors add up like a
 * random walk, within lambda sqrt(k) u with probability 1 - 2 exp(-lambda^2 / 2) even if every single one had the worst
 * size (Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019); real ones are several times
 * smaller. One product of k too many or too few moves an element by about 1 / (k u) units, which is far more. Of a
 * complex product, whose parts are sums of twice as many terms, k is 2 k.
 */
double tb_error_bound_u(size_t k);

/* Calls part(ctx, begin, end) on parts of [0, count) from all cores; returns when all are done. */
void tb_parallel(size_t count, void (*part)(void *ctx, size_t begin, size_t end), void *ctx);

/* `count` floats, or elements of a type, from malloc; exits when there is no memory. */
float *tb_alloc(size_t count);
void *tb_alloc_type(enum tb_type type, size_t count);

/* 1 and 0 of a type, for BLAS's alpha and beta. */
const void *tb_one(enum tb_type type);
const void *tb_zero(enum tb_type type);

double tb_now_s(void);
double tb_median(double *values, int count); /* sorts the values */

#endif
