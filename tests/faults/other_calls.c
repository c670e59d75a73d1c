/* SPDX-License-Identifier: BSD-3-Clause */
#include "other_calls.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rng.h"

enum { COL_MAJOR = 102, NO_TRANS = 111, UPPER = 121, NON_UNIT = 131, LEFT = 141, RIGHT = 142 };

static double *numbers(int64_t count, unsigned below, int64_t less, uint64_t *seed) {
  double *const x = malloc((size_t)count * sizeof *x);
  if (x == NULL) abort();
  for (int64_t i = 0; i < count; i++) x[i] = (double)((int64_t)tst_random_below(seed, below) - less);
  return x;
}

static bool is_exact(const char *what, const double *x, const double *want, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (!(x[i] == want[i])) {
      printf("%s: number %lld is %g instead of %g\n", what, (long long)i, x[i], want[i]);
      return false;
    }
  return true;
}

/* ---- trsm ---- */

typedef void trsm(int, int, int, int, int, int, int, double, const double *, int, double *, int);

/* An upper triangle of few numbers, and 1 and -1 on its diagonal. */
static double *triangle(int order, uint64_t *seed) {
  double *const a = numbers((int64_t)order * order, 40, 20, seed);
  for (int j = 0; j < order; j++)
    for (int i = 0; i < order; i++) {
      double *const x = &a[i + j * order];
      *x = i > j ? 1e30 : i == j ? (*x < 0 ? -1 : 1) : *x > 2 || *x < -2 ? 0 : *x; /* below nothing is read */
    }
  return a;
}

/* B = A X or X A. */
static double *right_side(int side, const double *a, const double *x, int m, int n) {
  const int order = side == LEFT ? m : n;
  double *const b = calloc((size_t)(m * n), sizeof *b);
  if (b == NULL) abort();
  for (int j = 0; j < n; j++)
    for (int l = 0; l < order; l++)
      for (int i = 0; i < m; i++)
        if (side == LEFT ? l >= i : l <= j)
          b[i + j * m] += side == LEFT ? a[i + l * order] * x[l + j * m] : x[i + l * m] * a[l + j * order];
  return b;
}

static bool solve(const struct tst_library *library, int side, int m, int n) {
  trsm *const function = (trsm *)dlsym(library->handle, "cblas_dtrsm");
  const int order = side == LEFT ? m : n;
  uint64_t seed = (uint64_t)side;
  double *const a = triangle(order, &seed), *const x = numbers((int64_t)m * n, 9, 4, &seed);
  double *const b = right_side(side, a, x, m, n);
  function(COL_MAJOR, side, UPPER, NO_TRANS, NON_UNIT, m, n, 1, a, order, b, m);
  const bool right = is_exact(side == LEFT ? "trsm on the left" : "trsm on the right", b, x, (int64_t)m * n);
  free(a), free(x), free(b);
  return right;
}

/* ---- a batch ---- */

enum { PRODUCTS = 30, M = 40, N = 17, K = 33 };
typedef void batch(int, const int *, const int *, const int *, const int *, const int *, const double *, double **,
                   const int *, double **, const int *, const double *, double **, const int *, int, const int *);

/* C = -A B + 2 C: committed twice it is another. */
static double *expected_of(const double *a, const double *b, const double *c) {
  double *const want = malloc(M * N * sizeof *want);
  if (want == NULL) abort();
  for (int j = 0; j < N; j++)
    for (int i = 0; i < M; i++) {
      double sum = 0;
      for (int l = 0; l < K; l++) sum += a[i + l * M] * b[l + j * K];
      want[i + j * M] = 2 * c[i + j * M] - sum;
    }
  return want;
}

static bool multiply_batch(const struct tst_library *library) {
  batch *const function = (batch *)dlsym(library->handle, "cblas_dgemm_batch");
  const int trans = NO_TRANS, m = M, n = N, k = K, count = PRODUCTS;
  const double alpha = -1, beta = 2;
  double *a[PRODUCTS], *b[PRODUCTS], *c[PRODUCTS], *want[PRODUCTS];
  uint64_t seed = 3;
  bool right = true;
  for (int i = 0; i < PRODUCTS; i++) {
    a[i] = numbers(M * K, 7, 3, &seed), b[i] = numbers(K * N, 7, 3, &seed), c[i] = numbers(M * N, 7, 3, &seed);
    want[i] = expected_of(a[i], b[i], c[i]);
  }
  function(COL_MAJOR, &trans, &trans, &m, &n, &k, &alpha, a, &m, b, &k, &beta, c, &m, 1, &count);
  for (int i = 0; i < PRODUCTS; i++) {
    right = right && is_exact("a product of a batch", c[i], want[i], M * N);
    free(a[i]), free(b[i]), free(c[i]), free(want[i]);
  }
  return right;
}

/* Several pieces for each GPU, and of rows a part that comes down in several; a batch in several pieces. */
bool tst_other_calls(const struct tst_library *library) {
  bool right = solve(library, LEFT, 66, 600) & solve(library, RIGHT, 600, 100);
  library->option_set("TILEBLAS_MEMORY_LIMIT", "300K");
  right &= multiply_batch(library);
  library->option_set("TILEBLAS_MEMORY_LIMIT", "0");
  return right;
}
