/* SPDX-License-Identifier: BSD-3-Clause */
#include "kept_dense.h"

#include <string.h>

#include "abi.h"
#include "rng.h"

enum { OTHERS = 187 }; /* with one more it would be a MiB, and kept */

static float others[OTHERS * KEPT_DENSE_K]; /* along k */
static float c[OTHERS * KEPT_DENSE_SIDES], wanted[OTHERS * KEPT_DENSE_SIDES];

void kept_dense_begin(uint64_t *rng) {
  for (int i = 0; i < OTHERS * KEPT_DENSE_K; i++) others[i] = (float)(tst_random_below(rng, 5) - 2);
}

struct kept_dense kept_dense_choose(uint64_t *rng) {
  struct kept_matrix *const all = &kept_matrices[KEPT_MATRICES + KEPT_SQUARES];
  return (struct kept_dense){.of = &all[tst_random_below(rng, KEPT_DENSE)], .is_b = tst_random_below(rng, 2)};
}

static void multiply(const struct kept_dense *d) {
  const struct kept_matrix *const m = d->of;
  const struct tst_symbol *const symbol = tst_find_symbol("cblas_sgemm");
  struct tst_problem p = {.k = KEPT_DENSE_K, .alpha = 1};
  p.m = p.ldc = d->is_b ? OTHERS : KEPT_DENSE_SIDES, p.n = d->is_b ? KEPT_DENSE_SIDES : OTHERS;
  p.trans_a = d->is_b || m->tall ? 'T' : 'N', p.trans_b = d->is_b && !m->tall ? 'T' : 'N';
  p.lda = d->is_b ? KEPT_DENSE_K : m->ld, p.ldb = d->is_b ? m->ld : KEPT_DENSE_K;
  tst_call(symbol, tst_resolve(symbol), &p, d->is_b ? (const void *)others : m->data,
           d->is_b ? m->data : (const void *)others, c);
}

/* At most 12 k. Line after line of both along k. */
static void expect(const struct kept_dense *d) {
  static float sides[KEPT_DENSE_SIDES], other[OTHERS];
  const struct kept_matrix *const m = d->of;
  const float *const x = (const float *)(const void *)m->data;
  const float *const first = d->is_b ? other : sides, *const second = d->is_b ? sides : other;
  const int rows = d->is_b ? OTHERS : KEPT_DENSE_SIDES, columns = d->is_b ? KEPT_DENSE_SIDES : OTHERS;
  memset(wanted, 0, sizeof wanted);
  for (int64_t l = 0; l < KEPT_DENSE_K; l++) {
    for (int64_t i = 0; i < KEPT_DENSE_SIDES; i++) sides[i] = m->tall ? x[l + i * m->ld] : x[i + l * m->ld];
    for (int64_t i = 0; i < OTHERS; i++) other[i] = others[l + i * KEPT_DENSE_K];
    for (int j = 0; j < columns; j++)
      for (int i = 0; i < rows; i++) wanted[i + j * rows] += first[i] * second[j];
  }
}

bool kept_dense_is_right(const struct kept_dense *d) {
  memset(c, 0, sizeof c);
  multiply(d);
  expect(d);
  return memcmp(c, wanted, sizeof c) == 0;
}
